"""A notebook's widgets as HTML that needs no kernel, from the state that nbclient keeps of them.

Players stay players. Boxes and texts are what they were. Controls become a list of settings, since a change of one
needs a kernel. Questions can be answered: whatever an answer opens lies in the page, in <template> elements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Model = Mapping[str, Any]

BOXES = {"VBoxModel": "vbox", "HBoxModel": "hbox", "BoxModel": "hbox"}
LISTS = ("SelectionSliderModel", "DropdownModel", "RadioButtonsModel", "ToggleButtonsModel", "SelectModel")
VALUES = ("IntSliderModel", "FloatSliderModel", "BoundedIntTextModel", "IntTextModel", "TextModel")
SWITCHES = ("CheckboxModel", "ToggleButtonModel")
CONTROLS = (*LISTS, *VALUES, *SWITCHES)
UNSEEN = ("reqpool.parts.KeysStayHere",)  # it keeps keys from JupyterLab, and shows nothing anywhere
KEPT_LAYOUT = ("flex", "flex_flow", "min_width")

PLAYER = '<div data-tape="{tape}" data-options="{options}">This player needs a browser that runs scripts.</div>'
SETTINGS = """\
<div class="settings">
<dl>{items}</dl>
<p>Shown with these settings. To change them you need a kernel: <a href="index.html#live">how to run it live</a>.</p>
</div>
"""
QUESTION = """\
<form class="question">
<div id="{name}">{text}</div>
<div class="ways" role="{role}" aria-labelledby="{name}">
{answering}
</div>
<button type="submit">{action}</button>
<div class="told" role="status"></div>
<div class="opened"></div>
{templates}
</form>
"""


class Page:
    """The widgets of one page. Ids are random in every run; here each is the number of its turn."""

    def __init__(self, widgets: Mapping[str, Model], questions: Mapping[str, Model]) -> None:
        self.widgets, self.questions = widgets, questions
        self.groups: dict[str, str] = {}
        self.num_questions = 0

    def view(self, model_id: str) -> str:
        """
        Raises:
            ValueError: no such widget, or of a kind that this page cannot show; a widget that tells of an error.
        """
        if model_id in self.questions:
            return self._question(model_id)
        name, state = self._model(model_id)
        if name in BOXES:
            return self._box(name, state)
        if name in CONTROLS:
            return settings([(name, state)])
        if name == "HTMLModel":
            return text(state)
        if state.get("_anywidget_id") in UNSEEN:
            return ""
        if "tape" in state:
            return self._player(state)
        raise ValueError(f"no page can show the widget {name} ({state.get('_anywidget_id', 'of ipywidgets')}) yet")

    def _model(self, model_id: str) -> tuple[str, Model]:
        key = model_id.removeprefix("IPY_MODEL_")
        if key not in self.widgets:
            raise ValueError(f"the notebook shows the widget {key}, and keeps no state of it")
        return self.widgets[key]["model_name"], self.widgets[key]["state"]

    def _children(self, state: Model) -> list[str]:
        return [child.removeprefix("IPY_MODEL_") for child in state["children"]]

    def _box(self, name: str, state: Model) -> str:
        children = self._children(state)
        models = [self._model(child) for child in children]
        if models and all(kind in CONTROLS for kind, _ in models):
            return settings(models)
        inner = "\n".join(filter(None, map(self.view, children)))
        return f'<div class="{BOXES[name]}"{self._style(state)}>\n{inner}\n</div>' if inner else ""

    def _style(self, state: Model) -> str:
        """How a box shares its room with its neighbours; nothing else of a layout matters here."""
        layout = self._model(state["layout"])[1] if state.get("layout") else {}
        kept = [f"{name.replace('_', '-')}: {layout[name]}" for name in KEPT_LAYOUT if layout.get(name)]
        return f' style="{escape("; ".join(kept).replace("flex-flow: row wrap", "flex-wrap: wrap"))}"' if kept else ""

    def _player(self, state: Model) -> str:
        group = state["group"] and self.groups.setdefault(state["group"], f"group{len(self.groups) + 1}")
        options = {"step": state["step"], "speed": state["speed"], "group": group}
        if state.get("question"):
            options["question"] = {name: state[name] for name in ("pick", "picked", "mark")}
        return PLAYER.format(tape=escape(state["tape"]), options=escape(json.dumps(options)))

    # ---- questions ---------------------------------------------------------------------------------------------------

    def _question(self, model_id: str) -> str:
        _, state = self._model(model_id)
        asked, words = self.questions[model_id], self._children(state)[0]
        self.num_questions += 1
        return QUESTION.format(
            name=f"question{self.num_questions}",
            role="group" if "cell" in asked else "radiogroup",
            text=text(self._model(words)[1]),
            answering=self._table(**asked["cell"]) if "cell" in asked else self._choices(asked),
            action=escape(asked["action"]),
            templates="\n".join(self._templates(asked)),
        )

    def _choices(self, asked: Model) -> str:
        name = f"answer{self.num_questions}"
        radio = '<label><input type="radio" name="{}" value="{}"> <span>{}</span></label>'
        return "\n".join(radio.format(name, one["key"], one["words"]) for one in asked["answers"])

    def _table(self, player: str, outcome: Sequence[int]) -> str:
        return f'<div data-asks="{",".join(map(str, outcome))}">{self.view(player)}</div>'

    def _templates(self, asked: Model) -> Iterable[str]:
        for one in asked["answers"]:
            yield f'<template data-answer="{escape(one["key"])}">{one["verdict"]}</template>'
        if opened := "\n".join(map(self.view, asked["opened"])):
            yield f"<template data-opened>{opened}</template>"


def text(state: Model) -> str:
    if 'role="alert"' in state["value"]:
        raise ValueError(f"a widget tells of an error: {state['value']}")
    return f'<div class="text">{state["value"]}</div>' if state["value"] else ""


def settings(controls: Sequence[tuple[str, Model]]) -> str:
    items = "".join(
        f"<div><dt>{escape(state['description'])}</dt><dd>{escape(value(name, state))}</dd></div>"
        for name, state in controls
    )
    return SETTINGS.format(items=items)


def value(name: str, state: Model) -> str:
    """What a control stands at, in the words that it shows."""
    if name in LISTS:
        return "not chosen" if state["index"] is None else str(state["_options_labels"][state["index"]])
    if name in SWITCHES:
        return "on" if state["value"] else "off"
    return str(state["value"])
