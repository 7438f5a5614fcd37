"""Run a notebook as a learner does, and collect everything in it that went wrong.

A green run says little: an exception in a widget's callback stops nothing. It ends in an Output widget, in a
cell's stderr or in the kernel's own log. So all three are read.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 120


class Kernel:
    """One fresh kernel in the folder of the notebooks. `run_all` may be called again: that is Run All, twice."""

    def __init__(self, notebook: nbformat.NotebookNode, folder: Path, log: Path) -> None:
        self.notebook = notebook
        self.log = log
        self.client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )

    def __enter__(self) -> "Kernel":
        self.stderr = self.log.open("wb")
        self.running = self.client.setup_kernel(stderr=self.stderr)
        self.running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.running.__exit__(*error)
        self.stderr.close()

    def run_all(self) -> list[str]:
        """Run every cell from top to bottom; one sentence for each thing that went wrong."""
        for index, cell in enumerate(self.notebook.cells):
            self.client.execute_cell(cell, index)
        self.client.set_widgets_metadata()
        return faults(self.notebook) + log_faults(self.log)


def faults(notebook: nbformat.NotebookNode) -> list[str]:
    """Errors and stderr in the outputs of cells and of Output widgets."""
    places = [(f"cell {cell.id}", cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    for states in notebook.metadata.get("widgets", {}).values():
        places += [(f"Output widget {key}", one.state.get("outputs", ())) for key, one in states.state.items()]
    return [f"{place}: {fault}" for place, outputs in places for output in outputs if (fault := output_fault(output))]


def output_fault(output: dict) -> str | None:
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}\n" + "\n".join(output["traceback"])
    if output["output_type"] == "stream" and output["name"] == "stderr":
        return f"wrote to stderr: {output['text']}"
    return None


def log_faults(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    return [f"kernel log:\n{text}"] if "Traceback (most recent call last)" in text else []
