"""Predictions and quizzes: what is locked, what opens, and whose mistake an error is."""

import base64
import json
import re
import zlib

import ipywidgets as widgets
import pytest
import torch

from reqpool import Req, ReqToTokenPool, record, scenarios
from reqpool.parts import FramedPlayer, prose
from reqpool.player import Player
from reqpool.questions import Prediction, Question, QuizQuestion, answering, predict, quiz
from reqpool.trace import Trace
from tests.in_widgets import everything_in, told

ROWS = Prediction(
    "which `row`?", why="because of {reason}", seen="look at {place}", choices={1: "row 1", (2,): "row `2`"}
)
CELL = Prediction("which cell?", why="because", seen="look")
FACTS = {"reason": "<this>", "place": "that"}


def in_the_browser(box: widgets.Widget) -> str:
    """All that the kernel has sent: the state of every widget there, and what its tapes hold."""
    state = json.dumps([one.get_state() for one in everything_in(box)], default=str)
    tapes = [zlib.decompress(base64.b64decode(tape)).decode() for tape in re.findall(r"\beN[\w+/]{40,}=*", state)]
    return " ".join([state, *tapes])


def players(box: widgets.Widget) -> list[Player]:
    return [one for one in everything_in(box) if isinstance(one, Player)]


def about_rows(reveal: Trace | str = "<p>the reveal</p>", outcome: object = (2,)) -> Question:
    return predict(ROWS, outcome=outcome, reveal=reveal, **FACTS)


def three_tokens() -> Trace:
    """The cells (1, 0), (1, 1) and (1, 2) are written in the events 2, 3 and 4, with slots that say nothing else."""
    pool, req = ReqToTokenPool(2, 4, "cpu"), Req("a")
    with record(pool) as trace:
        pool.alloc([req])
        for slot in (7001003, 7101003, 7201003):
            pool.append(req, [slot])
    return trace


@pytest.fixture(params=["widgets", "static"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("REQPOOL_STATIC", "1" if request.param == "static" else "")
    return request.param


def choose(question: Question, cell: tuple[int, int]) -> None:
    ask = question.answering
    if isinstance(ask, answering.ClickedCell):
        ask.player.set_state({"picked": list(cell)})  # as the browser reports it
    else:
        ask.row.value, ask.position.value = cell


# ---- choices -------------------------------------------------------------------------------------------------------


def test_the_reveal_stays_locked_until_an_answer_is_committed() -> None:
    question = about_rows(scenarios.alloc_and_free())
    assert question.answering.answer is None
    assert not players(question)
    for early in ("because", "look at", "It happens", "predicted"):
        assert early not in in_the_browser(question)
    question.button.click()
    assert "Choose an answer first" in told(question) and question.committed is None
    question.answering.value = "row 1"
    question.button.click()
    assert question.committed == "row 1"
    assert "because of &lt;this&gt;" in told(question) and "look at that" in told(question)
    (shown,) = players(question)
    assert shown.step == 12, "a trace is shown at its outcome"


def test_a_hint_is_gone_when_the_answer_is_there() -> None:
    question = about_rows()
    question.button.click()
    question.answering.value = "row 1"
    question.button.click()
    assert "Choose an answer first" not in told(question)


def test_that_an_answer_is_missing_is_no_longer_said_once_there_is_one() -> None:
    (asked,) = quiz([QuizQuestion("which?", right="a", choices={"a": "just so", "b": "too late"})]).children
    for question in (about_rows(), asked):
        question.button.click()
        assert question.told.value
        question.answering.index = 0
        assert question.told.value == "" and question.committed is None
        question.button.click()
        assert (verdict := question.told.value)
        question.answering.index = 1  # a click that comes late
        assert question.told.value == verdict


def test_that_a_cell_is_missing_is_no_longer_said_once_there_is_one(world: str) -> None:
    question = predict(CELL, outcome=(1, 1), reveal=three_tokens(), step=2)
    question.button.click()
    assert "first" in told(question.told)
    choose(question, (1, 1))
    assert question.told.value == "" and question.committed is None


@pytest.mark.parametrize(("chosen", "verdict"), [("row 1", "✗ Not as predicted."), ("row `2`", "✓ As predicted.")])
def test_prediction_and_outcome_stand_side_by_side_with_a_sign_and_a_word(chosen: str, verdict: str) -> None:
    question = about_rows()
    question.answering.value = chosen
    question.commit()
    words = told(question)
    mine, theirs = words.index("You predicted"), words.index("It happens")
    assert mine < theirs < words.index(verdict) < words.index("the reveal") < words.index("What did you see?")
    assert ("row 1" in words[mine:theirs]) == (chosen == "row 1")
    assert "row <code>2</code>" in words[theirs:]


def test_a_committed_answer_is_locked() -> None:
    question = about_rows()
    question.answering.value = "row 1"
    question.button.click()
    assert question.answering.disabled and question.button.description == "Committed"
    before = question.opened.children
    question.answering.set_state({"index": 1})  # a change that the click has overtaken
    question.button.click()
    assert question.opened.children == before and question.committed == question.answering.value == "row 1"
    assert not question.button.disabled, "a disabled button loses the focus"


def test_a_question_may_be_asked_again_and_is_as_it_was_before(world: str) -> None:
    for question, answer in (
        (about_rows(three_tokens()), "row 1"),
        (predict(CELL, outcome=(1, 1), reveal=three_tokens(), step=2), (1, 0)),
    ):
        before, hidden = in_the_browser(question), "none"
        assert question.again.layout.display == hidden, "nothing is committed yet"
        for _ in range(2):
            give(question, answer)
            question.button.click()
            assert question.committed == answer and question.again.layout.display != hidden
            question.again.click()
            assert (question.committed, question.answering.answer) == (None, None)
            assert in_the_browser(question) == before
        question.button.click()
        assert question.committed is None and "first" in told(question), "there is no answer left to commit"


def give(question: Question, answer: object) -> None:
    if isinstance(answer, str):
        question.answering.value = answer
    else:
        choose(question, answer)


@pytest.mark.parametrize("outcome", [[2], torch.tensor([2]), (torch.tensor(2),)])
def test_an_outcome_may_be_a_list_or_a_tensor(outcome: object) -> None:
    assert about_rows(outcome=outcome).outcome == "row `2`"


def test_a_trace_is_shown_at_the_step_that_answers() -> None:
    question = predict(ROWS, outcome=(2,), reveal=three_tokens(), at=3, **FACTS)
    question.answering.value = "row 1"
    question.commit()
    (shown,) = players(question)
    assert (shown.step, len(shown.trace)) == (3, 4), "and can be played on"


def test_a_step_that_cannot_be_shown_is_refused_when_it_is_asked() -> None:
    with pytest.raises((ValueError, IndexError), match="5"):
        predict(ROWS, outcome=(2,), reveal=three_tokens(), at=5, **FACTS)
    with pytest.raises(ValueError, match="at=1"):
        predict(ROWS, outcome=(2,), reveal="<p>a picture</p>", at=1, **FACTS)
    with pytest.raises(ValueError, match="at=1"):
        predict(CELL, outcome=(1, 0), reveal=three_tokens(), step=1, at=1)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("this is *not* so", "this is <em>not</em> so"),
        ("(*one thing* and *another*.)", "(<em>one thing</em> and <em>another</em>.)"),
        ("**both** and *one*", "<strong>both</strong> and <em>one</em>"),
        ("a * b and c * d", "a * b and c * d"),
        ("2*3*4 cells", "2*3*4 cells"),
        ("`a*b*c` and `**kwargs`, `**more`", "<code>a*b*c</code> and <code>**kwargs</code>, <code>**more</code>"),
        ("*only `a * b` here*", "<em>only <code>a * b</code> here</em>"),
        ("`<a>` is *<b>*", "<code>&lt;a&gt;</code> is <em>&lt;b&gt;</em>"),
    ],
)
def test_stars_are_emphasis_where_they_stand_at_words_only(text: str, html: str) -> None:
    assert prose(text) == html


def test_an_outcome_that_is_no_choice_is_named_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"the outcome \[2, 3\] is not one of the choices \[1, \(2,\)\]"):
        about_rows(outcome=[2, 3])


def test_missing_facts_and_unknown_names_are_named() -> None:
    with pytest.raises(ValueError, match=r"needs the facts \['place'\], got \['reason'\]"):
        predict(ROWS, outcome=1, reveal="", reason="one")
    with pytest.raises(ValueError, match=r"no question is called 'rows_filo'; there are .*rows_fifo, rows_lifo"):
        predict("rows_filo", outcome=[1], reveal="")
    with pytest.raises(ValueError, match="no question is called '12'; there are 00, 01"):
        quiz("12")


def test_an_exception_while_opening_is_shown_and_commits_nothing() -> None:
    question = about_rows()

    def broken(_: str) -> None:
        raise RuntimeError("no <explanation>")

    question._open_up = broken
    question.answering.value = "row 1"
    question.button.click()
    assert "no &lt;explanation&gt;" in told(question)
    assert question.committed is None and not question.answering.disabled


# ---- a cell --------------------------------------------------------------------------------------------------------


def test_a_cell_is_asked_for_and_nothing_later_is_in_the_page(world: str) -> None:
    question = predict(CELL, outcome=(1, 1), reveal=three_tokens(), step=2)
    assert isinstance(question.answering, answering.ClickedCell if world == "widgets" else answering.RowAndPosition)
    sent = in_the_browser(question)
    assert "7001003" in sent and "7101003" not in sent and "7201003" not in sent and "because" not in sent
    question.button.click()
    assert question.committed is None and "first" in told(question.told)
    choose(question, (2, 3))
    question.button.click()
    assert question.committed == (2, 3)
    words = told(question)
    assert words.index("row 2, position 3") < words.index("row 1, position 1") < words.index("✗ Not as predicted.")
    assert "7101003" in in_the_browser(question.opened)
    assert "7201003" not in in_the_browser(question), "what follows may be asked about next"


def test_the_right_cell_is_as_predicted(world: str) -> None:
    question = predict(CELL, outcome=torch.tensor([1, 1]), reveal=three_tokens(), step=2)
    choose(question, (1, 1))
    question.commit()
    assert "✓ As predicted." in told(question)


def test_a_committed_cell_is_locked_and_the_outcome_is_marked() -> None:
    question = predict(CELL, outcome=(1, 1), reveal=three_tokens(), step=2)
    table = question.answering.player
    assert table.pick and table.mark == []
    choose(question, (2, 3))
    question.commit()
    assert (table.pick, table.picked, table.mark) == (False, [2, 3], [1, 1])
    choose(question, (0, 0))
    assert question.committed == (2, 3) and table.picked == [2, 3]


def test_without_widgets_of_others_two_lists_give_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    question = predict(CELL, outcome=(1, 1), reveal=three_tokens(), step=2)
    assert {type(one).__module__.split(".")[0] for one in everything_in(question)} <= {"ipywidgets", "reqpool"}
    ask = question.answering
    assert [ask.row.description, ask.position.description] == ["row", "position"]
    ask.row.value = 0
    assert ask.answer is None, "a row alone is no cell"
    ask.position.value = 0
    assert ask.answer == (0, 0)
    question.commit()
    assert ask.row.disabled and ask.position.disabled
    assert any(isinstance(one, FramedPlayer) for one in everything_in(question.opened))
    assert 'role="status"' in question.told.value


@pytest.mark.parametrize("outcome", [(3, 0), (0, 4), (-1, 0), 7, (1,)])
def test_an_outcome_outside_the_table_is_named_with_its_size(outcome: object) -> None:
    with pytest.raises(ValueError, match=r"is not one of the cells of 3 rows x 4 positions"):
        predict(CELL, outcome=outcome, reveal=three_tokens(), step=2)


def test_a_cell_is_asked_for_in_a_table_at_a_step_that_has_a_next_one() -> None:
    with pytest.raises(ValueError, match="`reveal` is a Trace and `step` says"):
        predict(CELL, outcome=(1, 1), reveal=three_tokens())
    with pytest.raises(ValueError, match="`reveal` is a Trace and `step` says"):
        predict(CELL, outcome=(1, 1), reveal="a picture", step=2)
    with pytest.raises(IndexError, match=r"step 5 is not in this trace, wanted 0\.\.4"):
        predict(CELL, outcome=(1, 1), reveal=three_tokens(), step=4)


# ---- quiz ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["`a`", "b"])
def test_every_answer_of_a_quiz_is_explained_whichever_is_chosen(chosen: str) -> None:
    (question,) = quiz([QuizQuestion("which?", right="b", choices={"`a`": "too early", "b": "just so"})]).children
    assert "too early" not in in_the_browser(question) and "just so" not in in_the_browser(question)
    question.answering.value = chosen
    question.button.click()
    words = told(question)
    assert "too early" in words and "just so" in words
    assert ("(✗ wrong, your answer)" in words) == (chosen == "`a`")
    assert ("(✓ right, your answer)" in words) == (chosen == "b")


def test_a_right_answer_that_cannot_be_chosen_is_the_author_s_mistake() -> None:
    with pytest.raises(ValueError, match="'c' is not one of the choices"):
        QuizQuestion("which?", right="c", choices={"a": "", "b": ""})
