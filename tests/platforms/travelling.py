"""What several of these tests need: the files under version control, and a notebook whose set-up cell is run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOTEBOOK = ROOT / "notebooks" / "00_start_here.ipynb"
UNSET = 'ARCHIVE = ""'


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def copy_of_the_repository(folder: Path) -> Path:
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def alone(folder: Path, address: str = "") -> nbformat.NotebookNode:
    """One notebook file in an empty folder, which knows this address of the archive."""
    text = NOTEBOOK.read_text(encoding="utf-8")
    quoted = json.dumps(UNSET)[1:-1]
    assert text.count(quoted) == 1
    (folder / NOTEBOOK.name).write_text(text.replace(quoted, quoted[:-2] + address + quoted[-2:]), encoding="utf-8")
    assert [path.name for path in folder.iterdir()] == [NOTEBOOK.name]
    return nbformat.read(folder / NOTEBOOK.name, as_version=4)


def only_set_up(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    (cell,) = (one for one in notebook.cells if "setup" in one.metadata.get("tags", ()))
    return nbformat.v4.new_notebook(cells=[cell])


def said(notebook: nbformat.NotebookNode, index: int = 0) -> str:
    """What a code cell printed."""
    cells = [one for one in notebook.cells if one.cell_type == "code"]
    return "".join(one["text"] for one in cells[index].outputs if one["output_type"] == "stream")


def raised(notebook: nbformat.NotebookNode) -> str:
    """The errors of all cells, each as its last line."""
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    return "\n".join(f"{one['ename']}: {one['evalue']}" for one in outputs if one["output_type"] == "error")
