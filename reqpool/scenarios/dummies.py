"""A graph runner that says what its dummy entries really carried, read from the buffers of the step.

    2 dummy entries read row 0, position 0; their K and V go to slot 0          the padding row
    1 dummy entry reads row 3, positions 0 to 3; its K and V go to slot 28      a stale tail: an earlier batch left it
    2 dummy entries read no cell; their K and V are stored nowhere (slot -1)    no row, no slot

So a picture cannot tell what the settings promise where the buffers hold something else.
"""

from __future__ import annotations

from collections import Counter

import torch

from reqpool.serving.graph import GraphRunner

Dummies = Counter[tuple[int, int, int]]  # (row, length, slot) -> how many dummy entries carry it


class TellingRunner(GraphRunner):
    """Lengths go up for the requests' rows only, unless `writes` is "length"; facts are read from the buffers."""

    live = torch.zeros(0, dtype=torch.int64)  # the rows of the step's requests

    def run(self, rows: torch.Tensor, *rest: torch.Tensor) -> list[str]:
        self.live = rows
        return super().run(rows, *rest)

    def _raise_lengths(self, _: torch.Tensor, size: int) -> None:
        """Told in two facts: what the dummy entries' row gets, and then every other row."""
        live, rows, lens = self.live, self.static["rows"][:size], self.pool.verified_lens
        if self.writes != "length":
            self.pool.verify(live, 1)
            return
        if self.accumulate:
            lens.index_add_(0, rows, torch.ones_like(rows, dtype=lens.dtype))
        else:
            lens[rows] += 1  # a row named twice rises once
        how = "once for each entry that names it" if self.accumulate else "once, however many entries name it"
        self._tell(size - len(live), "pad_write", f"raise the verified length of row {{rows}}, {how}")
        shared = self.dummies(size - len(live))
        self.on_fact("verify", rows=[row for row in live.tolist() if row not in {row for row, _, _ in shared}])

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
        else:
            (row, length, slot), *_ = found
            text = f"{entries(num_dummies)} {what.format(rows=row, positions=length - 1, out_slots=slot)}"
        self.on_fact(kind, rows=sorted({row for row, _, _ in found}), text=text)


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
