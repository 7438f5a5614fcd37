"""The project as it travels: an archive of the repository, and a server that hands it out."""

import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.platforms.travelling import ROOT, tracked


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def archive_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a tagged archive can be fetched: all files under version control in one folder, as hosts pack them."""
    folder = tmp_path_factory.mktemp("archive")
    with zipfile.ZipFile(folder / "v0.zip", "w") as archive:
        for name in tracked():
            archive.write(ROOT / name, f"reqpool-0/{name}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v0.zip"
    server.shutdown()
    server.server_close()
