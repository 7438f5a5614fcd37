"""What dummy entries did, looked up in a trace: the first cell they changed, the first length, and how it drifts."""

from __future__ import annotations

from collections.abc import Iterator

from reqpool.trace import Event, Trace


def drift(trace: Trace, row: int = 0) -> list[int]:
    """The row's verified length at the end of every engine step.

    >>> from reqpool.scenarios.experiments import padding
    >>> drift(padding("row 0", writes="length", max_new_tokens=4).trace)
    [0, 1, 2, 3]
    """
    last = {event.step: k for k, event in enumerate(trace, start=1)}
    return [trace.snapshot(k).verified[row] for k in last.values()]


def first_raise(trace: Trace) -> tuple[int, int, int, int] | None:
    """The first length that dummy entries raised: engine step, row, before, after."""
    for event in pad_writes(trace):
        for _, row, before, after in event.change.lengths:
            if row == dict(event.facts).get("dummy_row"):
                return event.step, row, before, after
    return None


def first_cell(trace: Trace) -> tuple[int, int, int, int, int] | None:
    """The first cell that dummy entries changed: engine step, row, position, slot before, slot after."""
    for event in pad_writes(trace):
        for cell in event.change.cells:
            return event.step, *cell
    return None


def pad_writes(trace: Trace) -> Iterator[Event]:
    return (event for event in trace if event.kind == "pad_write")
