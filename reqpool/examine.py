"""The examiner, as a learner meets it: the task with folded hints and solution, and what an answer gets.

exercise("give_back")      what is to be written
check(give_back)           not attempted; right; or a sentence and the smallest failing case in two players
check(MyPool, step=3)      the same for a step of chapter 11
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets
from IPython.display import HTML

from reqpool.exercises.catalogue import exercises, find
from reqpool.exercises.exercise import Case, Verdict, examine
from reqpool.exercises.values import shortened
from reqpool.parts import BAD, GOOD, QUIET, at_the_end, note, prose, side_by_side, text_box
from reqpool.scenarios.together import NOTHING, in_step
from reqpool.trace import Event, Trace

COLOURS = {"right": GOOD, "wrong": BAD, "not attempted": QUIET}
HEADS = {"right": "Right.", "wrong": "Not yet.", "not attempted": "Not attempted so far:"}


def exercise(name: str, step: int | None = None) -> HTML:
    """What is to be done, with two hints and the solution folded."""
    one = find(name, step)
    folds = [(f"Hint {number}", prose(hint)) for number, hint in enumerate(one.hints, start=1)]
    folds.append(("Solution", f"<pre>{escape(one.solution.strip())}</pre>"))
    folded = "".join(f"<details><summary>{head}</summary>{body}</details>" for head, body in folds)
    return HTML(note(f"<strong>Your task:</strong> {prose(one.task)}{folded}"))


def check(answer: Callable[..., Any], step: int | None = None) -> widgets.VBox:
    """Examine a function, or a class at one of its steps. Nothing counts attempts.

    Raises:
        TypeError: not a function or class, but what it returned, say.
        ValueError: no exercise of that name.
    """
    name, got = getattr(answer, "__name__", None), shortened(answer)
    if name is None or not callable(answer):
        raise TypeError(f"check wants the function itself, as in check(give_back), got {type(answer).__name__} {got}")
    if step is not None and not isinstance(answer, type):
        raise TypeError(f"check of a step wants the class, as in check(MyPool, step={step}), got {got}")
    if name == "<lambda>":
        raise TypeError("a lambda has no name, and check goes by the name: write it with `def give_back(...):`, say")
    if "<locals>" in getattr(answer, "__qualname__", "") and name not in exercises() and step is None:
        raise ValueError(
            f"there is no exercise {name!r}. If a decorator has given your function this name: write it with "
            "`def give_back(...):`, say, and without a decorator, or use functools.wraps in that"
        )
    return shown(examine(find(name, step), answer))


def shown(verdict: Verdict) -> widgets.VBox:
    told = f"<strong>{HEADS[verdict.state]}</strong> {prose(verdict.sentence)}"
    if verdict.remark:
        told += f"<br><em>{prose(verdict.remark)}</em>"
    parts: list[widgets.Widget] = [text_box(note(told, COLOURS[verdict.state]))]
    if verdict.case:
        parts += _pictures(verdict.case)
    return widgets.VBox(parts)


def _pictures(case: Case) -> list[widgets.Widget]:
    parts: list[widgets.Widget] = []
    if case.yours and case.right:
        pair = to_the_end(case.yours, case.right)
        parts.append(side_by_side(*pair, case.labels, step=len(pair[0])))
    elif one := case.yours or case.right:
        parts += [text_box(f"<strong>{case.labels[0 if case.yours else 1]}</strong>"), at_the_end(one)]
    if case.printed:
        parts.append(text_box(f"Your code printed:<pre>{escape(case.printed)}</pre>"))
    return parts


def to_the_end(yours: Trace, right: Trace) -> tuple[Trace, Trace]:
    """In step, and the last events of both at the last place: there stands what is wrong, and what would be right."""
    both = (yours, right)
    bodies = in_step(*(Trace(one.first, one.events[:-1]) for one in both))
    yours, right = (
        Trace(body.first, [*_refusals_first(body), *one.events[-1:]]) for body, one in zip(bodies, both, strict=True)
    )
    return yours, right


def _refusals_first(trace: Trace) -> list[Event]:
    """Beside the call that is not refused on the other side, and not beside the last thing that came of that call."""
    events = list(trace)
    for k, event in enumerate(events):
        at = k
        while event.kind == "refuse" and at > 0 and events[at - 1].text == NOTHING:
            at -= 1
        events[at : k + 1] = [event, *events[at:k]]
    return events
