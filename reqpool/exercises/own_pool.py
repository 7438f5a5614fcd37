"""Chapter 11: the learner's own pool, from an empty class in eight steps, examined by the laws that guard ours.

    class MyPool:                       the learner's, empty at first
    @part_of(MyPool)                    one method more, one cell a step
    STEPS[k - 1]                        the exercise of step k: its judge takes the class
    serve(MyPool)                       the engine runs on it and recites

own_pool_steps     tasks, hints, right cells
own_pool_laws      the operations, and what alloc, free and clear must do
own_pool_books     what should be, and the sentence for what is not so
own_pool_table     what a new pool has
own_pool_apart     what two pools must not share
own_pool_adapter   the learner's object, so that it can be recorded and run
own_pool_engine    a small engine on it
"""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from reqpool.exercises import guard, own_pool_engine
from reqpool.exercises.exercise import Case, Exercise, Judge, Verdict, by_operations, first_up
from reqpool.exercises.guard import Raised, Stopped
from reqpool.exercises.own_pool_adapter import TENSORS, OwnPool, look
from reqpool.exercises.own_pool_laws import Choices, OwnPoolWorld
from reqpool.exercises.own_pool_steps import TEXTS
from reqpool.exercises.own_pool_table import need_methods
from reqpool.exercises.own_pool_words import asked, law_named
from reqpool.exercises.search import Wrong
from reqpool.pool import Req
from reqpool.trace import Trace, record

__all__ = ["STEPS", "part_of", "right_class", "serve", "written"]

STARTS, LARGER = ((1, 4), (2, 4)), ((3, 5),)  # size, max_context_len
DEPTH, MOST = 5, 1400
LONGEST, EXAMPLES = 30, 50
AFTER_INIT = "Right after `__init__`: "
MOST_DRAWN = 256  # cells
SHARED = (list, dict, set, deque, Tensor, np.ndarray)  # what pools could share by mistake
PLAIN = (int, float, str, bytes, tuple, frozenset, type(None), np.generic)  # what can count for all of them

Part = TypeVar("Part")


def part_of(cls: type) -> Callable[[Part], Part]:
    """Make a function a method of a class that is there already; a later one of the same name takes its place.

    >>> class Box: ""
    >>> @part_of(Box)
    ... def double(self, n):
    ...     return 2 * n
    >>> Box().double(3)
    6
    """
    if not isinstance(cls, type):
        raise TypeError(f"part_of wants a class, as in @part_of(MyPool), got {cls!r}")

    def add(part: Part) -> Part:
        function = getattr(part, "fget", None) or getattr(part, "__func__", None) or part  # a property, a static method
        name = getattr(function, "__name__", None)
        if name is None:
            raise TypeError(f"part_of wants a function under it, got {part!r}")
        if near := nearest(name):
            warnings.warn(f"`{name}` is no method of the eight steps: is `{near}` meant?", stacklevel=2)
        setattr(cls, name, part)
        return part

    return add


METHODS = {"init": "__init__", "alloc": "alloc", "free": "free", "clear": "clear"}


def nearest(name: str) -> str:
    """The method that this name is nearly that of, where it is none itself; empty for a helper.

    >>> nearest("aloc"), nearest("__int__"), nearest("_free"), nearest("take"), nearest("alloc")
    ('alloc', '__init__', '', '', '')
    """
    near = get_close_matches(name.strip("_"), METHODS, 1, 0.75)
    is_helper = name in METHODS.values() or not near or (name.startswith("_") and near[0] != "init")
    return "" if is_helper else METHODS[near[0]]


# ---- judging ---------------------------------------------------------------------------------------------------------


def judge_of(step: int, most: int = MOST) -> Judge:
    """What is asked of the class in this step: its own law, and those of the steps before. `most`: short sequences."""

    def judge(answer: Any) -> Case | None:
        _need_class(answer, step)
        choices: Choices = []
        learner = FreshPools(answer)
        right = FreshPools(right_class(max(step, 5) if _has_padding(learner) else step))

        def build(maker: FreshPools, start: tuple[int, int]) -> OwnPoolWorld:
            return OwnPoolWorld(maker, step, start, choices, follow=maker is right)

        try:
            examples = EXAMPLES if step > 1 else 1  # step 1 has no operations
            case = by_operations(build, right, STARTS, DEPTH, most, LONGEST, examples, LARGER)(learner)
            if case is None:
                return None
            said = case.sentence if learner.is_made else first_up(case.sentence.removeprefix(AFTER_INIT))
            yours = case.yours or _new_pool(learner, case.sentence)
            return replace(case, sentence=f"{law_named(learner.law)}. {said}", yours=yours)
        finally:
            learner.restore()

    return judge


def _need_class(answer: Any, step: int) -> None:
    if not isinstance(answer, type):
        raise Wrong("`check` wants the class itself: `check(MyPool, ...)`, without brackets behind it.")
    need_methods(answer, TEXTS[step - 1].methods)


def _has_padding(learner: FreshPools) -> bool:
    """Whether the learner's table has a padding row already: then so has the right one beside it."""
    try:
        table = look(learner.new(*STARTS[0]), "req_to_token")
    except (Wrong, Raised, Stopped):
        return False
    return isinstance(table, Tensor) and table.shape == (STARTS[0][0] + 1, STARTS[0][1])


def _new_pool(learner: FreshPools, sentence: str) -> Trace | None:
    """A picture of a pool that is wrong before anything is done with it; None where there is no table to be drawn."""
    try:
        own = learner.new(*STARTS[0])
        table, *lengths = (look(own, name) for name in TENSORS)
    except (Wrong, Raised, Stopped):
        return None
    fits = isinstance(table, Tensor) and table.ndim == 2 and 0 < table.numel() <= MOST_DRAWN
    if not fits or any(not isinstance(each, Tensor) or each.shape != table.shape[:1] for each in lengths):
        return None
    if any(each.dtype != torch.int32 for each in (table, *lengths)):
        return None
    with record(OwnPool(own, *STARTS[0], padding_row=None)) as trace:
        trace.emit("note", text=sentence.removeprefix(AFTER_INIT).replace("`", ""))
    return trace


class FreshPools:
    """Makes pools of a class that is each time as it was at first, values that belong to it and defaults included.

    So what all pools share is found in the first world, with the same numbers in every check.
    """

    def __init__(self, cls: type) -> None:
        self.cls, self.law, self.is_made = cls, 1, False
        self.twins: dict[tuple[int, int], tuple[Any, tuple[int, ...]]] = {}
        own = [base for base in cls.__mro__ if base.__module__ != "builtins"]
        self._values = [(base, copy.deepcopy(_values_of(base))) for base in own]
        self._defaults = [
            (part, copy.deepcopy(part.__defaults__))
            for base in own
            for part in vars(base).values()
            if isinstance(part, FunctionType) and any(isinstance(each, SHARED) for each in part.__defaults__ or ())
        ]

    def new(self, size: int, max_context_len: int, again: bool = False) -> Any:
        if not again:
            self.restore()
        self.is_made = False
        try:
            own = guard.call(self.cls, size, max_context_len)
        except Raised as error:
            if question := asked(error):
                raise Wrong(f"`__init__` raises `{error}`.{question} {error.where}".rstrip()) from error
            raise
        self.is_made = True
        return own

    def restore(self) -> None:
        for base, values in self._values:
            now = _values_of(base)
            for name in now.keys() - values.keys():
                delattr(base, name)
            for name, value in values.items():
                if isinstance(value, SHARED) or now.get(name, ...) is not value:
                    setattr(base, name, copy.deepcopy(value))
        for part, values in self._defaults:
            part.__defaults__ = copy.deepcopy(values)


def _values_of(cls: type) -> dict[str, Any]:
    """What a class holds besides its methods."""
    values = vars(cls).items()
    return {name: value for name, value in values if isinstance(value, SHARED + PLAIN) and not name.startswith("__")}


# ---- right classes, from the cells -----------------------------------------------------------------------------------


def written(cells: Sequence[str], name: str = "your cell") -> type:
    """The class `MyPool` that these cells make, run one after the other."""
    names: dict[str, Any] = {"torch": torch, "part_of": part_of, "MyPool": type("MyPool", (), {}), "Req": Req}
    for number, cell in enumerate(cells, start=1):
        guard.run_cell(cell, f"<{name} {number}>", names)
    return names["MyPool"]


@cache
def right_class(step: int) -> type:
    """The class after so many steps, from the cells that are shown as solutions."""
    return written([text.cell for text in TEXTS[:step]], f"solution {step}.")


STEPS: tuple[Exercise, ...] = tuple(
    Exercise(
        name="MyPool",
        place=f"11 step {number}",
        task=text.task,
        judge=judge_of(number),
        hints=text.hints,
        solution=text.cell.strip("\n"),
        praise=text.praise,
        searched=number > 1,
    )
    for number, text in enumerate(TEXTS, start=1)
)


def serve(answer: Any) -> Verdict:
    """The engine runs on a pool of the learner's class, whatever steps it has, and everybody recites."""
    return own_pool_engine.serve(answer, right_class(len(TEXTS)))
