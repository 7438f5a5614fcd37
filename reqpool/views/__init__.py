"""Pure functions from a Snapshot or a Trace to text, SVG or a matplotlib Figure. They return; they never show.

`reqpool.views.charts` alone needs matplotlib and is imported by name.
"""

from reqpool.views.grid import grid_svg
from reqpool.views.text import caption, cell_state, length_text, owner_name, text_view

__all__ = ["caption", "cell_state", "grid_svg", "length_text", "owner_name", "text_view"]
