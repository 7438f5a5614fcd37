"""Run inside a kernel after the cells of a chapter: be the front end and touch everything that can be touched.

Messages go in where a browser's would, so what a callback raises ends up where it would for a learner: as an error in
the output of the cell, or in a box on the page. Only what is the same in ipywidgets 7 and 8 is used, but for `live`.
"""

import importlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import ipywidgets as widgets
from IPython.display import display
from ipywidgets.widgets import widget as module

ALERT = '<div role="alert">'
SHOWS_ONLY = (widgets.HTML, widgets.HTMLMath, widgets.Label, widgets.Image)


class Drive:
    """
    Attributes:
        touched: how many messages went to each kind of widget.
        faults: one sentence for each thing that went wrong, but for exceptions, which the cell shows.
    """

    def __init__(self) -> None:
        self.touched: Counter[str] = Counter()
        self.faults: list[str] = []
        self.known: set[str] = set()
        self.faults += [f"before anything was touched: {text}" for text in alarms(live())]

    def everything(self) -> None:
        """Every control to both ends and the middle, every button; then the same with what that has opened."""
        while new := [one for one in live() if one.model_id not in self.known]:
            self.known |= {one.model_id for one in new}
            controls = [one for one in new if not isinstance(one, widgets.Button)]
            buttons = [one for one in new if isinstance(one, widgets.Button)]
            self.click(buttons)  # nothing is chosen yet
            for where in (0.0, 1.0, 0.5):
                for one in controls:
                    for state in states(one, where):
                        self.send(one, {"method": "update", "state": state, "buffer_paths": []}, str(state))
            self.faults += [f"{words(one)}: nobody knows how to move it" for one in controls if unknown(one)]
            self.click(buttons)

    def click(self, buttons: list[widgets.Button]) -> None:
        for one in buttons:
            self.send(one, {"method": "custom", "content": {"event": "click"}}, "a click")

    def send(self, one: widgets.Widget, data: dict[str, Any], what: str) -> None:
        if one.comm is None:
            return  # closed by what was touched before
        one.comm.handle_msg({"content": {"comm_id": one.model_id, "data": data}, "buffers": [], "metadata": {}})
        self.touched[type(one).__name__] += 1
        self.faults += [f"{words(one)}, {what}: {text}" for text in alarms(live())]

    def wrong_answers(self, chapter: str) -> None:
        """Check two wrong answers of the bank to each exercise of the chapter, and show what `check` says."""
        from reqpool.examine import check

        for name, answer, step in bank(chapter):
            verdict = check(answer, step=step)
            display(verdict)
            self.touched["wrong answer"] += 1
            self.touched["case shown"] += len(verdict.children) > 1
            if "Not yet." not in verdict.children[0].value:
                self.faults.append(f"{name}: not rejected")


def bank(chapter: str) -> Iterator[tuple[str, Any, int | None]]:
    """What was answered, the answer, and the step of chapter 11: the first two that the bank has of each."""
    from reqpool import Req
    from reqpool.exercises.bank import own_pool, written

    seen: Counter[Any] = Counter()
    if chapter == "11":
        for one in own_pool.WRONG_CELLS:
            seen[one.step] += 1
            if seen[one.step] <= 2:
                yield f"step {one.step}, {one.mistake}", one.made(), one.step
        return
    for one in importlib.import_module(f"reqpool.exercises.bank.chapter_{chapter}").WRONG:
        seen[one.exercise] += 1
        if seen[one.exercise] <= 2:
            yield f"{one.exercise}, {one.mistake}", written(one.source, one.exercise, Req=Req), None


def live() -> list[widgets.Widget]:
    """All widgets that are open. The one place where the versions differ: ipywidgets 8 has moved its list."""
    opened = getattr(module, "_instances", None)
    return list((widgets.Widget.widgets if opened is None else opened).values())


def alerts(one: widgets.Widget) -> bool:
    return isinstance(one, widgets.HTML) and ALERT in one.value


def alarms(opened: list[widgets.Widget]) -> list[str]:
    """The error boxes on the page, each told once: it is emptied here, as a later change would."""
    found = [one for one in opened if alerts(one)]
    texts = [one.value for one in found]
    for one in found:
        one.value = ""
    return texts


def states(one: widgets.Widget, where: float) -> Iterator[dict[str, Any]]:
    """What a browser would send when this control is moved to a place: 0 its one end, 1 its other."""
    if isinstance(one, (widgets.IntSlider, widgets.FloatSlider, widgets.BoundedIntText, widgets.BoundedFloatText)):
        value = one.min + where * (one.max - one.min)
        yield {"value": int(value) if isinstance(one.value, int) else value}
    elif hasattr(one, "options") and hasattr(one, "index"):  # RadioButtons, Dropdown, SelectionSlider, ToggleButtons
        yield {"index": int(where * (len(one.options) - 1))}
    elif isinstance(one, (widgets.Checkbox, widgets.ToggleButton)):
        yield {"value": where > 0.5}
    elif getattr(one, "question", False):  # a player that asks for a cell, and is never stepped
        rows, positions = one.trace.first.table.shape
        if one.pick:
            yield {"picked": [int(where * (rows - 1)), int(where * (positions - 1))]}
    elif hasattr(one, "tape"):  # a player
        yield {"step": int(where * len(one.trace)), "playing": False}


def unknown(one: widgets.Widget) -> bool:
    can_be_moved = isinstance(one, widgets.DOMWidget) and "value" in one.keys and not isinstance(one, SHOWS_ONLY)
    return can_be_moved and not any(states(one, 0.0))


def words(one: widgets.Widget) -> str:
    return f"{type(one).__name__} {getattr(one, 'description', '')!r}"


def drive(chapter: str) -> dict[str, Any]:
    doing = Drive()
    doing.everything()
    if chapter:
        doing.wrong_answers(chapter)
        doing.everything()
    return {"touched": dict(doing.touched), "faults": doing.faults}
