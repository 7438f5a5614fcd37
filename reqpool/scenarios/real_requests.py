"""The two experiments on requests as they really came: lengths and arrivals of a stream, made small enough to read.

    a request of the stream      7.2 s    prompt 1,020 tokens    output 129 tokens
    divided by                   0.096    128                    16
    what runs here               step 75  prompt 8 letters       output 9 letters

The order of the requests is the stream's, their letters are drawn with a seed. Outputs are divided by 16, so one engine
step stands for 16 steps of a real engine, of 6 ms each (`step_seconds`): the load, in requests at a time, stays what it
was. The engine, the pool, K and V and the attention are the real ones of this package.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reqpool.faulty import NoPaddingRow, NoResetOnReuse
from reqpool.pool import ReqToTokenPool
from reqpool.scenarios.experiments import _one_thread, wrong_letters
from reqpool.serving.counts import step_seconds
from reqpool.serving.engine import Engine
from reqpool.serving.recite import LETTERS
from reqpool.serving.requests import Request
from reqpool.serving.scheduler import Entry
from reqpool.workloads import Stream

PROMPT_DIVISOR, OUTPUT_DIVISOR = 128, 16
PROMPT_LETTERS, OUTPUT_LETTERS = (2, 12), (1, 24)  # clipped to these
CONTEXT = PROMPT_LETTERS[1] + OUTPUT_LETTERS[1]
STEP_S = OUTPUT_DIVISOR * step_seconds(1)  # one step here, in the stream's seconds


def small_requests(arrivals: Stream, seed: int = 0) -> list[Request]:
    """The stream's requests in its order, divided, rounded up and clipped; `arrival` counts engine steps.

    >>> from reqpool.workloads import Arrival
    >>> (one,) = small_requests(Stream("one", (Arrival(0.0, 1020, 129),)))
    >>> one.prompt_len, one.max_new_tokens, one.arrival
    (8, 9, 0)
    """
    rng = random.Random(seed)
    made = []
    for number, one in enumerate(arrivals):
        prompt_len = _clipped(one.prompt_len, PROMPT_DIVISOR, *PROMPT_LETTERS)
        output_len = _clipped(one.output_len, OUTPUT_DIVISOR, *OUTPUT_LETTERS)
        prompt = "".join(rng.choices(LETTERS[1:], k=prompt_len))
        made.append(Request(str(number), prompt=prompt, max_new_tokens=output_len, arrival=int(one.time_s / STEP_S)))
    return made


def _clipped(length: int, divisor: int, least: int, most: int) -> int:
    return max(least, min(most, -(-length // divisor)))


@dataclass(frozen=True, eq=False)
class Served:
    """What a run came to.

    Attributes:
        label: the stream's, which says whether it is a real one.
        requests: as they ended, in order of arrival.
        batches: requests in a decode step -> how many steps had so many.
        num_padded: how many of these steps had dummy entries.
        num_retracted: how often a request was taken off and came again.
        landed: late steps, whose row was no longer their request's: ("between" free and alloc or "after" the next
            alloc, tokens) -> how many.
        had_row_0: the requests that did.
        touched: the requests whose row somebody else wrote into: a cell of it, or the length from which they start.
        found: for the first wrong letter of each: how many K of the position it looks for are in its row.
    """

    label: str
    requests: Sequence[Request]
    batches: Mapping[int, int]
    num_padded: int
    num_retracted: int
    landed: Mapping[tuple[str, int], int]
    had_row_0: frozenset[str]
    touched: frozenset[str]
    found: Mapping[str, int]

    @property
    def wrong(self) -> dict[str, list[int]]:
        """The wrong letters of each request that has some: indices into what it recited."""
        found = {req.rid: wrong_letters(req.output, req.expected) for req in self.requests}
        return {rid: indices for rid, indices in found.items() if indices}

    @property
    def num_decode_steps(self) -> int:
        return sum(self.batches.values())

    @property
    def marks(self) -> list[str]:
        """A word for each request, in order of arrival: "wrong", "touched" or "right"."""
        wrong = self.wrong
        return [
            "wrong" if req.rid in wrong else "touched" if req.rid in self.touched else "right" for req in self.requests
        ]

    def longest_wrong(self) -> Request:
        """The wrong request that has recited most: the one in which the damage is read best."""
        return max((req for req in self.requests if req.rid in self.wrong), key=lambda req: req.output_len)


# ---- the two experiments ---------------------------------------------------------------------------------------------


def padding_runs(arrivals: Stream) -> dict[str, Served]:
    """Eight rows, batches padded to 1, 2, 4 or 8, and a step that writes a cell for its dummies, as LightLLM's does.

    Without the padding row once more with a graph for every batch size: then there is no dummy entry.
    """
    padded, exact = (1, 2, 4, 8), tuple(range(1, 9))
    variants = {
        "padding row": (ReqToTokenPool, padded),
        "no padding row": (NoPaddingRow, padded),
        "no padding row, full batches": (NoPaddingRow, exact),
    }
    return {
        name: serve(
            arrivals,
            pool_class(8, CONTEXT, "cpu"),
            num_slots=9 * CONTEXT,
            runner={"graph_sizes": sizes, "writes": "cell", "dummy_len": 2},
        )
        for name, (pool_class, sizes) in variants.items()
    }


def late_runs(arrivals: Stream) -> dict[str, Served]:
    """Eight rows, last in first out, 64 slots: both are scarce. The forward lane is one step late.

    A request's end is known when its result comes, and its next step is launched by then: each leaves one late step. So
    does a retraction.
    """
    variants = {
        "reset and generation check": (ReqToTokenPool, True),
        "reset on reuse alone": (ReqToTokenPool, False),
        "generation check alone": (NoResetOnReuse, True),
    }
    return {
        name: serve(
            arrivals,
            pool_class(8, CONTEXT, "cpu", reuse="lifo"),
            num_slots=64,
            overlap=True,
            generation_check=check,
            runner={"graph_sizes": (1, 2, 4, 8)},
        )
        for name, (pool_class, check) in variants.items()
    }


def told_of_stand_in(arrivals: Stream) -> str:
    """In bold, where the requests are not the real ones; else nothing.

    >>> from reqpool.workloads import synthetic
    >>> told_of_stand_in(synthetic()).startswith("**These requests are synthetic")
    True
    """
    if not arrivals.label.startswith("synthetic"):
        return ""
    return (
        "**These requests are synthetic: the file of the Azure trace is not on this machine.** "
        "Their lengths are drawn from its percentiles, and they arrive at its rate."
    )


def told_of_padding(runs: Mapping[str, Served]) -> str:
    """What `padding_runs` came to, a line each; the label of the stream first."""
    first = next(iter(runs.values()))
    lines = [f"{first.label}. {first.num_decode_steps} decode steps."]
    for name, run in runs.items():
        not_full = f"{run.num_padded} steps were not full" if run.num_padded else "every step was full"
        met = f"{len(run.had_row_0)} requests had row 0" if run.had_row_0 else "no request had row 0"
        written = f", dummy entries wrote into it under {len(run.touched)} of them" if run.touched else ""
        lines.append(f"**{name}**: {not_full}; {met}{written}; {_recite_wrongly(run)}.")
    return "\n".join(lines)


def told_of_late(runs: Mapping[str, Served]) -> str:
    """What `late_runs` came to, a line each; the label of the stream first."""
    first = next(iter(runs.values()))
    landed = {where: sum(n for (at, _), n in first.landed.items() if at == where) for where in ("between", "after")}
    one = sum(n for (_, tokens), n in first.landed.items() if tokens == 1)
    lines = [
        f"{first.label}. {first.num_retracted} retractions, {sum(landed.values())} late steps, {one} of them of one "
        f"token: {landed['between']} found their row free, {landed['after']} found it handed out again."
    ]
    for name, run in runs.items():
        started = f"{len(run.touched) or 'no'} requests started at a wrong position"
        others = len(run.wrong.keys() - run.touched)
        third = f", {others} of them without a wrong start of their own" if others else ""
        lines.append(f"**{name}**: {started}; {_recite_wrongly(run)}{third}.")
    return "\n".join(lines)


def _recite_wrongly(run: Served) -> str:
    num = len(run.wrong)
    return f"{num} recite{'' if num > 1 else 's'} wrongly" if num else "nobody recites wrongly"


def serve(arrivals: Stream, pool: ReqToTokenPool, num_slots: int, **settings: Any) -> Served:
    """Run the stream's small requests to their end; `settings` as in `Engine`."""
    reqs = small_requests(arrivals)
    coming, now = deque(reqs), 0
    with _one_thread():
        engine = _Watched(pool, num_slots, tolerant=True, **settings)
        while coming:
            while coming and coming[0].arrival <= now:
                engine.add(coming.popleft())
            engine.step()
            now += 1
        engine.run()
    return Served(
        arrivals.label,
        reqs,
        dict(sorted(engine.batches.items())),
        engine.facts["pad_read"],
        engine.scheduler.num_retracted,
        dict(engine.landed),
        frozenset(engine.had_row_0),
        frozenset(engine.touched),
        engine.found,
    )


class _Watched(Engine):
    """An engine that is looked at; it does nothing else than `Engine`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, on_fact=self._hear, **kwargs)
        self.facts: Counter[str] = Counter()
        self.batches: Counter[int] = Counter()
        self.landed: Counter[tuple[str, int]] = Counter()
        self.had_row_0: set[str] = set()
        self.touched: set[str] = set()
        self.found: dict[str, int] = {}

    def _hear(self, kind: str, rows: Sequence[int] = (), **_: Any) -> None:
        self.facts[kind] += 1
        if kind == "pad_write":
            self.touched.update(self.pool.holders[row].rid for row in rows if row in self.pool.holders)

    def forward(self, entries: list[Entry]) -> dict[int, str]:
        for entry in entries:
            self._look_before(entry)
        decodes = sum(entry.kind == "decode" for entry in entries)
        if decodes:
            self.batches[decodes] += 1
        letters = super().forward(entries)
        for i, letter in letters.items():
            self._look_after(entries[i], letter)
        return letters

    def _look_before(self, entry: Entry) -> None:
        if not self.scheduler.concerns(entry):
            same = int(self.pool.generation[entry.row]) == entry.generation
            self.landed["between" if same else "after", entry.num_tokens] += 1
            return
        if entry.row == 0:
            self.had_row_0.add(entry.req.rid)
        if int(self.pool.verified_lens[entry.row]) != entry.start:
            self.touched.add(entry.req.rid)

    def _look_after(self, entry: Entry, letter: str) -> None:
        """A wrong letter: which K of the position that was looked for does the row lead to?"""
        req, index = entry.req, entry.req.output_len
        known = req.rid in self.found or index >= req.max_new_tokens or not self.scheduler.concerns(entry)
        if known or letter == req.expected[index]:
            return
        end = int(self.pool.verified_lens[entry.row])
        slots = self.pool.req_to_token[entry.row, :end].long()
        k, _ = self.model.cache.read(0, slots)
        sought = end - req.prompt_len
        inside = 0 <= sought < self.model.width
        self.found[req.rid] = int((k[:, 0, sought] > 0).sum()) if inside else 0
