"""What is in a box of widgets, for tests."""

from collections.abc import Iterator

import ipywidgets as widgets


def everything_in(box: widgets.Widget) -> Iterator[widgets.Widget]:
    yield box
    for child in getattr(box, "children", ()):
        yield from everything_in(child)


def told(box: widgets.Widget) -> str:
    """Everything that a person reads there."""
    return " ".join(one.value for one in everything_in(box) if isinstance(one, widgets.HTML))
