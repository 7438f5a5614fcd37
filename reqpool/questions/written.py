"""What the text of a question consists of. Nothing in it is markup but `code` and **bold**."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """Asked before something is shown. It does not know what comes true: the notebook's own run says that.

    In each text `{name}` stands for a fact that the notebook hands over.

    Attributes:
        why: told with the verdict, whatever was predicted.
        seen: told below what is revealed: the answer to *what did you see?*
        choices: what can come true, each with its words, in the order in which they are offered; None: the answer is
            a cell of the table, and what comes true is (row, position).
    """

    question: str
    why: str
    seen: str
    choices: Mapping[Hashable, str] | None = None


@dataclass(frozen=True)
class QuizQuestion:
    """
    Attributes:
        choices: each with the reason why it is right or wrong. Each reason stands on its own.

    Raises:
        ValueError: `right` is not one of the choices.
    """

    question: str
    right: str
    choices: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.right not in self.choices:
            raise ValueError(f"the right answer {self.right!r} is not one of the choices {list(self.choices)}")
