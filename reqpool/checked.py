"""CheckedPool: the guard rail. Same pool, but a write that cannot be right raises before it lands.

What torch lets through, and what it does to a table of rows 1..2 and 8 positions:

    write((1, -1), 7)              index -1 wraps: the last position of row 1 is written
    write((0, 0), 7)               the padding row, which belongs to nobody
    write((3, 0), 7)               a row that is free: its next owner finds the slot
    write((2, slice(6, 10)), ..)   a slice past the end is cut; a flat, kernel-style write runs into row 3
    write((1, 0), 2**31)           does not fit an int32
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from reqpool.pool import MAX_SLOT, ReqToTokenPool, ReqToTokenPoolInfo, _integer, _slot_tensor


class CheckedPool(ReqToTokenPool):
    """A `ReqToTokenPool` whose writes are checked first: rows, positions, slots. Slower, and it waits for the device.

    Args:
        exclusive_slots: refuse a slot, other than the dummy slot 0, that another row already holds
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
        self._written = torch.zeros_like(
            self.req_to_token, dtype=torch.bool
        )  # by `write`, since the row was handed out

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
        row_index, position_index = _two_axes(indices)
        rows = _axis("row", row_index, self.size + 1)
        positions = _axis("position", position_index, self.max_context_len)
        self._check_rows(rows)
        self._check_positions(rows, positions)
        cells = self._cells((row_index, position_index))
        slots = _slots(values)
        if not _fits(slots.shape, cells.shape):
            raise ValueError(
                f"write of {_shape(slots.shape)} slots into {_shape(cells.shape)} cells: "
                f"wanted one slot a cell, or one for all (rows {_few(rows)})"
            )
        self._check_exclusive((row_index, position_index), slots)
        super().write((row_index, position_index), slots.to(self.device, torch.int32))
        self._written[row_index, position_index] = True

    def _reset_on_reuse(self, index: Tensor) -> None:
        super()._reset_on_reuse(index)
        self._written[index.to(self.device)] = False

    def append(self, req_or_row: Any, slots: Tensor | Iterable[int]) -> None:
        """As `ReqToTokenPool.append`; with `exclusive_slots` it refuses a slot that another live cell holds."""
        row = self._row_of(req_or_row, "append")
        slots = _slot_tensor("slots", slots)
        start = int(self.alloced_lens_cpu[row])
        if start + len(slots) <= self.max_context_len:
            self._check_exclusive((row, slice(start, start + len(slots))), slots)
        super().append(row, slots)

    def set_req_pool_info(self, req_pool_idx: int, info: ReqToTokenPoolInfo) -> None:
        """As `ReqToTokenPool.set_req_pool_info`; with `exclusive_slots` it refuses a slot another live cell holds."""
        row = _integer("req_pool_idx", req_pool_idx)
        if row in self._holders and isinstance(info, ReqToTokenPoolInfo):
            num_slots = len(info.alloced_slots)
            if num_slots <= self.max_context_len:
                self._check_exclusive((row, slice(0, num_slots)), info.alloced_slots)
        super().set_req_pool_info(row, info)

    def _check_rows(self, rows: Sequence[int]) -> None:
        for row in rows:
            if row in self._holders or (row == self.padding_row and self._padding_writes):
                continue
            hint = " (or `with pool.padding_writes():`)" if row == self.padding_row else ""
            raise ValueError(f"write to row {row}: it is {self._state(row)}, wanted a row that is handed out{hint}")

    def _check_positions(self, rows: Sequence[int], positions: Sequence[int]) -> None:
        if not positions:
            return
        ends = (positions[0], positions[-1]) if isinstance(positions, range) else positions
        if min(ends) < 0:
            raise ValueError(f"write at position {min(ends)} of row {_few(rows)}: wanted 0..{self.max_context_len - 1}")
        if max(ends) >= self.max_context_len:
            raise ValueError(
                f"write of {len(positions)} slots does not fit row {_few(rows)}: "
                f"max_context_len is {self.max_context_len}"
            )

    def _cells(self, indices: Any) -> Tensor:
        """The row number of each cell that `indices` names, in the shape the values must have."""
        numbers = torch.arange(self.size + 1, device="cpu")[:, None].expand(self.size + 1, self.max_context_len)
        try:
            return numbers[tuple(index.cpu() if isinstance(index, Tensor) else index for index in indices)]
        except IndexError as error:
            raise ValueError(f"write: rows and positions do not go together: {error}") from error

    def _check_exclusive(self, indices: Any, slots: Tensor) -> None:
        """Each slot that is written may, afterwards, be in one row only: live cells and those of `write` count."""
        if not self.exclusive_slots:
            return
        table, written = self.req_to_token.clone(), self._written.clone()
        table[indices], written[indices] = slots.to(self.device, torch.int32), True
        positions = torch.arange(self.max_context_len, device=self.device)
        held = (positions < self.alloced_lens[:, None]) | written
        holders: dict[int, int] = {}
        for row in sorted(self._holders):
            for slot in set(table[row, held[row]].tolist()) - {0}:
                other = holders.setdefault(slot, row)
                if other != row and bool(torch.isin(slot, slots.to(self.device))):
                    raise ValueError(
                        f"write of slot {slot}: it would be in row {other} ({self._state(other)}) and in row {row} "
                        f"({self._state(row)}), wanted a slot that no other row holds"
                    )


def _two_axes(indices: Any) -> tuple[Any, Any]:
    """Rows and positions, in whichever way torch lets one name them."""
    if isinstance(indices, tuple):
        if len(indices) not in (1, 2):
            raise ValueError(f"write: {len(indices)} indices, wanted rows, or rows and positions")
        return indices if len(indices) == 2 else (indices[0], slice(None))
    if not isinstance(indices, (int, slice)):
        mask = _tensor("row", indices)
        if mask.dtype == torch.bool and mask.dim() == 2:
            rows, positions = mask.nonzero(as_tuple=True)
            return rows, positions
    return indices, slice(None)


def _axis(name: str, index: Any, length: int) -> Sequence[int]:
    """The numbers an index names on one axis; torch's wrapping and cutting undone."""
    if isinstance(index, slice):
        if any(bound is not None and bound < 0 for bound in (index.start, index.stop)):
            raise ValueError(f"write: {name}s {index.start}:{index.stop} count from the end, wanted numbers from 0")
        return range(index.start or 0, length if index.stop is None else index.stop, index.step or 1)
    numbers = _tensor(name, index)
    if numbers.dtype == torch.bool and numbers.dim() == 1:
        if len(numbers) != length:
            raise ValueError(f"write: a mask of {len(numbers)} {name}s, wanted {length}")
        numbers = numbers.nonzero().flatten()
    if numbers.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8):  # uint8 would be a mask to torch
        raise TypeError(f"write: {name} must be a signed integer, got {numbers.dtype} {tuple(numbers.shape)}")
    return numbers.flatten().tolist()


def _tensor(name: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values, device=None if isinstance(values, Tensor) else "cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        if "Overflow" in str(error):
            raise ValueError(f"write: {name} {values!r} is out of range, wanted 0..{MAX_SLOT} at most") from error
        raise TypeError(f"write: {name}s must be integers, got {values!r}") from error


def _slots(values: Any) -> Tensor:
    slots = _tensor("slot", values)
    if slots.numel() == 0:
        return slots.long()
    if slots.dtype == torch.bool or slots.is_floating_point() or slots.is_complex():
        raise TypeError(f"write: slots must be integers, got {slots.dtype}")
    slots = slots.long()  # a uint64 beyond int64 comes out negative, and is refused as such
    low, high = int(slots.min()), int(slots.max())
    if low < 0 or high > MAX_SLOT:
        raise ValueError(f"write of slot {low if low < 0 else high}: wanted 0..{MAX_SLOT}, a cell is an int32")
    return slots


def _fits(values: torch.Size, cells: torch.Size) -> bool:
    """Torch's rule for an assignment: leading ones of the values do not count, the rest is broadcast."""
    while len(values) > len(cells) and values[0] == 1:
        values = values[1:]
    try:
        return torch.broadcast_shapes(values, cells) == cells
    except RuntimeError:
        return False


def _shape(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "1"


def _few(rows: Sequence[int]) -> str:
    names = [str(row) for row in dict.fromkeys(rows[:64])]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
