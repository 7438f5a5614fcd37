"""Execute a notebook as a learner would, in a kernel of this interpreter."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

CELL_SECONDS = 300
ROOT = Path(__file__).resolve().parent.parent.parent
ASKED = Path(__file__).with_name("asked.py")
STATE = "application/vnd.jupyter.widget-state+json"


@dataclass(frozen=True)
class Executed:
    """
    Attributes:
        widgets: state by model id, as the notebook would keep it.
        questions: by model id of a question what it opens; see asked.py.
    """

    name: str
    notebook: nbformat.NotebookNode
    widgets: dict[str, dict[str, Any]]
    questions: dict[str, dict[str, Any]]


class ThisPython(KernelSpecManager):
    """Whatever kernels a machine has: the site is made by the interpreter that makes it."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def execute(path: Path) -> Executed:
    """Run every cell of this notebook; the file stays as it is.

    Raises:
        CellExecutionError: a cell raised.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(ASKED.read_text(encoding="utf-8")))
    manager = AsyncKernelManager(kernel_spec_manager=ThisPython())
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, km=manager, timeout=CELL_SECONDS, resources=resources, coalesce_streams=True)
    with tempfile.TemporaryFile() as log:  # what kernels say to themselves at their start
        client.execute(cleanup_kc=True, env=environment(), stderr=log)  # else a manager of ours keeps its kernel
    asked = notebook.cells.pop()
    questions = json.loads("".join(output.text for output in asked.outputs if output.name == "stdout"))
    state = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    return Executed(path.stem, notebook, state, questions)


def written(path: Path) -> Executed:
    """A page that is text alone, a Markdown file, as a notebook of one cell."""
    cell = nbformat.v4.new_markdown_cell(path.read_text(encoding="utf-8"), id="text")
    return Executed(path.stem, nbformat.v4.new_notebook(cells=[cell]), {}, {})


def environment() -> dict[str, str]:
    """The package of this repository, whatever else is installed; players as widgets, whose state is kept."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "REQPOOL_STATIC": ""}
