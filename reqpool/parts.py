"""The pieces that lessons are put together from: words, errors, players, and keys that stay where they are pressed.

    prose, note, text_box      plain text to HTML, with a rule beside it, in a widget whose lines wrap
    showing_errors             a callback whose exceptions are seen
    player, side_by_side       one player among widgets, or two that move together
    keys_stay_here             controls keep the keys that JupyterLab would take

Controls are the part of ipywidgets that is the same in 7.7 and 8. Text goes into HTML widgets and never through an
Output widget, which in a busy kernel can swallow what another cell shows. An exception in a callback is shown there.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from typing import Any
from uuid import uuid4

import anywidget
import ipywidgets as widgets
import traitlets

from reqpool.player import Player
from reqpool.player.page import to_frame
from reqpool.trace import Trace

# ---- words and errors -----------------------------------------------------------------------------------------------

TEXT = "font-size: var(--jp-content-font-size1, 14px); line-height: 1.5; max-width: 60em; overflow-wrap: break-word"
RULE = f"{TEXT}; border-left: 4px solid {{}}; padding: 2px 12px; margin: 6px 0"
WRAPPED = "white-space: pre-wrap; word-break: normal; overflow-wrap: break-word"  # JupyterLab breaks in mid-word
ANNOUNCED = "reqpool-announced"
QUIET, GOOD, BAD = "#8a93a3", "#009E73", "#D55E00"  # a word always says it as well


def prose(text: str) -> str:
    """Plain text as HTML: nothing in it is markup but `code`, **bold** and *emphasis*. Stars in code are stars.

    >>> prose("`a < b` is **true**, and *this* is not `2**3 * 4**5`")
    '<code>a &lt; b</code> is <strong>true</strong>, and <em>this</em> is not <code>2**3 * 4**5</code>'
    >>> prose("a * b * c, 2*3*4")
    'a * b * c, 2*3*4'
    """
    pieces = re.split(r"`([^`]+)`", escape(text, quote=False))  # every second one is code
    words = "\0".join(pieces[::2])
    words = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", words)
    words = re.sub(r"(?<![\w*])\*(?![\s*])([^*]+)(?<!\s)\*(?![\w*])", r"<em>\1</em>", words)
    codes = iter(pieces[1::2])
    return re.sub("\0", lambda _: f"<code>{next(codes)}</code>", words)


def note(html: str, colour: str = QUIET) -> str:
    return f'<div style="{RULE.format(colour)}">{html}</div>'


def text_box(html: str = "") -> widgets.HTML:
    """An HTML widget whose lines wrap: the widget's own style keeps them from doing so in some versions."""
    return widgets.HTML(value=html, layout=widgets.Layout(width="auto", max_width="100%"))


def announced() -> widgets.HTML:
    """A text box that a screen reader reads aloud when its text changes; beside `keys_stay_here`, which says so to the
    browser."""
    box = text_box()
    box.add_class(ANNOUNCED)
    return box


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
    folded = f'<details><summary>where</summary><pre style="{WRAPPED}">{escape(details)}</pre></details>'
    return f'<div role="alert">{note(f"<strong>This failed:</strong> {escape(last)}{folded}", BAD)}</div>'


# ---- players --------------------------------------------------------------------------------------------------------


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


class Pair(widgets.VBox):
    """Two columns, in each a label and its player; framed players stand in one frame below both columns."""

    def __init__(self, heads: list[widgets.HTML], players: Sequence[Player | FramedPlayer], below: list[Frame]) -> None:
        half = widgets.Layout(flex="1 1 28em", min_width="0", width="auto")
        self.heads, self.players = heads, players
        self.columns = [widgets.VBox([head, one], layout=half) for head, one in zip(heads, players, strict=True)]
        for column in self.columns:
            column.add_class("reqpool-half")  # in large type one stands above the other: see player.css
        row = widgets.HBox(self.columns, layout=widgets.Layout(flex_flow="row wrap", width="100%"))
        super().__init__([row, *below])


def side_by_side(broken: Trace, mended: Trace, labels: tuple[str, str] = ("broken", "mended"), step: int = 0) -> Pair:
    """Two players that move together; the browser sees to that, without the kernel.

    Framed players share one frame, since two frames could not move together.
    """
    group = uuid4().hex  # several notebooks share one page in JupyterLab: a number would not do
    frame = [Frame()] if static() else []
    both = [(one, min(step, len(one))) for one in (broken, mended)]
    pair = [FramedPlayer(*one, *frame) if frame else Player(one[0], step=one[1], group=group) for one in both]
    heads = [text_box(f"<strong>{prose(label)}</strong>") for label in labels]
    return Pair(heads, pair, frame)


# ---- keys -----------------------------------------------------------------------------------------------------------


class KeysStayHere(anywidget.AnyWidget):
    """Put among controls, it keeps the keys pressed there for them: JupyterLab would take arrows and Enter for itself.

    It shows nothing. It also makes the radio buttons of a question one group: ipywidgets gives them no name, and a
    browser then takes all of a page for one, so that an arrow key at the first or the last one jumps into another
    question. Without third-party widgets (REQPOOL_STATIC=1) nothing of ours reaches these buttons, and so it remains.
    To a screen reader it says what the group is called (`label`), and what is to be read aloud when it changes
    (`announced`). `begin_again` puts the focus back at the first control.
    """

    _esm = """
    const CONTROLS = ":is(.widget-radio-box input, select):not([disabled]), [role=grid]";

    export default {
      render({ model, el }) {
        el.style.display = "none";
        const own = `reqpool-${Math.random().toString(36).slice(2)}`; // each view's own: a question may be shown twice
        const group = (box) => {
          box.querySelectorAll(".widget-radio-box").forEach((radios, i) => {
            for (const radio of radios.querySelectorAll("input")) if (radio.name !== own + i) radio.name = own + i;
            if (!model.get("label")) return;
            radios.setAttribute("role", "radiogroup");
            radios.setAttribute("aria-label", model.get("label"));
          });
        };
        const watch = new MutationObserver(() => group(el.parentElement ?? el)); // ipywidgets makes them anew
        const mark = (tries) => {
          const box = el.parentElement;
          if (!box) return tries && requestAnimationFrame(() => mark(tries - 1)); // not in the page yet
          // the focused element itself has to bear the mark: JupyterLab's shortcuts match there first
          box.addEventListener("focusin", ({ target }) => target.setAttribute("data-lm-suppress-shortcuts", "true"));
          for (const told of box.querySelectorAll(":scope > .reqpool-announced")) told.setAttribute("role", "status");
          group(box);
          watch.observe(box, { childList: true, subtree: true });
        };
        const begin = (tries) => {
          const first = el.parentElement?.querySelector(CONTROLS);
          if (first) first.focus();
          else if (tries) requestAnimationFrame(() => begin(tries - 1)); // still locked
        };
        const told = () => begin(60);
        model.on("msg:custom", told);
        requestAnimationFrame(() => mark(60));
        return () => (watch.disconnect(), model.off("msg:custom", told));
      },
    };
    """
    label = traitlets.Unicode("").tag(sync=True)

    def begin_again(self) -> None:
        self.send({"focus": "first"})


def keys_stay_here(label: str = "") -> list[KeysStayHere]:
    """The mark, where the front end shows third-party widgets; else nothing."""
    return [] if static() else [KeysStayHere(label=label)]
