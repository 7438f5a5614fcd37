"""The house rules that a reader cannot see in one file: floors, platforms, and nothing that belongs to one machine."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "reqpool"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")

# ------------------------------------------------------------------------------------------------ floors

ROOMS = {
    "model": ("pool", "checked", "faulty", "kv", "serving", "workloads"),
    "trace": ("trace",),
    "scenarios": ("scenarios",),
    "exercises": ("exercises",),
    "view": ("views",),
    "widget": ("player", "parts", "questions", "examine", "lab", "notebook"),
    "door": ("",),  # reqpool/__init__.py
}
FLOOR_OF = {room: floor for floor, rooms in ROOMS.items() for room in rooms}
MAY_IMPORT = {
    "model": {"model"},
    "trace": {"model", "trace"},
    "scenarios": {"model", "trace", "scenarios"},
    "exercises": {"model", "trace", "scenarios", "exercises"},
    "view": {"model", "trace", "view"},
    "widget": {"model", "trace", "scenarios", "exercises", "view", "widget", "door"},
    "door": {"model", "trace"},
}
DISPLAY = {"anywidget", "ipywidgets", "traitlets", "IPython", "pygments"}  # the last one comes with IPython
MAY_USE = {
    "model": {"torch", "numpy", "torch_memory_saver", "pooch"},
    "trace": {"torch"},
    "scenarios": {"torch"},
    "exercises": {"torch", "numpy", "hypothesis"},
    "view": {"torch"},
    "widget": {"torch"} | DISPLAY,
    "door": set(),
}
LOWER = ["reqpool", "reqpool.trace", "reqpool.scenarios", "reqpool.exercises.catalogue", "reqpool.views"]
MODULES = sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> list[str]:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(path: Path) -> Iterator[str]:
    """The dotted name of everything this file imports, wherever in the file; `from a import b` counts as a.b."""
    package = dotted(path) if path.stem == "__init__" else dotted(path)[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def room(name: str) -> str:
    """reqpool.views.grid -> views. A name that is not a room, such as reqpool.__version__, is the door's."""
    second = [*name.split("."), ""][1]
    return second if (PACKAGE / second).is_dir() or (PACKAGE / f"{second}.py").exists() else ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: ".".join(dotted(path)))
def test_imports_go_down_only(path: Path) -> None:
    here = room(".".join(dotted(path)))
    assert here in FLOOR_OF, f"{path.name} is in no room of ROOMS: give it a floor"
    floor = FLOOR_OF[here]
    for name in imported(path):
        top = name.split(".")[0]
        if top == "reqpool":
            assert FLOOR_OF.get(room(name)) in MAY_IMPORT[floor], f"{floor} imports {name}"
        elif top == "matplotlib":
            assert path == PACKAGE / "views" / "charts.py", f"matplotlib belongs in views/charts.py: {name}"
            assert not name.startswith(("matplotlib.pyplot", "matplotlib.pylab")), "figures are made without pyplot"
        else:
            assert top in sys.stdlib_module_names | MAY_USE[floor], f"{floor} imports {name}"


@pytest.mark.parametrize("module", LOWER)
def test_importing_a_lower_floor_loads_no_display_library(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not (DISPLAY | {"matplotlib"}) & set(loaded.split())


# ------------------------------------------------------------------------------------------------ tracked files


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def lines_with(pattern: str, files: list[Path]) -> list[str]:
    found = []
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a picture or an archive
        found += [
            f"{path.relative_to(ROOT)}:{n}: {line[:120]}" for n, line in enumerate(lines, 1) if re.search(pattern, line)
        ]
    return found


def test_no_path_of_one_machine() -> None:
    assert lines_with(r"(?<![\w./:~-])/(root|work|home|Users|tmp)/\w", tracked()) == []


def test_no_registry_is_named() -> None:
    hosts = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", r"\w+"), ("jsdelivr", "net"), ("unpkg", "com")]
    hosts += [("download", "pytorch", "org"), ("anaconda", r"\w+"), ("debian", "org"), ("ubuntu", "com")]
    assert lines_with("|".join(r"\.".join(host) for host in hosts), tracked()) == []


def test_no_pyplot_in_the_package_or_a_lesson() -> None:
    files = [path for path in tracked() if {"reqpool", "notebooks"} & set(path.relative_to(ROOT).parts[:1])]
    assert lines_with(r"\b(pyplot|pylab)\b", files) == []


def test_the_player_names_no_other_host() -> None:
    files = [path for path in (PACKAGE / "player").rglob("*") if path.is_file()]
    assert lines_with(r"https?://(?!www\.w3\.org/)", files) == []


@pytest.mark.parametrize("name", ["README.md", "NOTICE.md"])
def test_every_link_to_a_file_leads_to_one(name: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


# ------------------------------------------------------------------------------------------------ versions

# Colab's package list of 2026-08-19: an install there must leave all of these alone.
COLAB = {
    "torch": "2.11.0",
    "numpy": "2.1.3",
    "matplotlib": "3.10.0",
    "ipywidgets": "7.7.1",
    "anywidget": "0.9.21",
    "ipykernel": "6.17.1",
}

DEPENDENCIES = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = [Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts]
NAMED = [one for one in DEPENDENCIES + EXTRAS if one.name != PROJECT["name"]]
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


def test_package_metadata_has_lower_bounds_only() -> None:
    assert {one.name: [part.operator for part in one.specifier] for one in NAMED} == {one.name: [">="] for one in NAMED}


def test_an_install_on_colab_changes_nothing_that_is_there() -> None:
    assert [str(one) for one in NAMED if one.name in COLAB and COLAB[one.name] not in one.specifier] == []
    assert {one.name for one in DEPENDENCIES} <= COLAB.keys()


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_pin_every_named_package_once_and_within_its_bounds(python: str) -> None:
    here = {"python_version": python, "sys_platform": "linux", "platform_machine": "x86_64"}
    pins = [pin for pin in PINS if pin.marker is None or pin.marker.evaluate(here)]
    exact = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(exact) == len(pins)
    assert [str(one) for one in NAMED if exact.get(one.name, "0") not in one.specifier] == []
