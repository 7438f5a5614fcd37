"""The three experiments of the course: the real engine, with a safeguard taken out or not, recorded and recited.

    padding    live requests in a batch of fixed size: what do the dummy entries touch, and who recites wrongly?
    late       a forward step that lands late: which safeguard saves which landing time?
    chunks     long prompts in pieces: what if the row is freed between them?

Each returns a `Run`: the trace, what every request recited, and what it should have. The damage is what the tensors
did; nothing here writes a wrong cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import torch

from reqpool.faulty import FreedBetweenChunks, NoPaddingRow, NoResetOnReuse
from reqpool.pool import ReqToTokenPool, row_of
from reqpool.scenarios.late_chain import Recital, explained
from reqpool.serving.engine import Engine
from reqpool.serving.graph import Dummies, GraphRunner
from reqpool.serving.recite import LETTERS, Recite
from reqpool.serving.requests import Request, no_fact
from reqpool.serving.scheduler import Entry
from reqpool.trace import Trace, record


@dataclass(frozen=True, eq=False)
class Run:
    """What an experiment came to.

    Attributes:
        recording: every step, with the recited texts as facts; None for a run that was not recorded.
        recited, expected: letters, by rid.
    """

    recording: Trace | None
    recited: dict[str, str]
    expected: dict[str, str]

    @property
    def trace(self) -> Trace:
        """The recording of a run that has one.

        Raises:
            RuntimeError: it ran with `recorded=False`.
        """
        if self.recording is None:
            raise RuntimeError("this run has no trace: it ran with recorded=False")
        return self.recording

    @property
    def wrong(self) -> dict[str, list[int]]:
        """The wrong letters of each request that has some: indices into what it recited."""
        found = {rid: wrong_letters(text, self.expected[rid]) for rid, text in self.recited.items()}
        return {rid: indices for rid, indices in found.items() if indices}


def wrong_letters(text: str, expected: str) -> list[int]:
    return [i for i, (said, wanted) in enumerate(zip(text, expected, strict=False)) if said != wanted]


# ---- padding row -----------------------------------------------------------------------------------------------------


class LastRowPadding(ReqToTokenPool):
    """Rows 0..size-1 are requests', the last row is the padding row (mini-sglang, LightLLM)."""

    def __init__(self, size: int, max_context_len: int, device: str = "cpu", reuse: str = "fifo") -> None:
        super().__init__(size, max_context_len, device, reuse=reuse)
        self.padding_row = self.size

    def _usable_rows(self) -> range:
        return range(self.size)


PADDING = {  # where dummy entries point: the pool, and what the runner is told
    "row 0": (ReqToTokenPool, {}),
    "off: row 0 is a request's": (NoPaddingRow, {}),
    "last row": (LastRowPadding, {}),
    "none, slot -1": (NoPaddingRow, {"dummy_slot": -1, "dummy_len": 0}),  # vLLM's: they read and store nothing
}
WRITES = {  # what the step writes for its dummy entries, besides K and V: what the runner is told
    "nothing but slot 0 (SGLang)": {"writes": "slot"},
    "the cell [row, seq_len - 1] (LightLLM)": {"writes": "cell"},
    "the length, with += (FluentLLM)": {"writes": "length"},
    "the length, with index_add_": {"writes": "length", "accumulate": True},
}
PROMPTS = {"a": "xyz", "b": "klm", "c": "pqr", "d": "uvw"}


@dataclass(frozen=True, eq=False)
class PaddingRun(Run):
    """
    Attributes:
        dummies: (row, length, slot) -> how many dummy entries of the last step carried it.
    """

    dummies: Dummies


def padding(
    where: str = "row 0",
    live: int = 2,
    graph_size: int = 4,
    writes: str = "cell",
    accumulate: bool = False,
    max_new_tokens: int = 9,
    recorded: bool = True,
) -> PaddingRun:
    """`live` requests of period 3 decode in a graph of `graph_size`; `writes` as in `GraphRunner`.

    >>> padding("row 0").wrong, padding("off: row 0 is a request's").recited["a"]
    ({}, 'x·zx·zx·z')
    """
    pool_class, dummy = PADDING[where]
    pool = pool_class(4, 3 + max_new_tokens, "cpu")
    runner = {"graph_sizes": (graph_size,), "writes": writes, "accumulate": accumulate, **dummy}
    runner["padding_row"] = pool.padding_row or 0  # where nobody owns it, and where a request does
    if writes == "cell":
        runner["dummy_len"] = 2  # LightLLM's dummies
    with _one_thread(), _recorded(pool, 4 * pool.max_context_len, recorded=recorded) as stage:
        stage.engine.runner = GraphRunner(pool, stage.engine.model, on_fact=stage.emit, **runner)
        reqs = [
            stage.engine.add(Request(rid, prompt=PROMPTS[rid], max_new_tokens=max_new_tokens)) for rid in "abcd"[:live]
        ]
        stage.play(reqs)
    run = stage.run(reqs)
    return PaddingRun(run.recording, run.recited, run.expected, stage.engine.runner.dummies(graph_size))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors this small take four times as long when torch's threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=64)
def verdicts(live: int = 2, graph_size: int = 4) -> dict[tuple[str, str], dict[str, list[int]]]:
    """The wrong letters for each of WRITES and each of PADDING. Each is run, unrecorded.

    >>> any(verdicts(live=4).values())  # a full batch has no dummy entry
    False
    """
    return {
        (writes, where): padding(where, live, graph_size, **told, recorded=False).wrong
        for writes, told in WRITES.items()
        for where in PADDING
    }


def stale_tail(refresh_tail: bool = False) -> Run:
    """Four decode, then c and d end: with `refresh_tail=False` their rows and slots stay in the buffers as dummies'.

    c's slots go to e at once, in the order of c's row. Row 0 is the padding row, and nothing but K and V is written.

    >>> stale_tail(refresh_tail=True).wrong, stale_tail().recited["e"]
    ({}, 'efgp')
    """
    pool = ReqToTokenPool(4, 11, "cpu")
    c, d = Request("c", prompt="pqr", max_new_tokens=2), Request("d", prompt="tuvwstuvw", max_new_tokens=2)
    with _one_thread(), _recorded(pool, num_slots=24, budget=32) as stage:
        runner = {"graph_sizes": (4,), "refresh_tail": refresh_tail, "on_fact": stage.emit}
        stage.engine.runner = GraphRunner(pool, stage.engine.model, **runner)
        reqs = [*(Request(rid, prompt=PROMPTS[rid], max_new_tokens=6) for rid in "ab"), c, d]
        for req in reqs:
            stage.engine.add(req)
        for _ in range(2):
            stage.step(reqs)
        reqs.append(stage.engine.add(Request("e", prompt="efgh", max_new_tokens=4)))
        stage.play(reqs)
    return stage.run(reqs)


def replayed(pool_class: type[ReqToTokenPool] = ReqToTokenPool, device: str = "cpu", num_steps: int = 8) -> str:
    """What request a recites when two requests decode in a graph of four, with no engine around the graph runner.

    On a GPU the step is captured once and replayed. The step writes a cell for every entry, as LightLLM's does.

    >>> replayed(), replayed(NoPaddingRow)
    ('xyzxyzxyz', 'x·zx·zx·z')
    """
    pool, period = pool_class(4, 3 + num_steps, device), 3
    model = Recite(64, pool.max_context_len, pool.device)
    runner = GraphRunner(pool, model, (4,), writes="cell", dummy_len=2)
    rows = torch.tensor(pool.alloc_rows(2), device=pool.device)
    slots = iter(range(1, 65))

    def append() -> None:
        for row in rows.tolist():
            pool.append(row, [next(slots)])

    prompts = torch.stack([model.tokens(PROMPTS[rid]) for rid in "ab"], dim=1)  # [3, 2]
    for position, tokens in enumerate(prompts):
        append()
        model.write(pool.req_to_token[rows, position].long(), torch.full_like(rows, position), tokens)
    pool.verify(rows, period)
    said, tokens = [LETTERS[prompts[0, 0]]], prompts[0]
    for position in range(period, period + num_steps):
        append()
        at = torch.full_like(rows, position)
        said.append(runner.run(rows, at, tokens, at + 1 - period)[0])
        tokens = runner.out[:2].clone()
    return "".join(said)


# ---- reset on reuse --------------------------------------------------------------------------------------------------

LANDINGS = (
    "before the free",
    "after the free",
    "after c's step",
    "after b's alloc",
    "after b's step",
    "one step later",
)


@dataclass(frozen=True, eq=False)
class LateRun(Run):
    """
    Attributes:
        row: the row that a's late step was launched on.
        owner: whose row that was when the step landed: a rid, or "" for a free row; None: it never landed.
        reused: at that moment the row had been handed out again.
        chain: from the late length to the wrong letter, in one sentence; empty where nobody is wrong.
    """

    row: int
    owner: str | None
    reused: bool
    chain: str = ""


def late(
    landing: int | str | None = 1,
    late_len: int = 8,
    reset: bool = True,
    generation: bool = False,
    fence: bool = False,
    reuse: str = "fifo",
    size: int = 3,
    recorded: bool = True,
) -> LateRun:
    """Request a's last forward step is late: `verified_lens[row] += late_len` lands at LANDINGS[landing].

    a and e run; a is aborted while its step is under way; c comes and gets the slots that a had; e ends; b comes.
    Whether b gets a's row, or c, or nobody, is up to the order of reuse and the size of the pool. The trace begins when
    a's last step is launched, and every event lies in a lane. Only the length of that step comes late: its slots are
    left out, so a verified length may lie beyond the alloced one.

    Args:
        landing: one of LANDINGS, or its index; None: it never lands.
        reset, generation, fence: the safeguards. With the fence, free waits for the step that uses the row.

    >>> at = "after the free"
    >>> late(at).wrong, list(late(at, reset=False).wrong), list(late("after b's alloc").wrong)
    ({}, ['c'], ['c'])
    """
    landing = LANDINGS.index(landing) if isinstance(landing, str) else landing
    pool = (ReqToTokenPool if reset else NoResetOnReuse)(size, 24, "cpu", reuse=reuse)
    a, e = Request("a", prompt="abcdefghijkl", max_new_tokens=12), Request("e", prompt="efghijklmnop", max_new_tokens=8)
    c, b = Request("c", prompt="klmnopqrstuv", max_new_tokens=12), Request("b", prompt="xyzw", max_new_tokens=6)
    with _one_thread(), _recorded(pool, 29, budget=32, runner={"graph_sizes": (4,)}, recorded=recorded) as stage:
        engine, emit = stage.engine, stage.emit
        for req in (a, e):
            engine.add(req)
        for _ in range(3):
            stage.step([a, e])
        begin = len(stage.trace) if stage.trace is not None else 0
        row = row_of(a)
        launched = int(pool.generation[row])
        text = f"request a's next step, of {_tokens(late_len)}, is launched on row {row}, generation {launched}"
        emit("note", rid="a", rows=[row], text=text)
        owner, reused = None, False

        def land(point: int) -> None:
            nonlocal owner, reused
            if landing is None or point != (0 if fence else landing):
                return
            holder, now = pool.holders.get(row), int(pool.generation[row])
            owner, reused = holder.rid if holder else "", now != launched
            if generation and reused:
                owner = None
                text = f"the late step was launched on generation {launched} of row {row}, which is {now} now: dropped"
                emit("note", rid="a", rows=[row], text=text, lane="forward")
                return
            pool.verified_lens[row] += late_len
            emit("late_write" if point else "verify", rid="a", rows=[row])

        text = f"request a is aborted{': the fence lets its row be freed when that step is done' if fence else ''}"
        emit("retract", rid="a", rows=[row], text=text)
        land(0)
        engine.scheduler.abort(a)
        land(1)
        engine.add(c)
        stage.step([e, c])
        engine.scheduler.abort(e)
        land(2)
        engine.add(b)
        batch = engine.scheduler.next_batch()
        land(3)
        stage.finish(batch, [c, b])
        land(4)
        stage.step([c, b])
        land(5)
        stage.play([c, b])
    run = stage.run([c, b])
    trace, chain = (None, "")
    if stage.trace is not None:
        periods = {req.rid: req.prompt_len for req in (c, b)}
        trace, chain = explained(stage.trace, begin, Recital(run.recited, run.expected, periods))
    return LateRun(trace, run.recited, run.expected, row, owner, reused, chain)


def _tokens(n: int) -> str:
    return f"{n} token{'' if n == 1 else 's'}"


Safeguards = tuple[bool, bool, bool]  # reset, generation, fence


def outcomes(late_len: int = 8, reuse: str = "fifo", size: int = 3) -> dict[Safeguards, list[str]]:
    """Who recites wrongly, for every combination of (reset, generation, fence) and every landing: "b + c", "nobody".

    Each is run, unrecorded, once: with the fence every landing is the one before the free, since free waits; and a step
    that the generation check drops is one that never lands.

    >>> outcomes()[True, False, False]
    ['nobody', 'nobody', 'nobody', 'c', 'b', 'b']
    """
    found = {}
    for reset, (*landed, dropped) in _landings(late_len, reuse, size).items():
        for generation, fence in product((False, True), repeat=2):
            runs = [landed[0] if fence else dropped if generation and run.reused else run for run in landed]
            found[reset, generation, fence] = [" + ".join(sorted(run.wrong)) or "nobody" for run in runs]
    return found


def owners(late_len: int = 8, reuse: str = "fifo", size: int = 3) -> list[str]:
    """Whose row the late step finds, for every landing: a rid, or "" while it is free.

    >>> owners(), owners(reuse="lifo")
    (['a', '', '', 'b', 'b', 'b'], ['a', '', 'c', 'c', 'c', 'c'])
    """
    return [run.owner for run in _landings(late_len, reuse, size)[True] if run.owner is not None]


@lru_cache(maxsize=64)
def _landings(late_len: int, reuse: str, size: int) -> dict[bool, list[LateRun]]:
    """With and without the reset: a run for every landing, and last the run in which the step never lands.

    The first and the last are one run each: the free zeroes what landed before it, and leaves nothing to be reset.
    """

    def run(at: int | None, reset: bool = False) -> LateRun:
        return late(at, late_len, reset, reuse=reuse, size=size, recorded=False)

    first, never, later = run(0), run(None), range(1, len(LANDINGS))
    return {reset: [first, *(run(at, reset) for at in later), never] for reset in (False, True)}


# ---- chunked prefill -------------------------------------------------------------------------------------------------


def chunks(
    prompt_len: int = 12, chunk_size: int = 4, budget: int = 6, mixed: bool = True, freed_between: bool = False
) -> Run:
    """A short request runs, a long prompt comes in chunks, and another short one wants a row meanwhile.

    >>> chunks().wrong, list(chunks(freed_between=True).wrong)
    ({}, ['long', 'other'])
    """
    pool = (FreedBetweenChunks if freed_between else ReqToTokenPool)(4, max(11, prompt_len + 4), "cpu")
    letters = "abcdefghijklmnopqrstuvwxyz"
    reqs = [
        Request("short", prompt="xyz", max_new_tokens=8),
        Request("long", prompt=letters[:prompt_len], max_new_tokens=4),
        Request("other", prompt="klm", max_new_tokens=6),
    ]
    scheduling = {"chunk_size": chunk_size, "budget": budget, "mixed": mixed}
    runner = {"graph_sizes": (1, 2, 3)}  # no dummy entries: those are another experiment
    with _recorded(pool, num_slots=3 * pool.max_context_len, runner=runner, **scheduling) as stage:
        for req in reqs:
            stage.engine.add(req)
            stage.step(reqs)
        stage.play(reqs)
    return stage.run(reqs)


# ---- the stage -------------------------------------------------------------------------------------------------------


class _Stage:
    """An engine that steps, and is recorded while it does (or not, where only the letters count)."""

    def __init__(self, engine: Engine, trace: Trace | None, emit: Callable[..., None]) -> None:
        self.engine, self.trace, self.emit = engine, trace, emit
        self.num_steps = 0

    def step(self, reqs: Iterable[Request]) -> bool:
        if self.trace is not None:
            self.trace.step = self.num_steps + 1  # what the schedule lane launches is part of the step
        batch = self.engine.scheduler.next_batch()
        self.finish(batch, reqs)
        return bool(batch)

    def finish(self, batch: list[Entry], reqs: Iterable[Request]) -> None:
        """The forward lane's part of a step, its results, and what everybody has recited by then."""
        self.num_steps += 1
        if self.trace is not None:
            self.trace.step = self.num_steps
        before = {req.rid: req.output for req in reqs}
        self.engine.scheduler.process(batch, self.engine.forward(batch))
        said = [req for req in reqs if req.output != before[req.rid]]
        if not batch:
            return
        words = ", ".join(f"{req.rid} recites {req.output[-1]}" for req in said) or "no letter comes out yet"
        texts = [(req.rid, req.output, wrong_letters(req.output, req.expected)) for req in reqs if req.output]
        wrong = [rid for rid, text, indices in texts if any(i >= len(before[rid]) for i in indices)]  # now, not before
        odd = f" ({' and '.join(wrong)}: wrong)" if wrong else ""
        self.emit("note", text=f"engine step {self.num_steps}: {words}{odd}", texts=texts)

    def play(self, reqs: Iterable[Request]) -> None:
        for _ in range(100):
            if not self.step(reqs):
                return
        raise RuntimeError("the experiment did not come to an end")

    def run(self, reqs: Iterable[Request]) -> Run:
        return Run(self.trace, {req.rid: req.output for req in reqs}, {req.rid: req.expected for req in reqs})


@contextmanager
def _recorded(
    pool: ReqToTokenPool, num_slots: int, budget: int = 16, recorded: bool = True, **settings: Any
) -> Iterator[_Stage]:
    with record(pool) if recorded else nullcontext() as trace:
        emit = trace.emit if trace is not None else no_fact
        yield _Stage(Engine(pool, num_slots, budget=budget, tolerant=True, on_fact=emit, **settings), trace, emit)
