"""One question: choices, a button that commits, and what opens then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ipywidgets as widgets

from reqpool.parts import TEXT, keys_stay_here, note, showing_errors, text_box


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
