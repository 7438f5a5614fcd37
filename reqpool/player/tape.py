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
                 "wrong": [flat, ...],              cells that are wrong at this step
                 "lane": "schedule" or "forward",
                 "texts": [n, line, ...]},          what is recited from here on: n lines, and those that differ
                ...]}                               keys with nothing to say are left out

    runs: for each run of neighbouring cells  flat, n, n slots before, n slots after.  flat = row * C + position;
    slots are written as differences from the one before, since neighbours mostly hold consecutive slots.
    line: [which, label, letters kept of what it said before, letters added, wrong letters as differences].

wrong, lane and texts are facts that an event was emitted with; one that cannot be drawn is a ValueError.

Both sides of every change are there, so that stepping back costs what stepping forward costs.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import torch

from reqpool.trace import Event, Snapshot, Trace
from reqpool.views import caption

LENGTHS = ("verified", "alloced", "alloced_cpu", "generation")
LANES = ("schedule", "forward")
Cells = Iterable[tuple[int, int, int]]  # flat, before, after
Line = tuple[str, str, tuple[int, ...]]  # label, text, indices of the wrong letters


def encode(trace: Trace) -> str:
    """The trace as the string that tape.js unpacks; equal traces give equal strings."""
    text = json.dumps(tape(trace), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def tape(trace: Trace) -> dict:
    first = trace.first
    rows, columns = first.table.shape
    events = [event_entry(event, columns) for event in trace]
    add_facts(trace, events, rows, columns)
    return {
        "version": 1,
        "rows": rows,
        "columns": columns,
        "padding_row": first.padding_row,
        "reuse": first.reuse,
        "slots": num_slots(first, trace),
        "first": first_entry(first),
        "captions": captions(trace),
        "events": events,
    }


def captions(trace: Trace) -> list[str]:
    """On one thread: each caption takes a snapshot, and to share a copy of some 100 kB out to threads costs ten times
    what the copy does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [caption(trace, k) for k in range(len(trace) + 1)]
    finally:
        torch.set_num_threads(threads)


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
    }
    said = {"kind": event.kind, "rid": event.rid, "rows": list(event.rows)}
    return said | {key: value for key, value in entry.items() if value}


# ---- facts: what a scenario tells, so it is looked at before it is drawn -------------------------------------------


def add_facts(trace: Trace, entries: list[dict], rows: int, columns: int) -> None:
    said: list[Line] = []
    for k, (event, entry) in enumerate(zip(trace, entries, strict=True), start=1):
        facts = dict(event.facts)
        if wrong := wrong_cells(k, facts.get("wrong", ()), rows, columns):
            entry["wrong"] = wrong
        if lane := checked_lane(k, facts.get("lane")):
            entry["lane"] = lane
        if "texts" in facts:
            lines = checked_lines(k, facts["texts"])
            if lines != said:
                entry["texts"], said = news(said, lines), lines


def wrong_cells(k: int, fact: Any, rows: int, columns: int) -> list[int]:
    wanted = f"((row, position), ...) within {rows} rows and {columns} positions"
    try:
        cells = [(row, position) for row, position in fact]
    except (TypeError, ValueError):
        refuse(k, "wrong", fact, wanted)
    if not all(is_index(row, rows) and is_index(position, columns) for row, position in cells):
        refuse(k, "wrong", fact, wanted)
    return [row * columns + position for row, position in cells]


def checked_lane(k: int, fact: Any) -> str | None:
    return fact if fact is None or fact in LANES else refuse(k, "lane", fact, " or ".join(map(repr, LANES)))


def checked_lines(k: int, fact: Any) -> list[Line]:
    wanted = "((label, text, (wrong indices...)), ...), each index within its text"
    try:
        lines = [(label, text, tuple(sorted(set(wrong)))) for label, text, wrong in fact]
    except (TypeError, ValueError):
        refuse(k, "texts", fact, wanted)
    for label, text, wrong in lines:
        if not (isinstance(label, str) and isinstance(text, str) and all(is_index(i, len(text)) for i in wrong)):
            refuse(k, "texts", fact, wanted)
    return lines


def is_index(value: Any, end: int) -> bool:
    return isinstance(value, int) and 0 <= value < end


def refuse(k: int, name: str, fact: Any, wanted: str) -> NoReturn:
    shown = repr(fact)
    raise ValueError(
        f"event {k}: {name}={shown if len(shown) <= 80 else shown[:79] + '…'} cannot be drawn, wanted {wanted}"
    )


def news(before: list[Line], now: list[Line]) -> list:
    """How many lines there are now, then each that is new or different.

    >>> news([("a", "ca", ()), ("b", "do", ())], [("a", "cat", (2,)), ("b", "do", ())])
    [2, [0, 'a', 2, 't', [2]]]
    """
    different: list = []
    for i, (label, text, wrong) in enumerate(now):
        if before[i : i + 1] == [now[i]]:
            continue
        old = before[i][1] if i < len(before) else ""
        kept = len(old) if text.startswith(old) else 0
        different.append([i, label, kept, text[kept:], differences(wrong)])
    return [len(now), *different]


# ---- numbers, made short ---------------------------------------------------------------------------------------------


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
