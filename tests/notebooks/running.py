"""Run a notebook as a learner does, and collect everything in it that went wrong.

A green run says little: an exception in a widget's callback stops nothing. It ends in an Output widget, in a
cell's stderr or in the kernel's own log. So all three are read, and `drive` calls the callbacks in the first place.
"""

import json
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 120
DRIVE = Path(__file__).with_name("drive.py")
PEAK = """
import re
from pathlib import Path
print(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text()).group(1))
"""


class Kernel:
    """One fresh kernel in the folder of the notebooks. `run_all` may be called again: that is Run All, twice."""

    def __init__(self, notebook: nbformat.NotebookNode, folder: Path, log: Path, kernel_name: str = "python3") -> None:
        self.notebook = notebook
        self.log = log
        self.touched: dict[str, int] = {}
        self.client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name=kernel_name,
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )

    def __enter__(self) -> "Kernel":
        self.stderr = self.log.open("wb")
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self.running = self.client.setup_kernel(
            stderr=self.stderr, env=env
        )  # ipykernel listens less where it sees that
        self.running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.running.__exit__(*error)
        self.stderr.close()

    def run_all(self) -> list[str]:
        """Run every cell from top to bottom; one sentence for each thing that went wrong."""
        for index, cell in enumerate(self.notebook.cells):
            self.client.execute_cell(cell, index)
        return self._faults()

    def run(self, source: str) -> tuple[list[str], str]:
        """Run a cell that is not the notebook's: what went wrong anywhere, and what the cell printed."""
        self.notebook.cells.append(nbformat.v4.new_code_cell(source, id="driver"))
        self.client.execute_cell(self.notebook.cells[-1], len(self.notebook.cells) - 1)
        found = self._faults()
        outputs = self.notebook.cells.pop().outputs
        return found, "".join(one["text"] for one in outputs if one.get("name") == "stdout")

    def drive(self, chapter: str = "") -> list[str]:
        """Touch every control, commit every answer, hand in wrong ones; one sentence for each thing that went wrong."""
        found, printed = self.run(
            f"import json, runpy\nprint(json.dumps(runpy.run_path({str(DRIVE)!r})['drive']({chapter!r})))"
        )
        if not printed:
            return [*found, "the driver did not come to its end"]
        told = json.loads(printed.splitlines()[-1])
        self.touched = told["touched"]
        return found + told["faults"]

    def peak_megabytes(self) -> int:
        """The most memory that the kernel has had so far, as Linux counts it."""
        found, printed = self.run(PEAK)
        assert found == []
        return int(printed) // 1024

    def _faults(self) -> list[str]:
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
