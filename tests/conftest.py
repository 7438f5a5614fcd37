"""What every test may ask for: a Jupyter that is nobody's own, and a browser."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import find_browser
import pytest
from hypothesis import settings

from tests.worlds import World

# Times on a busy machine say nothing about the code; the seed is fixed where a red run must be the change's own fault.
settings.register_profile("reqpool", deadline=None)
settings.register_profile("server", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("server" if os.environ.get("CI") else "reqpool")


@pytest.fixture(scope="session")
def jupyter_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which every Jupyter of this run lives; its kernel `python3` is the interpreter that runs the tests.

    Whatever kernels, settings and workspaces this machine has are neither seen nor touched.
    """
    home = tmp_path_factory.mktemp("jupyter")
    World("python3", sys.executable).write_kernel(home / "path" / "kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(home / "path"))
        for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
            patch.setenv(f"JUPYTER_{name}", str(home / name.lower()))
        for name in ("JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield home


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a browser that starts. Without one a test fails, and is not skipped."""
    path = find_browser.find()
    if path is None:
        pytest.fail(find_browser.ADVICE)
    return path
