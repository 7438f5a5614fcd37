"""The ways to answer: one of several choices, a cell clicked in the table, or a row and a position from two lists.

Each is a widget with `answer`, None until there is one; `missing`, which says what is still to be done;
`lock(outcome)`, after which the answer cannot be changed; `unlock()`, after which there is none again; and
`heard(act)`, which calls `act` on every change of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from reqpool.parts import FramedPlayer, static
from reqpool.player import Player
from reqpool.trace import Trace

Cell = tuple[int, int]  # row, position
Act = Callable[[], None]


class Choices(widgets.RadioButtons):
    """One of several words."""

    missing = "Choose an answer first."

    def __init__(self, words: Sequence[str], label: str) -> None:
        super().__init__(
            options=[(word.replace("`", ""), word) for word in words],  # its labels are plain text
            index=None,
            description=label,
            style={"description_width": "initial"},
            layout=widgets.Layout(width="auto", max_width="100%"),
        )

    @property
    def answer(self) -> str | None:
        return self.value

    def lock(self, _: str) -> None:
        self._release = _keep(self)

    def unlock(self) -> None:
        self._release()

    def heard(self, act: Act) -> None:
        self.observe(lambda _: act(), names="value")


class ClickedCell(widgets.VBox):
    """A cell of the player's table, by mouse or by keyboard. The player says itself which was picked, and marks it."""

    missing = "Choose a cell of the table first: click it, or go there with the arrow keys and press Enter."

    def __init__(self, table: Trace) -> None:
        self.player = Player(table, step=len(table), pick=True)
        super().__init__([self.player])

    @property
    def answer(self) -> Cell | None:
        return tuple(self.player.picked) or None

    def lock(self, outcome: Cell) -> None:
        self.player.pick = False
        self.player.mark = list(outcome)

    def unlock(self) -> None:
        self.player.mark = []
        self.player.picked = []
        self.player.pick = True

    def heard(self, act: Act) -> None:
        self.player.observe(lambda _: act(), names="picked")


class RowAndPosition(widgets.VBox):
    """The same without a third-party widget: the table to look at, and two lists."""

    missing = "Choose a row and a position first."

    def __init__(self, table: Trace) -> None:
        rows, positions = table.first.table.shape
        self.row, self.position = _numbers("row", rows), _numbers("position", positions)
        super().__init__([FramedPlayer(table, step=len(table)), self.row, self.position])

    @property
    def answer(self) -> Cell | None:
        row, position = self.row.value, self.position.value
        return None if row is None or position is None else (row, position)

    def lock(self, _: Cell) -> None:
        self._release = [_keep(self.row), _keep(self.position)]

    def unlock(self) -> None:
        for release in self._release:
            release()

    def heard(self, act: Act) -> None:
        for control in (self.row, self.position):
            control.observe(lambda _: act(), names="value")


def _numbers(label: str, stop: int) -> widgets.Dropdown:
    options = [("choose", None), *((str(number), number) for number in range(stop))]
    return widgets.Dropdown(options=options, value=None, description=label, layout=widgets.Layout(width="16em"))


def _keep(control: widgets.RadioButtons | widgets.Dropdown) -> Callable[[], None]:
    """Disable it, and take back what still comes: in a busy kernel a click can overtake the change made before it.

    Returns what opens it again, with nothing chosen.
    """
    value, control.disabled = control.value, True

    def take_back(_: object) -> None:
        control.value = value

    def release() -> None:
        control.unobserve(take_back, names="value")
        control.value, control.disabled = None, False

    control.observe(take_back, names="value")
    return release


def a_cell_of(table: Trace) -> ClickedCell | RowAndPosition:
    return RowAndPosition(table) if static() else ClickedCell(table)


def cell_words(cell: Cell) -> str:
    row, position = cell
    return f"row {row}, position {position}"
