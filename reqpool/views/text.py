"""The state and the event in words: what a terminal shows, what a test reads, what a screen reader says.

    free rows, next first: 3
    row  owner     0    1    2    3    4    5   verified/alloced
      0  padding   :0:  :0:  :0:  :0:  :0:  :0:
      1  a          7    8    9   *3*   .    .  3/4
      2  free      ~4~ ~11~  ~5~   .    .    .  0/0

`*3*` has just changed, `~4~` is stale (not zero, beyond the row's length), `:0:` is the padding row, `.` is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reqpool.trace import Event, Snapshot, Trace

MARKS = {"live": "{}", "stale": "~{}~", "padding": ":{}:", "empty": "."}


def cell_state(snapshot: Snapshot, row: int, position: int) -> str:
    """`padding`, `live` (below the row's alloced length), `stale` (not zero beyond it) or `empty`."""
    if row == snapshot.padding_row:
        return "padding"
    if position < snapshot.alloced[row]:
        return "live"
    return "stale" if int(snapshot.table[row, position]) else "empty"


def owner_name(snapshot: Snapshot, row: int) -> str:
    """Who holds a row, in a word: a rid, two rids where a fault gave it away twice, `by count`, `free`, `padding`."""
    if row == snapshot.padding_row:
        return "padding"
    rids = snapshot.owners.get(row, ())
    return " + ".join("by count" if rid is None else rid for rid in rids) or "free"


def text_view(snapshot: Snapshot, changed: Iterable[tuple[int, int]] = ()) -> str:
    """The whole state as text. `changed`: cells (row, position) to be marked, as `trace.changed(k)` gives them."""
    changed = set(changed)
    cells = snapshot.table.tolist()
    marked = [
        [_mark(snapshot, row, position, slot, (row, position) in changed) for position, slot in enumerate(cells[row])]
        for row in range(len(cells))
    ]
    width = max(len(mark) for row in marked for mark in (*row, str(len(row) - 1)))
    names = [owner_name(snapshot, row) for row in range(len(cells))]
    side = max(len(name) for name in (*names, "owner"))
    head = " ".join(str(position).rjust(width) for position in range(snapshot.max_context_len))
    lines = [
        f"free rows, next first: {_listed(snapshot.free) or 'none'}",
        f"row  {'owner'.ljust(side)}  {head}  verified/alloced",
    ]
    for row, marks in enumerate(marked):
        line = f"{row:>3}  {names[row].ljust(side)}  {' '.join(mark.rjust(width) for mark in marks)}  "
        lines.append((line + length_text(snapshot, row)).rstrip())
    return "\n".join(lines)


def length_text(snapshot: Snapshot, row: int) -> str:
    """`verified/alloced` of a row, and in words what is odd; of the padding row only when a length has drifted."""
    verified, alloced = snapshot.verified[row], snapshot.alloced[row]
    odd = []
    if verified > alloced:
        odd.append("verified beyond alloced")
    if snapshot.alloced_cpu[row] != alloced:
        odd.append(f"host mirror says {snapshot.alloced_cpu[row]}")
    if row == snapshot.padding_row:
        return f"{verified}/{alloced} drifted" if verified or alloced else ""
    if row not in snapshot.owners and (verified or alloced):
        odd.append("a free row with a length")
    return f"{verified}/{alloced}" + "".join(f" ({word})" for word in odd)


def caption(trace: Trace, k: int) -> str:
    """The sentence for step k: what the k-th event was, who did it, where, and what it changed."""
    if k == 0:
        trace._need_step(0)
        return _start(trace.first)
    trace._need_step(k)
    event = trace[k - 1]
    return _SENTENCES[event.kind](event, trace, k)


def _start(first: Snapshot) -> str:
    held = len(first.owners)
    free = (
        f"{_count(len(first.free), 'row')} free, handed out in the order {_listed(first.free)}"
        if first.free
        else "no row free"
    )
    return f"The start: {_count(held, 'row')} handed out, {free}."


def _alloc(event: Event, trace: Trace, k: int) -> str:
    if event.call == "alloc_rows":
        got = f"{_rows(event.rows)} {'is' if len(event.rows) == 1 else 'are'} handed out by count"
    else:
        pairs = zip(event.rids, event.rows, strict=True)
        got = ", ".join(f"{_who(rid)} gets row {row}" for rid, row in pairs)
    shared = [row for row, _, rids in event.change.owners if len(rids) > 1]
    fault = f" But {_rows(shared)} now {'has' if len(shared) == 1 else 'have'} two owners!" if shared else ""
    return f"{got}; {_count(len(trace.snapshot(k).free), 'row')} still free." + fault


def _keep(event: Event, trace: Trace, k: int) -> str:
    pairs = zip(event.rids, event.rows, strict=True)
    kept = ", ".join(f"{_who(rid)} keeps row {row}" for rid, row in pairs)
    return f"{kept} and goes on where it was: no length is reset."


def _refuse(event: Event, trace: Trace, k: int) -> str:
    error = dict(event.facts).get("error")
    how = "returns None" if error == "None" else f"raises {error}"
    what = f"Yet it changed something: {_changes(event)}." if event.change else "Nothing has changed."
    return f"{event.call} {how}: {event.text}. {what}"


def _reset(event: Event, trace: Trace, k: int) -> str:
    return f"Reset on reuse: {_changes(event)}. What a late write had left there is gone before the new owner starts."


def _write(event: Event, trace: Trace, k: int) -> str:
    if event.text:
        return _told(event)
    what = _changes(event) or "no cell changed"
    if event.call:
        return f"{_subject(event)}{what}."
    padding = trace.first.padding_row in event.change.rows
    return f"A write that nobody announced: {what}{' (row 0 is the padding row)' if padding else ''}."


def _append(event: Event, trace: Trace, k: int) -> str:
    return f"{_subject(event)}{_changes(event) or 'nothing to append'}."


def _read(event: Event, trace: Trace, k: int) -> str:
    return f"{_subject(event)}{_rows(event.rows)} {'is' if len(event.rows) == 1 else 'are'} read."


def _verify(event: Event, trace: Trace, k: int) -> str:
    if event.text:
        return _told(event)
    what = _changes(event) or "no length changed"
    nobody = [row for row in event.change.rows if row != trace.first.padding_row and _nobody(trace, k, row)]
    late = f" But {_rows(nobody)} {'is' if len(nobody) == 1 else 'are'} free: this came late." if nobody else ""
    return f"The forward step reports: {what}.{late}"


def _late_write(event: Event, trace: Trace, k: int) -> str:
    if event.text:
        return _told(event)
    parts = []
    for row in event.change.rows or event.rows:
        last = _last_owner(trace, k, row)
        whose = f", whose last owner was {_who(last)}," if last is not None else ""
        state = "free" if _nobody(trace, k, row) else "somebody else's by now"
        parts.append(f"row {row}{whose} is {state}")
    return f"A late write: {_changes(event) or 'nothing changed'}, but {' and '.join(parts)}."


def _free(event: Event, trace: Trace, k: int) -> str:
    given = (
        f"{_who(event.rid)} gives back {_rows(event.rows)}"
        if event.rid is not None
        else f"{_rows(event.rows)} given back"
    )
    return f"{given}: lengths go to zero, the cells keep their old slots."


def _clear(event: Event, trace: Trace, k: int) -> str:
    return f"Clear: {_count(len(event.change.cells), 'cell')} zeroed, every row is free, every holder is released."


def _told(event: Event) -> str:
    """What the scenario says; what was found in the tensors is added to it."""
    text = event.text or f"{_subject(event)}{_rows(event.rows)}"
    found = _changes(event)
    return f"{text.rstrip('.')}: {found}." if found else f"{text.rstrip('.')}."


_SENTENCES = {
    "alloc": _alloc,
    "keep": _keep,
    "refuse": _refuse,
    "reset": _reset,
    "write": _write,
    "append": _append,
    "read": _read,
    "free": _free,
    "clear": _clear,
    "late_write": _late_write,
    "verify": _verify,
    "pad_read": lambda event, trace, k: _told(event),
    "pad_write": lambda event, trace, k: _told(event),
    "retract": lambda event, trace, k: _told(event),
    "note": lambda event, trace, k: _told(event),
}


# ---- the words sentences are made of -----------------------------------------------------------------------------


def _mark(snapshot: Snapshot, row: int, position: int, slot: int, changed: bool) -> str:
    return f"*{slot}*" if changed else MARKS[cell_state(snapshot, row, position)].format(slot)


def _who(rid: str | None) -> str:
    if rid is None:
        return "somebody (by count)"
    return f"request {rid if len(rid) <= 40 else rid[:39] + '…'}" if rid else "the request with an empty rid"


def _subject(event: Event) -> str:
    return f"{_who(event.rid)}: " if event.rid is not None else ""


def _rows(rows: Sequence[int]) -> str:
    if not rows:
        return "no row"
    return f"row {rows[0]}" if len(rows) == 1 else f"rows {_listed(rows)}"


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _listed(numbers: Sequence[int], limit: int = 8) -> str:
    listed = ", ".join(str(number) for number in numbers[:limit])
    return listed + (f", … ({len(numbers)} in all)" if len(numbers) > limit else "")


def _changes(event: Event) -> str:
    """The cells and lengths that an event changed, row by row, then free rows that went missing."""
    change, parts = event.change, []
    for row in change.rows:
        cells = [cell for cell in change.cells if cell[0] == row]
        lengths = {name: (before, after) for name, at, before, after in change.lengths if at == row}
        said = ([_cells(cells)] if cells else []) + _lengths(lengths)
        parts.append(f"row {row}, {'; '.join(said)}" if said else "")
    if event.kind == "refuse" and change.free and change.free[1]:
        parts.append(f"{_rows(change.free[1])} left the free list")
    return " | ".join(part for part in parts if part)


def _cells(cells: Sequence[tuple[int, int, int, int]]) -> str:
    positions, slots = [cell[1] for cell in cells], [cell[3] for cell in cells]
    if len(cells) == 1:
        return f"position {positions[0]} now says slot {slots[0]}"
    run = positions == list(range(positions[0], positions[0] + len(positions)))
    where = f"{positions[0]} to {positions[-1]}" if run else _listed(positions)
    return f"positions {where} now say slots {_listed(slots)}"


def _lengths(lengths: dict[str, tuple[int, int]]) -> list[str]:
    """Alloced and its host mirror are one fact while they agree, and two when they do not."""
    said = []
    for name, word in (("verified", "verified length"), ("alloced", "alloced length")):
        if name in lengths:
            said.append("{} goes {} → {}".format(word, *lengths[name]))
    if lengths.get("alloced_cpu") != lengths.get("alloced") and "alloced_cpu" in lengths:
        said.append("the host mirror of the alloced length goes {} → {}".format(*lengths["alloced_cpu"]))
    return said


def _nobody(trace: Trace, k: int, row: int) -> bool:
    return row not in trace.snapshot(k).owners


def _last_owner(trace: Trace, k: int, row: int) -> str | None:
    """The last request that gave this row back."""
    for event in reversed(trace.events[:k]):
        for at, before, _ in event.change.owners:
            if at == row and before and before[0] is not None:
                return before[0]
    return None
