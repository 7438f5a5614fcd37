"""The two worlds, once for a run of the tests."""

from pathlib import Path

import pytest

from tests import worlds
from tests.worlds import World


@pytest.fixture(scope="session", params=["current", "colab"])
def world(request: pytest.FixtureRequest, jupyter_home: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Each as a kernel of its own name. What a notebook installs into Colab's is thrown away with it."""
    one = worlds.current() if request.param == "current" else worlds.colab(tmp_path_factory.mktemp("world") / "colab")
    one.write_kernel(jupyter_home / "path" / "kernels")
    return one
