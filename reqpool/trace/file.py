"""The trace file: JSON lines that a person can read and a program can trust.

    {"format": "reqpool-trace", "version": 1, "events": 2, "rows": 3, "positions": 8, ...}     the first state
    {"kind": "alloc", "rid": "a", "rows": [1], ...}                                            one line an event
    ...
    {"sha256": "..."}                                                                          of all lines before

Loading checks the digest, then every field, then replays the whole trace: each change must find what it says was there.
No pickle: a file from a stranger can be wrong, but it cannot run.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from reqpool.trace.events import KINDS, LENGTHS, Change, Event, Snapshot
from reqpool.trace.replay import Trace, _State

FORMAT, VERSION = "reqpool-trace", 1
MAX_BYTES = 64 * 2**20  # of a file
MAX_CELLS = 2**26  # rows x positions of its table
INT32 = 2**31


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace; an existing file is replaced only when the new one is whole.

    Raises:
        ValueError: the table or the file would be over the limits that `load` keeps.
    """
    path, first = Path(path), trace.first
    rows, positions = first.table.shape
    _need(rows * positions <= MAX_CELLS, path, f"its table has {rows} x {positions} cells, the limit is {MAX_CELLS}")
    flat = first.table.flatten()
    where = torch.nonzero(flat).flatten()
    head = {
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
    lines = [_line(head)]
    for event in trace:
        values = {field.name: getattr(event, field.name) for field in fields(Event)}
        change = {field.name: getattr(event.change, field.name) for field in fields(Change)}
        values["change"] = {name: value for name, value in change.items() if value}
        lines.append(_line({name: value for name, value in values.items() if value not in ("", (), {}, None)}))
    body = "".join(lines).encode()
    body += _line({"sha256": hashlib.sha256(body).hexdigest()}).encode()
    _need(len(body) <= MAX_BYTES, path, f"it would take {len(body)} bytes, the limit is {MAX_BYTES}")
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(body)
    os.replace(beside, path)


def load(path: str | Path) -> Trace:
    """Read a trace file.

    Raises:
        ValueError: it is cut, edited, from a newer version, over a limit, or no trace; nothing is half-loaded.
    """
    path = Path(path)
    with path.open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    _need(len(body) <= MAX_BYTES, path, f"it is larger than the limit of {MAX_BYTES} bytes")
    lines = body.splitlines(keepends=True)
    head = _parse(lines[0], path, 1) if lines else {}
    _need(isinstance(head, dict) and head.get("format") == FORMAT, path, "it is not a reqpool trace")
    version = head.get("version")
    newer = isinstance(version, int) and version > VERSION
    _need(not newer, path, f"it has version {version}, newer than {VERSION}: update reqpool to read it")
    _need(version == VERSION, path, f"it has version {version!r}, wanted {VERSION}")
    last = _parse(lines[-1], path, len(lines)) if body.endswith(b"\n") else None
    whole = isinstance(last, dict) and "sha256" in last and head.get("events") == len(lines) - 2
    _need(whole, path, f"it is cut: {len(lines)} lines, wanted {head.get('events')} events between first and last line")
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    _need(last["sha256"] == digest, path, "it was edited or damaged: its checksum does not fit")
    try:
        first = _first(head)
        state = _State(first)
        events = []
        for number, line in enumerate(lines[1:-1], start=2):
            event = _event(_parse(line, path, number), state, number)
            state.forward(event.change)
            events.append(event)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, _Misfit) as error:
        raise ValueError(f"{path}: it is damaged: {type(error).__name__.strip('_')}: {error}") from error
    return Trace(first, events)


class _Misfit(Exception):
    pass


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"


def _need(condition: bool, path: Path, problem: str) -> None:
    if not condition:
        raise ValueError(f"{path}: {problem}")


def _parse(line: bytes, path: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: line {number} is not JSON: it is no reqpool trace, or it was cut") from error


def _first(head: dict[str, Any]) -> Snapshot:
    rows, positions = (_int(head[name], 1, MAX_CELLS, name) for name in ("rows", "positions"))
    _fit(rows * positions <= MAX_CELLS, f"{rows} x {positions} cells, the limit is {MAX_CELLS}")
    table = torch.zeros(rows * positions, dtype=torch.int32)
    for flat, slot in head["cells"]:
        table[_int(flat, 0, rows * positions - 1, "cell")] = _int(slot, -INT32, INT32 - 1, "slot")
    lengths = {name: tuple(_int(n, -(2**63), 2**63 - 1, name) for n in head[name]) for name in LENGTHS}
    _fit(all(len(numbers) == rows for numbers in lengths.values()), f"lengths are not {rows} each")
    padding_row, reuse = head["padding_row"], head["reuse"]
    _fit(padding_row is None or (type(padding_row) is int and padding_row == 0), f"padding_row is {padding_row!r}")
    _fit(reuse in ("fifo", "lifo"), f"reuse is {reuse!r}")
    owners = {_int(row, 0, rows - 1, "row"): _rids(rids) for row, rids in head["owners"]}
    free = tuple(_int(row, 0, rows - 1, "row") for row in head["free"])
    return Snapshot(table.view(rows, positions), owners, free, **lengths, padding_row=padding_row, reuse=reuse)


def _event(line: Any, state: _State, number: int) -> Event:
    _fit(isinstance(line, dict), f"line {number} is {type(line).__name__}, wanted an event")
    unknown = line.keys() - {field.name for field in fields(Event)}
    _fit(not unknown, f"line {number} has unknown fields {sorted(unknown)}")
    _fit(line.get("kind") in KINDS, f"line {number} has kind {line.get('kind')!r}")
    last_row = state.table.shape[0] - 1
    rid = line.get("rid")
    _fit(rid is None or isinstance(rid, str), f"line {number} has rid {rid!r}")
    _fit(all(isinstance(line.get(name, ""), str) for name in ("call", "text")), f"line {number}: text is not text")
    change = _change(line.get("change", {}))
    problem = state.misfit(change)
    _fit(not problem, f"line {number}: {problem}")
    return Event(
        step=_int(line["step"], -(2**63), 2**63 - 1, "step"),
        kind=line["kind"],
        rid=rid,
        rows=tuple(_int(row, 0, last_row, "row") for row in line.get("rows", ())),
        rids=_rids(line.get("rids", ())),
        call=line.get("call", ""),
        text=line.get("text", ""),
        facts=tuple((str(name), _frozen(value)) for name, value in line.get("facts", ())),
        change=change,
    )


def _change(line: dict[str, Any]) -> Change:
    unknown = line.keys() - {field.name for field in fields(Change)}
    _fit(not unknown, f"a change has unknown fields {sorted(unknown)}")
    cells = tuple(tuple(_int(n, -INT32, INT32 - 1, "cell") for n in cell) for cell in line.get("cells", ()))
    _fit(all(len(cell) == 4 for cell in cells), "a changed cell has four numbers")
    lengths = []
    for name, *numbers in line.get("lengths", ()):
        _fit(name in LENGTHS and len(numbers) == 3, f"a changed length is {[name, *numbers]!r}")
        lengths.append((name, *(_int(n, -(2**63), 2**63 - 1, name) for n in numbers)))
    owners = tuple(
        (_int(row, 0, MAX_CELLS, "row"), _rids(before), _rids(after)) for row, before, after in line.get("owners", ())
    )
    free = line.get("free")
    if free is not None:
        at, *rows = free
        _fit(len(rows) == 2, f"a changed free list is {free!r}")
        free = (
            _int(at, 0, MAX_CELLS, "index"),
            *(tuple(_int(row, 0, MAX_CELLS, "row") for row in part) for part in rows),
        )
    return Change(cells, tuple(lengths), owners, free)


def _fit(condition: bool, problem: str) -> None:
    if not condition:
        raise _Misfit(problem)


def _int(value: Any, low: int, high: int, name: str) -> int:
    _fit(type(value) is int and low <= value <= high, f"{name} is {value!r}, wanted an integer in {low}..{high}")
    return value


def _rids(rids: Any) -> tuple[str | None, ...]:
    _fit(isinstance(rids, (list, tuple)) and all(rid is None or isinstance(rid, str) for rid in rids), f"rids {rids!r}")
    return tuple(rids)


def _frozen(value: Any) -> Any:
    _fit(not isinstance(value, dict), f"fact {value!r}")
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
