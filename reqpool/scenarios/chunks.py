"""A long prompt goes in pieces and keeps its row; another request comes and goes meanwhile."""

from __future__ import annotations

from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.letters import Letters, finish
from reqpool.trace import Trace, record


def chunked_prefill(prompt_len: int = 10, chunk_size: int = 4) -> Trace:
    """Request a's prompt in chunks; request b arrives with the second one and ends before the third.

    The counter is the scheduler's: up when a chunk that is not the last is launched, down when its result is there.
    So it is 0 when the last chunk asks for its row, and then `kv_committed_len` alone says that a goes on.

    >>> trace = chunked_prefill()
    >>> [(event.step, event.kind) for event in trace if event.kind in ("alloc", "keep", "free")]
    [(0, 'alloc'), (1, 'keep'), (1, 'alloc'), (1, 'free'), (2, 'keep'), (2, 'free')]
    """
    pool, slots = ReqToTokenPool(2, prompt_len, "cpu"), Letters(2 * prompt_len)
    a, b = Req("a"), Req("b")
    starts = range(0, prompt_len, chunk_size)
    with record(pool) as trace:
        for step, start in enumerate(starts):
            trace.step = step
            num_tokens = min(chunk_size, prompt_len - start)
            _launch(trace, a, f"chunk {step + 1} of {len(starts)}", last=start + num_tokens == prompt_len)
            batch = [a, b] if step == 1 else [a]
            pool.alloc(batch)
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
    pool.verify([req.req_pool_idx], num_tokens)
    req.kv_committed_len += num_tokens
    req.inflight_middle_chunks = max(0, req.inflight_middle_chunks - 1)
