"""The player as a Jupyter widget: it carries the tape to the browser and hears, at rest, which step is shown.

anywidget and the subset of ipywidgets and traitlets that is the same in ipywidgets 7.7 and 8.
"""

import anywidget
import traitlets

from reqpool.player.assets import CSS, ESM
from reqpool.player.page import to_html
from reqpool.player.question import cell_of, need_pickable, past
from reqpool.player.tape import encode
from reqpool.trace import Trace


class Player(anywidget.AnyWidget):
    """A trace one can step through, in a notebook; or, with `pick=True`, a question about one step of it.

    Stepping, scrubbing, playing and hovering happen in the browser and never wait for the kernel. `step` and
    `playing` are told to the kernel once the picture has been at rest for 0.3 s, so in a busy kernel they lag behind;
    setting them moves the picture.

    A question shows the table after `step` events and nothing to step with; what happens later is not sent to the
    browser. The learner picks a cell, and the kernel hears of it at once.

    Args:
        trace: what to show; assigning `player.trace` later replaces it, in one message, at step 0.
        step: the step to begin with, 0..len(trace): the state *after* so many events. A question stays there.
        speed: steps a second while playing, up to 20.
        group: players with the same name here, in one page, share their step and their playing; the browser sees to
            that, without the kernel. Shorter traces wait at their ends.
        large: begin in large type, for a projector. A button in the player switches it, for all players of a page.
        pick: ask which cell.

    Attributes:
        large: whether this player is in large type now.
        pick: whether a cell can be picked now; setting it to False locks the pick.
        picked: the cell [row, position] that the learner has picked, [] before.
        mark: the outcome's cell, or []. Only once the pick is locked: the browser would know it too early.

    Raises:
        TypeError: `trace` is not a Trace.
        ValueError: a question about a table whose cells are not drawn one by one, or in a group; another trace for it.
        TraitError: a step outside 0..len(trace), a speed outside 0.1..20, a cell that the table has not, a mark that
            comes too early; what only a question has, in a player that was made without `pick=True`.
    """

    _esm = ESM
    _css = CSS

    tape = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    speed = traitlets.Float(2.0, min=0.1, max=20.0).tag(sync=True)
    group = traitlets.Unicode("").tag(sync=True)
    large = traitlets.Bool(False).tag(sync=True)
    question = traitlets.Bool(False, read_only=True).tag(sync=True)
    pick = traitlets.Bool(False).tag(sync=True)
    picked = traitlets.List().tag(sync=True)
    mark = traitlets.List().tag(sync=True)

    def __init__(
        self,
        trace: Trace,
        *,
        step: int = 0,
        speed: float = 2.0,
        group: str = "",
        large: bool = False,
        pick: bool = False,
    ) -> None:
        self._trace = checked(trace)
        self._asked_at = step if pick else None
        if pick:
            need_pickable(trace)
            if group:
                raise ValueError(f"a question stays at its step, so it cannot be in the group {group!r}")
        self.set_trait("question", bool(pick))
        tape = encode(past(trace, step) if pick else trace)
        super().__init__(tape=tape, step=step, speed=speed, group=group, large=large, pick=pick)

    @property
    def trace(self) -> Trace:
        return self._trace

    @trace.setter
    def trace(self, trace: Trace) -> None:
        tape = encode(checked(trace))
        if self.question:
            raise ValueError("a question keeps its trace; another one is a new Player(trace, step=..., pick=True)")
        with self.hold_sync():  # one message: the browser never sees the new tape at the old step
            self.playing = False
            self.step = 0
            self._trace = trace
            self.tape = tape

    @traitlets.validate("step")
    def _step_exists(self, proposal: dict) -> int:
        last = len(self._trace)
        if not 0 <= proposal["value"] <= last:
            raise traitlets.TraitError(f"step {proposal['value']} does not exist: this trace has steps 0 to {last}")
        if self._asked_at not in (None, proposal["value"]):
            raise traitlets.TraitError(f"a question stays at its step {self._asked_at}, not {proposal['value']}")
        return proposal["value"]

    @traitlets.validate("playing")
    def _only_traces_play(self, proposal: dict) -> bool:
        if self._asked_at is not None and proposal["value"]:
            raise traitlets.TraitError(f"a question stays at its step {self._asked_at}: it does not play")
        return proposal["value"]

    @traitlets.validate("pick")
    def _only_questions_open(self, proposal: dict) -> bool:
        if proposal["value"]:
            self._need_question("pick")
            if self.mark:
                raise traitlets.TraitError(f"mark shows the outcome, {self.mark}: set it to [] before you ask again")
        return proposal["value"]

    @traitlets.validate("picked", "mark")
    def _cell_exists(self, proposal: dict) -> list[int]:
        name, value = proposal["trait"].name, proposal["value"]
        cell = cell_of(value, self._trace)
        if cell is None:
            rows, columns = self._trace.first.table.shape
            wanted = f"[row 0 to {rows - 1}, position 0 to {columns - 1}], or [] for none"
            raise traitlets.TraitError(f"{name}={value} is no cell of this table, wanted {wanted}")
        if cell:
            self._need_question(name)
            if name == "mark" and self.pick:
                raise traitlets.TraitError("mark would show the outcome before the commitment: set pick = False first")
        return cell

    def _need_question(self, name: str) -> None:
        if self._asked_at is None:
            raise traitlets.TraitError(f"{name}: this player asks nothing; Player(trace, step=..., pick=True) does")

    def set_state(self, sync_data: dict) -> None:
        """What the browser reports. A step of the trace that was shown before this one is dropped.

        A pick that comes after the commitment is dropped too, and the browser is told what counts.
        """
        late = [name for name in ("picked",) if name in sync_data and not self.pick]
        if sync_data.get("step", 0) > len(self._trace):
            late.append("step")
        super().set_state({name: value for name, value in sync_data.items() if name not in late})
        if "picked" in late:
            self.send_state("picked")

    def to_html(self, title: str = "reqpool player") -> str:
        """The same player as a page that needs no kernel; see `reqpool.player.page.to_html`."""
        if not self.question:
            return to_html(self._trace, title=title, large=self.large)
        asked = {"pick": self.pick, "picked": self.picked, "mark": self.mark}
        return to_html(self._trace, title=title, step=self.step, large=self.large, question=asked)


def checked(trace: Trace) -> Trace:
    if not isinstance(trace, Trace):
        raise TypeError(f"a player shows a Trace, as `record(pool)` gives it; this is a {type(trace).__name__}")
    return trace
