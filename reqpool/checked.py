"""CheckedPool: the guard rail. Same pool, but a write that cannot be right raises before it lands.

What torch lets through, and what it does to a table of rows 1..2 and 8 positions:

    write((1, -1), 7)              index -1 wraps: the last position of row 1 is written
    write((0, 0), 7)               the padding row, which belongs to nobody
    write((3, 0), 7)               a row that is free: its next owner finds the slot
    write((2, slice(6, 10)), ..)   a slice past the end is cut; a flat, kernel-style write runs into row 3
    write((1, 0), 2**31)           does not fit an int32
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from reqpool.pool import MAX_SLOT, ReqToTokenPool, ReqToTokenPoolInfo


class CheckedPool(ReqToTokenPool):
    """A `ReqToTokenPool` whose writes are checked first: rows, positions, slots. Slower, and it waits for the device.

    Args:
        exclusive_slots: refuse a slot, other than the dummy slot 0, that a live cell of another row already holds
            (off by default: rows that share a prefix share its slots).
        Everything else as in `ReqToTokenPool`.

    >>> pool = CheckedPool(size=2, max_context_len=8, device="cpu")
    >>> rows = pool.alloc_rows(2)
    >>> pool.write((2, torch.arange(9)), torch.arange(9))
    Traceback (most recent call last):
    ValueError: write of 9 slots does not fit row 2: max_context_len is 8
    >>> pool.write((1, -1), 5)
    Traceback (most recent call last):
    ValueError: write at position -1 of row 1: wanted 0..7
    """

    def __init__(self, *args: Any, exclusive_slots: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exclusive_slots = exclusive_slots
        self._padding_writes = False

    @contextmanager
    def padding_writes(self) -> Iterator[None]:
        """Inside this block row 0 may be written: a graph runner's dummy entries do."""
        before, self._padding_writes = self._padding_writes, True
        try:
            yield
        finally:
            self._padding_writes = before

    def write(self, indices: Any, values: Any) -> None:
        """As `ReqToTokenPool.write`, checked first.

        Raises:
            ValueError: a row that is not handed out, a position or slot out of range, not one value a cell.
            TypeError: an index or values that are not integers.
        """
        if isinstance(indices, Tensor) and indices.dtype == torch.bool and indices.dim() == 2:
            indices = indices.nonzero(as_tuple=True)
        row_index, position_index = (
            indices if isinstance(indices, tuple) and len(indices) == 2 else (indices, slice(None))
        )
        rows = _axis("row", row_index, self.size + 1)
        positions = _axis("position", position_index, self.max_context_len, past_end=True)
        self._check_rows(rows)
        self._check_positions(rows, positions)
        cells = self._cells((row_index, position_index))
        slots = _slots(values)
        if not _fits(slots.shape, cells.shape):
            raise ValueError(
                f"write of {_shape(slots.shape)} slots into {_shape(cells.shape)} cells: "
                f"wanted one slot a cell, or one for all (rows {_few(rows)})"
            )
        self._check_exclusive(rows, slots)
        super().write((row_index, position_index), slots.to(self.device, torch.int32))

    def append(self, req_or_row: Any, slots: Tensor | Iterable[int]) -> None:
        """As `ReqToTokenPool.append`; with `exclusive_slots` it refuses a slot that another live cell holds."""
        slots = slots if isinstance(slots, Tensor) else list(slots)
        self._check_exclusive([self._row_of(req_or_row, "append")], _slots(slots))
        super().append(req_or_row, slots)

    def set_req_pool_info(self, req_pool_idx: int, info: ReqToTokenPoolInfo) -> None:
        """As `ReqToTokenPool.set_req_pool_info`; with `exclusive_slots` it refuses a slot another live cell holds."""
        if req_pool_idx in self._holders:
            self._check_exclusive([req_pool_idx], info.alloced_slots)
        super().set_req_pool_info(req_pool_idx, info)

    def _check_rows(self, rows: list[int]) -> None:
        for row in rows:
            if row in self._holders or (row == self.padding_row and self._padding_writes):
                continue
            hint = " (or `with pool.padding_writes():`)" if row == self.padding_row else ""
            raise ValueError(f"write to row {row}: it is {self._state(row)}, wanted a row that is handed out{hint}")

    def _check_positions(self, rows: list[int], positions: list[int]) -> None:
        if positions and min(positions) < 0:
            raise ValueError(
                f"write at position {min(positions)} of row {_few(rows)}: wanted 0..{self.max_context_len - 1}"
            )
        if positions and max(positions) >= self.max_context_len:
            raise ValueError(
                f"write of {len(positions)} slots does not fit row {_few(rows)}: "
                f"max_context_len is {self.max_context_len}"
            )

    def _cells(self, indices: Any) -> Tensor:
        """The row number of each cell that `indices` names, in the shape the values must have."""
        numbers = torch.arange(self.size + 1)[:, None].expand(self.size + 1, self.max_context_len)
        try:
            return numbers[tuple(index.cpu() if isinstance(index, Tensor) else index for index in indices)]
        except IndexError as error:
            raise ValueError(f"write: rows and positions do not go together: {error}") from error

    def _check_exclusive(self, rows: list[int], slots: Tensor) -> None:
        if not self.exclusive_slots:
            return
        wanted = slots.flatten().to(self.device, torch.int32)
        for row in sorted(set(self._holders) - set(rows)):
            live = self.req_to_token[row, : int(self.alloced_lens_cpu[row])]
            shared = live[(live != 0) & torch.isin(live, wanted)]
            if len(shared):
                raise ValueError(
                    f"write to row {_few(rows)}: slot {int(shared[0])} is in row {row} ({self._state(row)}) already, "
                    "wanted a slot that no other row holds"
                )


def _axis(name: str, index: Any, length: int, past_end: bool = False) -> list[int]:
    """The numbers an index names on one axis; torch's wrapping and cutting undone."""
    if isinstance(index, slice):
        if any(bound is not None and bound < 0 for bound in (index.start, index.stop)):
            raise ValueError(f"write: {name}s {index.start}:{index.stop} count from the end, wanted numbers from 0")
        stop = length if index.stop is None else index.stop
        return list(range(index.start or 0, stop if past_end else min(stop, length), index.step or 1))
    try:
        numbers = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"write: {name} must be integers, a slice or a mask, got {index!r}") from error
    if numbers.dtype == torch.bool:
        numbers = numbers.nonzero().flatten()
    if numbers.is_floating_point() or numbers.is_complex():
        raise TypeError(f"write: {name} must be an integer, got {numbers.dtype}")
    return numbers.flatten().tolist()


def _slots(values: Any) -> Tensor:
    slots = torch.as_tensor(values)
    if slots.dtype == torch.bool or slots.is_floating_point() or slots.is_complex():
        raise TypeError(f"write: slots must be integers, got {slots.dtype}")
    if slots.numel() and (slots.min() < 0 or slots.max() > MAX_SLOT):
        odd = slots.min() if slots.min() < 0 else slots.max()
        raise ValueError(f"write of slot {int(odd)}: wanted 0..{MAX_SLOT}, a cell is an int32")
    return slots


def _fits(values: torch.Size, cells: torch.Size) -> bool:
    try:
        return torch.broadcast_shapes(values, cells) == cells
    except RuntimeError:
        return False


def _shape(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "1"


def _few(rows: list[int]) -> str:
    names = [str(row) for row in dict.fromkeys(rows)]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
