"""Predictions before something is shown, and the questions at the end of a chapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from reqpool.parts import BAD, GOOD, QUIET, at_the_end, note, prose
from reqpool.questions.question import Question
from reqpool.trace import Trace


def predict(
    question: str, choices: Sequence[str], answer: str, why: str, reveal: Trace | str | widgets.Widget | None = None
) -> Question:
    """Ask before showing. What `reveal` holds stays locked until an answer is committed.

    Args:
        answer: the choice that comes true; a lesson computes it.
        reveal: a Trace, shown at its end, which is the outcome; HTML; or a widget.
    """
    if answer not in choices:
        raise ValueError(f"predict: the answer {answer!r} is not one of the choices {list(choices)}")

    def explain(chosen: str) -> Iterable[Any]:
        right = chosen == answer
        verdict = "As predicted" if right else "Not as predicted"
        pair = "".join(
            f'<td style="padding: 4px 24px 4px 0; text-align: left; vertical-align: top">{head}<br>'
            f"<strong>{prose(said)}</strong></td>"
            for head, said in (("You predicted", chosen), ("It happens", answer))
        )
        table = f'<table role="presentation"><tr>{pair}</tr></table>'
        yield note(f"{table}<strong>{verdict}.</strong> {prose(why)}", GOOD if right else BAD)
        if isinstance(reveal, Trace):
            yield at_the_end(reveal)
        elif reveal is not None:
            yield reveal

    text = f"<strong>Predict.</strong> {prose(question)}"
    return Question(text, choices, "Your prediction:", "Commit my prediction", explain)


def quiz(questions: Sequence[tuple[str, str, Mapping[str, str]]]) -> widgets.VBox:
    """Questions as (text, right choice, {choice: why it is right or wrong}): every choice is explained."""
    return widgets.VBox([_quiz_question(number, *one) for number, one in enumerate(questions, start=1)])


def _quiz_question(number: int, text: str, right: str, choices: Mapping[str, str]) -> Question:
    if right not in choices:
        raise ValueError(f"quiz: the right answer {right!r} is not one of the choices {list(choices)}")

    def explain(chosen: str) -> Iterable[str]:
        for choice, why in choices.items():
            verdict = "right" if choice == right else "wrong"
            yours = ", your answer" if choice == chosen else ""
            head = f"<strong>{prose(choice)}</strong> ({verdict}{yours})"
            yield note(f"{head}<br>{prose(why)}", GOOD if choice == right else BAD if yours else QUIET)

    head = f"<strong>Question {number}.</strong> {prose(text)}"
    return Question(head, list(choices), "Your answer:", "Check my answer", explain)
