"""`make site`: the executed course in site/, as pages in which every player works without a kernel.

    python tools/build_site.py

Executes every notebook in notebooks/, each in a kernel of its own; the notebooks stay as they are. Where a cell raises,
nothing is written. The same notebooks and versions give the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coursesite.pages import Chapter, chapter, front_picture, render
from coursesite.run import Executed, execute, written

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS, SITE = ROOT / "notebooks", ROOT / "site"


def build(notebooks: Iterable[Executed], out: Path) -> list[Path]:
    """Write the pages of these chapters to a folder that is made anew; the paths of what was written."""
    chapters = [chapter(one, NOTEBOOKS) for one in notebooks]
    pages = render(chapters)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name, content in pages.items():
        (out / name).write_text(content, encoding="utf-8", newline="\n")
    for name, path in pictures(chapters).items():
        (out / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, out / name)
    return sorted(path for path in out.rglob("*") if path.is_file())


def pictures(chapters: Iterable[Chapter]) -> dict[str, Path]:
    found = {name: path for one in chapters for name, path in one.pictures.items()}
    front = front_picture() or {}
    for name in filter(None, (front.get("name"), front.get("still"))):
        found[name] = ROOT / name
    return found


def executed() -> list[Executed]:
    """Every notebook after a run, two at a time: most of it is waiting for PyTorch to be there; then the texts."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        chapters = list(pool.map(execute, sorted(NOTEBOOKS.glob("*.ipynb"))))
    return [*chapters, *map(written, sorted(NOTEBOOKS.glob("*.md")))]


def main() -> None:
    print("running the notebooks, which takes a minute", flush=True)
    written = build(executed(), SITE)
    for path in written:
        print(f"site/{path.relative_to(SITE)}: {path.stat().st_size:,} bytes")
    print(f"open {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
