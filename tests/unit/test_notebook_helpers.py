"""What the lessons use: the self-check and set-up cell, source, exercises."""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import ipywidgets as widgets
import pytest

from reqpool import ReqToTokenPool, notebook, scenarios
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


def setup_cell(path: Path) -> str:
    cell = path.read_text().split('# %% tags=["setup"] jupyter={"source_hidden": true}\n')[1]
    return cell.split("\n# %%")[0].strip()


def test_every_chapter_has_the_same_setup_cell() -> None:
    assert len({setup_cell(path) for path in SOURCES}) == 1


def run_setup(folder: Path) -> subprocess.CompletedProcess[str]:
    """In a Python that does not know the package, as where nobody installed it."""
    hidden = "import sys; sys.path = [p for p in sys.path if 'reqpool' not in p and p != REPOSITORY]; sys.meta_path = "
    hidden += "[f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
    hidden = hidden.replace("REPOSITORY", repr(str(SOURCES[0].parents[2])))
    code = hidden + setup_cell(SOURCES[0]) + "\nprint('READY')\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_setup_cell_works_in_a_clone_in_which_nothing_was_installed() -> None:
    run = run_setup(SOURCES[0].parents[1])
    assert "READY" in run.stdout, run.stderr


def test_the_setup_cell_alone_says_what_to_do_in_one_sentence(tmp_path: Path) -> None:
    run = run_setup(tmp_path)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: reqpool is not here: get the whole repository")


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
