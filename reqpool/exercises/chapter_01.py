"""Chapter 01, the table: what it costs, what a cell is, and what misleads a reader who does without the length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from reqpool.exercises import guard
from reqpool.exercises.exercise import Case, Exercise, by_operations
from reqpool.exercises.guard import Raised, Stopped
from reqpool.exercises.search import Wrong, as_wrong
from reqpool.exercises.values import difference, plain, same, shortened
from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.cells import stale_cells
from reqpool.scenarios.letters import NOTHING
from reqpool.serving.requests import no_fact

# ---- A: the bytes of a table -----------------------------------------------------------------------------------------


class Priced:
    """A real pool whose rows are all handed out; torch says how many bytes its table took."""

    def __init__(self, yours: Callable[..., Any], start: tuple[int, int]) -> None:
        self.yours, self.start = yours, start
        self.pool = ReqToTokenPool(*start, "cpu")
        self.asked = False

    def moves(self) -> Sequence[Hashable]:
        return () if self.asked else ("ask",)

    def play(self, move: Hashable) -> None:
        size, width = self.start
        self.asked = True
        self.pool.alloc([Req(f"r{n}") for n in range(1, size + 1)])
        wanted = self.pool.req_to_token.nbytes
        got = plain(guard.call(self.yours, size, width))
        if not same(got, wanted):
            call = f"`bytes_of_table({size}, {width})` gives {difference(got, wanted)}"
            raise Wrong(f"{call}{self.paid(got)}.", self.unpaid(got))

    def paid(self, got: Any) -> str:
        cells = self.pool.req_to_token.numel()
        if type(got) is not int or got < 0 or got == 4 * cells:
            return ""
        if got > 4 * cells:
            return f": that would pay for {shortened(got // 4)} cells, and the table has {cells}"
        return f": that pays for {got // 4} of {cells} cells; those marked are not paid for"

    def unpaid(self, got: Any) -> list[tuple[int, int]]:
        """The cells that so many bytes do not reach, when the last row is paid first."""
        cells = self.pool.req_to_token.numel()
        if type(got) is not int or not 0 <= got < 4 * cells:
            return []
        return [divmod(cell, self.start[1]) for cell in range(cells - got // 4)]

    def seen(self) -> Hashable:
        return self.asked


def solved_bytes(size: int, max_context_len: int) -> int:
    return (size + 1) * max_context_len * 4


BYTES_OF_TABLE = Exercise(
    "bytes_of_table",
    "01 A",
    "complete the line: how many bytes does the table of a `ReqToTokenPool(size, max_context_len)` take?",
    by_operations(
        Priced,
        solved_bytes,
        [*((size, width) for size in (1, 2, 5) for width in (3, 1, 8)), (7, 31), (40, 100)],
        depth=1,
        examples=5,
    ),
    hints=("How many rows has a table for `size` requests?", "Rows × positions × bytes of a cell."),
    solution="""
def bytes_of_table(size, max_context_len):
    return (size + 1) * max_context_len * 4
""",
    praise="Compared with what torch really allocated.",
)

# ---- B: what a cell is -----------------------------------------------------------------------------------------------

KINDS = {(True, True): "known good", (False, True): "live", (False, False): "beyond"}


class Looked:
    """One row: a request gets it, tokens come and are verified, it goes. After every operation each cell is judged."""

    emit: Callable[..., None] = staticmethod(no_fact)

    def __init__(self, yours: Callable[..., Any], start: tuple[int, ...]) -> None:
        self.yours, self.slots = yours, start  # as many positions as slots, and these are used again and again
        self.pool = ReqToTokenPool(1, len(start), "cpu")
        self.cells = [0] * len(start)
        self.verified = self.alloced = self.num_requests = 0
        self.req: Req | None = None

    def moves(self) -> Sequence[Hashable]:
        if self.req is None:
            return [("alloc", 1)]
        grow = [("append", n) for n in range(1, len(self.cells) - self.alloced + 1)]
        report = [("verify", n) for n in range(1, self.alloced - self.verified + 1)]
        return [*grow, *report, ("free", 1)]

    def play(self, move: Any) -> None:
        kind, n = move
        if kind == "alloc":
            self.req = Req("abcdefghij"[self.num_requests % 10])
            self.num_requests += 1
            self.pool.alloc([self.req])
        elif kind == "append":
            end = self.alloced + n
            self.cells[self.alloced : end] = self.slots[self.alloced : end]
            self.pool.append(self.req, self.slots[self.alloced : end])
            self.alloced = end
        elif kind == "verify":
            self.pool.verify([1], n)  # there is one row
            self.verified += n
        else:
            self.pool.free(self.req)
            self.req, self.verified, self.alloced = None, 0, 0
        self.look()

    def look(self) -> None:
        words, first = [], None
        for position, slot in enumerate(self.cells):
            case = (slot, position, self.verified, self.alloced)
            wanted = word_for(*case)
            try:
                got = plain(guard.call(self.yours, *case))
            except (Raised, Stopped) as error:
                first = first or Wrong(f"`state{case}`: {as_wrong(error).sentence}", [(1, position)])
                words.append("?")
                continue
            words.append(shortened(got, 20) if not isinstance(got, str) else got[:20])
            if not same(got, wanted):
                why = self.why(wanted, slot, position)
                first = first or Wrong(f"`state{case}` gives {difference(got, wanted)}: {why}.", [(1, position)])
        self.emit("note", rows=[1], text=f"position by position: {', '.join(words)}")
        if first:
            raise first

    def why(self, wanted: str, slot: int, position: int) -> str:
        if wanted == "known good":
            return f"position {position} is below the verified length {self.verified}"
        if wanted == "live":
            below = f"position {position} is below the alloced length {self.alloced}"
            return f"{below}, but not below the verified length {self.verified}"
        beyond = f"position {position} is not below the alloced length {self.alloced}"
        return f"{beyond}, and {'there is nothing in the cell' if wanted == 'empty' else f'slot {slot} is still there'}"

    def seen(self) -> Hashable:
        return tuple(self.cells), self.verified, self.alloced, self.req is None


def word_for(slot: int, position: int, verified_len: int, alloced_len: int) -> str:
    word = KINDS[position in range(verified_len), position in range(alloced_len)]
    return {"beyond": "stale" if slot else "empty"}.get(word, word)


def solved_state(slot: int, position: int, verified_len: int, alloced_len: int) -> str:
    if position < verified_len:
        return "known good"
    if position < alloced_len:
        return "live"
    return "stale" if slot != 0 else "empty"


STATE = Exercise(
    "state",
    "01 B",
    'say what a cell is: `"known good"` (below the verified length), `"live"` (below the alloced length only), '
    '`"stale"` (beyond both, but not zero) or `"empty"`.',
    by_operations(
        Looked,
        solved_state,
        [(5,), (5, 1), (0, 3), (5, 1, 7), (4, 0, 6), (9, 4, 11, 0, 3)],  # 1: the smallest that is not zero
        depth=4,
        most=250,
        examples=25,
    ),
    hints=(
        "`verified_len` is never larger than `alloced_len`: ask for it first.",
        "Below means `<`: a length of 3 covers positions 0, 1 and 2.",
    ),
    solution="""
def state(slot, position, verified_len, alloced_len):
    if position < verified_len:
        return "known good"
    if position < alloced_len:
        return "live"
    return "stale" if slot != 0 else "empty"
""",
    praise="And a live cell that says slot 0 is live all the same: the length decides, not the number.",
    searched=True,
)

# ---- C: mislead the reader who does without the length ---------------------------------------------------------------

MOST_LETTERS = 7
OF_THE_LESSON = ["horse", "dog"]


def misleads(function: Callable[..., Any]) -> Case | None:
    texts = plain(guard.call(function))
    if not (isinstance(texts, list) and len(texts) == 2 and all(isinstance(text, str) and text for text in texts)):
        return Case(f"`two_texts()` gives `{shortened(texts)}`, wanted two texts that are not empty.", 0)
    long = next((text for text in texts if len(text) > MOST_LETTERS), None)
    if long:
        return Case(f"`{shortened(long, 40)}` has {len(long)} letters, wanted at most {MOST_LETTERS}.", 0)
    odd = next((letter for letter in "".join(texts) if not letter.isprintable() or letter == NOTHING), None)
    if odd:
        return Case(f"`{odd!r}` cannot be read in the picture: use letters.", 0)
    trace = stale_cells(*texts, by_length=False)
    said = ""
    if not any(dict(event.facts).get("wrong") for event in trace):
        said = f"The broken reader reads `{texts[1]}` rightly after `{texts[0]}`."
    elif texts == OF_THE_LESSON:
        said = "These two are the lesson's: find others."
    return Case(said, sum(bool(event.call) for event in trace), trace) if said else None


TWO_TEXTS = Exercise(
    "two_texts",
    "01 C",
    "return two texts, at most 7 letters each: the first request writes the first, ends, and the second gets its row. "
    "Choose them so that the reader who stops at the first zero reads the second text wrongly; other ones than horse "
    "and dog.",
    misleads,
    hints=(
        "When is there something left to read, after the second text?",
        "The cells of the first request stay where they are. The second one overwrites as many as it has letters.",
    ),
    solution="""
def two_texts():
    return "longer", "short"
""",
    praise="Any second text that is shorter than the first will do; and a test with texts of one length would never "
    "have found it.",
)

EXERCISES = (BYTES_OF_TABLE, STATE, TWO_TEXTS)
