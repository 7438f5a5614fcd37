"""axe-core looks at a live notebook: players, questions, a lab, an exercise and its failing case, in both themes."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser

from tests.browser.lab import Lab, Notebook

CELLS = (
    "from reqpool.player import Player\nfrom reqpool.scenarios import alloc_and_free\nPlayer(alloc_and_free(), step=4)",
    "from reqpool.notebook import figure, quiz, setup\nquiz('02')",
    "from reqpool.lab import come_and_go\ncome_and_go()",
    "from reqpool.examine import check, exercise\nexercise('give_back')",
    "def give_back(free_rows, rows, reuse):\n    return rows + free_rows\n\ncheck(give_back)",
    "figure('path.svg')",
    "Player(alloc_and_free(), step=2, pick=True)",
    "setup()",
)
FOUND = """async (index) => {
  const cell = jupyterapp.shell.currentWidget.content.widgets[index].node;
  const output = cell.querySelector(".jp-Cell-outputArea");
  const { violations } = await axe.run(output, { resultTypes: ["violations"] });
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html, target }) => `${target} ${html.slice(0, 160)}`)]);
}"""
# ipywidgets' own: a dropdown's and a slider's label stands beside it and names it for the eye only
THEIRS = (".widget-label", ".noUi-", ".widget-dropdown", ".widget-slider", "noUi-handle", "<select")


@pytest.fixture(scope="module")
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    context = browser.new_context(
        viewport={"width": 1300, "height": 1100}, color_scheme="light", reduced_motion="reduce"
    )
    notebook = lab.open(context.new_page(), lab.write("axe.ipynb", *CELLS))
    notebook.run_all()
    notebook.page.evaluate(AXE_SCRIPT)
    yield notebook
    context.close()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
@pytest.mark.parametrize("index", range(len(CELLS)))
def test_axe_finds_nothing_serious_in_what_is_ours(notebook: Notebook, index: int, theme: str) -> None:
    notebook.theme(theme)
    notebook.scroll_to(index)
    notebook.page.wait_for_timeout(400)
    found = notebook.page.evaluate(FOUND, index)
    ours = [(name, [one for one in nodes if not any(mark in one for mark in THEIRS)]) for name, nodes in found]
    assert [one for one in ours if one[1]] == []


def test_a_fault_that_is_put_there_is_found(notebook: Notebook) -> None:
    notebook.scroll_to(3)
    notebook.page.wait_for_timeout(400)
    put = "jupyterapp.shell.currentWidget.content.widgets[3].node.querySelector('.jp-Cell-outputArea details')"
    notebook.page.evaluate(f"{put}.insertAdjacentHTML('beforebegin', '<button id=\"nameless\"></button>')")
    assert [name for name, _ in notebook.page.evaluate(FOUND, 3)] == ["button-name"]
    notebook.page.evaluate("document.querySelector('#nameless').remove()")
