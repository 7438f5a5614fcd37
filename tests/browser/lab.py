"""A JupyterLab of one's own and a notebook in it, driven as a user would, from Python.

with Lab(root, environment) as lab:          a server on a free port of 127.0.0.1
    notebook = lab.open(page, "story.ipynb")
    notebook.run_all()
    notebook.ask("player.step")              what the kernel thinks, on the side
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
from playwright.sync_api import Page

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 60
NOTEBOOK_MS = 60_000
KERNEL = "jupyterapp.shell.currentWidget.sessionContext.session?.kernel"

ASK = f"""async (code) => {{
  const future = {KERNEL}.requestExecute({{code, store_history: false}});
  let said = "";
  future.onIOPub = (message) => {{
    if (message.header.msg_type === "stream") said += message.content.text;
    if (message.header.msg_type === "error") said += message.content.ename + ": " + message.content.evalue;
  }};
  await future.done;
  return said;
}}"""

CELLS = """() => jupyterapp.shell.currentWidget.content.widgets
  .filter((cell) => cell.model.type === "code" && cell.model.sharedModel.getSource().trim())"""


class Lab:
    """A server that starts with the `with` and ends with it; it serves one folder."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.home = home
        self.token = secrets.token_hex(8)

    def __enter__(self) -> "Lab":
        self._silence_news()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = (self.home / "lab.log").open("wb")
        self.server = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
                *(f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.root}"),
                *(f"--IdentityProvider.token={self.token}", "--LabApp.expose_app_in_browser=True"),
                *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
            ],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        )
        self._wait()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.terminate()
        self.server.wait(timeout=20)
        self.log.close()

    def _silence_news(self) -> None:
        folder = Path(os.environ["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab" / "apputils-extension"
        folder.mkdir(parents=True, exist_ok=True)
        quiet = {"fetchNews": "false", "checkForUpdates": False}
        folder.joinpath("notification.jupyterlab-settings").write_text(json.dumps(quiet))

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.server.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/api/status?token={self.token}", timeout=2).close()
                return
            except (urllib.error.URLError, TimeoutError):
                time.sleep(0.1)
        self.server.terminate()
        raise RuntimeError(f"JupyterLab did not start; it said:\n{(self.home / 'lab.log').read_text()[-2000:]}")

    def write(self, name: str, *cells: str) -> str:
        """A notebook of these code cells in the folder that is served."""
        notebook = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            cells=[nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(cells)],
        )
        nbformat.write(notebook, self.root / name)
        return name

    def open(self, page: Page, name: str) -> "Notebook":
        page.goto(f"{self.url}/lab/tree/{name}?reset&token={self.token}")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=NOTEBOOK_MS)
        notebook = Notebook(page)
        notebook.wait_idle()
        return notebook


class Notebook:
    """The notebook that is open in a page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def command(self, name: str, **arguments: str) -> None:
        self.page.evaluate("([name, given]) => { jupyterapp.commands.execute(name, given); }", [name, arguments])

    def wait_idle(self) -> None:
        self.page.wait_for_function(f"() => {KERNEL}?.status === 'idle'", timeout=NOTEBOOK_MS)

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            f"() => ({CELLS})().every((cell) => cell.model.executionCount > 0)", timeout=2 * NOTEBOOK_MS
        )
        self.wait_idle()

    def run(self, index: int) -> None:
        """Start one cell and do not wait for it."""
        self.page.evaluate("(i) => { jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", index)
        self.command("notebook:run-cell")

    def outputs(self, index: int) -> str:
        """The outputs of a cell, as JSON text."""
        return self.page.evaluate(
            "(i) => JSON.stringify(jupyterapp.shell.currentWidget.content.widgets[i].model.outputs.toJSON())", index
        )

    def scroll_to(self, index: int) -> None:
        """JupyterLab draws only cells near the view."""
        self.page.evaluate(
            "(i) => { const book = jupyterapp.shell.currentWidget.content; book.scrollToCell(book.widgets[i]); }", index
        )

    def ask(self, expression: str) -> str:
        """What the kernel prints for an expression, asked beside the notebook's own cells."""
        return self.page.evaluate(ASK, f"print({expression})").strip()

    def tell(self, statement: str) -> str:
        """Run a statement in the kernel; what it wrote, which is nothing when all is well."""
        return self.page.evaluate(ASK, statement).strip()

    def theme(self, name: str) -> None:
        """`JupyterLab Light` or `JupyterLab Dark`."""
        self.command("apputils:change-theme", theme=name)
        light = "true" if name.endswith("Light") else "false"
        self.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
