"""Every chapter runs and answers to its controls, with the current versions and with Colab's.

In a fresh kernel from top to bottom, then everything is touched, then all of it a second time in the same kernel.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import build_notebooks
import nbformat
import pytest

from tests.notebooks.running import Kernel
from tests.worlds import World

NOTEBOOKS = sorted(build_notebooks.NOTEBOOKS.glob("*.ipynb"))
OF_EACH_KIND = [path for path in NOTEBOOKS if path.stem[:2] in ("00", "02", "04")]
"""A cell to be predicted and a lab with a player; exercises with cases and a pair; the padding row's labs."""
MEGABYTES = 700  # of the 1,000 that Binder gives, JupyterLab's own server takes some 150

MakeKernel = Callable[[nbformat.NotebookNode], Kernel]

pytestmark = pytest.mark.slow


@pytest.fixture
def kernel_for(world: World, tmp_path: Path) -> MakeKernel:
    return lambda notebook: Kernel(notebook, build_notebooks.NOTEBOOKS, tmp_path / "kernel.log", world.name)


def not_found(chapter: str, touched: dict[str, int]) -> set[str]:
    """What every chapter has and the driver did not meet: one that finds nothing would be content with anything."""
    wanted = {"case shown"} if chapter == "11" else {"case shown", "Button", "Choices"}
    return {kind for kind in wanted if not touched.get(kind)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_run_all_then_touch_everything_then_run_all_again(path: Path, kernel_for: MakeKernel) -> None:
    with kernel_for(nbformat.read(path, as_version=4)) as kernel:
        assert kernel.run_all() == []
        assert kernel.drive(path.stem[:2]) == []
        assert not_found(path.stem[:2], kernel.touched) == set()
        assert kernel.run_all() == [], "the second Run All in the same kernel"
        if sys.platform == "linux":
            assert kernel.peak_megabytes() < MEGABYTES


@pytest.mark.parametrize("path", OF_EACH_KIND, ids=lambda path: path.stem)
def test_the_same_where_no_third_party_widget_is_shown(
    path: Path, kernel_for: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    with kernel_for(nbformat.read(path, as_version=4)) as kernel:
        assert kernel.run_all() == []
        assert kernel.drive(path.stem[:2]) == []
        assert not_found(path.stem[:2], kernel.touched) == set()
        assert "Player" not in kernel.touched


# ---- the worlds, and those who look at them --------------------------------------------------------------------------


def small_notebook(*cells: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])


def test_the_kernel_is_the_wanted_interpreter_whatever_kernels_are_installed(
    world: World, kernel_for: MakeKernel
) -> None:
    with kernel_for(small_notebook(f"import sys; assert sys.executable == {world.python!r}, sys.executable")) as kernel:
        assert kernel.run_all() == []


PINS = dict(re.findall(r"^([\w-]+)==(\S+)$", Path(__file__).with_name("colab.txt").read_text(), re.MULTILINE))


def test_colabs_world_has_colabs_versions_and_the_current_one_newer_widgets(
    world: World, kernel_for: MakeKernel
) -> None:
    with kernel_for(small_notebook("from importlib.metadata import version")) as kernel:
        assert kernel.run_all() == []
        told, printed = kernel.run(f"import json; print(json.dumps({{name: version(name) for name in {[*PINS]}}}))")
    assert told == []
    there = json.loads(printed)
    if world.name == "colab":
        assert there == PINS
        assert there["ipywidgets"].startswith("7.")
    else:
        assert there["ipywidgets"].startswith("8.")


def test_each_place_where_an_exception_can_hide_is_looked_at(kernel_for: MakeKernel) -> None:
    notebook = small_notebook(
        "1 / 0",
        "import ipywidgets; shown = ipywidgets.Output(); display(shown)",
        "with shown: raise KeyError('in an Output widget')",
        "import sys; print('a word', file=sys.stderr)",
        "import os; os.write(2, b'Traceback (most recent call last) in the log')",
    )
    with kernel_for(notebook) as kernel:
        told = "\n".join(kernel.run_all())
    assert "ZeroDivisionError" in told
    assert "in an Output widget" in told
    assert "wrote to stderr: a word" in told
    assert "in the log" in told


FRAGILE = """
import sys; sys.path.insert(0, "..")
from reqpool.lab import Lab, slider
from reqpool.parts import text_box

shown = text_box()
def rebuild(n):
    shown.value = str(1 / (n - 3))
Lab({"n": slider("n", 0, 0, 3)}, rebuild, [shown])
"""
BARE = """
import ipywidgets
button = ipywidgets.Button(description="bare")
button.on_click(lambda _: {}["missing"])
choice = ipywidgets.Dropdown(options=["a", "b"])
choice.observe(lambda change: [][1], names="value")
text = ipywidgets.Text(description="no driver knows")
"""


def test_what_a_callback_raises_is_noticed_in_an_error_box_and_without_one(kernel_for: MakeKernel) -> None:
    with kernel_for(small_notebook(FRAGILE)) as kernel:
        assert kernel.run_all() == []
        (told,) = kernel.drive()
        assert "IntSlider 'n', {'value': 3}" in told
        assert "ZeroDivisionError" in told
    with kernel_for(small_notebook(BARE)) as kernel:
        assert kernel.run_all() == []
        told = "\n".join(kernel.drive())
        assert "KeyError: 'missing'" in told
        assert "IndexError" in told
        assert "Text 'no driver knows': nobody knows how to move it" in told


def test_a_notebook_that_runs_only_once_is_noticed(kernel_for: MakeKernel) -> None:
    with kernel_for(small_notebook("if 'seen' in globals(): raise RuntimeError('ran before')\nseen = True")) as kernel:
        assert kernel.run_all() == []
        assert len(kernel.run_all()) == 1
