"""A trace: the first state and the events, from which the state after any number of events follows.

    snapshot(0)  --events[0]-->  snapshot(1)  --events[1]-->  snapshot(2)  ...  snapshot(len(trace))

It grows with what changed, not with events x table: each event carries its own small before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reqpool.trace.events import LENGTHS, Change, Event, Rids, Snapshot


class Trace:
    """A sequence of events with the state they began in. `trace.step` is the engine's step given to new events."""

    def __init__(self, first: Snapshot, events: Iterable[Event] = ()) -> None:
        self.first = first
        self.events = list(events)
        self.step = 0
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
            ValueError, TypeError: an unknown kind or row, a fact that a file could not hold.
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

    def misfit(self, change: Change) -> str:
        """Why this change cannot come next, or an empty string: what it says was there must be there."""
        num_rows, num_positions = self.table.shape
        for row, position, before, _ in change.cells:
            if not (0 <= row < num_rows and 0 <= position < num_positions):
                return f"no cell at row {row}, position {position}"
            if int(self.table[row, position]) != before:
                return f"row {row}, position {position} holds {int(self.table[row, position])}, the event says {before}"
        for name, row, before, _ in change.lengths:
            if not 0 <= row < num_rows:
                return f"no row {row}"
            if self.lengths[name][row] != before:
                return f"{name} of row {row} is {self.lengths[name][row]}, the event says {before}"
        for row, before, _ in change.owners:
            if self.owners.get(row, ()) != before or not 0 <= row < num_rows:
                return f"row {row} is held by {self.owners.get(row, ())}, the event says {before}"
        if change.free:
            at, out, _ = change.free
            if at < 0 or tuple(self.free[at : at + len(out)]) != out:
                return f"the free rows are {self.free[:8]}, the event takes {out} out at {at}"
        return ""
