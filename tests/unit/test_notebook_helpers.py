"""What the lessons use: the self-check and set-up cell, source, exercises."""

import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import ipywidgets as widgets
import pytest

from reqpool import Req, ReqToTokenPool, notebook, scenarios
from reqpool.faulty import FreedTwice
from reqpool.notebook import Failure, against, check, exercise, prose, source
from reqpool.player import Player

SOURCES = sorted((Path(__file__).resolve().parents[2] / "notebooks" / "source").glob("*.py"))


def told(box: widgets.Widget) -> str:
    """Everything that a person reads there."""
    own = box.value if isinstance(box, widgets.HTML) else ""
    return " ".join([own, *(told(child) for child in getattr(box, "children", ()))])


def everything_in(box: widgets.Widget) -> Iterator[widgets.Widget]:
    yield box
    for child in getattr(box, "children", ()):
        yield from everything_in(child)


def has_player(box: widgets.Widget) -> bool:
    return any(isinstance(one, Player) for one in everything_in(box))


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


# ---- exercises -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def doubling(monkeypatch: pytest.MonkeyPatch) -> str:
    """An exercise of its own for each test."""
    monkeypatch.setattr(notebook, "EXERCISES", {})
    judge = against(lambda n: n + n, [(0,), (1,), (2,)], show=lambda n: scenarios.one_row([1, 2], n))
    return exercise("double", "double `n`", judge, hints=["add"], solution="    return 2 * n", praise="Well done.").data


def test_hints_and_solution_are_folded(doubling: str) -> None:
    assert doubling.count("<details>") == 2
    assert "<pre>return 2 * n</pre>" in doubling


def shown_player(box: widgets.Widget) -> Player:
    (found,) = (one for one in everything_in(box) if isinstance(one, Player))
    return found


def test_a_failing_case_is_shown_at_its_end(doubling: str) -> None:
    def double(n: int) -> int:
        return n * n

    assert shown_player(check(double)).step == 5


def test_an_untouched_stub_is_not_attempted() -> None:
    def double(n: int) -> object:
        return ...

    assert "Not attempted" in told(check(double))

    def double(n: int) -> object:
        raise NotImplementedError

    assert "Not attempted" in told(check(double))


def test_a_right_answer_is_praised() -> None:
    def double(n: int) -> int:
        return 2 * n

    assert "Right." in told(check(double)) and "Well done." in told(check(double))


def test_the_smallest_failing_case_is_one_sentence_and_a_player() -> None:
    def double(n: int) -> int:
        return n * n

    verdict = check(double)
    assert "Not yet." in told(verdict)
    assert "<code>double(1)</code> gives <code>1</code>, wanted <code>2</code>." in told(verdict)
    assert has_player(verdict)


def test_a_number_is_no_truth_value() -> None:
    exercise("truth", "say True", against(lambda: True, [()]), [], "")

    def truth() -> int:
        return 1

    assert "Not yet" in told(check(truth))


@pytest.mark.parametrize("answer", [[1, 2], (1, 2), deque([1, 2]), range(1, 3)])
def test_any_sequence_of_the_same_items_in_the_same_order_will_do(answer: object) -> None:
    exercise("in_order", "in order", against(lambda: [1, 2], [()]), [], "")

    def in_order() -> object:
        return answer

    assert "Right." in told(check(in_order))


@pytest.mark.parametrize("answer", [[2, 1], [1], [1.0, 2], [True, 2], {1, 2}, "12", None])
def test_other_items_or_another_order_will_not(answer: object) -> None:
    exercise("in_order", "in order", against(lambda: [1, 2], [()]), [], "")

    def in_order() -> object:
        return answer

    assert "Not yet" in told(check(in_order))


def test_the_learner_s_own_exception_is_shown_not_swallowed() -> None:
    def double(n: int) -> int:
        return n.twice

    assert "AttributeError" in told(check(double))


def test_the_learner_cannot_spoil_the_cases() -> None:
    def first(numbers: list[int]) -> int:
        return numbers.pop(0)

    exercise("first", "the first", against(lambda numbers: numbers[0], [([1, 2],)]), [], "")
    assert "Right." in told(check(first)) and "Right." in told(check(first))


def test_a_judge_of_one_s_own_may_show_text() -> None:
    exercise("free_form", "do it", lambda function: Failure("So not.", "a <table>"), [], "")

    def free_form() -> None: ...

    assert "So not." in told(check(free_form)) and "a &lt;table&gt;" in told(check(free_form))


def test_check_of_something_else_names_the_exercises() -> None:
    def triple(n: int) -> int:
        return 3 * n

    with pytest.raises(ValueError, match=r"no exercise 'triple' here \(known: double\)"):
        check(triple)


# ---- the exercises of the chapters: their own solutions are right --------------------------------------------------


class Notebook:
    """A chapter run as a plain script, up to where exercises are defined."""

    def __init__(self, path: Path) -> None:
        self.space: dict[str, object] = {"__name__": "chapter"}
        self.solutions: dict[str, str] = {}
        real = notebook.exercise

        def remember(name: str, task: str, judge: object, hints: object, solution: str, praise: str = "") -> object:
            self.solutions[name] = solution
            return real(name, task, judge, hints, solution, praise)

        notebook.exercise = remember
        try:
            for cell in path.read_text().split("\n# %%"):
                if not cell.startswith(" [markdown]") and "setup" not in cell.splitlines()[0]:
                    exec(compile("\n".join(cell.splitlines()[1:]), path.name, "exec"), self.space)
        finally:
            notebook.exercise = real


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_solutions_of_a_chapter_pass_its_own_checks(path: Path) -> None:
    chapter = Notebook(path)
    assert len(chapter.solutions) == 3
    for name, solution in chapter.solutions.items():
        assert "Not attempted" in told(check(chapter.space[name]))
        exec(textwrap.dedent(solution), chapter.space)
        assert "Right." in told(check(chapter.space[name])), name


def freed_once(pool: ReqToTokenPool) -> None:
    pool.free_rows(pool.alloc_rows(1))
    pool.alloc_rows(2)


def never_taken(pool: ReqToTokenPool) -> None:
    pool.free_rows(1)
    pool.alloc([Req("x"), Req("y")])
    pool.alloc([Req("z")])


def handed_out_to_one(pool: ReqToTokenPool) -> None:
    pool.free_rows(pool.alloc_rows(1))
    pool.free_rows(1)
    pool.alloc([Req("x"), Req("y")])


def by_count(pool: ReqToTokenPool) -> None:
    pool.free_rows(pool.alloc_rows(1))
    pool.free_rows(1)
    for _ in range(3):
        pool.alloc_rows(1)


def the_first_holder_again(pool: ReqToTokenPool) -> None:
    pool.free_rows(pool.alloc_rows(1))
    pool.alloc([Req("x"), Req("y")])
    pool.free_rows(1)
    pool.alloc([Req("z")])


def rightly_freed_in_between(pool: ReqToTokenPool) -> None:
    pool.free_rows(pool.alloc_rows(1))
    pool.alloc_rows(2)
    pool.free_rows(1)
    pool.free_rows(1)
    pool.alloc_rows(2)


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        (freed_once, "no row is given back a second time"),
        (never_taken, "no second free"),
        (handed_out_to_one, "not handed out to two"),
        (by_count, "Right."),
        (the_first_holder_again, "Right."),
        (rightly_freed_in_between, "Right."),
    ],
)
def test_chapter_02_praises_a_second_free_and_two_owners_and_nothing_less(calls, verdict: str) -> None:
    Notebook(next(path for path in SOURCES if path.stem.startswith("02")))

    def break_it(pool: ReqToTokenPool) -> None:
        calls(pool)

    assert verdict in told(check(break_it))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_exercise_is_passed_by_an_answer_that_ignores_the_question(path: Path) -> None:
    chapter = Notebook(path)
    for name in chapter.solutions:
        for answer in (None, 0, [], True, (), "", ("a", "bb")):
            function = eval(f"lambda *args: {answer!r}")
            function.__name__ = name
            assert "Right." not in told(check(function)), f"{name} accepts {answer!r}"
