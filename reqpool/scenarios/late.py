"""The forward step of a request that is gone writes its length late, into a row that is free by now."""

from __future__ import annotations

from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.scenarios.letters import Letters, finish, live_slots, prefill, tell
from reqpool.trace import Trace, record


def late_write(pool_class: type[ReqToTokenPool] = ReqToTokenPool) -> Trace:
    """Request a is retracted while its step is under way; b gets the row, and starts where the row's length says.

    The forward lane finds the slots to write as row[verified : verified + n], as SGLang-FluentLLM's kernel does. With
    `NoResetOnReuse` it begins one position too far on and ends in a stale cell.

    >>> from reqpool.faulty import NoResetOnReuse
    >>> [late_write(pool)[-1].text for pool in (ReqToTokenPool, NoResetOnReuse)]
    ['request b reads "owl" through row 1, as it wrote it', 'request b reads "·ow" through row 1, but it wrote "owl"']
    """
    pool, letters = pool_class(1, 6, "cpu"), Letters(16)
    a, b = Req("a"), Req("b")
    with record(pool) as trace:
        pool.alloc([a])
        _forward(pool, letters, a, "fox")
        trace.step = 1
        row = row_of(a)
        prefill(pool, letters, a, "e")
        trace.emit("note", rid="a", rows=[row], text="request a's next forward step is launched")
        trace.emit("retract", rid="a", rows=[row], text="request a is retracted: the engine needs its memory")
        finish(pool, letters, a)
        pool.verified_lens[row] += 1  # the forward lane, done at last: it only knows the number of the row
        trace.emit("late_write", rid="a", rows=[row])
        trace.step = 2
        seen = len(trace)
        pool.alloc([b])
        if not any(event.kind == "reset" for event in trace.events[seen:]):
            length = int(pool.verified_lens[row])
            trace.emit("note", rid="b", rows=[row], text=f"no reset: row {row} begins with verified length {length}")
        _forward(pool, letters, b, "owl")
        tell(trace, "b", row, letters.read(live_slots(pool, row)), "owl")
    return trace


def _forward(pool: ReqToTokenPool, letters: Letters, req: Req, text: str) -> None:
    """Reserve the slots; the forward lane then writes K and V where the row says, and counts them as verified."""
    row, n = row_of(req), len(text)
    slots = letters.take(n)
    pool.append(req, slots)
    start = int(pool.verified_lens[row])
    out_cache_loc = pool.req_to_token[row, start : start + n].tolist()
    letters.letters[slots] = 0  # nobody's K and V yet
    letters.write(out_cache_loc, text)
    pool.verify([row], n)
