"""Find a Chromium that starts, or get one: prints its path.

    python tools/find_browser.py          the path, or one line on how to get a browser and exit status 1
    python tools/find_browser.py --get    the same, but tries to install one first when there is none

Looked for in this order: $REQPOOL_CHROMIUM, the names below on the PATH, macOS's place for Chrome, Playwright's own.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
ADVICE = (
    "No Chromium or Chrome that starts was found, and the browser tests need one: install it (`apt install chromium`, "
    "or `.venv/bin/python -m playwright install chromium`), or set REQPOOL_CHROMIUM to its path."
)
ASK_PLAYWRIGHT = (
    "from playwright.sync_api import sync_playwright\nwith sync_playwright() as p: print(p.chromium.executable_path)"
)


def find() -> str | None:
    """The path of the first browser that starts, or None. $REQPOOL_CHROMIUM is taken or refused, never replaced."""
    wanted = os.environ.get("REQPOOL_CHROMIUM")
    if wanted:
        return wanted if starts(wanted) else None
    return next((path for path in candidates() if starts(path)), None)


def candidates() -> Iterator[str]:
    yield from filter(None, map(shutil.which, NAMES))
    yield MACOS
    yield playwrights_own()


def starts(path: str) -> bool:
    """Whether it runs at all: Ubuntu's chromium-browser without a snap, or one without its libraries, does not."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def playwrights_own() -> str:
    # in a process of its own: Playwright refuses to start twice in one, and tests call this too
    answer = subprocess.run([sys.executable, "-c", ASK_PLAYWRIGHT], capture_output=True, text=True)
    return answer.stdout.strip()


def get() -> str | None:
    """Try to install a browser: Playwright's own first, then, as root, the system's package."""
    tries = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        tries += [["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]]
    for command in tries:
        print("No browser yet, trying:", " ".join(command), file=sys.stderr, flush=True)
        subprocess.run(command, stdout=sys.stderr, stdin=subprocess.DEVNULL, env=quiet_environment())
        path = find()
        if path:
            return path
    return None


def quiet_environment() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}


def main(arguments: list[str]) -> int:
    path = find()
    if path is None and "--get" in arguments and not os.environ.get("REQPOOL_CHROMIUM"):
        path = get()
    if path is None:
        wanted = os.environ.get("REQPOOL_CHROMIUM")
        print(f"REQPOOL_CHROMIUM={wanted} is no browser that starts." if wanted else ADVICE, file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
