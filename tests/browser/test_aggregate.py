"""The map of a table with too many cells: its areas and numbers, computed apart, with no table in memory."""

import re
import tracemalloc
from pathlib import Path

import pytest
from playwright.sync_api import Page

from reqpool.player.aggregate import table_map, table_map_text

MARK = 8
REAL = (4097, 131_076)  # rows and positions of a real engine's table


def areas(html: str) -> list[float]:
    """The solid area in each line of marks, in marks, from the path that is drawn."""
    found = []
    for steps in re.findall(r' d="M0 0((?:V[\d.e-]+H\d+)+)V0Z"', html):
        area, x = 0.0, 0
        for height, end in re.findall(r"V([\d.e-]+)H(\d+)", steps):
            area, x = area + float(height) * (int(end) - x), int(end)
        found.append(area)
    return found


def framed(html: str) -> list[tuple[int, int, int]]:
    """First row, last row and framed marks of each line that has any."""
    read = r'data-first-row="(\d+)" data-last-row="(\d+)".*?<rect x="\d+" y="\d+" width="(\d+)"'
    return [(int(first), int(last), (int(width) + 1) // MARK) for first, last, width in re.findall(read, html)]


def test_a_real_engine_s_table_in_words() -> None:
    # 4,097 * 131,076 = 537,018,372. 48 lines: 4,097 / 48 = 85.4; 96 marks: 131,076 / 96 = 1,365.4
    assert table_map_text(*REAL, {1: 2000, 2: 500, 7: 0}) == (
        "4,097 rows × 131,076 positions = 537,018,372 cells, too many to draw one by one. Each mark is 86 rows × 1,366 "
        "positions; framed, it has a live cell in it, and its solid part is the share that is live, to scale. The bar "
        "is all cells, and its solid part the live ones. Live cells: 2,500, in 2 rows of 4,097; 1 cell in 214,807 is "
        "live."
    )
    assert table_map_text(*REAL, {}).endswith("Live cells: 0, in 0 rows of 4,097; no cell is live.")
    assert table_map_text(2, 3, {1: 3}).endswith("Live cells: 3, in 1 row of 2; 50.0 % of the cells are live.")
    assert "Each mark is 1 row × 1 position;" in table_map_text(2, 3, {})


def test_what_is_solid_is_to_scale_and_what_is_framed_has_a_live_cell() -> None:
    html = table_map(*REAL, {1: 2000, 85: 1366, 86: 1, 4096: 131_076})
    one = 86 * 1366  # cells of a mark
    assert areas(html) == pytest.approx([3366 / one, 1 / one, 131_076 / one])
    assert framed(html) == [(0, 85, 2), (86, 171, 1), (4042, 4096, 96)]
    (live,) = re.findall(r'class="live".*?width="([\d.e-]+)"', html)
    whole = MARK * 131_076 / 1366
    assert float(live) == pytest.approx(whole * 134_443 / 537_018_372)


def test_every_live_cell_is_in_its_own_mark() -> None:
    rows, positions = 100, 200  # marks of 3 rows and 3 positions
    lengths = {row: (37 * row) % 201 for row in range(1, rows)}
    counted: dict[int, list[int]] = {}
    for row, length in lengths.items():
        for position in range(length):
            counted.setdefault(row // 3, [0] * 67)[position // 3] += 1
    drawn = re.findall(r'data-first-row="(\d+)".*? d="M0 0(\S+)V0Z"', table_map(rows, positions, lengths))
    for first, steps in drawn:
        heights = [float(height) for height in re.findall(r"V([\d.e-]+)H", steps)]
        assert [round(9 * height) for height in heights] == [n for n in counted.pop(int(first) // 3) if n]
    assert counted == {}


def test_no_table_is_made() -> None:
    tracemalloc.start()
    html = table_map(*REAL, dict.fromkeys(range(1, 4097), 2000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000, "bytes; the table takes 2.1 billion"
    assert len(html) < 100_000


def test_equal_numbers_give_equal_bytes_and_other_ones_other_ids() -> None:
    one = table_map(*REAL, {5: 10, 1: 20})
    assert one == table_map(*REAL, {1: 20, 5: 10})
    ids = [set(re.findall(r'id="([^"]+)"', table_map(*REAL, lengths))) for lengths in ({1: 20, 5: 10}, {1: 10, 5: 20})]
    assert not ids[0] & ids[1], "two maps in one page"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((0, 5, {}), "a table of 0 rows x 5 positions has no cells"),
        ((4, 5, {4: 1}), "row 4 does not exist: this table has rows 0 to 3"),
        ((4, 5, {-1: 1}), "row -1 does not exist"),
        ((4, 5, {1: 6}), "length 6 does not fit row 1: max_context_len is 5"),
        ((4, 5, {1: -1}), "length -1 does not fit row 1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple, problem: str) -> None:
    for refuses in (table_map, table_map_text):
        with pytest.raises(ValueError, match=problem):
            refuses(*arguments)
    with pytest.raises(TypeError):
        table_map(4, 5, {1: 2.5})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [480, 1000])
def test_a_map_is_a_picture_with_a_name_and_a_sentence(
    page: Page, tmp_path: Path, shots: Path, scheme: str, width: int
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 700})
    lengths = {row: 700 + 13 * (row % 200) for row in range(1, 257)}
    style = "<!doctype html><meta charset=utf-8><style>:root { color-scheme: light dark }</style>"
    (tmp_path / "map.html").write_text(style + table_map(*REAL, lengths), encoding="utf-8")
    page.goto((tmp_path / "map.html").as_uri())
    share = 537_018_372 / sum(lengths.values())
    assert page.get_by_role("img", name=f"The table to scale: 1 cell in {share:,.0f} is live").count() == 1
    assert page.locator("figcaption").inner_text() == table_map_text(*REAL, lengths)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    live, whole = (page.locator(f"svg > rect >> nth={i}").bounding_box() for i in (-1, -2))
    assert live is not None and whole is not None
    assert live["width"] / whole["width"] == pytest.approx(1 / share, rel=0.05), "a hair's breadth"
    page.screenshot(path=shots / f"map-{scheme}-{width}.png", full_page=True)
