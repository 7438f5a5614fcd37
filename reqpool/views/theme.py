"""Colours, sizes and marks of every picture, in one place.

Owners get the Okabe-Ito colours, which people with any colour vision can tell apart, on tints of them; and whatever a
colour says is also said by a mark or a word: hatching and a struck-through number for stale, a thick outline for
what has just changed.
"""

from __future__ import annotations

from collections.abc import Sequence

OWNER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
OWNER_TINTS = ("#D9EAF4", "#FAE5D8", "#D8F0E8", "#F7E9F1", "#FCF0D6", "#E3F2FB")

BACKGROUND = "#FFFFFF"
INK = "#1A1B25"
QUIET = "#5A6270"  # 5.9:1 on white
EMPTY = "#F4F5F7"
LINE = "#D5D8DF"
WRONG = "#B3261E"

FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
CELL_WIDTH, CELL_HEIGHT, GAP = 46, 30, 2


def owner_index(owners: Sequence[object], owner: object) -> int:
    """Which of the owner colours an owner has: by order of first appearance, round and round."""
    return owners.index(owner) % len(OWNER_COLOURS)
