"""The wheel: the package with its player, nothing else, and it installs alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.platforms.travelling import ROOT, tracked

PLAYER = {".js", ".css"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "-w", str(folder), "."], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_it_holds_every_file_of_the_package_and_none_besides(wheel: Path) -> None:
    """The figures travel inside it, for a notebook that came alone."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = {name for name in tracked() if name.startswith("reqpool/")}
    figures = {f"reqpool/{name}" for name in tracked() if name.startswith("figures/")}
    assert names == package | figures
    assert {Path(name).suffix for name in names} >= PLAYER
    assert not any("test" in part for name in names for part in Path(name).parts)


@pytest.mark.slow
def test_it_installs_alone_into_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "fresh")], check=True)
    python = str(tmp_path / "fresh" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    listed = subprocess.run([*pip, "list", "--format=freeze"], check=True, capture_output=True, text=True).stdout
    assert [line.split("==")[0] for line in listed.split()] == ["reqpool"]
    (player,) = tmp_path.glob("fresh/lib/python*/site-packages/reqpool/player")
    assert {path.suffix for path in player.iterdir()} >= PLAYER
