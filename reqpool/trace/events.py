"""What happened, as frozen facts: an event, what it changed, and the full state after some events.

    Event   step 0, kind "append", rid "a", rows (1,)
      Change  cells    ((1, 3, 0, 12),)                       row 1, position 3: slot 0 before, 12 after
              lengths  (("alloced", 1, 3, 4), ...)
              owners   ((1, (), ("a",)),)                      row 1: nobody before, "a" after
              free     (0, (1,), ())                           at index 0 of the free list: row 1 out, nothing in
    Snapshot  table, owners, free rows, lengths, generation

A change holds before *and* after, so a trace can be walked in both directions and a forged one does not replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from reprlib import repr as short  # of whatever length and depth a value is, one short line
from typing import Any

from torch import Tensor

KINDS = (
    "alloc",
    "keep",
    "refuse",
    "reset",
    "write",
    "append",
    "read",
    "free",
    "clear",
    "late_write",
    "pad_read",
    "pad_write",
    "verify",
    "retract",
    "note",
)
LENGTHS = ("verified", "alloced", "alloced_cpu", "generation")

Cell = tuple[int, int, int, int]  # row, position, slot before, slot after
Length = tuple[str, int, int, int]  # which of LENGTHS, row, before, after
Rids = tuple["str | None", ...]  # who holds a row: one rid; None when taken by count; two in a faulty pool
Owner = tuple[int, Rids, Rids]  # row, before, after
Splice = tuple[int, tuple[int, ...], tuple[int, ...]]  # index in the free list, rows taken out, rows put in


@dataclass(frozen=True)
class Change:
    """What one event changed in the pool, found by comparison; empty when nothing did."""

    cells: tuple[Cell, ...] = ()
    lengths: tuple[Length, ...] = ()
    owners: tuple[Owner, ...] = ()
    free: Splice | None = None

    def __bool__(self) -> bool:
        return bool(self.cells or self.lengths or self.owners or self.free)

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows whose cells or lengths changed, in ascending order."""
        return tuple(sorted({cell[0] for cell in self.cells} | {length[1] for length in self.lengths}))

    def only(self, rows: set[int]) -> Change:
        """Its part in these rows; the free list, which is about no row in particular, is left out."""
        return Change(
            tuple(cell for cell in self.cells if cell[0] in rows),
            tuple(length for length in self.lengths if length[1] in rows),
            tuple(owner for owner in self.owners if owner[0] in rows),
        )


NOTHING = Change()


def splice(before: list[int], after: list[int]) -> Splice:
    """The one replacement that turns `before` into `after`: common head and common tail left out."""
    shorter = min(len(before), len(after))
    head = tail = 0
    if before[:shorter] == after[:shorter]:
        head = shorter
    elif before[len(before) - shorter :] == after[len(after) - shorter :]:
        tail = shorter
    else:
        head = next(i for i in range(shorter) if before[i] != after[i])
        while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
            tail += 1
    return head, tuple(before[head : len(before) - tail]), tuple(after[head : len(after) - tail])


@dataclass(frozen=True)
class Event:
    """One fact.

    Attributes:
        step: the engine's step, as `trace.step` said.
        kind: one of KINDS.
        rid: the request it is about, when it is exactly one.
        rows: the rows it is about.
        rids: where a call named several requests, one for each of `rows` (for a refusal: the batch).
        call: the pool's method; empty for a fact that no call shows, and for a change that nobody announced.
        text: why a call was refused, or what a note says.
        facts: further (name, value) pairs, values that JSON has.
        change: what changed with it.
    """

    step: int
    kind: str
    rid: str | None = None
    rows: tuple[int, ...] = ()
    rids: Rids = ()
    call: str = ""
    text: str = ""
    facts: tuple[tuple[str, Any], ...] = ()
    change: Change = Change()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The full state of a pool after some events.

    Attributes:
        table: int32 (size + 1, max_context_len) on the CPU, a copy.
        owners: row -> who holds it. Nobody: not in here. Two names: a fault.
        free: the free rows in the order in which they will be handed out.
        verified, alloced, alloced_cpu, generation: one number for each row, row 0 included.
        padding_row: 0, or None for a pool that has none.
    """

    table: Tensor
    owners: dict[int, Rids] = field(default_factory=dict)
    free: tuple[int, ...] = ()
    verified: tuple[int, ...] = ()
    alloced: tuple[int, ...] = ()
    alloced_cpu: tuple[int, ...] = ()
    generation: tuple[int, ...] = ()
    padding_row: int | None = 0
    reuse: str = "fifo"

    @property
    def size(self) -> int:
        return self.table.shape[0] - 1

    @property
    def max_context_len(self) -> int:
        return self.table.shape[1]


# ---- what an event may hold: the same for one that is emitted, saved or loaded -------------------------------------

INT64 = 2**63
MAX_DEPTH = 16  # of lists within lists in a fact


def check_event(event: Event, num_rows: int) -> None:
    """Refuse, in a sentence, an event that no pool of so many rows can have. Its change is for `_State.check`.

    Raises:
        TypeError, ValueError: a field of the wrong type; a kind, row or number that does not exist.
    """
    if event.kind not in KINDS:
        raise ValueError(f"kind is {short(event.kind)}, wanted one of {', '.join(KINDS)}")
    need_integers("step", (event.step,), -INT64, INT64 - 1)
    need_integers("row", event.rows, 0, num_rows - 1)
    need_rids((event.rid,))
    need_rids(event.rids)
    if event.rids and len(event.rids) != len(event.rows) and event.kind != "refuse":
        raise ValueError(f"{len(event.rids)} rids for {len(event.rows)} rows, wanted none or one for each")
    for name in ("call", "text"):
        if not isinstance(getattr(event, name), str):
            raise TypeError(f"{name} is {short(getattr(event, name))}, wanted text")


def need_integers(name: str, numbers: tuple[Any, ...], low: int, high: int) -> None:
    for number in numbers:
        if type(number) is not int:
            raise TypeError(f"{name} is {short(number)}, wanted an integer in {low}..{high}")
        if not low <= number <= high:
            raise ValueError(f"{name} is {short(number)}, wanted an integer in {low}..{high}")


def need_rids(rids: tuple[Any, ...]) -> None:
    for rid in rids:
        if rid is not None and not isinstance(rid, str):
            raise TypeError(f"rid is {short(rid)}, wanted text or None")


def frozen(name: str, value: Any, depth: int = 0) -> Any:
    """A fact's value with tuples for lists; what a file could not give back as it is, is refused."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (list, tuple)):
        if depth == MAX_DEPTH:
            raise ValueError(f"fact {short(name)} has lists more than {MAX_DEPTH} deep")
        return tuple(frozen(name, item, depth + 1) for item in value)
    if not isinstance(value, (int, float)):
        raise TypeError(f"fact {short(name)} is {short(value)}, wanted text, a number, None or a list of them")
    if not (-INT64 <= value < INT64 if isinstance(value, int) else math.isfinite(value)):
        raise ValueError(f"fact {short(name)} is a number that is not finite, or no 64-bit integer")
    return value
