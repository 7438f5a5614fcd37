"""A picture as a list of what is on it: boxes, words, lines and shapes. SVG and pixels are made from the same list.

    Scene(820, 400, title, desc, (Box(...), Words(...), ...))  ->  svg(scene)  ->  "<svg ...>"

What a picture says can be asked before it is drawn: `scene.words()`, and `scene.cells()` for the table's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from math import hypot

from reqpool.views.text import clean
from reqpool.views.theme import BACKGROUND, EMPTY, FONT, INK, LINE, QUIET, WRONG

MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
MONO_WIDTH = 0.602  # of a letter, in sizes
HATCHINGS = {"stale": (6, 45, EMPTY, 2), "padding": (8, -45, BACKGROUND, 1.6)}  # period, angle, ground, stroke

# Advance widths of DejaVu Sans for the codes 32 to 126, in thousandths of the size: pictures are laid out with them.
_WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636),
    *(636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656),
    *(557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613),
    *(635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818),
    *(592, 592, 525, 636, 337, 636, 838),
)
BOLDER = 1.15  # how much wider bold words are, or nearly so


@dataclass(frozen=True)
class Box:
    """A rectangle; `fill` is a colour, the name of a hatching, or None."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    thick: float = 1
    round: float = 0
    dashed: bool = False


@dataclass(frozen=True)
class Words:
    """Text on its baseline. `about` says what it is the label of: ("cell", pane, row, position) for a cell's slot."""

    x: float
    y: float
    text: str
    size: float = 15
    fill: str = INK
    anchor: str = "start"
    bold: bool = False
    struck: bool = False
    mono: bool = False
    about: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Path:
    points: tuple[tuple[float, float], ...]
    stroke: str
    thick: float = 1.6
    dashed: bool = False


@dataclass(frozen=True)
class Shape:
    points: tuple[tuple[float, float], ...]
    fill: str


Item = Box | Words | Path | Shape


@dataclass(frozen=True)
class Scene:
    width: int
    height: int
    title: str
    desc: str
    items: tuple[Item, ...]

    def words(self) -> list[str]:
        """Everything that is written on it, in the order of drawing."""
        return [item.text for item in self.items if isinstance(item, Words)]

    def cells(self, pane: int = 0) -> dict[tuple[int, int], str]:
        """The numbers in the table's cells by (row, position); a cell in which nothing is written is not in it."""
        labels = [item for item in self.items if isinstance(item, Words) and item.about[:2] == ("cell", pane)]
        return {(int(item.about[2]), int(item.about[3])): item.text for item in labels}

    @property
    def digest(self) -> str:
        """Of everything that is drawn, so that two machines can compare pictures without comparing pixels."""
        return sha256(repr((self.width, self.height, self.items)).encode()).hexdigest()


def wide(text: str, size: float, bold: bool = False, mono: bool = False) -> float:
    """How wide a text is drawn, in the font it is laid out for; bold words come out a little less wide.

    >>> round(wide("row 1", 10), 1), wide("row 1", 10, mono=True)
    (27.9, 30.1)
    """
    if mono:
        return round(len(text) * MONO_WIDTH * size, 2)
    units = sum(_WIDTHS[ord(letter) - 32] if 32 <= ord(letter) < 127 else 1000 for letter in text)
    return units / 1000 * size * (BOLDER if bold else 1)


def wrapped(text: str, size: float, width: float, indent: float = 0) -> list[str]:
    """The text in lines of at most this width, the first by `indent` shorter.

    >>> wrapped("one two three", 10, 45)
    ['one two', 'three']
    """
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and wide(longer, size) > width - (indent if len(lines) == 1 else 0):
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def arrow(points: Sequence[tuple[float, float]], stroke: str = INK, thick: float = 1.8) -> list[Item]:
    """A line through these points with a head at its end."""
    (x0, y0), (x, y) = points[-2:]
    long = hypot(x - x0, y - y0)
    dx, dy = (x - x0) / long, (y - y0) / long
    back = (x - 9 * dx, y - 9 * dy)
    head = ((x, y), (back[0] - 4.5 * dy, back[1] + 4.5 * dx), (back[0] + 4.5 * dy, back[1] - 4.5 * dx))
    line = (*points[:-1], (x - 6 * dx, y - 6 * dy))
    return [Path(_rounded(line), stroke, thick), Shape(_rounded(head), stroke)]


def zigzag(x: float, y: float, width: float, stroke: str = WRONG) -> Path:
    """The line under a wrong letter."""
    steps = max(2, round(width / 3))
    return Path(_rounded([(x + width * i / steps, y + (2 if i % 2 else -2)) for i in range(steps + 1)]), stroke, 1.6)


def recited(x: float, y: float, text: str, wrong: Iterable[int], size: float = 20) -> list[Item]:
    """A text letter by letter; each wrong one is bold, in another colour, and underlined in zigzag."""
    wrong, step, items = set(wrong), size * MONO_WIDTH, []
    for i, letter in enumerate(text):
        at = round(x + i * step, 2)
        colour = WRONG if i in wrong else INK
        items.append(Words(at, y, letter, size, colour, bold=i in wrong, mono=True))
        if i in wrong:
            items.append(zigzag(at, y + 7, step - 1))
    return items


def note(x: float, y: float, text: str, size: float = 13, fill: str = QUIET, width: float = 0) -> list[Item]:
    """Quiet text, in lines where a width is given."""
    lines = wrapped(text, size, width) if width else [text]
    return [Words(x, y + i * size * 1.35, line, size, fill) for i, line in enumerate(lines)]


def _rounded(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple((round(x, 2), round(y, 2)) for x, y in points)


# ---- SVG -------------------------------------------------------------------------------------------------------------


def svg(scene: Scene) -> str:
    """The picture as SVG on a ground of its own, so that a dark page does not swallow it; the same bytes every time."""
    title, mark = clean(scene.title, 1000), sha256(f"{scene.title}{scene.digest}".encode()).hexdigest()[:8]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title-{mark} desc-{mark}" '
        f'width="{scene.width}" height="{scene.height}" viewBox="0 0 {scene.width} {scene.height}" '
        f'font-family="{FONT}" fill="{INK}">',
        f'<title id="title-{mark}">{escape(title)}</title>',
        f'<desc id="desc-{mark}">{escape(scene.desc)}</desc>',
        f"<defs>{''.join(_pattern(name, mark) for name in HATCHINGS)}</defs>",
        f'<rect width="{scene.width}" height="{scene.height}" rx="10" fill="{BACKGROUND}"/>',
        *(_element(item, mark) for item in scene.items),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _pattern(name: str, mark: str) -> str:
    size, angle, ground, stroke = HATCHINGS[name]
    x = size // 2
    return (
        f'<pattern id="{name}-{mark}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({angle})"><rect width="{size}" height="{size}" fill="{ground}"/>'
        f'<line x1="{x}" y1="0" x2="{x}" y2="{size}" stroke="{LINE}" stroke-width="{stroke}"/></pattern>'
    )


def _element(item: Item, mark: str) -> str:
    if isinstance(item, Words):
        return _words(item)
    if isinstance(item, Shape):
        return f'<polygon points="{_points(item.points)}" fill="{item.fill}"/>'
    dashes = ' stroke-dasharray="5 4"' if item.dashed else ""
    if isinstance(item, Path):
        stroke = f'stroke="{item.stroke}" stroke-width="{item.thick:g}"{dashes}'
        return f'<polyline points="{_points(item.points)}" fill="none" {stroke} stroke-linejoin="round"/>'
    fill = f"url(#{item.fill}-{mark})" if item.fill in HATCHINGS else item.fill or "none"
    stroke = f' stroke="{item.stroke}" stroke-width="{item.thick:g}"{dashes}' if item.stroke else ""
    return (
        f'<rect x="{item.x:g}" y="{item.y:g}" width="{item.width:g}" height="{item.height:g}" rx="{item.round:g}" '
        f'fill="{fill}"{stroke}/>'
    )


def _words(item: Words) -> str:
    extra = ' font-weight="bold"' if item.bold else ""
    extra += ' text-decoration="line-through"' if item.struck else ""
    extra += f' font-family="{MONO}"' if item.mono else ""
    return (
        f'<text x="{item.x:g}" y="{item.y:g}" font-size="{item.size:g}" text-anchor="{item.anchor}" '
        f'fill="{item.fill}"{extra}>{escape(item.text)}</text>'
    )


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
