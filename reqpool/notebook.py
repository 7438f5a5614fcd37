"""What a lesson needs besides the pool: a self-check, code to read, questions to answer, exercises that are checked.

    setup()              one readable line each: Python, torch and its device, the widgets
    source(obj)          the code of something in the package, with where it stands
    predict(...)         a committed answer unlocks the reveal; prediction and outcome stand side by side
    quiz([...])          questions, with every answer explained
    exercise(...)        a task with folded hints and solution;  check(function)  looks at what the learner wrote

The pieces that these are put together from are in `reqpool.parts`, the questions in `reqpool.questions`.
"""

from __future__ import annotations

import copy
import importlib.metadata
import inspect
import platform
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import torch
from IPython.display import HTML, Markdown

import reqpool
from reqpool.parts import BAD, GOOD, QUIET, at_the_end, error_text, note, player, prose, text_box
from reqpool.questions import predict, quiz
from reqpool.trace import Trace

__all__ = [
    "Failure",
    "against",
    "attempt",
    "check",
    "exercise",
    "note",
    "player",
    "predict",
    "prose",
    "quiz",
    "setup",
    "source",
    "text_box",
]

# ---- the self-check ------------------------------------------------------------------------------------------------


def setup() -> HTML:
    """Say what this notebook runs on. Changes nothing, installs nothing; a second run says the same again."""
    device = f"the GPU {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "the CPU"
    lines = [
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}, which sees {device}; the lessons use the CPU and give the same integers anywhere",
        ", ".join(f"{name} {version_of(name)}" for name in ("ipywidgets", "anywidget", "IPython", "matplotlib")),
        f"reqpool {version_of('reqpool')}",
    ]
    if "google.colab" in sys.modules:
        remedy = 'import os; os.environ["REQPOOL_STATIC"] = "1"'
        lines.append(f"If a player below stays blank, run <code>{escape(remedy)}</code> and then the cell again.")
    items = "".join(f"<li>{line}</li>" for line in lines)
    return HTML(f"<p><strong>Ready.</strong></p><ul>{items}</ul>")


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from this folder" if package == reqpool.__name__ else "is missing"


# ---- code to read ---------------------------------------------------------------------------------------------------


def source(*objects: Any) -> Markdown:
    """The code of functions, methods or classes as it stands in the package, with file and line."""
    return Markdown("\n\n".join(_listing(one) for one in objects))


def _listing(one: Any) -> str:
    lines, start = inspect.getsourcelines(one)
    path = Path(inspect.getsourcefile(one) or "?")
    package = Path(reqpool.__file__).parent.parent
    where = path.relative_to(package).as_posix() if path.is_relative_to(package) else path.name
    return f"*{where}, line {max(start, 1)}*\n```python\n{textwrap.dedent(''.join(lines)).rstrip()}\n```"


# ---- exercises ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """Why a solution is not right yet: one sentence, and what to look at with it."""

    sentence: str
    shown: Trace | str | None = None  # a trace, shown at its end, or text


Judge = Callable[[Callable[..., Any]], "Failure | None"]  # None: right


@dataclass(frozen=True)
class Exercise:
    name: str  # of the function to be written
    judge: Judge
    praise: str


EXERCISES: dict[str, Exercise] = {}  # by the function's name: what `check` looks up


class NotAttempted(Exception):
    """No error: the stub is still there."""


def exercise(
    name: str, task: str, judge: Judge, hints: Sequence[str], solution: str, praise: str = "That is it."
) -> HTML:
    """Show a task, its hints and its solution folded, and remember how `check` is to judge the function `name`."""
    EXERCISES[name] = Exercise(name, judge, praise)
    folds = [(f"Hint {number}", prose(hint)) for number, hint in enumerate(hints, start=1)]
    folds.append(("Solution", f"<pre>{escape(textwrap.dedent(solution).strip())}</pre>"))
    folded = "".join(f"<details><summary>{head}</summary>{body}</details>" for head, body in folds)
    return HTML(note(f"<strong>Your task:</strong> {prose(task)}{folded}"))


def against(
    expect: Callable[..., Any],
    cases: Iterable[tuple],
    show: Callable[..., Trace | str | None] | None = None,
) -> Judge:
    """Judge a function by what `expect`, written apart from the code under test, says of every case.

    Args:
        cases: tuples of arguments, the smallest first; the first that fails is the one to be shown.
        show: what to look at with a failing case, made from the arguments.
    """
    cases = list(cases)

    def judge(function: Callable[..., Any]) -> Failure | None:
        for case in cases:
            wanted = expect(*copy.deepcopy(case))
            got = attempt(function, *copy.deepcopy(case))
            if not _same(got, wanted):
                call = f"{function.__name__}({', '.join(map(repr, case))})"
                said = f"`{call}` gives `{got!r}`, wanted `{wanted!r}`."
                return Failure(said, show(*copy.deepcopy(case)) if show else None)
        return None

    return judge


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """Call what the learner wrote. A stub, which gives `...` or raises NotImplementedError, is not an attempt."""
    try:
        result = function(*args)
    except NotImplementedError as stub:
        raise NotAttempted from stub
    if result is ...:
        raise NotAttempted
    return result


def _same(got: Any, wanted: Any) -> bool:
    """Equal, and of the same type; but a list, a tuple and a deque of the same items answer a question alike."""
    if isinstance(got, torch.Tensor) or isinstance(wanted, torch.Tensor):
        return isinstance(got, type(wanted)) and got.shape == wanted.shape and bool((got == wanted).all())
    if _is_sequence(got) and _is_sequence(wanted):
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    return type(got) is type(wanted) and got == wanted


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def check(function: Callable[..., Any]) -> widgets.VBox:
    """Judge a function that the learner wrote: not attempted, right, or the smallest case in which it fails."""
    name = getattr(function, "__name__", repr(function))
    if name not in EXERCISES:
        known = ", ".join(EXERCISES) or "none yet: run the cell with the task first"
        raise ValueError(f"check: there is no exercise {name!r} here (known: {known})")
    task = EXERCISES[name]
    try:
        failure = task.judge(function)
    except NotAttempted:
        return _verdict(f"<strong>Not attempted</strong> so far: <code>{name}</code> is still the stub.", QUIET)
    except Exception:  # noqa: BLE001 - the learner's own error is the answer to be shown
        return _verdict(error_text(traceback.format_exc()), BAD)
    if failure is None:
        return _verdict(f"<strong>Right.</strong> {prose(task.praise)}", GOOD)
    return _verdict(f"<strong>Not yet.</strong> {prose(failure.sentence)}", BAD, failure.shown)


def _verdict(html: str, colour: str, shown: Trace | str | None = None) -> widgets.VBox:
    parts: list[widgets.Widget] = [text_box(note(html, colour))]
    if isinstance(shown, Trace):
        parts.append(at_the_end(shown))
    elif shown is not None:
        parts.append(text_box(f'<pre style="line-height: 1.3">{escape(shown)}</pre>'))
    return widgets.VBox(parts)
