"""What a learner writes runs with limits, and whatever it does ends in a sentence that is the same every time."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from reqpool.exercises import guard, limits
from reqpool.exercises.bank import written
from reqpool.exercises.catalogue import find
from reqpool.exercises.exercise import examine
from reqpool.exercises.guard import NotAttempted, Raised, Stopped, Unreadable, call, own_line
from reqpool.exercises.values import MOST_ITEMS, difference, plain, same, shortened
from reqpool.views.text import caption


def learners(body: str, head: str = "def f():", **names: Any) -> Callable[..., Any]:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return written(f"import itertools, threading, time\n{head}\n{lines}\n", "f", **names)


# ---- loops that do not end -------------------------------------------------------------------------------------------

ENDLESS = {
    "with a bare except in a loop": """
while True:
    try:
        while True: pass
    except:
        pass
""",
    "with a name for what it catches": """
while True:
    try:
        while True: pass
    except BaseException as error:
        pass
""",
    "with two levels of that": """
while True:
    try:
        while True:
            try:
                while True: pass
            except:
                pass
    except:
        continue
""",
    "after the first is caught": """
try:
    while True: pass
except:
    while True: pass
""",
    "in a finally": """
try:
    while True: pass
finally:
    while True: pass
""",
    "in exec": 'exec("while True: pass")',
    "in eval": 'return eval("[0 for _ in iter(int, 1)]")',
    "in a key": "return max(itertools.count(), key=lambda each: 0)",
    "in a thread that is waited for": """
def endless():
    while True: pass
thread = threading.Thread(target=endless)
thread.start()
thread.join()
""",
    "in code that swallows the end and answers": """
try:
    while True: pass
except:
    return 1
""",
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_loop_is_stopped(body: str) -> None:
    with limits.limits(), pytest.raises(Stopped, match=r"300,000 instructions: a loop does not end, or takes far too"):
        call(learners(body))


def test_what_stops_a_loop_is_gone_afterwards() -> None:
    before = signal.getsignal(signal.SIGVTALRM), sys.gettrace(), threading.gettrace()
    with pytest.raises(Stopped):
        call(learners(ENDLESS["in a finally"]))
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert (sys.gettrace(), threading.gettrace()) == before[1:]
    assert signal.getsignal(signal.SIGVTALRM) in (before[0], signal.SIG_IGN)
    assert call(learners("return sum(n for n in range(1000))")) == 499500


def test_a_slow_answer_is_stopped_at_the_same_place_however_fast_the_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST_IN_ALL", 5000)
    slow, places = learners("for _ in range(500): pass\nreturn 1"), []
    for _ in range(2):
        with limits.limits(), pytest.raises(Stopped, match=r"check was stopped after 5,000 .* takes far too long"):
            for place in range(1000):
                places.append(place)
                call(slow)
    assert places == [*range(max(places) + 1)] * 2 and 0 < max(places) < 10


def test_sleeping_in_a_loop_is_stopped_by_the_clock_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SECONDS", 0.1)
    with limits.limits(), pytest.raises(Stopped, match=r"after 0.1 seconds: it waits"):
        call(learners("while True: time.sleep(0.001)"))


def test_an_answer_that_starts_too_many_threads_is_told_so() -> None:
    def refuses() -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(Stopped, match="no room for one in a check"):
        call(refuses)


def test_where_cuda_is_at_work_the_address_space_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with limits.limits():
        assert resource.getrlimit(resource.RLIMIT_AS) == before


# ---- the kernel afterwards -------------------------------------------------------------------------------------------


def kernel() -> dict[str, Any]:
    return {
        "recursion": sys.getrecursionlimit(),
        "folder": os.getcwd(),
        "filters": list(warnings.filters),
        "random": random.getstate(),
        "numpy": repr(np.random.get_state()),
        "torch": torch.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
    }


def test_a_check_leaves_the_kernel_as_it_was() -> None:
    def changes_all() -> None:
        sys.setrecursionlimit(5000)
        os.chdir("/")
        warnings.simplefilter("error")
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)

    before = kernel()
    with limits.limits():
        call(changes_all)
        during = kernel()
    assert kernel() == before
    assert all(during[name] != before[name] for name in before)


# ---- what cannot be read or shown ------------------------------------------------------------------------------------


class NoRepr:
    def __repr__(self) -> str:
        raise ValueError("no")


class NoText(Exception):
    def __str__(self) -> str:
        raise self


class Endless(list):
    def __iter__(self) -> Any:
        while True:
            yield 1


def in_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def deep(levels: int) -> list[Any]:
    items: list[Any] = []
    for _ in range(levels):
        items = [items]
    return items


UNREADABLE = {
    "a list in itself": (in_itself(), "in itself"),
    "5000 levels": (deep(5000), "nested too deeply"),
    "a range of a billion": (range(10**9), "more than 1,000 items"),
    "an iteration without end": (Endless(), "more than 1,000 items"),
    "a large tensor": (torch.zeros(2000), "more than 1,000 items"),
    "a sparse tensor": (torch.zeros(3).to_sparse(), "raises"),
    "a tensor without data": (torch.zeros(3, device="meta"), "raises"),
    "a list of a long integer": ([10**5000], "an integer of 5,001 digits"),
}


@pytest.mark.parametrize(("value", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_told_so(value: object, why: str) -> None:
    with pytest.raises(Unreadable, match=f"What it returns cannot be read: .*{why}"):
        plain(value)
    assert len(shortened(value)) <= 120


def test_a_thousand_items_can_be_read() -> None:
    assert plain(range(MOST_ITEMS)) == list(range(MOST_ITEMS))


def test_a_dict_with_keys_that_hold_sequences_is_read() -> None:
    assert plain({(1, 2): (3,)}) == {(1, 2): [3]}
    assert not same(plain({(1, 2): 3}), True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**5000, "an integer of 5,001 digits"),
        (-(10**5000) + 1, "an integer of 5,000 digits"),
        ([10**5000], "[an integer of 5,001 digits]"),
        (10**30, str(10**30)),
        (NoRepr(), "a NoRepr that cannot be shown"),
        ([NoRepr()], "a list that cannot be shown"),
        ((n for n in "ab"), "a generator"),
        (map(str, "ab"), "a map object"),
        (object(), "an object object"),
        ({"b", "a", "c"}, "{'a', 'b', 'c'}"),
        (frozenset({10, 9}), "frozenset({9, 10})"),
        (set(), "set()"),
        ((1,), "(1,)"),
        ({1: [2]}, "{1: [2]}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_shown_is_the_same_in_every_kernel(value: object, text: str) -> None:
    assert shortened(value) == text


def test_a_function_is_shown_without_its_address() -> None:
    assert "0x" not in difference(learners, 3) and "function learners" in difference(learners, 3)


def test_an_exception_that_cannot_say_itself_is_named() -> None:
    def fails() -> None:
        raise NoText

    with pytest.raises(Raised, match=r"^NoText$"):
        call(fails)


def test_a_long_message_is_shortened_and_has_no_address() -> None:
    def fails() -> None:
        raise ValueError(f"{object()!r} {'x' * 10_000}")

    with pytest.raises(Raised) as raised:
        call(fails)
    assert len(str(raised.value)) < 500 and "0x" not in str(raised.value)


def test_a_replay_of_what_has_an_address_is_not_blamed_on_chance() -> None:
    answer = written("def give_back(f, r, u):\n    return [iter(f), lambda: 1]\n", "give_back")
    verdict = examine(find("give_back"), answer)
    assert verdict.state == "wrong" and "chance" not in verdict.sentence and "0x" not in verdict.sentence


# ---- whose line ------------------------------------------------------------------------------------------------------


def line_of(body: str, head: str = "def f():") -> str:
    with pytest.raises(Raised) as raised:
        call(learners(body, head))
    return raised.value.where


def test_inside_a_comprehension_the_line_is_that_of_the_function() -> None:
    assert line_of("x = 1\nreturn [x / 0 for _ in 'ab']") == "In line 3 of `f`: `return [x / 0 for _ in 'ab']`"


def test_inside_a_key_the_line_is_that_of_the_function() -> None:
    assert line_of("return max([1], key=lambda x: x / 0)").startswith("In line 2 of `f`: `return max(")


def test_of_an_endless_recursion_the_line_is_that_of_the_call() -> None:
    assert line_of("n = 0\nreturn f()") == "In line 3 of `f`: `return f()`"


def test_an_exception_without_a_line_of_the_learners_names_none() -> None:
    assert own_line(ValueError("made here, never raised")) == ""


# ---- stubs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["return ...", "raise NotImplementedError", '"""Doc."""\nraise NotImplementedError'])
def test_a_whole_stub_is_not_attempted(body: str) -> None:
    with pytest.raises(NotAttempted, match=r"^f$"):
        call(learners(body))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("if itertools:\n    raise NotImplementedError  # mine", "In line 3 of `f` it still says `raise NotImpl"),
        (
            "def helper():\n    raise NotImplementedError\nhelper()",
            "In line 2 of `helper` it still says `raise NotImpl",
        ),
        ("if not itertools:\n    return 1\nreturn ...", "Here `f` still gives `...`."),
    ],
)
def test_a_function_with_one_branch_to_be_written_has_been_attempted(body: str, told: str) -> None:
    with pytest.raises(Stopped) as stopped:
        call(learners(body))
    assert str(stopped.value).startswith(told)


def test_an_answer_half_written_is_wrong_and_says_which_line_is_missing() -> None:
    half = "def give_back(f, r, u):\n    if u == 'fifo':\n        return f + r\n    raise NotImplementedError\n"
    verdict = examine(find("give_back"), written(half, "give_back"))
    assert verdict.state == "wrong" and "in line 4 of `give_back` it still says" in verdict.sentence


# ---- the same answer, the same case ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ["cells, length, keys, out=[]", "cells, length, keys, *, out=[]"])
def test_an_answer_with_a_list_as_default_gets_the_same_case_every_time(parameters: str) -> None:
    source = f"def keys_of({parameters}):\n    out += [keys[cell] for cell in cells[:length]]\n    return out\n"
    answer = written(source, "keys_of")
    sentences = {examine(find("keys_of"), answer).sentence for _ in range(3)}
    assert len(sentences) == 1 and "chance" not in sentences.pop()
    assert [*(answer.__defaults__ or ()), *(answer.__kwdefaults__ or {}).values()] == [[]]


def test_the_picture_names_the_learners_own_error() -> None:
    answer = written("def give_back(f, r, u):\n    return 1 / 0\n", "give_back")
    case = examine(find("give_back"), answer).case
    assert case is not None and case.yours is not None
    said = " ".join(caption(case.yours, k) for k in range(1, len(case.yours) + 1))
    assert "Raised" not in said and "ZeroDivisionError: division by zero" in said


def test_both_streams_are_heard(capsys: pytest.CaptureFixture[str]) -> None:
    source = "import sys\ndef give_back(f, r, u):\n    print('one')\n    print('two', file=sys.stderr)\n    return f\n"
    case = examine(find("give_back"), written(source, "give_back")).case
    assert case is not None and case.printed.startswith("one\ntwo\n")
    assert capsys.readouterr() == ("", "")


def test_a_check_makes_no_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examine(find("give_back"), written(find("give_back").solution, "give_back"))
    assert os.listdir(tmp_path) == [] and "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ


def test_a_limit_is_no_exception_that_a_learner_catches_by_mistake() -> None:
    assert not issubclass(limits.OverLimit, Exception) and issubclass(guard.Unreadable, Stopped)
