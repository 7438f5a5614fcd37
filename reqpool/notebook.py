"""What a lesson needs besides the pool: a self-check, code to read, questions to answer, exercises that are checked.

    setup()              one readable line each: Python, torch and its device, the widgets
    source(obj)          the code of something in the package, with where it stands
    predict(...)         a committed answer unlocks the reveal; prediction and outcome stand side by side
    quiz([...])          questions, with every answer explained
    exercise(...)        a task with folded hints and solution;  check(function)  looks at what the learner wrote

Controls are the part of ipywidgets that is the same in 7.7 and 8. Text goes into HTML widgets and never through an
Output widget, which in a busy kernel can swallow what another cell shows. An exception in a callback is shown there.
"""

from __future__ import annotations

import copy
import importlib.metadata
import inspect
import os
import platform
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import torch
import traitlets
from IPython.display import HTML, Markdown

import reqpool
from reqpool.player import Player
from reqpool.player.page import to_frame
from reqpool.trace import Trace

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


# ---- words and errors in a widget -----------------------------------------------------------------------------------

TEXT = "font-size: var(--jp-content-font-size1, 14px); line-height: 1.5; max-width: 60em"
RULE = f"{TEXT}; border-left: 4px solid {{}}; padding: 2px 12px; margin: 6px 0"
QUIET, GOOD, BAD = "#8a93a3", "#009E73", "#D55E00"  # a word always says it as well


def prose(text: str) -> str:
    """Plain text as HTML: nothing in it is markup but `code` and **bold**.

    >>> prose("`a < b` is **true**")
    '<code>a &lt; b</code> is <strong>true</strong>'
    """
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


def note(html: str, colour: str = QUIET) -> str:
    return f'<div style="{RULE.format(colour)}">{html}</div>'


def text_box(html: str = "") -> widgets.HTML:
    """An HTML widget whose lines wrap: the widget's own style keeps them from doing so in some versions."""
    return widgets.HTML(value=html, layout=widgets.Layout(width="auto", max_width="100%"))


def showing_errors(show: widgets.HTML) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a callback whose exceptions appear in `show`: a front end drops them, or hides them in a log."""

    def decorate(act: Callable[..., None]) -> Callable[..., None]:
        @wraps(act)
        def acting(*args: Any) -> None:
            try:
                act(*args)
            except Exception:  # noqa: BLE001 - whatever it is, the person at the controls has to see it
                show.value = error_text(traceback.format_exc())

        return acting

    return decorate


def error_text(details: str) -> str:
    last = details.rstrip().splitlines()[-1]
    folded = f"<details><summary>where</summary><pre>{escape(details)}</pre></details>"
    return f'<div role="alert">{note(f"<strong>This failed:</strong> {escape(last)}{folded}", BAD)}</div>'


def static() -> bool:
    return os.environ.get("REQPOOL_STATIC", "") not in ("", "0")


def player(trace: Trace, step: int = 0, group: str = "") -> Player | FramedPlayer:
    """A player that can stand among widgets; with REQPOOL_STATIC=1 one that needs no third-party widget.

    Players of one group (any name) move together; framed ones only where they stand in one frame (`FramedPlayer`).
    """
    if static():
        return FramedPlayer(trace, step=step)
    return Player(trace, step=step, group=group)


def at_the_end(trace: Trace) -> Player | FramedPlayer:
    """The outcome first: who wants to see how it came about steps back."""
    return player(trace, step=len(trace))


class FramedPlayer(widgets.VBox):
    """The static page in a frame, where the front end shows ipywidgets' own widgets only.

    Args:
        frame: one that it shares with others, and that is shown elsewhere. Those in one frame move together; two frames
            cannot, since neither knows of the other.
    """

    def __init__(self, trace: Trace, step: int = 0, frame: Frame | None = None) -> None:
        self._trace, self.step = trace, step
        self._frame = Frame() if frame is None else frame
        super().__init__([self._frame] if frame is None else [])
        self._frame.players.append(self)
        self._frame.draw()

    @property
    def trace(self) -> Trace:
        return self._trace

    @trace.setter
    def trace(self, trace: Trace) -> None:
        self._trace, self.step = trace, 0
        self._frame.draw()


class Frame(widgets.HTML):
    """Where framed players are drawn: beside each other, if there is room."""

    def __init__(self) -> None:
        super().__init__(layout=widgets.Layout(width="auto"))
        self.players: list[FramedPlayer] = []

    def draw(self) -> None:
        self.value = to_frame([one.trace for one in self.players], step=self.players[0].step)


# ---- questions ------------------------------------------------------------------------------------------------------


class KeysStayHere(anywidget.AnyWidget):
    """Put among controls, it keeps the keys pressed there for them: JupyterLab would take arrows and Enter for itself.

    It shows nothing. It also says to a screen reader that the radio buttons beside it are one group, and which.
    """

    _esm = """
    export default {
      render({ model, el }) {
        el.style.display = "none";
        const mark = (tries) => {
          const box = el.parentElement;
          if (!box) return tries && requestAnimationFrame(() => mark(tries - 1)); // not in the page yet
          // the focused element itself has to bear the mark: JupyterLab's shortcuts match there first
          box.addEventListener("focusin", ({ target }) => target.setAttribute("data-lm-suppress-shortcuts", "true"));
          for (const radios of model.get("label") ? box.querySelectorAll(".widget-radio-box") : []) {
            radios.setAttribute("role", "radiogroup");
            radios.setAttribute("aria-label", model.get("label"));
          }
        };
        requestAnimationFrame(() => mark(60));
      },
    };
    """
    label = traitlets.Unicode("").tag(sync=True)


def keys_stay_here(label: str = "") -> list[widgets.Widget]:
    """The mark, where the front end shows third-party widgets; else nothing."""
    return [] if static() else [KeysStayHere(label=label)]


class Question(widgets.VBox):
    """A question with its choices. An answer counts once it is committed, and then the explanation opens.

    Attributes:
        committed: the choice, None before. Nothing is stored elsewhere; running the cell again asks again.
    """

    def __init__(
        self, text: str, choices: Sequence[str], label: str, action: str, explain: Callable[[str], Iterable[Any]]
    ) -> None:
        self.committed: str | None = None
        self.explain = explain
        self.choices = widgets.RadioButtons(
            options=[(choice.replace("`", ""), choice) for choice in choices],  # its labels are plain text
            index=None,
            description=label,
            style={"description_width": "initial"},
            layout=widgets.Layout(width="auto", max_width="100%"),
        )
        self.button = widgets.Button(description=action, layout=widgets.Layout(width="auto", align_self="flex-start"))
        self.told = text_box()
        self.answer = widgets.VBox()
        self.button.on_click(showing_errors(self.told)(self.commit))
        asked = text_box(f'<div style="{TEXT}">{text}</div>')
        keys = keys_stay_here(re.sub(r"<[^>]+>", "", text))
        parts = [asked, self.choices, self.button, self.told, self.answer, *keys]
        super().__init__(parts, layout=widgets.Layout(margin="0 0 18px 0"))

    def commit(self, _: Any = None) -> None:
        if self.committed is not None:
            return  # the button stays enabled: a disabled one would lose the focus
        if self.choices.value is None:
            self.told.value = note("Choose an answer first.")
            return
        opened = [text_box(part) if isinstance(part, str) else part for part in self.explain(self.choices.value)]
        self.committed = self.choices.value
        self.choices.disabled = True
        self.button.description = "Committed"
        self.told.value = ""
        self.answer.children = opened


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
