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
    """Hands out the slots of whole pages, longest free first: page k is the slots k * page_size .. + page_size - 1.

    Page 0 is the dummy page and never in the list, so the slots are page_size..size + page_size - 1: with page_size 1
    those are 1..size, and slot 0 is the dummy slot. A page is held by who owns a slot of it; its other slots are
    reserved for a continuation (`after`). It is free again when none of its slots has an owner.

    Alloc and free of k slots cost O(k): the free pages are a ring in one tensor.

    >>> slots = TokenToKVPoolAllocator(size=4)
    >>> slots.alloc(3), slots.alloc(2), slots.available_size()
    (tensor([1, 2, 3]), None, 1)
    >>> slots.free(torch.tensor([2]))
    >>> slots.alloc(2)
    tensor([4, 2])

    >>> paged = TokenToKVPoolAllocator(size=8, page_size=4)  # the same two pages, a request in each
    >>> paged.alloc(2), paged.alloc(1), paged.available_size()
    (tensor([4, 5]), tensor([8]), 0)
    >>> paged.alloc(1), paged.alloc(2, after=5)
    (None, tensor([6, 7]))
    """

    def __init__(self, size: int, page_size: int = 1) -> None:
        self.size, self.page_size = _at_least_one("size", size), _at_least_one("page_size", page_size)
        if self.size % self.page_size:
            raise ValueError(f"size must be a multiple of page_size = {self.page_size}, got {self.size}")
        self._num_pages = self.size // self.page_size
        self.clear()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, page_size={self.page_size}, free={self.available_size()})"

    def available_size(self) -> int:
        """How many slots the free pages have. Reserved slots do not count: only one request could have them."""
        return self._num_free * self.page_size

    def clear(self) -> None:
        """Every slot is free, whoever had it."""
        self._ring = torch.arange(1, self._num_pages + 1)  # the free pages, from _head on, around the end
        self._head, self._num_free = 0, self._num_pages
        self._taken = torch.zeros(self.page_size + self.size, dtype=torch.bool)  # has an owner
        self._more_owners = torch.zeros(len(self._taken), dtype=torch.int32)  # beyond the first
        self._num_more = 0  # their sum: where nobody shares, nothing is looked up

    def alloc(self, n: int, after: int | None = None) -> Tensor | None:
        """n slots as int64 [n], or None when too few pages are free; then nothing has changed.

        Args:
            after: the last slot of a request that goes on: it gets the reserved slots behind that first, then whole
                new pages. Of two with a shared prefix that ends within a page only the first to go on finds any there.
        """
        n = _integer("n", n)
        if n < 0:
            raise ValueError(f"alloc wants n >= 0 slots, got {n}")
        rest = () if after is None else self._reserved_behind(_integer("after", after))
        num_pages = -((len(rest) - n) // self.page_size)  # rounded up
        if num_pages > self._num_free:
            return None
        slots = torch.cat([self._ring[part] for part in self._arc(self._head, num_pages)])
        if self.page_size > 1:
            paged = slots[:, None] * self.page_size + torch.arange(self.page_size)
            slots = torch.cat([torch.tensor(rest, dtype=torch.int64), paged.flatten()])[:n]
        self._head, self._num_free = (self._head + num_pages) % self._num_pages, self._num_free - num_pages
        self._taken[slots] = True
        return slots

    def _reserved_behind(self, after: int) -> range:
        if not 0 <= after < len(self._taken) or not self._taken[after]:
            raise self._without_owner("alloc after", after)
        end = after - after % self.page_size + self.page_size
        owned = torch.nonzero(self._taken[after + 1 : end])
        return range(after + 1, after + 1 + int(owned[0]) if len(owned) else end)

    def share(self, slots: Tensor | Sequence[int]) -> None:
        """One more owner for each of the slots, a prefix of two requests; refuses what `free` refuses.

        >>> slots = TokenToKVPoolAllocator(size=4)
        >>> prefix = slots.alloc(2)
        >>> slots.share(prefix)
        >>> slots.free(prefix), slots.available_size()
        (None, 2)
        >>> slots.free(prefix), slots.available_size()
        (None, 4)
        """
        slots = self._owned_once("share", slots)
        self._more_owners[slots] += 1
        self._num_more += len(slots)

    def free(self, slots: Tensor | Sequence[int]) -> None:
        """Each slot loses an owner; a page in which none is left is free, behind all others.

        A slot without an owner, or named twice: ValueError, and nothing has changed.
        """
        slots = self._owned_once("free", slots)
        if self._num_more:
            shared = self._more_owners[slots] > 0
            self._more_owners[slots[shared]] -= 1
            self._num_more -= int(shared.sum())
            slots = slots[~shared]
        self._taken[slots] = False
        pages = slots if self.page_size == 1 else self._pages_without_owner(slots)
        done = 0
        for part in self._arc((self._head + self._num_free) % self._num_pages, len(pages)):
            length = part.stop - part.start
            self._ring[part] = pages[done : done + length]
            done += length
        self._num_free += len(pages)

    def _pages_without_owner(self, slots: Tensor) -> Tensor:
        """Of the pages of these slots, in the order in which they are named first."""
        named = torch.unique_consecutive(slots // self.page_size).tolist()
        pages = torch.tensor(list(dict.fromkeys(named)), dtype=torch.int64)
        return pages[~self._taken.view(-1, self.page_size)[pages].any(dim=1)]

    def _owned_once(self, call: str, slots: Tensor | Sequence[int]) -> Tensor:
        slots = _slot_tensor("slots", slots).cpu().long()
        if len(slots) and int(slots.max()) >= len(self._taken):
            raise self._without_owner(f"{call} of", int(slots.max()))
        if not self._taken[slots].all():
            raise self._without_owner(f"{call} of", int(slots[~self._taken[slots]][0]))
        if len(torch.unique(slots)) < len(slots):
            raise ValueError(f"{call}: a slot is named twice in {slots.tolist()[:16]}, wanted each once")
        return slots

    def _without_owner(self, call: str, slot: int) -> ValueError:
        page, state = slot // self.page_size, "free already"
        if not 0 <= page <= self._num_pages:
            return ValueError(f"{call} slot {slot}: wanted {self.page_size}..{len(self._taken) - 1}")
        if page == 0:
            state = "the dummy slot" if self.page_size == 1 else "in the dummy page"
        elif self._taken.view(-1, self.page_size)[page].any():
            state = "reserved, and nobody owns it"
        return ValueError(f"{call} slot {slot}: it is {state}")

    def free_what_is_taken(self, slots: Tensor) -> int:
        """Take back those of the slots that are taken, once each, and say how many: for a row that was overwritten.

        Its cells may say anything: what is no slot here is passed over.
        """
        slots = torch.unique(slots.cpu().long())
        slots = slots[(slots > 0) & (slots < len(self._taken))]
        taken = slots[self._taken[slots]]
        self.free(taken)
        return len(taken)

    def _arc(self, start: int, n: int) -> list[slice]:
        """The n places of the ring from `start` on: one slice, or two around the end."""
        first = min(n, self._num_pages - start)
        return [slice(start, start + first), slice(0, n - first)]

    def check(self) -> None:
        """Every page is free or held, exactly once, and who has more owners has a first; else RuntimeError.

        So a slot is in a free page, or owned, or reserved.
        """
        free = torch.cat([self._ring[part] for part in self._arc(self._head, self._num_free)])
        held = torch.nonzero(self._taken.view(-1, self.page_size).any(dim=1)).flatten()
        counts = torch.bincount(torch.cat([free, held]), minlength=self._num_pages + 1)
        if counts[0] or not (counts[1:] == 1).all():
            raise RuntimeError(
                f"slots do not add up: {len(free)} pages free + {len(held)} held, "
                f"wanted each of 1..{self._num_pages} once (page_size {self.page_size})"
            )
        more = int(self._more_owners[self._taken].clamp(min=0).sum())
        if not more == int(self._more_owners.abs().sum()) == self._num_more:
            raise RuntimeError(f"slots do not add up: owned ones have {more} more owners, wanted {self._num_more}")


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
    cells, flat = table.view(-1).numpy().data, kv_indices.numpy().data
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
