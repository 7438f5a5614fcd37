"""What a lesson needs besides the pool: a self-check, code to read, questions to answer, pictures.

    setup()              one readable line each: Python, torch and its device, the widgets
    source(obj)          the code of something in the package, with where it stands
    predict(...)         a committed answer unlocks the reveal; prediction and outcome stand side by side
    quiz("02")           the questions of a chapter, with every answer explained
    figure("path.svg")   a picture of the folder figures/, with its sentence

The pieces that these are put together from are in `reqpool.parts`, the questions in `reqpool.questions`; exercises and
their checks are in `reqpool.examine`.
"""

from __future__ import annotations

import base64
import importlib.metadata
import inspect
import json
import platform
import sys
import textwrap
from html import escape
from pathlib import Path
from typing import Any

import torch
from IPython.display import HTML, Markdown

import reqpool
from reqpool.parts import note, player, prose, text_box
from reqpool.questions import predict, quiz

__all__ = ["figure", "note", "player", "predict", "prose", "quiz", "setup", "source", "text_box"]

# ---- the self-check ------------------------------------------------------------------------------------------------


def setup() -> HTML:
    """Say what this notebook runs on. Changes nothing, installs nothing; a second run says the same again."""
    device = f"the GPU {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "the CPU"
    lines = [
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}, which sees {device}; the lessons use the CPU and give the same integers anywhere",
        ", ".join(f"{name} {version_of(name)}" for name in ("ipywidgets", "anywidget", "IPython", "matplotlib")),
        f"reqpool {version_of('reqpool')}",
    ]
    if "google.colab" in sys.modules:
        remedy = 'import os; os.environ["REQPOOL_STATIC"] = "1"'
        lines.append(f"If a player below stays blank, run <code>{escape(remedy)}</code> and then the cell again.")
    items = "".join(f"<li>{line}</li>" for line in lines)
    return HTML(f"<p><strong>Ready.</strong></p><ul>{items}</ul>")


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from this folder" if package == reqpool.__name__ else "is missing"


# ---- code to read ---------------------------------------------------------------------------------------------------


def source(*objects: Any) -> Markdown:
    """The code of functions, methods or classes as it stands in the package, with file and line."""
    return Markdown("\n\n".join(_listing(one) for one in objects))


def _listing(one: Any) -> str:
    lines, start = inspect.getsourcelines(one)
    path = Path(inspect.getsourcefile(one) or "?")
    package = Path(reqpool.__file__).parent.parent
    where = path.relative_to(package).as_posix() if path.is_relative_to(package) else path.name
    return f"*{where}, line {max(start, 1)}*\n```python\n{textwrap.dedent(''.join(lines)).rstrip()}\n```"


# ---- pictures ------------------------------------------------------------------------------------------------------


def figure(name: str) -> HTML:
    """A picture or animation of the folder figures/ with its sentence, embedded: a notebook may be on its own.

    Raises:
        ValueError: there is none of this name.
    """
    folder = figures_folder()
    captions = json.loads((folder / "captions.json").read_text(encoding="utf-8"))
    if name not in captions:
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(captions)}")
    kind = {".gif": "image/gif", ".svg": "image/svg+xml"}[Path(name).suffix]
    data = base64.b64encode((folder / name).read_bytes()).decode("ascii")
    # of its own white ground also in a dark notebook: a card, then
    style = "box-sizing: border-box; width: 100%; max-width: 836px; height: auto; padding: 8px; border-radius: 8px"
    return HTML(
        f'<img src="data:{kind};base64,{data}" alt="{escape(captions[name])}" style="{style}; background: #fff">'
    )


def figures_folder() -> Path:
    """Beside the package in a clone, inside it where a wheel was installed."""
    package = Path(reqpool.__file__).resolve().parent
    return package / "figures" if (package / "figures").is_dir() else package.parent / "figures"
