"""All exercises of the course, by name."""

from __future__ import annotations

import importlib
from functools import lru_cache

from reqpool.exercises.exercise import Exercise

CHAPTERS = ("chapter_00", "chapter_01", "chapter_02", "chapter_03", "chapter_04", "chapter_05")


@lru_cache(maxsize=1)
def exercises() -> dict[str, Exercise]:
    """By the name of the function that the learner writes. The steps of chapter 11 are in `own_pool.STEPS`."""
    modules = [importlib.import_module(f"reqpool.exercises.{chapter}") for chapter in CHAPTERS]
    return {one.name: one for module in modules for one in module.EXERCISES}


def find(name: str, step: int | None = None) -> Exercise:
    """An exercise of a chapter, or a step of chapter 11's class.

    Raises:
        ValueError: there is none of this name; the message lists those that there are.
    """
    from reqpool.exercises.own_pool import STEPS

    if step is not None:
        if not (type(step) is int and 1 <= step <= len(STEPS)):
            raise ValueError(f"there is no step {step!r}, wanted 1 to {len(STEPS)}")
        return STEPS[step - 1]
    if name == STEPS[0].name:
        raise ValueError(f"{name} is examined step by step: say which, as in step=1, up to step={len(STEPS)}")
    if name not in exercises():
        if name[:1].isupper():
            raise ValueError(f"a class is checked by steps: check({name}, step=1), up to step={len(STEPS)}")
        known = ", ".join(one for one in exercises())
        raise ValueError(f"there is no exercise {name!r}; there are {known}")
    return exercises()[name]
