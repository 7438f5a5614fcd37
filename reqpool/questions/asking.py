"""Predictions before something is shown, and the questions at the end of a chapter: from texts to widgets."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets
import torch

from reqpool.parts import BAD, GOOD, QUIET, at_the_end, note, player, prose, text_box
from reqpool.player.question import past
from reqpool.questions.answering import Cell, Choices, a_cell_of, cell_words
from reqpool.questions.bank import PREDICTIONS, QUIZZES
from reqpool.questions.question import Answering, Opened, Question
from reqpool.questions.written import Prediction, QuizQuestion
from reqpool.trace import Trace

PICTURE = '<div style="max-width: 760px">{}</div>'


def _taking_back(question: Question) -> Question:
    """That an answer is missing is no longer said once there is one."""

    def take_back() -> None:
        if question.committed is None and question.answering.answer is not None:
            question.told.value = ""

    question.answering.heard(take_back)
    return question


# ---- predict --------------------------------------------------------------------------------------------------------


def predict(
    asked: str | Prediction,
    *,
    outcome: Any,
    reveal: Trace | str,
    step: int | None = None,
    at: int | None = None,
    **facts: Any,
) -> Question:
    """Ask before showing. What `reveal` holds does not leave the kernel until an answer is committed.

    Args:
        asked: the name of a question in the package, or a `Prediction` of one's own.
        outcome: what comes true; a lesson computes it. A cell is (row, position).
        reveal: a trace, shown at its end, which is the outcome; or HTML.
        at: the step at which the trace is shown instead, which is the one that answers. Not where a cell is asked for.
        step: where a cell is asked for: the table is shown after so many events of `reveal`, and the event that follows
            is what is revealed. Nothing later is, so that it may be asked about.
        facts: what the texts of the question leave open, by name.

    Raises:
        ValueError: an unknown name; an outcome that nobody could choose; missing facts; a step that is not there.
    """
    question = _known("predict", asked, PREDICTIONS) if isinstance(asked, str) else asked
    text, why, seen = (_filled(text, facts) for text in (question.question, question.why, question.seen))
    right = _plain(outcome)
    if at is not None:
        if question.choices is None or not isinstance(reveal, Trace):
            raise ValueError(f"predict: at={at} is a step of a trace that is revealed as a whole; there is none here")
        reveal.snapshot(at)  # raises where there is no such step
    if question.choices is None:
        return _ask_for_cell(text, right, reveal, step, why, seen)
    if right not in question.choices:
        raise ValueError(f"predict: the outcome {outcome!r} is not one of the choices {list(question.choices)}")
    comes_true = question.choices[right]

    def open_up(chosen: str) -> Opened:
        return _verdict(chosen, comes_true, why), [_shown(reveal, at), _seen(seen)]

    answering = Choices(list(question.choices.values()), "Your prediction:")
    return _prediction(text, answering, comes_true, open_up)


def _shown(reveal: Trace | str, at: int | None) -> widgets.Widget:
    if isinstance(reveal, str):
        return text_box(PICTURE.format(reveal))
    return at_the_end(reveal) if at is None else player(reveal, step=at)


def _ask_for_cell(text: str, right: Any, reveal: Trace | str, step: int | None, why: str, seen: str) -> Question:
    if not isinstance(reveal, Trace) or step is None:
        raise ValueError("predict: for a cell, `reveal` is a Trace and `step` says which of its tables is shown")
    for k in (step, step + 1):
        reveal.snapshot(k)  # raises where there is no such step
    before, then = past(reveal, step), past(reveal, step + 1)
    rows, positions = before.first.table.shape
    if right not in [(row, position) for row in range(rows) for position in range(positions)]:
        raise ValueError(
            f"predict: the outcome {right!r} is not one of the cells of {rows} rows x {positions} positions"
        )

    def open_up(chosen: Cell) -> Opened:
        return _verdict(cell_words(chosen), cell_words(right), why), [at_the_end(then), _seen(seen)]

    return _prediction(text, a_cell_of(before), right, open_up)


def _prediction(text: str, answering: Answering, outcome: Any, open_up: Callable[[Any], Opened]) -> Question:
    head = f"<strong>Predict.</strong> {prose(text)}"
    return _taking_back(Question(head, answering, outcome, "Commit my prediction", open_up))


def _verdict(chosen: str, comes_true: str, why: str) -> str:
    """Prediction and outcome side by side."""
    right = chosen == comes_true
    pair = "".join(
        f'<td style="padding: 4px 24px 4px 0; text-align: left; vertical-align: top">{head}<br>'
        f"<strong>{prose(said)}</strong></td>"
        for head, said in (("You predicted", chosen), ("It happens", comes_true))
    )
    table = f'<table role="presentation"><tr>{pair}</tr></table>'
    said = "✓ As predicted." if right else "✗ Not as predicted."
    return note(f"{table}<strong>{said}</strong> {prose(why)}", GOOD if right else BAD)


def _seen(seen: str) -> widgets.HTML:
    return text_box(note(f"<strong>What did you see?</strong> {prose(seen)}"))


def _plain(outcome: Any) -> Any:
    """A list becomes a tuple, a tensor or a NumPy number Python's own: what a choice can be looked up by."""
    if isinstance(outcome, torch.Tensor) or hasattr(outcome, "tolist"):
        outcome = outcome.tolist()
    return tuple(map(_plain, outcome)) if isinstance(outcome, (list, tuple)) else outcome


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    wanted = {name for _, name, _, _ in string.Formatter().parse(text) if name}
    if missing := wanted - facts.keys():
        raise ValueError(f"predict: the text needs the facts {sorted(missing)}, got {sorted(facts)}")
    return text.format(**facts)


def _known(call: str, name: str, there: Mapping[str, Any]) -> Any:
    if name not in there:
        raise ValueError(f"{call}: no question is called {name!r}; there are {', '.join(there)}")
    return there[name]


# ---- quiz -----------------------------------------------------------------------------------------------------------


def quiz(asked: str | Sequence[QuizQuestion]) -> widgets.VBox:
    """The questions at the end of a chapter, by its number ("02"), or one's own. Every choice is explained."""
    questions = _known("quiz", asked, QUIZZES) if isinstance(asked, str) else asked
    return widgets.VBox([_quiz_question(number, one) for number, one in enumerate(questions, start=1)])


def _quiz_question(number: int, one: QuizQuestion) -> Question:
    def open_up(chosen: str) -> Opened:
        return "".join(_explained(choice, why, chosen, one.right) for choice, why in one.choices.items()), []

    head = f"<strong>Question {number}.</strong> {prose(one.question)}"
    answering = Choices(list(one.choices), "Your answer:")
    return _taking_back(Question(head, answering, one.right, "Check my answer", open_up))


def _explained(choice: str, why: str, chosen: str, right: str) -> str:
    verdict, colour = ("✓ right", GOOD) if choice == right else ("✗ wrong", BAD if choice == chosen else QUIET)
    yours = ", your answer" if choice == chosen else ""
    return note(f"<strong>{prose(choice)}</strong> ({verdict}{yours})<br>{prose(why)}", colour)
