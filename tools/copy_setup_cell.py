"""Copy the set-up cell of chapter 00 into every other chapter: it is the same in all, since each may travel alone.

python tools/copy_setup_cell.py
"""

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "notebooks" / "source"
CELL = re.compile(
    r'(?<=^# %% tags=\["setup"\] jupyter=\{"source_hidden": true\}\n).*?(?=^# %%)', re.DOTALL | re.MULTILINE
)


def setup_cell(source: Path) -> str:
    (cell,) = CELL.findall(source.read_text(encoding="utf-8"))
    return cell


def main() -> None:
    first, *others = sorted(SOURCES.glob("[0-9][0-9]_*.py"))
    cell = setup_cell(first)
    for path in others:
        if setup_cell(path) != cell:
            path.write_text(CELL.sub(lambda _: cell, path.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"{path.name} has the set-up cell of {first.name}")


if __name__ == "__main__":
    main()
