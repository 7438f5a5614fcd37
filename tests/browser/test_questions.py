"""Predictions and quizzes in a real JupyterLab: by mouse, by keyboard, and without a third-party widget."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect

from reqpool.questions.bank import PREDICTIONS, QUIZZES
from tests.browser.lab import Lab, Notebook

CHOICES, CELL, QUIZ, STATIC = range(1, 5)  # the cells that ask
CELLS = (
    "import os\n"
    "from reqpool import Req, ReqToTokenPool, record\n"
    "from reqpool.notebook import predict, quiz\n"
    "os.environ.pop('REQPOOL_STATIC', None)\n"
    "pool, a = ReqToTokenPool(2, 6, 'cpu'), Req('a')\n"
    "with record(pool) as trace:\n"
    "    pool.alloc([a])\n"
    "    pool.append(a, [5, 2, 4])",
    "choices = predict('rows_fifo', outcome=[4, 2], reveal=trace)\nchoices",
    "cell = predict('cell_of_the_next_token', outcome=(1, 2), reveal=trace, step=1)\ncell",
    "asked = quiz('00')\nasked",
    "os.environ['REQPOOL_STATIC'] = '1'\n"
    "lists = predict('cell_of_the_next_token', outcome=(1, 2), reveal=trace, step=1)\n"
    "del os.environ['REQPOOL_STATIC']\n"
    "lists",
)


@pytest.fixture
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    """The notebook after Run All, with every question open. What the kernel sent is in `frames`."""
    context = browser.new_context(viewport={"width": 1300, "height": 1100}, color_scheme="light")
    page = context.new_page()
    failures: list[str] = []
    frames: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("websocket", lambda socket: keep_frames(frames, socket))
    notebook = lab.open(page, lab.write("questions.ipynb", *CELLS))
    notebook.run_all()
    notebook.frames = frames
    yield notebook
    assert failures == []
    context.close()


def keep_frames(frames: list[str], socket: WebSocket) -> None:
    def keep(frame: str | bytes) -> None:
        frames.append(frame if isinstance(frame, str) else frame.decode("utf-8", "replace"))

    if "/api/kernels/" in socket.url:
        socket.on("framereceived", keep)


def question(notebook: Notebook, cell: int) -> Locator:
    notebook.scroll_to(cell)
    found = notebook.page.locator(f".jp-Notebook .jp-Cell >> nth={cell} >> css=.jp-OutputArea-output").first
    found.get_by_role("button", name="Commit my prediction").or_(
        found.get_by_role("button", name="Check")
    ).first.wait_for()
    return found


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.textContent")


def until(notebook: Notebook, expression: str, wanted: str) -> None:
    """The browser holds changes back while the kernel has not answered the one before."""
    for _ in range(100):
        if notebook.ask(expression) == wanted:
            return
        notebook.page.wait_for_timeout(50)
    raise AssertionError(f"{expression} is {notebook.ask(expression)}, not {wanted}")


def verdict(asked: Locator) -> Locator:
    return asked.get_by_role("status").filter(has_text="You predicted")


def test_run_all_asks_and_tells_nothing(notebook: Notebook) -> None:
    sent = " ".join(notebook.frames)
    told = [text for one in PREDICTIONS.values() for text in (one.why, one.seen)]
    told += [why for one in QUIZZES["00"] for why in one.choices.values()]
    assert "Which rows do they get?" in sent, "what is asked is there"
    assert [text for text in told if text[:40] in sent] == []
    assert notebook.ask("choices.committed, cell.committed, lists.committed") == "None None None"
    for index in range(len(CELLS)):
        assert "error" not in notebook.outputs(index)
    for index in (CHOICES, CELL, STATIC):
        asked = question(notebook, index)
        expect(asked.get_by_text("It happens")).to_have_count(0)
        expect(asked.locator("[data-last-step]:not([data-pick])")).to_have_count(0)


def test_choices_by_mouse(notebook: Notebook) -> None:
    asked = question(notebook, CHOICES)
    commit = asked.get_by_role("button", name="Commit my prediction")
    commit.click()
    expect(asked.get_by_role("status")).to_have_text("Choose an answer first.")
    asked.get_by_text("[4, 1]", exact=True).click()
    expect(asked.get_by_role("status").filter(has_text="Choose")).to_have_count(0)
    commit.click()
    expect(verdict(asked)).to_contain_text("Not as predicted")
    expect(verdict(asked).get_by_role("cell").or_(verdict(asked).locator("td"))).to_contain_text(["[4, 1]", "[4, 2]"])
    expect(asked.locator(".reqpool-player")).to_have_attribute("data-step", "2")
    expect(asked.get_by_text("What did you see?")).to_be_visible()
    for radio in asked.get_by_role("radio").all():
        expect(radio).to_be_disabled()
    assert focused(notebook.page) == "Committed"


def test_choices_by_keyboard(notebook: Notebook) -> None:
    page, asked = notebook.page, question(notebook, CHOICES)
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    asked.get_by_role("radiogroup").get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    for heard in ("[2, 1]", "[4, 1]", "[4, 2]"):
        page.keyboard.press("ArrowDown")
        until(notebook, "choices.answering.answer", heard)
    page.keyboard.press("Tab")
    assert focused(page) == "Commit my prediction"
    page.keyboard.press("Enter")
    expect(verdict(asked)).to_contain_text("✓ As predicted.")
    assert focused(page) == "Committed"
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex") == CHOICES
    page.keyboard.press("Tab")
    assert page.evaluate("!!document.activeElement.closest('.reqpool-player')"), "on to the reveal"


def test_a_cell_by_mouse(notebook: Notebook) -> None:
    asked = question(notebook, CELL)
    commit = asked.get_by_role("button", name="Commit my prediction")
    commit.click()
    expect(asked.get_by_role("status").filter(has_text="Choose a cell of the table first")).to_be_visible()
    asked.locator("[data-row='1'][data-position='1']").click()
    expect(asked.get_by_role("status").filter(has_text="Choose a cell of the table first")).to_have_count(0)
    commit.click()
    expect(verdict(asked)).to_contain_text("✗ Not as predicted.")
    expect(verdict(asked)).to_contain_text("row 1, position 1")
    expect(verdict(asked)).to_contain_text("row 1, position 2")
    table, reveal = asked.locator(".reqpool-player").nth(0), asked.locator(".reqpool-player").nth(1)
    expect(table).to_have_attribute("data-pick", "locked")
    expect(table.locator("[data-mark]")).to_have_attribute("data-position", "2")
    expect(reveal).to_have_attribute("data-step", "2")
    table.locator("[data-row='1'][data-position='3']").click()
    assert notebook.ask("cell.committed, cell.answering.answer") == "(1, 1) (1, 1)"


def test_a_cell_by_keyboard(notebook: Notebook) -> None:
    page, asked = notebook.page, question(notebook, CELL)
    asked.locator(".reqpool-player [role=grid]").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    expect(asked.locator("[data-picked]")).to_have_count(1)
    picked = asked.locator("[data-picked]")
    expect(picked).to_have_attribute("data-row", "1")
    for _ in range(8):
        if focused(page) == "Commit my prediction":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(verdict(asked)).to_be_visible()
    assert focused(page) == "Committed"


def test_without_third_party_widgets_two_lists_do_it_by_keyboard(notebook: Notebook) -> None:
    page, asked = notebook.page, question(notebook, STATIC)
    assert notebook.tell("os.environ['REQPOOL_STATIC'] = '1'") == ""
    assert asked.locator("iframe").count() == 1, "the table to look at"
    asked.get_by_label("row", exact=True).focus()
    page.keyboard.type("1")
    page.keyboard.press("Tab")
    page.keyboard.type("2")
    until(notebook, "lists.answering.answer", "(1, 2)")
    page.keyboard.press("Tab")
    assert focused(page) == "Commit my prediction"
    page.keyboard.press("Space")
    expect(verdict(asked)).to_contain_text("✓ As predicted.")
    assert focused(page) == "Committed"
    expect(asked.locator("iframe")).to_have_count(2)
    for label in ("row", "position"):
        expect(asked.get_by_label(label, exact=True)).to_be_disabled()


def test_every_answer_of_a_quiz_is_explained(notebook: Notebook) -> None:
    asked = question(notebook, QUIZ)
    expect(asked.get_by_role("button", name="Check my answer")).to_have_count(3)
    first, text = asked.get_by_role("button", name="Check my answer").first, QUIZZES["00"][0]
    asked.get_by_text("K and V of the token", exact=True).click()
    first.click()
    for choice, why in text.choices.items():
        expect(asked).to_contain_text(f"{choice} ({'✓ right' if choice == text.right else '✗ wrong'}")
        expect(asked).to_contain_text(why)
    expect(asked).to_contain_text("K and V of the token (✗ wrong, your answer)")
    assert notebook.ask("[one.committed for one in asked.children]") == "['K and V of the token', None, None]"


def at_focus(page: Page) -> list[int]:
    """Of the focused radio button: the notebook's cell, the question in it, and which of its buttons."""
    return page.evaluate("""() => {
      const [radio, cells] = [document.activeElement, [...document.querySelectorAll(".jp-Notebook .jp-Cell")]];
      const [cell, box] = [radio.closest(".jp-Cell"), radio.closest(".widget-radio-box")];
      if (!box) return [];
      const boxes = [...cell.querySelectorAll(".widget-radio-box")];
      return [cells.indexOf(cell), boxes.indexOf(box), [...box.querySelectorAll("input")].indexOf(radio)];
    }""")


def test_arrows_stay_in_their_question_and_tab_goes_from_one_to_the_next(notebook: Notebook) -> None:
    page = notebook.page
    question(notebook, CHOICES)
    asked = question(notebook, QUIZ)
    boxes = asked.locator(".widget-radio-box")
    for number in range(3):
        radios = boxes.nth(number).get_by_role("radio")
        last = radios.count() - 1
        radios.first.focus()
        for key, there in (("ArrowUp", last), ("ArrowDown", 0), ("ArrowUp", last), ("ArrowUp", last - 1)):
            page.keyboard.press(key)
            assert at_focus(page) == [QUIZ, number, there]
            expect(radios.nth(there)).to_be_checked()
    boxes.nth(0).get_by_role("radio").nth(1).focus()
    page.keyboard.press("Tab")
    assert focused(page) == "Check my answer"
    page.keyboard.press("Tab")
    assert at_focus(page)[:2] == [QUIZ, 1], "one stop in each question"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert at_focus(page)[:2] == [QUIZ, 0]


def test_a_question_that_nobody_answered_is_one_stop_too(notebook: Notebook) -> None:
    page, asked = notebook.page, question(notebook, QUIZ)
    asked.get_by_role("button", name="Check my answer").first.focus()
    page.keyboard.press("Tab")
    assert at_focus(page) == [QUIZ, 1, 0]
    page.keyboard.press("Tab")
    assert focused(page) == "Check my answer"


def test_asked_again_by_keyboard(notebook: Notebook) -> None:
    page, asked = notebook.page, question(notebook, CHOICES)
    again = asked.get_by_role("button", name="Ask again")
    expect(again).to_be_hidden()
    for answer in ("[4, 1]", "[4, 2]"):
        asked.get_by_text(answer, exact=True).click()
        asked.get_by_role("button", name="Commit my prediction").click()
        expect(verdict(asked)).to_contain_text(answer)
        again.focus()
        page.keyboard.press("Enter")
        expect(asked.get_by_role("radio").first).to_be_focused()
        for radio in asked.get_by_role("radio").all():
            expect(radio).to_be_enabled()
            expect(radio).not_to_be_checked()
        expect(verdict(asked)).to_have_count(0)
        expect(asked.locator(".reqpool-player")).to_have_count(0)
        expect(again).to_be_hidden()
    assert notebook.ask("choices.committed") == "None"


def test_a_cell_is_asked_for_again(notebook: Notebook) -> None:
    asked = question(notebook, CELL)
    asked.locator("[data-row='1'][data-position='1']").click()
    asked.get_by_role("button", name="Commit my prediction").click()
    asked.get_by_role("button", name="Ask again").click()
    expect(asked.get_by_role("grid")).to_have_count(1)
    expect(asked.get_by_role("grid")).to_be_focused()
    expect(asked.locator(".reqpool-player")).to_have_attribute("data-pick", "open")
    expect(asked.locator("[data-mark], [data-picked]")).to_have_count(0)
    asked.locator("[data-row='1'][data-position='2']").click()
    asked.get_by_role("button", name="Commit my prediction").click()
    expect(verdict(asked)).to_contain_text("✓ As predicted.")
