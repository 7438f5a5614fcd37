"""The tape: a whole trace as one short string, which the browser unpacks once and plays without a kernel.

    Trace -> dict -> JSON -> zlib -> base64

    {"version": 1, "rows": R, "columns": C, "padding_row": 0 or null, "reuse": "fifo",
     "slots": S,                                    the largest slot that ever appears, plus one; 0: none does
     "first": {"cells": runs, "verified": [R ints], "alloced": [R ints], "generation": [R ints],
               "mirror": [R ints],                  the host mirror, left out when it equals alloced
               "owners": [[row, [rid, ...]], ...], "free": [rows in hand-out order, as differences]},
     "captions": [n + 1 sentences],                 captions[k] is shown after k events
     "events": [{"kind": ..., "rid": ..., "rows": [...],
                 "cells": runs,
                 "lens": [which, row, before, after, ...],      which: an index into LENGTHS
                 "owners": [[row, [before, ...], [after, ...]], ...],    null stands for a row handed out by count
                 "free": [at, [removed, ...], [inserted, ...]],
                 "wrong": [flat, ...]}, ...]}       keys with nothing to say are left out

    runs: for each run of neighbouring cells  flat, n, n slots before, n slots after.  flat = row * C + position;
    slots are written as differences from the one before, since neighbours mostly hold consecutive slots.

Both sides of every change are there, so that stepping back costs what stepping forward costs.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

from reqpool.trace import Event, Snapshot, Trace
from reqpool.views import caption

LENGTHS = ("verified", "alloced", "alloced_cpu", "generation")
Cells = Iterable[tuple[int, int, int]]  # flat, before, after


def encode(trace: Trace) -> str:
    """The trace as the string that `player.js` unpacks; equal traces give equal strings."""
    text = json.dumps(tape(trace), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def tape(trace: Trace) -> dict:
    first = trace.first
    columns = first.table.shape[1]
    events = [event_entry(event, columns) for event in trace]
    return {
        "version": 1,
        "rows": first.table.shape[0],
        "columns": columns,
        "padding_row": first.padding_row,
        "reuse": first.reuse,
        "slots": num_slots(first, trace),
        "first": first_entry(first),
        "captions": [caption(trace, k) for k in range(len(trace) + 1)],
        "events": events,
    }


def first_entry(first: Snapshot) -> dict:
    columns = first.table.shape[1]
    held = first.table.nonzero().tolist()
    cells = [(row * columns + position, 0, int(first.table[row, position])) for row, position in held]
    entry = {
        "cells": runs(cells),
        "verified": list(first.verified),
        "alloced": list(first.alloced),
        "generation": list(first.generation),
        "owners": [[row, holders(rids)] for row, rids in sorted(first.owners.items())],
        "free": differences(first.free),
    }
    if tuple(first.alloced_cpu) != tuple(first.alloced):
        entry["mirror"] = list(first.alloced_cpu)
    return entry


def event_entry(event: Event, columns: int) -> dict:
    change = event.change
    cells = [(row * columns + position, before, after) for row, position, before, after in change.cells]
    lens = [n for name, row, before, after in change.lengths for n in (LENGTHS.index(name), row, before, after)]
    entry = {
        "cells": runs(cells),
        "lens": lens,
        "owners": [[row, holders(before), holders(after)] for row, before, after in change.owners],
        "free": change.free and [change.free[0], list(change.free[1]), list(change.free[2])],
        "wrong": [row * columns + position for row, position in dict(event.facts).get("wrong", ())],
    }
    said = {"kind": event.kind, "rid": event.rid, "rows": list(event.rows)}
    return said | {key: value for key, value in entry.items() if value}


def holders(rids: Sequence[str | None] | None) -> list[str | None]:
    """The row's holders; a row handed out by count is held by one that has no name."""
    return [None] if rids is None else list(rids)


def runs(cells: Cells) -> list[int]:
    """
    >>> runs([(4, 0, 7), (5, 0, 8), (9, 3, 0)])
    [4, 2, 0, 0, 7, 1, 9, 1, 3, 0]
    """
    found: list[list[tuple[int, int, int]]] = []
    for cell in sorted(cells):
        if not found or found[-1][-1][0] + 1 != cell[0]:
            found.append([])
        found[-1].append(cell)
    numbers: list[int] = []
    for run in found:
        flats, before, after = zip(*run, strict=True)
        numbers += [flats[0], len(run), *differences(before), *differences(after)]
    return numbers


def differences(numbers: Sequence[int]) -> list[int]:
    """The first number, then how much each is more than the one before.

    >>> differences([7, 8, 9, 3])
    [7, 1, 1, -6]
    """
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]


def num_slots(first: Snapshot, trace: Trace) -> int:
    ever = [int(first.table.max()), *(max(cell[2:]) for event in trace for cell in event.change.cells)]
    return max(ever) + 1 if max(ever) > 0 else 0
