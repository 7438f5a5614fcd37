"""The smallest sequence of operations after which something is wrong.

    breadth_first    every sequence of 1, 2, 3 ... operations in small worlds: the first that is wrong is a shortest
    deeper           Hypothesis draws longer ones, for what hides in state that one cannot see, and makes them short

A world is played from its beginning for every sequence: what the learner wrote need not be copyable. Two sequences
after which all that can be seen is equal are followed once. Both searches are bounded by counts, never by the clock:
the same answer gets the same case.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

from reqpool.exercises.guard import Raised, Stopped, need_time

Move = Hashable


class Wrong(Exception):
    """What is wrong after an operation, in one sentence.

    Args:
        cells: (row, position) of those that the picture marks.
    """

    def __init__(self, sentence: str, cells: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__(sentence)
        self.sentence, self.cells = sentence, tuple(cells)


class World(Protocol):
    """A small pool in which the learner's code is at work, and our own books on what should be."""

    pool: Any  # what is recorded when a case is shown
    emit: Callable[..., None]  # `Trace.emit` while a case is recorded: for what no call shows. No need to have one

    # Nor these: led_by(moves) -> str, what leads to the sentence in place of "after 2 operations", with no colon;
    # so_it_should_be() -> str, what the right picture says at its end, in place of "this is as it should be".

    def moves(self) -> Sequence[Move]:
        """What can be done next, always in the same order."""
        ...

    def play(self, move: Move) -> None:
        """Do it, and compare. Raises Wrong; Raised and Stopped, which `guard.call` raises, are taken as Wrong."""
        ...

    def seen(self) -> Hashable:
        """All that can be seen, in the books and in the pool."""
        ...


Build = Callable[[Any], World]  # from start settings


@dataclass(frozen=True)
class Found:
    start: Any
    moves: tuple[Move, ...]
    wrong: Wrong


def as_wrong(error: Wrong | Raised | Stopped) -> Wrong:
    if isinstance(error, Wrong):
        return error
    if isinstance(error, Stopped):
        return Wrong(str(error)[:1].lower() + str(error)[1:])
    return Wrong(f"your code raises `{error}`. {error.where}".rstrip())


Pick = Callable[[World, Any], "Move | None"]


def as_it_is(world: World, move: Move) -> Move:
    return move


def if_possible(world: World, move: Move) -> Move | None:
    return move if move in world.moves() else None


def by_number(world: World, number: int) -> Move | None:
    """Smaller numbers, simpler moves."""
    moves = world.moves()
    return moves[number % len(moves)] if moves else None


def played(build: Build, start: Any, moves: Sequence[Any], pick: Pick = as_it_is) -> tuple[World | None, Found | None]:
    """The world after these moves; or what is wrong, and after which of them; or neither, where one cannot be done."""
    need_time()
    done: list[Move] = []
    try:
        world = build(start)
        for each in moves:
            move = pick(world, each)
            if move is None:
                return None, None
            done.append(move)
            world.play(move)
    except (Wrong, Raised, Stopped) as error:
        return None, Found(start, tuple(done), as_wrong(error))
    return world, None


def breadth_first(build: Build, starts: Sequence[Any], depth: int, most: int = 4000) -> Found | None:
    """Try every sequence of up to `depth` operations, `most` of them at most, the shortest first, in all worlds."""
    level: list[tuple[Any, tuple[Move, ...]]] = [(start, ()) for start in starts]
    known: set[Hashable] = set()
    left = most
    for _ in range(depth + 1):
        following: list[tuple[Any, tuple[Move, ...]]] = []
        for start, moves in level:
            if left == 0:
                return None
            left -= 1
            world, found = played(build, start, moves)
            if world is None:  # something is wrong: what `moves` names can be done
                return found
            here = (start, world.seen())
            if here not in known:
                known.add(here)
                following += [(start, (*moves, move)) for move in world.moves()]
        level = following
    return None


def have_hypothesis() -> bool:
    return importlib.util.find_spec("hypothesis") is not None


def deeper(build: Build, starts: Sequence[Any], longest: int = 12, examples: int = 100) -> Found | None:
    """Longer sequences, drawn by Hypothesis and shrunk by it; None too where it is not installed."""
    if not have_hypothesis():
        return None
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, NoSuchExample

    last: list[Found] = []

    def is_wrong(drawn: tuple[int, list[int]]) -> bool:
        _, found = played(build, starts[drawn[0]], drawn[1], by_number)
        if found:
            last[:] = [found]
        return found is not None

    drawings = st.tuples(st.integers(0, len(starts) - 1), st.lists(st.integers(0, 63), max_size=longest))
    quiet = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType] - sees the metaclass's members
    )
    try:
        with _no_folder_here():
            at, numbers = find(drawings, is_wrong, settings=quiet)
    except NoSuchExample:
        return None
    except Flaky:
        return last[0]
    return _without_needless_moves(build, played(build, starts[at], numbers, by_number)[1] or last[0])


@contextmanager
def _no_folder_here() -> Iterator[None]:
    """Hypothesis would make a `.hypothesis` in the working directory, a learner's, even without a database."""
    name = "HYPOTHESIS_STORAGE_DIRECTORY"
    if name in os.environ:
        yield
        return
    os.environ[name] = os.path.join(tempfile.gettempdir(), "hypothesis")
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _without_needless_moves(build: Build, found: Found) -> Found:
    """Leave out one move after the other, or two: an alloc and its free.

    Hypothesis cannot: with a number left out, the others choose other moves.
    """
    num = len(found.moves)
    for out in [*combinations(range(num), 1), *combinations(range(num), 2)]:
        moves = [move for i, move in enumerate(found.moves) if i not in out]
        _, fewer = played(build, found.start, moves, if_possible)
        if fewer:
            return _without_needless_moves(build, fewer)
    return found
