"""The state and the event in words: what a terminal shows, what a test reads, what a screen reader says.

    free rows, next first: 3
    row  owner     0    1    2    3    4    5   verified/alloced
      0  padding   :0:  :0:  :0:  :0:  :0:  :0:
      1  a          7    8    9   *3*   .    .  3/4
      2  free      ~4~ ~11~  ~5~   .    .    .  0/0

`*3*` has just changed, `~4~` is stale (not zero, beyond the row's length; `*~4~*` is both), `:0:` is the padding row,
`.` is empty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from reqpool.trace import Change, Event, Snapshot, Trace
from reqpool.trace.events import LENGTHS, Cell

MARKS = {"live": "{}", "stale": "~{}~", "padding": ":{}:", "empty": "."}

# Controls, ends of line, marks that are invisible or turn the direction of writing, lone surrogates, noncharacters:
# what breaks a line, a terminal or XML. The joiners of emoji and of Persian stay.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_OUR_WORDS = ("padding", "by count", "free", "nobody", "(empty name)")


def clean(text: str, limit: int = 240) -> str:
    r"""Foreign text on one line, with nothing invisible in it; of a long one head and tail.

    >>> print(clean("a\nb\x1b[31m"), clean("chatcmpl-0123456789abcdef", 12))
    a\nb\x1b[31m chatcmp…cdef
    """
    spelled = _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), _cut(text, limit))
    return _cut(spelled, limit)


def _cut(text: str, limit: int) -> str:
    tail = limit // 3
    return text if len(text) <= limit else f"{text[: limit - tail - 1]}…{text[-tail:]}"


def request_name(rid: str | None, limit: int = 40) -> str:
    """A rid as every view writes it; in quotation marks where it could be taken for one of our own words."""
    if not rid:
        return "by count" if rid is None else "(empty name)"
    mistakable = rid in _OUR_WORDS or " + " in rid or rid != rid.strip() or rid[0] == '"'
    return f'"{clean(rid, limit)}"' if mistakable else clean(rid, limit)


def cell_state(snapshot: Snapshot, row: int, position: int) -> str:
    """`padding`, `live` (below the row's alloced length), `stale` (not zero beyond it) or `empty`."""
    if row == snapshot.padding_row:
        return "padding"
    if position < snapshot.alloced[row]:
        return "live"
    return "stale" if int(snapshot.table[row, position]) else "empty"


def owner_name(snapshot: Snapshot, row: int, limit: int = 40) -> str:
    """Who holds a row: a rid, several where a fault gave it away twice, `by count`, `free`, `nobody`, `padding`."""
    names = ["padding"] if row == snapshot.padding_row else []
    names += [request_name(rid, limit) for rid in snapshot.owners.get(row, ())]
    if len(names) > 3:
        names[2:] = [f"{len(names) - 2} more"]
    return " + ".join(names) or ("free" if row in snapshot.free else "nobody")


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


def _mark(snapshot: Snapshot, row: int, position: int, slot: int, changed: bool) -> str:
    mark = MARKS[cell_state(snapshot, row, position)].format(slot)
    return f"*{mark}*" if changed else mark


def length_text(snapshot: Snapshot, row: int) -> str:
    """`verified/alloced` of a row, and in words what is odd; of the padding row only what is odd."""
    verified, alloced, mirror = snapshot.verified[row], snapshot.alloced[row], snapshot.alloced_cpu[row]
    padding, has_length = row == snapshot.padding_row, any((verified, alloced, mirror))
    odd = _faults(snapshot, row, snapshot.free.count(row))
    odd += ["drifted"] * (padding and has_length)
    odd += ["a free row with a length"] * (not padding and has_length and row not in snapshot.owners)
    odd += ["verified beyond alloced"] * (not padding and verified > alloced)
    odd += [f"host mirror says {mirror}"] * (mirror != alloced)
    numbers = f"{verified}/{alloced}" + (f" ({', '.join(odd)})" if odd else "")
    return numbers if odd or not padding else ""


def _faults(snapshot: Snapshot, row: int, num_free: int) -> list[str]:
    """What is wrong with who has a row: it is free or held, exactly once, and the padding row neither."""
    num_owners = len(snapshot.owners.get(row, ()))
    if row == snapshot.padding_row:
        return ["given away though it is the padding row"] if num_owners or num_free else []
    faults = {
        f"held by {'two' if num_owners == 2 else num_owners} at once": num_owners > 1,
        f"on the free list {'twice' if num_free == 2 else f'{num_free} times'}": num_free > 1,
        "held and on the free list": num_owners and num_free,
    }
    return [fault for fault, is_so in faults.items() if is_so]


# ---- one event, one caption --------------------------------------------------------------------------------------


def caption(trace: Trace, k: int) -> str:
    """The caption of step k: who did what where in the k-th event, and whatever it changed.

    It does not say the event's kind: who shows it puts the kind in front ("free: request a gives back row 1: ...").

    Cost: one snapshot.
    """
    trace._need_step(k)
    now = trace.snapshot(k)
    if k == 0:
        return _start(now)
    event = trace[k - 1]
    if event.text and not (event.kind == "refuse" and event.call):
        return _told(event, now)
    if event.kind == "late_write" and event.change:
        return _late(event, now, trace, k)
    if event.kind == "write" and event.change and not event.call:
        return _unannounced(event, now)
    paired = event.kind not in ("alloc", "keep") or 0 < len(event.rows) == len(event.rids)
    return (_CALLS.get(event.kind, _told) if event.call and paired else _told)(event, now)


def _start(first: Snapshot) -> str:
    held = _by_row(list(first.owners), lambda row: _held(row, first.owners[row]))
    free = f"free rows, next first: {_listed(first.free)}" if first.free else "no row is free"
    listed = sorted({*first.owners, *first.free})  # a pool without a padding row has one that it never uses
    return _sentences(f"{', '.join(held) or 'nobody holds a row'}; {free}", *_but(listed, first))


def _alloc(event: Event, now: Snapshot) -> str:
    if event.call == "alloc_rows":
        got = f"{_rows(event.rows)} {_are(event.rows)} handed out by count"
    else:
        got = _listed([f"{_who(rid)} gets row {row}" for rid, row in zip(event.rids, event.rows, strict=True)])
    left = f"still free: {_rows(now.free)}" if now.free else "no row is free now"
    return _sentences(f"{got}; {left}", *_changes(_unlike_alloc(event), now), *_but(_touched(event), now))


def _unlike_alloc(event: Event) -> Change:
    """What has changed that a hand-out of these rows does not change."""
    change, rows = event.change, set(event.rows)
    lengths = (n for n in change.lengths if not (n[0] == "generation" and n[1] in rows and n[3] == n[2] + 1))
    owners = (owner for owner in change.owners if not (owner[0] in rows and _one_more(*owner[1:])))
    free = None if _moved(change) == (sorted(event.rows), []) else change.free
    return Change(change.cells, tuple(lengths), tuple(owners), free)


def _one_more(before: Sequence[str | None], after: Sequence[str | None]) -> bool:
    return len(after) == len(before) + 1 and set(before) <= set(after)


def _keep(event: Event, now: Snapshot) -> str:
    pairs = zip(event.rids, event.rows, strict=True)
    kept = [f"{_who(rid)} keeps row {row} and goes on at position {now.alloced[row]}" for rid, row in pairs]
    return _sentences(_listed(kept), *_changes(event.change, now), *_but(_touched(event), now))


def _refuse(event: Event, now: Snapshot) -> str:
    error, why = clean(str(dict(event.facts).get("error", "")), 40), _line(event.text)
    if not error:
        said = f"{event.call} is refused: {why}"
    elif error == "None":
        said = f"{event.call}{f' of {_requests(event.rids)}' if event.rids else ''} returns None: {why}"
    elif why.startswith(f"{event.call} "):
        said = f"{error}: {why}"
    else:
        said = f"{event.call} raises {error}: {why.removeprefix(f'{event.call}: ')}"
    changes = "; ".join(_changes(event.change, now))
    damage = f"yet it changed something: {changes}" if changes else "nothing has changed"
    return _sentences(said, damage, *_but(_touched(event), now))


def _reset(event: Event, now: Snapshot) -> str:
    zeroed = all(after == 0 and row in now.owners for _, row, _, after in event.change.lengths)
    return _sentences(("the new owner starts at 0: " if zeroed and event.change else "") + _said(event, now, "length"))


def _write(event: Event, now: Snapshot) -> str:
    return _sentences(_said(event, now, "cell"), *_nobodys(event, now), *_but(_touched(event), now))


def _append(event: Event, now: Snapshot) -> str:
    by_request = event.rid is not None
    if not event.change:
        subject = f"{_who(event.rid)} appends nothing" if by_request else "nothing is appended"
        return _sentences(f"{subject} to {_rows(event.rows)}")
    cells = _appended(event.change, now)
    if not cells:
        return _write(event, now)
    row, (slots, where) = cells[0][0], _slots(cells)
    subject = f"{_who(event.rid)} writes {slots}" if by_request else f"{slots} {_are(cells)} written"
    num_same = sum(before == after for _, _, before, after in cells)
    some = "" if num_same == len(cells) else f"{num_same} of them "
    same = f" ({some}already there)" if num_same else ""
    return _sentences(f"{subject} into row {row}, {where}{same}; {_lengths(event.change, row, now)}")


def _appended(change: Change, now: Snapshot) -> list[Cell]:
    """The cells [alloced, alloced + n) of the one row that grew, also those that said so already; [] if it is odd."""
    grown = [length[1:] for length in change.lengths if length[0] == "alloced_cpu"]
    if len(grown) != 1 or len(change.rows) != 1 or change.owners or change.free:
        return []
    ((row, start, end),) = grown
    inside = range(max(0, start), min(end, now.max_context_len))
    moved, slots = {cell[1]: cell for cell in change.cells}, now.table[row].tolist()
    cells = [moved.pop(position, (row, position, slots[position], slots[position])) for position in inside]
    return [] if moved else cells


def _read(event: Event, now: Snapshot) -> str:
    read = ", ".join(_by_row(event.rows, lambda row: _row(row, now))) or "no row"
    return _sentences(f"{read} {_are(event.rows)} read", *_changes(event.change, now))


def _verify(event: Event, now: Snapshot) -> str:
    said = f"the forward step is done: {_said(event, now, 'length')}"
    return _sentences(said, *_nobodys(event, now, ": this came late"), *_but(_touched(event), now))


def _free(event: Event, now: Snapshot) -> str:
    change, rows = event.change, event.rows
    by_request = event.call == "free" and event.rid is not None
    given = f"{_who(event.rid)} gives back {_rows(rows)}" if by_request else f"{_rows(rows)} {_are(rows)} given back"
    where = "row {}, " if len(rows) > 1 else ""
    lengths = _by_row(
        list(dict.fromkeys(rows)),
        lambda row: where.format(row) + words if (words := _lengths(change, row, now)) else "",
    )
    kept = not change.cells and any(name == "alloced" and before > 0 for name, _, before, _ in change.lengths)
    return _sentences(
        f"{given}: {'; '.join(lengths)}",
        "the cells keep their old slots" if kept else "",
        *_changes(_unlike_free(event), now),
        *_but(_touched(event), now),
    )


def _unlike_free(event: Event) -> Change:
    """What has changed that giving back these rows does not change."""
    change, rows = event.change, set(event.rows)
    lengths = tuple(length for length in change.lengths if length[1] not in rows)
    owners = tuple(owner for owner in change.owners if owner[0] not in rows or owner[2])
    return Change(change.cells, lengths, owners, None if _moved(change) == ([], sorted(event.rows)) else change.free)


def _clear(event: Event, now: Snapshot) -> str:
    change = event.change
    cells = [cell for cell in change.cells if cell[3] == 0]
    rows = sorted({length[1] for length in change.lengths if length[3] == 0})
    zeroed = [_count(cells, "cell")] * bool(cells) + [f"the lengths of {_rows(rows)}"] * bool(rows)
    others = Change(
        tuple(cell for cell in change.cells if cell[3]),
        tuple(length for length in change.lengths if length[3]),
        change.owners,
    )
    all_free = sorted(now.free) == [row for row in range(now.size + 1) if row != now.padding_row]
    free = "every row is free" if all_free else f"free rows, next first: {_listed(now.free) or 'none'}"
    said = f"zeroed: {' and '.join(zeroed)}" if zeroed else "there was nothing to zero"
    return _sentences(f"{said}; {free}", *_changes(others, now), *_but(_touched(event), now))


def _unannounced(event: Event, now: Snapshot) -> str:
    said = f"nobody announced this: {_said(event, now, 'cell')}"
    return _sentences(said, *_nobodys(event, now), *_but(_touched(event), now))


def _late(event: Event, now: Snapshot, trace: Trace, k: int) -> str:
    remarks: dict[str, list[int]] = {}
    for row in event.change.rows[:LIMIT]:
        holders, last = now.owners.get(row, ()), _last_owner(trace, k, row)
        whose = f"held by {_names(holders)} by now" if holders else _idle([row], now)
        was = f"; {last} was the last owner{' before' if holders else ''}" if last else ""
        remarks.setdefault(whose + was, []).append(row)
    said = [f"but {_rows(rows)} {_are(rows)} {whose}" for whose, rows in remarks.items()]
    return _sentences(_said(event, now, "cell"), *said, *_but(_touched(event), now))


def _last_owner(trace: Trace, k: int, row: int) -> str:
    """Who gave this row back last."""
    for event in reversed(trace.events[:k]):
        for at, before, after in event.change.owners:
            if at == row and before and not after:
                return _names(before)
    return ""


def _told(event: Event, now: Snapshot) -> str:
    """What the scenario says; what was found in the tensors is added to it."""
    rids = [rid for rid in event.rids or (event.rid,) if rid is not None]
    who = ", ".join([_requests(rids)] * bool(rids) + [_rows(event.rows)] * bool(event.rows))
    said = _line(event.text) or (f"{who}: " if who else "") + _DONE.get(event.kind, event.kind)
    return _sentences(said, *_changes(event.change, now), *_but(_touched(event), now))


_CALLS: dict[str, Callable[[Event, Snapshot], str]] = {
    "alloc": _alloc,
    "keep": _keep,
    "refuse": _refuse,
    "reset": _reset,
    "write": _write,
    "append": _append,
    "read": _read,
    "free": _free,
    "clear": _clear,
    "verify": _verify,
}
_DONE = {  # emitted without a text
    "alloc": "handed out",
    "keep": "kept",
    "refuse": "refused",
    "reset": "reset",
    "write": "written",
    "append": "appended",
    "read": "read",
    "free": "given back",
    "clear": "cleared",
    "late_write": "written late",
    "pad_read": "read by dummy entries",
    "pad_write": "written by dummy entries",
    "verify": "verified",
    "retract": "retracted",
}


# ---- the words captions are made of ------------------------------------------------------------------------------

LIMIT = 8  # of what there is more, the first so many are named and the others counted


def _sentences(*parts: str) -> str:
    """Each part as a sentence. The first begins as it is, since the event's kind stands before it."""
    said = [part for part in (part.rstrip(" .:;,") or part.strip() for part in parts) if part]
    first, *others = [part if part[-1] in ".!?…" else f"{part}." for part in said]
    return " ".join([first, *(part[0].upper() + part[1:] for part in others)])


def _line(text: str) -> str:
    return clean(" ".join(text.split()))


def _who(rid: str | None) -> str:
    return "somebody (by count)" if rid is None else f"request {request_name(rid)}"


def _names(rids: Sequence[str | None]) -> str:
    return _listed([_who(rid) for rid in rids], " and ")


def _requests(rids: Sequence[str | None]) -> str:
    return _who(rids[0]) if len(rids) == 1 else f"requests {_listed([request_name(rid) for rid in rids])}"


def _held(row: int, rids: Sequence[str | None]) -> str:
    return f"{_names(rids)} {'holds' if len(rids) == 1 else 'hold'} row {row}"


def _row(row: int, now: Snapshot) -> str:
    """A row with its owner, where that is one request; where there are several, with all of them."""
    rids = now.owners.get(row, ())
    if len(rids) > 1:
        return f"row {row} ({owner_name(now, row)})"
    return f"{_who(rids[0])}'s row {row}" if rids and rids[0] is not None else f"row {row}"


def _rows(rows: Sequence[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {_listed(rows)}" if rows else "no row"


def _are(things: Sequence[object]) -> str:
    return "are" if len(things) > 1 else "is"


def _count(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"


def _listed(items: Sequence[object], comma: str = ", ") -> str:
    listed = comma.join(str(item) for item in items[:LIMIT])
    return listed + (f", … ({len(items)} in all)" if len(items) > LIMIT else "")


def _by_row(rows: Sequence[int], say: Callable[[int], str]) -> list[str]:
    said = [words for row in rows[:LIMIT] if (words := say(row))]
    return said + ([f"and {len(rows) - LIMIT} more rows"] if len(rows) > LIMIT else [])


def _touched(event: Event) -> list[int]:
    """The rows whose owners or places on the free list changed."""
    change = event.change
    out, into = change.free[1:] if change.free else ((), ())
    return sorted({owner[0] for owner in change.owners} | set(out) | set(into))


def _but(rows: Sequence[int], now: Snapshot) -> list[str]:
    """What is wrong with who has these rows; rows with the same fault in one sentence."""
    num_free = Counter(now.free if rows else ())
    wrong: dict[str, list[int]] = {}
    for row in rows:
        rids, faults = now.owners.get(row, ()), _faults(now, row, num_free[row])
        if not rids and not num_free[row] and row != now.padding_row:
            faults = ["neither held nor free"]
        if faults:
            said = " and ".join(faults) + (f": {_names(rids)}" if rids else "")
            wrong.setdefault(said, []).append(row)
    return [f"but {_rows(rows)} {_are(rows)} {said}" for said, rows in wrong.items()][:LIMIT]


def _nobodys(event: Event, now: Snapshot, late: str = "") -> list[str]:
    """That cells or lengths changed in rows that nobody holds."""
    rows = [row for row in event.change.rows if row not in now.owners]
    others = [row for row in rows if row != now.padding_row]
    said = [] if rows == others else [f"row {now.padding_row} is the padding row"]
    return said + ([f"but {_rows(others)} {_are(others)} {_idle(others, now)}{late}"] if others else [])


def _idle(rows: Sequence[int], now: Snapshot) -> str:
    if list(rows) == [now.padding_row]:
        return "the padding row"
    return "free" if set(rows) <= set(now.free) else "nobody's"


def _said(event: Event, now: Snapshot, thing: str) -> str:
    return "; ".join(_changes(event.change, now)) or f"no {thing} changes"


def _changes(change: Change, now: Snapshot) -> list[str]:
    """Everything that changed: cells and lengths row by row, then owners, then the free list."""
    owners = {row: (before, after) for row, before, after in change.owners}
    return [
        *_by_row(change.rows, lambda row: _cells_and_lengths(change, row, now)),
        *_by_row(list(owners), lambda row: _passed_on(row, *owners[row])),
        *_queue(change, now),
    ]


def _cells_and_lengths(change: Change, row: int, now: Snapshot) -> str:
    cells, lengths = [cell for cell in change.cells if cell[0] == row], _lengths(change, row, now)
    if not cells:
        return f"{_row(row, now)}, {lengths}"
    slots, where = _slots(cells)
    return f"{slots} {_are(cells)} written into {_row(row, now)}, {where}" + (f"; its {lengths}" if lengths else "")


def _slots(cells: Sequence[Cell]) -> tuple[str, str]:
    """What is written, and where: over which slots too, where the cells were not empty."""
    positions, slots = [cell[1] for cell in cells], [cell[3] for cell in cells]
    old = [before for _, _, before, after in cells if before and before != after]
    run = len(positions) > 2 and positions == list(range(positions[0], positions[-1] + 1))
    where = f"{positions[0]} to {positions[-1]}" if run else _listed(positions)
    over = f", over the old {_plural(old, 'slot')} {_listed(old)}" if old else ""
    return f"{_plural(slots, 'slot')} {_listed(slots)}", f"{_plural(positions, 'position')} {where}{over}"


def _plural(things: Sequence[object], word: str) -> str:
    return word if len(things) == 1 else f"{word}s"


def _lengths(change: Change, row: int, now: Snapshot) -> str:
    """Lengths that move alike are one fact; an alloced length and a host mirror that part are two."""
    moved = {name: f"{before} → {after}" for name, at, before, after in change.lengths if at == row}
    verified, alloced, mirror, generation = (moved.get(name) for name in LENGTHS)
    both = verified == alloced == mirror
    said = {
        "verified and alloced length": verified if both else None,
        "verified length": None if both else verified,
        "alloced length": None if both else alloced,
        "host mirror of the alloced length": None if mirror == alloced else mirror,
        "generation (times handed out)": generation,
    }
    words = [f"{name} {moves}" for name, moves in said.items() if moves]
    if now.alloced[row] != now.alloced_cpu[row] and mirror is None and alloced is not None:
        words.append(f"but its host mirror is {now.alloced_cpu[row]}")
    if now.alloced[row] != now.alloced_cpu[row] and alloced is None and mirror is not None:
        words.append(f"but the alloced length is {now.alloced[row]}")
    return ", ".join(words)


def _passed_on(row: int, before: Sequence[str | None], after: Sequence[str | None]) -> str:
    if not after:
        return f"{_names(before)} no longer {'holds' if len(before) == 1 else 'hold'} row {row}"
    return f"{_held(row, after)} now" + (f", {_names(before)} did before" if before else "")


def _moved(change: Change) -> tuple[list[int], list[int]]:
    """The rows that left the free list, and those that came, whatever their order."""
    out, into = (Counter(rows) for rows in (change.free[1:] if change.free else ((), ())))
    return sorted((out - into).elements()), sorted((into - out).elements())


def _queue(change: Change, now: Snapshot) -> list[str]:
    if not change.free:
        return []
    left, came = _moved(change)
    said = [f"{_rows(left)} {'leaves' if len(left) == 1 else 'leave'} the free list"] * bool(left)
    said += [f"{_rows(came)} {'goes' if len(came) == 1 else 'go'} on the free list"] * bool(came)
    return said or [f"the free rows have a new order, next first: {_listed(now.free)}"]
