"""The player as a widget: a real JupyterLab in a real browser, a kernel behind it, and a notebook of five cells."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocket, expect

from tests.browser.lab import REPOSITORY, Lab, Notebook
from tests.browser.stories import READ_CELLS, busy, picture, story

ROOT = ".reqpool-player"

CELLS = (
    "from reqpool.player import Player, show\n"
    "from tests.browser.stories import busy, story\n"
    "player = Player(story(), speed=20)",
    "player",
    "import ipywidgets\n"
    "size = ipywidgets.IntSlider(value=3, min=3, max=9, description='rows')\n"
    "other = show(busy(3, 4, 20), static=False)\n"
    "def rebuild(change):\n"
    "    other.trace = busy(size.value, 4, 20)\n"
    "size.observe(rebuild, names='value')\n"
    "ipywidgets.VBox([size, other])",
    "import time\n"
    "from IPython.display import HTML, display\n"
    "time.sleep(1.5)\n"
    "display(HTML('<b id=slow>the picture of a slow cell</b>'))",
    "show(story(), static=True)",
    "player",
    "from reqpool.faulty import NoResetOnReuse\n"
    "from tests.browser.stories import late_step\n"
    "pair = [Player(late_step(NoResetOnReuse), group='pair'), Player(late_step(), group='pair')]\n"
    "ipywidgets.HBox(pair)",
)


@pytest.fixture(scope="module")
def session(lab: Lab, browser: Browser) -> Iterator[tuple[Notebook, list[str]]]:
    """One notebook for all tests of this file, run once, and every address that its page asked for."""
    context = browser.new_context(viewport={"width": 1300, "height": 1100}, color_scheme="light")
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("websocket", lambda socket: count_frames(page, socket))
    notebook = lab.open(page, lab.write("story.ipynb", *CELLS))
    notebook.run_all()
    yield notebook, requests
    context.close()


@pytest.fixture
def notebook(session: tuple[Notebook, list[str]]) -> Notebook:
    notebook = session[0]
    notebook.page.wait_for_timeout(500)  # what is at rest has been reported
    assert notebook.tell("player.trace = story()") == ""
    notebook.scroll_to(1)
    player(notebook.page).wait_for()
    expect(player(notebook.page)).to_have_attribute("data-step", "0")
    notebook.page.wait_for_timeout(200)  # the kernel's last words are in
    return notebook


def count_frames(page: Page, socket: WebSocket) -> None:
    """Keep a list of what goes to and from the kernel in `page.kernel_frames`."""
    frames = page.__dict__.setdefault("kernel_frames", [])
    if "/api/kernels/" in socket.url:
        socket.on("framesent", lambda frame: frames.append(frame))
        socket.on("framereceived", lambda frame: frames.append(frame))


def player(page: Page, cell: int = 1):
    return page.locator(f".jp-Notebook .jp-Cell >> nth={cell} >> css={ROOT}")


def step(page: Page) -> int:
    return int(player(page).get_attribute("data-step") or -1)


def test_the_picture_equals_the_tensor_at_every_step(notebook: Notebook) -> None:
    trace, root = story(), player(notebook.page)
    for k in range(1, len(trace) + 1):
        root.get_by_role("button", name="Step forward").click()
        assert step(notebook.page) == k
        assert [tuple(cell) for cell in root.evaluate(READ_CELLS)] == picture(trace, k)


def test_scrubbing(notebook: Notebook) -> None:
    trace, root = story(), player(notebook.page)
    slider = root.get_by_label("Step", exact=True)
    box = slider.bounding_box()
    assert box is not None
    notebook.page.mouse.move(box["x"] + 9, box["y"] + 10)
    notebook.page.mouse.down()
    for part in (0.25, 0.5, 1.0):
        notebook.page.mouse.move(box["x"] + 9 + part * (box["width"] - 18), box["y"] + 10, steps=4)
    notebook.page.mouse.up()
    assert step(notebook.page) == len(trace)
    assert [tuple(cell) for cell in root.evaluate(READ_CELLS)] == picture(trace, len(trace))


def test_keys_are_the_player_s_and_not_jupyterlab_s(notebook: Notebook) -> None:
    page, last = notebook.page, len(story())
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    for target in (player(page), player(page).get_by_label("Step", exact=True)):
        target.focus()
        for key, want in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last), ("Home", 0)):
            page.keyboard.press(key)
            assert step(page) == want
    page.keyboard.press("Space")
    expect(player(page)).to_have_attribute("data-playing", "true")
    page.keyboard.press("Space")
    expect(player(page)).to_have_attribute("data-playing", "false")
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_after_a_click_in_the_player_jupyterlab_s_own_keys_work(notebook: Notebook) -> None:
    page, root = notebook.page, player(notebook.page)
    book = "jupyterapp.shell.currentWidget"
    counts = "(i) => jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount"
    before = page.evaluate(counts, 5)
    root.get_by_role("button", name="Step forward").click()
    for key in ("Home", "ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert (step(page), page.evaluate(f"{book}.content.activeCellIndex")) == (2, 1)
    page.keyboard.press("Control+s")
    page.wait_for_function(f"() => !{book}.context.model.dirty")
    collapsed = page.evaluate("jupyterapp.shell.leftCollapsed")
    for want in (not collapsed, collapsed):
        page.keyboard.press("Control+b")
        page.wait_for_function("(want) => jupyterapp.shell.leftCollapsed === want", arg=want)
    page.keyboard.press("ArrowRight")
    assert step(page) == 3, "the player has the focus still"
    notebook.scroll_to(5)  # the same player in another cell, which runs in no time
    player(page, 5).get_by_role("button", name="Step back").click()
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(f"([i, n]) => ({counts})(i) > n", arg=[5, before])
    page.wait_for_function(f"() => {book}.content.activeCellIndex === 6")


def test_escape_gives_the_focus_back_to_the_notebook(notebook: Notebook) -> None:
    page = notebook.page
    player(page).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.position") == "0"
    for _ in range(2):  # out of the table, out of the player
        page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.matches('.jp-Notebook .jp-Cell')")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => jupyterapp.shell.currentWidget.content.activeCellIndex === 2")


def test_play_and_pause(notebook: Notebook) -> None:
    root = player(notebook.page)
    root.get_by_role("button", name="Play").click()
    expect(root).to_have_attribute("data-playing", "true")
    root.get_by_role("button", name="Pause").click()
    expect(root).to_have_attribute("data-playing", "false")
    root.get_by_role("button", name="Play").click()
    expect(root).to_have_attribute("data-step", str(len(story())))
    expect(root).to_have_attribute("data-playing", "false")


def test_the_kernel_moves_the_picture(notebook: Notebook) -> None:
    root = player(notebook.page)
    assert notebook.tell("player.step = 4") == ""
    expect(root).to_have_attribute("data-step", "4")
    assert "step 99 does not exist: this trace has steps 0 to" in notebook.tell("player.step = 99")
    assert notebook.tell("player.playing = True") == ""
    expect(root).to_have_attribute("data-step", str(len(story())))
    notebook.page.wait_for_timeout(500)
    assert notebook.ask("player.step, player.playing") == f"{len(story())} False"


def test_a_new_trace_replaces_everything_in_one_message(notebook: Notebook) -> None:
    page, trace = notebook.page, busy(4, 5, 20)
    player(page).get_by_role("button", name="Last step").click()
    page.wait_for_timeout(500)
    frames = page.__dict__["kernel_frames"]
    before = len(frames)
    notebook.tell("player.trace = busy(4, 5, 20)")
    expect(player(page)).to_have_attribute("data-last-step", "20")
    assert step(page) == 0
    assert [tuple(cell) for cell in player(page).evaluate(READ_CELLS)] == picture(trace, 0)
    updates = [frame for frame in frames[before:] if b"comm_msg" in as_bytes(frame) and b'"tape"' in as_bytes(frame)]
    assert len(updates) == 1


def as_bytes(frame: str | bytes) -> bytes:
    return frame.encode() if isinstance(frame, str) else frame


def test_stepping_asks_no_kernel_and_reports_once_at_rest(notebook: Notebook) -> None:
    page = notebook.page
    player(page).focus()
    frames = page.__dict__["kernel_frames"]
    before = len(frames)
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert step(page) == 9
    assert frames[before:] == [], "no frame to or from the kernel while stepping"
    page.wait_for_timeout(800)
    reports = [frame for frame in frames[before:] if b'"method":"update"' in as_bytes(frame)]
    assert sum(b'"step":9' in as_bytes(frame) for frame in reports) in (1, 2), "the report, and its echo"
    assert notebook.ask("player.step") == "9"


def test_two_views_of_one_player_move_together(notebook: Notebook) -> None:
    page, frames = notebook.page, notebook.page.__dict__["kernel_frames"]
    notebook.scroll_to(5)
    expect(player(page, 5)).to_have_attribute("data-step", "0")
    before = len(frames)
    player(page).focus()
    page.keyboard.press("ArrowRight")
    assert [player(page, cell).get_attribute("data-step") for cell in (1, 5)] == ["1", "1"]
    assert frames[before:] == []
    player(page, 5).get_by_role("button", name="Play").click()
    expect(player(page)).to_have_attribute("data-playing", "true")
    expect(player(page)).to_have_attribute("data-step", str(len(story())))
    expect(player(page, 5)).to_have_attribute("data-playing", "false")


def test_a_slider_moved_while_another_cell_is_busy_swallows_nothing(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run(3)
    page.wait_for_function("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'busy'")
    notebook.scroll_to(2)
    handle = page.locator(".jp-Notebook .jp-Cell >> nth=2 >> css=.noUi-handle")
    handle.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(f".jp-Notebook .jp-Cell >> nth=2 >> css={ROOT} [data-row='6']").first).to_be_attached()
    notebook.wait_idle()
    assert "the picture of a slow cell" in notebook.outputs(3)
    assert "slow cell" not in notebook.outputs(2)


def test_light_and_dark_follow_jupyterlab(notebook: Notebook, shots: Path) -> None:
    root = player(notebook.page)
    notebook.tell("player.step = 8")
    for name in ("Dark", "Light"):
        notebook.theme(f"JupyterLab {name}")
        expect(root).to_have_attribute("data-theme", name.lower())
        notebook.page.screenshot(path=shots / f"lab-{name.lower()}.png")


def test_a_pair_side_by_side_shows_lanes_texts_and_what_differs(notebook: Notebook, shots: Path) -> None:
    page = notebook.page
    notebook.scroll_to(6)
    pair = page.locator(f".jp-Notebook .jp-Cell >> nth=6 >> css={ROOT}")
    expect(pair).to_have_count(2)
    broken, mended = pair.nth(0), pair.nth(1)
    broken.get_by_label("Step", exact=True).fill("7")
    expect(mended).to_have_attribute("data-step", "7")
    for one in (broken, mended):
        expect(one.locator(".arrow")).to_be_visible()
        expect(one.locator(".head[data-hit]")).to_have_count(1)
        expect(one.locator("p.differs")).to_have_text("the table is the same as the other player's")
    page.wait_for_timeout(200)
    page.screenshot(path=shots / "lab-pair-late.png")
    mended.get_by_role("button", name="Last step").click()
    expect(broken.get_by_role("img", name="xywwv: letters 3 and 5 are wrong")).to_be_visible()
    expect(mended.get_by_role("img", name="xyzwx", exact=True)).to_be_visible()
    expect(broken.locator(".cell[data-wrong]")).to_have_count(2)
    for one in (broken, mended):
        expect(one.locator(".cell[data-differs]")).to_have_count(2)
        expect(one.locator("p.differs")).to_have_text("unlike the other player: 2 cells, 1 length")
    page.screenshot(path=shots / "lab-pair-end.png")
    assert notebook.tell("pair[1].trace = late_step(NoResetOnReuse)") == ""
    expect(mended).to_have_attribute("data-step", "0")
    mended.get_by_role("button", name="Last step").click()
    expect(broken.locator(".cell[data-differs]")).to_have_count(0)
    expect(broken.locator("p.differs")).to_have_text("the table is the same as the other player's")


def test_the_static_player_works_in_an_output_area(notebook: Notebook) -> None:
    notebook.scroll_to(4)
    root = player(notebook.page, 4)
    root.get_by_role("button", name="Step forward").click()
    expect(root).to_have_attribute("data-step", "1")


def test_nothing_is_asked_of_another_machine(session: tuple[Notebook, list[str]]) -> None:
    here = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
    assert [url for url in session[1] if not url.startswith(here)] == []
    assert len(session[1]) > 10


def test_no_cell_has_an_error(session: tuple[Notebook, list[str]]) -> None:
    for index in range(len(CELLS)):
        assert [output["output_type"] for output in json.loads(session[0].outputs(index))].count("error") == 0


def test_chapter_02_plays(lab: Lab, page: Page, shots: Path) -> None:
    """The chapter as a learner opens it: run all, step its first player forward and back by hand."""
    chapter = REPOSITORY / "notebooks" / "02_alloc_and_free.ipynb"
    shutil.copy(chapter, lab.root)
    notebook = lab.open(page, chapter.name)
    notebook.run_all()
    index = page.evaluate(
        """() => jupyterapp.shell.currentWidget.content.widgets.findIndex((cell) => cell.model.type === 'code' &&
             JSON.stringify(cell.model.outputs.toJSON()).includes('widget-view'))"""
    )
    notebook.scroll_to(index)
    root = page.locator(f".jp-Notebook .jp-Cell >> {ROOT}").first
    root.wait_for()
    root.get_by_role("button", name="First step").click()
    root.get_by_role("button", name="Step forward").click()
    expect(root).to_have_attribute("data-step", "1")
    root.focus()
    page.keyboard.press("End")
    expect(root).to_have_attribute("data-step", root.get_attribute("data-last-step") or "")
    page.screenshot(path=shots / "chapter-02.png")
