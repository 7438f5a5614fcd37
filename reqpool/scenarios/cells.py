"""What a cell may say, and when it is to be believed: one slot in two rows, and cells beyond the length."""

from __future__ import annotations

from contextlib import suppress

from reqpool.checked import CheckedPool
from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.scenarios.letters import Letters, finish, live_slots, prefill, recite, tell
from reqpool.trace import Trace, record


def two_owners(guarded: bool = False, shared: int = 2) -> Trace:
    """A slot of request a is handed out a second time, to b. The rows still add up; the text does not.

    Args:
        guarded: play it on a `CheckedPool` that refuses a slot which another row holds; b waits then.
        shared: the position of a's row whose slot is given away twice.
    """
    pool = CheckedPool(2, 6, "cpu", exclusive_slots=True) if guarded else ReqToTokenPool(2, 6, "cpu")
    letters = Letters(7)
    a, b = Req("a"), Req("b")
    with record(pool) as trace:
        pool.alloc([a, b])
        prefill(pool, letters, a, "hello")
        recite(trace, pool, letters, a, "hello")
        trace.step = 1
        slot = live_slots(pool, row_of(a))[shared]
        letters.give_back([slot])  # the fault: a still holds it
        trace.emit(
            "note", rid="a", rows=[1], text=f"slot {slot} goes to the KV allocator's free slots; row 1 still says it"
        )
        slots = letters.take(3)
        with suppress(ValueError):  # the guard's refusal is in the trace
            pool.append(b, slots)
            letters.write(slots, "wow")
        pool.check()  # rows and lengths balance, either way
        trace.emit("note", text="pool.check() finds nothing wrong: every row is free or handed out, exactly once")
        recite(trace, pool, letters, a, "hello")
        if guarded:
            trace.emit("note", rid="b", rows=[2], text="request b waits for a slot that is really free")
        else:
            recite(trace, pool, letters, b, "wow")
    return trace


def stale_cells(first: str = "horse", second: str = "dog", by_length: bool = True) -> Trace:
    """`second` gets the row that `first` had, and reads it: up to its length, or up to the first cell that is zero."""
    pool, letters = ReqToTokenPool(1, max(len(first), len(second)) + 1, "cpu"), Letters(64)
    a, b = Req("a"), Req("b")
    with record(pool) as trace:
        for req, text in ((a, first), (b, second)):
            pool.alloc([req])
            prefill(pool, letters, req, text)
            row = row_of(req)
            slots = live_slots(pool, row) if by_length else cells_that_are_not_zero(pool, row)
            tell(trace, req.rid, row, letters.read(slots), text)
            if req is a:
                finish(pool, letters, a)
            trace.step += 1
    return trace


def one_row(slots: list[int], length: int) -> Trace:
    """A request with `length` tokens in a row whose last owner had all of `slots`: cells beyond the length are stale.

    >>> one_row([5, 2, 7], 1).snapshot(5).table[1].tolist()
    [5, 2, 7]
    """
    pool, before, now = ReqToTokenPool(1, len(slots), "cpu"), Req("before"), Req("now")
    with record(pool) as trace:
        pool.alloc([before])
        pool.append(before, slots)
        pool.free(before)
        pool.alloc([now])
        pool.append(now, slots[:length])
    return trace


def cells_that_are_not_zero(pool: ReqToTokenPool, row: int) -> list[int]:
    """The broken reader: it believes every cell that is not zero, whatever the row's length says."""
    cells = pool.req_to_token[row].tolist()
    return cells[: cells.index(0)] if 0 in cells else cells
