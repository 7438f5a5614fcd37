"""A question that a player asks: which cell? What the learner must not see yet does not leave the kernel.

question = Player(trace, step=4, pick=True)     the state after 4 events; the tape holds these 4 and no more
question.picked                                 [1, 3] as soon as row 1, position 3 has been picked
question.pick = False                           committed: the pick stays where it is
question.mark = [1, 4]                          and the outcome's cell is marked
"""

import operator
from typing import Any

from reqpool.trace import Trace

MAX_PICKABLE = 2048  # grids.js draws more cells than these on a canvas


def past(trace: Trace, step: int) -> Trace:
    """The trace without what happens after `step` events."""
    return Trace(trace.first, trace.events[:step])


def need_pickable(trace: Trace) -> None:
    rows, columns = trace.first.table.shape
    if rows * columns > MAX_PICKABLE:
        size = f"{rows:,} rows x {columns:,} positions = {rows * columns:,} cells"
        raise ValueError(f"{size} are drawn on a canvas, where no cell can be picked; wanted {MAX_PICKABLE:,} or fewer")


def cell_of(value: Any, trace: Trace) -> list[int] | None:
    """`value` as [row, position] of a cell that the table has, or as [] for none; None when it is neither."""
    if len(value) not in (0, 2) or any(isinstance(number, bool) for number in value):
        return None
    try:
        cell = [operator.index(number) for number in value]
    except TypeError:
        return None
    inside = all(0 <= number < end for number, end in zip(cell, trace.first.table.shape, strict=False))
    return cell if inside else None
