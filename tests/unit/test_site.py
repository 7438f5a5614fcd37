"""`make site` on small notebooks: what becomes of cells, links and widgets."""

import base64
import json
import random
import re
from pathlib import Path
from typing import Any

import build_site
import ipywidgets as widgets
import nbformat
import pytest
from bs4 import BeautifulSoup
from coursesite.pages import VIEW, chapter, render
from coursesite.run import Executed, execute, written
from coursesite.widgets import Page
from ipywidgets.embed import embed_data
from nbclient.exceptions import CellExecutionError

from reqpool.lab import Lab, choice, scale, slider, switch
from reqpool.notebook import figure
from reqpool.parts import side_by_side, text_box
from reqpool.player import Player
from reqpool.player.tape import encode
from reqpool.questions import QuizQuestion, quiz
from reqpool.scenarios import alloc_and_free, two_owners

FIGURES = Path(__file__).resolve().parents[2] / "figures"


def state_of(widget: widgets.Widget) -> dict[str, Any]:
    """As nbclient keeps it."""
    return embed_data(views=[widget], drop_defaults=False)["manager_state"]["state"]


def html_of(widget: widgets.Widget, questions: dict[str, Any] | None = None) -> BeautifulSoup:
    return BeautifulSoup(Page(state_of(widget), questions or {}).view(widget.model_id), "html.parser")


def ran(*cells: nbformat.NotebookNode, name: str = "07_small", widget: widgets.Widget | None = None) -> Executed:
    """A notebook as it is after a run; the widget is what its last cell shows."""
    for number, cell in enumerate(cells):
        cell.id = f"07-{number:03d}"
    if widget is not None:
        data = {VIEW: {"model_id": widget.model_id}, "text/plain": "a widget"}
        cells[-1].outputs = [nbformat.v4.new_output("display_data", data=data)]
    return Executed(name, nbformat.v4.new_notebook(cells=list(cells)), state_of(widget) if widget else {}, {})


def text(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def code(source: str, **metadata: Any) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def page_of(*cells: nbformat.NotebookNode, **options: Any) -> BeautifulSoup:
    return BeautifulSoup(chapter(ran(*cells, **options), FIGURES).article, "html.parser")


# ---- widgets ---------------------------------------------------------------------------------------------------------


def test_a_player_keeps_its_tape_step_and_speed() -> None:
    trace = alloc_and_free()
    (root,) = html_of(Player(trace, step=4, speed=5.0)).select("[data-tape]")
    assert root["data-tape"] == encode(trace)
    assert json.loads(str(root["data-options"])) == {"step": 4, "speed": 5.0, "group": ""}


def test_players_that_move_together_have_one_group_and_other_pairs_another() -> None:
    pairs = widgets.VBox([side_by_side(two_owners(), two_owners(guarded=True)) for _ in range(2)])
    groups = [json.loads(str(root["data-options"]))["group"] for root in html_of(pairs).select("[data-tape]")]
    assert groups[0] == groups[1] != groups[2] == groups[3]


def test_random_ids_of_a_run_leave_no_trace_in_the_page() -> None:
    one, other = (html_of(side_by_side(two_owners(), two_owners(guarded=True))) for _ in range(2))
    assert str(one) == str(other)


def test_controls_become_a_list_of_settings_in_their_own_words() -> None:
    controls = {
        "a": slider("chunk size", 4, 1, 9),
        "b": choice("mode", [("mixed in one step", True), ("apart", False)], False),
        "c": scale("rows", (64, 4096), 4096),
        "d": switch("fence", True),
        "e": switch("reset", False),
    }
    page = html_of(Lab(controls, lambda **_: None, [text_box("<p>a result</p>")]))
    settings = [(one.dt.get_text(), one.dd.get_text()) for one in page.select("dl > div") if one.dt and one.dd]
    wanted = [("chunk size", "4"), ("mode", "apart"), ("rows", "4,096"), ("fence", "on"), ("reset", "off")]
    assert settings == wanted
    assert not page.select("input, select, button")
    assert "you need a kernel" in page.get_text()
    assert "a result" in page.get_text()


def test_a_widget_that_no_page_can_show_is_named_and_not_left_out() -> None:
    with pytest.raises(ValueError, match="AccordionModel"):
        html_of(widgets.VBox([widgets.Accordion([text_box("inside")])]))


def test_a_widget_whose_state_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="keeps no state"):
        Page({}, {}).view("0123")


def test_an_error_that_a_callback_showed_stops_the_site() -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("no such row")

    with pytest.raises(ValueError, match="no such row"):
        html_of(Lab({"size": slider("size", 1, 1, 2)}, fail, []))


QUESTION = QuizQuestion("Which `row`?", right="1", choices={"1": "Because it is free.", "2": "It is a's <now>."})


def quiz_page() -> BeautifulSoup:
    asked = quiz([QUESTION])
    (question,) = asked.children
    answers = [
        {"key": str(number), "words": words, "verdict": question.opens(words)[0]}
        for number, words in enumerate(QUESTION.choices)
    ]
    told = {question.model_id: {"action": "Check my answer", "answers": answers, "opened": []}}
    return html_of(asked, told)


def test_a_question_explains_itself_in_templates_only() -> None:
    page = quiz_page()
    inside = [template.extract().get_text() for template in page.select("template")]
    assert len(inside) == 2
    assert all("Because it is free." in one and "It is a's <now>." in one for one in inside)
    assert "Because" not in page.get_text()
    assert "It is a's" not in page.get_text()


def test_a_question_offers_its_choices_as_one_named_group() -> None:
    page = quiz_page()
    radios = page.select("[role=radiogroup] label > input[type=radio]")
    assert [radio.find_parent("label").get_text(strip=True) for radio in radios] == ["1", "2"]
    assert len({radio["name"] for radio in radios}) == 1
    label = page.select_one("[role=radiogroup]")["aria-labelledby"]
    assert "Which row?" in page.find(id=label).get_text()
    assert not page.select("[checked]")


# ---- cells -----------------------------------------------------------------------------------------------------------


def test_a_folded_cell_stays_folded_and_others_are_open() -> None:
    page = page_of(code("shown = 1"), code("folded = 2", jupyter={"source_hidden": True}))
    inside = [bool(block.find_parent("details")) for block in page.select(".highlight")]
    assert inside == [False, True]


def test_setting_up_is_folded_with_its_text_and_not_in_the_contents() -> None:
    cells = [text("# T"), text("## Set up\n\nRun it."), code("setup()", tags=["setup"]), text("## Why\n\nBecause.")]
    made = chapter(ran(*cells), FIGURES)
    fold = BeautifulSoup(made.article, "html.parser").select_one("details.setup")
    assert "Run it." in fold.get_text() and "setup()" in fold.get_text()
    assert "Because." not in fold.get_text()
    assert made.contents == [("Why", "Why")]


def test_links_to_notebooks_lead_to_pages_and_others_stay() -> None:
    source = "[a](00_start_here.ipynb#Words) [b](./01_the_table.ipynb) [c](https://example.org/x.ipynb) [d](#Why)"
    links = [link["href"] for link in page_of(text(source)).select("a")]
    assert links == ["00_start_here.html#Words", "01_the_table.html", "https://example.org/x.ipynb", "#Why"]


def test_links_lead_to_headings_however_capitals_and_signs_are_written() -> None:
    source = "[a](#what-a--b-is-here) [b](other.md#why) [c](other.md#Why) [d](08_b.ipynb#none) [e](index.html#live)"
    words = ran(
        text(f"# T\n\n{source} [f](#step--x)\n\n## What: `a & b`, is here\n\nA.\n\n## Step · x"), name="07_small"
    )
    pages = render([chapter(one, FIGURES) for one in (words, ran(text("# O\n\n## Why\n\nSo."), name="other"))])
    page = BeautifulSoup(pages["07_small.html"], "html.parser")
    first, *others, last = (str(link["href"]) for link in page.select("article a"))
    assert [first, last] == [f"#{head['id']}" for head in page.select("article h2")]
    assert others == ["other.html#Why", "other.html#Why", "08_b.html#none", "index.html#live"]


def test_cells_of_a_plan_say_their_heads_and_those_of_other_tables_do_not() -> None:
    plan = page_of(text("| minutes | where |\n| ---: | --- |\n| 3 | a cell |\n| 12 | |"))
    assert [cell["data-head"] for cell in plan.select("td")] == ["minutes", "where"] * 2
    assert not page_of(text("| row | slot |\n| --- | --- |\n| 1 | 2 |")).select("[data-head], .stacks")


def test_a_sheet_that_outputs_bring_along_is_there_once_and_in_the_head() -> None:
    cells = [code("source(a)"), code("source(b)")]
    for cell in cells:
        cell.outputs = [nbformat.v4.new_output("display_data", data={"text/html": "<style>.lent { top: 0 }</style>a"})]
    page = BeautifulSoup(render([chapter(ran(*cells), FIGURES)])["07_small.html"], "html.parser")
    assert [style.get_text().count(".lent { top: 0 }") for style in page.select("style")] == [1]
    assert page.style.parent.name == "head"


def test_a_heading_that_comes_twice_has_two_anchors() -> None:
    made = chapter(ran(text("## Try it\n\n one"), text("## Try it\n\n two")), FIGURES)
    anchors = [anchor for anchor, _ in made.contents]
    assert len(set(anchors)) == 2
    assert [head["id"] for head in BeautifulSoup(made.article, "html.parser").select("h2")] == anchors


def test_a_picture_comes_along() -> None:
    made = chapter(ran(text("![the table](../figures/table.svg)")), FIGURES)
    image = BeautifulSoup(made.article, "html.parser").img
    assert image["alt"] == "the table"
    assert made.pictures == {image["src"]: FIGURES / "table.svg"}


def test_an_animation_has_its_still_for_whom_motion_disturbs() -> None:
    shown = code("figure('alloc_free.gif')")
    shown.outputs = [nbformat.v4.new_output("display_data", data={"text/html": figure("alloc_free.gif").data})]
    picture = page_of(shown).picture
    assert picture.source["media"] == "(prefers-reduced-motion: reduce)"
    still = base64.b64decode(str(picture.source["srcset"]).split(",", 1)[1])
    assert still == (FIGURES / "alloc_free.svg").read_bytes()
    assert picture.img["alt"]


def test_an_exercise_that_nobody_attempted_says_where_answers_are_examined() -> None:
    def words(verdict: str) -> str:
        return page_of(code("check(my_answer)"), widget=widgets.VBox([text_box(verdict)])).get_text()

    assert "examined in a live notebook" in words("<strong>Not attempted</strong> so far")
    assert "examined" not in words("<strong>Right.</strong> Well done.")


def test_the_front_page_tells_title_minutes_and_aims_of_every_chapter() -> None:
    first = text("# 07 · Small\n\n**You will be able to**\n\n- *see* it,\n- mend it.\n\n**About 15 minutes.** No GPU.")
    bare = text("# 08 · Bare\n\nOnly words.")
    chapters = [chapter(ran(first, name="07_small"), FIGURES), chapter(ran(bare, name="08_bare"), FIGURES)]
    cards = BeautifulSoup(render(chapters)["index.html"], "html.parser").select(".cards > li")
    assert [card.h3.a["href"] for card in cards] == ["07_small.html", "08_bare.html"]
    assert "about 15 minutes" in cards[0].get_text()
    assert [item.get_text() for item in cards[0].select("li")] == ["see it", "mend it"]
    assert "minutes" not in cards[1].get_text()


def test_chapters_are_chained_in_their_order() -> None:
    pages = render([chapter(ran(text(f"# {n}"), name=f"0{n}_x"), FIGURES) for n in (1, 2, 3)])
    turns = {
        name: {link["rel"][0]: link["href"] for link in BeautifulSoup(page, "html.parser").select("a[rel]")}
        for name, page in pages.items()
    }
    assert turns["01_x.html"] == {"next": "02_x.html"}
    assert turns["02_x.html"] == {"prev": "01_x.html", "next": "03_x.html"}
    assert turns["03_x.html"] == {"prev": "02_x.html"}


def test_the_same_run_gives_the_same_bytes_whatever_was_there_before(tmp_path: Path) -> None:
    def written(folder: Path) -> dict[str, bytes]:
        pair = side_by_side(two_owners(), two_owners(guarded=True))
        cells = [text("# 07 · Small ![t](../figures/table.svg)"), code("pair")]
        files = build_site.build([ran(*cells, widget=pair)], folder)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "06_gone.html").write_text(str(random.random()))
    one, other = written(tmp_path / "a"), written(tmp_path / "b")
    assert one == other
    assert {"index.html", "07_small.html", "figures/table.svg"} <= one.keys()


# ---- running ---------------------------------------------------------------------------------------------------------


def saved(folder: Path, *cells: str) -> Path:
    path = folder / "07_small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells]), path)
    return path


@pytest.mark.slow
def test_a_run_asks_every_question_what_it_opens(tmp_path: Path, jupyter_home: Path) -> None:
    path = saved(
        tmp_path,
        "from reqpool.questions import Prediction, predict\nfrom reqpool.scenarios import alloc_and_free\n"
        "asked = Prediction('Which?', why='So it is.', seen='Look.', choices={1: 'one', 2: 'two'})\n"
        "predict(asked, outcome=2, reveal=alloc_and_free())",
        "cell = Prediction('Where?', why='There.', seen='See.')\n"
        "predict(cell, outcome=alloc_and_free().changed(3)[0], reveal=alloc_and_free(), step=2)",
    )
    before = path.read_bytes()
    made = execute(path)
    words, cells = sorted(made.questions.values(), key=lambda asked: "cell" in asked)
    assert [one["words"] for one in words["answers"]] == ["one", "two"]
    assert ["As predicted" in one["verdict"] for one in words["answers"]] == [False, True]
    rows, positions = alloc_and_free().first.table.shape
    assert len(cells["answers"]) == rows * positions
    right = [one["key"] for one in cells["answers"] if "✓ As predicted" in one["verdict"]]
    assert right == [",".join(map(str, cells["cell"]["outcome"]))]
    page = BeautifulSoup(chapter(made, tmp_path).article, "html.parser")
    assert len(page.select("form.question template[data-opened]")) == 2
    assert len(made.notebook.cells) == 2, "the cell that asks is no part of the chapter"
    assert path.read_bytes() == before, "the notebook itself stays without outputs"
    assert not re.search(r"[0-9a-f]{32}", page.get_text())


@pytest.mark.slow
def test_a_cell_that_raises_stops_the_site(tmp_path: Path, jupyter_home: Path) -> None:
    with pytest.raises(CellExecutionError, match="no such row"):
        execute(saved(tmp_path, "raise ValueError('no such row')"))


def test_a_text_beside_the_course_is_a_page_of_its_own_and_no_chapter(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text(
        "# Words\n\nSee [one](01_x.ipynb#Play) and [more](more.md).\n\n## Row\n\nA line."
    )
    course = [ran(text(f"# {n}"), name=f"0{n}_x") for n in (1, 2)]
    pages = render([*(chapter(one, FIGURES) for one in course), chapter(written(tmp_path / "words.md"), tmp_path)])
    page = BeautifulSoup(pages["words.html"], "html.parser")
    assert [link["href"] for link in page.select("article a")] == ["01_x.html#Play", "more.html"]
    assert page.select("a[rel]") == [] and "after a run" not in page.main.get_text()
    assert [link.get_text() for link in page.select(".site-chapters a")] == ["01", "02", "Words"]
    front = BeautifulSoup(pages["index.html"], "html.parser")
    assert [card.a["href"] for card in front.select(".cards > li")] == ["01_x.html", "02_x.html"]
    assert front.select_one('main a[href="words.html"]')
    assert "02_x.html" not in [
        link["href"] for link in BeautifulSoup(pages["02_x.html"], "html.parser").select("a[rel]")
    ]
