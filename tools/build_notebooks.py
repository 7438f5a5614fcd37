"""Build notebooks/NN_name.ipynb from notebooks/source/NN_name.py (py:percent), the same bytes every time.

    python tools/build_notebooks.py            writes what is new or different
    python tools/build_notebooks.py --check    writes nothing, names what differs, exit status 1

A notebook in which somebody has worked (a cell of it was run) is first copied to notebooks/kept/.

jupytext reads the source; what it would leave to chance or to its version is set here: cell ids come from chapter and
cell index, the kernel is always python3, and of a cell's metadata only its tags and whether it is folded are kept.
"""

import itertools
import json
import shutil
import sys
from pathlib import Path

import jupytext
import nbformat

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
KEPT = ("tags", "jupyter")  # cell metadata: tags, and {"source_hidden": true} for a folded solution
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def build(source: Path) -> str:
    """The text of the notebook that belongs to this source file."""
    read = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent")
    chapter = source.stem.split("_")[0]
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}})
    notebook.nbformat_minor = 5
    notebook.cells = [clean(cell, f"{chapter}-{index:03d}") for index, cell in enumerate(read.cells)]
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def clean(cell: nbformat.NotebookNode, cell_id: str) -> nbformat.NotebookNode:
    makers = {
        "code": nbformat.v4.new_code_cell,
        "markdown": nbformat.v4.new_markdown_cell,
        "raw": nbformat.v4.new_raw_cell,
    }
    kept = {key: cell.metadata[key] for key in KEPT if key in cell.metadata}
    return makers[cell.cell_type](cell.source, id=cell_id, metadata=kept)


def sources(folder: Path = NOTEBOOKS) -> list[Path]:
    return sorted((folder / "source").glob("[0-9][0-9]_*.py"))


def differences(folder: Path = NOTEBOOKS) -> list[str]:
    """One sentence for each notebook that is not what its source builds; none when all is well."""
    wanted = {folder / f"{source.stem}.ipynb": build(source) for source in sources(folder)}
    orphans = set(folder.glob("*.ipynb")) - wanted.keys()
    found = [f"{path.name} has no source in notebooks/source" for path in sorted(orphans)]
    return found + [sentence for path, text in wanted.items() if (sentence := difference(path, text))]


def difference(path: Path, wanted: str) -> str | None:
    if not path.exists():
        return f"{path.name} is not built"
    there = path.read_bytes()
    if there == wanted.encode():
        return None
    try:
        old = {cell["id"]: cell for cell in json.loads(there)["cells"]}
    except (ValueError, KeyError, TypeError):
        return f"{path.name} is not a notebook with cell ids"
    new = {cell["id"]: cell for cell in json.loads(wanted)["cells"]}
    cells = [key for key in {**new, **old} if old.get(key) != new.get(key)]
    return f"{path.name} differs from its source in " + (f"cells {', '.join(cells)}" if cells else "its metadata")


def keep(path: Path) -> Path | None:
    """Copy a notebook that somebody has run, under a new name, so that nothing is lost. None: nothing to keep."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        worked = any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        worked = True  # whatever it is, it is not ours to throw away
    if not worked:
        return None
    folder = path.parent / "kept"
    folder.mkdir(exist_ok=True)
    names = (folder / f"{path.stem}-{number}.ipynb" for number in itertools.count(1))
    copy = next(name for name in names if not name.exists())
    shutil.copy2(path, copy)
    return copy


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not arguments:
        for source in sources():
            path, text = NOTEBOOKS / f"{source.stem}.ipynb", build(source)
            if difference(path, text):
                if kept := keep(path):
                    print(f"{path.name} had been worked in: your copy is {kept.relative_to(NOTEBOOKS.parent)}")
                path.write_bytes(text.encode())
                print(f"built {path.name}")
    found = differences()
    for sentence in found:
        print(f"{sentence}: run `make notebooks`" if arguments else sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
