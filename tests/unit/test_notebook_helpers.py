"""What the lessons use: the self-check and set-up cell, source, figures."""

import base64
import html
import json
import sys
from pathlib import Path

import pytest

from reqpool import ReqToTokenPool, notebook
from reqpool.faulty import FreedTwice
from reqpool.notebook import prose, source

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.py"))
FIGURES = ROOT / "figures"


# ---- set-up --------------------------------------------------------------------------------------------------------


def test_setup_names_versions_and_the_device() -> None:
    words = notebook.setup().data
    assert "torch" in words and "CPU" in words and "ipywidgets" in words
    assert "REQPOOL_STATIC" not in words


def test_setup_on_colab_says_what_to_do_when_a_player_stays_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", object())
    assert "REQPOOL_STATIC" in notebook.setup().data


# ---- code to read --------------------------------------------------------------------------------------------------


def test_source_shows_the_code_as_it_stands_with_file_and_line() -> None:
    shown = source(ReqToTokenPool.alloc_rows, FreedTwice).data
    assert "*reqpool/pool.py, line " in shown and "*reqpool/faulty.py, line " in shown
    assert "```python\ndef alloc_rows(self, n: int)" in shown
    assert "\n    def _refuse_to_free(self" in shown


def test_prose_never_lets_markup_through() -> None:
    assert prose("<script>`<b>`</script>") == "&lt;script&gt;<code>&lt;b&gt;</code>&lt;/script&gt;"


# ---- pictures ------------------------------------------------------------------------------------------------------


def test_a_figure_is_embedded_with_its_sentence() -> None:
    page = notebook.figure("path.svg").data
    assert page.startswith('<img src="data:image/svg+xml;base64,') and "http" not in page.split("base64,")[0]
    data = page.split("base64,")[1].split('"')[0]
    assert base64.b64decode(data) == (FIGURES / "path.svg").read_bytes()
    sentence = json.loads((FIGURES / "captions.json").read_text())["path.svg"]
    assert f'alt="{html.escape(sentence)}"' in page


def test_an_unknown_figure_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"no figure 'paht.svg'; there are .*path.svg"):
        notebook.figure("paht.svg")
