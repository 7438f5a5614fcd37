"""A trace: the first state and the events, from which the state after any number of events follows.

    snapshot(0)  --events[0]-->  snapshot(1)  --events[1]-->  snapshot(2)  ...  snapshot(len(trace))

It grows with what changed, not with events x table: each event carries its own small before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reqpool.pool import _integer
from reqpool.trace.events import LENGTHS, Change, Event, Rids, Snapshot, short


class Trace:
    """A sequence of events with the state they began in."""

    def __init__(self, first: Snapshot, events: Iterable[Event] = ()) -> None:
        self.first = first
        self.events = list(events)
        self._step = 0
        self._emit: Callable[..., None] | None = None  # set while recording
        self._state = _State(first)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, index: int) -> Event:
        return self.events[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        rows, columns = self.first.table.shape
        return f"Trace({len(self)} events, {rows} rows x {columns} positions)"

    @property
    def step(self) -> int:
        """The engine's step, which new events are given; 0 until `trace.step = n` says otherwise."""
        return self._step

    @step.setter
    def step(self, n: int) -> None:
        self._step = _integer("trace.step", n)

    def snapshot(self, k: int) -> Snapshot:
        """The full state after k events, 0..len(trace). Copies the table; neighbours cost only what changed."""
        self._need_step(k)
        state = self._state
        while state.k < k:
            state.forward(self.events[state.k].change)
        while state.k > k:
            state.back(self.events[state.k - 1].change)
        return state.snapshot()

    def changed(self, k: int) -> tuple[tuple[int, int], ...]:
        """The cells (row, position) that differ between `snapshot(k - 1)` and `snapshot(k)`; none for k = 0."""
        self._need_step(k)
        return tuple(cell[:2] for cell in self.events[k - 1].change.cells) if k else ()

    def emit(
        self, kind: str, rid: str | None = None, rows: int | Iterable[int] = (), text: str = "", **facts: Any
    ) -> None:
        """Add a fact that no call shows. Changes are not said here: they are found in the tensors.

        A kind that is about a write (`write`, `late_write`, `pad_write`, `verify`, `reset`) names whose the changes
        are that are found in `rows` at this moment; what changed elsewhere becomes an unannounced write before it.

        Raises:
            RuntimeError: outside `with record(pool) as trace`.
            ValueError, TypeError: an unknown kind or row, a fact that a file could not hold. Nothing is added then.
        """
        if self._emit is None:
            raise RuntimeError("trace.emit works inside `with record(pool) as trace:`; this trace has ended")
        self._emit(kind, rid, rows, text, facts)

    def save(self, path: str | Path) -> None:
        """Write JSON lines that `Trace.load` reads; see `reqpool.trace.file`."""
        from reqpool.trace.file import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> Trace:
        """Read a trace file; a damaged, foreign or oversized one is a ValueError and nothing half-loaded."""
        from reqpool.trace.file import load

        return load(path)

    def _need_step(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int):
            raise TypeError(f"a step is an integer, got {k!r}")
        if not 0 <= k <= len(self):
            raise IndexError(f"step {k} is not in this trace, wanted 0..{len(self)} (after k events)")


class _State:
    """A state that can be walked along the events, forward and back."""

    def __init__(self, first: Snapshot) -> None:
        self.k = 0
        self.base = first
        self.table = first.table.clone()
        self.lengths = {name: list(getattr(first, name)) for name in LENGTHS}
        self.owners: dict[int, Rids] = dict(first.owners)
        self.free = list(first.free)

    def forward(self, change: Change) -> None:
        self._apply(change, before=2, after=3)
        self.k += 1

    def back(self, change: Change) -> None:
        self._apply(change, before=3, after=2)
        self.k -= 1

    def _apply(self, change: Change, before: int, after: int) -> None:
        """Cells and lengths are (where, where, old, new); owners and free list are swapped likewise."""
        if change.cells:
            rows, positions, *values = zip(*change.cells, strict=True)
            self.table[list(rows), list(positions)] = self.table.new_tensor(values[after - 2])
        for length in change.lengths:
            self.lengths[length[0]][length[1]] = length[after]
        for row, *rids in change.owners:
            if rids[after - 2]:
                self.owners[row] = rids[after - 2]
            else:
                self.owners.pop(row, None)
        if change.free:
            at, *rows = change.free
            self.free[at : at + len(rows[before - 2])] = rows[after - 2]

    def snapshot(self) -> Snapshot:
        lengths = {name: tuple(numbers) for name, numbers in self.lengths.items()}
        owners = dict(sorted(self.owners.items()))
        return replace(self.base, table=self.table.clone(), owners=owners, free=tuple(self.free), **lengths)

    def check(self, change: Change) -> None:
        """Refuse a change that cannot come next: what it says was there must be there, and something must change.

        Raises:
            ValueError: in one sentence. The numbers are integers already; whether they fit the table is asked here.
        """
        num_rows, num_positions = self.table.shape
        cells, lengths, owners = change.cells, change.lengths, change.owners
        for row, position, *_ in cells:
            if not (0 <= row < num_rows and 0 <= position < num_positions):
                raise ValueError(f"no cell at row {row}, position {position} in {num_rows} x {num_positions}")
        if cells:
            rows, positions, *_ = zip(*cells, strict=True)
            _follow("cell", [cell[:2] for cell in cells], cells, self.table[list(rows), list(positions)].tolist())
        for row in (*(length[1] for length in lengths), *(owner[0] for owner in owners)):
            if not 0 <= row < num_rows:
                raise ValueError(f"no row {row}, wanted 0..{num_rows - 1}")
        if lengths:
            there = [self.lengths[name][row] for name, row, *_ in lengths]
            _follow("length", [length[:2] for length in lengths], lengths, there)
        if owners:
            there = [self.owners.get(row, ()) for row, *_ in owners]
            _follow("owner of row", [owner[0] for owner in owners], owners, there)
        if change.free:
            at, out, into = change.free
            if not 0 <= at <= at + len(out) <= len(self.free) or any(not 0 <= row < num_rows for row in into):
                raise ValueError(f"a change of the free list at {at} does not fit its {len(self.free)} rows")
            _follow("free list at", [at], [(at, out, into)], [tuple(self.free[at : at + len(out)])])


def _follow(what: str, places: Sequence[Any], changes: Sequence[Any], there: Sequence[Any]) -> None:
    """Each change ends with (before, after): `before` is there now, `after` is not, and no place comes twice."""
    if len(set(places)) < len(places):
        raise ValueError(f"a change names one {what} twice")
    for place, (*_, before, after), now in zip(places, changes, there, strict=True):
        if now != before or after == before:
            raise ValueError(f"{what} {place}: {short(now)} is there, the event says {short(before)} -> {short(after)}")
