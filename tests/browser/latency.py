"""How long from a moved scrubber to the picture, in a real browser: `measure()` for `make bench`, or run this file.

A real mouse drags the scrubber; the clock runs from the `input` event, caught before the player sees it, to the second
animation frame after it. The player's own drawing is the `reqpool:draw` measure it leaves. Two ways to drag: `drag`
moves on by up to 6% of the line each time, `jump` goes anywhere, so that many events and most cells change at once.
"""

import os
import random
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import find_browser
from playwright.sync_api import Browser, ElementHandle, Page, sync_playwright

from reqpool.player import to_html
from tests.browser.conftest import FLAGS
from tests.browser.lab import Lab
from tests.browser.stories import busy

SIZES = ((8, 16, 200), (16, 64, 400), (64, 256, 1000))  # rows, positions, events
MOVES = 60
PAUSE_MS = 25
PLAY_SECONDS = 3
ROOT = ".reqpool-player[data-step]"

LISTEN = """(root) => {
  const seen = (root.seen = { draws: [], latencies: [], shown: [] });
  const frame = () => new Promise(requestAnimationFrame);
  const took = async () => {
    const start = performance.now();
    await frame();
    await frame();
    seen.latencies.push(performance.now() - start);
  };
  root.addEventListener("input", took, { capture: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntriesByName("reqpool:draw")) seen.draws.push(entry.duration);
  }).observe({ entryTypes: ["measure"] });
  new MutationObserver(() => seen.shown.push([performance.now(), Number(root.dataset.step)]))
    .observe(root, { attributeFilter: ["data-step"] });
}"""


def measure(moves: int = MOVES) -> list[dict]:
    """One entry for each place, size and way to drag: milliseconds, medians and 95th percentiles."""
    path = find_browser.find()
    if path is None:
        raise RuntimeError(find_browser.ADVICE)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        found = [entry for page, name in places(browser, Path(folder)) for entry in measured(page, name, moves)]
        browser.close()
    return found


def places(browser: Browser, folder: Path) -> Iterator[tuple[Page, dict]]:
    """Each size on a page from the disk, and in a JupyterLab of its own."""
    for rows, positions, events in SIZES:
        path = folder / "player.html"
        path.write_text(to_html(busy(rows, positions, events), speed=20), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.goto(path.as_uri())
        yield page, {"place": "static page", "size": f"{rows}x{positions}"}
        page.close()
    with jupyter_home(folder) as home, Lab(folder, home) as lab:
        for rows, positions, events in SIZES:
            source = "from reqpool.player import Player\nfrom tests.browser.stories import busy\n"
            source += f"Player(busy({rows}, {positions}, {events}), speed=20)"
            page = browser.new_page(viewport={"width": 1500, "height": 1300})
            notebook = lab.open(page, lab.write(f"{rows}.ipynb", source))
            notebook.run_all()
            yield page, {"place": "JupyterLab", "size": f"{rows}x{positions}"}
            page.close()


@contextmanager
def jupyter_home(folder: Path) -> Iterator[Path]:
    home = folder / "home"
    home.mkdir()
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    names += ("JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR")
    with mock.patch.dict(os.environ, {name: str(home / name.lower()) for name in names}):
        yield home


def measured(page: Page, name: dict, moves: int) -> Iterator[dict]:
    root = page.wait_for_selector(ROOT)
    if root is None:
        raise RuntimeError(f"no player at {page.url}")
    root.evaluate(LISTEN)
    playing = play(page, root)
    for way in ("drag", "jump"):
        drag(page, root, way, moves)
        seen = root.evaluate("(root) => ({ ...root.seen })")
        yield name | {
            "way": way,
            "moves": len(seen["latencies"]),
            "latency_ms": float(statistics.median(seen["latencies"])),
            "latency_p95_ms": percentile_95(seen["latencies"]),
            "drawing_ms": float(statistics.median(seen["draws"])),
            "drawing_p95_ms": percentile_95(seen["draws"]),
            **playing,
        }


def drag(page: Page, root: ElementHandle, way: str, moves: int) -> None:
    slider = root.query_selector("input[type=range]")
    if slider:
        slider.scroll_into_view_if_needed()
    box = slider and slider.bounding_box()
    if not box:
        raise RuntimeError("the scrubber is not in view")
    dice = random.Random(7)
    at = 0.5
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    page.mouse.down()
    page.wait_for_timeout(200)
    root.evaluate("(root) => { for (const list of Object.values(root.seen)) list.length = 0; }")
    for _ in range(moves):
        at = dice.random() if way == "jump" else (at + dice.uniform(0.01, 0.06)) % 1
        page.mouse.move(box["x"] + 9 + at * (box["width"] - 18), box["y"] + 10)
        page.wait_for_timeout(PAUSE_MS + dice.uniform(0, 17))
    page.wait_for_timeout(200)
    page.mouse.up()


def play(page: Page, root: ElementHandle) -> dict:
    """Twenty steps a second for some seconds: how many of them were not drawn in their time."""
    root.evaluate("(root) => { root.focus(); root.seen.shown.length = 0; }")
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.wait_for_timeout(1000 * PLAY_SECONDS)
    page.keyboard.press("Space")
    shown = root.evaluate("(root) => root.seen.shown")
    (start, first), (end, last) = shown[0], shown[-1]
    due = round((end - start) / 50)
    return {"played": last - first, "dropped": max(0, due - (len(shown) - 1)), "skipped": last - first + 1 - len(shown)}


def percentile_95(values: list[float]) -> float:
    return float(sorted(values)[int(0.95 * len(values))])


if __name__ == "__main__":
    for entry in measure():
        words = [
            f"{key} {round(value, 1)}" if key not in ("place", "size", "way") else value for key, value in entry.items()
        ]
        print("  ".join(words))
