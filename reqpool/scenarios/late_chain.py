"""What a late length did, read off the trace: the chain from the length to the wrong letter, and the two lanes.

    row 1 begins with verified length 8          found: the length before b's first forward step
    -> b's first letter goes to position 8       which is what the step raises the length from
    -> that cell still says slot 9               found: the table at this moment
    -> which c holds at its position 8           found: the live cell that says the same slot
    -> c recites x instead of s                  found: what c recited, beside what it should have

Nothing here knows which experiment was run: a step that starts where its request is not is seen by the two lengths of
its row, since the schedule lane counts one of them and the forward lane the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reqpool.trace import Event, Snapshot, Trace

FORWARD = ("verify", "late_write", "pad_read", "pad_write")  # who writes what: the rest is the schedule lane's
ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Token:
    """One token of a forward step: where it should have gone, and where it went."""

    k: int  # after so many events
    rid: str
    letter: str
    row: int
    index: int  # of the token in its request
    position: int  # where the step wrote it
    slot: int | None  # what the cell there says; None beyond the row's end
    holder: tuple[str, int] | None  # who holds that slot, and at which of its positions
    verified: int  # length of the row before the whole step; the step's first token goes there
    done: int  # tokens that the request had before the step

    @property
    def astray(self) -> bool:
        return self.index != self.position


@dataclass(frozen=True)
class Recital:
    """What the requests recited, what they should have, and how many letters their prompts have; by rid."""

    recited: Mapping[str, str]
    expected: Mapping[str, str]
    periods: Mapping[str, int]

    def wrong(self, rid: str, index: int) -> bool:
        said = self.recited.get(rid, "")
        return index < len(said) and said[index] != self.expected[rid][index]

    def text(self, rid: str) -> str:
        return self.expected[rid][: self.periods[rid]] + self.recited[rid]

    def verdict(self, rid: str, index: int) -> str:
        return f"{rid} recites {self.recited[rid][index]} instead of {self.expected[rid][index]}"


def explained(trace: Trace, begin: int, recital: Recital) -> tuple[Trace, str]:
    """The trace from event `begin` on with every event in a lane, and with the chain where a wrong letter comes out.

    Returns:
        the new trace, and the chain as a sentence; empty when nobody recites wrongly.
    """
    story = Trace(trace.snapshot(begin), [in_lane(event) for event in trace.events[begin:]])
    tokens = list(written(story, recital))
    chain, at, cell = told(story, tokens, recital)
    events = list(story.events)
    for k, event in enumerate(events, start=1):
        if strays := [token for token in tokens if token.k == k and token.astray]:
            events[k - 1] = replace(event, text=_astray(strays), facts=(*event.facts, ("wrong", _cells(strays))))
    if chain:
        said = next(i for i in range(at, len(events)) if "texts" in dict(events[i].facts))
        facts = (*events[said].facts, ("wrong", (cell,) if cell[1] < trace.first.max_context_len else ()))
        events[said] = replace(events[said], text=f"{events[said].text}: {chain}", facts=facts)
    return Trace(story.first, events), chain


def in_lane(event: Event) -> Event:
    facts = dict(event.facts)
    if "lane" in facts:
        return event
    lane = "forward" if event.kind in FORWARD or "texts" in facts else "schedule"
    return replace(event, facts=(*event.facts, ("lane", lane)))


# ---- where every token went ------------------------------------------------------------------------------------------


def written(trace: Trace, recital: Recital) -> Iterator[Token]:
    """The tokens of every forward step of the requests that recite, in the order of time."""
    for k, event in enumerate(trace, start=1):
        if event.kind != "verify":
            continue
        before = trace.snapshot(k - 1)
        for _, row, start, end in event.change.lengths:
            rid = owner(before, row)
            if rid not in recital.recited:
                continue
            first = before.alloced[row] - (end - start)  # the schedule lane has reserved this step's cells already
            for j in range(end - start):
                slot = slot_at(before, row, start + j)
                letter = recital.text(rid)[first + j]
                yield Token(k, rid, letter, row, first + j, start + j, slot, holder(before, slot), start, first)


def slot_at(snapshot: Snapshot, row: int, position: int) -> int | None:
    return int(snapshot.table[row, position]) if position < snapshot.max_context_len else None


def owner(snapshot: Snapshot, row: int) -> str:
    """Who holds a row; "" for a free one, and for one that was handed out by count."""
    return snapshot.owners.get(row, (None,))[0] or ""


def holder(snapshot: Snapshot, slot: int | None) -> tuple[str, int] | None:
    """Who holds a slot in a live cell, and at which position."""
    for row in snapshot.owners:
        live = snapshot.table[row, : snapshot.alloced[row]].tolist()
        if slot and slot in live:
            return owner(snapshot, row), live.index(slot)
    return None


# ---- the chain -------------------------------------------------------------------------------------------------------


def told(trace: Trace, tokens: list[Token], recital: Recital) -> tuple[str, int, tuple[int, int]]:
    """The chain, after how many events its wrong letter comes out, and the cell it was read through.

    A third request's letter is told first: it is the one that nobody would look for.
    """
    spoken = {(token.rid, token.index - recital.periods[token.rid] + 1): token for token in tokens}
    strays = [token for token in tokens if token.astray]
    for token in strays:
        rid, index = token.holder or ("", 0)
        said = spoken.get((rid, index))
        if rid != token.rid and recital.wrong(rid, index) and said and said.k >= token.k:
            parts = [
                _length(token),
                _goes(token),
                _says(token.slot, token.holder, token.rid),
                recital.verdict(rid, index),
            ]
            return " → ".join(parts), said.k, (said.row, index)
    for rid in dict.fromkeys(token.rid for token in strays):
        stray = next(token for token in strays if token.rid == rid)
        for index in range(len(recital.recited[rid])):
            if recital.wrong(rid, index):
                said = spoken[rid, index]
                cell = (said.row, said.position + 1 - recital.periods[rid])
                parts = [_length(stray), *_sought(trace, said, cell[1], index), recital.verdict(rid, index)]
                return " → ".join(parts), said.k, cell
    return "", 0, (0, 0)


def _length(token: Token) -> str:
    """The row's length before the step of this token, which need not be the first of its step."""
    if token.done == 0:
        return f"row {token.row} begins with verified length {token.verified}"
    return f"row {token.row}'s verified length is {token.verified} where {token.rid} has {token.done} tokens"


def _goes(token: Token) -> str:
    return f"{token.rid}'s {_th(token.index)} letter {token.letter} goes to position {token.position}"


def _says(slot: int | None, held: tuple[str, int] | None, rid: str) -> str:
    if slot is None:
        return "that is beyond the end of the row"
    if slot == 0:
        return "that cell was never written: it says slot 0, the dummy slot"
    if held is None:
        return f"that cell still says slot {slot}, which nobody holds now"
    whose = f"{rid} itself" if held[0] == rid else held[0]
    return f"that cell still says slot {slot}, which {whose} holds at its position {held[1]}"


def _sought(trace: Trace, said: Token, position: int, index: int) -> list[str]:
    """A request looks a period back from where its row says it is, not from where it is."""
    now = trace.snapshot(said.k - 1)
    slot = slot_at(now, said.row, position)
    elsewhere = f" of the row, not {index}" if position != index else ""
    look = f"{said.rid} looks for its {_th(index)} letter at position {position}{elsewhere}"
    return [look, _says(slot, holder(now, slot), said.rid)]


def _th(index: int) -> str:
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def _astray(strays: list[Token]) -> str:
    """The caption of a step that starts at the wrong place."""
    first, n = strays[0], len(strays)
    slots = ", ".join("none" if token.slot is None else str(token.slot) for token in strays)
    hurt = sorted({token.holder[0] for token in strays if token.holder and token.holder[0] != first.rid})
    whose = f", which {' and '.join(hurt)} holds" if hurt else ""
    dummy = ", the dummy slot" if slots == "0" else ""
    return (
        f"request {first.rid}'s step starts at position {first.position}, as verified_lens says, not at {first.index}: "
        f"K and V of {n} token{'' if n == 1 else 's'} go to slot{'' if n == 1 else 's'} {slots}{dummy}{whose}"
    )


def _cells(strays: list[Token]) -> tuple[tuple[int, int], ...]:
    return tuple((token.row, token.position) for token in strays if token.slot is not None)
