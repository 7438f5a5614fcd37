"""The player that asks which cell: what it tells, what it keeps to itself, and every way to answer."""

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import traitlets
from playwright.sync_api import Browser, Locator, Page, expect

from reqpool.player import Player, to_html
from reqpool.views import caption
from tests.browser.lab import Lab, Notebook
from tests.browser.stories import READ_CELLS, busy, picture, story

ROOT = ".reqpool-player"
STEP = 4  # of story(): a holds row 1 with slots 1 to 4, b row 2 with slots 5 and 6; c comes later


def unpacked(tape: str) -> dict:
    return json.loads(zlib.decompress(base64.b64decode(tape)))


def question(**options: object) -> Player:
    return Player(story(), step=STEP, pick=True, **options)


def cell(at: Page | Locator, row: int, position: int) -> Locator:
    return at.locator(f".cell[data-row='{row}'][data-position='{position}']")


def marked(at: Page | Locator, name: str) -> list[list[int]]:
    read = "(all) => all.map(({ dataset: d }) => [Number(d.row), Number(d.position)])"
    return at.locator(f".cell[{name}]").evaluate_all(read)


def answer(at: Page | Locator) -> str:
    return at.locator(".answer").inner_text()


# ---- the Python side ------------------------------------------------------------------------------------------------


def test_nothing_that_happens_later_leaves_the_kernel() -> None:
    player = question()
    (in_page,) = re.findall(r'data-tape="([^"]*)"', player.to_html())
    for tape in (player.tape, in_page):
        sent = unpacked(tape)
        assert len(sent["events"]) == STEP
        assert sent["captions"] == [caption(story(), k) for k in range(STEP + 1)]
        assert not {"c", "x", "y"} & set(re.findall(r'"(\w)"', json.dumps(sent))), "who comes later"
    assert len(player.trace) == 13, "the kernel knows all of it"


def test_a_question_and_its_answer_one_after_the_other() -> None:
    player = question()
    assert (player.pick, player.picked, player.mark, player.step) == (True, [], [], STEP)
    player.picked = (1, torch.tensor(3))
    assert player.picked == [1, 3]
    with pytest.raises(traitlets.TraitError, match="mark would show the outcome before the commitment"):
        player.mark = [1, 4]
    player.pick = False
    player.mark = [1, 4]
    with pytest.raises(traitlets.TraitError, match=r"mark shows the outcome, \[1, 4\]: set it to \[\] before"):
        player.pick = True
    assert (player.pick, player.picked, player.mark) == (False, [1, 3], [1, 4])
    player.mark = []
    player.pick = True


@pytest.mark.parametrize("name", ["picked", "mark"])
@pytest.mark.parametrize("value", [[4, 0], [-1, 0], [0, 6], [1], [1, 2, 3], [1, 2.0], [True, 1], ["1", "2"], [None, 0]])
def test_a_cell_that_is_not_there_is_refused(name: str, value: list) -> None:
    player = question()
    player.pick = False
    wanted = rf"{name}={re.escape(str(value))} is no cell of this table, wanted \[row 0 to 3, position 0 to 5\]"
    with pytest.raises(traitlets.TraitError, match=wanted):
        setattr(player, name, value)
    assert getattr(player, name) == []


def test_a_pick_that_comes_after_the_commitment_is_dropped() -> None:
    player = question()
    player.set_state({"picked": [1, 2]})
    player.pick = False
    player.set_state({"picked": [2, 2]})
    assert player.picked == [1, 2]


def test_a_question_stays_as_it_was_asked() -> None:
    player = question()
    for name, value in (("step", 5), ("playing", True)):
        with pytest.raises(traitlets.TraitError, match="a question stays at its step 4"):
            setattr(player, name, value)
    with pytest.raises(ValueError, match="a question keeps its trace"):
        player.trace = busy(3, 4, 9)
    assert (player.step, player.playing, len(player.trace)) == (STEP, False, 13)


def test_a_player_that_asks_nothing_has_no_answer() -> None:
    player = Player(story(), step=STEP)
    for name, value in (("pick", True), ("picked", [1, 1]), ("mark", [1, 1])):
        with pytest.raises(traitlets.TraitError, match=f"{name}: this player asks nothing"):
            setattr(player, name, value)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"33 rows x 64 positions = 2,112 cells .* no cell can be picked; wanted 2,048"
    ):
        Player(busy(32, 64, 9), step=3, pick=True)
    assert Player(busy(31, 64, 9), step=3, pick=True).pick, "2,048 cells"
    with pytest.raises(ValueError, match="cannot be in the group 'pair'"):
        question(group="pair")
    with pytest.raises(traitlets.TraitError, match="step 14 does not exist"):
        Player(story(), step=14, pick=True)


# ---- in a page with no kernel ---------------------------------------------------------------------------------------

Ask = Callable[..., Page]


@pytest.fixture
def ask(page: Page, tmp_path: Path) -> Ask:
    def ask(picked: tuple = (), mark: tuple = (), pick: bool = True, step: int = STEP) -> Page:
        asked = {"pick": pick, "picked": list(picked), "mark": list(mark)}
        path = tmp_path / "question.html"
        path.write_text(to_html(story(), step=step, question=asked), encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector(f"{ROOT}[data-pick]")
        return page

    return ask


def test_a_question_shows_the_step_and_nothing_to_step_with(ask: Ask) -> None:
    page = ask()
    assert [tuple(one) for one in page.eval_on_selector(ROOT, READ_CELLS)] == picture(story(), STEP)
    assert page.get_by_role("status").all_inner_texts() == [
        f"step {STEP} append: {caption(story(), STEP)}",
        "Click a cell, or go to it with the arrow keys and press Enter",
    ]
    assert page.get_by_role("button").all_inner_texts() == ["Large type"]
    assert page.get_by_role("slider").count() == page.get_by_role("img").count() == 0
    page.focus(ROOT)
    for key in ("ArrowLeft", "Home", "Space", "ArrowRight", "End"):
        page.keyboard.press(key)
    assert (page.get_attribute(ROOT, "data-step"), page.get_attribute(ROOT, "data-playing")) == (str(STEP), "false")


def test_a_click_picks_and_another_moves_the_pick(ask: Ask) -> None:
    page = ask()
    assert (marked(page, "data-picked"), page.locator(".cell[aria-selected=false]").count()) == ([], 24)
    for at in ((1, 3), (2, 5), (0, 0)):
        cell(page, *at).click()
        for name in ("data-picked", "aria-selected=true"):
            assert marked(page, name) == [list(at)]
        assert answer(page).startswith(f"your cell: row {at[0]}, position {at[1]}")
        frame, box = page.locator(".sign.picked").bounding_box(), cell(page, *at).bounding_box()
        assert frame is not None and box is not None
        assert [abs(frame[side] - box[side]) < 2 for side in ("x", "y", "width", "height")] == [True] * 4
        assert page.locator(".sign.picked").inner_text() == "you"


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_keyboard_alone_picks(ask: Ask, key: str) -> None:
    page = ask()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # the player, then its table
    for move in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(move)
    assert marked(page, "data-picked") == []
    page.keyboard.press(key)
    assert marked(page, "data-picked") == [[1, 1]]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert marked(page, "data-picked") == [[1, 1]], "to go on is not to pick"
    page.keyboard.press(key)
    assert marked(page, "data-picked") == [[2, 5]]


def test_cells_are_named_by_row_position_and_slot(ask: Ask) -> None:
    page = ask(picked=(1, 3), mark=(1, 3), pick=False)
    for name in (
        "row 1, position 3, slot 4, live, your cell, it happens here",
        "row 2, position 0, slot 5, live",
        "row 3, position 2, empty",
    ):
        assert page.get_by_role("gridcell", name=name, exact=True).count() == 1


def test_a_locked_question_takes_no_pick(ask: Ask) -> None:
    page = ask(picked=(1, 3), mark=(2, 1), pick=False)
    cell(page, 3, 3).click()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert (marked(page, "data-picked"), marked(page, "data-mark")) == ([[1, 3]], [[2, 1]])
    assert answer(page) == "your cell: row 1, position 3; it happens here: row 2, position 1"
    assert answer(ask(pick=False)) == "no cell was picked"


def test_both_signs_on_one_cell_can_be_read(ask: Ask) -> None:
    page = ask(picked=(1, 3), mark=(1, 3), pick=False)
    assert answer(page).endswith("it happens here: row 1, position 3, in your cell")
    words = page.locator(".sign b")
    assert words.all_inner_texts() == ["you", "here"]
    you, here = (words.nth(i).bounding_box() for i in (0, 1))
    box = cell(page, 1, 3).bounding_box()
    assert you is not None and here is not None and box is not None
    middle = box["y"] + box["height"] / 2
    assert you["y"] + you["height"] < middle - 6 and here["y"] > middle + 6, "above and below the slot"


def test_a_pick_moves_nothing_on_a_narrow_screen(ask: Ask) -> None:
    page = ask()
    page.set_viewport_size({"width": 480, "height": 800})
    page.wait_for_timeout(200)  # it has the new width
    before = page.locator(".cell").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
    cell(page, 1, 3).click()
    assert page.locator(".cell").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)") == before
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    assert marked(page, "data-picked") == [[1, 3]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_question_in_both_themes(ask: Ask, scheme: str, shots: Path) -> None:
    page = ask(picked=(1, 2), mark=(1, 4), pick=False)
    page.emulate_media(color_scheme=scheme)
    expect(page.locator(ROOT)).to_have_attribute("data-theme", scheme)
    page.screenshot(path=shots / f"question-{scheme}.png")


# ---- in JupyterLab --------------------------------------------------------------------------------------------------

CELLS = (
    "from reqpool.player import Player\n"
    "from tests.browser.stories import story\n"
    "question = Player(story(), step=4, pick=True)\n"
    "heard = []\n"
    "question.observe(lambda change: heard.append(change.new), names='picked')",
    "question",
    "question",
)


@pytest.fixture(scope="module")
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    context = browser.new_context(viewport={"width": 1300, "height": 1100}, color_scheme="light")
    notebook = lab.open(context.new_page(), lab.write("question.ipynb", *CELLS))
    notebook.run_all()
    yield notebook
    context.close()


def views(notebook: Notebook) -> list[Locator]:
    found = [notebook.page.locator(f".jp-Notebook .jp-Cell >> nth={i} >> css={ROOT}") for i in (1, 2)]
    for one in found:
        one.wait_for()
    return found


def until(notebook: Notebook, expression: str, told: str) -> None:
    """A second change is held back in the browser until the kernel is done with the first."""
    for _ in range(100):
        if notebook.ask(expression) == told:
            return
        notebook.page.wait_for_timeout(50)
    assert notebook.ask(expression) == told


def test_the_kernel_hears_a_pick_at_once_and_all_views_show_it(notebook: Notebook) -> None:
    first, second = views(notebook)
    cell(first, 1, 3).click()
    expect(second.locator(".answer")).to_contain_text("your cell: row 1, position 3")
    notebook.page.wait_for_timeout(100)
    assert notebook.ask("question.picked") == "[1, 3]"
    for key in ("ArrowDown", "ArrowLeft", "Enter"):
        notebook.page.keyboard.press(key)
    expect(second.locator(".answer")).to_contain_text("your cell: row 2, position 2")
    until(notebook, "heard", "[[1, 3], [2, 2]]")
    notebook.page.keyboard.press("Space")
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == len(CELLS), "JupyterLab took none of these keys"


def test_the_kernel_locks_and_marks(notebook: Notebook) -> None:
    first, second = views(notebook)
    assert notebook.tell("question.pick = True; question.picked = [1, 1]") == ""
    for one in (first, second):
        expect(one.locator(".answer")).to_contain_text("your cell: row 1, position 1")
    assert notebook.tell("question.pick = False; question.mark = [1, 4]") == ""
    for one in (first, second):
        expect(one).to_have_attribute("data-pick", "locked")
        expect(one.locator(".answer")).to_have_text("your cell: row 1, position 1; it happens here: row 1, position 4")
    cell(first, 2, 2).click()
    notebook.page.keyboard.press("Enter")
    notebook.page.wait_for_timeout(200)
    assert notebook.ask("question.picked") == "[1, 1]"
    assert (marked(first, "data-picked"), marked(second, "data-mark")) == ([[1, 1]], [[1, 4]])
    assert notebook.tell("question.mark = []; question.pick = True") == ""
    expect(first).to_have_attribute("data-pick", "open")
