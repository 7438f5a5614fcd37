"""The graph runner: a decode step of fixed size over buffers that never move, padded with dummy entries.

    captured for 4 entries        req_pool_indices   seq_lens   out_slots
    2 live requests                 1  2                7  5      12  13
    2 dummy entries                       0  0               1  1         0  0
                                          |                               |
                          table row 0: the padding row       KV slot 0: the dummy slot

A CUDA graph replays fixed kernels over fixed addresses; so a step of 2 runs as a step of 4, and the dummies must point
somewhere. They read row 0 up to their length 1, and their K and V go to slot 0. Without CUDA the same function runs
over the same buffers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from reqpool.kv import flatten_rows
from reqpool.pool import ReqToTokenPool
from reqpool.serving.recite import LETTERS, Recite
from reqpool.serving.requests import no_fact

WRITES = ("slot", "cell", "length")


class GraphRunner:
    """Decode steps for up to max(graph_sizes) entries.

    Args:
        graph_sizes: the batch sizes there is a graph for; a step takes the smallest that fits.
        padding_row, dummy_len, dummy_slot: what a dummy entry carries.
        writes: what the step writes for its dummies, besides K and V at their slot:
            "slot"    nothing more (SGLang: the schedule lane has written the cells, lengths go up for live rows only)
            "cell"    cell [row, seq_len - 1] of every entry (LightLLM's decode kernel, with dummy_len 2)
            "length"  `verified_lens[row] += 1` of every entry (FluentLLM)
        accumulate: with "length", add once for each entry (`index_add_`, as a kernel with atomic adds would) instead of
            once for each row (torch's `+=` on a repeated row).
        refresh_tail: reset the dummy part of the buffers before every replay. Without it the rows of an earlier,
            larger batch are still there (sglang pull 26292).
    """

    def __init__(
        self,
        pool: ReqToTokenPool,
        model: Recite,
        graph_sizes: tuple[int, ...] = (1, 2, 4, 8),
        padding_row: int = 0,
        dummy_len: int = 1,
        dummy_slot: int = 0,
        writes: str = "slot",
        accumulate: bool = False,
        refresh_tail: bool = True,
        on_fact: Callable[..., None] = no_fact,
    ) -> None:
        if not graph_sizes or min(graph_sizes) < 1:
            raise ValueError(f"graph_sizes must be at least 1 each, got {graph_sizes}")
        self.pool, self.model, self.on_fact = pool, model, on_fact
        self.graph_sizes = tuple(sorted(graph_sizes))
        if writes not in WRITES:
            raise ValueError(f"writes must be one of {', '.join(WRITES)}, got {writes!r}")
        self.writes, self.accumulate, self.refresh_tail = writes, accumulate, refresh_tail
        self.dummy = {
            "rows": padding_row,
            "positions": dummy_len - 1,
            "out_slots": dummy_slot,
            "tokens": 0,
            "wanted": 0,
        }
        most, width = self.graph_sizes[-1], pool.max_context_len
        self.static = {
            name: torch.full((most,), n, dtype=torch.int64, device=pool.device) for name, n in self.dummy.items()
        }
        self.kv_indptr = torch.zeros(most + 1, dtype=torch.int64, device=pool.device)
        self.kv_indices = torch.zeros(most * width, dtype=torch.int32, device=pool.device)
        self.out = torch.zeros(most, dtype=torch.int64, device=pool.device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(self, rows: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor, wanted: torch.Tensor) -> list[str]:
        """One decode step for live entries; everything [n] int64 on the pool's device. Returns their letters.

        The slot an entry writes is what the table says at its position.
        """
        n = len(rows)
        size = next((size for size in self.graph_sizes if size >= n), None)
        if size is None:
            raise ValueError(f"a decode step of {n} entries: the largest graph has {self.graph_sizes[-1]}")
        inside = positions.clamp(max=self.pool.max_context_len - 1)
        out_slots = self.pool.req_to_token[rows, inside].long()
        live = {"rows": rows, "positions": inside, "out_slots": out_slots, "tokens": tokens, "wanted": wanted}
        for name, buffer in self.static.items():
            buffer[:n] = live[name]
            if self.refresh_tail:
                buffer[n:] = self.dummy[name]
        if self.writes == "cell":  # first in the step: attention then reads the table as it is now
            rows, positions = self.static["rows"][:size], self.static["positions"][:size]
            self.pool.req_to_token[rows, positions] = self.static["out_slots"][:size].int()
            self._tell(size - n, "pad_write", "write the cell of row {rows}, position {positions}: slot {out_slots}")
        seq_lens = self.static["positions"][:size] + 1
        flatten_rows(self.pool, self.static["rows"][:size], seq_lens, out=(self.kv_indptr, self.kv_indices))
        span = "position 0" if self.dummy["positions"] == 0 else "positions 0 to {positions}"
        self._tell(size - n, "pad_read", f"read row {{rows}}, {span}; their K and V go to slot {{out_slots}}")
        self._replay(size)
        self._raise_lengths(rows, size)
        return [LETTERS[token] for token in self.out[:n].tolist()]

    def _raise_lengths(self, live: torch.Tensor, size: int) -> None:
        """`verified_lens` after the step: for the live rows, or for every entry of the batch."""
        if self.writes != "length":
            self.pool.verify(live, 1)
            return
        lens, rows = self.pool.verified_lens, self.static["rows"][:size]
        if self.accumulate:
            lens.index_add_(0, rows, torch.ones_like(rows, dtype=lens.dtype))
        else:
            lens[rows] += 1  # a row named twice rises once
        self.on_fact("verify", rows=sorted(set(live.tolist()) - {self.dummy["rows"]}))
        how = "once for each entry" if self.accumulate else "once, however many there are"
        self._tell(size - len(live), "pad_write", f"raise the verified length of row {{rows}}, {how}")

    def _tell(self, num_dummies: int, kind: str, what: str) -> None:
        if num_dummies and self.dummy["out_slots"] >= 0:
            who = "1 dummy entry" if num_dummies == 1 else f"{num_dummies} dummy entries"
            self.on_fact(kind, rows=[self.dummy["rows"]], text=f"{who} {what.format(**self.dummy)}")

    def _replay(self, size: int) -> None:
        if self.pool.device.type != "cuda":
            self._step(size)
            return
        if size not in self.graphs:  # not yet run on a GPU
            self._step(size)  # warm up outside the capture
            self.graphs[size] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[size]):
                self._step(size)
        self.graphs[size].replay()

    def _step(self, size: int) -> None:
        """What is captured: fixed shapes, a mask for the lengths, nothing that asks the host."""
        _, positions, out_slots, tokens, wanted = (buffer[:size] for buffer in self.static.values())
        skipped = (out_slots < 0)[:, None, None]  # slot -1: a store kernel that skips negative slots (vLLM)
        self.model.write(out_slots.clamp(min=0), positions, tokens, skipped)
        starts, ends = self.kv_indptr[:size, None], self.kv_indptr[1 : size + 1, None]
        places = starts + torch.arange(self.pool.max_context_len, device=starts.device)
        mask = places < ends
        slots = self.kv_indices[places.clamp(max=len(self.kv_indices) - 1)].long()
        self.out[:size] = self.model.attend(wanted, slots, mask)
