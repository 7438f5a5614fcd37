"""`make figures`: every picture of the README and the course, byte for byte the same each time. `--check` compares."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import torch

from reqpool import Req, ReqToTokenPool, Snapshot, record
from reqpool.views import grid_svg
from reqpool.views.theme import BACKGROUND, EMPTY, FONT, INK, LINE, OWNER_COLOURS, OWNER_TINTS, QUIET, WRONG

FIGURES = Path(__file__).resolve().parent.parent / "figures"

TWO_ZEROS = (
    "The table req_to_token with its two zeros: table row 0 is the padding row, where the dummy entries of a "
    "fixed-size batch point; KV slot 0 is the dummy slot, where their K and V land."
)


def table_svg() -> str:
    """The table and its two zeros."""
    state = _state()
    grid = grid_svg(state, title="req_to_token, three requests in four rows")
    width, height, strip = 1010, 372, 268
    inner = grid[grid.index(">") + 1 : grid.rindex("</svg>")].split("</desc>", 1)[1]
    owner_of = {
        int(slot): list(state.owners).index(row)
        for row in state.owners
        for slot in state.table[row, : state.alloced[row]]
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="15" fill="{INK}">',
        f'<title id="title">{escape(TWO_ZEROS)}</title>',
        '<desc id="desc">Row 0 is hatched and named padding. Rows 1 to 3 belong to the requests a, b and c, row 4 is '
        "free and keeps old slots, struck through. Below, the KV slots 0 to 17, coloured by the row that points at "
        "them; slot 0 is hatched.</desc>",
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>',
        inner,
        f'<path d="M 722 99 h -24" stroke="{WRONG}" stroke-width="1.5"/>',
        _text(730, 97, "Table row 0: the padding row.", INK, 14, bold=True),
        _text(730, 116, "Dummy entries point here; it is nobody's.", QUIET, 13),
        _text(20, strip + 20, "KV slots", QUIET, 14),
        *(_slot(160 + 40 * slot, strip, slot, owner_of.get(slot)) for slot in range(18)),
        f'<path d="M 178 {strip + 34} v 20 h 12" stroke="{WRONG}" stroke-width="1.5" fill="none"/>',
        _text(198, strip + 59, "KV slot 0: the dummy slot.", INK, 14, bold=True),
        _text(420, strip + 59, "The K and V of dummy entries land here; no request is given it.", QUIET, 13),
        _text(198, strip + 82, "One zero counts rows, the other counts slots.", QUIET, 13),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _state() -> Snapshot:
    pool = ReqToTokenPool(size=4, max_context_len=8, device="cpu")
    requests = [Req(rid) for rid in "abcd"]
    with record(pool) as trace:
        pool.alloc(requests)
        for req, slots in zip(requests, ([7, 8, 9, 3, 4], [15, 16], [10, 11, 12, 13, 14, 17], [2, 5, 6]), strict=True):
            pool.append(req, torch.tensor(slots))
        pool.verify([1, 2, 3], torch.tensor([4, 2, 6], dtype=torch.int32))
        pool.free(requests[3])
    return trace.snapshot(len(trace))


def _slot(x: int, y: int, slot: int, owner: int | None) -> str:
    fill = "url(#padding)" if slot == 0 else EMPTY if owner is None else OWNER_TINTS[owner]
    line = LINE if owner is None else OWNER_COLOURS[owner]
    return (
        f'<rect x="{x}" y="{y}" width="37" height="30" rx="2" fill="{fill}"/>'
        f'<rect x="{x}" y="{y + 27}" width="37" height="3" fill="{line}"/>'
        f'<text x="{x + 18.5:g}" y="{y + 20}" font-size="14" text-anchor="middle" '
        f'fill="{INK if owner is not None else QUIET}">{slot}</text>'
    )


def _text(x: float, y: float, words: str, fill: str, size: int, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"{weight}>{escape(words)}</text>'


PICTURES = {"table.svg": table_svg}


def main(check: bool) -> int:
    stale = []
    for name, build in PICTURES.items():
        path, content = FIGURES / name, build()
        if check and (not path.exists() or path.read_text(encoding="utf-8") != content):
            stale.append(name)
        if not check:
            path.write_text(content, encoding="utf-8")
            print(f"figures/{name}: {len(content):,} bytes")
    if stale:
        print(f"out of date: {', '.join(stale)}; run make figures")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
