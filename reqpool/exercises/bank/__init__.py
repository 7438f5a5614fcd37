"""Wrong answers that people really give, and right ones that look unusual.

Every wrong one must be rejected with its smallest case and a sentence that names what is wrong; no right one may be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reqpool.exercises.guard import run_cell


@dataclass(frozen=True)
class WrongAnswer:
    """
    Attributes:
        exercise: the name of the function.
        mistake: in a few words.
        source: as a learner would write it.
        told: words that the sentence of the verdict must hold.
    """

    exercise: str
    mistake: str
    source: str
    told: str


@dataclass(frozen=True)
class UnusualAnswer:
    """Right, though written otherwise than one would expect."""

    exercise: str
    what: str
    source: str


def written(source: str, name: str, **known: Any) -> Callable[..., Any]:
    """The function or class of this name in a source, as if a cell had been run; its lines can be shown."""
    names: dict[str, Any] = {"__name__": "__main__", **known}
    run_cell(source, f"<answer {hash_of(source)}>", names)
    return names[name]


def hash_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]
