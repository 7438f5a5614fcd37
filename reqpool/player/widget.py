"""The player as a Jupyter widget: it carries the tape to the browser and hears, at rest, which step is shown.

anywidget and the subset of ipywidgets and traitlets that is the same in ipywidgets 7.7 and 8.
"""

import anywidget
import traitlets

from reqpool.player.assets import CSS, ESM
from reqpool.player.page import to_html
from reqpool.player.tape import encode
from reqpool.trace import Trace


class Player(anywidget.AnyWidget):
    """A trace one can step through, in a notebook.

    Stepping, scrubbing, playing and hovering happen in the browser and never wait for the kernel. `step` and
    `playing` are told to the kernel once the picture has been at rest for 0.3 s, so in a busy kernel they lag behind;
    setting them moves the picture.

    Args:
        trace: what to show; assigning `player.trace` later replaces it, in one message, at step 0.
        step: the step to begin with, 0..len(trace): the state *after* so many events.
        speed: steps a second while playing, up to 20.
        group: players with the same name here, in one page, share their step and their playing; the browser sees to
            that, without the kernel. Shorter traces wait at their ends.

    Raises:
        TypeError: `trace` is not a Trace.
        TraitError: a step outside 0..len(trace), a speed outside 0.1..20.
    """

    _esm = ESM
    _css = CSS

    tape = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    speed = traitlets.Float(2.0, min=0.1, max=20.0).tag(sync=True)
    group = traitlets.Unicode("").tag(sync=True)

    def __init__(self, trace: Trace, *, step: int = 0, speed: float = 2.0, group: str = "") -> None:
        self._trace = checked(trace)
        super().__init__(tape=encode(trace), step=step, speed=speed, group=group)

    @property
    def trace(self) -> Trace:
        return self._trace

    @trace.setter
    def trace(self, trace: Trace) -> None:
        tape = encode(checked(trace))
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
        return proposal["value"]

    def set_state(self, sync_data: dict) -> None:
        """What the browser reports. A step of the trace that was shown before this one is dropped."""
        if sync_data.get("step", 0) > len(self._trace):
            sync_data = {name: value for name, value in sync_data.items() if name != "step"}
        super().set_state(sync_data)

    def to_html(self, title: str = "reqpool player") -> str:
        """The same player as a page that needs no kernel; see `reqpool.player.page.to_html`."""
        return to_html(self._trace, title=title)


def checked(trace: Trace) -> Trace:
    if not isinstance(trace, Trace):
        raise TypeError(f"a player shows a Trace, as `record(pool)` gives it; this is a {type(trace).__name__}")
    return trace
