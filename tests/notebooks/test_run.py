"""Every chapter runs: in a fresh kernel from top to bottom, and a second time in a kernel that ran it already."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import build_notebooks
import nbformat
import pytest

from tests.notebooks.running import Kernel

NOTEBOOKS = sorted(build_notebooks.NOTEBOOKS.glob("*.ipynb"))
MakeKernel = Callable[[nbformat.NotebookNode], Kernel]

pytestmark = pytest.mark.slow


@pytest.fixture
def kernel_for(jupyter_home: Path, tmp_path: Path) -> MakeKernel:
    return lambda notebook: Kernel(notebook, build_notebooks.NOTEBOOKS.parent, tmp_path / "kernel.log")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_restart_and_run_all_and_run_all_again(path: Path, jupyter_home: Path, tmp_path: Path) -> None:
    with Kernel(nbformat.read(path, as_version=4), path.parent, tmp_path / "kernel.log") as kernel:
        assert kernel.run_all() == []
        assert kernel.run_all() == [], "the second Run All in the same kernel"


def small_notebook(*cells: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])


def test_the_kernel_is_the_wanted_interpreter_whatever_kernels_are_installed(kernel_for: MakeKernel) -> None:
    wanted = os.environ.get("REQPOOL_KERNEL_PYTHON", sys.executable)
    with kernel_for(small_notebook(f"import sys; assert sys.executable == {wanted!r}, sys.executable")) as kernel:
        assert kernel.run_all() == []


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


def test_a_notebook_that_runs_only_once_is_noticed(kernel_for: MakeKernel) -> None:
    with kernel_for(small_notebook("if 'seen' in globals(): raise RuntimeError('ran before')\nseen = True")) as kernel:
        assert kernel.run_all() == []
        assert len(kernel.run_all()) == 1
