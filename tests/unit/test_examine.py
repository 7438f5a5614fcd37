"""What a learner sees of the examiner: the task, and the verdict with its two players."""

from __future__ import annotations

import functools
import importlib

import ipywidgets as widgets
import pytest

from reqpool import Req
from reqpool.examine import check, exercise, shown, to_the_end
from reqpool.exercises import exercise as core
from reqpool.exercises import limits, search
from reqpool.exercises.bank import written
from reqpool.exercises.catalogue import CHAPTERS, exercises, find
from reqpool.parts import FramedPlayer
from reqpool.player import Player
from tests.in_widgets import everything_in, told


def players(widget: widgets.Widget) -> list[Player]:
    return [one for one in everything_in(widget) if isinstance(one, (Player, FramedPlayer))]


def give_back(free_rows, rows, reuse):
    return rows + free_rows


@pytest.mark.parametrize("name", exercises())
def test_task_hints_and_solution_are_there_and_all_but_the_task_is_folded(name: str) -> None:
    page = exercise(name).data
    assert page.count("<details>") == page.count("</details>") == 3
    open_part = page.split("<details>")[0]
    assert "Your task:" in open_part
    assert "Hint" not in open_part and find(name).solution.strip().splitlines()[-1].strip() not in open_part


def test_a_wrong_answer_is_shown_at_the_step_where_it_goes_wrong_beside_the_right_one() -> None:
    box = check(give_back)
    assert "Not yet." in told(box) and "After <code>take 1 row</code>, then" in told(box)
    yours, right = players(box)
    assert yours.step == right.step == len(yours.trace) == len(right.trace)
    assert yours.group == right.group != ""
    ends = [one.trace.snapshot(len(one.trace)).free for one in (yours, right)]
    assert ends == [(1, 2), (2, 1)]


def test_where_third_party_widgets_are_not_shown_the_pair_stands_in_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    box = check(give_back)
    assert len(players(box)) == 2 and not any(isinstance(one, Player) for one in players(box))
    assert told(box).count("<iframe") == 1


def test_what_the_code_prints_is_shown_once_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    def give_back(free_rows, rows, reuse):
        print("<b>", free_rows, rows)
        return rows + free_rows

    page = told(check(give_back))
    assert page.count("&lt;b&gt; [2] [1]") == 1 and "<b>" not in page
    assert capsys.readouterr().out == ""


def test_what_the_code_raises_is_escaped() -> None:
    def give_back(free_rows, rows, reuse):
        raise KeyError("<script>alert(1)</script>")

    page = told(check(give_back))
    assert "&lt;script&gt;" in page and "<script>" not in page
    assert "line 2 of <code>give_back</code>" in page


def test_a_stub_is_not_attempted_and_has_no_players() -> None:
    def give_back(free_rows, rows, reuse):
        return ...

    box = check(give_back)
    assert "Not attempted" in told(box) and players(box) == []


def test_a_right_answer_is_praised_and_without_hypothesis_it_says_what_was_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def give_back(free_rows, rows, reuse):
        return free_rows + rows if reuse == "fifo" else rows[::-1] + free_rows

    assert "Hypothesis" not in told(check(give_back))
    for module in (core, search):
        monkeypatch.setattr(module, "have_hypothesis", lambda: False)
    page = told(check(give_back))
    assert "Right." in page and "Hypothesis is not installed here" in page


def test_without_hypothesis_a_wrong_answer_gets_the_same_case(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = told(check(give_back))
    monkeypatch.setattr(search, "have_hypothesis", lambda: False)
    assert told(check(give_back)) == with_it


def test_hypothesis_finds_what_only_a_larger_pool_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def slot_of(table, row, position):
        return 0 if len(table) > 4 else table[row][position]

    verdict = core.examine(find("slot_of"), slot_of)
    assert verdict.state == "wrong" and verdict.case.num_operations == 2
    monkeypatch.setattr(search, "have_hypothesis", lambda: False)
    assert core.examine(find("slot_of"), slot_of).state == "right"


@pytest.mark.parametrize("given", [None, [2, 1], give_back([], [1], "fifo")])
def test_check_of_a_result_instead_of_the_function_says_so(given: object) -> None:
    with pytest.raises(TypeError, match=r"wants the function itself"):
        check(given)


def test_a_lambda_and_a_decorated_function_are_told_how_to_be_written() -> None:
    def noisy(function):
        def inner(*args):
            return function(*args)

        return inner

    with pytest.raises(TypeError, match=r"a lambda has no name.*write it with `def give_back"):
        check(lambda free_rows, rows, reuse: rows)
    with pytest.raises(ValueError, match=r"no exercise 'inner'. If a decorator"):
        check(noisy(give_back))
    assert "Not yet." in told(check(functools.wraps(give_back)(noisy(give_back))))


def test_a_step_wants_the_class() -> None:
    with pytest.raises(TypeError, match=r"wants the class, as in check\(MyPool, step=2\)"):
        check(give_back, step=2)


def test_an_answer_that_changes_its_mind_is_told_so() -> None:
    calls = []

    def give_back(free_rows, rows, reuse):
        calls.append(1)
        return free_rows if len(calls) == 3 else (free_rows + rows if reuse == "fifo" else rows[::-1] + free_rows)

    assert "must not depend on chance" in told(check(give_back))


def test_a_debuggers_trace_function_is_put_back() -> None:
    import sys

    before = sys.gettrace()
    sys.settrace(tracer := lambda frame, event, arg: None)
    try:
        check(give_back)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_the_limit_of_memory_ends_with_the_check() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    check(give_back)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_code_that_sleeps_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(limits, "MOST_SECONDS", 0.05)

    def give_back(free_rows, rows, reuse):
        time.sleep(0.02)
        return free_rows + rows if reuse == "fifo" else rows[::-1] + free_rows

    assert "too long" in told(check(give_back))


def test_what_a_verdict_says_is_text_and_no_markup() -> None:
    assert "&lt;i&gt;" in told(shown(core.Verdict("wrong", "<i>", core.Case("<i>"))))


def test_the_sentence_stands_at_the_last_step_of_yours_in_every_case_of_the_bank() -> None:
    modules = [importlib.import_module(f"reqpool.exercises.bank.{chapter}") for chapter in CHAPTERS]
    for answer in (answer for module in modules for answer in module.WRONG):
        case = core.examine(find(answer.exercise), written(answer.source, answer.exercise, Req=Req)).case
        if case and case.yours and case.right:
            pair = to_the_end(case.yours, case.right)
            assert [len(one) for one in pair] == [len(pair[0])] * 2
            assert [one[len(one) - 1] for one in pair] == [case.yours.events[-1], case.right.events[-1]]


def test_a_flood_of_printing_does_no_harm_and_its_beginning_is_shown() -> None:
    def give_back(free_rows, rows, reuse):
        print("asked " + "x" * 300_000)
        return free_rows + rows if reuse == "fifo" else rows[::-1] + free_rows

    assert core.examine(find("give_back"), give_back).state == "right"

    def must_refuse(free_rows, n):
        print("asked " + "x" * 300_000)
        return n >= len(free_rows)

    case = core.examine(find("must_refuse"), must_refuse).case
    assert case.printed.startswith("asked xxx") and len(case.printed) == core.MOST_PRINTED
