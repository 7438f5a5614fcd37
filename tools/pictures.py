"""The still pictures of README and course, each a Scene made from a state that the package was really in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import cos, sin

import torch

from reqpool.kv import KVCache
from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios import chunked_prefill, padding_row
from reqpool.scenarios.experiments import LANDINGS, late, outcomes, owners
from reqpool.scenarios.padding import GRAPH_SIZE
from reqpool.trace import Change, Event, Trace, record
from reqpool.views.frame import (
    GAP,
    MARGIN,
    ROW,
    WIDTH,
    Pane,
    Place,
    caption,
    draw,
    legend,
    slot_strip,
    table,
    text_view,
    tinted,
)
from reqpool.views.scene import Box, Item, Path, Scene, Words, arrow, note, recited, wide
from reqpool.views.theme import BACKGROUND, EMPTY, INK, LINE, OWNER_COLOURS, OWNER_TINTS, QUIET, WRONG


def picture(heading: str, sentence: str, desc: str, height: float, items: Sequence[Item]) -> Scene:
    return Scene(WIDTH, round(height), sentence, desc, (Words(MARGIN, 40, heading, 21, bold=True), *items))


def ring(x: float, y: float, width: float, height: float) -> Box:
    """What is spoken of."""
    return Box(x + 1, y + 1, width - 2, height - 2, None, INK, 3, 4)


# ---- the table -------------------------------------------------------------------------------------------------------


def some_state() -> Trace:
    """Three requests in rows 1 to 3; row 4 is free again and keeps old slots. No event: a state to be looked at."""
    pool, requests = ReqToTokenPool(size=4, max_context_len=8, device="cpu"), [Req(rid) for rid in "abcd"]
    with record(pool) as trace:
        pool.alloc(requests)
        for req, slots in zip(requests, ([7, 8, 9, 3, 4], [15, 16], [10, 11, 12, 13, 14, 17], [2, 5, 6]), strict=True):
            pool.append(req, slots)
        pool.verify([1, 2, 3], torch.tensor([4, 2, 6], dtype=torch.int32))
        pool.free(requests[3])
    return Trace(trace.snapshot(len(trace)))


def the_table(sentence: str) -> Scene:
    pane, row, position = Pane(some_state(), num_slots=18), 1, 2
    now, place = pane.trace.first, pane.place
    strip = Pane(pane.trace, num_slots=18)
    y, items = draw(Pane(pane.trace), 0, 54)
    step, slot = place.step(now.max_context_len), int(now.table[row, position])
    items += slot_strip(strip, now, now, y + 26)
    items.append(ring(place.cells + position * step, 124 + row * (ROW + GAP), step - GAP, ROW))
    lane, narrow = place.cells + (position + 1) * step - GAP / 2, strip_step(place, 18)
    there = place.cells + slot * narrow + (narrow - GAP) / 2
    corner = 124 + row * (ROW + GAP) + ROW
    items += arrow([(lane, corner), (lane, y + 9), (there, y + 9), (there, y + 25)])
    items.append(ring(place.cells + slot * narrow, y + 26, narrow - GAP, 27))
    words = (
        f"Row {row}, position {position} says {slot}: the K and V of request {now.owners[row][0]}'s token at position "
        f"{position} are in slot {slot} of the KV cache. A row's cells count up to its alloced length, and not beyond."
    )
    items += note(MARGIN, y + 84, words, 17, INK, WIDTH - 2 * MARGIN)
    items += legend({"live", "stale", "zeros"}, y + 142)
    return picture("req_to_token: one row a request, one column a position", sentence, text_view(now), y + 160, items)


def strip_step(place: Place, num_slots: int) -> float:
    return min(44.0, (place.x + place.width - place.cells + GAP) // num_slots)


# ---- from request to K and V -----------------------------------------------------------------------------------------


def the_path(sentence: str) -> Scene:
    """The tokens are letters; K is the angle of the position, V the number of the letter, as a hand-made model has."""
    pool, cache = ReqToTokenPool(2, 8, "cpu"), KVCache(12, head_dim=2)
    a, b = Req("a"), Req("b")
    text, position = "ticktock"[:6], 4
    with record(pool) as trace:
        pool.alloc([a, b])
        for req, slots in ((a, [5, 6, 7]), (b, [1, 2]), (a, [3, 9, 10])):
            pool.append(req, slots)
        pool.verify([1, 2], torch.tensor([6, 2], dtype=torch.int32))
    k = torch.tensor([[[cos(p), sin(p)]] for p in range(6)])
    v = torch.tensor([[[float(ord(letter) - 96), 0.0]] for letter in text])
    cache.write(0, pool.read(a)[:6].long(), k, v)
    row, slot = int(a.req_pool_idx or 0), int(pool.read(a)[position])
    there = [[f"{number:.2f}" for number in one[0].tolist()] for one in cache.read(0, torch.tensor(slot))]

    pane, now = Pane(Trace(trace.snapshot(len(trace))), num_slots=13), trace.snapshot(len(trace))
    place, step, narrow = pane.place, pane.place.step(8), strip_step(pane.place, 13)
    column = place.cells + position * step
    middle, centre = column + (step - GAP) / 2, place.cells + slot * narrow + (narrow - GAP) / 2
    items: list[Item] = [*_number(1, 74), Words(MARGIN + 36, 80, "request a", 16)]
    for i, letter in enumerate(text):
        items.append(Box(place.cells + i * step, 60, step - GAP, 30, BACKGROUND, LINE, 1.5, 5))
        x = place.cells + i * step + (step - GAP) / 2
        items.append(Words(x, 81, letter, 18, anchor="middle", bold=i == position, mono=True))
    items += [ring(column, 60, step - GAP, 30), *note(place.lengths, 73, "its tokens", 14)]
    items += note(place.lengths, 91, f"the one at position {position}: {text[position]}", 14, INK)
    items += [*_number(2, 116), Words(MARGIN + 36, 122, f"req_pool_idx = {row}", 16)]
    items += table(pane, now, None, 158, range(3))
    y = 166 + row * (ROW + GAP)
    items += arrow([(MARGIN + 16, 130), (MARGIN + 16, 143), (12, 143), (12, y + 16), (22, y + 16)])
    items += arrow([(middle, 91), (middle, 142)])
    items.append(ring(column, y, step - GAP, ROW))
    items += [*_number(3, 290), *note(MARGIN + 36, 296, f"row {row}, position {position} says slot {slot}", 17, INK)]
    strip = 316
    items += slot_strip(pane, now, now, strip)
    lane = column + step - GAP / 2
    items += arrow([(lane, y + ROW), (lane, 281), (centre, 281), (centre, strip - 2)])
    items.append(ring(place.cells + slot * narrow, strip, narrow - GAP, 27))
    items += [*_number(4, 378), *note(MARGIN + 36, 384, f"slot {slot} of the cache", 17, INK)]
    for i, (name, numbers) in enumerate(zip("KV", there, strict=True)):
        x = centre - 214 + 220 * i
        items.append(Box(x, 362, 208, 34, OWNER_TINTS[0], OWNER_COLOURS[0], 1.5, 5))
        said = f"{name}[{slot}] = ({', '.join(numbers)})"
        items.append(Words(x + 104, 385, said, 15, anchor="middle", mono=True))
    items += arrow([(centre, strip + 28), (centre, 345), (centre - 110, 345), (centre - 110, 360)])
    items += arrow([(centre, strip + 28), (centre, 345), (centre + 110, 345), (centre + 110, 360)])
    words = (
        f"Attention reads row {row} up to its length, and through every slot there one K and one V. "
        "(In this toy, K is the angle of the position and V the number of the letter.)"
    )
    items += note(MARGIN, 430, words, 17, INK, WIDTH - 2 * MARGIN)
    return picture("From a request to its K and V", sentence, text_view(now), 474, items)


def _number(n: int, y: float) -> Iterator[Item]:
    yield Box(MARGIN + 3, y - 13, 26, 26, INK, round=13)
    yield Words(MARGIN + 16, y + 6, str(n), 16, BACKGROUND, "middle", bold=True)


# ---- the two zeros ---------------------------------------------------------------------------------------------------


def the_two_zeros(sentence: str) -> Scene:
    """A batch of fixed size just before its replay: two live entries, and the dummy entries."""
    trace = padding_row()
    k = next(k for k, event in enumerate(trace, start=1) if event.kind == "note")
    now, live = trace.snapshot(k), trace[k - 1].rows
    entries = [(now.owners[row][0], row, int(now.table[row, now.alloced[row] - 1])) for row in live]
    entries += [("dummy", 0, 0)] * (GRAPH_SIZE - len(live))
    place = Place(360, 436)
    pane, top, left = Pane(Trace(now), num_slots=13, place=place), 142, MARGIN
    items: list[Item] = [
        Words(left, 84, f"a batch of {GRAPH_SIZE}, always", 17, bold=True),
        Words(left, top - 10, "entry", 14, QUIET),
        Words(left + 125, top - 10, "out_cache_loc", 14, QUIET, "middle"),
        Words(left + 242, top - 10, "req_pool_indices", 14, QUIET, "middle"),
    ]
    for i, (name, row, slot) in enumerate(entries):
        y, state = top + i * (ROW + GAP), "live" if row else "padding"
        items.append(Words(left, y + 21, str(name), 16, INK if row else QUIET))
        for x, number in ((left + 76, slot), (left + 192, row)):
            items += tinted(x, y, 100, ROW, state, i)
            items.append(Words(x + 50, y + 21.5, str(number), 17, anchor="middle", bold=not row))
    items += table(pane, now, None, 134, range(now.size + 1))
    last, lane = top + GRAPH_SIZE * (ROW + GAP) - GAP, left + 184
    for i in range(len(live), GRAPH_SIZE):
        y = top + i * (ROW + GAP) + ROW / 2
        items += [Path(((left + 292, y), (334, y)), INK, 1.8), Path(((left + 176, y), (lane, y)), INK, 1.8)]
    items += arrow([(334, last - ROW / 2), (334, top + 16), (345, top + 16)])
    items += [
        Words(360, 84, "Table row 0: the padding row.", 17, bold=True),
        Words(360, 105, "Dummy entries point here; it is nobody's.", 15, QUIET),
    ]
    strip, below = 326, Pane(Trace(now), num_slots=13)
    items += slot_strip(below, now, now, strip)
    x, narrow = below.place.cells, strip_step(below.place, 13)
    centre, high = x + (narrow - GAP) / 2, top + len(live) * (ROW + GAP) + ROW / 2
    items += arrow([(lane, high), (lane, last + 16), (centre, last + 16), (centre, strip - 2)])
    items += [
        Words(x, strip + 54, "KV slot 0: the dummy slot.", 17, bold=True),
        Words(x + 262, strip + 54, "The K and V of dummy entries land here.", 15, QUIET),
    ]
    words = "One zero counts rows, the other counts slots. Say which one is meant, always."
    items += note(MARGIN, strip + 92, words, 17, INK)
    return picture("Two zeros: a row and a slot", sentence, text_view(now), strip + 112, items)


# ---- the three regimes of a late write -------------------------------------------------------------------------------

SAFEGUARDS = {  # (reset, generation, fence)
    "no safeguard": (False, False, False),
    "reset on reuse": (True, False, False),
    "generation check": (False, True, False),
    "reset and generation": (True, True, False),
    "fence: free waits": (False, False, True),
}


def regimes() -> dict[str, list[int]]:
    """The landings by whose row the late step finds: a's still, nobody's, b's already."""
    found: dict[str, list[int]] = {}
    for landing, owner in enumerate(owners()):
        found.setdefault(owner or "", []).append(landing)
    return found


def the_three_regimes(sentence: str) -> Scene:
    told = regimes()
    left = 210
    width = (WIDTH - MARGIN - left + GAP) / 3
    names = {"a": "before free", "": "between free and alloc", "b": "after alloc"}
    holds = {"a": "a holds the row", "": "the row is free", "b": "b holds the row"}
    items: list[Item] = [Words(MARGIN, 108, "schedule lane", 15, QUIET), Words(MARGIN, 172, "forward lane", 15, QUIET)]
    items.append(Path(((left, 168), (WIDTH - MARGIN, 168)), LINE, 3))
    for i, owner in enumerate(told):
        x, colour = left + i * width, {"a": 0, "": None, "b": 1}[owner]
        items += tinted(x, 84, width - GAP, 38, "live" if owner else "stale", colour)
        if not owner:
            items.append(Box(x + width / 2 - 74, 91, 146, 24, BACKGROUND, round=4))
        items.append(Words(x + width / 2, 109, holds[owner], 16, anchor="middle", bold=True))
        items += arrow([(x + width / 2, 168), (x + width / 2, 126)], INK, 2.4)
        items.append(Box(x + width / 2 - 13, 155, 26, 26, INK, round=13))
        items.append(Words(x + width / 2, 174, str(i + 1), 16, BACKGROUND, "middle", bold=True))
        if i:
            items.append(Path(((x - GAP / 2, 70), (x - GAP / 2, 128)), INK, 2))
            items.append(Words(x, 64, ("free", "alloc")[i - 1], 15, anchor="middle", bold=True))
        items.append(Words(x + width / 2, 204, names[owner], 15, anchor="middle"))
    items += note(MARGIN, 235, "a's late step writes a length into the row at 1, 2 or 3: who recites wrongly?", 16, INK)
    for j, (name, safeguards) in enumerate(SAFEGUARDS.items()):
        y = 254 + j * 37
        items.append(Words(MARGIN, y + 22, name, 15, bold=any(safeguards)))
        for i, landings in enumerate(told.values()):
            items += _verdict(left + i * width, y, width, [outcomes()[safeguards][at] for at in landings])
    y = 254 + len(SAFEGUARDS) * 37 + 26
    run = late(told[""][0], reset=False)
    rid, text = next((rid, run.recited[rid]) for rid in run.wrong)
    words = f"2, without a safeguard: {rid} recites"
    items += [Words(MARGIN, y, words, 15, QUIET), *recited(MARGIN + wide(words, 15) + 12, y, text, run.wrong[rid])]
    x = MARGIN + wide(words, 15) + 12 + wide(text, 20, mono=True) + 16
    items += [Words(x, y, "instead of", 15, QUIET), *recited(x + 88, y, run.expected[rid], ())]
    desc = "\n".join(
        f"{name}: " + "; ".join(f"landing {LANDINGS[at]}: {who} wrong" for at, who in enumerate(outcomes()[safeguards]))
        for name, safeguards in SAFEGUARDS.items()
    )
    return picture("The three regimes of a late write", sentence, desc, y + 26, items)


def _verdict(x: float, y: float, width: float, who: list[str]) -> Iterator[Item]:
    wrong = sorted({rid for one in who if one != "nobody" for rid in one.split(" + ")})
    yield Box(x, y, width - GAP, 34, "#FBE9E7" if wrong else EMPTY, round=3)
    if wrong:
        yield Words(x + width / 2, y + 23, f"✗ {' or '.join(wrong)} is wrong", 16, WRONG, "middle", bold=True)
    else:
        yield Words(x + width / 2, y + 23, "✓ nobody", 16, INK, "middle")


# ---- chunked prefill keeps its row -----------------------------------------------------------------------------------


def the_kept_row(sentence: str) -> Scene:
    """The state at the end of every chunk's forward step, marked with what the chunk wrote."""
    trace, y, items = chunked_prefill(), 66.0, []
    pane = Pane(trace)
    steps = sorted({event.step for event in trace})
    descs = []
    for step in steps:
        ks = [k for k, event in enumerate(trace, start=1) if event.step == step]
        launch = next(k for k in ks if trace[k - 1].kind == "note")
        got = next(k for k in ks if trace[k - 1].kind in ("alloc", "keep"))
        done = max(k for k in ks if trace[k - 1].kind == "verify")
        cells = tuple(cell for k in ks if k <= done for cell in trace[k - 1].change.cells)
        shown = Event(step, "append", rows=trace[got - 1].rows, change=Change(cells=cells))
        _, _, counters = caption(trace, launch).rstrip(".").partition(": ")
        items.append(Words(MARGIN, y + 13, f"chunk {step + 1}", 17, bold=True))
        items.append(Words(MARGIN + 86, y + 13, counters, 15, QUIET))
        kind = trace[got - 1].kind
        items.append(Words(MARGIN, y + 37, kind, 16, bold=True))
        items.append(Words(round(MARGIN + wide(kind, 16, True) + 8, 2), y + 37, caption(trace, got), 16))
        for event in trace.events[got : ks[-1]]:
            if event.kind == "alloc":
                said = "; ".join(f"{rid} gets row {row}" for rid, row in zip(event.rids, event.rows, strict=True))
                items += [
                    Words(600, y + 37, "alloc", 16, anchor="end", bold=True),
                    Words(608, y + 37, f"request {said}.", 16),
                ]
        items += table(pane, trace.snapshot(done), shown, y + 64, range(1, trace.first.size + 1))
        descs.append(text_view(trace.snapshot(done), [cell[:2] for cell in cells]))
        y += 64 + 8 + trace.first.size * (ROW + GAP) + 18
        if step != steps[-1]:
            items.append(Path(((MARGIN, y - 10), (WIDTH - MARGIN, y - 10)), LINE, 1))
    items += legend({"live", "stale", "changed"}, y + 12)
    return picture("A long prompt in chunks keeps its row", sentence, "\n\n".join(descs), y + 32, items)


PICTURES = {
    "table.svg": the_table,
    "path.svg": the_path,
    "two_zeros.svg": the_two_zeros,
    "three_regimes.svg": the_three_regimes,
    "kept_row.svg": the_kept_row,
}
