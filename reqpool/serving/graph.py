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

from collections import Counter
from collections.abc import Callable

import torch

from reqpool.kv import flatten_rows
from reqpool.pool import ReqToTokenPool, _integer
from reqpool.serving.recite import LETTERS, Recite
from reqpool.serving.requests import no_fact

WRITES = ("slot", "cell", "length")
Dummies = Counter[tuple[int, int, int]]  # (row, length, slot) -> how many dummy entries carry it


class GraphRunner:
    """Decode steps for up to max(graph_sizes) entries.

    Args:
        graph_sizes: the batch sizes there is a graph for; a step takes the smallest that fits.
        padding_row, dummy_len, dummy_slot: what a dummy entry carries. Slot -1: it stores nothing, and may then have
            length 0, which reads nothing.
        writes: what the step writes for its dummies, besides K and V at their slot:
            "slot"    nothing more (SGLang: the schedule lane has written the cells, lengths go up for live rows only)
            "cell"    cell [row, seq_len - 1] of every entry (LightLLM's decode kernel, with dummy_len 2)
            "length"  `verified_lens[row] += 1` of every entry (FluentLLM)
        accumulate: with "length", add once for each entry (`index_add_`, as a kernel with atomic adds would) instead of
            once for each row (torch's `+=` on a repeated row).
        refresh_tail: reset the dummy part of the buffers before every replay. Without it the rows of an earlier,
            larger batch are still there (sglang pull 26292).
    Raises:
        ValueError, TypeError: a setting that no step could run with.
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
        self.graph_sizes = tuple(sorted(_integer("each of graph_sizes", size) for size in graph_sizes))
        if not self.graph_sizes or self.graph_sizes[0] < 1:
            raise ValueError(f"graph_sizes must be at least 1 each, got {graph_sizes}")
        if writes not in WRITES:
            raise ValueError(f"writes must be one of {', '.join(WRITES)}, got {writes!r}")
        reads_nothing = dummy_slot == -1 and writes != "cell"  # else position dummy_len - 1 is written
        _within("padding_row", padding_row, 0, len(pool.req_to_token) - 1)
        _within("dummy_len", dummy_len, 0 if reads_nothing else 1, pool.max_context_len)
        _within("dummy_slot", dummy_slot, -1, model.cache.k.shape[1] - 1)
        self.pool, self.model, self.on_fact = pool, model, on_fact
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
        self.live = torch.zeros(0, dtype=torch.int64)  # the rows of the last step's requests
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(self, rows: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor, wanted: torch.Tensor) -> list[str]:
        """One decode step for live entries; everything [n] int64 on the pool's device. Returns their letters.

        The slot an entry writes is what the table says at its position.
        """
        n, self.live = len(rows), rows
        size = next((size for size in self.graph_sizes if size >= n), None)
        if size is None:
            raise ValueError(f"a decode step of {n} entries: the largest graph has {self.graph_sizes[-1]}")
        inside = positions.clamp(max=self.pool.max_context_len - 1)
        out_slots = self.pool.req_to_token[rows, inside].long()
        self._fill({"rows": rows, "positions": inside, "out_slots": out_slots, "tokens": tokens, "wanted": wanted})
        if self.writes == "cell":  # first in the step: attention then reads the table as it is now
            cells = self.static["rows"][:size], self.static["positions"][:size]
            self.pool.req_to_token[cells] = self.static["out_slots"][:size].int()
            self._tell_written_cell(size)
        entries_now = torch.stack([self.static["rows"][:size], self.static["positions"][:size] + 1])
        flatten_rows(self.pool, *entries_now.cpu(), out=(self.kv_indptr, self.kv_indices))  # on a GPU one wait for both
        self._tell_read(size)
        self._replay(size)
        self._raise_lengths(size)
        return [LETTERS[token] for token in self.out[:n].tolist()]

    def _fill(self, live: dict[str, torch.Tensor]) -> None:
        """The buffers before the step: first the requests' entries, then the dummies'."""
        n = len(live["rows"])
        for name, buffer in self.static.items():
            buffer[:n] = live[name]
            if self.refresh_tail:
                buffer[n:] = self.dummy[name]

    def _raise_lengths(self, size: int) -> None:
        """`verified_lens` after the step: for the live rows, or for every entry of the batch."""
        if self.writes != "length":
            self.pool.verify(self.live, 1)
            return
        lens, rows = self.pool.verified_lens, self.static["rows"][:size]
        if self.accumulate:
            lens.index_add_(0, rows, torch.ones_like(rows, dtype=lens.dtype))
        else:
            lens[rows] += 1  # a row named twice rises once
        if self.on_fact is no_fact:
            return
        live = self.live.tolist()
        named = Counter(row for row, _, _ in self.dummies(size).elements())
        if not named:
            self.on_fact("verify", rows=live)
            return
        names = " and ".join(f"{entries(n)} {'names' if n == 1 else 'name'} row {row}" for row, n in named.items())
        how = "as often as it is named" if self.accumulate else "once, however often it is named"
        text = f"every entry raises the verified length of its row; {names}, which rises {how}"
        self.on_fact("pad_write", rows=sorted({*named, *live}), text=text, dummy_row=next(iter(named)))

    # ---- what the dummies did, read from the buffers, which may hold something else than the settings promise --------

    def dummies(self, size: int) -> Dummies:
        """What the dummy entries of the last step, of `size` entries, carried."""
        tail = slice(len(self.live), size)
        rows, positions, slots = (self.static[name][tail].tolist() for name in ("rows", "positions", "out_slots"))
        return Counter((row, last + 1, slot) for row, last, slot in zip(rows, positions, slots, strict=True))

    def _tell_written_cell(self, size: int) -> None:
        if self.on_fact is no_fact:
            return
        for (row, length, slot), num in self.dummies(size).items():
            text = f"{entries(num)} {'writes' if num == 1 else 'write'} row {row}, position {length - 1}: slot {slot}"
            hit = {"wrong": [(row, length - 1)]} if row in self.pool.holders else {}
            self.on_fact("pad_write", rows=[row], text=text, **hit)

    def _tell_read(self, size: int) -> None:
        if self.on_fact is not no_fact and (found := self.dummies(size)):
            text = "; ".join(carried(num, *one) for one, num in found.items())
            hit = [cell for _, _, slot in found if slot > 0 for cell in self._live_cells(slot)]
            self.on_fact(
                "pad_read", rows=sorted({row for row, _, _ in found}), text=text, **({"wrong": hit} if hit else {})
            )

    def _live_cells(self, slot: int) -> list[tuple[int, int]]:
        """The cells of requests that say this slot: it is not the dummies' to write."""
        held, lens = self.pool.holders, self.pool.alloced_lens_cpu
        cells = torch.nonzero(self.pool.req_to_token == slot).tolist()
        return [(row, at) for row, at in cells if row in held and at < int(lens[row])]

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
        self.model.write(out_slots, positions, tokens)
        starts, ends = self.kv_indptr[:size, None], self.kv_indptr[1 : size + 1, None]
        places = starts + torch.arange(self.pool.max_context_len, device=starts.device)
        mask = places < ends
        slots = self.kv_indices[places.clamp(max=len(self.kv_indices) - 1)].long()
        self.out[:size] = self.model.attend(wanted, slots, mask)


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= _integer(name, value) <= high:
        raise ValueError(f"{name} must lie within {low}..{high}, got {value}")


def entries(num: int) -> str:
    return "1 dummy entry" if num == 1 else f"{num} dummy entries"


def carried(num: int, row: int, length: int, slot: int) -> str:
    """
    >>> carried(2, 0, 1, 0)
    '2 dummy entries read row 0, position 0; their K and V go to slot 0'
    >>> carried(1, 3, 4, -1)
    '1 dummy entry reads row 3, positions 0 to 3; its K and V are stored nowhere (slot -1)'
    """
    where = {0: "no cell", 1: f"row {row}, position 0"}.get(length, f"row {row}, positions 0 to {length - 1}")
    stored = "are stored nowhere (slot -1)" if slot < 0 else f"go to slot {slot}"
    return (
        f"{entries(num)} {'reads' if num == 1 else 'read'} {where}; {'its' if num == 1 else 'their'} K and V {stored}"
    )
