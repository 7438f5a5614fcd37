"""Chapter 02, alloc and free: who is refused, in which order rows come back, what a second free does."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import permutations
from typing import Any

from reqpool.exercises import guard
from reqpool.exercises.exercise import Case, Exercise, after, by_operations, ended, first_up
from reqpool.exercises.search import Wrong, as_wrong
from reqpool.exercises.values import difference, plain, same
from reqpool.faulty import FreedTwice
from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.together import NOTHING
from reqpool.trace import Event, Trace, record

# ---- A: a batch that has to be refused -------------------------------------------------------------------------------


def refused(free_rows: list[int], n: int) -> bool:
    """As the text says it: n rows, each for itself, are taken out of the free ones, and one is missing."""
    left = list(free_rows)
    for _ in range(n):
        if not left:
            return True
        left.pop()
    return False


class AsksFirst(ReqToTokenPool):
    """The pool, with what the learner's line said at the place where a batch is refused."""

    refuses = False

    def _take(self, n: int) -> list[int] | None:
        if self.refuses:
            return None
        if n <= len(self.free_slots):
            return super()._take(n)
        self.free_slots.clear()  # one after the other, as the pool takes them
        raise IndexError("pop from an empty deque")


class BatchComes:
    """So many rows are free, in this order, and one batch of new requests comes."""

    def __init__(self, yours: Callable[..., Any], start: Sequence[int]) -> None:
        self.yours, self.free_rows = yours, list(start)
        self.pool = AsksFirst(max(start, default=1), 2, "cpu")
        if list(self.pool.free_slots) != self.free_rows:
            self.pool.alloc_rows(self.pool.size)
            self.pool.free_rows(self.free_rows)
        self.come = 0

    def moves(self) -> Sequence[int]:
        return () if self.come else BATCHES

    def play(self, move: Any) -> None:
        self.come = move
        free_rows, wanted = self.free_rows, refused(self.free_rows, move)
        self.call = f"must_refuse({free_rows}, {move})"
        try:
            answer = plain(guard.call(self.yours, list(free_rows), move))
        except (guard.Raised, guard.Stopped) as error:
            raise Wrong(f"`{self.call}`: {ended(as_wrong(error).sentence)} Wanted `{wanted}`.") from error
        self.pool.refuses = truth(answer)
        with suppress(IndexError):  # which the picture shows
            self.pool.alloc([Req(rid_of(i)) for i in range(move)])
        if same(answer, wanted):
            return
        said = f"`{self.call}` gives {difference(answer, wanted)}"
        raise Wrong(f"{said}{'' if truth(answer) == wanted else self.why(move)}.")

    def why(self, num: int) -> str:
        free = len(self.free_rows)
        rows = f"{number(free)} row{'' if free == 1 else 's'} {'is' if free == 1 else 'are'} free"
        asked = f"{number(num)} {'is' if num == 1 else 'are'} wanted" if num else "none is wanted"
        if num <= free:
            return f": {rows} and {asked}: that fits"
        lost = f"; row {self.free_rows[0]} is taken all the same, and is nobody's now" if free else ""
        return f": {rows} and {asked}{lost}"

    def led_by(self, moves: Sequence[int]) -> str:
        return ""

    def so_it_should_be(self) -> str:
        """Of the right picture."""
        if refused(self.free_rows, self.come):
            return f"{self.call} says True: alloc gives None, and nothing has changed"
        rows = ", ".join(map(str, self.free_rows[: self.come]))
        gets = f"the batch gets row{'' if self.come == 1 else 's'} {rows}" if rows else "nobody is in the batch"
        return f"{self.call} says False: {gets}"

    def seen(self) -> Hashable:
        return self.come, tuple(self.pool.free_slots)


def truth(answer: Any) -> bool:
    """What `if` makes of a plain value; an object of the learner's own is not asked."""
    return bool(answer) if answer is None or isinstance(answer, (int, float, str, list, dict)) else True


def number(num: int) -> str:
    return ("no", "one", "two", "three", "four")[num] if num < 5 else str(num)


def rid_of(i: int) -> str:
    """a to z, then a2, b2 ..."""
    return "abcdefghijklmnopqrstuvwxyz"[i % 26] + (str(i // 26 + 1) if i > 25 else "")


FREE_ROWS = [*(tuple(range(1, size + 1)) for size in (1, 2, 3, 0, 9)), (3, 1), (2, 4, 3), tuple(range(1, 41))]
BATCHES = (*range(5), 9, 10, 11, 39, 40, 41)

MUST_REFUSE = Exercise(
    "must_refuse",
    "02 A",
    "complete the line: `True` when a batch of `n` new requests has to be refused, `free_rows` being the list of the "
    "free rows.",
    by_operations(BatchComes, refused, FREE_ROWS, depth=1, examples=5),
    hints=("All or nothing: how many rows must there be at least?", "A batch that takes the very last row is fine."),
    solution="""
def must_refuse(free_rows, n):
    return n > len(free_rows)
""",
    praise="It stood in a real pool, in place of the pool's own line.",
)

# ---- B: the free rows after some are given back ----------------------------------------------------------------------


MOST_IN_EVERY_ORDER = 3


class GivesBack(ReqToTokenPool):
    """The pool, with the learner's function at the place where rows come back."""

    def __init__(self, yours: Callable[..., Any], size: int, reuse: str) -> None:
        super().__init__(size, 2, "cpu", reuse=reuse)
        self.yours = yours
        self.wanted: list[int] = []  # what is right this time, for the sentence
        self.asked = ""
        self.error: Wrong | guard.Raised | guard.Stopped | None = None  # kept: it is not the pool that refuses

    def _give_back(self, rows: list[int]) -> None:
        free_rows = list(self.free_slots)
        super()._give_back(rows)
        self.asked = f"give_back({free_rows}, {list(rows)}, {self.reuse!r})"
        try:
            answer = plain(guard.call(self.yours, free_rows, list(rows), self.reuse))
        except (guard.Raised, guard.Stopped) as error:
            self.error = error
            return
        if isinstance(answer, list) and all(type(row) is int for row in answer):
            self.free_slots = deque(answer)
        else:
            self.error = Wrong(f"`{self.asked}` gives {difference(answer, self.wanted)}.")


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
        for row in what:
            self.out.remove(row)
            self.free.insert(len(self.free) if self.reuse == "fifo" else 0, row)
        self.pool.wanted = self.free
        self.pool.free_rows(list(what))
        if self.pool.error:
            raise self.pool.error
        self.compare(list(self.pool.free_slots))

    def compare(self, got: list[int]) -> None:
        if got == self.free:
            return
        lost = sorted((Counter(self.free) - Counter(got)).elements())
        added = sorted((Counter(got) - Counter(self.free)).elements())
        call = f"`{self.pool.asked}` gives `{got}`, wanted `{self.free}`"
        if lost:
            raise Wrong(f"{call}: row {lost[0]} is lost, neither free nor anybody's.")
        if added:
            twice = "is free twice" if added[0] in self.free else "was never taken out of this pool"
            raise Wrong(f"{call}: row {added[0]} {twice}.")
        order = "row freed first has to go out first" if self.reuse == "fifo" else "row freed last has to go out first"
        raise Wrong(f"{call}: the right rows in the wrong order. With {self.reuse} the {order}.")

    def led_by(self, moves: Sequence[Any]) -> str:
        return after(
            [
                f"`take {what} row{'' if what == 1 else 's'}`" if kind == "take" else f"`free {list(what)}`"
                for kind, what in moves
            ]
        )

    def so_it_should_be(self) -> str:
        return f"{self.pool.asked} gives {self.free}"

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
            if "of request" in error and "it holds no row" in error:
                error = f"{ended(error)} {REMEMBERS}"
            trace.emit("note", text=error.replace("`", ""))
    if error:
        return Case(first_up(error), len(trace) - 1, trace, labels=LABELS)
    real = played_on(ReqToTokenPool(2, 4, "cpu"), function)
    n, k = len(trace), second_free(real)
    if k is None:
        said = "The real pool takes all of this: no row is given back a second time."
        return pair(said, n, trace, real, "the real pool takes all of this")
    taken = {row for event in trace.events[:k] if event.kind == "alloc" for row in event.rows}
    given = Counter(row for event in trace.events[:k] if event.kind == "free" for row in event.rows)
    twice = [row for row in trace[k - 1].rows if row in taken and given[row] > 1]
    refuses = f"the real pool refuses step {k}, and nothing after it is done"
    if not twice:
        said = f"Step {k} gives back a row that was not taken and given back before: wrong, but no second free."
        return pair(said, k, trace, real, refuses)
    holders = [trace.snapshot(at).owners.get(row, ()) for at in range(k, n + 1) for row in twice]
    if not any(len(each) > 1 for each in holders):
        said = f"Row {twice[0]} is given back twice, but it is not handed out to two. How many must come for that?"
        return pair(said, n, trace, real, refuses)
    return None


LABELS = ("with FreedTwice", "with the real pool")
REMEMBERS = (
    "`FreedTwice` has dropped only the check of `free_rows`; a request object remembers that its row is given back: "
    "take the row by count."
)


def pair(said: str, num: int, trace: Trace, real: Trace, right: str) -> Case:
    """Call beside call: where the real pool has stopped, nothing happens any more."""
    idle = [Event(event.step, "note", text=NOTHING) for event in trace.events[len(real) :]]
    beside = Trace(real.first, [*real.events, *idle])
    for one, text in ((trace, said), (beside, right)):
        one.events.append(Event(0, "note", text=text.replace("`", "")))
    return Case(said, num, trace, beside, labels=LABELS)


TWO_IN_ONE_ROW = Exercise(
    "two_in_one_row",
    "02 C",
    "with calls on a `FreedTwice(size=2, max_context_len=4)`, take a row and give it back twice, so that it is "
    "handed out to two holders (requests, or whoever takes a row by count). The real pool has to refuse the second "
    "free.",
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
