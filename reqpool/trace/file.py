"""The trace file: JSON lines that a person can read and a program can trust.

    {"format": "reqpool-trace", "version": 1, "events": 2, "rows": 3, "positions": 8, ...}     the first state
    {"kind": "alloc", "rid": "a", "rows": [1], ...}                                            one line an event
    ...
    {"sha256": "..."}                                                                          of all lines before

Loading checks the digest, then every field, then replays the whole trace: each change must find what it says was there.
Saving loads what it is about to write, so that no file is written which could not be read.
No pickle: a file from a stranger can be wrong, but it cannot run.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from reqpool.trace.events import (
    INT64,
    LENGTHS,
    Change,
    Event,
    Snapshot,
    check_event,
    frozen,
    need_integers,
    need_rids,
    short,
)
from reqpool.trace.replay import Trace, _State

FORMAT, VERSION = "reqpool-trace", 1
MAX_BYTES = 8 * 2**20  # of a file: some 40,000 events; the worst such file loads in a few seconds
MAX_CELLS = 2**24  # rows x positions of its table
MAX_MOVED = 2**29  # rows in the free list, summed over the events that change it
INT32 = 2**31


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace; an existing file is replaced only when the new one is whole.

    Raises:
        ValueError: `load` would refuse the file, or give back something else: a limit, a field that no file can hold.
    """
    path = Path(path)
    try:
        body = _body(trace)
        again = _trace(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this trace cannot be saved: {error}") from error
    for number, (event, loaded) in enumerate(zip(trace, again, strict=True), start=1):
        if event != loaded:
            raise ValueError(f"{path}: this trace cannot be saved: event {number} would come back as {loaded!r:.200}")
    beside = path.with_name(f".{uuid4().hex}.part")  # mode "x" below: never a file that is there
    try:
        with beside.open("xb") as file:
            file.write(body)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: str | Path) -> Trace:
    """Read a trace file of at most 8 MiB, with a table of at most 2**24 cells.

    Raises:
        ValueError: it is cut, edited, from a newer version, over a limit, or no trace; nothing is half-loaded.
    """
    path = Path(path)
    with path.open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    try:
        return _trace(body)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


# ---- a trace as bytes ------------------------------------------------------------------------------------------------


def _body(trace: Trace) -> bytes:
    lines = [_line(_head(trace)), *(_line(_event_values(event)) for event in trace)]
    body = "".join(lines).encode()
    return body + _line({"sha256": hashlib.sha256(body).hexdigest()}).encode()


def _head(trace: Trace) -> dict[str, Any]:
    first = trace.first
    rows, positions = first.table.shape
    flat = first.table.flatten()
    where = torch.nonzero(flat).flatten()
    return {
        "format": FORMAT,
        "version": VERSION,
        "events": len(trace),
        "rows": rows,
        "positions": positions,
        "padding_row": first.padding_row,
        "reuse": first.reuse,
        "cells": list(zip(where.tolist(), flat[where].tolist(), strict=True)),
        "owners": list(first.owners.items()),
        "free": first.free,
        **{name: getattr(first, name) for name in LENGTHS},
    }


def _event_values(event: Event) -> dict[str, Any]:
    """Its fields, without those that have nothing to say."""
    values = {field.name: getattr(event, field.name) for field in fields(Event)}
    change = {field.name: getattr(event.change, field.name) for field in fields(Change)}
    values["change"] = {name: value for name, value in change.items() if value}
    kept = {name: value for name, value in values.items() if value or name == "step"}
    return kept if event.rid is None else kept | {"rid": event.rid}  # an empty rid is one


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"


# ---- bytes as a trace: every message is one short sentence -----------------------------------------------------------


def _trace(body: bytes) -> Trace:
    _need(len(body) <= MAX_BYTES, "it is larger than the limit of {} bytes", MAX_BYTES)
    lines = body.splitlines(keepends=True)
    head = _parse(lines[0], 1) if lines else {}
    _need(isinstance(head, dict) and head.get("format") == FORMAT, "it is not a reqpool trace")
    version = head.get("version")
    newer = type(version) is int and version > VERSION
    _need(not newer, "it has version {}, newer than {}: update reqpool to read it", version, VERSION)
    _need(type(version) is int and version == VERSION, "it has version {}, wanted {}", version, VERSION)
    last = _parse(lines[-1], len(lines)) if body.endswith(b"\n") else {}
    wanted = head.get("events")
    whole = isinstance(last, dict) and "sha256" in last and type(wanted) is int and wanted == len(lines) - 2
    _need(whole, "it is cut: {} lines, wanted {} events between first and last line", len(lines), wanted)
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    _need(last["sha256"] == digest, "it was edited or damaged: its checksum does not fit")
    number = 1
    try:
        first = _first(head)
        state, events, moved = _State(first), [], 0
        for number, line in enumerate(lines[1:-1], start=2):
            event = _event(_parse(line, number))
            check_event(event, first.table.shape[0])
            if event.change:
                moved += len(state.free) if event.change.free else 0
                _need(moved <= MAX_MOVED, "its free list is too long for so many changes, the limit is {}", MAX_MOVED)
                state.check(event.change)
                state.forward(event.change)
            events.append(event)
    except (TypeError, ValueError) as error:
        raise ValueError(f"line {number} is damaged: {error}") from error
    return Trace(first, events)


def _need(condition: bool, problem: str, *shown: Any) -> None:
    if not condition:
        raise ValueError(problem.format(*map(short, shown)))


def _parse(line: bytes, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is not JSON: it is no reqpool trace, or it was cut") from error


def _first(head: dict[str, Any]) -> Snapshot:
    missing = {"rows", "positions", "cells", "owners", "free", "padding_row", "reuse", *LENGTHS} - head.keys()
    _need(not missing, "the first state has no {}", sorted(missing))
    rows, positions, padding_row, reuse = (head[name] for name in ("rows", "positions", "padding_row", "reuse"))
    need_integers("rows and positions", (rows, positions), 1, MAX_CELLS)
    _need(rows * positions <= MAX_CELLS, "its table has {} x {} cells, the limit is {}", rows, positions, MAX_CELLS)
    _need(padding_row is None or (type(padding_row) is int and padding_row == 0), "padding_row is {}", padding_row)
    _need(reuse in ("fifo", "lifo"), "reuse is {}, wanted fifo or lifo", reuse)
    table = torch.zeros(rows * positions, dtype=torch.int32)
    if cells := _rows_of(head["cells"], 2, "cells"):
        where, slots = zip(*cells, strict=True)
        need_integers("cell", where, 0, rows * positions - 1)
        need_integers("slot", slots, -INT32, INT32 - 1)
        _need(len(set(where)) == len(where), "a cell comes twice")
        table[torch.tensor(where)] = torch.tensor(slots, dtype=torch.int32)
    lengths = {name: _integers(head[name], name, *_range(name)) for name in LENGTHS}
    _need(all(len(numbers) == rows for numbers in lengths.values()), "the lengths are not {} each", rows)
    held = [(row, _rids(rids)) for row, rids in _rows_of(head["owners"], 2, "owners")]
    need_integers("row", tuple(row for row, _ in held), 0, rows - 1)
    owners = dict(held)
    _need(len(owners) == len(held) and all(owners.values()), "owners: a row comes twice, or is held by nobody")
    free = _integers(head["free"], "free row", 0, rows - 1)
    return Snapshot(table.view(rows, positions), owners, free, **lengths, padding_row=padding_row, reuse=reuse)


def _event(line: Any) -> Event:
    return Event(**_fields(line, _EVENT, "an event", required=("step", "kind")))


def _change(line: Any) -> Change:
    return Change(**_fields(line, _CHANGE, "a change"))


def _fields(line: Any, known: dict[str, Any], what: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    _need(isinstance(line, dict), "{} is not " + what, line)
    for name in (*line, *required):
        if name not in known or name not in line:
            raise ValueError(f"{what} has {'no' if name in known else 'an unknown'} field {short(name)}")
    return {name: known[name](value) if known[name] else value for name, value in line.items()}


def _cells(value: Any) -> tuple[Any, ...]:
    cells = _rows_of(value, 4, "cells")
    need_integers("cell", tuple(chain.from_iterable(cells)), -INT32, INT32 - 1)
    return cells


def _lengths(value: Any) -> tuple[Any, ...]:
    lengths = _rows_of(value, 4, "lengths")
    for name, *numbers in lengths:
        _need(name in LENGTHS, "length is {}, wanted one of {}", name, LENGTHS)
        need_integers(name, tuple(numbers), *_range(name))
    return lengths


def _owners(value: Any) -> tuple[Any, ...]:
    owners = tuple((row, _rids(before), _rids(after)) for row, before, after in _rows_of(value, 3, "owners"))
    need_integers("row", tuple(row for row, *_ in owners), 0, MAX_CELLS)
    return owners


def _free(value: Any) -> Any:
    at, out, into = _rows_of([value], 3, "free")[0]
    need_integers("free", (at,), 0, MAX_BYTES)
    return (at, _integers(out, "free row", 0, MAX_CELLS), _integers(into, "free row", 0, MAX_CELLS))


def _facts(value: Any) -> tuple[Any, ...]:
    facts = _rows_of(value, 2, "facts")
    _need(all(isinstance(name, str) for name, _ in facts), "the name of a fact is not text")
    return tuple((name, frozen(name, fact)) for name, fact in facts)


def _range(length: str) -> tuple[int, int]:
    return (-INT64, INT64 - 1) if length == "generation" else (-INT32, INT32 - 1)


def _tuple(value: Any) -> tuple[Any, ...]:
    _need(isinstance(value, list), "{} is not a list", value)
    return tuple(value)


def _rids(value: Any) -> tuple[Any, ...]:
    rids = _tuple(value)
    need_rids(rids)
    return rids


def _integers(value: Any, name: str, low: int, high: int) -> tuple[int, ...]:
    numbers = _tuple(value)
    need_integers(name, numbers, low, high)
    return numbers


def _rows_of(value: Any, width: int, name: str) -> tuple[Any, ...]:
    """A list of lists of one width, as tuples."""
    for item in _tuple(value):
        if not isinstance(item, list) or len(item) != width:
            raise ValueError(f"{name}: {short(item)} is not a list of {width}")
    return tuple(map(tuple, value))


_EVENT = {
    "step": None,
    "kind": None,
    "rid": None,
    "rows": _tuple,
    "rids": _tuple,
    "call": None,
    "text": None,
    "facts": _facts,
    "change": _change,
}
_CHANGE = {"cells": _cells, "lengths": _lengths, "owners": _owners, "free": _free}
