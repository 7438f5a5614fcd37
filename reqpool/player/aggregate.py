"""The map of a table that has too many cells to draw, from its size and its rows' lengths: no table is needed for it.

positions 0 to 131,075
##::  .  .  .  .  .  .  .      each mark stands for many rows and many positions
#:  .  .  .  .  .  .  .  .     framed: a live cell is somewhere in it
 .  .  .  .  .  .  .  .  .     solid: how much of it is live, to scale
|------------------------|     all cells, and the live ones among them, to scale
"""

import operator
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from itertools import groupby

from reqpool.views.theme import FONT, OWNER_COLOURS

ACROSS, DOWN, MARK = 96, 48, 8  # marks at the most, and how many units one is wide
LEFT, TOP, BAR = 76, 26, 14  # where the map begins; how high the bar under it is
BLUE = OWNER_COLOURS[0]


def table_map(num_rows: int, max_context_len: int, lengths: Mapping[int, int]) -> str:
    """Draw which part of a table is live, as HTML for light and dark pages; the same numbers give the same bytes.

    Args:
        num_rows: rows of the tensor, the padding row included.
        lengths: row -> its first cells that are live, `alloced_lens`; a row that is not named has none. No cell of the
            padding row is live: leave it out.

    Raises:
        ValueError: a table without cells, a row that it has not, a length that does not fit.
        TypeError: not integers.
    """
    num_rows, max_context_len, lengths = checked(num_rows, max_context_len, lengths)
    rows_each, positions_each = mark_size(num_rows, max_context_len)
    width, height = MARK * max_context_len / positions_each, MARK * num_rows / rows_each
    words = table_map_text(num_rows, max_context_len, lengths)
    name = "map-" + sha256(words.encode() + repr(sorted(lengths.items())).encode()).hexdigest()[:8]
    live, cells = sum(lengths.values()), num_rows * max_context_len
    size = f"{LEFT + ACROSS * MARK + 8} {TOP + height + 60:g}"
    hooks = f'data-rows="{num_rows}" data-positions="{max_context_len}" data-live="{live}"'
    each = f'data-rows-per-mark="{rows_each}" data-positions-per-mark="{positions_each}"'
    label = f"The table to scale: {share_text(live, cells)}"
    parts = [
        f'<figure class="reqpool-map" style="margin: 0; max-width: 860px" {hooks} {each}>',
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{name}" viewBox="0 0 {size}" '
        f'width="100%" font-family="{FONT}" font-size="16" fill="currentColor">',
        f'<title id="{name}">{escape(label)}</title>',
        f'<defs><pattern id="{name}-marks" x="{LEFT}" y="{TOP}" width="{MARK}" height="{MARK}" '
        f'patternUnits="userSpaceOnUse"><path d="M0 0H{MARK - 1}V{MARK - 1}H0Z" fill-opacity="0.16"/></pattern></defs>',
        f'<text x="{LEFT}" y="16">position 0</text>',
        f'<text x="{LEFT + max(width, 130):g}" y="16" text-anchor="end">{max_context_len - 1:,}</text>',
        f'<text x="{LEFT - 8}" y="{TOP + 12}" text-anchor="end">row 0</text>',
        f'<text x="{LEFT - 8}" y="{TOP + max(height, 30):g}" text-anchor="end">{num_rows - 1:,}</text>',
        f'<rect x="{LEFT}" y="{TOP}" width="{width:g}" height="{height:g}" fill="url(#{name}-marks)"/>',
        *bands(num_rows, lengths, rows_each, positions_each),
        *bar(live / cells, TOP + height + 18, width),
        f"</svg><figcaption>{escape(words)}</figcaption></figure>",
    ]
    return "\n".join(parts) + "\n"


def table_map_text(num_rows: int, max_context_len: int, lengths: Mapping[int, int]) -> str:
    """What the map says, in sentences."""
    num_rows, max_context_len, lengths = checked(num_rows, max_context_len, lengths)
    cells, live = num_rows * max_context_len, sum(lengths.values())
    rows_each, positions_each = mark_size(num_rows, max_context_len)
    few = rows_each * positions_each == 1
    return (
        f"{num_rows:,} rows × {max_context_len:,} positions = {cells:,} cells"
        f"{'' if few else ', too many to draw one by one'}. Each mark is {plural(rows_each, 'row')} × "
        f"{plural(positions_each, 'position')}; framed, it has a live cell in it, and its solid part is the share that "
        f"is live, to scale. The bar is all cells, and its solid part the live ones. "
        f"Live cells: {live:,}, in {plural(sum(map(bool, lengths.values())), 'row')} of {num_rows:,}; "
        f"{share_text(live, cells)}."
    )


def share_text(live: int, cells: int) -> str:
    """
    >>> share_text(3, 600), share_text(2, 6), share_text(0, 6), share_text(6, 6)
    ('1 cell in 200 is live', '33.3 % of the cells are live', 'no cell is live', 'every cell is live')
    """
    if live in (0, cells):
        return "every cell is live" if live else "no cell is live"
    if 100 * live < cells:
        return f"1 cell in {cells / live:,.0f} is live"
    return f"{min(100 * live / cells, 99.9):.1f} % of the cells are live"


def plural(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def mark_size(num_rows: int, max_context_len: int) -> tuple[int, int]:
    """Rows and positions of one mark: the smallest with which the map is not too large."""
    return -(-num_rows // DOWN), -(-max_context_len // ACROSS)


def bands(num_rows: int, lengths: Mapping[int, int], rows_each: int, positions_each: int) -> list[str]:
    """For each line of marks with a live cell in it: a frame round these, and a solid part of the live cells' area."""
    parts = []
    for band, named in groupby(sorted(row for row in lengths if lengths[row]), lambda row: row // rows_each):
        held = [lengths[row] for row in named]
        first, last = band * rows_each, min((band + 1) * rows_each, num_rows) - 1
        marks = -(-max(held) // positions_each)
        live = [sum(min(max(n - i * positions_each, 0), positions_each) for n in held) for i in range(marks)]
        steps = "".join(f"V{n / (rows_each * positions_each):.8g}H{i}" for i, n in enumerate(live, start=1))
        words = f"rows {first:,} to {last:,}: {plural(len(held), 'row')} with {plural(sum(held), 'live cell')}"
        y, width = TOP + band * MARK, marks * MARK - 1
        parts.append(
            f'<g data-first-row="{first}" data-last-row="{last}" data-live="{sum(held)}"><title>{words}</title>'
            f'<rect x="{LEFT}" y="{y}" width="{width}" height="{MARK - 1}" fill="{BLUE}" fill-opacity="0.25" '
            f'stroke="currentColor"/><path transform="translate({LEFT} {y + MARK}) scale({MARK} -{MARK})" '
            f'd="M0 0{steps}V0Z" fill="{BLUE}"/></g>'
        )
    return parts


def bar(share: float, y: float, width: float) -> list[str]:
    """All cells as one bar, the live ones to scale at its left end, and a pointer to where they end."""
    end = LEFT + share * width
    side, anchor = (8, "start") if share < 0.5 else (-8, "end")
    return [
        f'<rect x="{LEFT}" y="{y:g}" width="{width:g}" height="{BAR}" fill-opacity="0.16"/>',
        f'<rect class="live" x="{LEFT}" y="{y:g}" width="{share * width:.8g}" height="{BAR}" fill="{BLUE}"/>',
        f'<path d="M{end:.8g} {y + BAR + 2:g}l-5 9h10z"/>',
        f'<text x="{end + side:.8g}" y="{y + BAR + 15:g}" text-anchor="{anchor}">live, of all cells, to scale</text>',
    ]


def checked(num_rows: int, max_context_len: int, lengths: Mapping[int, int]) -> tuple[int, int, dict[int, int]]:
    num_rows, max_context_len = operator.index(num_rows), operator.index(max_context_len)
    if min(num_rows, max_context_len) < 1:
        raise ValueError(
            f"a table of {num_rows} rows x {max_context_len} positions has no cells, wanted 1 or more each"
        )
    lengths = {operator.index(row): operator.index(length) for row, length in lengths.items()}
    for row, length in lengths.items():
        if not 0 <= row < num_rows:
            raise ValueError(f"row {row} does not exist: this table has rows 0 to {num_rows - 1}")
        if not 0 <= length <= max_context_len:
            raise ValueError(f"length {length} does not fit row {row}: max_context_len is {max_context_len}")
    return num_rows, max_context_len, lengths
