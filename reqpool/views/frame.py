"""One step of a trace as a Scene, for figures and animations: the player's still sibling, drawn on white.

    title                                        step 5 of 12
    free rows, next first: [3]
          owner     0    1    2  ...      verified / alloced
    0     padding  ///  ///  ///
  > 1 |   a         7    8    9           ===--  3/4
    KV slots  0 1 2 3 ...
    a recites  abc
    append  request a writes slot 9 ...
    ----|--|---o--|-----                         the time line: a tick an event

Two panes, one below the other or side by side, show the broken and the mended run of the same story at the same step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reqpool.trace import Event, Snapshot, Trace
from reqpool.views.scene import Box, Item, Path, Scene, Shape, Words, recited, wide, wrapped
from reqpool.views.text import caption, cell_state, clean, length_text, owner_name, request_name, text_view
from reqpool.views.theme import (
    BACKGROUND,
    EMPTY,
    INK,
    LINE,
    OWNER_COLOURS,
    OWNER_TINTS,
    QUIET,
    WRONG,
    owner_index,
)

WIDTH, MARGIN = 820, 24
ROW, GAP = 32, 3
BAR = 58  # how long a full length bar is
ALLOCED = "#A9B0BE"  # the reserved part of a length bar
LEGEND = {  # in this order
    "live": "live: below the row's length",
    "stale": "stale: beyond it",
    "changed": "just changed",
    "padding": "padding row",
    "zeros": "padding row, dummy slot",
    "wrong": "wrong",
}


@dataclass(frozen=True)
class Place:
    """Where a pane lies. A narrow one has no room for length bars."""

    x: float = MARGIN
    width: float = WIDTH - 2 * MARGIN
    caption_size: float = 17

    @property
    def narrow(self) -> bool:
        return self.width < 500

    @property
    def cells(self) -> float:
        """Where the cells begin."""
        return self.x + (110 if self.narrow else 124)

    @property
    def lengths(self) -> float:
        """Where the lengths begin."""
        return self.x + self.width - (48 if self.narrow else 178)

    def step(self, num_positions: int) -> float:
        """From one cell to the next."""
        return min(76, (self.lengths - 12 - self.cells) // num_positions)


SIDES = (Place(MARGIN, 364, 16), Place(432, 364, 16))


@dataclass(frozen=True, eq=False)
class Pane:
    """A trace to be shown, and what stands above it where there are two."""

    trace: Trace
    heading: str = ""
    num_slots: int = 0  # of the strip of KV slots; 0: no strip
    place: Place = Place()

    @cached_property
    def owners(self) -> list[str | None]:
        """Everybody who ever holds a row, in order of appearance: so nobody changes colour on the way."""
        first = [rid for rids in self.trace.first.owners.values() for rid in rids]
        later = [rid for event in self.trace for _, _, after in event.change.owners for rid in after]
        return list(dict.fromkeys([*first, *later]))

    @cached_property
    def num_lines(self) -> int:
        """Of the longest caption."""
        return max(len(_caption_lines(self, k)) for k in range(len(self.trace) + 1))

    @cached_property
    def states(self) -> set[str]:
        """What the legend has to explain."""
        found = {"changed"} if any(event.change for event in self.trace) else set()
        found |= {"wrong"} if any(_facts(event).get("wrong") for event in self.trace) else set()
        for k in range(len(self.trace) + 1):
            now = self.trace.snapshot(k)
            found |= {cell_state(now, row, at) for row in range(now.size + 1) for at in range(now.max_context_len)}
        return found - {"padding"} | {"zeros"} if self.num_slots else found


def frames(title: str, panes: Sequence[Pane]) -> list[Scene]:
    """A scene for the state after every number of events; all of the same size.

    Raises:
        ValueError: the panes' traces are not equally long.
    """
    lengths = {len(pane.trace) for pane in panes}
    if len(lengths) != 1:
        raise ValueError(f"the traces have {sorted(lengths)} events, wanted the same number in every pane")
    return [_frame(title, panes, k) for k in range(len(panes[0].trace) + 1)]


def _frame(title: str, panes: Sequence[Pane], k: int) -> Scene:
    last = len(panes[0].trace)
    items: list[Item] = [
        Words(MARGIN, 40, title, 21, bold=True),
        Words(WIDTH - MARGIN, 40, f"step {k} of {last}", 16, QUIET, "end"),
    ]
    y, low, descs = 54.0, 54.0, []
    for which, pane in enumerate(panes):
        y = 54 if pane.place.narrow else low
        if which and not pane.place.narrow:
            items.append(Path(((MARGIN, y + 2), (WIDTH - MARGIN, y + 2)), LINE, 1))
            y += 10
        y, drawn = draw(pane, k, y, which)
        y, said = _said(pane, k, y)
        items += [*drawn, *said]
        low = max(low, y)
        descs.append(f"{pane.heading}\n{text_view(pane.trace.snapshot(k), pane.trace.changed(k))}".strip())
    y = low
    if panes[-1].place.narrow:
        items.append(Path(((404, 62), (404, round(y - 8, 2))), LINE, 1))
    items += _time_line(panes, k, y + 12)
    items += legend(set().union(*(pane.states for pane in panes)), y + 44)
    said_so = " / ".join(f"{_kind(pane.trace, k)}: {caption(pane.trace, k)}" for pane in panes)
    return Scene(WIDTH, round(y + 66), f"{title}, step {k} of {last}. {said_so}", "\n\n".join(descs), tuple(items))


# ---- the state: free rows, table, slots, what is recited -------------------------------------------------------------


def draw(pane: Pane, k: int, y: float, which: int = 0) -> tuple[float, list[Item]]:
    """Everything of a pane above its caption, from `y` on; where it ends."""
    now, event, place = pane.trace.snapshot(k), pane.trace[k - 1] if k else None, pane.place
    items: list[Item] = []
    if pane.heading:
        items.append(Words(place.x, y + 21, pane.heading, 17, bold=True))
        y += 32 if place.narrow else 0
    items += _free_rows(place.cells + 222 if pane.heading and not place.narrow else place.x, now, event, y, which)
    y += 70 if place.narrow else 62
    items += table(pane, now, event, y, range(now.size + 1), which)
    y += 8 + (now.size + 1) * (ROW + GAP)
    if pane.num_slots:
        before = pane.trace.snapshot(k - 1) if k else now
        items += slot_strip(pane, now, before, y + 8)
        y += 44
    if any("texts" in _facts(event) for event in pane.trace):
        items += _texts(pane.trace, k, place.x, y + 26)
        y += 40
    return y, items


def table(
    pane: Pane, now: Snapshot, event: Event | None, y: float, rows: Iterable[int], which: int = 0
) -> Iterator[Item]:
    """These rows under their heading, whose baseline is `y`; marked is what the event is about and what it changed."""
    yield from _head(pane.place, now.max_context_len, y)
    for i, row in enumerate(rows):
        yield from _row(pane, now, event, row, y + 8 + i * (ROW + GAP), which)


def _free_rows(x: float, now: Snapshot, event: Event | None, y: float, which: int) -> Iterator[Item]:
    yield Words(x, y + 21, "free rows, next first:", 15, QUIET)
    x += 170
    came = event.change.free[2] if event and event.change.free else ()
    for row in now.free[:4]:
        yield Box(x, y + 3, 34, 26, None, INK, 3 if row in came else 1.5, 6)
        yield Words(x + 17, y + 22, str(row), 16, anchor="middle", bold=row in came, about=("free", which, row))
        x += 42
    more = len(now.free) - 4
    if more > 0 or not now.free:
        yield Words(x, y + 21, f"and {more} more" if more > 0 else "none", 15, QUIET)


def _head(place: Place, num_positions: int, y: float) -> Iterator[Item]:
    yield Words(place.x - 1, y, "row", 14, QUIET)
    yield Words(place.x + 42, y, "owner", 14, QUIET)
    step = place.step(num_positions)
    for position in range(num_positions):
        yield Words(place.cells + (position + 0.5) * step - GAP / 2, y, str(position), 14, QUIET, "middle")
    if place.narrow:
        yield Words(place.x + place.width, y - 17, "verified", 14, QUIET, "end")
        yield Words(place.x + place.width, y, "/ alloced", 14, QUIET, "end")
    else:
        yield Words(place.lengths, y, "verified / alloced", 14, QUIET)


def colour_of(pane: Pane, now: Snapshot, row: int) -> int | None:
    return owner_index(pane.owners, now.owners[row][0]) if now.owners.get(row) else None


def _row(pane: Pane, now: Snapshot, event: Event | None, row: int, y: float, which: int) -> Iterator[Item]:
    colour, place, base = colour_of(pane, now, row), pane.place, y + ROW / 2 + 5.5
    x, (mark, ink) = place.x, (LINE, QUIET) if colour is None else (OWNER_COLOURS[colour], INK)
    moved = event is not None and any(owner[0] == row for owner in event.change.owners)
    if event is not None and row in event.rows:  # this step is about this row
        yield Shape(((x - 14, y + 9), (x - 3, y + ROW / 2), (x - 14, y + ROW - 9)), INK)
    if moved:
        yield Box(x + 2, y + 1, place.cells - x - 8, ROW - 2, None, INK, 2.6, 5)
    yield Words(x + 22, base, str(row), 16, anchor="end", bold=moved)
    yield Box(x + 30, y + 5, 5, ROW - 10, mark)
    yield Words(x + 42, base, owner_name(now, row, 8), 15, ink, bold=moved, about=("owner", which, row))
    changed = {cell[:2] for cell in event.change.cells} if event else set()
    wrong = {tuple(cell) for cell in _facts(event).get("wrong", ())} if event else set()
    for position in range(now.max_context_len):
        at = (row, position)
        yield from _cell(pane, now, at, y, at in changed, at in wrong, which)
    yield from _lengths(place, now, event, row, y, which)


def _cell(
    pane: Pane, now: Snapshot, at: tuple[int, int], y: float, changed: bool, wrong: bool, which: int
) -> Iterator[Item]:
    (row, position), state, step = at, cell_state(now, *at), pane.place.step(now.max_context_len)
    x, width = pane.place.cells + position * step, step - GAP
    yield from tinted(x, y, width, ROW, state, colour_of(pane, now, row))
    if wrong:
        yield Box(x + 1, y + 1, width - 2, ROW - 2, None, WRONG, 2.4, 3, dashed=True)
    elif changed:
        yield Box(x + 1, y + 1, width - 2, ROW - 2, None, INK, 3, 4)
    if state != "empty":
        middle, ink = round(x + width / 2 - (6 if wrong else 0), 2), INK if state == "live" else QUIET
        text, struck, about = str(int(now.table[at])), state == "stale", ("cell", which, row, position)
        yield Words(middle, y + ROW / 2 + 5.5, text, 16, ink, "middle", changed or wrong, struck, about=about)
    if wrong:
        yield Words(x + width - 3, y + 15, "✗", 13, WRONG, "end", bold=True)


def tinted(x: float, y: float, width: float, height: float, state: str, colour: int | None) -> Iterator[Item]:
    """The ground of a cell or slot: the owner's tint over a line in the owner's colour, a hatching, or nothing."""
    if state in ("stale", "padding"):
        yield Box(x, y, width, height, state)
        return
    tint, line = (EMPTY, None) if state != "live" or colour is None else (OWNER_TINTS[colour], OWNER_COLOURS[colour])
    yield Box(x, y, width, height, tint)
    if line:
        yield Box(x, y + height - 3, width, 3, line)


def _lengths(place: Place, now: Snapshot, event: Event | None, row: int, y: float, which: int) -> Iterator[Item]:
    numbers, _, remark = length_text(now, row).partition(" (")
    remark = "" if place.narrow else remark.rstrip(")").split(", ")[0]
    if row == now.padding_row and not numbers:
        if not place.narrow:
            yield Words(place.lengths, y + ROW / 2 + 5.5, "no length counts here", 14, QUIET)
        return
    base, middle = (y + 14, y + 9) if remark else (y + ROW / 2 + 5.5, y + ROW / 2)
    x = place.lengths + (8 if place.narrow else BAR + 12)
    if not place.narrow:
        yield Box(place.lengths, middle - 4, BAR, 8, EMPTY, round=4)
        for length, fill in ((now.alloced[row], ALLOCED), (now.verified[row], INK)):
            if length > 0:
                long = min(BAR, round(length * BAR / now.max_context_len, 1))
                yield Box(place.lengths, middle - 4, long, 8, fill, round=4)
    moved = event.change.lengths if event is not None else ()
    changed = any(name in ("verified", "alloced") and at == row for name, at, *_ in moved)
    if changed:
        yield Box(x - 6, base - 16, round(wide(numbers, 15, True) + 11, 2), 21, None, INK, 2.4, 5)
    yield Words(x, base, numbers, 15, INK if changed else QUIET, bold=changed, about=("length", which, row))
    if remark:
        yield Words(place.lengths, y + ROW, remark, 13, INK)


def slot_strip(pane: Pane, now: Snapshot, before: Snapshot, y: float) -> Iterator[Item]:
    """The same slots seen from the other side: by number, in the colour of the row that says them."""
    holders, had, place = _slot_owners(pane, now), _slot_owners(pane, before), pane.place
    step = min(44.0, (place.x + place.width - place.cells + GAP) // pane.num_slots)
    yield Words(place.x, y + 19, "KV slots", 15, QUIET)
    for slot in range(pane.num_slots):
        x, colour = place.cells + slot * step, holders.get(slot)
        yield from tinted(x, y, step - GAP, 27, "padding" if slot == 0 else "live", colour)
        changed = holders.get(slot) != had.get(slot)
        if changed:
            yield Box(x + 1, y + 1, step - GAP - 2, 25, None, INK, 2.4, 4)
        ink = QUIET if colour is None else INK
        yield Words(x + (step - GAP) / 2, y + 19, str(slot), 14, ink, "middle", changed, about=("slot", slot))


def _slot_owners(pane: Pane, now: Snapshot) -> dict[int, int | None]:
    live = {row: now.table[row, : now.alloced[row]].tolist() for row in now.owners}
    return {slot: colour_of(pane, now, row) for row, slots in live.items() for slot in slots if slot}


def _texts(trace: Trace, k: int, x: float, y: float) -> Iterator[Item]:
    """What every request has recited by now."""
    told = [facts["texts"] for event in trace.events[:k] if "texts" in (facts := _facts(event))]
    for rid, text, wrong in told[-1] if told else ():
        label = f"{request_name(rid, 12)} recites"
        yield Words(x, y, label, 15, QUIET)
        x += wide(label, 15) + 10
        yield from recited(x, y + 1, clean(text), wrong)
        x += wide(text, 20, mono=True) + 8
        if wrong:
            yield Words(x, y, "✗ wrong", 15, WRONG, bold=True)
            x += 72
        x += 26


# ---- the words, the time line, the legend ----------------------------------------------------------------------------


def _facts(event: Event) -> dict[str, Any]:
    return dict(event.facts)


def _kind(trace: Trace, k: int) -> str:
    return trace[k - 1].kind if k else "start"


def _caption_lines(pane: Pane, k: int) -> list[str]:
    size = pane.place.caption_size
    indent = wide(_kind(pane.trace, k), size, True) + 8
    return wrapped(caption(pane.trace, k), size, pane.place.width, indent)


def _said(pane: Pane, k: int, y: float) -> tuple[float, list[Item]]:
    """The caption, as in the player; every step has as much room as the longest needs."""
    kind, x, size = _kind(pane.trace, k), pane.place.x, pane.place.caption_size
    indent, high = round(wide(kind, size, True) + 8, 2), 1.42 * size
    items: list[Item] = [Words(x, y + 27, kind, size, bold=True)]
    for i, line in enumerate(_caption_lines(pane, k)):
        items.append(Words(x + (0 if i else indent), round(y + 27 + i * high, 2), line, size, about=("caption",)))
    return y + 16 + pane.num_lines * high + 6, items


def _time_line(panes: Sequence[Pane], k: int, y: float) -> Iterator[Item]:
    """A tick an event, tall where rows change hands; the ring is here and now."""
    trace, last = panes[-1].trace, len(panes[-1].trace)
    step = (WIDTH - 2 * MARGIN) / last
    yield Path(((MARGIN, y), (WIDTH - MARGIN, y)), LINE, 3)
    for i, event in enumerate(trace, start=1):
        x, tall = round(MARGIN + i * step, 2), 13 if event.change.owners else 8
        known = event.rid in panes[-1].owners and event.rid is not None
        colour = OWNER_COLOURS[owner_index(panes[-1].owners, event.rid)] if known else QUIET
        yield Box(x - 1.5, y - tall, 3, tall, colour)
    yield Box(round(MARGIN + k * step - 7, 2), y - 7, 14, 14, BACKGROUND, INK, 3.4, 7)


def legend(states: set[str], y: float) -> Iterator[Item]:
    """What each sign means, in words."""
    x = float(MARGIN)
    for state, words in LEGEND.items():
        if state not in states:
            continue
        ground = "padding" if state == "zeros" else state
        yield from tinted(x, y - 13, 26, 17, ground, 0 if state == "live" else None)
        if state == "changed":
            yield Box(x + 1, y - 12, 24, 15, None, INK, 2.6, 4)
        if state == "wrong":
            yield Box(x + 1, y - 12, 24, 15, None, WRONG, 2, 3, dashed=True)
            yield Words(x + 13, y, "✗", 13, WRONG, "middle", bold=True)
        yield Words(x + 33, y, words, 13.5, QUIET)
        x += round(33 + wide(words, 13.5) + 22, 2)
