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
        committed: the answer, None before. Nothing is stored elsewhere; running the cell again asks again.
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
        self.button = widgets.Button(description=action, layout=widgets.Layout(width="auto", align_self="flex-start"))
        self.told = announced()
        self.opened = widgets.VBox()
        self.button.on_click(showing_errors(self.told)(self.commit))
        asked = text_box(f'<div style="{TEXT}">{text}</div>')
        parts = [asked, answering, self.button, self.told, self.opened, *keys_stay_here(re.sub(r"<[^>]+>", "", text))]
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

    def opens(self, answer: Any) -> Opened:
        """What a commitment of this answer would open; commits nothing. For a page that has no kernel to ask later."""
        return self._open_up(answer)

    def _tell(self, html: str) -> None:
        """Without `keys_stay_here` nobody tells the browser that this box is to be read aloud: the text itself does."""
        self.told.value = f'<div role="status">{html}</div>' if static() else html
