"""KV-cache slots and the tensors behind them: what a cell of `req_to_token` points at.

slot        0        1      2      3     ...  size
K, V     (dummy)    ...    ...    ...         ...        one vector a slot, layer and head
           |
           the dummy slot: the K and V of dummy entries land here; it is never handed out

flatten_rows: the slots of a batch, row after row, as attention kernels read them (CSR)
    kv_indptr   [0, 3, 5]            request i reads kv_indices[kv_indptr[i] : kv_indptr[i + 1]]
    kv_indices  [7, 8, 9, 15, 16]
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqpool.pool import _at_least_one, _integer, _slot_tensor


class TokenToKVPoolAllocator:
    """Hands out the slots 1..size, longest free first; slot 0 is the dummy slot and never in the list.

    Alloc and free of k slots cost O(k): the free slots are a ring in one tensor.

    >>> slots = TokenToKVPoolAllocator(size=4)
    >>> slots.alloc(3), slots.alloc(2), slots.available_size()
    (tensor([1, 2, 3]), None, 1)
    >>> slots.free(torch.tensor([2]))
    >>> slots.alloc(2)
    tensor([4, 2])
    """

    def __init__(self, size: int) -> None:
        self.size = _at_least_one("size", size)
        self.clear()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, free={self.available_size()})"

    def available_size(self) -> int:
        """How many slots are free now."""
        return self._num_free

    def clear(self) -> None:
        """Every slot is free, whoever had it."""
        self._ring = torch.arange(1, self.size + 1)  # the free slots, from _head on, around the end
        self._head, self._num_free = 0, self.size
        self._taken = torch.zeros(self.size + 1, dtype=torch.bool)

    def alloc(self, n: int) -> Tensor | None:
        """n slots as int64 [n], or None when fewer are free; then nothing has changed."""
        n = _integer("n", n)
        if n < 0:
            raise ValueError(f"alloc wants n >= 0 slots, got {n}")
        if n > self._num_free:
            return None
        slots = torch.cat([self._ring[part] for part in self._arc(self._head, n)])
        self._head, self._num_free = (self._head + n) % self.size, self._num_free - n
        self._taken[slots] = True
        return slots

    def free(self, slots: Tensor | Sequence[int]) -> None:
        """Take slots back. Slot 0, a free slot or a slot named twice: ValueError, and nothing has changed."""
        slots = _slot_tensor("slots", slots).cpu().long()
        n = len(slots)
        if n and int(slots.max()) > self.size:
            raise ValueError(f"free of slot {int(slots.max())}: wanted 1..{self.size}")
        if not self._taken[slots].all():
            odd = int(slots[~self._taken[slots]][0])
            raise ValueError(f"free of slot {odd}: it is {'the dummy slot' if odd == 0 else 'free already'}")
        if len(torch.unique(slots)) < n:
            raise ValueError(f"free: a slot is named twice in {slots.tolist()[:16]}, wanted each once")
        done = 0
        for part in self._arc((self._head + self._num_free) % self.size, n):
            length = part.stop - part.start
            self._ring[part] = slots[done : done + length]
            done += length
        self._num_free += n
        self._taken[slots] = False

    def free_what_is_taken(self, slots: Tensor) -> int:
        """Take back those of the slots that are taken, once each, and say how many: for a row that was overwritten.

        Its cells may say anything: what is no slot of 1..size is passed over.
        """
        slots = torch.unique(slots.cpu().long())
        slots = slots[(slots > 0) & (slots <= self.size)]
        taken = slots[self._taken[slots]]
        self.free(taken)
        return len(taken)

    def _arc(self, start: int, n: int) -> list[slice]:
        """The n places of the ring from `start` on: one slice, or two around the end."""
        first = min(n, self.size - start)
        return [slice(start, start + first), slice(0, n - first)]

    def check(self) -> None:
        """Every slot of 1..size is free or taken, exactly once; RuntimeError with both sides otherwise."""
        free = torch.cat([self._ring[part] for part in self._arc(self._head, self._num_free)])
        taken = torch.nonzero(self._taken).flatten()
        counts = torch.bincount(torch.cat([free, taken]), minlength=self.size + 1)
        if counts[0] or not (counts[1:] == 1).all():
            raise RuntimeError(
                f"slots do not add up: {len(free)} free + {len(taken)} taken, wanted each of 1..{self.size} once"
            )


class KVCache:
    """K and V of every slot: two tensors (num_layers, size + 1, num_heads, head_dim), slot 0 included.

    Args:
        size: usable slots, 1..size.
        dtype, device: of the tensors.
    """

    def __init__(
        self,
        size: int,
        num_layers: int = 1,
        num_heads: int = 1,
        head_dim: int = 64,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = [_at_least_one(name, n) for name, n in (("num_layers", num_layers), ("num_heads", num_heads))]
        shape.insert(1, _at_least_one("size", size) + 1)
        self.k = torch.zeros(*shape, _at_least_one("head_dim", head_dim), dtype=dtype, device=device)
        self.v = torch.zeros_like(self.k)

    def write(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """K and V, each [n, num_heads, head_dim], go to slots [n]. A slot named twice keeps either."""
        self.k[layer, slots] = k
        self.v[layer, slots] = v

    def read(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of the K and V of slots [...]: each [..., num_heads, head_dim]."""
        return self.k[layer, slots], self.v[layer, slots]


def flatten_rows(
    pool: Any, req_pool_indices: Tensor | Sequence[int], seq_lens: Tensor | Sequence[int], out: Any = None
) -> tuple[Tensor, Tensor]:
    """The slots of a batch in CSR form: `kv_indices[kv_indptr[i] : kv_indptr[i + 1]]` are those of entry i.

    Args:
        req_pool_indices: rows [B]; a row may come twice (dummy entries all name the padding row).
        seq_lens: how many positions of each row to read [B]. Rows and lengths are wanted on the host: a tensor on a
            GPU is copied, which waits for it, once for each of the two. Nothing else here waits.
        out: (kv_indptr, kv_indices), static int64 and int32 buffers of at least B + 1 and sum(seq_lens) places, to be
            filled from the front; what lies beyond stays. A graph runner calls this before each replay.

    Returns:
        kv_indptr int64 [B + 1] (offsets grow past 2^31 on large tables), kv_indices int32 [sum(seq_lens)], on the
        pool's device.

    Cost: on a CPU one plain copy a row, through a view of the table's memory: a vectorised index would first build
    two int64 index tensors, each twice the size of the result. On a GPU one gather, no loop over rows.
    """
    rows, lens = _host_ints("req_pool_indices", req_pool_indices), _host_ints("seq_lens", seq_lens)
    table = pool.req_to_token
    num_rows, width = table.shape
    if len(rows) != len(lens):
        raise ValueError(f"flatten_rows: {len(rows)} rows and {len(lens)} lengths, wanted one length a row")
    odd = (rows < 0) | (rows >= num_rows) | (lens < 0) | (lens > width)
    if odd.any():
        i = int(odd.argmax())
        raise ValueError(
            f"flatten_rows: {lens[i]} positions of row {rows[i]}: wanted rows 0..{num_rows - 1}, lengths 0..{width}"
        )
    indptr = np.zeros(len(lens) + 1, dtype=np.int64)
    np.cumsum(lens, out=indptr[1:])
    total = int(indptr[-1])
    if out is None:
        out = (
            torch.empty(len(indptr), dtype=torch.int64, device=table.device),
            torch.empty(total, dtype=torch.int32, device=table.device),
        )
    kv_indptr, kv_indices = out
    if len(kv_indptr) < len(indptr) or len(kv_indices) < total:
        raise ValueError(
            f"flatten_rows: out holds {len(kv_indptr)} offsets and {len(kv_indices)} slots, "
            f"wanted at least {len(indptr)} and {total}"
        )
    kv_indptr, kv_indices = kv_indptr[: len(indptr)], kv_indices[:total]
    if table.device.type == "cpu":
        kv_indptr.numpy()[:] = indptr
        _copy_rows(table, rows, lens, indptr, kv_indices)
    else:
        _gather(table, rows, indptr, kv_indptr, kv_indices)
    return kv_indptr, kv_indices


def _copy_rows(table: Tensor, rows: np.ndarray, lens: np.ndarray, indptr: np.ndarray, kv_indices: Tensor) -> None:
    """A slice of a memoryview costs a tenth of a tensor's: so the copies cost more than finding them."""
    cells, flat = memoryview(table.view(-1).numpy()), memoryview(kv_indices.numpy())
    begins, offsets = rows * table.shape[1], indptr.tolist()
    for begin, end, to, upto in zip(begins.tolist(), (begins + lens).tolist(), offsets, offsets[1:], strict=False):
        flat[to:upto] = cells[begin:end]


def _gather(table: Tensor, rows: np.ndarray, indptr: np.ndarray, kv_indptr: Tensor, kv_indices: Tensor) -> None:
    """One copy to the device and one gather for the whole batch; the host waits for neither (not yet run on a GPU).

    Any device will do, so that it can be tested on a CPU.
    """
    host = torch.from_numpy(np.concatenate([indptr, rows]))
    numbers = host.to(table.device, non_blocking=True)
    starts, rows_there = numbers[: len(indptr)], numbers[len(indptr) :]
    kv_indptr.copy_(starts)
    entry = torch.repeat_interleave(starts.diff(), output_size=len(kv_indices))
    position = torch.arange(len(kv_indices), device=table.device) - starts[entry]
    torch.take(table, rows_there[entry] * table.shape[1] + position, out=kv_indices)


def _host_ints(name: str, numbers: Tensor | Sequence[int]) -> np.ndarray:
    """int64 [n] on the host: on a CPU no copy of an int64 tensor, on a GPU one that waits for it."""
    if isinstance(numbers, Tensor):
        if numbers.is_floating_point() or numbers.dtype == torch.bool or numbers.dim() != 1:
            raise TypeError(f"flatten_rows: {name} must be one-dimensional integers, got {numbers.dtype}")
        return numbers.cpu().numpy().astype(np.int64, copy=False)
    numbers = list(numbers)
    if not set(map(type, numbers)) <= {int}:
        numbers = [_integer(f"each of {name}", number) for number in numbers]
    try:
        return np.array(array("q", numbers))
    except OverflowError as error:
        raise ValueError(f"flatten_rows: {name} must fit 64 bits") from error
