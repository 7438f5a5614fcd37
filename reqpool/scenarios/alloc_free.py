"""Rows are taken and given back: all or nothing, reuse in order, and what a second free does."""

from __future__ import annotations

from contextlib import suppress

import torch

from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.scenarios.letters import Letters, finish, live_slots, recite
from reqpool.trace import Trace, record

CPU = "cpu"  # a story gives the same integers everywhere; it needs no GPU


def alloc_and_free(reuse: str = "fifo") -> Trace:
    """Two requests run, a batch of two is refused as a whole, one ends, and then the batch gets its rows.

    >>> [(e.kind, e.rids, e.rows) for e in alloc_and_free("lifo") if e.kind in ("refuse", "alloc")]
    [('alloc', ('a', 'b'), (1, 2)), ('refuse', ('c', 'd'), ()), ('alloc', ('c', 'd'), (1, 3))]
    """
    pool, slots = ReqToTokenPool(3, 6, CPU, reuse=reuse), Letters(16)
    a, b, c, d = (Req(rid) for rid in "abcd")
    with record(pool) as trace:
        pool.alloc([a, b])
        pool.append(a, slots.take(4))
        pool.append(b, slots.take(3))
        pool.append(a, slots.take(1))
        pool.alloc([c, d])  # None: one row is free
        trace.step = 1
        finish(pool, slots, a)
        pool.alloc([c, d])
        pool.append(c, slots.take(2))
        pool.append(d, slots.take(3))
        trace.step = 2
        for req in (b, c, d):
            finish(pool, slots, req)
    return trace


ORDERS = ("oldest first", "newest first", "every other first")


def come_and_go(size: int, num_requests: int, reuse: str = "fifo", frees: str = "oldest first") -> Trace:
    """Requests arrive one by one; those with a row end in the order `frees`; those that waited try again.

    Where nobody waited, one more request comes: so there is always somebody who gets a row that was given back, or one
    that nobody has had.
    """
    pool, slots = ReqToTokenPool(size, 4, CPU, reuse=reuse), Letters(64)
    reqs = [Req(_rid(i)) for i in range(num_requests)]
    with record(pool) as trace:
        for req in reqs:
            if pool.alloc([req]):
                pool.append(req, slots.take(2))
        trace.step = 1
        running = [req for req in reqs if req.req_pool_idx is not None]
        waiting = [req for req in reqs if req.req_pool_idx is None]
        for req in in_order(running, frees):
            finish(pool, slots, req)
        trace.step = 2
        for req in waiting or [Req(_rid(num_requests))]:
            if pool.alloc([req]):
                pool.append(req, slots.take(2))
    return trace


def in_order(reqs: list[Req], frees: str) -> list[Req]:
    """
    >>> [req.rid for req in in_order([Req("a"), Req("b"), Req("c")], "every other first")]
    ['a', 'c', 'b']
    """
    if frees not in ORDERS:
        raise ValueError(f"frees must be one of {', '.join(ORDERS)}, got {frees!r}")
    return {
        "oldest first": reqs,
        "newest first": reqs[::-1],
        "every other first": reqs[::2] + reqs[1::2],
    }[frees]


def _rid(i: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[i % 26]


def free_twice(pool_class: type[ReqToTokenPool] = ReqToTokenPool, reuse: str = "fifo", size: int = 2) -> Trace:
    """A request is aborted while its step is under way: its row is given back at the abort, and again at the result.

    The row is held by count here, as in mini-sglang and TokenSpeed's Python pool: no request object knows that it
    was given back already. Then `size` + 1 requests arrive.
    """
    pool, letters = pool_class(size, 4, CPU, reuse=reuse), Letters(32)
    texts = [_TEXTS[i % len(_TEXTS)] for i in range(size + 1)]
    with record(pool) as trace:
        (row,) = pool.alloc_rows(1) or []
        pool.append(row, letters.take(2))
        trace.emit("note", rows=[row], text=f"the request in row {row} is aborted while its forward step is under way")
        letters.give_back(live_slots(pool, row))
        pool.free_rows(row)
        trace.step = 1
        trace.emit("note", rows=[row], text=f"its result arrives and says finished: row {row} is given back again")
        with suppress(ValueError):  # the trace has it as a refusal, with the error's own words
            pool.free_rows(row)
        trace.step = 2
        reqs = [Req(_rid(i + 1)) for i in range(size + 1)]
        for req in reqs:
            pool.alloc([req])
        for req, text in zip(reqs, texts, strict=True):
            if req.req_pool_idx is None:
                trace.emit("note", rid=req.rid, text=f"request {req.rid} waits: it has no row")
            else:
                _prefill_from_zero(trace, pool, letters, req, text)
        for req, text in zip(reqs, texts, strict=True):
            if req.req_pool_idx is not None:
                recite(trace, pool, letters, req, text)
            else:
                trace.emit("note", rid=req.rid, text=f"request {req.rid} still waits, and no harm is done")
    return trace


_TEXTS = ("cat", "dog", "owl", "bee", "fox")


def _prefill_from_zero(trace: Trace, pool: ReqToTokenPool, letters: Letters, req: Req, text: str) -> None:
    """The prompt goes to positions 0, 1, ...: a new request believes that its row is empty and its own."""
    row, n = row_of(req), len(text)
    slots = letters.take(n)
    letters.write(slots, text)
    pool.req_to_token[row, :n] = torch.tensor(slots)
    for lens in (pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu):
        lens[row] = n
    trace.emit("write", rid=req.rid, rows=[row], text=f'request {req.rid} writes its prompt "{text}"')
