"""Chapter 05, reset on reuse: which write may land, whose lengths are zeroed, and a landing that no reset saves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from reqpool.exercises import guard
from reqpool.exercises.chapter_04 import in_place, odd_settings, up_to_step
from reqpool.exercises.exercise import Case, Exercise, after, by_operations
from reqpool.exercises.guard import Raised, Stopped
from reqpool.exercises.search import Wrong
from reqpool.exercises.telling import Text, differing, in_words, tell_texts
from reqpool.exercises.values import difference, plain
from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.experiments import LANDINGS, LateRun, late
from reqpool.scenarios.letters import Letters
from reqpool.serving.requests import no_fact
from reqpool.trace import Trace

# ---- A and B: rows change hands while a step is under way ------------------------------------------------------------

WIDTH = 8  # positions in a row
CHUNK = 2  # tokens of a step
MOST_CHUNKS = 3  # of a request
RIDS = "abcdefghijklm"
ALPHABET = "xyzuvwklmnopqrstabcdefghij"
Reset = Callable[[list[int], list[int], Tensor, Tensor], Any]  # rows of a batch, those kept, verified, alloced
MayLand = Callable[[int, int], bool]  # the row's generation at launch, and now


class Handed(ReqToTokenPool):
    """The pool, with something else than its own lines to zero lengths when rows are handed out."""

    def __init__(self, size: int, reset: Reset) -> None:
        super().__init__(size, WIDTH, "cpu")
        self.reset = reset
        self.error: Wrong | Raised | Stopped | None = None  # kept: it is not the pool that refuses

    def alloc(self, reqs: Iterable[Req]) -> list[int] | None:
        reqs = list(reqs)
        kept = [req.req_pool_idx for req in reqs if req.req_pool_idx is not None]
        rows = super().alloc(reqs)
        if rows is None:
            return None
        try:
            with in_place({"`verified`": self.verified_lens, "`alloced`": self.alloced_lens}) as (verified, alloced):
                self.reset(list(rows), kept, verified, alloced)
        except (Wrong, Raised, Stopped) as error:
            self.error = error
        self.alloced_lens_cpu.copy_(self.alloced_lens)
        return rows

    def _reset_on_reuse(self, index: Tensor) -> None:
        pass


@dataclass(eq=False, repr=False)
class Running(Req):
    """A request, with what the books say of it."""

    row: int = 0  # the one it holds, or held
    launched: int = 0  # the row's generation at its last step
    handed: int = 0  # the same number, from the books
    text: str = ""  # what it wrote so far
    reserved: int = 0  # slots beyond that


class Start(NamedTuple):
    size: int  # rows
    running: int  # requests that run already
    generation: int = 0  # how often every row was handed out before
    since: int = 0  # or that have ended, each with a step under way; so often were the rows handed out since
    ahead: int = 0  # slots that requests reserve beyond those that they write; one more request has only reserved


class Takeovers:
    """Batches run, requests end while a step of theirs is under way, and that step lands late.

    A step reserves its slots as it goes: the late one raises both lengths. `free` zeroes them, as always.
    """

    emit: Callable[..., None] = staticmethod(no_fact)

    def __init__(self, reset: Reset, may_land: MayLand, start: Start) -> None:
        self.pool, self.may_land = Handed(start.size, right_reset), right_may_land
        self.letters, self.ahead = Letters(400), start.ahead
        self.num_handed = [0] * (start.size + 1)  # by row: how often it was handed out
        self.others = [[0, 0] for _ in self.num_handed]  # by row: its lengths, as long as nobody runs in it
        self.handed_out(start.generation)
        self.running: list[Running] = []
        self.gone: list[Running] = []  # ended, with a step under way
        self.num_came = 0
        self.asks_reset = may_land is right_may_land  # that is what the learner writes, and not `may_land`
        self.said = ""  # of the lengths or the landing, for the right picture
        self.come(start.running)
        if self.ahead:
            self.reserve_only()
        if start.since:
            for one in [*self.running]:
                self.end(one)
            self.handed_out(start.since - 1)
            self.come(start.running)
        self.pool.reset, self.may_land = reset, may_land

    def come(self, num: int) -> None:
        for _ in range(num):
            self.step(["new"])

    def reserve_only(self) -> None:
        """A request gets its row and its slots ahead; its first step is launched, and has written nothing."""
        one = self.came()
        (one.row,) = self.pool.alloc([one]) or []  # there is room in every start
        self.num_handed[one.row] += 1
        one.launched, one.handed = int(self.pool.generation[one.row]), self.num_handed[one.row]
        self.reserve(one, 0)
        self.running.append(one)

    def reserve(self, one: Running, num: int) -> None:
        """Slots for so many tokens, and those ahead, where it has none yet."""
        slots = self.letters.take(num + self.ahead - one.reserved)
        self.letters.write(slots, chr(0) * len(slots))  # nobody's K and V yet
        self.pool.append(one, slots)
        one.reserved = self.ahead

    def handed_out(self, times: int) -> None:
        """So often was every row taken and given back; nothing else is left of that."""
        self.pool.generation += times
        self.num_handed = [num + times for num in self.num_handed]

    # ---- what can be done ---------------------------------------------------------------------------------------

    def moves(self) -> Sequence[Hashable]:
        ready = [one.rid for one in self.running if len(one.text) < CHUNK * MOST_CHUNKS]
        new = min(self.pool.available_size(), len(RIDS) - self.num_came)
        batches = [("new",)] * (new > 0) + [(rid,) for rid in ready]
        if new and ready:
            batches += [(ready[0], "new"), ("new", ready[-1])]
        batches += [("new",) * new] * (new > 1) + [tuple(ready)] * (len(ready) > 1)
        ends = [("end", one.rid) for one in self.running]
        return [*(("step", batch) for batch in batches), *ends, *(("land", one.rid) for one in self.gone)]

    def play(self, move: Any) -> None:
        kind, what = move
        if kind == "step":
            self.step(what)
        elif kind == "end":
            self.end(next(one for one in self.running if one.rid == what))
        else:
            self.land(next(one for one in self.gone if one.rid == what))

    def end(self, one: Running) -> None:
        self.running.remove(one)
        self.gone.append(one)
        self.others[one.row] = [0, 0]
        self.pool.free(one)
        self.emit("retract", rid=one.rid, rows=[one.row], text=f"request {one.rid}'s last step is under way")

    # ---- a step: rows, then cells, then K, V and lengths ---------------------------------------------------------

    def led_by(self, moves: Sequence[Any]) -> str:
        return after([move_in_words(kind, what) for kind, what in moves])

    def so_it_should_be(self) -> str:
        return self.said

    def step(self, who: Sequence[str]) -> None:
        batch = [self.came() if rid == "new" else next(one for one in self.running if one.rid == rid) for rid in who]
        begins = [one for one in batch if not one.row]
        rows = self.pool.alloc(batch) or []  # by the books there is room
        if self.pool.error:
            raise self.pool.error
        for one, row in zip(batch, rows, strict=True):
            if one in begins:
                one.row = row
                self.num_handed[row] += 1
        self.running += begins
        odd = self.odd_length(batch, begins)
        if self.asks_reset:
            lens = self.pool.verified_lens, self.pool.alloced_lens
            self.said = "after alloc, verified is {} and alloced is {}".format(*(each.tolist() for each in lens))
        if self.cells_fit(batch):
            dropped = self.compute(batch)  # also where a length is wrong: to see what comes of it
            odd = odd or dropped
        self.tell()
        if odd:
            sentence, row = odd
            raise Wrong(f"{sentence}{self.harm()}", self.wrong_cells() or [(row, 0)])

    def came(self) -> Running:
        self.num_came += 1
        return Running(RIDS[self.num_came - 1], kv_committed_len=CHUNK)

    def odd_length(self, batch: Sequence[Running], begins: Sequence[Running]) -> tuple[str, int] | None:
        """The first length that `alloc` left otherwise than the books say, and in which row."""
        names = ("verified", self.pool.verified_lens), ("alloced", self.pool.alloced_lens)
        for row, whose, wanted in self.booked(batch, begins):
            for (name, lens), length in zip(names, wanted, strict=True):
                if int(lens[row]) != length:
                    return f"{whose}: its {name} length is {int(lens[row])} now, wanted {length}.", row
        return None

    def booked(self, batch: Sequence[Running], begins: Sequence[Running]) -> Iterator[tuple[int, str, Sequence[int]]]:
        """Of every row: whose it is, and its lengths."""
        for one in (*begins, *(one for one in self.running if one not in begins)):
            length = len(one.text)
            yield one.row, self.whose(one, batch, begins), (length, length + one.reserved)
        taken = {one.row for one in self.running}
        for row, lengths in enumerate(self.others):
            if row not in taken:
                yield row, f"row {row} is {'free' if row else 'the padding row'}, and not in this batch", lengths

    def whose(self, one: Running, batch: Sequence[Running], begins: Sequence[Running]) -> str:
        if one in begins:
            return f"request {one.rid} is new in row {one.row}"
        where = "goes on in" if one in batch else "is not in this batch, and holds"
        return f"request {one.rid} {where} row {one.row}"

    def cells_fit(self, batch: Sequence[Running]) -> bool:
        lens = [int(lens[one.row]) for one in batch for lens in (self.pool.verified_lens, self.pool.alloced_lens)]
        return all(0 <= length <= WIDTH - CHUNK - self.ahead for length in lens)

    def compute(self, batch: Sequence[Running]) -> tuple[str, int] | None:
        """The schedule lane reserves cells; the forward lane writes K and V where the verified length says."""
        odd: tuple[str, int] | None = None
        for one in batch:
            self.reserve(one, CHUNK)
            piece = text_of(one)[len(one.text) :][:CHUNK]
            one.text += piece
            one.launched, one.handed = int(self.pool.generation[one.row]), self.num_handed[one.row]
            lands, said = self.landing(one)
            if said and odd is None:
                odd = said, one.row
            if lands:
                start = int(self.pool.verified_lens[one.row])
                self.letters.write(self.pool.req_to_token[one.row, start : start + CHUNK].tolist(), piece)
                self.pool.verify([one.row], CHUNK)
        return odd

    def landing(self, one: Running) -> tuple[bool, str]:
        """What the check says of this write; and what is wrong with that."""
        launched, now = one.launched, int(self.pool.generation[one.row])
        got, wanted = self.may_land(launched, now), one.handed == self.num_handed[one.row]
        call = f"`may_land({launched}, {now})` gives"
        if not self.asks_reset:
            self.said = f"may_land({launched}, {now}) gives {got}"
        if type(got) is not bool:
            raise Wrong(f"{call} {difference(got, wanted)}.")
        if got == wanted:
            return got, ""
        said = f"{call} {difference(got, wanted)}:"
        if wanted:
            return got, f"{said} row {one.row} has not been handed out since request {one.rid}'s step was launched."
        num = self.num_handed[one.row] - one.handed
        again = "has been handed out again" if num == 1 else f"has been handed out {num} times"
        return got, f"{said} row {one.row} {again} since request {one.rid}'s step was launched."

    def land(self, one: Running) -> None:
        self.gone.remove(one)
        lands, odd = self.landing(one)
        if lands:
            for lens in (self.pool.verified_lens, self.pool.alloced_lens, self.pool.alloced_lens_cpu):
                lens[one.row] += CHUNK
            self.others[one.row] = [length + CHUNK for length in self.others[one.row]]
            self.emit("late_write", rid=one.rid, rows=[one.row])
        else:
            self.emit("note", rid=one.rid, rows=[one.row], text=f"request {one.rid}'s late step is dropped")
        self.tell()
        if odd:
            raise Wrong(f"{odd}{self.harm()}", self.wrong_cells() or [(one.row, 0)])

    # ---- what everybody reads ------------------------------------------------------------------------------------

    def texts(self) -> list[Text]:
        return [(one.rid, self.read(one), one.text) for one in self.running]

    def read(self, one: Running) -> str:
        n = min(max(int(self.pool.alloced_lens[one.row]) - self.ahead, 0), WIDTH)
        return self.letters.read(self.pool.req_to_token[one.row, :n].tolist())

    def tell(self) -> None:
        if self.running:
            tell_texts(self.emit, "everybody recites its text through its row", self.texts())

    def harm(self) -> str:
        """Who is the first to recite something else than it wrote, and what."""
        harmed = [text for text in self.texts() if text[1] != text[2]]
        return "".join(
            f" Request {rid} recites {f'`{said}`' if said else 'nothing'}, but it wrote `{text}`."
            for rid, said, text in harmed[:1]
        )

    def wrong_cells(self) -> list[tuple[int, int]]:
        rows = {one.rid: one.row for one in self.running}
        return [(rows[rid], at) for rid, said, text in self.texts() for at in differing(said, text)]

    def seen(self) -> Hashable:
        running = tuple((one.rid, one.row, len(one.text)) for one in self.running)
        lengths = tuple(map(tuple, (self.pool.verified_lens.tolist(), self.pool.alloced_lens.tolist())))
        gone = tuple((one.rid, one.row, one.launched) for one in self.gone)
        return running, gone, tuple(self.num_handed), tuple(self.pool.free_slots), lengths


def text_of(one: Running) -> str:
    """Six letters; no two requests have the same one at the same position."""
    first = 2 * 3 * RIDS.index(one.rid)
    return "".join(ALPHABET[(first + k) % len(ALPHABET)] for k in range(CHUNK * MOST_CHUNKS))


def move_in_words(kind: str, what: Any) -> str:
    if kind == "end":
        return f"the end of request {what}"
    if kind == "land":
        return f"the late step of request {what}"
    new = sum(rid == "new" for rid in what)
    who = [f"request {rid}" for rid in what if rid != "new"]
    who += [f"{new} new requests" if new > 1 else "a new request"] * (new > 0)
    return f"a step of {in_words(who)}"


def right_reset(rows: list[int], kept: list[int], verified: Tensor, alloced: Tensor) -> None:
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0


def right_may_land(launched: int, now: int) -> bool:
    return launched == now


STARTS = [Start(1, 1), Start(2, 1), Start(2, 2)]
LONG_AGO = [Start(1, 1, generation, since) for generation in (0, 1000) for since in (1, 2, 3, 4, 5, 8, 60, 256, 1000)]
AHEAD = [Start(3, 1, ahead=1), Start(4, 2, ahead=1)]
LARGER = [Start(2, 1, 1000), Start(3, 2), Start(8, 4, 7), Start(8, 4, 7, ahead=1)]

# ---- A: may the write land? ------------------------------------------------------------------------------------------


def checked_by(answer: Callable[..., Any]) -> MayLand:
    return lambda launched, now: plain(guard.call(answer, launched, now))


MAY_LAND = Exercise(
    "may_land",
    "05 A",
    "complete the line: `True` when a write may land, `launched` being the row's generation when its step was "
    "launched, `now` the row's generation when it wants to write.",
    by_operations(
        lambda answer, start: Takeovers(right_reset, checked_by(answer), start),
        right_may_land,
        [*STARTS, *LONG_AGO],
        depth=3,
        most=400,
        examples=30,
        larger=LARGER,
    ),
    hints=("How often has the row been handed out between the two moments?", "Not even once, or it may not."),
    solution="""
def may_land(launched, now):
    return launched == now
""",
    praise="Every write asked it, in time or late, in a real pool whose `alloc` resets the lengths.",
    searched=True,
)

# ---- B: the reset on reuse -------------------------------------------------------------------------------------------


def reset_by(answer: Callable[..., Any]) -> Reset:
    return lambda *args: guard.call(answer, *args)


RESET = Exercise(
    "reset_on_reuse",
    "05 B",
    "write what `alloc` does to the lengths. `rows` are the rows of a whole batch, in order. Those of them that are in "
    "`kept` go on: their requests had them before. The others are handed out anew. (`rows` and `kept` are lists of "
    "ints.) `verified` and `alloced` are tensors of ints, with one length for each row of the table, row 0 included; "
    "change them where they are, and no row that is not in `rows`. "
    "`free` has zeroed the lengths of a row, but a late step may have raised **both** since. (One that lands after "
    "`alloc` is dropped: the generation check is on.)",
    by_operations(
        lambda answer, start: Takeovers(reset_by(answer), right_may_land, start),
        right_reset,
        [*STARTS, *AHEAD],
        depth=3,
        most=400,
        examples=30,
        larger=LARGER,
    ),
    hints=(
        "Which rows of `rows` have an owner whose tokens are in the cache already? Their lengths stay. The list "
        "of new rows may be empty.",
        "`verified[row] = 0` changes the tensor where it is. Then the same for the other length.",
    ),
    solution="""
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = 0
            alloced[row] = 0
""",
    praise="It stood in a real pool, while rows changed hands and late steps landed.",
    searched=True,
)

# ---- C: a landing that the reset does not save -----------------------------------------------------------------------

SETTINGS = {"landing": (*LANDINGS, *range(1, len(LANDINGS) + 1)), "late_len": tuple(range(1, 13))}


def breaks_the_reset(function: Callable[..., Any]) -> Case | None:
    settings = plain(guard.call(function))
    if odd := odd_settings(settings, SETTINGS):
        return Case(odd, 0)
    if missing := [name for name in SETTINGS if name not in settings]:
        return Case(f"`{missing[0]}` is not in the settings.", 0)
    landing, late_len = settings["landing"], settings["late_len"]
    landing = LANDINGS.index(landing) if isinstance(landing, str) else landing - 1
    reset_only, checked = (late(landing, late_len, reset=True, generation=check) for check in (False, True))
    if list(reset_only.wrong) == ["c"] and not checked.wrong:
        return None
    if not reset_only.wrong:
        why = "`free` zeroed" if landing == 0 else "the row was free, and b's `alloc` zeroed"
        saved = zeroed(reset_only.trace, reset_only.row)
        return Case(f"Nobody recites wrongly: {why} what had landed.", num_steps(saved), saved)
    yours, right = (up_to_step(run.trace, heard(reset_only)) for run in (reset_only, checked))
    letter = reset_only.wrong["b"][0]
    said = f"`{reset_only.recited['b'][letter]}` instead of `{reset_only.expected['b'][letter]}`"
    others = " c recites wrongly, too." if "c" in reset_only.wrong else ""
    sentence = (
        f"The reset does not save this landing, but b, which has the row, recites {said}: wanted c alone.{others}"
    )
    return Case(sentence, num_steps(yours), yours, right)


def zeroed(trace: Trace, row: int) -> Trace:
    """Up to the event that takes the late length away again."""
    moved = [{(one[0], one[1], one[3]) for one in event.change.lengths} for event in trace]
    raised = next(k for k, event in enumerate(trace) if event.rid == "a" and event.kind in ("late_write", "verify"))
    k = next(k for k in range(raised + 1, len(trace)) if ("verified", row, 0) in moved[k])
    return Trace(trace.first, trace.events[: k + 1])


def heard(run: LateRun) -> int:
    """The engine step in which b recites its first wrong letter."""
    for event in run.trace:
        if any(rid == "b" and wrong for rid, _, wrong in dict(event.facts).get("texts", ())):
            return event.step
    return run.trace[-1].step


def num_steps(trace: Trace) -> int:
    return len({event.step for event in trace})


PAST_THE_RESET = Exercise(
    "past_the_reset",
    "05 C",
    "the reset is on, and no other safeguard (fifo, three rows, as in the sections above). Return a dict: `landing`, "
    "one of "
    + ", ".join(f"`{name!r}`" for name in LANDINGS)
    + " (or its number in the lab, 1 to 6), and `late_len`, 1 to 12 tokens, so that **c recites "
    "wrongly, which never has the row, and b, which has it, recites rightly**.",
    breaks_the_reset,
    hints=(
        "The reset is done in `alloc`. Which landings come after b's?",
        "b starts to write at the position that the late length says, into the slots that still stand there. From "
        "which position on are those c's by now? And b must do so in its very first step, or it does not find its own "
        "letters.",
    ),
    solution="""
def past_the_reset():
    return {"landing": "after b's alloc", "late_len": 8}
""",
    praise="The reset did its work, one moment too early. With the generation check as well, the same write is dropped "
    "and nobody is hurt.",
)

EXERCISES = (MAY_LAND, RESET, PAST_THE_RESET)
