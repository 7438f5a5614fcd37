"""The player: a trace one can step through, as a widget or as a page that needs no kernel; or a question about a step.

tape.py writes the trace as one string; the *.js files, which are one module, and player.css draw it in both worlds;
widget.py and page.py are the two ways to get it in front of somebody. aggregate.py draws a table that is too large to
be recorded, from its size and lengths alone.
"""

import os

from IPython.display import HTML

from reqpool.player.aggregate import table_map
from reqpool.player.page import to_fragment, to_html
from reqpool.player.widget import Player, checked
from reqpool.trace import Trace

__all__ = ["Player", "show", "table_map", "to_html"]


def show(trace: Trace, static: bool | None = None) -> Player | HTML:
    """The player for the last line of a cell: the widget, or the static page where widgets are not shown.

    A kernel cannot know whether its front end shows third-party widgets. `static=True`, or REQPOOL_STATIC=1 in the
    environment, asks for the page that needs none; `static=False` for the widget whatever the environment says.
    """
    if static is None:
        static = os.environ.get("REQPOOL_STATIC", "") not in ("", "0")
    return HTML(to_fragment(checked(trace))) if static else Player(trace)
