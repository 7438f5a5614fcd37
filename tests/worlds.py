"""The environments in which notebooks are run: the current versions, and Colab's older ones (`make test` builds both).

A `layer` is an environment of its own on top of another one: it sees what is installed there, and what is installed
into the layer is in the layer only. It costs a second, so a test that installs something gets a fresh one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

COLAB = Path(os.environ.get("REQPOOL_COLAB") or f"{sys.prefix}-colab")
ADVICE = "Colab's versions are not installed beside this environment: `make test` does so"


@dataclass(frozen=True)
class World:
    """An interpreter for kernels, and what is set in their environment."""

    name: str
    python: str
    env: Mapping[str, str] = field(default_factory=dict)

    def write_kernel(self, kernels: Path) -> str:
        """Make it a kernel that Jupyter finds, and give the kernel's name."""
        folder = kernels / self.name
        folder.mkdir(parents=True, exist_ok=True)
        argv = [self.python, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": self.name, "language": "python", "env": dict(self.env)}
        folder.joinpath("kernel.json").write_text(json.dumps(spec))
        return self.name


def current() -> World:
    return World("current", sys.executable)


def colab(folder: Path, wheels: bool = True) -> World:
    """Colab's versions, without this package, hypothesis and pooch.

    Args:
        wheels: whether pip finds what set-up has fetched; it asks no registry in any case.
    """
    env = offline() if wheels else {**offline(), "PIP_FIND_LINKS": str(folder)}
    return World(folder.name, layer(str(COLAB / "bin" / "python"), folder), env)


def offline() -> dict[str, str]:
    """What makes pip take only what set-up has put into a folder: hypothesis, pooch, the build tool."""
    if not (COLAB / ".made").exists():
        if "REQPOOL_COLAB" in os.environ:
            pytest.fail(ADVICE)
        pytest.skip(ADVICE)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(COLAB / "wheels"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def layer(python: str, folder: Path) -> str:
    """Make an environment in `folder` that sees the packages of this interpreter too; gives its own interpreter."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    below, here = (
        subprocess.run([one, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for one in (python, str(folder / "bin" / "python"))
    )
    Path(here, "zz_below.pth").write_text(below + "\n")
    return str(folder / "bin" / "python")


def has(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-I", "-c", code], check=False).returncode == 0
