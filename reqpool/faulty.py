"""The same pool with exactly one safeguard taken out each. The few lines that differ are the lesson.

    safeguard                              without it
    row 0 belongs to nobody                NoPaddingRow, PaddingInsideSize
    a batch gets all or nothing            NotAllOrNothing
    a started request keeps its row        FreedBetweenChunks, CounterOnly
    lengths are reset on reuse             NoResetOnReuse
    only a row that is out is taken back   FreedTwice

Each has been in a real engine; the link says where.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqpool.pool import ReqToTokenPool


class NoPaddingRow(ReqToTokenPool):
    """Row 0 is handed out like any other, while dummy entries still point at it.

    So it was in SGLang until row 0 became the padding row (pull 24243, 2026-05-01).

    >>> NoPaddingRow(size=2, max_context_len=4, device="cpu").alloc_rows(2)
    [0, 1]
    """

    padding_row = None

    def _usable_rows(self) -> range:
        return range(0, self.size)


class PaddingInsideSize(ReqToTokenPool):
    """The padding row is counted inside `size`: one row too few, and a pool of one waits for ever (sglang pull 23635).

    >>> PaddingInsideSize(size=1, max_context_len=4, device="cpu").alloc_rows(1) is None
    True
    """

    def _usable_rows(self) -> range:
        return range(1, self.size)


class NotAllOrNothing(ReqToTokenPool):
    """Takes what there is before it notices that there is too little; those rows are nobody's then.

    >>> pool = NotAllOrNothing(size=2, max_context_len=4, device="cpu")
    >>> pool.alloc_rows(3), pool.available_size()
    (None, 0)
    """

    def _take(self, n: int) -> list[int] | None:
        rows = super()._take(min(n, self.available_size()))
        return rows if len(rows or []) == n else None


class FreedBetweenChunks(ReqToTokenPool):
    """A chunked request gives its row back between two chunks and takes the next free one (sglang pull 17850).

    >>> from reqpool.pool import Req
    >>> pool, a = FreedBetweenChunks(size=3, max_context_len=4, device="cpu"), Req("a")
    >>> first = pool.alloc([a])
    >>> a.inflight_middle_chunks = 1
    >>> first, pool.alloc([a])
    ([1], [2])
    """

    def _keeps_row(self, req: Any) -> bool:
        if super()._keeps_row(req):
            self._give_back([req.req_pool_idx])
        return False


class CounterOnly(ReqToTokenPool):
    """The reuse condition asks only for the chunk counter, which is 0 on the last chunk (sglang-jax pull 998)."""

    continues_if = "inflight_middle_chunks > 0"

    def _has_more_to_do(self, req: Any) -> bool:
        return req.inflight_middle_chunks > 0


class NoResetOnReuse(ReqToTokenPool):
    """`alloc` trusts that `free` zeroed the lengths; a late write in between becomes the next owner's length.

    TokenSpeed's Python pool and SGLang-FluentLLM zero at `free` and again at `alloc`, for this reason.

    >>> pool = NoResetOnReuse(size=1, max_context_len=16, device="cpu")
    >>> pool.free_rows(pool.alloc_rows(1))
    >>> pool.verify([1], 8)  # the previous owner's forward step, late
    >>> pool.alloc_rows(1), int(pool.verified_lens[1])
    ([1], 8)
    """

    def _reset_on_reuse(self, index: Tensor) -> None:
        pass


class FreedTwice(ReqToTokenPool):
    """`free_rows` takes back whatever row it is told, so one row can be on the free list twice.

    mini-sglang's and TokenSpeed's Python pools accept it; mini-sglang pull 111 tells how it comes about.

    >>> pool = FreedTwice(size=2, max_context_len=4, device="cpu")
    >>> row = pool.alloc_rows(1)
    >>> pool.free_rows(row)
    >>> pool.free_rows(row)
    >>> pool.alloc_rows(3)
    [2, 1, 1]
    """

    def _refuse_to_free(self, rows: list[int]) -> None:
        pass


FAULTY_POOLS: tuple[type[ReqToTokenPool], ...] = (
    NoPaddingRow,
    PaddingInsideSize,
    NotAllOrNothing,
    FreedBetweenChunks,
    CounterOnly,
    NoResetOnReuse,
    FreedTwice,
)
