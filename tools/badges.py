"""Badges and the address of the package's archive, from one place: Repository in [project.urls] of pyproject.toml.

    python tools/badges.py      writes them, or takes them out again where no address is set

    README.md                      the block between <!-- badges --> and <!-- /badges -->
    notebooks/source/NN_name.py    the line under the title, and ARCHIVE in the set-up cell

Binder and Colab are sent to the tag v0.1.0 of version 0.1.0, and so is ARCHIVE: a notebook and the package that it
fetches are then of one age. An address is public once it is pushed, so nothing here guesses it from a git remote.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # comes with pytest there

ROOT = Path(__file__).resolve().parent.parent
FIRST_PAGE, WORKFLOW = "notebooks/00_start_here.ipynb", "test.yml"
MARK = "<!-- badges -->"
BLOCK = re.compile(rf"{MARK}\n.*?(?=<!-- /badges -->)", re.DOTALL)
TITLE = re.compile(rf"\A(# %% \[markdown\]\n# # .*\n)(?:#\n# .*{MARK}\n)?")
ARCHIVE = re.compile(r'^ARCHIVE = ".*?"', re.MULTILINE)
UNSET = """\
There are no badges here yet, since this repository has no public address yet. Until it has one, Binder wants the
address of your own copy; and a notebook that was opened alone, as on Colab, finds no package and says so.
"""


@dataclass(frozen=True)
class Place:
    """Where the project can be found: OWNER/NAME on GitHub, and the tag of this version."""

    repository: str
    tag: str

    @property
    def url(self) -> str:
        return f"https://github.com/{self.repository}"

    @property
    def archive(self) -> str:
        return f"{self.url}/archive/refs/tags/{self.tag}.tar.gz"

    def tests(self) -> str:
        workflow = f"{self.url}/actions/workflows/{WORKFLOW}"
        return f"[![Tests]({workflow}/badge.svg)]({workflow})"

    def binder(self, path: str) -> str:
        target = f"https://mybinder.org/v2/gh/{self.repository}/{self.tag}?urlpath={quote(f'lab/tree/{path}', safe='')}"
        return f"[![Open on Binder](https://mybinder.org/badge_logo.svg)]({target})"

    def colab(self, path: str) -> str:
        host = "https://colab.research.google.com"
        target = f"{host}/github/{self.repository}/blob/{self.tag}/{path}"
        return f"[![Open in Colab]({host}/assets/colab-badge.svg)]({target})"


def place(pyproject: str) -> Place | None:
    """What pyproject.toml says; None where it says nothing.

    Raises:
        ValueError: an address from which Binder's and Colab's cannot be made.
    """
    project = tomllib.loads(pyproject)["project"]
    address = project.get("urls", {}).get("Repository")
    if address is None:
        return None
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", address)
    if found is None:
        raise ValueError(f"Repository in [project.urls] must be https://github.com/OWNER/NAME, and is {address}")
    return Place(found[1], f"v{project['version']}")


def readme(text: str, where: Place | None) -> str:
    badges = (
        UNSET if where is None else "\n".join([where.tests(), where.binder(FIRST_PAGE), where.colab(FIRST_PAGE), ""])
    )
    return _once(BLOCK, lambda _: f"{MARK}\n{badges}", text, f"README.md has no {MARK} ... <!-- /badges -->")


def lesson(text: str, where: Place | None, name: str) -> str:
    """A notebook's source with its badges under the title and the archive in the set-up cell."""
    path = f"notebooks/{name}.ipynb"
    # the mark comes last: Markdown takes a line that begins with a comment for HTML, and shows no badge
    line = "" if where is None else f"#\n# {where.binder(path)} {where.colab(path)} {MARK}\n"
    archive = "" if where is None else where.archive
    text = _once(TITLE, lambda found: found[1] + line, text, f"{name}.py does not begin with a title")
    return _once(ARCHIVE, lambda _: f'ARCHIVE = "{archive}"', text, f"{name}.py has no line ARCHIVE = ...")


def _once(pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], text: str, otherwise: str) -> str:
    changed, n = pattern.subn(new, text)
    if n != 1:
        raise ValueError(otherwise if n == 0 else f"{otherwise.split()[0]} has {n} times what should be there once")
    return changed


def write(root: Path, where: Place | None) -> list[Path]:
    """All places, or none: the texts are made before the first is written. The paths of those that changed."""
    wanted = {root / "README.md": readme((root / "README.md").read_text(encoding="utf-8"), where)}
    for path in sorted((root / "notebooks" / "source").glob("[0-9][0-9]_*.py")):
        wanted[path] = lesson(path.read_text(encoding="utf-8"), where, path.stem)
    changed = [path for path, text in wanted.items() if text != path.read_text(encoding="utf-8")]
    for path in changed:
        path.write_text(wanted[path], encoding="utf-8", newline="\n")
    return changed


def main() -> int:
    try:
        where = place((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        changed = write(ROOT, where)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path in changed:
        print(f"wrote {path.relative_to(ROOT)}")
    if where is None:
        remote = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
        print("No badges: [project.urls] in pyproject.toml has no Repository.")
        print(f"The git remote is {remote.stdout.strip() or 'unset'}; when that is public, write it there.")
    else:
        print(f"Badges and set-up cells lead to the tag {where.tag} of {where.url}: it must be pushed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
