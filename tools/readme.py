"""What README.md says that is counted or measured: lines of code, and the last `make bench`.

    python tools/readme.py                  the lines of every file in "How the code reads", rounded to ten
    python tools/readme.py --bench FILE     the same, and what `make bench` printed (`-`: standard input)

A line that `make bench` printed is cut where its columns begin; the first says date and machine.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| (?P<files>`reqpool/[^|]+`) \|(?P<lines>[^|]*)\|", re.MULTILINE)
BENCH = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- /bench -->)", re.DOTALL)
HEAD = re.compile(r"^what +measured +target *$", re.MULTILINE)
CODE = (".py", ".js", ".css")


def count(files: str) -> int:
    """Lines of the files and folders that a cell of the table names."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths(files))


def paths(files: str) -> list[Path]:
    found = []
    for name in re.findall(r"`([^`]+)`", files):
        path = ROOT / name
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [one for one in inside if one.suffix in CODE]
    return found


def with_lines(text: str) -> str:
    return ROW.sub(lambda row: f"| {row['files']} | {round(count(row['files']), -1):,} |", text)


def with_bench(text: str, printed: str) -> str:
    if not BENCH.search(text):
        raise ValueError("README.md has no <!-- bench --> ... <!-- /bench -->")
    return BENCH.sub(lambda _: bench(printed), text)


def bench(printed: str) -> str:
    """What `make bench` printed, as Markdown: a sentence that stays visible, and the table folded below it."""
    head = HEAD.search(printed)
    first = re.search(r"^(\d{4}-\d\d-\d\d), (.+?)\. This takes", printed, re.MULTILINE)
    last = re.search(r"^\d+ targets missed", printed, re.MULTILINE)
    if not (head and first and last):
        raise ValueError("that is not the whole of what `make bench` prints: date and machine, the table, the sum")
    starts = [head[0].index(word) for word in ("what", "measured", "target")]
    lines = [cells(line, starts) for line in printed[head.end() : last.start()].splitlines() if line.strip()]
    judged = [line[3] for line in lines if line[3]]
    missed = f", {judged.count('MISSED')} missed" if "MISSED" in judged else ""
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"""\
Measured on {first[1]}: {first[2]}.
{judged.count("met")} of {len(judged)} targets met{missed}. Times are that machine's: look at the ratios.

<details><summary>All {len(lines)} lines</summary>

| what | measured | target | |
| --- | --- | --- | --- |
{rows}

</details>
"""


def cells(line: str, starts: list[int]) -> list[str]:
    """What, measured, target, verdict. A cell that is too long pushes the next ones to the right, by two spaces."""
    verdict = re.search(r" +(met|MISSED)$", line)
    rest, found = line[: verdict.start()] if verdict else line, []
    for start, end in itertools.pairwise(starts):
        cut = rest.find("  ", end - start - 2)
        cut = len(rest) if cut < 0 else cut
        found.append(rest[:cut])
        rest = rest[cut + 2 :]
    shown = [cell.strip().replace("|", "\\|") for cell in (*found, rest)]
    indent = "&nbsp;&nbsp;" if line.startswith("  ") else ""
    return [indent + shown[0], *shown[1:], verdict[1] if verdict else ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", metavar="FILE")
    chosen = parser.parse_args().bench
    path = ROOT / "README.md"
    try:
        text = with_lines(path.read_text(encoding="utf-8"))
        if chosen:
            text = with_bench(text, sys.stdin.read() if chosen == "-" else Path(chosen).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    path.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
