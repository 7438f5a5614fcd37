"""The notebooks under version control are what their sources build, byte for byte, and clean."""

import json
from pathlib import Path

import build_notebooks
import pytest

NOTEBOOKS = sorted(build_notebooks.NOTEBOOKS.glob("*.ipynb"))
SOURCE = """\
# %% [markdown]
# # A title

# %% tags=["setup"]
import torch

# %% jupyter={"source_hidden": true}
torch.zeros(2)
"""


def test_the_chapters_are_all_here() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "00_start_here",
        "01_the_table",
        "02_alloc_and_free",
        "03_chunked_prefill",
        "04_padding_row",
        "05_reset_on_reuse",
        "11_build_your_own_pool",
    ]


def test_every_notebook_is_what_its_source_builds() -> None:
    assert build_notebooks.differences() == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_ids_and_nothing_that_a_run_leaves_behind(path: Path) -> None:
    notebook = json.loads(path.read_bytes())
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), cell["id"]
        assert cell.get("execution_count") is None, cell["id"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "07_small.py").write_text(SOURCE)
    (tmp_path / "07_small.ipynb").write_text(build_notebooks.build(tmp_path / "source" / "07_small.py"))
    return tmp_path


def test_built_cells_have_chapter_and_index_as_id_and_keep_tags_and_folding(folder: Path) -> None:
    cells = json.loads((folder / "07_small.ipynb").read_bytes())["cells"]
    assert [cell["id"] for cell in cells] == ["07-000", "07-001", "07-002"]
    assert [cell["metadata"] for cell in cells] == [{}, {"tags": ["setup"]}, {"jupyter": {"source_hidden": True}}]


def test_a_fresh_build_differs_in_nothing(folder: Path) -> None:
    assert build_notebooks.differences(folder) == []


def test_an_edited_notebook_is_named_with_its_cell(folder: Path) -> None:
    path = folder / "07_small.ipynb"
    path.write_text(path.read_text().replace("torch.zeros(2)", "torch.zeros(3)"))
    assert build_notebooks.differences(folder) == ["07_small.ipynb differs from its source in cells 07-002"]


def test_a_notebook_without_source_and_a_source_without_notebook_are_named(folder: Path) -> None:
    (folder / "07_small.ipynb").rename(folder / "08_lost.ipynb")
    assert build_notebooks.differences(folder) == [
        "08_lost.ipynb has no source in notebooks/source",
        "07_small.ipynb is not built",
    ]


def test_a_notebook_that_somebody_has_run_is_kept_before_it_is_built_anew(folder: Path) -> None:
    path = folder / "07_small.ipynb"
    assert build_notebooks.keep(path) is None
    worked = json.loads(path.read_bytes())
    worked["cells"][1]["execution_count"] = 1
    worked["cells"][2]["source"] = "my answer"
    path.write_text(json.dumps(worked))
    copies = [build_notebooks.keep(path) for _ in range(2)]
    assert [copy.name for copy in copies] == ["07_small-1.ipynb", "07_small-2.ipynb"]
    assert copies[0].read_text() == path.read_text()
    assert build_notebooks.keep(folder / "08_missing.ipynb") is None
