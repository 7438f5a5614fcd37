"""environment.yml and postBuild, as repo2docker reads them: it prints the build that it would make, and makes none."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.platforms.travelling import PROJECT, ROOT, copy_of_the_repository

EXTRAS = PROJECT["optional-dependencies"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
CONDA = [one for one in ENVIRONMENT["dependencies"] if isinstance(one, str)]


# ---- as repo2docker reads it -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The build that Binder would make of this repository, as a Dockerfile."""
    repository = copy_of_the_repository(tmp_path_factory.mktemp("binder"))
    command = [
        sys.executable,
        "-m",
        "repo2docker",
        "--no-build",
        "--debug",
        "--user-id=1000",
        "--user-name=jovyan",
        ".",
    ]
    read = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    return read.stdout + read.stderr


def test_binder_takes_conda_and_the_python_that_environment_yml_names(build: str) -> None:
    assert "Building conda environment for python=3.12" in build
    assert re.search(r"COPY .*environment-2epy-2d3-2e12-2dlinux", build)


def test_the_repository_is_there_when_the_environment_is_made_and_postbuild_comes_last(build: str) -> None:
    """So that `-e .` in environment.yml finds this package. A file read ahead of the repository would not."""
    steps = ["COPY --chown=1000:1000 src/ ${REPO_DIR}/", '--file "environment.yml"', "RUN ./postBuild", "CMD "]
    places = [build.index(step) for step in steps]
    assert places == sorted(places)
    assert build.count("environment.yml") == 1


# ---- the rules, one by one -------------------------------------------------------------------------------------------


def test_environment_comes_from_conda_forge_only() -> None:
    assert ENVIRONMENT["channels"] == ["conda-forge"]


def test_environment_names_just_the_packages_of_this_project_and_the_cpu_build_of_torch() -> None:
    wanted = [*PROJECT["dependencies"], *EXTRAS["lab"], *EXTRAS["course"]]
    names = {canonicalize_name(Requirement(one).name) for one in wanted}
    conda = {re.split(r"[<>=!~ ]", one)[0] for one in CONDA}
    names -= {"torch", "ipykernel", "numpy"}  # pytorch-cpu is torch there; JupyterLab and matplotlib bring the others
    assert conda == names | {"pytorch-cpu", "python", "pip"}


def test_environment_and_package_agree_where_both_name_a_bound() -> None:
    named = [Requirement(one) for one in [*PROJECT["dependencies"], *EXTRAS["lab"], *EXTRAS["course"]]]
    bounds = {one.name: one.specifier for one in named}
    for text in CONDA:
        name, bound = re.fullmatch(r"([\w-]+)(.*)", text).groups()
        name = {"pytorch-cpu": "torch"}.get(name, name)
        if bound and name in bounds:
            assert bounds[name] == Requirement(f"{name}{bound}").specifier


def test_environment_spells_python_so_that_repo2docker_reads_it() -> None:
    assert [one for one in CONDA if re.match(r"python\b", one)] == ["python=3.12"]
    assert "3.12" in Requirement(f"python{PROJECT['requires-python']}").specifier


def test_environment_installs_this_package_itself() -> None:
    assert [one for one in ENVIRONMENT["dependencies"] if not isinstance(one, str)] == [{"pip": ["-e ."]}]


def test_no_other_file_hides_environment_yml_from_binder() -> None:
    assert [name for name in ("binder", ".binder", "Dockerfile") if Path(ROOT, name).exists()] == []


def test_post_build_can_be_run_and_stops_at_the_first_error() -> None:
    script = ROOT / "postBuild"
    assert script.stat().st_mode & 0o111
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "set -e"
