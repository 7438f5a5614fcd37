"""Chapter 04, the padding row: what a dummy entry carries, the buffers of a captured graph, a length that runs off."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from reqpool.exercises import guard
from reqpool.exercises.exercise import Case, Exercise, after, by_operations
from reqpool.exercises.search import Wrong
from reqpool.exercises.telling import Text, differing, tell_texts
from reqpool.exercises.values import difference, plain, shortened
from reqpool.kv import flatten_rows
from reqpool.pool import ReqToTokenPool, row_of
from reqpool.scenarios.experiments import PADDING, padding
from reqpool.scenarios.together import in_step, mark_wrong
from reqpool.serving.graph import GraphRunner
from reqpool.serving.recite import LETTERS, Recite
from reqpool.serving.requests import Request, no_fact
from reqpool.trace import Trace

# ---- A and B: steps of a captured graph, whose buffers the learner fills ---------------------------------------------

WIDTH = 8  # positions in a row
DUMMY = {"rows": 0, "positions": 1, "out_slots": 0, "tokens": 0, "wanted": 0}  # LightLLM's: length 2
PERIOD = 2
PROMPTS = ("xy", "kl", "pq", "uv", "ab", "mn", "cd", "gh", "ij", "rs", "wz", "ef", "to")
Fill = Callable[[str, Tensor, Tensor, int], None]  # name of the buffer, the buffer, values, what a dummy carries
Numbers = dict[str, list[int]]  # by buffer, one number for each entry


class Filled(GraphRunner):
    """The runner, with one graph, and something else than its own lines to fill the buffers.

    Its step writes a cell for every entry, as LightLLM's kernel does: who points a dummy at somebody's row hurts.
    """

    def __init__(self, pool: ReqToTokenPool, fill: Fill) -> None:
        self.size = pool.size
        model = Recite(pool.size * WIDTH, WIDTH)
        super().__init__(pool, model, (self.size,), dummy_len=DUMMY["positions"] + 1, writes="cell")
        self.fill = fill

    def filled(self, live: dict[str, Tensor]) -> Numbers:
        """What every buffer says now, one number for each entry."""
        self.live = live["rows"]
        for name, buffer in self.static.items():
            self.fill(name, buffer, live[name].clone(), DUMMY[name])
        return {name: buffer.tolist() for name, buffer in self.static.items()}

    def replayed(self) -> str:
        """The step over the buffers as they are; the letters of the live entries."""
        cells = self.static["rows"], self.static["positions"]
        self.pool.req_to_token[cells] = self.static["out_slots"].int()
        self._tell_written_cell(self.size)
        flatten_rows(self.pool, cells[0], cells[1] + 1, out=(self.kv_indptr, self.kv_indices))
        self._tell_read(self.size)
        self._replay(self.size)
        self._raise_lengths(self.size)
        return "".join(LETTERS[token] for token in self.out[: len(self.live)].tolist())

    def playable(self, filled: Numbers) -> bool:
        """Whether a kernel with these numbers stays within its memory."""
        most = {"rows": self.size, "positions": WIDTH - 1, "out_slots": self.size * WIDTH, "tokens": 26}
        return all(
            len(filled[name]) == self.size and all(0 <= number <= high for number in filled[name])
            for name, high in most.items()
        )


class Steps:
    """Requests come, decode together in one graph, and end; the books say what each buffer must hold.

    Args:
        start: entries of the graph, how many requests came already, how many steps they had, and how many of them
            have ended since. There are as many rows as entries.
        of_all: whether the learner fills every buffer, and has been told of `dummy`.
    """

    emit: Callable[..., None] = staticmethod(no_fact)

    def __init__(self, fill: Fill, start: tuple[int, int, int, int], of_all: bool = False) -> None:
        size, running, steps, ended = start
        self.of_all = of_all
        self.pool = ReqToTokenPool(size, WIDTH, "cpu")
        self.runner = Filled(self.pool, filled_right)
        self.slots = list(range(1, size * WIDTH + 1))
        self.running: list[Request] = []
        self.filled: Numbers = {}
        self.num_came = 0
        self.come(running)
        for _ in range(steps):
            self.step()
        for _ in range(ended):
            self.end(self.running[-1])
        self.runner.fill = fill

    def moves(self) -> Sequence[Hashable]:
        can_step = self.running and all(req.total_len <= WIDTH for req in self.running)
        steps = [("step", "")] if can_step else []
        comes = [("come", "")] if len(self.running) < self.pool.size and self.num_came < len(PROMPTS) else []
        ends = dict.fromkeys(req.rid for req in (*self.running[-1:], *self.running[:1]))  # the last, the first
        return [*steps, *(("end", rid) for rid in ends), *comes]

    def play(self, move: Any) -> None:
        kind, rid = move
        if kind == "come":
            self.come()
        elif kind == "end":
            self.end(next(req for req in self.running if req.rid == rid))
        else:
            self.step()

    def come(self, num: int = 1) -> None:
        """Rows, slots, K and V of the prompts; their first letters come out, as prefill's do."""
        numbers = range(self.num_came, self.num_came + num)
        reqs = [Request("abcdefghijklm"[i], prompt=PROMPTS[i], max_new_tokens=WIDTH) for i in numbers]
        rows = self.pool.alloc(reqs)
        for req in reqs:
            self.pool.append(req, [self.slots.pop(0) for _ in req.prompt])
            req.take(req.prompt[0])
        slots, positions = self.pool.req_to_token[rows, :PERIOD].flatten().long(), torch.arange(PERIOD).repeat(num)
        self.runner.model.write(slots, positions, self.runner.model.tokens("".join(req.prompt for req in reqs)))
        self.pool.verify(rows, PERIOD)
        self.num_came += num
        self.running += reqs

    def end(self, req: Request) -> None:
        """Its slots go to the front, the last one first: who takes a slot next gets it."""
        row = row_of(req)
        held = self.pool.req_to_token[row, : int(self.pool.alloced_lens_cpu[row])].tolist()
        self.slots[:0] = [slot for slot in reversed(held) if slot]  # slot 0 is nobody's to free
        self.running.remove(req)
        self.pool.free(req)

    def step(self) -> None:
        reqs = self.running
        before = {name: (buffer.tolist(), buffer._version) for name, buffer in self.runner.static.items()}
        wanted = self.wanted()
        for req, slot in zip(reqs, wanted["out_slots"], strict=False):
            self.pool.append(req, [slot])
        del self.slots[: len(reqs)]
        live = {name: torch.tensor(numbers[: len(reqs)]) for name, numbers in wanted.items()}
        filled = self.filled = self.runner.filled(live)
        odd = {name: 0 for name in filled if filled[name] != wanted[name]}
        for name in odd:
            odd[name], said = self.odd_entry(name, filled[name], wanted[name], before[name])
            if not self.runner.playable(filled):
                raise Wrong(said)
        self.replay()
        if not odd:
            return
        name, i, whose = self.to_blame(odd, filled)
        i, said = self.odd_entry(name, filled[name], wanted[name], before[name], i)
        raise Wrong(f"{said}{whose}{self.harm()}", self.cells(filled, None if name == "out_slots" else i))

    def odd_entry(
        self, name: str, got: list[int], wanted: list[int], before: tuple[list[int], int], at: int | None = None
    ) -> tuple[int, str]:
        """Of a buffer: the first entry that is not as it should be, or this one, and what about it."""
        written = self.runner.static[name]._version != before[1]
        i, said = odd_entry(got, wanted, before[0], [req.rid for req in self.running], written, self.of_all, at)
        return i, f"the buffer `{name}` says `{shortened(got)}`, wanted `{wanted}`: {said}"

    def to_blame(self, odd: dict[str, int], filled: Numbers) -> tuple[str, int, str]:
        """Which buffer, which entry of it, and whom it hurts: that of the first harm done; else the first odd one."""
        if "out_slots" in odd and (found := self.overwritten(filled)):
            i, rid, slot = found
            return "out_slots", i, f" Slot {slot} is {rid}'s by now, so the dummy's K and V lie over {rid}'s."
        name, i = next(iter(odd.items()))
        return name, i, self.pointed_at(filled, i) if name == "rows" else ""

    def overwritten(self, filled: Numbers) -> tuple[int, str, int] | None:
        """The dummy entry whose K and V lie over those of the first harmed request, if no cell of its row is wrong."""
        harmed = next(((rid, differing(*texts)) for rid, *texts in self.texts() if texts[0] != texts[1]), None)
        if harmed is None:
            return None
        rid, places = harmed
        row = next(row_of(req) for req in self.running if req.rid == rid)
        dummies = range(len(self.running), self.pool.size)
        if any(filled["rows"][i] == row and filled["positions"][i] in places for i in dummies):
            return None
        slots = self.pool.req_to_token[row, places].tolist()
        return next(((i, rid, slot) for i in dummies if (slot := filled["out_slots"][i]) in slots), None)

    def replay(self) -> None:
        self.runner.on_fact = self.emit
        for req, letter in zip(self.running, self.runner.replayed(), strict=True):
            req.take(letter)
        if self.emit is not no_fact:
            tell_texts(self.emit, "everybody recites its text so far through its row", self.texts())

    def wanted(self) -> Numbers:
        """From the books: where each request stands, and the next free slots."""
        reqs = self.running
        live = {
            "rows": [req.req_pool_idx for req in reqs],
            "positions": [req.total_len - 1 for req in reqs],
            "out_slots": self.slots[: len(reqs)],
            "tokens": [LETTERS.index(req.output[-1]) for req in reqs],
            "wanted": [req.total_len - len(req.prompt) for req in reqs],
        }
        return {name: [*numbers, *[DUMMY[name]] * (self.pool.size - len(reqs))] for name, numbers in live.items()}

    def texts(self) -> list[Text]:
        """Of each request, the letter that attention finds at each position of its row, and what should be there."""
        return [(req.rid, self.found(req), (req.prompt * WIDTH)[: req.total_len - 1]) for req in self.running]

    def found(self, req: Request) -> str:
        n = req.total_len - 1  # the last letter is not in the cache yet
        slots = self.pool.req_to_token[row_of(req), :n].long().expand(n, n)  # nobody's read, for the picture
        mask = torch.ones(n, n, dtype=torch.bool)
        return "".join(LETTERS[token] for token in self.runner.model.attend(torch.arange(n), slots, mask).tolist())

    def pointed_at(self, filled: Numbers, i: int) -> str:
        row, owners = filled["rows"][i], {req.req_pool_idx: req.rid for req in self.running}
        if i < len(owners) or row == 0:
            return ""
        whose = f"which is {owners[row]}'s" if row in owners else "which is free, and somebody's soon"
        return f" It points at row {row}, {whose}."

    def harm(self) -> str:
        """Who is the first to recite something else than it should, and what."""
        harmed = [text for text in self.texts() if text[1] != text[2]]
        return "".join(
            f" Request {rid} recites `{said}` through its row, wanted `{wanted}`." for rid, said, wanted in harmed[:1]
        )

    def cells(self, filled: Numbers, i: int | None) -> list[tuple[int, int]]:
        """That of the odd entry, where its cell is odd, and where somebody finds the wrong letter."""
        rows = {req.rid: row_of(req) for req in self.running}
        found = [(rows[rid], at) for rid, said, wanted in self.texts() for at in differing(said, wanted)]
        return found if i is None else [(filled["rows"][i], filled["positions"][i]), *found]

    def led_by(self, moves: Sequence[Any]) -> str:
        words = {"step": "a step", "come": "a new request"}
        return after([words.get(kind, f"the end of request {rid}") for kind, rid in moves])

    def so_it_should_be(self) -> str:
        names = ("rows", "positions", "out_slots") if self.of_all else ("rows",)
        return "the buffers say: " + ", ".join(f"{name} {self.filled[name]}" for name in names)

    def seen(self) -> Hashable:
        reqs = tuple((req.rid, req.req_pool_idx, req.total_len) for req in self.running)
        buffers = tuple(tuple(buffer.tolist()) for buffer in self.runner.static.values())
        return reqs, tuple(self.pool.free_slots), tuple(self.slots), buffers


def odd_entry(
    got: list[int],
    wanted: list[int],
    before: list[int],
    rids: list[str],
    written: bool,
    of_all: bool,
    at: int | None,
) -> tuple[int, str]:
    """The first entry of a buffer that is not as it should be, or the one at `at`, and what about it."""
    if len(got) != len(wanted):
        return 0, f"the graph was captured for {entries(len(wanted))}, always."
    i = next(i for i in range(len(got)) if got[i] != wanted[i]) if at is None else at
    if i >= len(rids):
        if got[i] == before[i] != 0:
            return i, f"entry {i} is a dummy, and still says what the step before left there."
        number = f": the number for it is `dummy`, {wanted[i]} here; it says {got[i]}"
        return i, f"entry {i} is a dummy{number if of_all else ''}."
    if not written and got == before:
        return i, "nothing has come into it. The graph reads the buffer where it was captured, not what is made anew."
    return i, f"entry {i} is request {rids[i]}'s."


def entries(num: int) -> str:
    return "1 entry" if num == 1 else f"{num} entries"


# ---- A: the rows of a step -------------------------------------------------------------------------------------------


def filled_right(name: str, buffer: Tensor, values: Tensor, dummy: int) -> None:
    for i in range(len(buffer)):
        buffer[i] = values[i] if i < len(values) else dummy


def rows_by(answer: Callable[..., Any]) -> Fill:
    """`padded` says the rows; everything else is filled rightly."""

    def fill(name: str, buffer: Tensor, values: Tensor, dummy: int) -> None:
        if name != "rows":
            filled_right(name, buffer, values, dummy)
            return
        rows, size = values.tolist(), len(buffer)
        got = plain(guard.call(answer, list(rows), size))
        call = f"`padded({rows}, {size})`"
        if not (isinstance(got, list) and all(type(row) is int for row in got)):
            raise Wrong(f"{call} gives {difference(got, [*rows, *[0] * (size - len(rows))])}.")
        if len(got) != size:
            raise Wrong(f"{call} gives `{shortened(got)}`, {entries(len(got))}. The graph has {size}, always.")
        if not all(abs(row) < 2**31 for row in got):
            raise Wrong(f"{call} gives `{shortened(got)}`: there are no such rows.")
        buffer.copy_(torch.tensor(got))

    return fill


# entries of the graph, requests that came, steps they had, requests that have ended
STARTS = [
    (1, 1, 0, 0),
    (2, 1, 0, 0),
    (2, 2, 0, 0),
    (3, 3, 1, 0),
    (3, 3, 1, 2),
    (8, 1, 0, 0),
    (8, 8, 1, 7),
    (8, 8, 2, 3),
]

PADDED = Exercise(
    "padded",
    "04 A",
    "complete the line: return the rows of a step, a list of ints. `rows` are those of its requests, a list of ints, "
    "too (a copy, which may be changed), and `graph_size` is the number of entries that the graph has.",
    by_operations(
        lambda answer, start: Steps(rows_by(answer), start),
        lambda rows, graph_size: [rows[i] if i < len(rows) else 0 for i in range(graph_size)],
        STARTS,
        depth=3,
        most=150,
        examples=20,
        larger=[(8, 5, 2, 0)],
    ),
    hints=("How many dummy entries are there?", "`[0] * n` is a list of n zeros. They are table row 0."),
    solution="""
def padded(rows, graph_size):
    return rows + [0] * (graph_size - len(rows))
""",
    praise="It stood in a real graph runner, while requests came, recited and ended.",
    searched=True,
)

# ---- B: fill a buffer of the graph, where it is ----------------------------------------------------------------------


def buffers_by(answer: Callable[..., Any]) -> Fill:
    def fill(name: str, buffer: Tensor, values: Tensor, dummy: int) -> None:
        with in_place({f"the buffer `{name}`": buffer}) as (same_memory,):
            guard.call(answer, same_memory, values, dummy)

    return fill


@contextmanager
def in_place(tensors: dict[str, Tensor]) -> Iterator[list[Tensor]]:
    """Views of tensors, by what to call them: numbers may be written, and nothing else about a tensor be changed.

    What is made of a view (`view.data = ...`, `view.resize_(...)`) does not touch the tensor itself, which stays fit to
    be recorded.
    """
    views = [tensor[:] for tensor in tensors.values()]
    yield views
    for (what, tensor), view in zip(tensors.items(), views, strict=True):
        if view.shape != tensor.shape:
            size = shortened(tuple(view.shape)) if view.dim() != 1 else entries(len(view))
            raise Wrong(f"{what} has {size} now, wanted {entries(len(tensor))}, always: change the numbers in it only.")
        if view.dtype != tensor.dtype:
            kinds = f"numbers of {view.dtype} now, wanted {tensor.dtype}"
            raise Wrong(f"{what} holds {kinds}: change the numbers in it only.")
        if view.data_ptr() != tensor.data_ptr() or view.stride() != tensor.stride():
            raise Wrong(
                f"{what} lies elsewhere in memory now. It is read where it was, and not what is made anew: change the "
                "numbers in it only."
            )


FILL = Exercise(
    "fill",
    "04 B",
    "fill one buffer of a captured graph for the next step, **where it is**: the graph never looks elsewhere. `buffer` "
    "is a tensor with one number for each entry of the graph, and still says what the step before left there. `values` "
    "is a tensor with one number for each request: they come first. Every other entry gets the number `dummy`. It is "
    "called for `rows` (`dummy` is 0), `positions` (1: LightLLM's dummies have length 2), `out_slots` (0) and the "
    "others, at every step.",
    by_operations(
        lambda answer, start: Steps(buffers_by(answer), start, of_all=True),
        lambda buffer, values, dummy: filled_right("", buffer, values, dummy),
        STARTS,
        depth=3,
        most=150,
        examples=20,
        larger=[(8, 5, 2, 0)],
    ),
    hints=(
        "`buffer[:2] = ...` changes the tensor where it is; `buffer = ...` makes the name mean another one.",
        "Two lines: one for the entries before `len(values)`, one for those from there on. Both at every step, for the "
        "step before may have had more requests.",
    ),
    solution="""
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[len(values) :] = dummy
""",
    praise="It filled the buffers of a real graph runner, at every step, while requests came, recited and ended.",
    searched=True,
)

# ---- C: a third letter that is the first wrong one -------------------------------------------------------------------

SETTINGS = {
    "live": (1, 2, 3, 4),
    "graph_size": (1, 2, 3, 4, 5, 6, 7, 8),
    "writes": ("slot", "cell", "length"),
    "accumulate": (True, False),
}
OFF = next(where for where in PADDING if where.startswith("off"))
THIRD = 3
LABELS = ("without a padding row", "the same, dummies at the last row")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def odd_settings(settings: Any, known: dict[str, tuple]) -> str | None:
    """What is wrong with the settings themselves, in one sentence; None: they can be played."""
    if not isinstance(settings, dict):
        return f"`{shortened(settings)}`: wanted a dict of settings."
    for name, value in settings.items():
        if name not in known:
            return f"`{shortened(name)}` is no setting: wanted {', '.join(map(repr, known))}."
        if not any(type(value) is type(good) and value == good for good in known[name]):
            return f"`{name}` is `{shortened(value)}`: wanted one of {', '.join(map(repr, known[name]))}."
    return None


def breaks_the_third(function: Callable[..., Any]) -> Case | None:
    settings = plain(guard.call(function))
    if odd := odd_settings(settings, SETTINGS):
        return Case(odd, 0)
    live, graph_size = settings.get("live", 2), settings.get("graph_size", 4)
    if live > graph_size:
        return Case(f"{live} live requests do not fit in a graph of {entries(graph_size)}.", 0)
    broken, mended = (padding(where, **settings) for where in (OFF, "row 0"))
    first = min((wrong[0] for wrong in broken.wrong.values()), default=None)
    if first == THIRD - 1 and not mended.wrong:
        return None
    steps = THIRD if first is None else first + 1
    played = up_to_step(broken.trace, steps)
    if first is None:
        full = " A full batch has no dummy entry." if live == graph_size else ""
        return Case(
            f"Without the padding row, with these settings nobody recites wrongly.{full}", steps, played, labels=LABELS
        )
    beside = padding("last row", **settings)  # here every request has the row that it has without a padding row
    yours, right = in_step(played, up_to_step(beside.trace, steps))
    who = next(rid for rid, wrong in broken.wrong.items() if wrong[0] == first)
    said = f"The first wrong letter is {who}'s {ORDINALS[first]}, wanted: a third."
    return Case(said, steps, mark_wrong(yours, right), right, labels=LABELS)


def up_to_step(trace: Trace, last: int) -> Trace:
    """The engine's first steps, each of which brings everybody one letter."""
    return Trace(trace.first, [event for event in trace if event.step <= last])


THIRD_LETTER_FIRST = Exercise(
    "third_letter_first",
    "04 C",
    "return settings for which, without the padding row, the **first** wrong letter is a **third** letter. Settings "
    "are a dict: `live` 1 to 4, `graph_size` 1 to 8 and at least `live`, `writes` is `'slot'`, `'cell'` or `'length'`, "
    "`accumulate` is True (`index_add_`) or False (`+=`). Defaults: live 2, graph_size 4, writes `'cell'`, accumulate "
    "False.",
    breaks_the_third,
    hints=(
        "A cell hurts at letter 2, for the dummies write position 1. What else can a step write?",
        "A length hurts one step later: the next step starts from it. Which of the two ways to add moves it too far?",
    ),
    solution="""
def third_letter_first():
    return {"live": 2, "graph_size": 4, "writes": "length", "accumulate": True}
""",
    praise="The length was wrong after step 2, and step 3 started from it. With the padding row the same settings "
    "hurt nobody.",
)

EXERCISES = (PADDED, FILL, THIRD_LETTER_FIRST)
