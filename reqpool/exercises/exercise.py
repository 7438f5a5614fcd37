"""An exercise, and what the examiner says to an answer: not attempted, right, or the smallest case that is wrong.

    Exercise     what is asked, hints, solution, and its judge
    judges       by_operations: the answer is part of a small pool, and sequences of operations are searched
                 by_cases: the answer is a function of plain values
                 a function of its own, where the answer is an input that has to break something
    Verdict      the sentence, and the Case: with the learner's code and as it should be, as traces

No judge looks at how an answer is written.
"""

from __future__ import annotations

import copy
import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any, cast

from reqpool.exercises import guard
from reqpool.exercises.guard import NotAttempted, Raised, Stopped, Unreadable
from reqpool.exercises.search import Build, Found, Move, Wrong, as_wrong, breadth_first, deeper, have_hypothesis
from reqpool.exercises.values import difference, plain, same, shortened
from reqpool.trace import Trace, record

MOST_PRINTED = 2000  # letters of what the learner's code prints


@dataclass(frozen=True)
class Case:
    """The smallest case in which an answer is wrong.

    Attributes:
        sentence: what is wrong, for a person.
        num_operations: how many operations lead there.
        yours: with the learner's code, to the step at which it goes wrong; None where no pool came about.
        right: the same operations as they should go; None where there is nothing to compare.
        printed: what the learner's code printed on the way.
        labels: what stands over the two pictures.
    """

    sentence: str
    num_operations: int = 1
    yours: Trace | None = None
    right: Trace | None = None
    printed: str = ""
    labels: tuple[str, str] = ("with yours", "as it should be")


Judge = Callable[[Any], "Case | None"]  # None: nothing wrong was found


@dataclass(frozen=True)
class Exercise:
    """
    Attributes:
        name: of the function or class that the learner writes: `check` looks it up.
        place: chapter and letter, or step.
        solution: one right answer, as source text.
        praise: what to say to a right answer: what it was compared with, or what follows.
        searched: whether longer sequences are drawn by Hypothesis, where it is installed.
    """

    name: str
    place: str
    task: str
    judge: Judge
    hints: Sequence[str]
    solution: str
    praise: str = "That is it."
    searched: bool = False


@dataclass(frozen=True)
class Verdict:
    state: str  # "not attempted", "right" or "wrong"
    sentence: str
    case: Case | None = None
    remark: str = ""


def examine(exercise: Exercise, answer: Any) -> Verdict:
    """Judge an answer. The same answer gets the same verdict; nothing is remembered of earlier ones."""
    as_at_first = defaults_of(answer)
    try:
        with guard.limits():
            case = exercise.judge(answer)
    except NotAttempted as stub:
        return Verdict("not attempted", stub.said)
    except (Wrong, Raised, Stopped) as error:
        case = Case(first_up(as_wrong(error).sentence))
    finally:
        as_at_first()
    if case:
        return Verdict("wrong", case.sentence, case)
    missing = exercise.searched and not have_hypothesis()
    remark = "Hypothesis is not installed here, so only short sequences of operations were tried." if missing else ""
    return Verdict("right", exercise.praise, remark=remark)


def first_up(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def defaults_of(answer: Any) -> Callable[[], None]:
    """What puts the defaults of a function's parameters back: `out=[]` is kept from one call to the next.

    So every case is played with what the first one had. (Globals and closures are not put back.)
    """
    function = inspect.unwrap(answer) if inspect.isfunction(answer) else None
    if function is None or not (function.__defaults__ or function.__kwdefaults__):
        return lambda: None
    try:
        kept = guard.reading(copy.deepcopy, (function.__defaults__, function.__kwdefaults__))
    except Unreadable:  # what cannot be copied is left alone
        return lambda: None

    def put_back() -> None:
        function.__defaults__, function.__kwdefaults__ = copy.deepcopy(kept)

    return put_back


class Beginning(io.StringIO):
    """Keeps what is written first, and drops the rest."""

    def write(self, text: str) -> int:
        super().write(text[: max(MOST_PRINTED - self.tell(), 0)])
        return len(text)


@contextmanager
def listening() -> Iterator[io.StringIO]:
    """What is printed inside, on either of the two streams; thousands of calls may print, and the beginning is kept."""
    printed = Beginning()
    with redirect_stdout(printed), redirect_stderr(printed):
        yield printed


# ---- answers that are part of a pool ---------------------------------------------------------------------------------


def by_operations(
    build: Callable[[Any, Any], Any],
    right: Any,
    starts: Sequence[Any],
    depth: int = 4,
    most: int = 3000,
    longest: int = 12,
    examples: int = 100,
    larger: Sequence[Any] = (),
) -> Judge:
    """Search sequences of operations for one that goes wrong.

    Args:
        build: (answer, start) -> World.
        right: a right answer, for the picture beside; not what the answer is compared with.
        starts: settings of the small worlds, the smallest first.
        depth, most: of the breadth-first search.
        longest, examples: of the search by Hypothesis. larger: settings that only this one tries.
    """

    def judge(answer: Any) -> Case | None:
        as_at_first = defaults_of(answer)

        def world(start: Any) -> Any:
            as_at_first()
            return build(answer, start)

        with listening():  # thousands of calls: what they print is shown for one case only
            found = breadth_first(world, starts, depth, most) or deeper(world, [*starts, *larger], longest, examples)
        return found and _shown(world, lambda start: build(right, start), found)

    return judge


def _shown(world: Build, right: Build, found: Found) -> Case:
    """Play the case once more, recorded, with the learner's code and with right code."""
    with listening() as printed:
        yours, again = told(world, found.start, found.moves)
    n, beside = len(found.moves), cast(Any, right(found.start))
    lead = beside.led_by(found.moves) if hasattr(beside, "led_by") else _after(n)
    sentence = first_up(f"{lead}: {found.wrong.sentence}" if lead else found.wrong.sentence)
    if again is None or again.sentence != found.wrong.sentence:
        sentence += " (When these operations were played once more, it went differently: an answer must not depend on "
        sentence += "chance, or on what was done before with another pool.)"
    return Case(sentence, n, yours, told(right, found.start, found.moves)[0], printed.getvalue())


def _after(num: int) -> str:
    return {0: "at once", 1: "after 1 operation"}.get(num, f"after {num} operations")


MOST_NAMED = 4


def after(words: Sequence[str]) -> str:
    """The operations by name, where they are few: how a world leads to its sentence.

    >>> after(["`take 2 rows`", "`free [1, 2]`"])
    'after `take 2 rows`, then `free [1, 2]`'
    """
    few = 0 < len(words) <= MOST_NAMED
    return f"after {', then '.join(words)}" if few else _after(len(words))


def told(build: Build, start: Any, moves: Sequence[Move]) -> tuple[Trace | None, Wrong | None]:
    """The moves, recorded up to the one that goes wrong, which a note closes."""
    try:
        world: Any = build(start)
    except (Wrong, Raised, Stopped) as error:
        return None, as_wrong(error)
    with record(world.pool) as trace:
        world.emit = trace.emit
        try:
            for step, move in enumerate(moves, start=1):
                trace.step = step
                world.play(move)
        except (Wrong, Raised, Stopped) as error:
            wrong = as_wrong(error)
            rows = sorted({row for row, _ in wrong.cells})
            _in_the_learners_words(trace)
            trace.emit("note", rows=rows, text=wrong.sentence.replace("`", ""), wrong=wrong.cells)
            return trace, wrong
        as_it_should = world.so_it_should_be() if hasattr(world, "so_it_should_be") else "this is as it should be"
        trace.emit("note", text=as_it_should)
    return trace, None


def _in_the_learners_words(trace: Trace) -> None:
    """A call of the pool that ends inside the learner's code raises one of our exceptions: tell the learner's own."""
    ours = ("Wrong", "Stopped", "Unreadable", "Raised")
    for i, event in enumerate(trace.events):
        error = dict(event.facts).get("error") if event.kind == "refuse" else None
        if error not in ours:
            continue
        name, _, said = event.text.partition(": ") if error == "Raised" else ("", "", event.text)
        facts = tuple((key, name if key == "error" else value) for key, value in event.facts)
        trace.events[i] = replace(event, text=said.replace("`", ""), facts=facts)


# ---- answers that are functions of plain values --------------------------------------------------------------------


def by_cases(
    expect: Callable[..., Any],
    cases: Iterable[tuple],
    picture: Callable[[tuple, str], Trace] | None = None,
    name: str = "",
    count: Callable[[tuple], int] = lambda case: 1,
) -> Judge:
    """Compare a function with what `expect`, written apart from the code under test, says of every case.

    Args:
        cases: tuples of arguments, the smallest first; the first that fails is shown.
        picture: (case, what is said at its end) -> the case as a trace.
        count: how many operations the picture of a case has.
    """
    cases = list(cases)

    def judge(answer: Any) -> Case | None:
        as_at_first = defaults_of(answer)
        for case in cases:
            wanted = plain(expect(*copy.deepcopy(case)))
            as_at_first()
            with listening() as printed:
                said = _said(answer, case, wanted, name)
            if said:
                sentence, yours, right = said
                traces = (picture(copy.deepcopy(case), yours), picture(copy.deepcopy(case), right)) if picture else ()
                return Case(sentence, count(case), *(traces or (None, None)), printed.getvalue())
        return None

    return judge


def _said(answer: Any, case: tuple, wanted: Any, name: str) -> tuple[str, str, str] | None:
    """What is wrong with this case: a sentence, and what the two pictures say at their ends."""
    name = name or getattr(answer, "__name__", "your function")
    call = f"`{name}({', '.join(map(repr, case))})`"
    right = f"right: {shortened(wanted)}"
    try:
        guard.need_time()
        got = plain(guard.call(answer, *copy.deepcopy(case)))
    except (Raised, Stopped) as error:
        why = as_wrong(error).sentence
        return f"{call}: {ended(why)} Wanted `{shortened(wanted)}`.", f"yours: {why}", right
    if same(got, wanted):
        return None
    return f"{call} gives {difference(got, wanted)}.", f"yours: {shortened(got)}", right


def ended(sentence: str) -> str:
    """With a full stop, which one that ends with a line of code has not."""
    return sentence if sentence.endswith(".") else f"{sentence}."
