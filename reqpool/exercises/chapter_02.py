"""Chapter 02, alloc and free: who is refused, in which order rows come back, what a second free does."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import permutations
from typing import Any

from reqpool.exercises import guard
from reqpool.exercises.exercise import Case, Exercise, by_cases, by_operations
from reqpool.exercises.search import Wrong, as_wrong
from reqpool.exercises.values import difference, plain
from reqpool.faulty import FreedTwice
from reqpool.pool import ReqToTokenPool
from reqpool.trace import Trace, record

# ---- A: a batch that has to be refused -------------------------------------------------------------------------------


def refused(free_rows: list[int], n: int) -> bool:
    """As the text says it: n rows, each for itself, are taken out of the free ones, and one is missing."""
    left = list(free_rows)
    for _ in range(n):
        if not left:
            return True
        left.pop()
    return False


def asked_for(case: tuple, said: str) -> Trace:
    """The real pool is asked, with the same rows free, in the same order, as in the case."""
    free_rows, n = case
    pool = ReqToTokenPool(max(free_rows, default=1), 2, "cpu")
    with record(pool) as trace:
        if list(pool.free_slots) != free_rows:
            pool.alloc_rows(pool.size)
        if pool.available_size() < len(free_rows):
            pool.free_rows(free_rows)
        pool.alloc_rows(n)
        trace.emit("note", text=f"must_refuse({free_rows}, {n}), {said}")
    return trace


def num_calls(case: tuple) -> int:
    free_rows, _ = case
    return 1 if free_rows == sorted(free_rows) != [] and free_rows[-1] == len(free_rows) else 2 + bool(free_rows)


FREE_ROWS = [*(list(range(1, size + 1)) for size in (1, 2, 3, 0, 9)), [3, 1], [2, 4, 3], list(range(1, 41))]

MUST_REFUSE = Exercise(
    "must_refuse",
    "02 A",
    "complete the line: `True` when a batch of `n` new requests has to be refused, `free_rows` being the list of the "
    "free rows.",
    by_cases(
        refused,
        [(rows, n) for rows in FREE_ROWS for n in (*range(5), 9, 10, 11, 39, 40, 41)],
        asked_for,
        name="must_refuse",
        count=num_calls,
    ),
    hints=("All or nothing: how many rows must there be at least?", "A batch that takes the very last row is fine."),
    solution="""
def must_refuse(free_rows, n):
    return n > len(free_rows)
""",
)

# ---- B: the free rows after some are given back ----------------------------------------------------------------------


MOST_IN_EVERY_ORDER = 3


class GivesBack(ReqToTokenPool):
    """The pool, with the learner's function at the place where rows come back."""

    def __init__(self, yours: Callable[..., Any], size: int, reuse: str) -> None:
        super().__init__(size, 2, "cpu", reuse=reuse)
        self.yours = yours
        self.wanted: list[int] = []  # what is right this time, for the sentence
        self.error: Wrong | guard.Raised | guard.Stopped | None = None  # kept: it is not the pool that refuses

    def _give_back(self, rows: list[int]) -> None:
        free_rows = list(self.free_slots)
        super()._give_back(rows)
        try:
            answer = plain(guard.call(self.yours, free_rows, list(rows), self.reuse))
        except (guard.Raised, guard.Stopped) as error:
            self.error = error
            return
        if isinstance(answer, list) and all(type(row) is int for row in answer):
            self.free_slots = deque(answer)
        else:
            self.error = Wrong(f"`give_back` returns {difference(answer, self.wanted)}.")


class RowsComeBack:
    """Rows are taken by count and given back in every order; the books say which are free, and in which order."""

    def __init__(self, yours: Callable[..., Any], start: tuple[int, str]) -> None:
        size, self.reuse = start
        self.pool = GivesBack(yours, size, self.reuse)
        self.free, self.out = list(range(1, size + 1)), []

    def moves(self) -> Sequence[Hashable]:
        """Fewer than 64 in every world: of more, `deeper` would never draw the last."""
        most = len(self.free)
        takes = [n for n in range(1, most + 1) if n < 4 or n == most]
        return [*(("take", n) for n in takes), *(("free", rows) for rows in orders_of(self.out))]

    def play(self, move: Any) -> None:
        kind, what = move
        if kind == "take":
            self.out += self.pool.alloc_rows(what) or []  # by the books as many are free
            del self.free[:what]
            return
        before = list(self.free)
        for row in what:
            self.out.remove(row)
            self.free.insert(len(self.free) if self.reuse == "fifo" else 0, row)
        self.pool.wanted = self.free
        self.pool.free_rows(list(what))
        if self.pool.error:
            raise self.pool.error
        self.compare(list(self.pool.free_slots), before, list(what))

    def compare(self, got: list[int], before: list[int], rows: list[int]) -> None:
        if got == self.free:
            return
        lost = sorted((Counter(self.free) - Counter(got)).elements())
        added = sorted((Counter(got) - Counter(self.free)).elements())
        call = f"`give_back({before}, {rows}, {self.reuse!r})` gives `{got}`, wanted `{self.free}`"
        if lost:
            raise Wrong(f"{call}: row {lost[0]} is lost, neither free nor anybody's.")
        if added:
            twice = "is free twice" if added[0] in self.free else "was never taken out of this pool"
            raise Wrong(f"{call}: row {added[0]} {twice}.")
        order = "row freed first has to go out first" if self.reuse == "fifo" else "row freed last has to go out first"
        raise Wrong(f"{call}: the right rows in the wrong order. With {self.reuse} the {order}.")

    def seen(self) -> Hashable:
        return tuple(self.free), tuple(self.out)


def orders_of(out: list[int]) -> list[tuple[int, ...]]:
    """In which rows may come back: every order of a few, some of all where there are many."""
    if len(out) <= MOST_IN_EVERY_ORDER:
        return [rows for k in range(1, len(out) + 1) for rows in permutations(out, k)]
    some = [out, out[::-1], out[1:] + out[:1], out[::2], out[1::2][::-1], out[:-1], out[:2], out[:2][::-1]]
    return [*((row,) for row in out), *map(tuple, some)]


GIVE_BACK_SOLUTION = """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + rows
    return rows[::-1] + free_rows
"""


def solved(free_rows: list[int], rows: list[int], reuse: str) -> list[int]:
    return free_rows + rows if reuse == "fifo" else rows[::-1] + free_rows


GIVE_BACK = Exercise(
    "give_back",
    "02 B",
    'return the free rows after `rows` are given back, in the order given; `reuse` is `"fifo"` or `"lifo"`. '
    "Index 0 is the next row to be handed out.",
    by_operations(
        lambda answer, start: RowsComeBack(answer, start),
        solved,
        [(size, reuse) for size in (1, 2, 3, 4, 7, 20) for reuse in ("fifo", "lifo")],
        depth=3,
        larger=[(40, "fifo"), (40, "lifo")],
    ),
    hints=(
        "fifo: they go to the end, first given first.",
        "lifo: each goes to the front, one after the other. So which one is in front at last?",
    ),
    solution=GIVE_BACK_SOLUTION,
    praise="It stood in a real pool, in place of the pool's own lines, while rows were taken and given back in every "
    "order.",
    searched=True,
)

# ---- C: break the pool -----------------------------------------------------------------------------------------------


def played_on(pool: ReqToTokenPool, function: Callable[..., Any]) -> Trace:
    with record(pool) as trace, suppress(guard.Raised):
        guard.call(function, pool)
    return trace


def second_free(trace: Trace) -> int | None:
    """The step at which the real pool refuses to take a row back; None: it never does."""
    steps = enumerate(trace, start=1)
    return next((k for k, event in steps if (event.kind, event.call) == ("refuse", "free_rows")), None)


def breaks_freed_twice(function: Callable[..., Any]) -> Case | None:
    pool, error = FreedTwice(2, 4, "cpu"), None
    with record(pool) as trace:
        try:
            guard.call(function, pool)
        except (guard.Raised, guard.Stopped) as raised:
            error = as_wrong(raised).sentence
            trace.emit("note", text=error.replace("`", ""))
    if error:
        return Case(f"{error[:1].upper()}{error[1:]}", len(trace) - 1, trace)
    real = played_on(ReqToTokenPool(2, 4, "cpu"), function)
    n, k = len(trace), second_free(real)
    if k is None:
        return Case("The real pool takes all of this: no row is given back a second time.", n, trace, real)
    taken = {row for event in trace.events[:k] if event.kind == "alloc" for row in event.rows}
    given = Counter(row for event in trace.events[:k] if event.kind == "free" for row in event.rows)
    twice = [row for row in trace[k - 1].rows if row in taken and given[row] > 1]
    if not twice:
        said = f"Step {k} gives back a row that was not taken and given back before: wrong, but no second free."
        return Case(said, k, trace, real)
    holders = [trace.snapshot(at).owners.get(row, ()) for at in range(k, n + 1) for row in twice]
    if not any(len(each) > 1 for each in holders):
        said = f"Row {twice[0]} is given back twice, but it is not handed out to two. How many must come for that?"
        return Case(said, n, trace, real)
    return None


TWO_IN_ONE_ROW = Exercise(
    "two_in_one_row",
    "02 C",
    "with calls on a `FreedTwice(size=2, max_context_len=4)`, take a row, give it back twice, and so make it be handed "
    "out to two, requests or by count. The real pool has to refuse the second free.",
    breaks_freed_twice,
    hints=(
        "Take a row by count with `alloc_rows(1)`, and free it twice with `free_rows`.",
        "Then the row is free twice. How many requests must come until both are out? Two rows, first in, first out.",
    ),
    solution="""
def two_in_one_row(pool):
    row = pool.alloc_rows(1)
    pool.free_rows(row)
    pool.free_rows(row)
    for rid in "xyz":
        pool.alloc([Req(rid)])
""",
    praise="The real pool raises at the second free, which is where the mistake is.",
)

EXERCISES = (MUST_REFUSE, GIVE_BACK, TWO_IN_ONE_ROW)
