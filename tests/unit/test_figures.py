"""The pictures under version control are the ones that the code draws, and they say in words what they show."""

import xml.etree.ElementTree as ElementTree

import build_figures
import pytest

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", build_figures.PICTURES)
def test_a_figure_is_what_its_builder_draws_byte_for_byte(name):
    committed = (build_figures.FIGURES / name).read_bytes()
    assert committed == build_figures.PICTURES[name]().encode()


@pytest.mark.parametrize("name", build_figures.PICTURES)
def test_a_figure_has_its_sentence_and_needs_no_other_host(name):
    text = (build_figures.FIGURES / name).read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert len(root.findall(f"{SVG}title")) == 1
    assert len(root.find(f"{SVG}title").text) > 20
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_nothing_lies_in_figures_that_no_builder_makes():
    assert {path.name for path in build_figures.FIGURES.iterdir()} == set(build_figures.PICTURES)
