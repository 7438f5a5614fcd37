"""Chapter 03, chunked prefill: who keeps its row, how long the pieces are, and a prompt that the budget cuts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import Any

from reqpool.exercises import guard
from reqpool.exercises.chapter_02 import truth
from reqpool.exercises.chapter_04 import up_to_step
from reqpool.exercises.exercise import Case, Exercise, by_operations, ended
from reqpool.exercises.guard import Raised, Stopped
from reqpool.exercises.search import Wrong, as_wrong
from reqpool.exercises.telling import in_words
from reqpool.exercises.values import difference, plain, same, shortened
from reqpool.pool import Req, ReqToTokenPool, row_of
from reqpool.scenarios.experiments import chunks
from reqpool.scenarios.together import given_back, in_step, mark_wrong
from reqpool.serving.requests import no_fact
from reqpool.trace import Trace

# ---- A: who keeps its row --------------------------------------------------------------------------------------------


class AskedToKeep(ReqToTokenPool):
    """The pool, with what the learner's line said at the place where it is decided who keeps its row."""

    answers: tuple[Any, ...] = ()
    call = ""

    def _keeps_row(self, req: Any) -> bool:
        if req.req_pool_idx is None or truth(self.answers[-1]):
            return req.req_pool_idx is not None
        said = f"{self.call} says {shortened(self.answers[-1])}"
        raise ValueError(f"{said}: request {req.rid} is turned away, and row {req.req_pool_idx} stays its own")


class ComesAgain:
    """A request comes to `alloc` again, with every counter and committed length. If it may keep its row, it goes on."""

    emit: Callable[..., None] = staticmethod(no_fact)

    def __init__(self, yours: Callable[..., Any], start: tuple[int, int]) -> None:
        self.yours, (self.most_chunks, self.chunk) = yours, start
        self.pool = AskedToKeep(1, 2 * self.chunk, "cpu")
        self.req = Req("a")
        self.times = 0

    def moves(self) -> Sequence[Hashable]:
        numbers = range(self.most_chunks + 1)
        again = [("again", counter, n * self.chunk) for counter in numbers for n in numbers]
        return ([("comes",)], again, [])[self.times]

    def play(self, move: Any) -> None:
        self.times += 1
        if move[0] == "comes":
            self.pool.alloc([self.req])
            self.grow()
        else:
            self.again(*move[1:])

    def again(self, counter: int, committed: int) -> None:
        self.req.inflight_middle_chunks, self.req.kv_committed_len = counter, committed
        said = f"request a comes again: its counter is {counter}, its committed length {committed}"
        self.emit("note", rid="a", rows=[1], text=said)
        self.pool.call = f"keeps_row({counter}, {committed})"
        self.pool.answers += (plain(guard.call(self.yours, counter, committed)),)
        kept = self.asked_again()
        if kept:
            self.grow()
        got, wanted = self.pool.answers[-1], any((counter, committed))
        if not same(got, wanted):
            call = f"`{self.pool.call}` gives {difference(got, wanted)}"
            cells = [(1, position) for position in range(self.chunk, 2 * self.chunk)] if kept != wanted else []
            raise Wrong(f"{call}{told_of(kept, wanted)}.", cells)

    def grow(self) -> None:
        length = int(self.pool.alloced_lens_cpu[1])
        self.pool.append(self.req, range(length + 1, length + self.chunk + 1))

    def asked_again(self) -> bool:
        try:
            return self.pool.alloc([self.req]) == [1]
        except ValueError:  # the pool's own: nothing to continue
            return False

    def led_by(self, moves: Sequence[Any]) -> str:
        numbers = [f" with counter {counter} and committed length {n}" for _, counter, n in moves[1:]]
        return "".join(["when request a comes again", *numbers])

    def so_it_should_be(self) -> str:
        goes_on = truth(self.pool.answers[-1])
        what = "request a goes on in row 1" if goes_on else "alloc raises ValueError, and nothing has changed"
        return f"{self.pool.call} says {self.pool.answers[-1]}: {what}"

    def seen(self) -> Hashable:
        return self.times, self.pool.answers


def told_of(kept: bool, wanted: bool) -> str:
    if kept == wanted:
        return ""
    if kept:
        return ": it has begun nothing that could go on, and keeps its row all the same"
    return ": it has begun, and is turned away from its own row"


def solved_keeps(counter: int, committed: int) -> bool:
    return counter > 0 or committed > 0


KEEPS_ROW = Exercise(
    "keeps_row",
    "03 A",
    "complete the line: `True` when a request that holds a row may keep it; `counter` is its "
    "`inflight_middle_chunks`, `committed` its `kv_committed_len`.",
    by_operations(ComesAgain, solved_keeps, [(2, 2), (9, 1)], depth=2, examples=5),
    hints=(
        "On the last chunk the counter is 0.",
        "Before the first result `committed` may be 0. Either one is enough.",
    ),
    solution="""
def keeps_row(counter, committed):
    return counter > 0 or committed > 0
""",
    praise="It stood in a real pool, in place of the pool's own line.",
)

# ---- B: the pieces of a prompt ---------------------------------------------------------------------------------------


class Piecewise:
    """Requests run, and a long prompt comes: in every step its next piece, and a token for each that runs.

    The books count the tokens of a step one by one. The table grows by the pieces that the learner's function names.
    """

    emit: Callable[..., None] = staticmethod(no_fact)

    def __init__(self, yours: Callable[..., Any], start: tuple[int, int, int, int]) -> None:
        self.yours, self.start = yours, start
        prompt_len, _, _, num_running = start
        self.pool = ReqToTokenPool(num_running + 1, prompt_len + 2, "cpu")
        self.running = [Req(f"run {n + 1}") for n in range(num_running)]
        self.long = Req("long")
        self.num_steps = self.done = 0
        self.pieces: list[int] = []
        self.pool.alloc(self.running)
        for req in self.running:
            self.grow(req, 1)

    def grow(self, req: Req, n: int) -> None:
        """Each row has slots of its own, so that the two pictures differ where the pieces do, and nowhere else."""
        row, width = row_of(req), self.pool.max_context_len
        length = int(self.pool.alloced_lens_cpu[row])
        first = (row - 1) * width + length + 1
        self.pool.append(req, range(first, first + max(0, min(n, width - length))))

    def moves(self) -> Sequence[Hashable]:
        return ("step",) if self.done < self.start[0] else ()

    def play(self, move: Hashable) -> None:
        not_pieces = self.ask() if self.num_steps == 0 else ""
        self.num_steps += 1
        wanted = self.fitting()
        missing = self.num_steps > len(self.pieces)
        piece = 0 if missing else self.pieces[self.num_steps - 1]
        if not missing:
            self.pool.alloc([self.long])
            self.grow(self.long, piece)
            self.long.kv_committed_len = 1
        for req in self.running:
            self.grow(req, 1)
        self.emit("note", text=f"step {self.num_steps}: {self.spent(piece)}")
        begin, self.done = self.done, self.done + wanted
        if not_pieces:
            raise Wrong(not_pieces)
        self.compare(piece, wanted, begin, missing)

    def spent(self, piece: int) -> str:
        tokens, budget, running = piece + len(self.running), self.start[2], len(self.running)
        make = f"make {tokens} token{'' if tokens == 1 else 's'}; the budget is {budget}"
        return f"{piece} of the prompt and {running} running {make}"

    def led_by(self, moves: Sequence[Hashable]) -> str:
        return ""

    def so_it_should_be(self) -> str:
        prompt_len, num = self.start[0], self.num_steps
        done = f"{self.done} of {prompt_len} tokens are done" if self.done < prompt_len else "the prompt is done"
        return f"pieces{self.start} gives {shortened(self.pieces)}: after step {num}, {done}"

    def ask(self) -> str:
        """Call the learner's function; what is wrong when no pieces come of it, which is then a step without one."""
        call, wanted = f"`pieces{self.start}`", pieces_apart(*self.start)
        try:
            pieces = plain(guard.call(self.yours, *self.start))
        except (Raised, Stopped) as error:
            return f"{call}: {ended(as_wrong(error).sentence)} Wanted `{wanted}`."
        if not isinstance(pieces, list):
            return f"{call} gives {difference(pieces, wanted)}."
        if any(type(piece) is not int for piece in pieces):
            return f"{call} gives `{shortened(pieces)}`, wanted `{wanted}`: each of them an int."
        if any(piece < 0 for piece in pieces):
            return f"{call} gives `{shortened(pieces)}`, wanted `{wanted}`: no piece has fewer than 0 tokens."
        self.pieces = pieces
        return ""

    def fitting(self) -> int:
        """Token by token: as many of the prompt as this step still takes."""
        prompt_len, chunk_size, budget, num_running = self.start
        piece, spent = 0, num_running
        while piece < chunk_size and spent < budget and self.done + piece < prompt_len:
            piece, spent = piece + 1, spent + 1
        return piece

    def compare(self, piece: int, wanted: int, begin: int, missing: bool) -> None:
        prompt_len, chunk_size, budget, num_running = self.start
        left = prompt_len - begin
        call = f"`pieces{self.start}` gives `{shortened(self.pieces)}`"
        row = self.long.req_pool_idx
        low, high = sorted((begin + max(piece, 0), begin + wanted))
        cells = [(row, position) for position in range(low, min(high, self.pool.max_context_len))] if row else []
        if missing:
            tokens = f"{left} token{'s' * (left > 1)} of the prompt {'are' if left > 1 else 'is'} left"
            raise Wrong(f"{call}: there is no piece for step {self.num_steps}, and {tokens}.", cells)
        why = ""
        if piece > left:
            why = f"only {left} of the prompt {'are' if left > 1 else 'is'} left"
        elif piece > chunk_size:
            why = f"the chunk size is {chunk_size}"
        elif piece + num_running > budget:
            why = f"with the {num_running} running that makes {piece + num_running}, and the budget is {budget}"
        elif piece < wanted:
            why = f"{wanted} would have fitted"
        if why:
            tokens = f"{piece} token{'s' * (piece != 1)}"
            raise Wrong(f"{call}: step {self.num_steps} computes {tokens} of the prompt, but {why}.", cells)
        if left == wanted and len(self.pieces) > self.num_steps:
            more = shortened(self.pieces[self.num_steps :])
            raise Wrong(f"{call}: after step {self.num_steps} the prompt is done, and `{more}` still follows.")

    def seen(self) -> Hashable:
        return self.num_steps, self.done


def pieces_apart(prompt_len: int, chunk_size: int, budget: int, num_running: int) -> list[int]:
    """The pieces, taken off the prompt one after the other. Not what an answer is compared with: for the pictures."""
    pieces: list[int] = []
    while sum(pieces) < prompt_len:
        pieces.append(min(prompt_len - sum(pieces), chunk_size, budget - num_running))
    return pieces


CASES = [
    *product((1, 2, 3, 5, 8), (1, 2, 4), (3, 5), (0, 1, 2)),  # prompt_len, chunk_size, budget, num_running
    *((12, 4, 4, 1), (20, 8, 7, 3), (30, 5, 64, 2)),
]

PIECES = Exercise(
    "pieces",
    "03 B",
    "return the list of the lengths of the pieces of a prompt, in order. A step computes at most `budget` tokens, and "
    "at most `chunk_size` tokens of the prompt; `num_running` requests are running, and each takes one token of the "
    "budget in every step.",
    by_operations(
        Piecewise,
        pieces_apart,
        CASES,
        depth=9,
        examples=10,
    ),
    hints=(
        "How many tokens of the prompt fit in a step at most? Two limits, the smaller one counts.",
        "All pieces are that long but the last one, which is what is left.",
    ),
    solution="""
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return [min(room, prompt_len - start) for start in range(0, prompt_len, room)]
""",
    praise=f"Compared in {len(CASES)} cases, step by step: each piece is as long as its step allows.",
)

# ---- C: who is hurt by the budget ------------------------------------------------------------------------------------

MOST_TOKENS = 20


def hurts_other_only_by_the_budget(function: Callable[..., Any]) -> Case | None:
    answer = plain(guard.call(function))
    three = isinstance(answer, list) and len(answer) == 3
    if not three or not all(type(n) is int and 1 <= n <= MOST_TOKENS for n in answer):
        wanted = f"wanted `(prompt_len, chunk_size, budget)`, three integers from 1 to {MOST_TOKENS}."
        return Case(f"`hurt_by_the_budget()` gives `{shortened(answer)}`, {wanted}", 0)
    chunk_size = answer[1]
    if chunk_size < 3:
        said = f"A chunk size of {chunk_size} cuts every prompt of three tokens: it has to be at least 3."
    else:
        said = _not_hurt(answer, sorted(chunks(*answer, freed_between=True).wrong))
    if not said:
        return None
    broken, kept = chunks(*answer, freed_between=True), chunks(*answer)
    steps = decided(broken.trace, "short" if "short" in broken.wrong else "other")
    played = given_back(up_to_step(broken.trace, steps))
    yours, right = in_step(played, up_to_step(kept.trace, steps))
    return Case(said, steps, mark_wrong(yours, right), right)


def decided(trace: Trace, rid: str) -> int:
    """The engine step in which this request recites its first wrong letter; where it recites none, its very first."""
    lines = [(event.step, dict(event.facts).get("texts", ())) for event in trace]
    said = [(step, wrong) for step, texts in lines for who, _, wrong in texts if who == rid]
    return next((step for step, wrong in said if wrong), said[0][0])


def _not_hurt(answer: list[int], wrong: list[str]) -> str:
    if "other" in wrong and "short" not in wrong:
        return ""
    who = in_words(wrong) if wrong else "nobody"
    recites = "recite" if wrong[1:] else "recites"
    return f"With `{tuple(answer)}` {who} {recites} wrongly. Wanted: other does, short does not."


HURT_BY_THE_BUDGET = Exercise(
    "hurt_by_the_budget",
    "03 C",
    "return `(prompt_len, chunk_size, budget)`, as in the experiment above, with `chunk_size` at least 3, so that on "
    "the `FreedBetweenChunks` pool `other` recites wrongly and `short` does not. Both have prompts of three tokens! "
    "Remember the rule: nobody new is admitted while a prompt is between its chunks.",
    hurts_other_only_by_the_budget,
    hints=(
        "`other` is hurt when its prompt comes in two pieces. What cuts a prompt that is no longer than the chunk "
        "size?",
        "While `long` is between its chunks, `other` is not admitted: it starts in the step of the last piece. Let "
        "that piece and the token of `short` leave 1 or 2 tokens of the budget.",
    ),
    solution="""
def hurt_by_the_budget():
    return 12, 4, 6
""",
    praise="The step of the last piece has 1 or 2 tokens left for other: its prompt is cut by the budget, though it is "
    "no longer than a chunk.",
)

EXERCISES = (KEEPS_ROW, PIECES, HURT_BY_THE_BUDGET)
