"""A stand-in for the KV cache: slots, and one letter in each where an engine keeps the token's K and V.

    slot      0    1    2    3    4    5
    letter    .    c    a    t    .    .        row 1 of the table says 1 2 3: its request reads "cat"

With letters one can read what a wrong cell does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.trace import Trace

NOTHING = "·"  # a slot in which nobody has written


class Letters:
    """Slots 1..size, the longest free first; slot 0 is the dummy slot and never handed out."""

    def __init__(self, size: int) -> None:
        self.letters = torch.zeros(size + 1, dtype=torch.int32)  # [size + 1]: a code point, 0 for nothing
        self.free = list(range(1, size + 1))

    def take(self, n: int) -> list[int]:
        if n > len(self.free):
            raise ValueError(f"{n} slots wanted, {len(self.free)} free")
        taken, self.free = self.free[:n], self.free[n:]
        return taken

    def give_back(self, slots: Iterable[int]) -> None:
        """The letters stay where they are, as K and V do."""
        self.free += slots

    def write(self, slots: Sequence[int], text: str) -> None:
        self.letters[list(slots)] = torch.tensor([ord(letter) for letter in text], dtype=torch.int32)

    def read(self, slots: Sequence[int]) -> str:
        return "".join(chr(code) if code else NOTHING for code in self.letters[list(slots)].tolist())


def prefill(pool: ReqToTokenPool, letters: Letters, req: Req, text: str) -> None:
    """Slots for a piece of text, their letters, and the cells that say where they are."""
    slots = letters.take(len(text))
    letters.write(slots, text)
    pool.append(req, slots)


def finish(pool: ReqToTokenPool, letters: Letters, req: Req) -> None:
    """Give back the slots of the live cells, then the row."""
    letters.give_back(live_slots(pool, row_of(req)))
    pool.free(req)


def live_slots(pool: ReqToTokenPool, row: int) -> list[int]:
    return pool.req_to_token[row, : int(pool.alloced_lens_cpu[row])].tolist()


def recite(trace: Trace, pool: ReqToTokenPool, letters: Letters, req: Any, wanted: str) -> None:
    """The request reads its text through its row; a letter that is not the wanted one marks its cell wrong."""
    row = req.req_pool_idx
    got = letters.read(live_slots(pool, row))
    tell(trace, req.rid, row, got, wanted)


def tell(trace: Trace, rid: str, row: int, got: str, wanted: str) -> None:
    """What a request reads, said as an event; the player keeps it under the table until the request reads again."""
    wrong = [i for i, letter in enumerate(got) if wanted[i : i + 1] != letter]
    verdict = "as it wrote it" if got == wanted else f'but it wrote "{wanted}"'
    text = f'request {rid} reads "{got}" through row {row}, {verdict}'
    said = {line[0]: line for line in last_texts(trace)} | {rid: (rid, got, wrong)}
    cells = [(row, i) for i in wrong]
    trace.emit("note", rid=rid, rows=[row], text=text, wrong=cells, texts=tuple(said.values()))


def last_texts(trace: Trace) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """(label, text, wrong indices) of everybody who has read by now."""
    return next((facts["texts"] for event in reversed(trace.events) if "texts" in (facts := dict(event.facts))), ())
