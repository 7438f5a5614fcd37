"""A batch of fixed size, as a captured CUDA graph has it: the entries without a request all point at row 0."""

from __future__ import annotations

import torch
from torch import Tensor

from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.letters import Letters, prefill
from reqpool.trace import Trace, record

GRAPH_SIZE = 4


def padding_row(pool_class: type[ReqToTokenPool] = ReqToTokenPool) -> Trace:
    """Two requests decode twice in a batch of four. With `NoPaddingRow` row 0 is a request's, and its length runs off.

    >>> padding_row().snapshot(len(padding_row())).verified
    (0, 6, 5, 0)
    """
    pool, letters = pool_class(3, 8, "cpu"), Letters(16)
    a, b = Req("a"), Req("b")
    with record(pool) as trace:
        rows = torch.tensor(pool.alloc([a, b]))
        prefill(pool, letters, a, "tick")
        prefill(pool, letters, b, "abc")
        pool.verify(rows, torch.tensor([4, 3]))
        for step, (of_a, of_b) in enumerate(["ta", "ib"], start=1):
            trace.step = step
            prefill(pool, letters, a, of_a)
            prefill(pool, letters, b, of_b)
            _replay(trace, pool, letters, rows)
    return trace


def _replay(trace: Trace, pool: ReqToTokenPool, letters: Letters, rows: Tensor) -> None:
    """What the graph does for every entry, live or not: read the row, write K and V, count the token."""
    num_live = len(rows)
    req_pool_indices = torch.zeros(GRAPH_SIZE, dtype=torch.int64)  # a dummy entry keeps 0: table row 0
    req_pool_indices[:num_live] = rows
    out_cache_loc = torch.zeros(GRAPH_SIZE, dtype=torch.int64)  # ... and 0: KV slot 0, the dummy slot
    batch = ", ".join(map(str, req_pool_indices.tolist()))
    trace.emit("note", rows=rows.tolist(), text=f"the batch has {GRAPH_SIZE} entries, always: rows {batch}")
    slots = pool.req_to_token[req_pool_indices[num_live:], 0].tolist()
    trace.emit("pad_read", rows=[0], text=f"{len(slots)} dummy entries read row 0, position 0: slot {slots[0]}")
    letters.write(out_cache_loc[num_live:].tolist(), "?" * (GRAPH_SIZE - num_live))
    pool.verify(rows, 1)
    pool.verified_lens[req_pool_indices[num_live:]] += 1
    trace.emit("pad_write", rows=[0], text="the dummy entries count a token too, in row 0; their K and V go to slot 0")
    if pool.padding_row is not None:
        pool.verified_lens[0] = 0
        trace.emit("write", rows=[0], text="after the replay the length of row 0 is put back to zero")
