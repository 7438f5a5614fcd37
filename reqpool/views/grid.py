"""The table as a drawing: one SVG of one state, for figures and pages without a player.

free rows, next first: [3]
      owner     0    1    2  ...       verified / alloced
0     padding  ///  ///  ///
1 |   a         7    8    9            ===--      3/4
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from html import escape
from unicodedata import east_asian_width

from reqpool.trace import Snapshot
from reqpool.views.text import cell_state, clean, length_text, owner_name, text_view
from reqpool.views.theme import (
    BACKGROUND,
    CELL_HEIGHT,
    CELL_WIDTH,
    EMPTY,
    FONT,
    GAP,
    INK,
    LINE,
    OWNER_COLOURS,
    OWNER_TINTS,
    QUIET,
    owner_index,
)

LEFT, TOP, BAR = 160, 84, 96  # where the cells begin, further right for long names; how long a full length bar is
NAME = 12  # characters of a rid


def _hatching(name: str, size: int, angle: int, ground: str, stroke: int) -> str:
    return (
        f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({angle})"><rect width="{size}" height="{size}" fill="{ground}"/>'
        f'<line x1="0" y1="0" x2="0" y2="{size}" stroke="{LINE}" stroke-width="{stroke}"/></pattern>'
    )


_DEFS = f"<defs>{_hatching('stale', 6, 45, EMPTY, 3)}{_hatching('padding', 8, -45, BACKGROUND, 2)}</defs>"


def grid_svg(snapshot: Snapshot, changed: Iterable[tuple[int, int]] = (), title: str = "req_to_token") -> str:
    """Draw one state; `changed` cells get a thick outline. The same state gives the same bytes.

    The title is the picture's sentence for those who do not see it, and the text view its long description.
    """
    changed, title = set(changed), clean(title, 1000)
    words = text_view(snapshot, changed)
    mark = sha256(f"{title}\n{words}".encode()).hexdigest()[:8]  # pictures on one page need ids of their own
    num_rows, num_positions = snapshot.table.shape
    names = [owner_name(snapshot, row, NAME) for row in range(num_rows)]
    owners = list(dict.fromkeys(snapshot.owners[row] for row in sorted(snapshot.owners)))
    left = max(LEFT, 70 + 9 * max(map(_num_columns, names)))
    right = left + num_positions * CELL_WIDTH + 18
    longest = max(20, *(len(length_text(snapshot, row)) for row in range(num_rows)))
    width = right + BAR + 26 + 8 * longest
    height = TOP + num_rows * (CELL_HEIGHT + GAP) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title-{mark} desc-{mark}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="15" '
        f'fill="{INK}">',
        f'<title id="title-{mark}">{escape(title)}</title>',
        f'<desc id="desc-{mark}">{escape(words)}</desc>',
        _DEFS,
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>',
        *_free_rows(snapshot),
        _text(66, TOP - 12, "owner", fill=QUIET, size=13),
        *(
            _text(left + (position + 0.5) * CELL_WIDTH, TOP - 12, position, anchor="middle", fill=QUIET, size=13)
            for position in range(num_positions)
        ),
        _text(right, TOP - 12, "verified / alloced", fill=QUIET, size=13),
    ]
    for row, name in enumerate(names):
        y = TOP + row * (CELL_HEIGHT + GAP)
        colour = owner_index(owners, snapshot.owners[row]) if row in snapshot.owners else None
        parts += _label(row, name, y, colour)
        for position, slot in enumerate(snapshot.table[row].tolist()):
            state, x = cell_state(snapshot, row, position), left + position * CELL_WIDTH
            parts += _cell(x, y, slot, state, colour, (row, position) in changed)
        parts += _bar(snapshot, row, right, y)
    return "\n".join([*parts, "</svg>", ""])


def _num_columns(name: str) -> int:
    """How wide a name is drawn, in letters: an ideogram or an emoji is as wide as two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in name)


def _free_rows(snapshot: Snapshot) -> list[str]:
    parts = [_text(20, 36, "free rows, next first:", fill=QUIET, size=14)]
    x = 180
    for row in snapshot.free[:12]:
        parts.append(
            f'<rect x="{x}" y="18" width="32" height="26" rx="6" fill="none" stroke="{INK}" stroke-width="1.6"/>'
        )
        parts.append(_text(x + 16, 36, row, anchor="middle"))
        x += 38
    more = len(snapshot.free) - 12
    if more > 0 or not snapshot.free:
        parts.append(_text(x + 2, 36, f"and {more} more" if more > 0 else "none", fill=QUIET, size=14))
    return parts


def _label(row: int, name: str, y: int, colour: int | None) -> list[str]:
    middle = y + CELL_HEIGHT / 2 + 5
    mark = LINE if colour is None else OWNER_COLOURS[colour]
    return [
        _text(34, middle, row, anchor="end"),
        f'<rect x="44" y="{y + 4}" width="5" height="{CELL_HEIGHT - 8}" fill="{mark}"/>',
        _text(58, middle, name, fill=QUIET if colour is None else INK, size=14),
    ]


def _cell(x: int, y: int, slot: int, state: str, colour: int | None, changed: bool) -> list[str]:
    width = CELL_WIDTH - GAP
    tint = EMPTY if colour is None else OWNER_TINTS[colour]
    fill = {"live": tint, "stale": "url(#stale)", "padding": "url(#padding)", "empty": EMPTY}[state]
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{CELL_HEIGHT}" rx="2" fill="{fill}"/>']
    if state == "live" and colour is not None:
        line = OWNER_COLOURS[colour]
        parts.append(f'<rect x="{x}" y="{y + CELL_HEIGHT - 3}" width="{width}" height="3" fill="{line}"/>')
    if changed:
        parts.append(
            f'<rect x="{x - 1}" y="{y - 1}" width="{width + 2}" height="{CELL_HEIGHT + 2}" rx="4" fill="none" '
            f'stroke="{INK}" stroke-width="3"/>'
        )
    if state != "empty":
        parts.append(
            _text(
                x + width / 2,
                y + CELL_HEIGHT / 2 + 5,
                slot,
                anchor="middle",
                size=min(15, (58 if changed else 62) // len(str(slot))),
                fill=INK if state == "live" else QUIET,
                bold=changed,
                struck=state == "stale",
            )
        )
    return parts


def _bar(snapshot: Snapshot, row: int, x: int, y: int) -> list[str]:
    middle = y + CELL_HEIGHT / 2 + 5
    words = length_text(snapshot, row)
    if row == snapshot.padding_row and not words:
        return [_text(x, middle, "no length counts here", fill=QUIET, size=13)]
    scale = BAR / snapshot.max_context_len
    parts = [f'<rect x="{x}" y="{y + 11}" width="{BAR}" height="8" rx="4" fill="{EMPTY}"/>']
    for length, fill in ((snapshot.alloced[row], LINE), (snapshot.verified[row], INK)):
        if length > 0:
            long = min(BAR, round(length * scale, 1))
            parts.append(f'<rect x="{x}" y="{y + 11}" width="{long}" height="8" rx="4" fill="{fill}"/>')
    return [*parts, _text(x + BAR + 10, middle, words, fill=QUIET, size=13)]


def _text(
    x: float,
    y: float,
    words: object,
    anchor: str = "start",
    fill: str = INK,
    size: int = 15,
    bold: bool = False,
    struck: bool = False,
) -> str:
    extra = ' font-weight="bold"' if bold else ""
    extra += ' text-decoration="line-through"' if struck else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{extra}>'
        f"{escape(str(words))}</text>"
    )
