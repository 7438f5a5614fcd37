"""The static player in a real browser, opened from the disk: every hook, every key, every odd trace."""

import base64
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from reqpool import scenarios
from reqpool.faulty import FreedTwice, NoResetOnReuse
from reqpool.player import to_html
from reqpool.player.page import to_fragment, to_frame
from reqpool.pool import Req, ReqToTokenPool
from reqpool.trace import Snapshot, Trace, record
from reqpool.views import caption
from tests.browser.conftest import OpenStatic
from tests.browser.stories import READ_CELLS, SCRIPT, busy, late_step, picture, slots, story

ROOT = ".reqpool-player"
BUTTONS = ("First step", "Step back", "Play", "Step forward", "Last step", "Large type")


def step(page: Page) -> int:
    return int(page.get_attribute(ROOT, "data-step") or -1)


def detail(page: Page) -> str:
    return page.inner_text(f"{ROOT} .detail")


def cells(page: Page) -> list[tuple]:
    return [tuple(cell) for cell in page.eval_on_selector(ROOT, READ_CELLS)]


def scrub(page: Page, k: int) -> None:
    page.get_by_label("Step", exact=True).fill(str(k))


def test_hooks(open_static: OpenStatic) -> None:
    trace = story()
    page = open_static(trace)
    root = page.locator(ROOT)
    assert [root.get_attribute(f"data-{name}") for name in ("step", "last-step", "playing")] == [
        "0",
        str(len(trace)),
        "false",
    ]
    assert root.locator("button").all_inner_texts() == list(BUTTONS)
    expect(page.get_by_role("slider", name="Step", exact=True)).to_have_attribute("type", "range")
    expect(page.get_by_role("status")).to_contain_text(caption(trace, 0))
    expect(page.get_by_role("grid")).to_be_visible()
    assert page.title() == "<a trace>"


def test_the_picture_equals_the_tensor_at_every_step_and_back(open_static: OpenStatic) -> None:
    trace = busy(8, 16, 60)
    page = open_static(trace)
    page.focus(ROOT)
    for k in [*range(1, len(trace) + 1), *range(len(trace) - 1, -1, -1)]:
        page.keyboard.press("ArrowRight" if k > step(page) else "ArrowLeft")
        assert step(page) == k
        assert cells(page) == picture(trace, k)


def test_the_picture_equals_the_tensor_after_any_jump(open_static: OpenStatic) -> None:
    trace = busy(16, 64, 200)
    page = open_static(trace)
    for k in (200, 3, 117, 116, 0, 199):
        scrub(page, k)
        assert cells(page) == picture(trace, k)


def test_captions_free_rows_and_lengths_are_the_step_s(open_static: OpenStatic) -> None:
    trace = story()
    page = open_static(trace)
    for k in range(len(trace) + 1):
        scrub(page, k)
        kind = trace[k - 1].kind if k else "start"
        assert page.inner_text("[role=status]") == f"step {k} of {len(trace)} {kind}: {caption(trace, k)}"
        snapshot = trace.snapshot(k)
        assert page.locator(".chip").all_inner_texts() == [str(row) for row in snapshot.free]
        numbers = page.locator(".numbers").all_inner_texts()
        lengths = zip(snapshot.verified, snapshot.alloced, strict=True)
        assert numbers[1:] == [f"{verified}/{alloced}" for verified, alloced in lengths][1:]


def test_buttons_and_keys_step(open_static: OpenStatic) -> None:
    trace = story()
    page, last = open_static(trace), len(trace)
    for name, want in (("Step forward", 1), ("Last step", last), ("Step forward", last), ("Step back", last - 1)):
        page.get_by_role("button", name=name).click()
        assert step(page) == want
    page.get_by_role("button", name="First step").click()
    page.get_by_role("button", name="Step back").click()
    assert step(page) == 0
    page.focus(ROOT)
    for key, want in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last), ("Home", 0)):
        page.keyboard.press(key)
        assert step(page) == want
    page.get_by_label("Step", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert step(page) == 1, "once, and not by the slider and the player both"


def test_play_and_pause(open_static: OpenStatic) -> None:
    trace = story()
    page = open_static(trace, speed=20)
    page.get_by_role("button", name="Last step").click()
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector(f"{ROOT}[data-playing=true]")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.wait_for_selector(f"{ROOT}[data-step='{len(trace)}'][data-playing=false]")  # from the start to the end
    page.get_by_role("button", name="First step").click()
    page.focus(ROOT)
    page.keyboard.press("Space")
    assert page.get_attribute(ROOT, "data-playing") == "true"
    page.keyboard.press("Space")
    at = step(page)
    page.wait_for_timeout(200)
    assert (step(page), page.get_attribute(ROOT, "data-playing")) == (at, "false")


def test_a_hand_on_the_controls_ends_the_playing(open_static: OpenStatic) -> None:
    page = open_static(busy(8, 16, 60))
    page.get_by_role("button", name="Play").click()
    scrub(page, 30)
    assert (step(page), page.get_attribute(ROOT, "data-playing")) == (30, "false")


def test_space_on_a_button_is_the_button_s(open_static: OpenStatic) -> None:
    page = open_static(story())
    page.get_by_role("button", name="Step forward").focus()
    page.keyboard.press("Space")
    assert (step(page), page.get_attribute(ROOT, "data-playing")) == (1, "false")
    page.get_by_role("button", name="Play").focus()
    page.keyboard.press("Space")
    assert page.get_attribute(ROOT, "data-playing") == "true"


def test_pointing_at_a_cell_names_its_slot_and_back(open_static: OpenStatic) -> None:
    page = open_static(story())
    scrub(page, 3)
    page.hover("[data-row='1'][data-position='2']")
    assert detail(page) == "row 1 (a), position 2 → slot 3, live, verified"
    expect(page.locator("[data-kv-slot='3']")).to_have_class("slot held lit")
    page.hover("[data-row='1'][data-position='3']")
    assert detail(page) == "row 1 (a), position 3 → slot 4, live, not yet verified"
    page.hover("[data-kv-slot='2']")
    assert detail(page) == "slot 2 ← row 1 (a), position 1, live, verified"
    expect(page.locator("[data-row='1'][data-position='1']")).to_have_class("cell lit")
    page.hover("[data-kv-slot='7']")
    assert detail(page) == "slot 7: in no cell"
    page.mouse.move(0, 0)
    assert page.locator(".lit").count() == 0


def test_arrows_move_between_cells_only_inside_the_table(open_static: OpenStatic) -> None:
    page = open_static(story())
    scrub(page, 3)
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowLeft")
    assert step(page) == 2
    page.keyboard.press("Enter")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert (step(page), detail(page)) == (2, "row 1 (a), position 1 → slot 2, live, not yet verified")
    expect(page.locator("[data-kv-slot='2']")).to_have_class("slot held now lit")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert step(page) == 3


@pytest.mark.parametrize("name", [None, "Step"])
def test_enter_on_the_player_goes_into_the_table(open_static: OpenStatic, name: str | None) -> None:
    page = open_static(story())
    (page.get_by_label(name, exact=True) if name else page.locator(ROOT)).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("[document.activeElement.dataset.row, document.activeElement.dataset.position]") == ["1", "0"]
    assert (step(page), detail(page)) == (0, "row 1 (free), position 0: empty")
    page.keyboard.press("Space")
    assert page.get_attribute(ROOT, "data-playing") == "true"


def test_a_key_that_is_not_the_player_s_passes_without_the_mark(open_static: OpenStatic) -> None:
    page = open_static(story())
    page.evaluate(
        """() => { window.passed = []; document.addEventListener("keydown", ({ key, target }) => {
             passed.push(key, target.closest("[data-lm-suppress-shortcuts]") !== null); }); }"""
    )
    for target in (page.get_by_role("button", name="Step back"), page.get_by_label("Step", exact=True)):
        target.focus()
        for key in ("Control+b", "Shift+Enter", "b", "ArrowRight", "Escape"):
            page.keyboard.press(key)
        page.wait_for_timeout(50)
        assert page.locator("[data-lm-suppress-shortcuts=true]").count() == 2, "the marks are back"
    passed = page.evaluate("passed")
    foreign = [*("Control", False), *("b", False), *("Shift", False), *("Enter", False), *("b", False)]
    assert passed == [*foreign, *("Escape", False)] * 2, "what the player uses goes no further"
    assert step(page) == 2


def test_after_a_click_on_a_cell_the_arrows_step_and_enter_begins_there(open_static: OpenStatic) -> None:
    page = open_static(story())
    scrub(page, 3)
    page.click("[data-row='2'][data-position='1']")
    page.keyboard.press("ArrowLeft")
    assert step(page) == 2
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    assert (step(page), page.evaluate("document.activeElement.dataset.position")) == (2, "0")


def doubled(rows: int = 3, columns: int = 6) -> Trace:
    """A live cell that says slot 0, one slot twice in a row, and one in two rows."""
    pool = ReqToTokenPool(rows, columns, device="cpu")
    with record(pool) as trace:
        a, b = Req("a"), Req("b")
        pool.alloc([a, b])
        pool.append(a, slots(1, 102, 0, 4))
        pool.append(b, slots(102, 5, 5))
        trace.emit("note", text="two are wrong", wrong=[(1, 1), (2, 0)])
        pool.free(a)
    return trace


ODD = """(root) => [...root.querySelectorAll("[data-odd][data-row]")]
  .map(({dataset: d}) => `${d.row} ${d.position} ${d.odd}`).sort()"""


@pytest.mark.parametrize("columns", [6, 1000])
def test_a_slot_that_is_there_twice_or_is_the_dummy_is_marked_in_live_cells(
    open_static: OpenStatic, columns: int
) -> None:
    page = open_static(doubled(3, columns))
    for k, marked in {
        0: [],
        2: ["1 2 !"],
        3: ["1 1 ×2", "1 2 !", "2 0 ×2", "2 1 ×2", "2 2 ×2"],
        5: ["2 1 ×2", "2 2 ×2"],
    }.items():
        scrub(page, k)
        assert page.eval_on_selector(ROOT, ODD) == marked
    scrub(page, 3)
    for name in ("position 2, slot 0, live, the dummy slot", "position 1, slot 5, live, in 2 cells"):
        assert page.get_by_role("gridcell", name=name).count() == 1
    page.hover("[data-row='1'][data-position='2']")
    assert detail(page).endswith("→ slot 0, live, not yet verified; a fault: slot 0 is the dummy slot")
    page.hover("[data-row='1'][data-position='1']")
    assert detail(page).endswith("; a fault, or shared: also in row 2 (b), position 0")
    chips = page.locator(".slot[data-odd]")
    assert chips.evaluate_all("(all) => all.map((one) => [one.dataset.kvSlot, one.dataset.odd])") == [
        ["0", "!"],
        ["5", "×2"],
        ["102", "×2"],
    ]
    expect(page.locator("[data-kv-slot='0']")).to_have_class("slot dummy")


def test_slot_0_is_said_by_the_padding_row_s_cells_and_by_live_ones_as_a_fault(open_static: OpenStatic) -> None:
    page = open_static(doubled())
    for k, want in ((0, ""), (2, "; a fault, live: row 1 (a), position 2"), (5, "")):
        scrub(page, k)
        page.hover("[data-kv-slot='0']")
        assert detail(page) == f"slot 0, the dummy slot ← row 0 (padding row), all its cells{want}"
    assert page.locator("[data-row='0'].lit").count() == 6


def without_slots() -> Trace:
    """Two live cells that say -1, as a step writes it that stores nothing."""
    pool = ReqToTokenPool(2, 6, device="cpu")
    with record(pool) as trace:
        a, b = Req("a"), Req("b")
        pool.alloc([a, b])
        pool.append(a, slots(1, 2))
        pool.append(b, slots(3))
        pool.write((1, 1), -1)
        pool.write((2, 0), -1)
        pool.free(a)
    return trace


def test_no_slot_at_all_in_a_live_cell_is_marked_and_not_taken_for_a_shared_one(open_static: OpenStatic) -> None:
    page = open_static(without_slots())
    assert [event.kind for event in without_slots()] == ["alloc", "append", "append", "write", "write", "free"]
    none = page.locator(".legend").get_by_text("−1 in a live cell: no slot at all")
    for k, marked in {3: [], 4: ["1 1 !"], 5: ["1 1 !", "2 0 !"], 6: ["2 0 !"]}.items():
        scrub(page, k)
        assert page.eval_on_selector(ROOT, ODD) == marked
        expect(none).to_be_visible(visible=k > 3)
    expect(page.locator(".legend").get_by_text("slot in two live cells")).to_be_hidden()
    assert page.get_by_role("gridcell", name="position 0, slot -1, live, no slot at all").count() == 1
    page.hover("[data-row='2'][data-position='0']")
    assert detail(page).endswith("→ slot -1, live, not yet verified; a fault: -1 is no slot at all")


INK = """(cell) => {
  const text = document.createRange();
  text.selectNodeContents(cell);
  const [digits, box] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
  const both = ["::before", "::after"].map((which) => getComputedStyle(cell, which));
  const marks = both.filter((one) => one.content !== "none");
  const size = parseFloat(getComputedStyle(cell).fontSize);
  return {
    from: (digits.top + digits.bottom) / 2 - 0.42 * size - box.top,
    to: (digits.top + digits.bottom) / 2 + 0.42 * size - box.top,
    room: box.height - 3,
    mark: Math.max(...marks.map((mark) => parseFloat(mark.top) + parseFloat(mark.lineHeight))),
  };
}"""


@pytest.mark.parametrize("rows", [3, 30])
def test_the_marks_of_a_cell_cover_no_digit(open_static: OpenStatic, rows: int, shots: Path) -> None:
    page = open_static(doubled(rows), step=4)
    page.wait_for_selector(".cell[data-wrong]")
    for cell in page.locator(".cell[data-wrong], .cell[data-odd]").all():
        ink = cell.evaluate(INK)
        assert ink["mark"] <= ink["from"] and ink["to"] <= ink["room"], ink
    page.screenshot(path=shots / f"page-marks-{rows}.png")


def named(*rids: str) -> Trace:
    pool = ReqToTokenPool(len(rids), 2, device="cpu")
    with record(pool) as trace:
        for rid in rids:
            req = Req(rid)
            pool.alloc([req])
            pool.append(req, slots(1))
    return trace


def test_names_are_text_whatever_is_in_them(open_static: OpenStatic) -> None:
    names = (SCRIPT, "", "\N{SNAKE}\N{FLAG IN HOLE} rid", "x" * 200, "a & b", "\ud800", *map(str, range(20)))
    trace = named(*names)
    page = open_static(trace)
    scrub(page, 1)
    assert caption(trace, 1) in page.inner_text("[role=status]")
    page.get_by_role("button", name="Last step").click()
    page.hover("[data-row='1'][data-position='0']")
    assert SCRIPT in detail(page)
    owners = page.locator(".body .name").all_text_contents()
    assert owners[1:6] == [SCRIPT, "(empty name)", *names[2:5]]
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing but the table scrolls sideways"


def test_owners_beyond_six_carry_a_second_sign(open_static: OpenStatic) -> None:
    page = open_static(named(*"abcdefgh"))
    page.get_by_role("button", name="Last step").click()
    signs = page.eval_on_selector_all(
        "[data-state=live]", "(cells) => cells.map((c) => getComputedStyle(c).borderBottomStyle)"
    )
    assert signs == ["solid"] * 6 + ["dashed"] * 2


def test_two_owners_of_a_row_are_marked(open_static: OpenStatic) -> None:
    pool = ReqToTokenPool(3, 4, device="cpu")
    pool.alloc([Req("a")])
    with record(pool) as trace:
        pool.free_slots.appendleft(1)  # a fault: row 1 is among the free rows and handed out
        pool.alloc([Req("b")])
    page = open_static(trace, step=len(trace))
    assert "two owners" in page.inner_text("[role=row]:has([data-row='1'])")


def test_late_writes_are_marked_in_words(open_static: OpenStatic) -> None:
    pool = ReqToTokenPool(3, 4, device="cpu")
    with record(pool) as trace:
        pool.verified_lens[0] = 1
        pool.verified_lens[2] = 1
        pool.alloc([Req("a")])
        pool.alloced_lens_cpu[1] = 3
    page = open_static(trace, step=len(trace))
    rows = page.locator(".body .lengths").all_inner_texts()
    assert ["dummy write" in rows[0], "host mirror 3" in rows[1], "late write" in rows[2]] == [True] * 3


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (5, 1)])
def test_small_tables_and_no_events(open_static: OpenStatic, rows: int, columns: int) -> None:
    pool = ReqToTokenPool(rows, columns, device="cpu")
    with record(pool) as trace:
        pass
    page = open_static(trace)
    for name in BUTTONS:
        page.get_by_role("button", name=name).click()
    assert (step(page), page.get_attribute(ROOT, "data-playing")) == (0, "false")
    assert cells(page) == picture(trace, 0)


def test_many_free_rows_are_cut(open_static: OpenStatic) -> None:
    page = open_static(busy(40, 2, 1))
    assert page.inner_text(".free").endswith("10 11 12 … and 28 more")


def test_a_canvas_shows_what_changed_as_elements(open_static: OpenStatic) -> None:
    trace = busy(64, 256, 300)
    page = open_static(trace)
    assert page.locator(".row[data-row]").count() == 65
    for k in (300, 150, 151, 4):
        scrub(page, k)
        assert cells(page) == [cell for cell in picture(trace, k) if cell[4]]
    row, position, slot = next(cell[:3] for cell in picture(trace, 151) if cell[4])
    scrub(page, 151)
    page.hover(f"[data-row='{row}'][data-position='{position}']")
    assert f"row {row}" in detail(page) and f"position {position} → slot {slot}, live" in detail(page)
    page.get_by_role("grid").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert detail(page).startswith(("row 1 (r", "row 1 (free)")) and ", position 0" in detail(page)
    assert page.evaluate("document.activeElement.dataset.row") == "1"


def test_a_tall_canvas_makes_the_rows_in_view(open_static: OpenStatic) -> None:
    pool = ReqToTokenPool(6000, 8, device="cpu")
    with record(pool) as trace:
        pool.alloc_rows(5000)
        req = Req("deep")
        pool.alloc([req])
        pool.append(req, slots(9))
    page = open_static(trace, step=len(trace))
    page.wait_for_selector("[data-row='5001'][data-position='0'][data-changed]")
    assert page.locator(".row[data-row]").count() < 300


@pytest.mark.parametrize(("rows", "columns"), [(60, 6), (300, 40), (300, 300)])
def test_the_positions_stay_in_view_when_a_tall_table_scrolls(open_static: OpenStatic, rows: int, columns: int) -> None:
    page = open_static(busy(rows, columns, 20))
    page.set_viewport_size({"width": 1000, "height": 700})
    grid = page.get_by_role("grid")
    assert grid.evaluate("(grid) => grid.offsetHeight < 0.8 * innerHeight && grid.scrollHeight > grid.clientHeight")
    grid.evaluate("(grid) => { grid.scrollTop = 500; }")
    page.wait_for_timeout(100)
    top = "(element) => element.getBoundingClientRect().top"
    assert page.locator(".header").evaluate(top) == grid.evaluate(top)
    assert page.locator(".header .position").nth(2).inner_text() != ""
    assert 10 < page.locator(".row[data-row], .body .row").count() <= 150


def test_wrong_cells_come_into_view(open_static: OpenStatic) -> None:
    pool = ReqToTokenPool(60, 40, device="cpu")
    with record(pool) as trace:
        trace.emit("note", text="far away", wrong=[(55, 38)])
        pool.write((1, slots(0)), slots(3))
    page = open_static(trace)
    page.set_viewport_size({"width": 600, "height": 600})
    seen = """(cell) => { const [a, b] = [cell, cell.closest(".grid")].map((one) => one.getBoundingClientRect());
      return a.top > b.top + 20 && a.bottom <= b.bottom && a.left > b.left + 100 && a.right <= b.right - 90; }"""
    for k in (1, 2, 1):
        scrub(page, k)
        page.wait_for_timeout(150)
        where = (1, 0) if k == 2 else (55, 38)
        assert page.locator(f"[data-row='{where[0]}'][data-position='{where[1]}']").evaluate(seen)


def test_the_legend_says_what_the_time_line_and_the_bar_mean(open_static: OpenStatic) -> None:
    page = open_static(doubled())
    legend = page.locator(".legend")
    for words in ("time line: rows change hands; given back; refused, or a late write; anything else", "bar: verified"):
        expect(legend).to_contain_text(words)
    odd = legend.get_by_text("slot in two live cells")
    expect(odd).to_be_hidden()
    scrub(page, 3)
    expect(odd).to_be_visible()


def test_a_large_table_is_an_aggregate_in_words(open_static: OpenStatic) -> None:
    page = open_static(busy(1024, 64, 30))
    page.get_by_role("button", name="Last step").click()
    expect(page.get_by_role("grid")).to_contain_text("1,025 rows × 64 positions = 65,600 cells")
    expect(page.get_by_role("grid")).to_contain_text("aggregate")


def test_a_broken_tape_is_one_sentence(page: Page, tmp_path: Path) -> None:
    for i, broken in enumerate(("!", "AAAA", "eJwrSS0uAQAEXQHB")):
        fragment = to_fragment(story())
        start = fragment.index('data-tape="') + len('data-tape="')
        path = tmp_path / f"{i}.html"
        path.write_text(fragment[:start] + broken + fragment[fragment.index('"', start) :], encoding="utf-8")
        page.goto(path.as_uri())
        expect(page.get_by_role("status")).to_contain_text("The trace could not be unpacked")


def test_an_old_browser_is_one_sentence(page: Page, open_static: OpenStatic, tmp_path: Path) -> None:
    page.add_init_script("delete window.DecompressionStream")
    path = tmp_path / "old.html"
    path.write_text(to_html(story()), encoding="utf-8")
    page.goto(path.as_uri())
    expect(page.get_by_role("status")).to_contain_text("no DecompressionStream")


def test_players_on_one_page_leave_each_other_alone(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "two.html"
    path.write_text("<meta charset=utf-8>" + to_fragment(story()) * 2 + to_fragment(busy(4, 4, 9)), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('{ROOT}[data-step]').length === 3")
    page.locator("button", has_text="Step forward").nth(1).click()
    assert page.eval_on_selector_all(ROOT, "(all) => all.map((one) => one.dataset.step)") == ["0", "1", "0"]


def test_players_of_one_group_move_together(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "pair.html"
    pair = [to_fragment(trace, group="a 'pair'", speed=20) for trace in (busy(4, 4, 9), busy(5, 4, 14))]
    path.write_text("<meta charset=utf-8>" + "".join(pair) + to_fragment(story()), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('{ROOT}[data-step]').length === 3")

    def steps() -> list[str]:
        return page.eval_on_selector_all(ROOT, "(all) => all.map((one) => one.dataset.step)")

    page.locator("button", has_text="Step forward").nth(0).click()
    assert steps() == ["1", "1", "0"]
    page.locator("button", has_text="Play").nth(1).click()
    page.wait_for_selector(f"{ROOT}[data-step='14'][data-playing=false]")
    assert steps() == ["9", "14", "0"], "the shorter one waits at its end"
    page.locator("button", has_text="Step back").nth(0).click()
    assert steps() == ["8", "8", "0"]


LETTERS = """(root) => [...root.querySelectorAll('.recital p:not([data-unsaid])')].map((line) => [
  line.querySelector('.label').textContent,
  line.querySelector('.letters').textContent,
  [...line.querySelectorAll('[data-wrong]')].map((letter) => letter.textContent).join(''),
  line.querySelector('.letters').ariaLabel])"""


def recited(page: Page) -> list[tuple]:
    """Label, text, wrong letters, words: of each line that is shown."""
    return [tuple(line) for line in page.eval_on_selector(ROOT, LETTERS)]


def test_texts_are_the_latest_at_or_before_the_step(open_static: OpenStatic) -> None:
    page = open_static(late_step(NoResetOnReuse))
    a, b = ("request a recites", "fox", "", "fox"), "request b recites"
    want = {1: [], 2: [("request a recites", "nothing yet", "", "nothing yet")], 4: [a], 10: [a]}
    want |= {11: [a, (b, "xy", "", "xy")], 13: [a, (b, "xywwv", "wv", "xywwv: letters 3 and 5 are wrong")]}
    for k in (*want, *reversed(want)):
        scrub(page, k)
        assert recited(page) == want[k], k
    assert page.locator(".recital").get_attribute("aria-label") == "What the requests recite"


def reciting(*steps: tuple) -> Trace:
    pool = ReqToTokenPool(1, 2, device="cpu")
    with record(pool) as trace:
        for texts in steps:
            trace.emit("note", text="a text", texts=texts)
    return trace


def test_wrong_letters_are_said_in_ranges_and_marked_without_colour(open_static: OpenStatic) -> None:
    page = open_static(
        reciting(
            [("a", "xyzwx", (2,)), ("b", "xyzwx", (4, 3, 0)), ("c", "", ()), (SCRIPT, "<b>\N{SNAKE}s", (3,))],
            [("b", "xy", ())],
        )
    )
    scrub(page, 1)
    assert [line[1:] for line in recited(page)] == [
        ("xyzwx", "z", "xyzwx: letter 3 is wrong"),
        ("xyzwx", "xwx", "xyzwx: letters 1 and 4 to 5 are wrong"),
        ("nothing yet", "", "nothing yet"),
        ("<b>\N{SNAKE}s", "\N{SNAKE}", "<b>\N{SNAKE}s: letter 4 is wrong"),
    ]
    assert page.get_by_role("img", name="xyzwx: letter 3 is wrong").is_visible()
    looks = page.locator(".letters [data-wrong]").first.evaluate(
        "(e) => [getComputedStyle(e).textDecorationLine, getComputedStyle(e).textDecorationStyle,"
        " getComputedStyle(e, '::after').content]"
    )
    assert looks == ["underline", "wavy", '"\N{BALLOT X}"']
    scrub(page, 2)
    assert [line[:2] for line in recited(page)] == [("request b recites", "xy")], "lines may go, too"
    assert page.evaluate("window.hacked") is None


def test_nothing_is_recited_and_no_lane_drawn_where_no_event_tells(open_static: OpenStatic) -> None:
    page = open_static(story(), step=5)
    assert page.locator(".recital").is_hidden()
    assert page.locator(".lanes, .arrow, .track").count() == 0
    assert page.locator(".differs").is_hidden()


def test_long_texts_wrap_and_keep_their_room(open_static: OpenStatic) -> None:
    text = "abcdefghij" * 40
    page = open_static(reciting([("a", "", ())], [("a", text, (399,))]))
    page.set_viewport_size({"width": 420, "height": 800})
    scrub(page, 2)
    box = page.locator(".letters").bounding_box()
    assert box is not None and box["height"] > 200
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    where = "(button) => button.getBoundingClientRect().top"
    button = page.get_by_role("button", name="Play")
    low = button.evaluate(where)
    for k in (1, 0):
        scrub(page, k)
        assert button.evaluate(where) == low, "the buttons stay where they are"


def test_two_lanes_share_the_time_line(open_static: OpenStatic) -> None:
    trace = late_step()
    page = open_static(trace)
    schedule, forward = (page.locator(f"[data-lane={name}]") for name in ("schedule", "forward"))
    assert [lane.get_attribute("data-events") for lane in (schedule, forward)] == ["2", "4"]
    assert page.locator(".lanes .label").all_inner_texts() == ["time", "schedule lane", "forward lane"]
    slider = page.get_by_label("Step", exact=True)
    for k in range(len(trace) + 1):
        scrub(page, k)
        lane = dict(trace[k - 1].facts).get("lane") if k else None
        now = page.locator(".track[data-now]")
        assert now.evaluate_all("(all) => all.map((one) => one.dataset.lane)") == ([lane] if lane else [])
        if lane:
            thumb = slider.evaluate(
                "(s) => { const box = s.getBoundingClientRect();"
                " return box.left + 9 + (box.width - 18) * s.value / s.max; }"
            )
            here = now.locator(".here").bounding_box()
            assert here is not None and abs(here["x"] + here["width"] / 2 - thumb) < 1
    assert schedule.get_attribute("aria-label") == "schedule lane: 2 of 2 events played"
    assert forward.get_attribute("aria-label") == "forward lane: 4 of 4 events played; now: note"
    scrub(page, 4)
    assert schedule.get_attribute("aria-label") == "schedule lane: 1 of 2 events played"
    assert "of 4 events" in (forward.get_attribute("aria-label") or "")


def test_a_hand_on_a_lane_moves_the_step(open_static: OpenStatic) -> None:
    page = open_static(late_step())
    box = page.locator("[data-lane=forward]").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 7 / 13, box["y"] + 9)
    assert step(page) == 7


ARROW = """(root) => {
  const box = (element) => element.getBoundingClientRect();
  const [lane, heads] = [box(root.querySelector("[data-lane=forward] .here")), box(root.querySelector(".heads"))];
  const shaft = box(root.querySelector(".shaft"));
  const row = box(root.querySelector(".head[data-hit]"));
  return {
    start: Math.abs(shaft.top - lane.bottom) < 3 && Math.abs(shaft.right - (lane.left + lane.right) / 2) < 3,
    end: Math.abs((heads.top + heads.bottom) / 2 - (row.top + row.bottom) / 2) < 3,
    clear: heads.left >= box(root).left && heads.right <= row.left + 3,
  };
}"""


@pytest.mark.parametrize("width", [420, 1200])
def test_a_late_write_is_an_arrow_into_its_row_at_its_step_only(
    open_static: OpenStatic, shots: Path, width: int
) -> None:
    trace = late_step()
    late = [event.kind for event in trace].index("late_write") + 1
    page = open_static(trace)
    page.set_viewport_size({"width": width, "height": 800})
    for k in range(len(trace) + 1):
        scrub(page, k)
        assert page.locator(".arrow").is_visible() == (k == late)
        assert page.locator(".head[data-hit]").count() == (k == late)
    scrub(page, late)
    page.wait_for_timeout(100)
    assert page.eval_on_selector(ROOT, ARROW) == {"start": True, "end": True, "clear": True}
    label = page.locator("[data-lane=forward]").get_attribute("aria-label")
    assert label == "forward lane: 2 of 4 events played; now: late write, which hits row 1"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=shots / f"page-lanes-{width}.png")


def test_the_arrow_finds_a_row_that_was_out_of_view(open_static: OpenStatic) -> None:
    pool = ReqToTokenPool(2000, 8, device="cpu")
    with record(pool) as trace:
        trace.emit("note", text="a step is launched", lane="schedule")
        pool.verified_lens[1500] += 1
        trace.emit("late_write", rows=[1500], lane="forward")
        pool.verified_lens[3] += 1  # found by comparison: it has no lane, and belongs to the forward lane
    page = open_static(trace)
    for k, row in ((2, 1500), (3, 3), (2, 1500)):
        scrub(page, k)
        page.wait_for_selector(f".row[data-row='{row}'] .head[data-hit]")
        page.wait_for_timeout(100)
        assert page.eval_on_selector(ROOT, ARROW)["end"]


def test_the_arrow_stays_at_its_row_when_the_page_gets_another_width(open_static: OpenStatic) -> None:
    pool = ReqToTokenPool(4, 24, device="cpu")
    with record(pool) as trace:
        trace.emit("note", text="a step is launched, " * 12, lane="schedule")
        pool.verified_lens[3] += 1
        trace.emit("late_write", rows=[3], lane="forward")
    page = open_static(trace)
    scrub(page, 2)
    page.wait_for_selector("[data-hit]")
    for width in (1200, 620, 1000, 420):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert page.eval_on_selector(ROOT, ARROW)["end"], width


@pytest.mark.parametrize(("rows", "columns"), [(3, 6), (64, 256)])
def test_wrong_cells_are_marked_at_their_step(open_static: OpenStatic, rows: int, columns: int) -> None:
    pool = ReqToTokenPool(rows, columns, device="cpu")
    with record(pool) as trace:
        req = Req("a")
        pool.alloc([req])
        pool.append(req, slots(4, 5, 6))
        trace.emit("note", text="two letters are wrong", rows=[1], wrong=[(1, 2), (1, 1), (2, 0)])
        pool.append(req, slots(7))
    page = open_static(trace)
    for k in (0, 3, 4, 3, 2):
        scrub(page, k)
        wrong = page.eval_on_selector_all(
            "[data-wrong][data-row]", "(all) => all.map(({dataset: d}) => `${d.row} ${d.position}`).sort()"
        )
        assert wrong == (["1 1", "1 2", "2 0"] if k == 3 else [])
    scrub(page, 3)
    assert page.inner_text("[role=status]").endswith("Wrong here: row 1, positions 1 to 2; row 2, position 0.")
    assert page.get_by_role("gridcell", name="position 1, slot 5, live, wrong").is_visible()
    page.hover("[data-row='1'][data-position='2']")
    assert detail(page) == "row 1 (a), position 2 → slot 6, live, not yet verified, wrong"


def pair(*traces: Trace) -> str:
    """Side by side where there is room, in one group."""
    players = "".join(f"<div>{to_fragment(trace, group='pair')}</div>" for trace in traces)
    style = ".pair { display: flex; flex-wrap: wrap; gap: 12px } .pair > div { flex: 1 1 400px; min-width: 0 }"
    head = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    return f"{head}<style>{style}</style><div class=pair>{players}</div>"


def open_pair(page: Page, path: Path, *traces: Trace) -> None:
    path.write_text(pair(*traces), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('{ROOT}[data-step]').length === {len(traces)}")


DIFFERING = """(root) => [...root.querySelectorAll('.cell[data-differs]')]
  .map(({dataset: d}) => `${d.row} ${d.position}`).sort()"""


def lengths_of(snapshot: Snapshot, row: int) -> tuple[int, int]:
    return int(snapshot.verified[row]), int(snapshot.alloced[row])


def unlike(one: Snapshot, other: Snapshot) -> list[list[int]]:
    """[row, position] of the cells with another slot there, of those that are live here or there."""
    found = (one.table != other.table).nonzero().tolist()
    return [[row, at] for row, at in found if at < max(lengths_of(one, row)[1], lengths_of(other, row)[1])]


def test_a_group_marks_what_differs_at_this_step(page: Page, tmp_path: Path, shots: Path) -> None:
    broken, mended = late_step(NoResetOnReuse), late_step()
    open_pair(page, tmp_path / "pair.html", broken, mended)
    for k in (*range(len(broken) + 1), 3):
        page.get_by_label("Step", exact=True).nth(k % 2).fill(str(k))
        one, other = broken.snapshot(k), mended.snapshot(k)
        cells = [f"{row} {position}" for row, position in unlike(one, other)]
        rows = [str(row) for row in range(len(one.verified)) if lengths_of(one, row) != lengths_of(other, row)]
        stale = (one.table != other.table).sum().item() - len(cells)
        for at in (0, 1):
            root = page.locator(ROOT).nth(at)
            assert root.evaluate(DIFFERING) == cells
            lengths = root.locator(".lengths[data-differs]")
            assert lengths.evaluate_all("(all) => all.map((e) => String(e.parentElement.ariaRowIndex - 2))") == rows
            said = root.locator("p.differs")
            if cells:
                assert f"{len(cells)} cell" in said.inner_text()
            if cells or rows:
                assert said.inner_text().startswith("unlike the other player: ")
            else:
                but = f", but for {stale} stale cell{'' if stale == 1 else 's'}" if stale else ""
                assert said.inner_text() == f"the table is the same as the other player's{but}"
    page.get_by_label("Step", exact=True).first.fill(str(len(broken)))
    assert page.get_by_role("note", name="row 1, positions 0 and 2, lengths of row 1").count() == 2
    for theme, width in (("light", 1000), ("dark", 1000), ("light", 420)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 640})
        page.wait_for_timeout(100)
        page.screenshot(path=shots / f"pair-{theme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def chunks(freed: bool) -> Trace:
    """A long row between two short ones; `freed`: it is given back and handed out again between its pieces."""
    pool = ReqToTokenPool(3, 11, device="cpu")
    with record(pool) as trace:
        short, long, last = Req("short"), Req("long"), Req("last")
        pool.alloc([short])
        pool.append(short, slots(1, 2))
        pool.alloc([long])
        pool.append(long, slots(21, 22, 23))
        pool.verify(long.req_pool_idx, 3)
        if freed:
            pool.free(long)
            pool.alloc([long])
        else:
            trace.emit("note", text="between two pieces")
            trace.emit("note", text="it keeps its row")
            trace.emit("note", text="and its length")
        pool.append(long, slots(*range(24, 32)))
        pool.free(long)
        pool.alloc([last])
        pool.append(last, slots(32))
        pool.free(last)
        pool.free(short)
    return trace


MARKED = """(root) => [
  [...root.querySelectorAll(".head[data-differs]")].map((one) => Number(one.innerText.match(/\\d+/)[0])),
  [...root.querySelectorAll(".chip")].map((one) => one.dataset.differs !== undefined),
]"""


def test_owners_and_free_rows_that_differ_are_said_and_marked(page: Page, tmp_path: Path) -> None:
    traces = chunks(freed=True), chunks(freed=False)
    open_pair(page, tmp_path / "pair.html", *traces)
    seen = set()
    longer = max((0, 1), key=lambda at: len(traces[at]))
    for k in range(len(traces[longer]) + 1):
        page.get_by_label("Step", exact=True).nth(longer).fill(str(k))
        both = [trace.snapshot(min(k, len(trace))) for trace in traces]
        owners = [row for row in range(1, 4) if both[0].owners.get(row, ()) != both[1].owners.get(row, ())]
        for at, (mine, theirs) in enumerate((both, both[::-1])):
            root = page.locator(ROOT).nth(at)
            said = root.locator("p.differs").inner_text()
            queue = [theirs.free[i : i + 1] != (row,) for i, row in enumerate(mine.free)]
            assert root.evaluate(MARKED) == [owners, queue], k
            assert ("free rows" in said) == (mine.free != theirs.free), k
            assert (f"{len(owners)} owner" in said) == bool(owners), k
        seen.add((bool(owners), both[0].free != both[1].free))
    assert {(True, True), (False, True), (False, False)} <= seen, "each of them was there to be seen"


def test_stale_cells_that_differ_are_told_and_not_marked(page: Page, tmp_path: Path) -> None:
    def end(*numbers: int) -> Trace:
        pool, req = ReqToTokenPool(2, 4, device="cpu"), Req("a")
        with record(pool) as trace:
            pool.alloc([req])
            pool.append(req, slots(*numbers))
            pool.free(req)
        return trace

    open_pair(page, tmp_path / "pair.html", end(1, 2), end(1, 3))
    for k, words in (
        (2, "unlike the other player: 1 cell"),
        (3, "the same as the other player's, but for 1 stale cell"),
    ):
        page.get_by_label("Step", exact=True).first.fill(str(k))
        for at in (0, 1):
            expect(page.locator("p.differs").nth(at)).to_contain_text(words)
            assert page.locator(ROOT).nth(at).evaluate(DIFFERING) == (["1 1"] if k == 2 else [])


def test_the_mark_of_what_differs_is_there_once_in_a_cell(page: Page, tmp_path: Path) -> None:
    open_pair(page, tmp_path / "pair.html", late_step(NoResetOnReuse), late_step())
    page.get_by_label("Step", exact=True).first.fill("13")
    style = "(all) => all.map((one) => getComputedStyle(one).backgroundRepeat)"
    repeats = page.eval_on_selector_all("[data-differs], .sample.unlike", style)
    assert repeats and set(repeats) <= {"no-repeat", "repeat"}
    assert page.eval_on_selector_all(".cell[data-differs], .sample.unlike", style).count("repeat") == 0


WHOLE = """(root) => {
  const grid = root.querySelector(".grid");
  const digits = [...root.querySelectorAll(".body .cell")].every((cell) => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    return text.getBoundingClientRect().width <= cell.clientWidth;
  });
  return digits && grid.scrollWidth <= grid.clientWidth && grid.dataset.more === undefined;
}"""


@pytest.mark.parametrize(("width", "halves"), [(1060, 2), (718, 1), (560, 1), (620, 1)])
def test_cells_shrink_before_the_table_scrolls(page: Page, tmp_path: Path, width: int, halves: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_pair(page, tmp_path / "pair.html", *[chunks(freed=True)] * halves)
    page.get_by_label("Step", exact=True).first.fill("8")
    assert page.eval_on_selector_all(ROOT, f"(all) => all.map({WHOLE})") == [True] * halves


def test_what_is_cut_at_the_right_fades_until_it_is_reached(open_static: OpenStatic) -> None:
    page = open_static(busy(8, 64, 40))
    grid = page.get_by_role("grid")
    expect(grid).to_have_attribute("data-more", "")
    grid.evaluate("(grid) => { grid.scrollLeft = grid.scrollWidth; }")
    expect(grid).not_to_have_attribute("data-more", "")


@pytest.mark.parametrize("width", [530, 900])
def test_an_owner_by_count_is_read_in_full(page: Page, tmp_path: Path, width: int) -> None:
    pool = ReqToTokenPool(1, 2, device="cpu")
    with record(pool) as trace:
        pool.alloc_rows(1)
    page.set_viewport_size({"width": width, "height": 700})
    open_pair(page, tmp_path / "pair.html", trace)
    page.get_by_label("Step", exact=True).fill("1")
    name = page.locator(".body .name").nth(1)
    assert name.inner_text() == "by count"
    assert name.evaluate("(one) => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize("width", [1000, 700])
def test_players_one_above_the_other_have_one_legend(page: Page, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    open_pair(page, tmp_path / "pair.html", late_step(NoResetOnReuse), late_step())
    seen = [legend.is_visible() for legend in page.locator(".legend").all()]
    assert seen == [width == 1000, True]
    assert page.locator(".legend .sample.wrong").last.is_visible(), "what only the first one has is in it"


def test_tables_of_a_group_begin_at_the_same_height(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1000, "height": 700})
    open_pair(page, tmp_path / "pair.html", late_step(NoResetOnReuse), late_step())
    first = None
    for k in range(14):
        page.get_by_label("Step", exact=True).first.fill(str(k))
        tops = page.eval_on_selector_all(".grid", "(all) => all.map((grid) => grid.getBoundingClientRect().top)")
        first = first or tops
        assert tops == first and tops[0] == tops[1], k


PLACES = """(root) => [".grid", ".detail", ".transport", ".legend"].map((one) =>
  Math.round(10 * (root.querySelector(one).getBoundingClientRect().top - root.getBoundingClientRect().top)))"""

READABLE = """(root) => {
  const grid = root.querySelector(".grid");
  return [...root.querySelectorAll(".lengths")].every((one) => {
    const [a, b] = [one, grid].map((element) => element.getBoundingClientRect());
    const whole = one.scrollWidth <= one.clientWidth && one.scrollHeight <= a.height + 1;
    return whole && grid.scrollLeft === 0 && a.right <= b.right + 0.5;
  });
}"""


@pytest.mark.parametrize("width", [420, 440, 470, 500, 620])
def test_in_a_narrow_pair_nothing_jumps_and_every_length_is_read(page: Page, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": 2 * width + 28, "height": 900})
    traces = [scenarios.free_twice(kind) for kind in (FreedTwice, ReqToTokenPool)]
    open_pair(page, tmp_path / "pair.html", *traces)
    page.add_style_tag(content="::-webkit-scrollbar { width: 12px; height: 12px }")
    assert abs(page.locator(ROOT).first.evaluate("(root) => root.offsetWidth") - width) < 4
    first = None
    for k in range(len(traces[0]) + 1):
        page.get_by_label("Step", exact=True).first.fill(str(k))
        places = page.eval_on_selector_all(ROOT, f"(all) => all.map({PLACES})")
        first = first or places
        assert places == first, k
        assert places[0][0] == places[1][0], "the tables begin at the same height"
        assert page.eval_on_selector_all(ROOT, f"(all) => all.map({READABLE})") == [True, True], k
    lengths = page.locator(ROOT).first.locator(".body .lengths")
    assert lengths.nth(0).inner_text() == "no length counts here"
    assert "two owners" in lengths.nth(1).inner_text()
    lefts = page.eval_on_selector_all(".body .lengths", "(all) => all.map((one) => one.getBoundingClientRect().left)")
    assert len({round(left) for left in lefts}) == 2, "one column in each"


def open_frame(page: Page, path: Path, html: str) -> None:
    page.set_viewport_size({"width": 1000, "height": 700})
    head = "<!doctype html><meta charset=utf-8><style>html { color-scheme: dark } body { background: #111 }</style>"
    path.write_text(f"{head}<body>{html}", encoding="utf-8")
    page.goto(path.as_uri())


def test_a_frame_of_two_moves_them_together_and_is_as_dark_as_the_page_around(
    page: Page, tmp_path: Path, shots: Path
) -> None:
    html = to_frame(
        [late_step(NoResetOnReuse), late_step()], ["<b>broken</b>", "<b>mended</b>"], step=3, title='a "pair"'
    )
    srcdoc = f"<script>document.body.dataset.jpThemeLight = 'false'</script>{html}"
    path = tmp_path / "frame.html"
    open_frame(page, path, srcdoc)
    frame = page.frame_locator("iframe")
    roots = frame.locator(ROOT)
    expect(roots).to_have_count(2)
    expect(roots.nth(1)).to_have_attribute("data-step", "3")
    frame.get_by_role("button", name="Step forward").first.click()
    for at in (0, 1):
        expect(roots.nth(at)).to_have_attribute("data-step", "4")
        expect(roots.nth(at)).to_have_attribute("data-theme", "dark")
    tops = roots.evaluate_all("(all) => all.map((root) => root.getBoundingClientRect().top)")
    assert tops[0] == tops[1], "side by side"
    assert frame.locator("b").all_inner_texts() == ["broken", "mended"]
    assert frame.locator("html").evaluate("(html) => html.scrollHeight <= innerHeight"), "as high as what is in it"
    page.screenshot(path=shots / "frame-dark.png")
    assert pixel(page, *corner(page)) == (0x11, 0x11, 0x11), "the page's own ground shows through"
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    expect(roots.first).to_have_attribute("data-theme", "light")


def corner(page: Page) -> tuple[float, float]:
    """A place in the frame where no player is: between the two."""
    box = page.locator("iframe").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + 60


def pixel(page: Page, x: float, y: float) -> tuple[int, ...]:
    shot = page.screenshot(clip={"x": x, "y": y, "width": 1, "height": 1})
    read = """async (data) => {
      const image = new Image();
      image.src = "data:image/png;base64," + data;
      await image.decode();
      const pen = document.createElement("canvas").getContext("2d");
      pen.drawImage(image, 0, 0);
      return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    return tuple(page.evaluate(read, base64.b64encode(shot).decode()))


def test_a_frame_that_may_not_look_outside_plays_too(page: Page, tmp_path: Path) -> None:
    open_frame(page, tmp_path / "frame.html", to_frame(story()).replace("<iframe", "<iframe sandbox=allow-scripts", 1))
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="Step forward").click()
    expect(frame.locator(ROOT)).to_have_attribute("data-step", "1")


def test_a_canvas_marks_what_differs_too(page: Page, tmp_path: Path) -> None:
    one, other = busy(40, 128, 30), busy(40, 128, 30, seed=2)
    open_pair(page, tmp_path / "pair.html", one, other)
    page.get_by_label("Step", exact=True).first.fill("9")
    cells = unlike(one.snapshot(9), other.snapshot(9))
    assert 0 < len(cells) <= 256
    for at in (0, 1):
        assert page.locator(ROOT).nth(at).evaluate(DIFFERING) == sorted(f"{row} {at}" for row, at in cells)


def test_tables_of_different_sizes_are_not_compared(page: Page, tmp_path: Path) -> None:
    open_pair(page, tmp_path / "pair.html", busy(4, 4, 9), busy(5, 4, 9))
    assert page.locator(".differs").evaluate_all("(all) => all.every((one) => one.hidden)")


def test_it_follows_whoever_shows_it_into_the_dark(open_static: OpenStatic) -> None:
    page = open_static(story())

    def becomes(theme: str) -> None:
        page.wait_for_selector(f"{ROOT}[data-theme={theme}]", timeout=3000)

    becomes("light")
    page.emulate_media(color_scheme="dark")
    becomes("dark")
    page.evaluate("document.body.className = 'vscode-light'")
    becomes("light")
    page.evaluate("document.body.className = 'vscode-dark'")
    becomes("dark")
    page.evaluate("document.documentElement.setAttribute('theme', 'light')")
    becomes("light")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    becomes("dark")


CONTRASTS = """(root) => {
  const rgb = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(") ? numbers.map((n, i) => (i < 3 ? n * 255 : n)) : numbers;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = rgb(getComputedStyle(at).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((n) => (n / 255 <= 0.03928 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))].sort().reverse();
    found.push([(a + 0.05) / (b + 0.05), element.className, texts.currentNode.data]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("trace", [named(*"abcdef"), late_step(NoResetOnReuse)], ids=["names", "lanes"])
def test_every_text_has_contrast(open_static: OpenStatic, theme: str, trace: Trace, shots: Path) -> None:
    page = open_static(trace)
    page.emulate_media(color_scheme=theme)
    page.get_by_role("button", name="Last step").click()
    page.wait_for_selector(f"{ROOT}[data-theme={theme}]")
    found = page.eval_on_selector(ROOT, CONTRASTS)
    assert len(found) > 35
    assert found[0][0] >= 4.5, found[0]
    page.screenshot(path=shots / f"page-{len(trace)}-{theme}.png")


def test_narrow_screens_scroll_the_table_and_nothing_else(open_static: OpenStatic, shots: Path) -> None:
    page = open_static(busy(8, 16, 40))
    page.set_viewport_size({"width": 420, "height": 800})
    page.get_by_role("button", name="Last step").click()
    page.screenshot(path=shots / "page-narrow.png")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    grid = page.get_by_role("grid")
    assert grid.evaluate("(grid) => grid.scrollWidth > grid.clientWidth")
    left = "(head) => head.getBoundingClientRect().left"
    head = page.locator(".body .head").first
    before = head.evaluate(left)
    grid.evaluate("(grid) => { grid.scrollLeft = 90; }")
    assert head.evaluate(left) == before


TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
IN_VIEW = """(cell) => {
  const { firstElementChild: label, lastElementChild: lengths } = cell.closest(".row");
  const [box, head] = [cell.closest(".grid"), label].map((one) => one.getBoundingClientRect());
  const right = getComputedStyle(lengths).right === "0px" ? lengths.getBoundingClientRect().left : box.right;
  const { left, right: end } = cell.getBoundingClientRect();
  return left >= head.right - 0.5 && end <= right + 0.5;
}"""


@pytest.mark.parametrize(("first", "seen"), [(20, range(20, 25)), (2, range(2, 7)), (0, range(1))])
def test_all_wrong_cells_come_into_view_the_first_where_they_do_not_fit(
    open_static: OpenStatic, first: int, seen: range
) -> None:
    pool = ReqToTokenPool(2, 40, device="cpu")
    with record(pool) as trace:
        a = Req("a")
        pool.alloc([a])
        pool.append(a, slots(*range(1, 41)))
        trace.emit(
            "note", text="they are wrong", wrong=[(1, p) for p in range(first, first + (40 if not first else 5))]
        )
    page = open_static(trace)
    page.set_viewport_size({"width": 640, "height": 800})
    grid = page.get_by_role("grid")
    for begin in range(0, 1000, 50):
        scrub(page, 2)
        grid.evaluate("(grid, x) => { grid.scrollLeft = x; }", begin)
        page.evaluate(TWO_FRAMES)
        scrub(page, 3)
        page.evaluate(TWO_FRAMES)
        for p in seen:
            assert page.locator(f"[data-row='1'][data-position='{p}']").evaluate(IN_VIEW), (begin, p)
