"""The set-up cell in its three situations: in a clone, in Binder's layout, and as one file alone on Colab."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import copy_setup_cell
import nbformat
import pytest

from tests import worlds
from tests.notebooks.running import Kernel
from tests.platforms.travelling import NOTEBOOK, ROOT, alone, copy_of_the_repository, only_set_up, raised, said
from tests.worlds import World

Open = Callable[[nbformat.NotebookNode, Path, World], Kernel]

pytestmark = pytest.mark.slow


@pytest.fixture
def open_in(jupyter_home: Path, tmp_path: Path) -> Open:
    def open_in(notebook: nbformat.NotebookNode, folder: Path, world: World) -> Kernel:
        world.write_kernel(jupyter_home / "path" / "kernels")
        return Kernel(notebook, folder, tmp_path / "kernel.log", world.name)

    return open_in


@pytest.fixture
def colab(tmp_path: Path) -> World:
    return worlds.colab(tmp_path / f"colab-{tmp_path.name}".lower())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "downloads").mkdir()
    return tmp_path / "downloads"


def test_every_chapter_has_the_same_set_up_cell() -> None:
    sources = sorted(copy_setup_cell.SOURCES.glob("[0-9][0-9]_*.py"))
    assert len({copy_setup_cell.setup_cell(path) for path in sources}) == 1


# ---- one file alone --------------------------------------------------------------------------------------------------


def installed(world: World) -> dict[str, str]:
    command = [world.python, "-m", "pip", "list", "--format=json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {one["name"]: one["version"] for one in json.loads(listed)}


def test_one_file_alone_gets_what_is_missing_and_the_whole_chapter_runs(
    folder: Path, colab: World, archive_address: str, open_in: Open
) -> None:
    before = installed(colab)
    assert not {"reqpool", "hypothesis", "pooch"} & before.keys()
    notebook = alone(folder, archive_address)
    with open_in(notebook, folder, colab) as kernel:
        assert kernel.run_all() == []
        after, first = installed(colab), said(notebook)
        assert after.keys() - before.keys() == {"reqpool", "hypothesis", "pooch", "sortedcontainers"}
        assert {name: after[name] for name in before} == before, "what was there stays as it was, torch above all"
        assert "Successfully installed reqpool" in first, "pip's own words are seen"
        assert f"torch is {before['torch']}, as before" in first

        assert kernel.run_all() == []
        assert said(notebook) == "", "the second run installs nothing"
        assert kernel.drive("00") == []
    assert installed(colab) == after


FAILS = {
    "no address": (
        "",
        "ModuleNotFoundError: reqpool is not here: get the whole repository and open this file in its notebooks "
        "folder, or put the repository's folder reqpool beside this file, and run this cell again.",
    ),
    "nothing at the address": (
        "file:///no/such/archive.zip",
        "ModuleNotFoundError: reqpool could not be installed from file:///no/such/archive.zip; the lines above say "
        "why: get the whole repository and open this file in its notebooks folder, or put the repository's folder "
        "reqpool beside this file, and run this cell again.",
    ),
}


@pytest.mark.parametrize("address, sentence", FAILS.values(), ids=FAILS)
def test_when_nothing_works_one_sentence_says_what_to_do(
    address: str, sentence: str, folder: Path, colab: World, open_in: Open
) -> None:
    notebook = only_set_up(alone(folder, address))
    with open_in(notebook, folder, colab) as kernel:
        kernel.run_all()
    assert raised(notebook) == sentence
    if address:
        assert "ERROR" in said(notebook), "pip's own words are seen"


@pytest.mark.parametrize("beside", ["reqpool", "."], ids=["a whole clone", "the package's folder"])
def test_put_beside_the_file_it_is_found_and_nothing_has_to_be_fetched(
    beside: str, folder: Path, colab: World, open_in: Open
) -> None:
    notebook = only_set_up(alone(folder))
    shutil.copytree(ROOT / "reqpool", folder / beside / "reqpool")
    notebook.cells.append(nbformat.v4.new_code_cell("import reqpool; print(reqpool.__file__)"))
    with open_in(notebook, folder, colab) as kernel:
        assert kernel.run_all() == []
    assert Path(said(notebook, 1).strip()).parent == (folder / beside / "reqpool").resolve()


def test_a_change_of_torch_is_said_loudly(folder: Path, colab: World, open_in: Open) -> None:
    """An archive that brings another torch along, which --no-deps alone would not notice."""
    address = folder.parent / "reqpool-0-py3-none-any.whl"
    with zipfile.ZipFile(address, "w") as wheel:
        info = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
        wheel.writestr("reqpool-0.dist-info/METADATA", info.format("reqpool", "0"))
        wheel.writestr("reqpool-0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("reqpool-0.dist-info/RECORD", "")
        wheel.writestr("reqpool-0.data/purelib/torch-99.dist-info/METADATA", info.format("torch", "99"))
    torch = installed(colab)["torch"]
    notebook = only_set_up(alone(folder, address.as_uri()))
    with open_in(notebook, folder, colab) as kernel:
        kernel.run_all()
    assert raised(notebook).startswith(f"RuntimeError: TORCH WAS CHANGED, from {torch} to 99, which")


def test_without_torch_it_says_what_to_install_first_and_installs_nothing(folder: Path, open_in: Open) -> None:
    notebook = only_set_up(alone(folder))
    hidden = "import sys; sys.modules['torch'] = None  # as if it were not installed\n"
    notebook.cells[0].source = hidden + notebook.cells[0].source.replace(
        "specs = {name: find_spec(name) for name in names}",
        "specs = {name: None if name == 'torch' else find_spec(name) for name in names}",
    )
    with open_in(notebook, folder, World("python3", sys.executable)) as kernel:
        kernel.run_all()
    assert raised(notebook) == (
        "ModuleNotFoundError: torch must be here first, and this cell leaves that to you: "
        "run `%pip install torch` in a cell of its own, then run this cell again."
    )


# ---- a clone ---------------------------------------------------------------------------------------------------------


def test_a_clone_in_which_nothing_was_installed_serves_without_a_network(tmp_path: Path, open_in: Open) -> None:
    world = worlds.colab(tmp_path / f"offline-{tmp_path.name}".lower(), wheels=False)
    notebook = nbformat.read(ROOT / "notebooks" / "02_alloc_and_free.ipynb", as_version=4)
    with open_in(notebook, ROOT / "notebooks", world) as kernel:
        assert kernel.run_all() == []
        assert "Without hypothesis and sortedcontainers and pooch the course works too" in said(notebook)
        assert kernel.drive("02") == []
        assert kernel.touched["wrong answer"] > 0, "`check` works by its breadth-first search alone"
    assert not worlds.has(world.python, "hypothesis")


# ---- Binder ----------------------------------------------------------------------------------------------------------


def test_in_binders_layout_postbuild_passes_and_the_cell_has_nothing_to_do(tmp_path: Path, open_in: Open) -> None:
    """The whole repository in the home folder, `pip install -e .` in it, then postBuild: as Binder does."""
    home = copy_of_the_repository(tmp_path / "jovyan")
    world = World(f"binder-{tmp_path.name}".lower(), worlds.layer(sys.executable, tmp_path / "binder"))
    path = os.pathsep.join([str(Path(world.python).parent), os.environ["PATH"]])
    env = {**os.environ, **worlds.offline(), "PATH": path}
    for command in (["python", "-m", "pip", "install", "--no-deps", "-e", "."], ["./postBuild"]):
        built = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True)
        assert built.returncode == 0, built.stdout + built.stderr
    notebook = only_set_up(nbformat.read(home / "notebooks" / NOTEBOOK.name, as_version=4))
    notebook.cells.append(nbformat.v4.new_code_cell("import reqpool; print(reqpool.__file__)"))
    with open_in(notebook, home / "notebooks", world) as kernel:
        assert kernel.run_all() == []
    assert said(notebook) == ""
    assert Path(said(notebook, 1).strip()).is_relative_to(home)
