"""Thousands of random schedules in small worlds: whatever happens to a request, it recites its own text, or ends early.

The laws are looked up in the tensors after every step: rows and slots add up, every K and V that counts as known good
is that of its own position and letter, the two zeros belong to nobody, the counters are those of the steps in flight.
Then one safeguard at a time is taken out, and some random run must fail: so these runs can see.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqpool.faulty import CounterOnly, FreedBetweenChunks, NoPaddingRow, NoResetOnReuse
from reqpool.pool import ReqToTokenPool
from reqpool.serving import LETTERS, Engine, Entry, Request

MOST_STEPS = 600  # far more than any of these worlds needs: beyond it somebody waits for ever


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine made these small tensors ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- a world -----------------------------------------------------------------------------------------------------

Pick = Callable[[int, int], int]  # a number of low..high: from a seeded generator, or from Hypothesis, which shrinks it


@dataclass(frozen=True)
class World:
    size: int
    context: int
    num_slots: int
    reuse: str
    scheduling: dict[str, Any]  # budget, chunk_size, mixed
    overlap: bool
    runner: dict[str, Any]
    requests: tuple[tuple[int, str, int], ...]  # when it arrives, its prompt, its output limit
    acts: tuple[tuple[int, str, int], ...]  # at which step, abort or retract or both, which request


def a_world(pick: Pick) -> World:
    size, context = pick(1, 5), pick(12, 24)
    letters = LETTERS[1:] if pick(0, 2) else "ab" * 13
    order = sorted(range(26), key=lambda _: pick(0, 99))
    requests, used = [], 0
    for _ in range(pick(1, 5)):
        prompt_len = pick(1, 5 if pick(0, 4) else context - 1)
        output_len = pick(1, min(context - prompt_len, 9))
        prompt = "".join(letters[order[(used + i) % 26]] for i in range(prompt_len))
        requests.append((pick(0, 12), prompt, output_len))
        used += prompt_len
    needs = [len(prompt) + output_len for _, prompt, output_len in requests]
    writes = ("slot", "cell", "length")[pick(0, 2)]
    sizes = ((size,), (1, 2, 4, 8), (8,), tuple(range(1, size + 1)), (1, 2))[pick(0, 4)]
    acts = tuple(
        (pick(0, 16), ("abort", "retract", "both")[pick(0, 2)], pick(0, len(requests) - 1)) for _ in range(pick(0, 3))
    )
    return World(
        size=size,
        context=context,
        num_slots=max(needs) + (0, 2, 6, sum(needs))[pick(0, 3)],
        reuse=("fifo", "lifo")[pick(0, 1)],
        scheduling={
            "budget": pick(1, 9),
            "chunk_size": pick(1, 5) if pick(0, 2) else None,
            "mixed": bool(pick(0, 1)),
        },
        overlap=bool(pick(0, 1)),
        runner={
            "graph_sizes": sizes,
            "writes": writes,
            "dummy_len": 2 if writes == "cell" else 1,
            "accumulate": bool(pick(0, 1)),
            "dummy_slot": -1 if writes != "cell" and not pick(0, 5) else 0,
        },
        requests=tuple(requests),
        acts=acts,
    )


def the_world(seed: int) -> World:
    return a_world(random.Random(seed).randint)


@dataclass
class Run:
    """A world while it is played: the engine, who has come, and the batches that were launched."""

    world: World
    engine: Engine
    reqs: list[Request] = field(default_factory=list)
    batches: list[list[Entry]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, world: World, pool_class: type[ReqToTokenPool] = ReqToTokenPool, **changed: Any) -> Run:
        pool = pool_class(world.size, world.context, device="cpu", reuse=world.reuse)
        settings = {"overlap": world.overlap, "runner": world.runner, **world.scheduling, **changed}
        run = cls(world, Engine(pool, world.num_slots, **settings))
        run.reqs = [
            Request(f"r{i}", prompt=prompt, max_new_tokens=limit, arrival=arrival)
            for i, (arrival, prompt, limit) in enumerate(world.requests)
        ]
        launch = run.engine.scheduler.next_batch

        def next_batch() -> list[Entry]:
            run.batches.append(launch())
            return run.batches[-1]

        run.engine.scheduler.next_batch = next_batch
        return run

    def play(self, look: Callable[[Run], None] = lambda run: None) -> None:
        waiting_to_come = sorted(self.reqs, key=lambda req: req.arrival)
        for step in range(MOST_STEPS):
            while waiting_to_come and waiting_to_come[0].arrival <= step:
                self.engine.add(waiting_to_come.pop(0))
            for when, act, which in self.world.acts:
                if when == step and self.reqs[which] not in waiting_to_come:
                    self.act(act, self.reqs[which])
            worked = self.engine.step()
            look(self)
            if not worked and not waiting_to_come:
                return
        raise AssertionError(f"not done after {MOST_STEPS} steps")

    def act(self, act: str, req: Request) -> None:
        in_flight = any(entry.req is req for batch in self.engine.queue for entry in batch) and not req.ended
        if act != "abort" and req.state in ("prefilling", "running"):
            self.seen[f"retraction of a {req.state} request"] += 1
            self.seen["retraction in flight"] += in_flight
            self.engine.scheduler.retract(req)
        if act != "retract":
            self.seen[f"abort of a {req.state} request"] += 1
            self.seen["abort in flight"] += in_flight
            self.engine.scheduler.abort(req)

    def recited(self) -> bool:
        """Whoever finished said its own text, and whoever was aborted had begun to."""
        return all(
            req.output == req.expected if req.state == "finished" else req.expected.startswith(req.output)
            for req in self.reqs
        )


# ---- the laws ----------------------------------------------------------------------------------------------------


def look_at_the_step(run: Run) -> None:
    """A batch keeps to its limits, and nobody is forgotten."""
    settings, batch = run.world.scheduling, run.batches[-1]
    prefills = [entry for entry in batch if entry.kind == "prefill"]
    assert sum(entry.num_tokens for entry in batch) <= settings["budget"]
    assert all(entry.num_tokens >= 1 for entry in batch)
    assert all(entry.num_tokens <= (settings["chunk_size"] or settings["budget"]) for entry in prefills)
    assert settings["mixed"] or not prefills or len(prefills) == len(batch)
    assert len({id(entry.req) for entry in batch}) == len({entry.row for entry in batch}) == len(batch)
    assert sum(not entry.last for entry in batch) <= 1
    engine = run.engine
    added = [req for req in run.reqs if req.rid in engine.scheduler.rids]
    assert batch or engine.scheduler.idle or run.batches[-2:-1] not in ([], [[]]), "waits with nothing in flight"
    places = Counter(map(id, [*engine.scheduler.waiting, *engine.scheduler.running]))
    places.update([id(engine.scheduler.chunked)] if engine.scheduler.chunked else [])
    assert places == Counter(id(req) for req in added if not req.ended)
    assert len(engine.queue) <= (1 if run.world.overlap else 0)


def look_at_the_counters(run: Run) -> None:
    """`inflight_middle_chunks` and the lengths are those of the steps launched; the device is behind by the queue."""
    engine, pool = run.engine, run.engine.pool
    flying = [entry for batch in engine.queue for entry in batch if engine.scheduler.concerns(entry)]
    for req in run.reqs:
        row, mine = req.req_pool_idx, [entry for entry in flying if entry.req is req]
        assert (row is not None) == (req.state in ("prefilling", "running"))
        assert req.inflight_middle_chunks == sum(not entry.last for entry in mine)
        assert req.kv_committed_len == req.computed_len == (0 if row is None else int(pool.alloced_lens_cpu[row]))
        assert req.expected.startswith(req.output)
        if row is not None:
            assert int(pool.verified_lens[row]) == req.kv_committed_len - sum(entry.num_tokens for entry in mine)


def look_at_the_tensors(run: Run) -> None:
    """Rows and slots add up; no slot is in two rows; what is known good is one's own; the zeros are nobody's."""
    engine, pool = run.engine, run.engine.pool
    pool.check()
    engine.slots.check()
    assert {row: req.rid for row, req in pool.holders.items()} == {
        req.req_pool_idx: req.rid for req in run.reqs if req.req_pool_idx is not None
    }
    live: list[int] = []
    for row, req in pool.holders.items():
        slots = pool.req_to_token[row, : int(pool.alloced_lens_cpu[row])]
        good = slots[: int(pool.verified_lens[row])]
        live += slots.tolist()
        k, v = (tensor[:, 0].argmax(-1).tolist() for tensor in engine.model.cache.read(0, good))
        assert k == list(range(len(good)))
        assert "".join(LETTERS[token] for token in v) == req.text[: len(good)]
    assert 0 not in live and len(set(live)) == len(live) == engine.slots.size - engine.slots.available_size()
    assert not pool.req_to_token[0].any()
    assert run.world.runner["writes"] == "length" or int(pool.verified_lens[0]) == 0


def look(run: Run) -> None:
    look_at_the_step(run)
    look_at_the_counters(run)
    look_at_the_tensors(run)


def everything_holds(world: World) -> Run:
    run = Run.of(world)
    run.play(look)
    engine = run.engine
    assert run.recited()
    to_be_aborted = {which for _, act, which in world.acts if act != "retract"}
    assert all(req.state == "finished" for i, req in enumerate(run.reqs) if i not in to_be_aborted)
    assert all(req.ended for req in run.reqs)
    assert engine.scheduler.idle and not engine.queue
    assert engine.pool.available_size() == world.size and engine.slots.available_size() == world.num_slots
    return run


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_random_schedules_recite_exactly(part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        try:
            everything_holds(the_world(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {the_world(seed)}") from error


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_schedules_recite_exactly_and_shrink(data: st.DataObject) -> None:
    everything_holds(a_world(lambda low, high: data.draw(st.integers(low, high))))


def test_the_random_worlds_are_worth_playing() -> None:
    """A suite in which nothing is ever retracted in flight would prove nothing about it."""
    seen: Counter[str] = Counter()
    for seed in range(300):
        run = Run.of(the_world(seed))
        run.play()
        seen += run.seen
        seen["retracted for lack of slots"] += run.engine.scheduler.num_retracted - sum(
            n for what, n in run.seen.items() if what.startswith("retraction of")
        )
        entries = [entry for batch in run.batches for entry in batch]
        seen["middle chunks"] += sum(not entry.last for entry in entries)
        seen["resumed"] += sum(entry.kind == "prefill" and entry.start == 0 for entry in entries) > len(run.reqs)
        seen["prefill and decode in one step"] += sum(
            len({entry.kind for entry in batch}) == 2 for batch in run.batches
        )
        seen["more than the largest graph"] += sum(
            sum(entry.kind == "decode" for entry in batch) > max(run.world.runner["graph_sizes"])
            for batch in run.batches
        )
        seen["a step after the last letter"] += sum(
            entry.kind == "decode" and entry.start >= entry.req.prompt_len + entry.req.max_new_tokens - 1
            for entry in entries
        )
    rare = {what: seen[what] for what in WORTH_SEEING if seen[what] < 3}
    assert not rare, f"too rare to mean anything: {rare} of {dict(seen)}"


WORTH_SEEING = (
    *(f"abort of a {state} request" for state in ("waiting", "prefilling", "running", "retracted", "finished")),
    *(f"retraction of a {state} request" for state in ("prefilling", "running")),
    "abort in flight",
    "retraction in flight",
    "retracted for lack of slots",
    "middle chunks",
    "resumed",
    "prefill and decode in one step",
    "more than the largest graph",
    "a step after the last letter",
)


# ---- the same runs see when a safeguard is missing ---------------------------------------------------------------


def changed_world(seed: int, changed: dict[str, Any]) -> World:
    """Other fields in place of the world's own; `runner` and `scheduling` are merged."""
    world = the_world(seed)
    for name, value in changed.items():
        world = replace(world, **{name: {**getattr(world, name), **value} if isinstance(value, dict) else value})
    return replace(world, acts=tuple(act for act in world.acts if act[2] < len(world.requests)))


def outcome(world: World, **how: Any) -> str:
    run = Run.of(world, **how)
    try:
        run.play()
    except (ValueError, RuntimeError, AssertionError) as error:
        return f"refused: {error}"
    return "right" if run.recited() else "wrong"


# Aborts in flight, and others who come soon after: the late step is then as large as a chunk, and the row not free.
HASTE = {
    "overlap": True,
    "acts": tuple((step, "abort", step // 2 % 4) for step in range(1, 9)),
    "scheduling": {"budget": 9, "chunk_size": None},
}
LAST_CELL = {"runner": {"writes": "cell", "dummy_len": 2, "graph_sizes": (8,)}}
ALL_LENGTHS = {"runner": {"writes": "length", "dummy_len": 1, "graph_sizes": (8,)}}
NOTHING = {"runner": {"writes": "slot", "dummy_len": 1, "graph_sizes": (8,)}}
MUTANTS = {
    "no generation check in overlap": ({**HASTE, "size": 1}, {"generation_check": False}),
    "no reset on reuse in overlap": (HASTE, {"pool_class": NoResetOnReuse}),
    "the row is freed between two chunks": ({}, {"pool_class": FreedBetweenChunks}),
    "no padding row, dummies write their last cell": (LAST_CELL, {"pool_class": NoPaddingRow}),
    "no padding row, dummies raise their length": (
        {"runner": {**ALL_LENGTHS["runner"], "accumulate": True}},
        {"pool_class": NoPaddingRow},
    ),
    "no padding row, dummies raise a row once": (
        {"runner": {**ALL_LENGTHS["runner"], "accumulate": False}},
        {"pool_class": NoPaddingRow},
    ),
    "dummies point at a row that is handed out": (
        {"runner": {**LAST_CELL["runner"], "padding_row": 1}},
        {"pool_class": ReqToTokenPool},
    ),
    "a stale tail raises lengths": ({"runner": {**ALL_LENGTHS["runner"], "refresh_tail": False}}, {}),
    "a stale tail writes K and V": ({"runner": {**NOTHING["runner"], "refresh_tail": False}}, {}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_without_a_safeguard_some_random_run_recites_wrongly(mutant: str) -> None:
    changed, how = MUTANTS[mutant]
    assert any(outcome(changed_world(seed, changed), tolerant=True, **how) == "wrong" for seed in range(150))


def test_a_counter_alone_loses_the_last_chunk() -> None:
    """The counter is 0 then, so `alloc` takes the request for one with nothing to continue, and refuses it."""
    outcomes = (outcome(the_world(seed), pool_class=CounterOnly, tolerant=True) for seed in range(150))
    assert any("nothing to continue" in said for said in outcomes)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_with_all_safeguards_the_hasty_worlds_hold(size: int) -> None:
    for seed in range(40):
        everything_holds(changed_world(seed, {**HASTE, "size": size, "runner": {"graph_sizes": (8,)}}))


HARMLESS = {
    "no padding row, dummies write nothing but slot 0": (NOTHING, {"pool_class": NoPaddingRow}),
    "no generation check without overlap": ({"overlap": False}, {"generation_check": False}),
    "no reset on reuse without overlap": ({"overlap": False}, {"pool_class": NoResetOnReuse}),
    "no padding row, but a full batch": (
        {"size": 1, "runner": {**LAST_CELL["runner"], "graph_sizes": (1,)}},
        {"pool_class": NoPaddingRow},
    ),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_not_needed_can_be_left_out(case: str) -> None:
    """The other half of the verdict: an experiment in which nothing happens must really be one."""
    changed, how = HARMLESS[case]
    assert {outcome(changed_world(seed, changed), **how) for seed in range(60)} == {"right"}
