"""A real Chromium and a real JupyterLab, once for all browser tests."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from reqpool.player import to_html
from reqpool.trace import Trace
from tests.browser.lab import Lab

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-domain-reliability"),
)
OpenStatic = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own for each test. It must ask no other machine for anything, and no script in it may fail."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    context.set_default_timeout(15_000)
    page = context.new_page()
    requests: list[str] = []
    failures: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: failures.append(str(error)))
    yield page
    context.close()
    here = ("file://", "http://127.0.0.1:", "data:", "blob:")
    assert [url for url in requests if not url.startswith(here)] == []
    assert failures == []


@pytest.fixture
def open_static(page: Page, tmp_path: Path) -> OpenStatic:
    """Write a trace as a static page and open it from the disk."""

    def open_static(trace: Trace, **options: float) -> Page:
        path = tmp_path / "player.html"
        path.write_text(to_html(trace, title="<a trace>", **options), encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector(".reqpool-player[data-step]")
        return page

    return open_static


@pytest.fixture(scope="session")
def lab(jupyter_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("notebooks"), jupyter_home) as lab:
        yield lab


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: $REQPOOL_SHOTS, to be looked at, or a folder that pytest clears away."""
    folder = os.environ.get("REQPOOL_SHOTS")
    path = Path(folder) if folder else tmp_path_factory.mktemp("shots")
    path.mkdir(parents=True, exist_ok=True)
    return path
