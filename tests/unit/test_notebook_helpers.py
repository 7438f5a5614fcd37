"""What the lessons use: the self-check and set-up cell, source, figures."""

import base64
import html
import json
import re
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

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
    page = BeautifulSoup(source(ReqToTokenPool.alloc_rows, FreedTwice).data, "html.parser")
    (pool, faulty) = (one.get_text() for one in page.select("em"))
    assert re.fullmatch(r"reqpool/pool\.py, line \d+", pool) and re.fullmatch(r"reqpool/faulty\.py, line \d+", faulty)
    method, whole = page.select("pre")
    assert method.get_text().startswith("def alloc_rows(self, n: int)")
    lines = (ROOT / "reqpool" / "faulty.py").read_text().splitlines()
    start = int(faulty.split()[-1]) - 1
    assert whole.get_text().splitlines() == lines[start : start + len(whole.get_text().splitlines())]
    assert "    def _refuse_to_free(self" in whole.get_text()


def test_a_listing_can_be_reached_by_keyboard_and_says_what_it_is() -> None:
    page = BeautifulSoup(source(FreedTwice).data, "html.parser")
    (listing,) = page.select("pre")
    assert (listing["role"], listing["tabindex"]) == ("region", "0")
    assert listing["aria-label"] == f"code: {page.em.get_text()}"


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
