"""The pictures under version control are what the code draws, show what the traces hold, and say it in words."""

import io
import itertools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import build_figures
import pictures
import pytest
import raster
from build_figures import CAPTIONS, FIGURES, NAMES, STILLS, STORIES
from PIL import Image

from reqpool.views import theme
from reqpool.views.scene import Box, Words, wide

ROOT = FIGURES.parent
SVG = "{http://www.w3.org/2000/svg}"
DRAWINGS = [name for name in NAMES if name.endswith(".svg")]
SAID = {"refuse": "refused", "keep": "keeps", "late_write": "late", "reset": "reset", "pad_write": "dummies write"}


@pytest.fixture(scope="module")
def stories():
    return {name: story() for name, story in STORIES.items()}


@pytest.fixture(scope="module")
def scenes(stories):
    stills = {name: [build(CAPTIONS[name])] for name, build in pictures.PICTURES.items()}
    return stills | {name: story.scenes for name, story in stories.items()}


# ---- what is there, and how large -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_what_its_builder_draws(name):
    assert build_figures.differs(name) == ""


def test_the_check_finds_one_changed_pixel_under_the_same_versions(tmp_path, monkeypatch, stories):
    name = "alloc_free.gif"
    frames, durations, comment = raster.decoded((FIGURES / name).read_bytes())
    frames[3].putpixel((800, 100), (0x1A, 0x1B, 0x25))
    (tmp_path / name).write_bytes(raster.gif(frames, durations, comment))
    monkeypatch.setattr(build_figures, "FIGURES", tmp_path)
    assert build_figures.differs(name) in ("has other pixels in frames [3]", "has other pixels in frames [3, 4]")


def test_the_check_compares_drawings_and_times_but_no_pixels_under_another_version(monkeypatch, capsys):
    monkeypatch.setattr(build_figures, "DRAWN_WITH", "Pillow 0, FreeType 0")
    monkeypatch.setattr(build_figures, "build", None)
    assert build_figures.differs("alloc_free.gif") == ""
    assert "pixels are not compared" in capsys.readouterr().out
    monkeypatch.setattr(build_figures.Story, "digest", "of another drawing")
    assert build_figures.differs("alloc_free.gif") == "is drawn otherwise now, or has another sentence"


def test_nothing_lies_in_figures_that_no_builder_makes():
    assert {path.name for path in FIGURES.iterdir()} == {*NAMES, "captions.json"}


@pytest.mark.parametrize("name", STORIES)
def test_an_animation_is_small_and_short_enough_to_embed_and_slow_enough_to_read(name):
    content = (FIGURES / name).read_bytes()
    frames, durations, _ = raster.decoded(content)
    assert len(content) <= 1_000_000
    assert len(frames) <= 60
    assert min(durations) >= 1000 and max(durations) <= 5000
    assert len({frame.size for frame in frames}) == 1


@pytest.mark.parametrize("name", STORIES)
def test_an_animation_loops_for_ever(name):
    with Image.open(io.BytesIO((FIGURES / name).read_bytes())) as animation:
        assert animation.info["loop"] == 0


@pytest.mark.parametrize("name", [*DRAWINGS, "alloc_free.gif"])
def test_a_figure_built_twice_has_the_same_bytes(name):
    assert build_figures.build(name) == build_figures.build(name)


def test_what_is_drawn_does_not_depend_on_the_order_of_sets(stories):
    code = "import build_figures as b; print(*[story().digest for story in b.STORIES.values()])"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tools")])
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [story.digest for story in stories.values()]


@pytest.mark.parametrize("name", STORIES)
def test_the_colours_of_owners_survive_the_palette_of_a_gif(name, stories):
    """A pale tint is near the ground of an empty cell, and could be taken for it where colours are few."""
    frames, _, _ = raster.decoded((FIGURES / name).read_bytes())
    for frame, scene in zip(frames, stories[name].scenes, strict=True):
        there = {"#{:02X}{:02X}{:02X}".format(*colour) for _, colour in frame.getcolors(raster.MANY)}
        tints = {item.fill for item in scene.items if isinstance(item, Box) and item.fill in theme.OWNER_TINTS}
        assert tints <= there


# ---- what the frames show --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORIES)
def test_an_animation_has_a_frame_for_the_state_after_every_number_of_events(name, stories):
    story = stories[name]
    frames, durations, _ = raster.decoded((FIGURES / name).read_bytes())
    assert {len(frames), len(durations), len(story.scenes)} == {len(story.panes[0].trace) + 1}


@pytest.mark.parametrize("name", STORIES)
def test_the_numbers_drawn_in_the_cells_are_those_of_the_table(name, stories):
    """Worked out from the events alone: neither the snapshot nor the view is asked."""
    story = stories[name]
    for which, pane in enumerate(story.panes):
        first = pane.trace.first
        table, alloced = first.table.tolist(), list(first.alloced)
        for k, scene in enumerate(story.scenes):
            for row, position, _, slot in pane.trace[k - 1].change.cells if k else ():
                table[row][position] = slot
            for length, row, _, now in pane.trace[k - 1].change.lengths if k else ():
                alloced[row] = now if length == "alloced" else alloced[row]
            wanted = {
                (row, position): str(slot)
                for row, slots in enumerate(table)
                for position, slot in enumerate(slots)
                if slot or row == first.padding_row or position < alloced[row]
            }
            assert scene.cells(which) == wanted, f"{name}, step {k}, pane {which}"


@pytest.mark.parametrize("name", STORIES)
def test_the_free_rows_and_the_owners_drawn_are_those_of_the_state(name, stories):
    story = stories[name]
    for k, scene in enumerate(story.scenes):
        for which, pane in enumerate(story.panes):
            now = pane.trace.snapshot(k)
            labels = [item for item in scene.items if isinstance(item, Words) and item.about[1:2] == (which,)]
            assert [item.text for item in labels if item.about[0] == "free"] == [str(row) for row in now.free]
            owners = {item.about[2]: item.text for item in labels if item.about[0] == "owner"}
            assert {row: owners[row] for row in now.owners} == {row: rids[0] for row, rids in now.owners.items()}


@pytest.mark.parametrize("name", STORIES)
def test_a_wrong_cell_and_a_wrong_text_carry_a_sign_besides_their_colour(name, stories):
    story = stories[name]
    for k, scene in enumerate(story.scenes[1:]):
        facts = [dict(pane.trace[k].facts) for pane in story.panes]
        signs = sum(word == "✗" for word in scene.words()) - any(pane.states & {"wrong"} for pane in story.panes)
        assert signs == sum(len(fact.get("wrong", ())) for fact in facts)
    last = [dict(event.facts) for pane in story.panes for event in pane.trace if "texts" in dict(event.facts)]
    assert ("✗ wrong" in story.scenes[-1].words()) == any(wrong for fact in last for *_, wrong in fact["texts"])


@pytest.mark.parametrize("name", STORIES)
def test_every_caption_is_on_its_frame_whole(name, stories):
    story = stories[name]
    for k, scene in enumerate(story.scenes):
        lines = [item.text for item in scene.items if isinstance(item, Words) and item.about == ("caption",)]
        assert " ".join(lines) == " ".join(build_figures.caption(pane.trace, k) for pane in story.panes)


# ---- that it can be read ---------------------------------------------------------------------------------------------


def boxes(scene):
    """Where the letters are, with the widths of the real font: text, left, right, top, bottom."""
    for item in scene.items:
        if isinstance(item, Words) and item.text.strip():
            width = raster.width_of(item)
            left = item.x - {"start": 0, "middle": width / 2, "end": width}[item.anchor]
            yield item.text, left, left + width, item.y - 0.72 * item.size, item.y


@pytest.mark.parametrize("name", [*pictures.PICTURES, *STORIES])
def test_no_words_are_cut_off_by_the_edge(name, scenes):
    for scene in scenes[name]:
        cut = [
            box
            for box in boxes(scene)
            if box[1] < 4 or box[2] > scene.width - 4 or box[3] < 4 or box[4] > scene.height - 4
        ]
        assert cut == []


@pytest.mark.parametrize("name", [*pictures.PICTURES, *STORIES])
def test_no_words_lie_on_others(name, scenes):
    for scene in scenes[name]:
        pairs = itertools.combinations(boxes(scene), 2)
        lying = [(a, b) for a, b in pairs if a[1] < b[2] and b[1] < a[2] and a[3] < b[4] and b[3] < a[4]]
        assert lying == []


@pytest.mark.parametrize("name", [*pictures.PICTURES, *STORIES])
def test_no_words_are_smaller_than_13_pixels_at_the_width_of_a_readme(name, scenes):
    for scene in scenes[name]:
        assert scene.width == 820
        assert [item for item in scene.items if isinstance(item, Words) and item.size < 13] == []


def test_the_widths_that_pictures_are_laid_out_with_are_those_of_the_font(scenes):
    words = {item for name in scenes for scene in scenes[name] for item in scene.items if isinstance(item, Words)}
    plain = [item for item in words if item.text.isascii()]
    for item in plain:
        real, laid_out = raster.width_of(item), wide(item.text, item.size, item.bold, item.mono)
        assert real <= 1.01 * laid_out + 1, item
        if not item.bold:
            assert laid_out <= 1.01 * real + 1, item


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("ink", [theme.INK, theme.QUIET, theme.WRONG])
def test_every_ink_can_be_read_on_every_ground_that_it_stands_on(ink):
    grounds = [theme.BACKGROUND, theme.EMPTY, *(theme.OWNER_TINTS if ink != theme.QUIET else ())]
    assert [ground for ground in grounds if contrast(ink, ground) < 4.5] == []


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_every_figure_has_its_sentence_and_every_sentence_its_figure():
    assert set(CAPTIONS) == set(NAMES)
    assert [name for name, said in CAPTIONS.items() if len(said) < 60 or not said.endswith(".")] == []
    assert json.loads((FIGURES / "captions.json").read_text(encoding="utf-8")) == CAPTIONS


@pytest.mark.parametrize("name", STORIES)
def test_the_sentence_of_an_animation_names_what_happens_in_it(name, stories):
    story, said = stories[name], CAPTIONS[name]
    kinds = {event.kind for pane in story.panes for event in pane.trace}
    assert [word for kind, word in SAID.items() if kind in kinds and word not in said] == []
    for pane in story.panes:
        told = [dict(event.facts)["texts"] for event in pane.trace if "texts" in dict(event.facts)]
        assert [
            text for *_, (_, text, wrong) in told[-1:] for text in [text] if wrong and f'"{text}"' not in said
        ] == []


@pytest.mark.parametrize("name", STILLS)
def test_the_sentence_of_a_still_says_what_is_recited_wrongly_in_it(name, stories):
    story, k = STILLS[name]
    for pane in stories[story].panes:
        told = [dict(event.facts)["texts"] for event in pane.trace.events[:k] if "texts" in dict(event.facts)]
        for _, text, wrong in told[-1] if told else ():
            assert not wrong or f'"{text}"' in CAPTIONS[name]


@pytest.mark.parametrize("name", STORIES)
def test_an_animation_carries_its_sentence_with_it(name):
    _, _, comment = raster.decoded((FIGURES / name).read_bytes())
    assert comment.splitlines()[0] == CAPTIONS[name].encode("ascii", "replace").decode()


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_has_its_sentence_and_needs_no_other_host(name):
    text = (FIGURES / name).read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert [title.text for title in root.findall(f"{SVG}title")] == [CAPTIONS[name]]
    assert root.get("role") == "img"
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: Path(path).stem)
def test_a_notebook_which_may_be_on_its_own_embeds_its_figures(path):
    text = path.read_text(encoding="utf-8")
    assert "figures/" not in text
    assert [name for name in re.findall(r'figure\("([^"]+)"\)', text) if name not in CAPTIONS] == []


def test_every_animation_is_shown_in_a_notebook():
    shown = {name for path in SOURCES for name in re.findall(r'figure\("([^"]+)"\)', path.read_text(encoding="utf-8"))}
    assert {name for name in CAPTIONS if name.endswith(".gif")} <= shown
