"""Charts as matplotlib Figures, made with the object-oriented API: a view returns, nothing is shown or kept.

`svg` turns a Figure into a string, the same bytes every time. Sentences that say what a chart shows stand beside it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import accumulate
from math import nan

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from reqpool.serving.chunk_times import Step, longest_wait, prefill_steps, time_to_first_token
from reqpool.views.theme import BACKGROUND, INK, OWNER_COLOURS, OWNER_TINTS, QUIET, WRONG

CELL_BYTES = 4  # int32
INT32_CELLS = 2**31  # from here on a flat int32 index does not reach every cell
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def table_bytes(size: int, max_context_len: int) -> int:
    """
    >>> table_bytes(8, 64)
    2304
    """
    return (size + 1) * max_context_len * CELL_BYTES


def readable(num_bytes: float) -> str:
    """
    >>> readable(2304), readable(2**30)
    ('2.25 KiB', '1.00 GiB')
    """
    unit = 0
    while num_bytes >= 1024 and unit < len(UNITS) - 1:
        num_bytes, unit = num_bytes / 1024, unit + 1
    return f"{num_bytes:.2f} {UNITS[unit]}" if unit else f"{num_bytes:.0f} B"


@dataclass(frozen=True)
class Mark:
    """The table of a real engine: rows (with the padding row, where there is one), positions, and who says so."""

    letter: str
    rows: int
    positions: int
    who: str

    @property
    def num_bytes(self) -> int:
        return self.rows * self.positions * CELL_BYTES


REAL_TABLES = (
    Mark("A", 1001, 16_384, "LightLLM, its default settings (code of 2025-07-11)"),
    Mark("B", 2049, 8_196, "SGLang, 2,048 rows, context 8,192 (code of 2026-08)"),
    Mark("C", 2049, 131_076, "SGLang, 2,048 rows, context 131,072 (code of 2026-08)"),
    Mark("D", 4096, 163_840, "SGLang, the log in pull 14071, which prints 2.68GB (2.68 x 10⁹ bytes)"),
    Mark("E", 2049, 10_485_764, "SGLang, the crash of issue 5755, which prints 80.04 GiB"),
)


def table_memory(size: int, max_context_len: int) -> Figure:
    """What a table of `size` rows costs at any context length, this one, and the tables of real engines."""
    figure = Figure(figsize=(7.6, 4.2))
    figure.subplots_adjust(left=0.12, right=0.97, bottom=0.13, top=0.92)
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    span = (2**5, 2**24)
    axes.plot(span, [table_bytes(size, n) for n in span], color=OWNER_COLOURS[0], linewidth=2)
    axes.axhline(INT32_CELLS * CELL_BYTES, color=QUIET, linewidth=1, linestyle="--")
    axes.annotate(
        "2³¹ cells: 8 GiB", (span[0], INT32_CELLS * CELL_BYTES), (4, 4), textcoords="offset points", color=QUIET, size=9
    )
    axes.scatter(
        [mark.positions for mark in REAL_TABLES],
        [mark.num_bytes for mark in REAL_TABLES],
        color=OWNER_COLOURS[1],
        marker="D",
        s=36,
        zorder=3,
    )
    for mark in REAL_TABLES:
        axes.annotate(
            mark.letter,
            (mark.positions, mark.num_bytes),
            (-14, 2),
            textcoords="offset points",
            color=INK,
            weight="bold",
        )
    here = table_bytes(size, max_context_len)
    axes.scatter([max_context_len], [here], color=OWNER_COLOURS[0], s=90, zorder=4)
    left = max_context_len > 2**19  # no room to the right of it
    axes.annotate(
        f"yours: {readable(here)}",
        (max_context_len, here),
        (-10, 15) if left else (10, -16),
        textcoords="offset points",
        ha="right" if left else "left",
        color=INK,
        weight="bold",
    )
    axes.set_xticks([2**power for power in range(6, 25, 3)])
    axes.set_yticks([2**power for power in range(10, 41, 5)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    axes.yaxis.set_major_formatter(lambda value, _: re.sub(r"\.00", "", readable(value)))
    axes.minorticks_off()
    axes.set_ylim(2**10, 2**40)
    axes.set_xlabel("positions in a row (max_context_len)")
    axes.set_ylabel("memory of req_to_token")
    axes.set_title(f"The line: a table of {size:,} rows and the padding row", size=11, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def svg(figure: Figure, label: str) -> str:
    """The figure as an inline SVG whose text has the colour of the page around it; `label` is its alternative text."""
    out = io.StringIO()
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
    with matplotlib.rc_context({"svg.hashsalt": "reqpool", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    drawing = out.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(
        r' (width|height)="[^"]*"', "", drawing, count=2
    )  # as wide as there is room: viewBox has the shape
    drawing = drawing.replace(
        "<svg ", f'<svg fill="currentColor" role="img" aria-label="{escape(label, quote=True)}" ', 1
    )
    drawing = re.sub(r"<(metadata|style)\b.*?</\1>", "", drawing, flags=re.DOTALL)  # a style would reach the whole page
    for colour in ("#000000", INK.lower(), QUIET.lower()):
        drawing = drawing.replace(colour, "currentColor")
    return drawing


# ---- chunked prefill -------------------------------------------------------------------------------------------------

PREFILL, DECODE = OWNER_COLOURS[:2]
CHUNK_SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def waiting_times(prompt_len: int, chunk_size: int, num_running: int) -> Figure:
    """Against the chunk size: how long running requests wait for a token, and the long prompt for its first one.

    Below, the steps of this chunk size on a time line.
    """
    figure = Figure(figsize=(7.6, 5.1))
    figure.subplots_adjust(left=0.1, right=0.97, bottom=0.14, top=0.9, hspace=0.5)
    axes, line = figure.subplots(2, height_ratios=(4, 1))
    sizes = [size for size in CHUNK_SIZES if size < 2 * prompt_len or size <= chunk_size]
    mixed, apart, first = _waits(prompt_len, tuple(sizes), num_running)
    curves = (  # the last two nearly coincide: what is drawn first is wide and hollow, what lies over it narrow
        ("longest time between tokens, mixed", mixed, DECODE, {"marker": "o", "markersize": 5}),
        ("the same, not mixed", apart, DECODE, {"marker": "s", "markersize": 10, "mfc": "none", "ls": ":", "lw": 4}),
        ("long prompt: time to first token", first, PREFILL, {"marker": "^", "markersize": 4, "ls": "--", "lw": 1.2}),
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for label, times, colour, looks in curves:
        axes.plot(sizes, times, color=colour, label=label, **looks)
    axes.axvline(chunk_size, color=QUIET, linewidth=1)
    last = chunk_size == sizes[-1]  # no room to the right of it
    axes.annotate(
        "yours",
        (chunk_size, 1),
        (-4 if last else 4, -10),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if last else "left",
        color=INK,
    )
    axes.set_xticks(sizes)
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.minorticks_off()
    most = max(max(times) for _, times, *_ in curves)
    axes.set_ylim(4, 2.5 * most)
    axes.set_xlabel("chunk size (prompt tokens in an engine step)")
    axes.set_ylabel("ms")
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, borderaxespad=0.2)
    _time_line(line, prefill_steps(prompt_len, chunk_size, num_running))
    for one in (axes, line):
        _open(one)
    return figure


@lru_cache(maxsize=64)
def _waits(prompt_len: int, sizes: tuple[int, ...], num_running: int) -> tuple[list[float], list[float], list[float]]:
    mixed, apart = ([prefill_steps(prompt_len, size, num_running, how) for size in sizes] for how in (True, False))
    return list(map(longest_wait, mixed)), list(map(longest_wait, apart)), list(map(time_to_first_token, mixed))


def _time_line(axes: Axes, steps: Sequence[Step]) -> None:
    """Each step a bar as long as it takes, the last only decodes; a stroke where running requests get a token."""
    ends = list(accumulate(step.ms for step in steps))
    spans = [(end - step.ms, step.ms) for end, step in zip(ends, steps, strict=True)]
    prefill = spans[:-1] if len(steps) <= 60 else [(0, ends[-2])]  # bars too narrow to be seen are drawn as one
    axes.broken_barh(prefill, (0, 1), facecolor=OWNER_TINTS[0], edgecolor=PREFILL, linewidth=0.8)
    axes.broken_barh(spans[-1:], (0, 1), facecolor=OWNER_TINTS[1], edgecolor=DECODE, linewidth=0.8)
    strokes = [(x, y) for end in ends for x, y in ((end, 1.15), (end, 1.55), (nan, nan))]  # one path, not hundreds
    axes.plot(*zip(*strokes, strict=True), color=DECODE, linewidth=1)
    axes.set_xlim(0, ends[-1] * 1.02)
    axes.set_ylim(0, 1.9)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(
        "ms; each bar an engine step: blue with a chunk of the prompt, orange the first without;\n"
        "each stroke above: a token for every running request"
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _open(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


# ---- real requests ---------------------------------------------------------------------------------------------------

MARKS = {  # a colour, a sign in another, and what the legend says
    "right": (OWNER_TINTS[0], "", "none", "recites rightly"),
    "touched": (OWNER_TINTS[4], "o", OWNER_COLOURS[1], "a dot: hit, recites rightly all the same"),
    "wrong": (WRONG, "x", BACKGROUND, "a cross: recites wrongly"),
}
PER_LINE = 25
SIDE = 0.21  # inches, of a square and the gap beside it
BETWEEN = 0.6  # of a square, between two runs


def requests_hurt(runs: Mapping[str, Sequence[str]]) -> Figure:
    """For each run a square per request, in order of arrival, 25 a line, by its word: right, touched or wrong."""
    labels: dict[float, str] = {}  # the height of each run's first line -> its name
    squares: list[tuple[int, float, str]] = []
    y = 0.0
    for name, marks in runs.items():
        labels[y + 0.5] = name
        squares += [(i % PER_LINE, y + i // PER_LINE, word) for i, word in enumerate(marks)]
        y += -(-len(marks) // PER_LINE) + BETWEEN
    figure, axes = _squared(PER_LINE, y - BETWEEN)
    for mark, (colour, sign, sign_colour, _) in MARKS.items():
        places = [(x, y) for x, y, word in squares if word == mark]
        for line in sorted({y for _, y in places}):
            axes.broken_barh([(x + 0.06, 0.88) for x, y in places if y == line], (line + 0.06, 0.88), facecolor=colour)
        if sign:
            middles = [x + 0.5 for x, _ in places], [y + 0.5 for _, y in places]
            axes.plot(*middles, sign, color=sign_colour, markersize=5, markeredgewidth=1.5)
    axes.set_yticks(list(labels), list(labels.values()))
    axes.set_xticks([])
    axes.set_xlabel("each square a request, in order of arrival, line by line")
    axes.tick_params(length=0)
    for side in axes.spines:
        axes.spines[side].set_visible(False)
    _legend_of_marks(axes)
    return figure


def _squared(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of the usual width whose axes have a square of SIDE for each unit, with room for names and a legend."""
    over, under = 0.35, 0.32
    total = over + under + SIDE * height
    figure = Figure(figsize=(7.6, total))
    right = 0.99
    figure.subplots_adjust(left=right - SIDE * width / 7.6, right=right, bottom=under / total, top=1 - over / total)
    axes = figure.subplots()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return figure, axes


def _legend_of_marks(axes: Axes) -> None:
    samples = [
        (Patch(facecolor=colour), Line2D([], [], ls="", marker=sign or "None", color=ink, ms=5, mew=1.5))
        for colour, sign, ink, _ in MARKS.values()
    ]
    axes.legend(
        samples,
        [words for *_, words in MARKS.values()],
        handlelength=1.3,
        handleheight=1.3,
        handletextpad=0.5,
        columnspacing=1.4,
        frameon=False,
        fontsize=9,
        ncols=3,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.3,
        borderpad=0,
    )
