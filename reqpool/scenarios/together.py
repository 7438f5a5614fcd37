"""Two runs of the same story, brought to the same step: the broken one beside the mended one.

    broken    alloc  append  free   alloc  append  note
    mended    alloc  append  (note) keep   append  note        (note): nothing happens on this side

A fault adds events or leaves some out, and from there on step k of the one would be step k + 1 of the other. The gaps
are filled with notes that change nothing, so one scrubber shows the same moment of both.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher

from reqpool.trace import Change, Event, Snapshot, Trace

NOTHING = "nothing happens on this side"
ONE_KIND = {"keep": "alloc"}  # answers to the same call


def in_step(left: Trace, right: Trace) -> tuple[Trace, Trace]:
    """Copies of both traces, equally long: events of the same kind, request and step stand at the same place.

    >>> from reqpool import scenarios
    >>> from reqpool.faulty import NoResetOnReuse
    >>> broken, mended = in_step(scenarios.late_write(NoResetOnReuse), scenarios.late_write())
    >>> len(broken) == len(mended), [event.kind for event in mended if event.kind == "reset"]
    (True, ['reset'])
    """
    keys = [
        [(event.step, ONE_KIND.get(event.kind, event.kind), event.rid) for event in trace] for trace in (left, right)
    ]
    padded: tuple[list[Event], list[Event]] = ([], [])
    for _, *spans in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        parts = [trace.events[i:j] for trace, (i, j) in zip((left, right), (spans[:2], spans[2:]), strict=True)]
        most = max(map(len, parts))
        step = max(part[-1].step for part in parts if part)
        for side, part in zip(padded, parts, strict=True):
            side += [*(Event(step, "note", text=NOTHING) for _ in range(most - len(part))), *part]
    return Trace(left.first, padded[0]), Trace(right.first, padded[1])


def given_back(trace: Trace) -> Trace:
    """A copy in which a row that `alloc` itself gave back is told as such, before what was handed out.

    `record` sees one call: a row that one request left and another got within the same `alloc` is told as a reset of
    the new owner's row. But its owner went on to another row, so it was given back first (`FreedBetweenChunks`).
    """
    events: list[Event] = []
    for event in trace:
        if event.kind == "reset" and event.call == "alloc":
            alloc = events[-1]
            left = [(row, rids[0]) for row, rids, after in alloc.change.owners if rids and rids[0] not in after]
            for row, rid in left:
                part = Change(lengths=tuple(length for length in event.change.lengths if length[1] == row))
                events.insert(len(events) - 1, Event(event.step, "free", rid, (row,), (rid,), "free", change=part))
            gone = {row for row, _ in left}
            rest = tuple(length for length in event.change.lengths if length[1] not in gone)
            event = replace(
                event, rows=tuple(row for row in event.rows if row not in gone), change=Change(lengths=rest)
            )
            if not event.change:
                continue
        events.append(event)
    return Trace(trace.first, events)


def mark_wrong(broken: Trace, mended: Trace) -> Trace:
    """A copy of the broken trace in which the cells behind a wrong letter are marked.

    Those are the live cells of the request's row that say another slot than its row does in the mended run at the same
    step. Both traces as `in_step` gives them.
    """
    events = list(broken.events)
    for k, event in enumerate(broken, start=1):
        who = {rid for rid, text, wrong in dict(event.facts).get("texts", ()) if wrong and wrong[-1] == len(text) - 1}
        if who:
            cells = _differing(broken.snapshot(k), mended.snapshot(k), who)
            events[k - 1] = replace(event, facts=(*event.facts, ("wrong", cells)))
    return Trace(broken.first, events)


def _differing(left: Snapshot, right: Snapshot, rids: set[str]) -> tuple[tuple[int, int], ...]:
    rows = [{rids[0]: row for row, rids in one.owners.items()} for one in (left, right)]
    found = []
    for rid in rids & rows[0].keys() & rows[1].keys():
        row, other = rows[0][rid], rows[1][rid]
        cells = left.table[row] != right.table[other]
        found += [(row, position) for position in range(left.alloced[row]) if cells[position]]
    return tuple(sorted(found))
