"""A long prompt goes in pieces and keeps its row; what `alloc` sees of it before each piece; and a row that is given
back between two pieces while a forward step still reads it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.scenarios.letters import Letters, finish
from reqpool.scenarios.together import given_back
from reqpool.trace import Event, Trace, record


def chunked_prefill(
    prompt_len: int = 10, chunk_size: int = 4, pool_class: type[ReqToTokenPool] = ReqToTokenPool
) -> Trace:
    """Request a's prompt in chunks; request b arrives with the second one and ends before the third.

    The counter is the scheduler's: up when a chunk that is not the last is launched, down when its result is there.
    So it is 0 when the last chunk asks for its row, and then `kv_committed_len` alone says that a goes on. Where the
    pool refuses a chunk, the story ends.

    >>> trace = chunked_prefill()
    >>> [(event.step, event.kind) for event in trace if event.kind in ("alloc", "keep", "free")]
    [(0, 'alloc'), (1, 'keep'), (1, 'alloc'), (1, 'free'), (2, 'keep'), (2, 'free')]
    """
    pool, slots = pool_class(2, prompt_len, "cpu"), Letters(2 * prompt_len)
    a, b = Req("a"), Req("b")
    starts = range(0, prompt_len, chunk_size)
    with record(pool) as trace:
        for step, start in enumerate(starts):
            trace.step = step
            num_tokens = min(chunk_size, prompt_len - start)
            _launch(trace, a, f"chunk {step + 1} of {len(starts)}", last=start + num_tokens == prompt_len)
            batch = [a, b] if step == 1 else [a]
            try:
                pool.alloc(batch)
            except ValueError:  # recorded as a refusal, which is what the story is about
                return trace
            pool.append(a, slots.take(num_tokens))
            if b in batch:
                pool.append(b, slots.take(2))
            _result(pool, a, num_tokens)
            if b in batch:
                _result(pool, b, 2)
                finish(pool, slots, b)
        finish(pool, slots, a)
    return trace


def _launch(trace: Trace, req: Req, chunk: str, last: bool) -> None:
    if not last:
        req.inflight_middle_chunks += 1
    counters = f"inflight_middle_chunks is {req.inflight_middle_chunks}, kv_committed_len is {req.kv_committed_len}"
    rows = [] if req.req_pool_idx is None else [req.req_pool_idx]
    trace.emit("note", rid=req.rid, rows=rows, text=f"request {req.rid} launches {chunk}: {counters}")


def _result(pool: ReqToTokenPool, req: Req, num_tokens: int) -> None:
    pool.verify([row_of(req)], num_tokens)
    req.kv_committed_len += num_tokens
    req.inflight_middle_chunks = max(0, req.inflight_middle_chunks - 1)


# ---- what alloc is asked ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What a request's two fields say when `alloc` is asked for its next chunk, and whether it is the last one."""

    chunk: int  # counted from 1
    last: bool
    inflight_middle_chunks: int
    kv_committed_len: int


def asked(
    num_chunks: int = 3,
    chunk_size: int = 4,
    overlap: bool = False,
    committed_at: str = "launch",
    pool_class: type[ReqToTokenPool] = ReqToTokenPool,
) -> list[Asked]:
    """The two halves of the reuse condition, before each chunk after the first.

    Args:
        overlap: a chunk's result comes after the next chunk's launch.
        committed_at: when `kv_committed_len` moves: at "launch", as in the engine here and in SGLang, or at "result".

    >>> [(one.inflight_middle_chunks, one.kv_committed_len) for one in asked(3)]
    [(1, 4), (0, 8)]
    >>> [(one.inflight_middle_chunks, one.kv_committed_len) for one in asked(3, overlap=True, committed_at="result")]
    [(2, 0), (1, 4)]
    """
    pool, req = pool_class(1, num_chunks * chunk_size, "cpu"), Req("a")
    found, under_way = [], deque[int]()
    for chunk in range(1, num_chunks + 1):
        req.inflight_middle_chunks += chunk < num_chunks
        found.append(Asked(chunk, chunk == num_chunks, req.inflight_middle_chunks, req.kv_committed_len))
        pool.alloc([req])
        req.kv_committed_len += chunk_size * (committed_at == "launch")
        under_way.append(chunk)
        while len(under_way) > overlap:
            req.inflight_middle_chunks -= under_way.popleft() < num_chunks
            req.kv_committed_len += chunk_size * (committed_at == "result")
    return found[1:]


# ---- the row that is read while it is given back ---------------------------------------------------------------------


def row_read_while_freed(pool_class: type[ReqToTokenPool] = ReqToTokenPool) -> Trace:
    """The race of sglang pull 17850, in a pool of two rows: a's first chunk is launched, and its forward step has not
    read the row yet when the next batch is prepared: a's second chunk, and b, whose first tokens have K and V.

    The scheduler copies a's slots when its row has changed, so that nothing is lost on the schedule side. Yet the
    forward step holds the number of the old row.

    >>> from reqpool.faulty import FreedBetweenChunks
    >>> for pool_class in (FreedBetweenChunks, ReqToTokenPool):
    ...     print(dict(row_read_while_freed(pool_class)[-1].facts)["texts"])
    (('a', 'xyzd', (0, 1, 2)),)
    (('a', 'abcd', ()),)
    """
    pool, letters = pool_class(2, 8, "cpu"), Letters(16)
    a, b = Req("a"), Req("b")
    cached = letters.take(3)
    letters.write(cached, "xyz")
    with record(pool) as trace:
        trace.step = 1
        a.inflight_middle_chunks = 1
        pool.alloc([a])
        first = _chunk(pool, letters, a, "abcd")
        row = row_of(a)
        text = f"the forward step of chunk 1 is launched: it will read row {row}, positions 0 to 3"
        trace.emit("note", rid="a", rows=[row], text=text, lane="schedule")
        trace.step = 2
        pool.alloc([a, b])
        if a.req_pool_idx != row:
            pool.append(a, first)
        _chunk(pool, letters, a, "efgh")
        pool.append(b, cached)
        read = letters.read(pool.req_to_token[row, : len(first)].tolist())
        wrong = [i for i, (got, wrote) in enumerate(zip(read, "abcd", strict=True)) if got != wrote]
        verdict = (
            f'but chunk 1 is "abcd": positions {", ".join(map(str, wrong))} say b\'s slots'
            if wrong
            else "which is chunk 1"
        )
        trace.emit(
            "note",
            rid="a",
            rows=[row],
            text=f'the forward step of chunk 1 reads row {row}, positions 0 to 3, and finds "{read}", {verdict}',
            lane="forward",
            wrong=[(row, position) for position in wrong],
            texts=[("a", read, wrong)],
        )
    told = given_back(trace)
    told.events = [_in_schedule_lane(event) for event in told]
    return told


def _in_schedule_lane(event: Event) -> Event:
    return event if "lane" in dict(event.facts) else replace(event, facts=(*event.facts, ("lane", "schedule")))


def _chunk(pool: ReqToTokenPool, letters: Letters, req: Req, text: str) -> list[int]:
    slots = letters.take(len(text))
    letters.write(slots, text)
    pool.append(req, slots)
    return slots
