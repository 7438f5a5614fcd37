"""The examiner against the bank: every wrong answer is rejected, every right one accepted, the same twice."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from reqpool import Req
from reqpool.exercises import bank
from reqpool.exercises.bank import UnusualAnswer, WrongAnswer, written
from reqpool.exercises.catalogue import CHAPTERS, exercises, find
from reqpool.exercises.exercise import Verdict, examine

MODULES = [importlib.import_module(f"reqpool.exercises.bank.{chapter}") for chapter in CHAPTERS]
WRONG = [answer for module in MODULES for answer in module.WRONG]
UNUSUAL = [answer for module in MODULES for answer in module.UNUSUAL]
AT_MOST = 4  # operations of a case


def verdict_on(answer: WrongAnswer | UnusualAnswer) -> Verdict:
    return examine(find(answer.exercise), written(answer.source, answer.exercise, Req=Req))


def named(answer: WrongAnswer | UnusualAnswer) -> str:
    return f"{answer.exercise}: {getattr(answer, 'mistake', '') or answer.what}"


@pytest.mark.parametrize("answer", WRONG, ids=named)
def test_a_wrong_answer_gets_its_case_and_its_sentence_and_the_same_again(answer: WrongAnswer) -> None:
    verdict = verdict_on(answer)
    assert verdict.state == "wrong", verdict
    assert answer.told in verdict.sentence
    assert verdict.case is not None and len(verdict.case.yours or verdict.case.right or ()) > 0
    again = verdict_on(answer)
    assert again.sentence == verdict.sentence
    for first, second in ((verdict.case.yours, again.case.yours), (verdict.case.right, again.case.right)):
        assert [*(first or ())] == [*(second or ())]


@pytest.mark.parametrize("answer", UNUSUAL, ids=named)
def test_a_right_answer_that_looks_unusual_is_accepted(answer: UnusualAnswer) -> None:
    verdict = verdict_on(answer)
    assert verdict.state == "right", verdict.sentence


@pytest.mark.parametrize("name", exercises())
def test_every_solution_is_accepted(name: str) -> None:
    one = find(name)
    assert examine(one, written(one.solution, name, Req=Req)) == Verdict("right", one.praise)


def test_nine_in_ten_cases_are_at_most_four_operations_long() -> None:
    sizes = [verdict_on(answer).case.num_operations for answer in WRONG]
    assert sum(size <= AT_MOST for size in sizes) >= 0.9 * len(sizes), sizes


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_has_three_exercises_and_exercise_b_six_wrong_answers(chapter: str) -> None:
    a, b, c = importlib.import_module(f"reqpool.exercises.{chapter}").EXERCISES
    number = chapter.split("_")[1]
    assert [one.place for one in (a, b, c)] == [f"{number} A", f"{number} B", f"{number} C"]
    mistakes = [answer.mistake for answer in WRONG if answer.exercise == b.name]
    assert len(set(mistakes)) == len(mistakes) >= 6
    assert all(any(answer.exercise == one.name for answer in WRONG) for one in (a, c))
    assert all(any(answer.exercise == one.name for answer in UNUSUAL) for one in (a, b))
    assert all(len(one.hints) == 2 for one in (a, b, c))


def test_the_bank_has_no_module_that_nobody_tries() -> None:
    there = {module.name for module in pkgutil.iter_modules(bank.__path__)}
    assert there - {"own_pool"} == set(CHAPTERS)


STUBS = {
    "returns ...": "def {name}(*args):\n    return ...\n",
    "raises NotImplementedError": "def {name}(*args):\n    raise NotImplementedError\n",
}


@pytest.mark.parametrize("stub", STUBS.values(), ids=STUBS)
@pytest.mark.parametrize("name", exercises())
def test_a_stub_is_not_attempted(name: str, stub: str) -> None:
    assert examine(find(name), written(stub.format(name=name), name)) == Verdict(
        "not attempted", f"`{name}` is still the stub."
    )


HOPELESS = {
    "an endless loop": ("while True:\n        pass", "a loop does not end"),
    "an endless comprehension": ("import itertools\n    return [n for n in itertools.count()]", "a loop does not end"),
    "a huge list": ("return [0] * 10**10", "MiB of memory"),
    "a huge tensor": ("import torch\n    return torch.ones(10**11)", "MiB of memory"),
    "endless recursion": ("return {name}(*args)", "RecursionError"),
    "an exception": ("return args[7]", "In line 2 of `{name}`: `return args[7]`"),
    "an exit": ("raise SystemExit(3)", "SystemExit: 3"),
}


@pytest.mark.parametrize(("body", "told"), HOPELESS.values(), ids=HOPELESS)
@pytest.mark.parametrize("name", exercises())
def test_what_would_hang_or_crash_ends_in_a_sentence(name: str, body: str, told: str) -> None:
    source = f"def {name}(*args):\n    {body.format(name=name)}\n"
    verdict = examine(find(name), written(source, name))
    assert verdict.state == "wrong"
    assert told.format(name=name) in verdict.sentence


def test_an_unknown_exercise_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"no exercise 'give_up'; there are .*give_back"):
        find("give_up")


SOURCES = sorted((Path(__file__).resolve().parents[2] / "notebooks" / "source").glob("0*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_an_untouched_chapter_is_not_attempted_three_times(path: Path) -> None:
    cells = [cell.partition("\n")[2] for cell in path.read_text(encoding="utf-8").split("# %%")]
    checked = [name for cell in cells for name in re.findall(r"^check\((\w+)\)", cell, re.MULTILINE)]
    stubs = {name: cell for name in checked for cell in cells if re.search(rf"^def {name}\(", cell, re.MULTILINE)}
    verdicts = {name: examine(find(name), written(stub, name, Req=Req)).state for name, stub in stubs.items()}
    assert [find(name).place for name in checked] == [f"{path.stem[:2]} {letter}" for letter in "ABC"]
    assert verdicts == dict.fromkeys(checked, "not attempted")
