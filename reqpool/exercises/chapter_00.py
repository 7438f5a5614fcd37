"""Chapter 00, start here: from a cell to its slot, from a row to its keys, and one slot with two owners.

A and B stand in one small world: requests come and go, and after every operation each reads what it wrote, through the
learner's function.

    slot        0    1    2    3    4    5    6    7    8
    key         .    s    .    o    .    .    h    r    .      one letter in place of K
    row 1       6    3    7    1    .    .    .    .           request a wrote "hors", and has to read it
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from reqpool.exercises import guard
from reqpool.exercises.exercise import Case, Exercise, by_operations
from reqpool.exercises.guard import Raised, Stopped
from reqpool.exercises.search import Wrong, as_wrong
from reqpool.exercises.telling import in_words
from reqpool.exercises.values import difference, plain, same
from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.scenarios.letters import NOTHING, Letters, live_slots, recite
from reqpool.serving.requests import no_fact
from reqpool.trace import Event, record

WORDS = ("horse", "dog", "cat", "wolf")  # the letters that requests write, again from the start when one ends
UNREAD = "?"


class Readers:
    """Requests take rows, get tokens and go; the books say which slots each was given, and with which letters."""

    emit: Callable[..., None] = staticmethod(no_fact)

    def __init__(self, yours: Callable[..., Any], start: tuple[int, int]) -> None:
        size, width = start
        self.yours = yours
        self.pool = ReqToTokenPool(size, width, "cpu")
        num_slots = size * width
        self.free = random.Random(5).sample(range(1, num_slots + 1), num_slots)  # as others have given them back
        self.keys = [NOTHING] * (num_slots + 1)
        self.here: dict[Req, list[int]] = {}  # request -> its slots, in order of position
        self.num_requests = 0

    def moves(self) -> Sequence[Hashable]:
        width, size = self.pool.max_context_len, self.pool.size
        come = [("alloc", n) for n in range(1, size - len(self.here) + 1)]
        grow = [
            ("append", i, n) for i, slots in enumerate(self.here.values()) for n in range(1, width - len(slots) + 1)
        ]
        return [*come, *grow, *(("free", i) for i in range(len(self.here)))]

    def play(self, move: Any) -> None:
        kind, which, *n = move
        if kind == "alloc":
            new = [Req("abcdefghij"[(self.num_requests + i) % 10]) for i in range(which)]
            self.num_requests += which
            self.pool.alloc(new)
            self.here.update((req, []) for req in new)
        elif kind == "append":
            self.append([*self.here][which], *n)
        else:
            req = [*self.here][which]
            self.free += self.here.pop(req)
            self.pool.free(req)
        self.read()

    def append(self, req: Req, n: int) -> None:
        slots, self.free = self.free[:n], self.free[n:]
        word, start = WORDS["abcdefghij".index(req.rid) % len(WORDS)], len(self.here[req])
        for position, slot in enumerate(slots, start):
            self.keys[slot] = word[position % len(word)]
        self.here[req] += slots
        self.pool.append(req, slots)

    def read(self) -> None:
        """Everybody reads; then the first that has read wrongly is told."""
        errors: list[Wrong | Raised | Stopped] = []
        lines = []
        for req, slots in self.here.items():
            row = row_of(req)
            if not (slots or self.pool.req_to_token[row].any()):
                continue  # no token, and nothing left over: there is nothing to be read wrongly
            text, wrong, error = self.heard(row, slots)
            lines.append((req.rid, text, wrong))
            errors += [error] if error else []
        if lines:
            said = ", ".join(f'{rid} reads "{text}"' for rid, text, _ in lines)
            self.emit("note", text=said, texts=lines)
        if errors:
            raise errors[0]

    def heard(self, row: int, slots: list[int]) -> tuple[str, list[int], Wrong | Raised | Stopped | None]:
        """What is read through this row, which letters are wrong, and what to say."""
        raise NotImplementedError

    def seen(self) -> Hashable:
        books = tuple((req.rid, req.req_pool_idx, tuple(slots)) for req, slots in self.here.items())
        return books, tuple(self.free), tuple(self.pool.req_to_token.flatten().tolist())


# ---- A: the slot of a token ------------------------------------------------------------------------------------------


class CellByCell(Readers):
    def heard(self, row: int, slots: list[int]) -> tuple[str, list[int], Wrong | Raised | Stopped | None]:
        text, wrong, first = "", [], None
        for position, slot in enumerate(slots):
            table = self.pool.req_to_token.tolist()
            try:
                got = plain(guard.call(self.yours, table, row, position))
            except (Raised, Stopped) as error:
                said = f"`slot_of(table, {row}, {position})`: {as_wrong(error).sentence}"
                return text + UNREAD, [*wrong, position], first or Wrong(said, [(row, position)])
            known = type(got) is int and 0 <= got < len(self.keys)
            text += self.keys[got] if known else UNREAD
            if same(got, slot):
                continue
            wrong.append(position)
            said = f"`slot_of(table, {row}, {position})` gives {difference(got, slot)}."
            first = first or Wrong(said, [(row, position)])
        return text, wrong, first


def solved_slot_of(table: list[list[int]], row: int, position: int) -> int:
    return table[row][position]


SLOT_OF = Exercise(
    "slot_of",
    "00 A",
    "complete the line: in which slot does the token of this `row` at this `position` lie? `table` is a list of rows "
    "here, row 0 first, and each row a list of slots.",
    by_operations(
        CellByCell,
        solved_slot_of,
        [(1, 2), (2, 3), (3, 3), (1, 7)],
        depth=3,
        most=250,
        larger=[(4, 7)],
        examples=30,
    ),
    hints=("The row is the first index, the position the second.", "`table[...][...]`"),
    solution="""
def slot_of(table, row, position):
    return table[row][position]
""",
    praise="Requests came and went in real pools, and through your line each read what it had written.",
    searched=True,
)

# ---- B: the keys of a request ----------------------------------------------------------------------------------------


class WholeRow(Readers):
    def heard(self, row: int, slots: list[int]) -> tuple[str, list[int], Wrong | Raised | Stopped | None]:
        cells, wanted = self.pool.req_to_token[row].tolist(), [self.keys[slot] for slot in slots]
        call = f"`keys_of({cells}, {len(slots)}, keys)`"
        try:
            got = plain(guard.call(self.yours, list(cells), len(slots), list(self.keys)))
        except (Raised, Stopped) as error:
            return UNREAD, [0], Wrong(f"{call}: {as_wrong(error).sentence}", [(row, 0)])
        if same(got, wanted):
            return "".join(wanted), [], None
        if not (isinstance(got, list) and all(type(key) is str and key in self.keys for key in got)):
            return UNREAD, [0], Wrong(f"{call} gives {difference(got, wanted)}.")
        text = "".join(got[: len(cells) + 1])
        text += UNREAD * (len(wanted) - len(text))
        wrong = [i for i, letter in enumerate(text) if wanted[i : i + 1] != [letter]]
        inside = [(row, position) for position in wrong if position < len(cells)]
        return text, wrong, Wrong(f"{call} gives {difference(got, wanted)}{self.why(got, wanted)}.", inside)

    def why(self, got: list[str], wanted: list[str]) -> str:
        length = len(wanted)
        if len(got) > length and got[:length] == wanted:
            return f": the request has {length} token{'s' * (length != 1)}, and yours reads on"
        if len(got) < length:
            return f": the request has {length} token{'s' * (length != 1)}, and yours gives {len(got)}"
        if sorted(got) == sorted(wanted):
            return ": the right keys in another order than that of the positions"
        return ""


def solved_keys_of(cells: list[int], length: int, keys: list[str]) -> list[str]:
    return [keys[slot] for slot in cells[:length]]


KEYS_OF = Exercise(
    "keys_of",
    "00 B",
    "given the cells of one row, the row's length, and a list with one key for each slot (a key is one letter here): "
    "return the list of the keys of the request's tokens, in order of position. A request has `length` tokens, "
    "whatever the cells beyond say. (Slot 0 is the dummy slot: no token of a request lies there.)",
    by_operations(
        WholeRow,
        solved_keys_of,
        [(1, 2), (1, 3), (2, 2), (2, 3), (1, 7)],
        depth=4,
        most=250,
        larger=[(4, 7)],
        examples=30,
    ),
    hints=("Cut the row at its length first.", "Then one key for each cell that is left: `keys[cell]`."),
    solution="""
def keys_of(cells, length, keys):
    return [keys[slot] for slot in cells[:length]]
""",
    praise="Requests came and went in real pools, and each read what it had written, also where old slots were left in "
    "its row.",
    searched=True,
)

# ---- C: one slot, two owners -----------------------------------------------------------------------------------------

SLOTS_OF_A = (1, 2, 3, 4, 5)


def shares_a_slot(function: Callable[..., Any]) -> Case | None:
    pool, letters, a, b = ReqToTokenPool(2, 8, "cpu"), Letters(64), Req("a"), Req("b")
    with record(pool) as trace:
        pool.alloc([a, b])
        pool.append(a, SLOTS_OF_A)
        letters.write(SLOTS_OF_A, "hello")
        trace.step = 1
        try:
            guard.call(function, pool, b)
            said = _not_shared(pool, a, b)
        except (Raised, Stopped) as error:
            said = f"This does not work: {as_wrong(error).sentence}"
        slots = live_slots(pool, row_of(b)) if _holds_its_row(pool, b) else []
        if slots and max(slots) < len(letters.letters):
            letters.write(slots, ("wow" * len(slots))[: len(slots)])
        if _holds_its_row(pool, a):
            recite(trace, pool, letters, a, "hello")  # which shows, too, what no call has announced
        said = said or _not_one_call([event for event in trace if event.step == 1])
        trace.emit("note", text=said.replace("`", ""))
    return Case(said, sum(bool(event.call) for event in trace), trace) if said else None


def _not_one_call(events: list[Event]) -> str:
    """Whether it was done otherwise than with one call of the pool; calls that only read do not count."""
    unasked = next((event for event in events if event.change and not event.call), None)
    if unasked:
        return "The table or a length was changed without a call of the pool. One call does it all."
    calls = [event.call for event in events if event.call and event.kind != "read"]
    if len(calls) == 1:
        return ""
    return f"One slot has two owners, but that took {len(calls)} calls: {in_words(calls)}. One call does it all."


def _holds_its_row(pool: ReqToTokenPool, req: Req) -> bool:
    return req.req_pool_idx is not None and pool.holders.get(req.req_pool_idx) is req


def _not_shared(pool: ReqToTokenPool, a: Req, b: Req) -> str:
    """Why it is not done yet; empty when it is."""
    if not (_holds_its_row(pool, a) and _holds_its_row(pool, b)):
        return "Requests a and b both have to hold their rows in the end."
    of_a, of_b = (live_slots(pool, row_of(req)) for req in (a, b))
    try:
        ReqToTokenPool.check(pool)
    except RuntimeError as error:
        return f"This time `pool.check()` does find something: {error}."
    if set(of_a) & set(of_b) - {0}:
        return ""
    beyond = set(pool.req_to_token[b.req_pool_idx, len(of_b) :].tolist()) & set(of_a) - {0}
    if beyond:
        return (
            f"Slot {min(beyond)} stands in b's row, but beyond its length of {len(of_b)}: there it counts for nothing."
        )
    if not of_b:
        return "Request b has no token yet."
    twice = next((slot for slot in of_b if of_b.count(slot) > 1 and slot), None)
    if twice:
        return f"Slot {twice} stands twice in b's row: that is one owner twice. It has to be a slot of a, too."
    if 0 in of_b and len(set(of_b)) == 1:
        return "KV slot 0 is the dummy slot: no request owns it. It has to be a slot of a."
    return f"Request a has the slots {sorted(of_a)}, b has {sorted(of_b)}: no slot has two owners yet."


MAKE_THEM_SHARE = Exercise(
    "make_them_share",
    "00 C",
    "request a has the slots 1 to 5. Give request b, with one call of the pool, tokens in such slots that one slot has "
    "two owners, and `pool.check()` still finds nothing wrong.",
    shares_a_slot,
    hints=(
        "Which call gives a request its tokens? You saw it in step 3 of the worked example.",
        "`pool.append(b, [...])` takes any slots: the plain pool does not know who else has them.",
    ),
    solution="""
def make_them_share(pool, b):
    pool.append(b, [6, 7, 3])
""",
    praise="Two rows name one slot, and no sum shows it. The same call on a `CheckedPool(exclusive_slots=True)` "
    "raises.",
)

EXERCISES = (SLOT_OF, KEYS_OF, MAKE_THEM_SHARE)
