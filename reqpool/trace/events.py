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

from dataclasses import dataclass, field
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
