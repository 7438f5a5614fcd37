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
from IPython.display import HTML
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

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


# JupyterLab's colours of code, light and dark; where there are none, a card that is light in both. A rule with :where
# gives way to a page's own for Pygments' classes, and `--ink` is the text of a page that has such. Where a line is too
# long, the box scrolls: JupyterLab would break it in mid-word.
CODE_STYLE = """
:where(.reqpool-source) {
  padding: 8px 12px;
  color: var(--jp-mirror-editor-variable-color, var(--ink, #212121));
  background: var(--jp-cell-editor-background, #f5f5f5);
}
@media screen {
  .reqpool-source > pre.scrolls { white-space: pre; word-break: normal; overflow-wrap: normal; }
}
.reqpool-source > pre.scrolls {
  margin: 0; padding: 0; overflow-x: auto; color: inherit; background: none;
  font-size: var(--jp-code-font-size, 0.9em); line-height: 1.4;
}
.reqpool-source > pre.scrolls:focus-visible { outline: 2px solid #3b82f6; outline-offset: -2px; }
:where(.reqpool-source) :is(.k, .kc, .kn, .ow) {
  color: var(--jp-mirror-editor-keyword-color, #007000); font-weight: bold;
}
:where(.reqpool-source) :is(.nf, .fm, .nc, .nd) { color: var(--jp-mirror-editor-def-color, #0000ff); }
:where(.reqpool-source) :is(.s, .s1, .s2, .sa, .sd, .se, .si) { color: var(--jp-mirror-editor-string-color, #ba2121); }
:where(.reqpool-source) :is(.mi, .mf) { color: var(--jp-mirror-editor-number-color, #007000); }
:where(.reqpool-source) :is(.c, .c1) { font-style: italic; }
"""
# Reached by keyboard, its arrow keys scroll it and are not JupyterLab's; after a click all keys are JupyterLab's.
KEYS = "this.toggleAttribute('data-lm-suppress-shortcuts', this.matches(':focus-visible'))"


def source(*objects: Any) -> HTML:
    """The code of functions, methods or classes as it stands in the package, with file and line."""
    return HTML(f"<style>{CODE_STYLE}</style>\n" + "\n".join(_listing(one) for one in objects))


def _listing(one: Any) -> str:
    lines, start = inspect.getsourcelines(one)
    path = Path(inspect.getsourcefile(one) or "?")
    package = Path(reqpool.__file__).parent.parent
    where = path.relative_to(package).as_posix() if path.is_relative_to(package) else path.name
    place = f"{where}, line {max(start, 1)}"
    code = highlight(textwrap.dedent("".join(lines)).rstrip(), PythonLexer(), HtmlFormatter(nowrap=True)).rstrip()
    region = f'role="region" aria-label="code: {escape(place)}" tabindex="0" onfocus="{KEYS}"'
    return (
        f'<p style="margin: 8px 0 4px"><em>{escape(place)}</em></p>\n'
        f'<div class="highlight reqpool-source"><pre class="scrolls" {region}>{code}</pre></div>'
    )


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
    # of its own white ground also in a dark notebook: a card, then
    style = "box-sizing: border-box; width: 100%; max-width: 836px; height: auto; padding: 8px; border-radius: 8px"
    return HTML(
        f'<img src="{embedded(folder / name)}" alt="{escape(captions[name])}" style="{style}; background: #fff">'
    )


def embedded(path: Path) -> str:
    """A picture as an address that holds it."""
    kind = {".gif": "image/gif", ".svg": "image/svg+xml"}[path.suffix]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def figures_folder() -> Path:
    """Beside the package in a clone, inside it where a wheel was installed."""
    package = Path(reqpool.__file__).resolve().parent
    return package / "figures" if (package / "figures").is_dir() else package.parent / "figures"
