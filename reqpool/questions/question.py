"""One question: a way to answer, a button that commits the answer, a verdict, and what opens then."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from reqpool.parts import TEXT, announced, keys_stay_here, note, prose, showing_errors, static, text_box
from reqpool.questions.answering import Choices, ClickedCell, RowAndPosition

Answering = Choices | ClickedCell | RowAndPosition
Opened = tuple[str, list[widgets.Widget]]  # the verdict as HTML, and what is shown below it


class Question(widgets.VBox):
    """An answer counts once it is committed. What opens then is made then: before, the browser has nothing of it.

    Attributes:
        outcome: what comes true, or the right answer.
        committed: the answer, None before. Nothing is stored elsewhere; `Ask again`, or running the cell again, asks
            again.
    """

    def __init__(
        self,
        text: str,
        answering: Answering,
        outcome: Any,
        action: str,
        open_up: Callable[[Any], Opened],
    ) -> None:
        self.committed: Any = None
        self.answering, self.outcome, self._open_up = answering, outcome, open_up
        self._action, self.button, self.again = action, _button(action), _button("Ask again")
        self.again.layout.display = "none"
        self.told = announced()
        self.opened = widgets.VBox()
        self.button.on_click(showing_errors(self.told)(self.commit))
        self.again.on_click(showing_errors(self.told)(self.ask_again))
        self._keys = keys_stay_here(re.sub(r"<[^>]+>", "", text))
        asked = text_box(f'<div style="{TEXT}">{text}</div>')
        parts = [asked, answering, self.button, self.told, self.opened, self.again, *self._keys]
        super().__init__(parts, layout=widgets.Layout(margin="0 0 18px 0"))

    def commit(self, _: Any = None) -> None:
        if self.committed is not None:
            return  # the button stays enabled: a disabled one would lose the focus
        answer = self.answering.answer
        if answer is None:
            self._tell(note(prose(self.answering.missing)))
            return
        verdict, opened = self._open_up(answer)
        self.committed = answer
        self.answering.lock(self.outcome)
        self.button.description = "Committed"
        self._tell(verdict)
        self.opened.children = opened
        self.again.layout.display = ""

    def ask_again(self, _: Any = None) -> None:
        """As before the commitment: nothing is chosen, and what had opened is closed. The focus goes to the answers."""
        if self.committed is None:
            return
        self.committed = None
        self.answering.unlock()
        self.button.description = self._action
        self.told.value = ""
        self.opened.children = []
        self.again.layout.display = "none"
        for keys in self._keys:
            keys.begin_again()

    def opens(self, answer: Any) -> Opened:
        """What a commitment of this answer would open; commits nothing. For a page that has no kernel to ask later."""
        return self._open_up(answer)

    def _tell(self, html: str) -> None:
        """Without `keys_stay_here` nobody tells the browser that this box is to be read aloud: the text itself does."""
        self.told.value = f'<div role="status">{html}</div>' if static() else html


def _button(words: str) -> widgets.Button:
    return widgets.Button(description=words, layout=widgets.Layout(width="auto", align_self="flex-start"))
