"""Large type: read from the back of a room, switched for all players of a page, and remembered."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from reqpool.faulty import NoResetOnReuse
from reqpool.player import Player
from reqpool.player.page import to_fragment, to_frame
from tests.browser.conftest import OpenStatic
from tests.browser.lab import Lab
from tests.browser.stories import busy, late_step, story

ROOT = ".reqpool-player"
FACTOR = 1.7
PAIR = "<!doctype html><div style='display: flex'>{}</div>"
HALF = "<div style='flex: 1; min-width: 0'>{}</div>"


def switch(at: Page | Locator) -> Locator:
    return at.get_by_role("button", name="Large type", exact=True)


def box(element: Locator) -> dict:
    found = element.bounding_box()
    assert found is not None
    return found


def fits(page: Page) -> bool:
    """Nothing of the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def open_pair(page: Page, folder: Path, **options: object) -> Page:
    traces = (late_step(NoResetOnReuse), late_step())
    halves = (HALF.format(to_fragment(one, step=7, group="pair", **options)) for one in traces)
    (folder / "pair.html").write_text(PAIR.format("".join(halves)), encoding="utf-8")
    page.goto((folder / "pair.html").as_uri())
    for i in (0, 1):
        page.locator(f"{ROOT}[data-step]").nth(i).wait_for()
    return page


def test_everything_that_is_read_or_pressed_grows(open_static: OpenStatic) -> None:
    page = open_static(late_step(NoResetOnReuse), step=13)
    parts = (
        *(".cell >> nth=0", ".header .position >> nth=0", ".head >> nth=1", ".lengths >> nth=1", ".slot >> nth=0"),
        *(".letters [data-wrong] >> nth=0", ".track >> nth=0", "input", "button >> nth=0", ".says .count"),
    )
    before = [box(page.locator(part))["height"] for part in parts]
    switch(page).click()
    after = [box(page.locator(part))["height"] for part in parts]
    assert [round(now / then, 1) for then, now in zip(before, after, strict=True)] == [FACTOR] * len(parts)
    assert fits(page)


def test_the_switch_is_a_button_that_says_whether_it_is_on(open_static: OpenStatic) -> None:
    page = open_static(story())
    expect(switch(page)).to_have_attribute("aria-pressed", "false")
    switch(page).focus()
    for key, pressed in (("Enter", "true"), ("Space", "false"), ("Space", "true")):
        page.keyboard.press(key)
        expect(switch(page)).to_have_attribute("aria-pressed", pressed)
        assert (page.locator(f"{ROOT}.large").count() == 1) == (pressed == "true")
    assert (page.get_attribute(ROOT, "data-step"), page.get_attribute(ROOT, "data-playing")) == ("0", "false")


def test_one_switch_for_all_players_and_the_next_visit(page: Page, tmp_path: Path) -> None:
    open_pair(page, tmp_path)
    switch(page).nth(1).click()
    for _ in range(2):
        assert [one.get_attribute("aria-pressed") for one in switch(page).all()] == ["true", "true"]
        assert page.locator(f"{ROOT}.large").count() == 2
        page.reload()
        page.locator(f"{ROOT}[data-step]").nth(1).wait_for()
    switch(page).nth(0).click()
    page.reload()
    page.locator(f"{ROOT}[data-step]").nth(1).wait_for()
    assert page.locator(f"{ROOT}.large").count() == 0


def test_frames_of_a_page_follow(page: Page, tmp_path: Path) -> None:
    (tmp_path / "frames.html").write_text(f"<!doctype html>{to_frame(story())}{to_frame(late_step())}")
    page.goto((tmp_path / "frames.html").as_uri())
    first, second = (page.frame_locator("iframe").nth(i).locator(ROOT) for i in (0, 1))
    expect(second).to_have_attribute("data-step", "0")
    switch(first).click()
    for one in (first, second):
        expect(switch(one)).to_have_attribute("aria-pressed", "true")


def test_a_browser_that_keeps_nothing_switches_all_the_same(page: Page, tmp_path: Path) -> None:
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('not here'); } })")
    open_pair(page, tmp_path)
    switch(page).nth(0).click()
    assert page.locator(f"{ROOT}.large").count() == 2


def test_a_page_may_begin_in_large_type_and_the_reader_has_the_last_word(open_static: OpenStatic) -> None:
    page = open_static(story(), large=True)
    expect(switch(page)).to_have_attribute("aria-pressed", "true")
    switch(page).click()
    assert page.locator(f"{ROOT}.large").count() == 0


def test_a_wide_or_high_table_scrolls_in_its_box(open_static: OpenStatic) -> None:
    page = open_static(busy(31, 64, 60), step=30, large=True)
    grid = page.get_by_role("grid")
    assert fits(page)
    assert grid.evaluate("(one) => one.scrollWidth > one.clientWidth && one.scrollHeight > one.clientHeight")
    assert box(grid)["height"] <= 0.8 * 900, "the window's height, as in the usual type"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pair_at_half_width(page: Page, tmp_path: Path, scheme: str, shots: Path) -> None:
    page.emulate_media(color_scheme=scheme)
    open_pair(page, tmp_path, large=True)
    assert fits(page)
    read = "(all) => all.map((one) => one.getBoundingClientRect().top + scrollY)"
    tops = page.get_by_role("grid").evaluate_all(read)
    assert tops[0] == tops[1]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        page.locator(ROOT).first.press(key)
        assert page.get_by_role("grid").evaluate_all(read) == tops, "the tables stay where they are"
    page.screenshot(path=shots / f"large-pair-{scheme}.png", full_page=True)


@pytest.mark.parametrize("width", [1060, 718])
def test_a_framed_pair_stands_one_above_the_other_with_every_label_whole(
    page: Page, tmp_path: Path, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    (tmp_path / "frame.html").write_text(f"<!doctype html>{to_frame([late_step(NoResetOnReuse), late_step()])}")
    page.goto((tmp_path / "frame.html").as_uri())
    roots = page.frame_locator("iframe").locator(ROOT)
    expect(roots).to_have_count(2)
    assert (box(roots.nth(0))["y"] == box(roots.nth(1))["y"]) == (width == 1060)
    switch(roots.nth(0)).click()
    expect(roots.nth(1)).to_have_class(re.compile("large"))
    first, second = box(roots.nth(0)), box(roots.nth(1))
    assert first["y"] + first["height"] < second["y"] and first["width"] == second["width"]
    labels = "(all) => all.every((one) => one.scrollWidth <= one.clientWidth)"
    assert roots.locator(".lengths, .head, .name").evaluate_all(labels)


@pytest.mark.parametrize("large", [False, True])
def test_pointing_and_arrows_end_where_they_should(open_static: OpenStatic, large: bool) -> None:
    page = open_static(busy(64, 256, 60), step=60, large=large)
    strip = box(page.locator("[data-row='3'] .cells"))
    width = box(page.locator("[data-row='3'] canvas"))["width"] / 256  # of a cell; 40 of them are in view
    page.mouse.move(strip["x"] + 20.5 * width, strip["y"] + strip["height"] / 2)
    said = page.inner_text(f"{ROOT} .detail")
    assert said.startswith("row 3 (") and ", position 20" in said
    page = open_static(late_step(), step=7, large=large)
    page.wait_for_timeout(100)
    head, row = box(page.locator(".arrow .heads")), box(page.locator(".body .row").nth(1))
    assert abs(head["y"] + head["height"] / 2 - (row["y"] + row["height"] / 2)) < 3
    lane = box(page.locator("[data-now] .here"))
    shaft = box(page.locator(".arrow .shaft"))
    assert abs(shaft["x"] + shaft["width"] - (lane["x"] + lane["width"] / 2)) < 3


def test_the_trait_is_what_the_page_shows() -> None:
    assert (Player(story()).large, Player(story(), large=True).large) == (False, True)
    assert "large: true" in Player(story(), large=True).to_html()
    assert "large: false" in Player(story()).to_html()


CELLS = (
    "from reqpool.player import Player\n"
    "from tests.browser.stories import story\n"
    "one, other = Player(story(), large=True), Player(story())",
    "one",
    "other",
)


def test_in_jupyterlab_kernel_and_page_agree(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1300, "height": 1400})
    notebook = lab.open(page, lab.write("large.ipynb", *CELLS))
    notebook.run_all()
    one, other = (page.locator(f".jp-Notebook .jp-Cell >> nth={i} >> css={ROOT}") for i in (1, 2))
    expect(switch(one)).to_have_attribute("aria-pressed", "true")
    expect(switch(other)).to_have_attribute("aria-pressed", "false")
    switch(other).click()
    expect(switch(other)).to_have_attribute("aria-pressed", "true")
    assert notebook.ask("(one.large, other.large)") == "(True, True)"
    switch(one).focus()
    page.keyboard.press("Enter")
    expect(switch(other)).to_have_attribute("aria-pressed", "false")
    assert notebook.ask("(one.large, other.large)") == "(False, False)"
    assert notebook.tell("other.large = True") == ""
    expect(switch(other)).to_have_attribute("aria-pressed", "true")
    expect(switch(one)).to_have_attribute("aria-pressed", "false")
