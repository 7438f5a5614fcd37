"""A graph runner that says what its dummy entries really carried, read from the buffers of the step.

    2 dummy entries read row 0, position 0; their K and V go to slot 0          the padding row
    1 dummy entry reads row 3, positions 0 to 3; its K and V go to slot 28      a stale tail: an earlier batch left it
    2 dummy entries read no cell; their K and V are stored nowhere (slot -1)    no row, no slot

So a picture cannot tell what the settings promise where the buffers hold something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch

from reqpool.serving.graph import GraphRunner
from reqpool.trace import Event, Trace

Dummies = Counter[tuple[int, int, int]]  # (row, length, slot) -> how many dummy entries carry it


class TellingRunner(GraphRunner):
    """Lengths go up for the requests' rows only, unless `writes` is "length"; facts are read from the buffers."""

    live = torch.zeros(0, dtype=torch.int64)  # the rows of the step's requests

    def run(self, rows: torch.Tensor, *rest: torch.Tensor) -> list[str]:
        self.live = rows
        return super().run(rows, *rest)

    def _raise_lengths(self, _: torch.Tensor, size: int) -> None:
        live, rows, lens = self.live, self.static["rows"][:size], self.pool.verified_lens
        if self.writes != "length":
            self.pool.verify(live, 1)
            return
        if self.accumulate:
            lens.index_add_(0, rows, torch.ones_like(rows, dtype=lens.dtype))
        else:
            lens[rows] += 1  # a row named twice rises once
        num_dummies = size - len(live)
        if not num_dummies:
            self.on_fact("verify", rows=live.tolist())
            return
        (row, *_), *_ = self.dummies(num_dummies)
        name = f"{entries(num_dummies)} {'names' if num_dummies == 1 else 'name'} row {row}"
        how = "as often as it is named" if self.accumulate else "once, however often it is named"
        text = f"every entry raises the verified length of its row; {name}, which rises {how}"
        self.on_fact("pad_write", rows=sorted({row, *live.tolist()}), text=text, dummy_row=row)

    def dummies(self, num: int) -> Dummies:
        """What the last step's `num` dummy entries carried."""
        tail = slice(len(self.live), len(self.live) + num)
        rows, positions, slots = (self.static[name][tail].tolist() for name in ("rows", "positions", "out_slots"))
        return Counter((row, last + 1, slot) for row, last, slot in zip(rows, positions, slots, strict=True))

    def _tell(self, num_dummies: int, kind: str, what: str) -> None:
        if not num_dummies:
            return
        found = self.dummies(num_dummies)
        if kind == "pad_read":
            text = "; ".join(carried(num, *one) for one, num in found.items())
            hit = [cell for _, _, slot in found if slot > 0 for cell in self._live_cells(slot)]
        else:
            (row, length, slot), *_ = found
            text = f"{entries(num_dummies)} {what.format(rows=row, positions=length - 1, out_slots=slot)}"
            hit = [(row, length - 1)] if self.writes == "cell" and row in self.pool.holders else []
        marks = {"wrong": hit} if hit else {}
        self.on_fact(kind, rows=sorted({row for row, _, _ in found}), text=text, **marks)

    def _live_cells(self, slot: int) -> list[tuple[int, int]]:
        """The cells of requests that say this slot: it is not the dummies' to write."""
        cells = torch.nonzero(self.pool.req_to_token == slot).tolist()
        return [
            (row, at) for row, at in cells if row in self.pool.holders and at < int(self.pool.alloced_lens_cpu[row])
        ]


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


# ---- looked up in a trace -------------------------------------------------------------------------------------------


def drift(trace: Trace, row: int = 0) -> list[int]:
    """The row's verified length at the end of every engine step.

    >>> from reqpool.scenarios.experiments import padding
    >>> drift(padding("row 0", writes="length", max_new_tokens=4).trace)
    [0, 1, 2, 3]
    """
    last = {event.step: k for k, event in enumerate(trace, start=1)}
    return [trace.snapshot(k).verified[row] for k in last.values()]


def first_raise(trace: Trace) -> tuple[int, int, int, int] | None:
    """The first length that dummy entries raised: engine step, row, before, after."""
    for event in pad_writes(trace):
        for _, row, before, after in event.change.lengths:
            if row == dict(event.facts).get("dummy_row"):
                return event.step, row, before, after
    return None


def first_cell(trace: Trace) -> tuple[int, int, int, int, int] | None:
    """The first cell that dummy entries changed: engine step, row, position, slot before, slot after."""
    for event in pad_writes(trace):
        for cell in event.change.cells:
            return event.step, *cell
    return None


def pad_writes(trace: Trace) -> Iterator[Event]:
    return (event for event in trace if event.kind == "pad_write")
