"""The counts-only run: beside the clock by hand, beside a slow model in plain lists, and beside the run with cells."""

import csv
import os
import random
from pathlib import Path

import pytest
import torch

from reqpool.checked import CheckedPool
from reqpool.pool import ReqToTokenPool
from reqpool.serving import counts
from reqpool.serving.counts import Run, SlotCount, run, step_seconds
from reqpool.workloads import Arrival, Stream, load, synthetic

FIELDS = ("time_s", "step_s", "rows", "slots", "waiting", "retractions", "residence_s")
REAL = os.environ.get("REQPOOL_WORKLOADS")
with_real_files = pytest.mark.skipif(not REAL, reason="REQPOOL_WORKLOADS names no folder of real files")


def arriving(*arrivals: tuple[float, int, int]) -> Stream:
    return Stream("by hand", tuple(Arrival(*one) for one in arrivals))


def pool(size: int, width: int = 64, reuse: str = "fifo") -> ReqToTokenPool:
    return ReqToTokenPool(size, width, device="cpu", reuse=reuse)


def same(one: Run, other: Run) -> bool:
    return one.num_decoded == other.num_decoded and all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS
    )


# ------------------------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(("tokens", "seconds"), [(1, 0.006), (300, 0.006), (301, 0.00602), (5_000, 0.1)])
def test_a_step_takes_6_ms_or_its_tokens_at_50_a_millisecond(tokens: int, seconds: float) -> None:
    assert step_seconds(tokens) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("cells", [False, True])
def test_two_requests_and_one_row(cells: bool) -> None:
    found = run(arriving((0.0, 3, 2), (0.001, 2, 1)), pool(1), 16, cells=cells)
    # step 1: a prefills 3 and says its first token; step 2: b has come and waits, a says its second; step 3: b's turn
    assert found.time_s.tolist() == pytest.approx([0.0, 0.006, 0.012])
    assert (found.rows.tolist(), found.slots.tolist(), found.waiting.tolist()) == ([1, 1, 1], [3, 4, 2], [0, 1, 0])
    assert found.retractions.tolist() == [0, 0, 0]
    assert found.residence_s.tolist() == pytest.approx([0.012, 0.017])
    assert (found.num_decoded, found.num_steps, found.label) == (3, 3, "by hand")


@pytest.mark.parametrize("cells", [False, True])
def test_a_prompt_comes_in_chunks_and_a_long_step_takes_longer(cells: bool) -> None:
    found = run(arriving((0.0, 1_000, 1)), pool(1, 1_001), 2_000, budget=512, cells=cells)
    assert found.step_s.tolist() == pytest.approx([0.01024, 0.00976])  # 512 and 488 tokens
    assert (found.slots.tolist(), found.residence_s.tolist()) == ([512, 1_000], pytest.approx([0.02]))


@pytest.mark.parametrize("cells", [False, True])
def test_slots_run_out_and_who_has_said_least_is_retracted(cells: bool) -> None:
    # 10 slots. In step 4 a wants its 6th and b its 5th, and 9 are taken: b has said less and gives up its 4. It comes
    # back when a, at 8, is through, prefills prompt and output (3 + 2) and says what is left.
    found = run(arriving((0.0, 3, 6), (0.001, 3, 4)), pool(2), 10, cells=cells)
    assert found.slots.tolist() == [3, 7, 9, 6, 7, 8, 5, 6]
    assert found.rows.tolist() == [1, 2, 2, 1, 1, 1, 1, 1]
    assert found.waiting.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]
    assert found.retractions.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert found.residence_s.tolist() == pytest.approx([0.036, 0.047])


def test_mean_and_median_count_the_pauses() -> None:
    found = run(arriving((0.0, 1, 2), (1.0, 1, 1), (1.0, 1, 1)), pool(3), 16)
    assert (found.rows.tolist(), found.span_s) == ([1, 1, 2], pytest.approx(1.006))
    assert found.mean(found.rows) == pytest.approx((2 * 0.006 + 2 * 0.006) / 1.006)
    assert found.median(found.rows) == 0  # nearly always nobody was here


def test_the_median_weighs_steps_by_how_long_they_take() -> None:
    found = run(arriving((0.0, 60, 4), (0.006, 2_000, 1)), pool(2, 2_100), 4_000, budget=4_000)
    assert found.rows.tolist() == [1, 2, 1, 1]
    assert found.step_s.tolist() == pytest.approx([0.006, 2_001 / 50_000, 0.006, 0.006])
    assert found.median(found.rows) == 2  # in one of four steps, and that is most of the time


# ------------------------------------------------------------------------------------------------ apart


class Slow:
    """The same policy in plain lists: no pool, no tensors, a dictionary for each request."""

    def __init__(self, arrivals: list[Arrival], rows: int, slots: int, budget: int, chunk: int, mixed: bool) -> None:
        self.coming = [{"at": a.time_s, "prompt": a.prompt_len, "want": a.output_len, "id": i, "said": 0, "kv": 0}
                       for i, a in enumerate(arrivals)]  # fmt: skip
        self.num_rows, self.num_slots, self.budget, self.chunk, self.mixed = rows, slots, budget, chunk, mixed
        self.waiting, self.partial, self.running = [], [], []
        self.retracted, self.now = 0, 0.0
        self.steps, self.residence = [], [0.0] * len(arrivals)

    def held(self) -> int:
        return sum(req["kv"] for req in self.partial + self.running)

    def run(self) -> None:
        while self.coming or self.waiting or self.partial or self.running:
            if not (self.waiting or self.partial or self.running):
                self.now = max(self.now, self.coming[0]["at"])
            while self.coming and self.coming[0]["at"] <= self.now:
                self.waiting.append(self.coming.pop(0))
            said, tokens = [], 0
            if self.mixed:
                tokens += self.decode(said)
                tokens += self.prefill(said, self.budget - tokens)
            else:
                tokens += self.prefill(said, self.budget) or self.decode(said)
            rows = len(self.partial + self.running)
            self.steps.append((self.now, rows, self.held(), len(self.waiting), self.retracted))
            self.now += max(6.0, tokens / 50) / 1000
            for req in said:
                req["said"] += 1
                if req["said"] == req["want"]:
                    self.running.remove(req)
                    self.residence[req["id"]] = self.now - req["at"]

    def decode(self, said: list[dict]) -> int:
        while min(len(self.running), self.budget) > self.num_slots - self.held():
            victim = sorted(self.running, key=lambda req: (req["said"], -req["prompt"]))[0]
            self.running.remove(victim)
            victim["kv"] = 0
            self.waiting.insert(0, victim)
            self.retracted += 1
        lucky = self.running[: self.budget]
        for req in lucky:
            req["kv"] += 1
        said += lucky
        return len(lucky)

    def prefill(self, said: list[dict], budget: int) -> int:
        """One after the other; who comes in now, may do so only if everybody could still say a token afterwards."""
        spent, in_step, running = 0, 0, len(self.running)
        room = self.num_slots - self.held()
        while budget > spent:
            if self.partial:
                req = self.partial[0]
            else:
                if not self.waiting or len(self.running) >= self.num_rows:
                    break
                req = self.waiting[0]
                if room - spent < req["prompt"] + req["said"] + running + in_step:
                    break
                self.partial = [self.waiting.pop(0)]
            n = min(req["prompt"] + req["said"] - req["kv"], self.chunk, budget - spent, room - spent)
            if n == 0:
                break
            req["kv"] += n
            spent, in_step = spent + n, in_step + 1
            if req["kv"] < req["prompt"] + req["said"]:
                break
            self.partial = []
            self.running.append(req)
            said.append(req)
        return spent


def world(seed: int) -> tuple[list[Arrival], dict]:
    """A small crowd in a tight place, so that all four waits happen: for rows, for slots, for budget, for a chunk."""
    rng = random.Random(seed)
    time_s, arrivals = 0.0, []
    for _ in range(rng.randint(1, 12)):
        time_s += rng.choice([0.0, 0.0, 0.003, 0.02, 0.2])
        arrivals.append(Arrival(time_s, rng.randint(1, 12), rng.randint(1, 12)))
    most = max(one.prompt_len + one.output_len for one in arrivals)
    budget = rng.choice([1, 3, 8, 400])
    settings = {"rows": rng.randint(1, 5), "slots": most + rng.randint(0, 20), "budget": budget}
    return arrivals, {**settings, "chunk": rng.choice([1, 4, 400]), "mixed": rng.random() < 0.5}


@pytest.mark.parametrize("tens", range(10))
def test_counts_cells_and_a_slow_model_agree_step_by_step(tens: int) -> None:
    for seed in range(40 * tens, 40 * tens + 40):
        arrivals, at = world(seed)
        slow = Slow(arrivals, at["rows"], at["slots"], at["budget"], at["chunk"], at["mixed"])
        slow.run()
        settings = {"budget": at["budget"], "chunk_size": at["chunk"], "mixed": at["mixed"], "check_every": 1}
        reuse = ("fifo", "lifo")[seed % 2]
        stream = Stream(f"seed {seed}", tuple(arrivals))
        found, celled = (
            run(stream, pool(at["rows"], 24, reuse), at["slots"], cells=cells, **settings) for cells in (False, True)
        )
        states = (found.rows, found.slots, found.waiting, found.retractions)
        seen = list(zip(found.time_s.tolist(), *(one.tolist() for one in states), strict=True))
        assert [one[1:] for one in seen] == [one[1:] for one in slow.steps], seed
        assert [one[0] for one in seen] == pytest.approx([one[0] for one in slow.steps]), seed
        assert found.residence_s.tolist() == pytest.approx(slow.residence), seed
        assert found.num_decoded == sum(one.output_len for one in arrivals), seed
        assert same(found, celled), seed


def test_the_small_worlds_hold_what_they_are_for() -> None:
    """Or the test above would agree about nothing."""
    retracted = chunked = waited = paused = 0
    for seed in range(100):
        arrivals, at = world(seed)
        settings = {"budget": at["budget"], "chunk_size": at["chunk"], "mixed": at["mixed"]}
        found = run(Stream("", tuple(arrivals)), pool(at["rows"]), at["slots"], **settings)
        retracted += int(found.retractions[-1]) > 0
        chunked += at["chunk"] < max(one.prompt_len for one in arrivals)
        waited += int(found.waiting.max()) > 0
        paused += float(found.step_s.sum()) < found.span_s - 1e-6
    assert min(retracted, chunked, waited, paused) > 15


# ------------------------------------------------------------------------------------------------ the real pool


@pytest.mark.parametrize("cells", [False, True])
def test_lengths_in_the_pool_are_those_of_the_requests_at_every_step(
    monkeypatch: pytest.MonkeyPatch, cells: bool
) -> None:
    lane_type = counts.CellLane if cells else counts.CountLane
    forward, seen = lane_type.forward, []

    def watched(lane: counts.CountLane, batch: list) -> tuple:
        done = forward(lane, batch)
        for row, req in lane.pool.holders.items():
            lens = [int(one[row]) for one in (lane.pool.alloced_lens, lane.pool.alloced_lens_cpu)]
            assert lens == [req.kv_committed_len] * 2 == [req.computed_len] * 2
            assert int(lane.pool.verified_lens[row]) == req.kv_committed_len
            seen.append(row)
        return done

    monkeypatch.setattr(lane_type, "forward", watched)
    table = pool(4, 24)
    run(arriving(*((0.002 * i, 1 + i % 7, 1 + i % 11) for i in range(40))), table, 40, budget=9, cells=cells)
    assert set(seen) == {1, 2, 3, 4}
    assert table.available_size() == 4
    assert table.alloced_lens.tolist() == table.verified_lens.tolist() == table.alloced_lens_cpu.tolist() == [0] * 5
    assert int(table.generation.sum()) >= 40
    assert bool(table.req_to_token.any()) == cells  # counts only: not one cell is written


def test_with_cells_every_write_passes_the_guard_rail() -> None:
    table = CheckedPool(4, 24, device="cpu")
    found = run(arriving(*((0.002 * i, 1 + i % 7, 1 + i % 11) for i in range(40))), table, 40, cells=True)
    assert found.num_decoded == sum(1 + i % 11 for i in range(40))


def test_a_check_sees_a_slot_that_no_row_reserves() -> None:
    table, slots = pool(2), SlotCount(8)
    table.append(table.alloc_rows(1)[0], [1, 2, 3])
    slots.alloc(3)
    counts.check(table, slots)
    slots.alloc(1)
    with pytest.raises(RuntimeError, match="the rows reserve 3 slots, and 4 are taken"):
        counts.check(table, slots)
    slots.free(6)
    with pytest.raises(RuntimeError, match="10 slots are free, there are 8"):
        counts.check(table, slots)


def test_a_check_with_cells_sees_a_slot_in_two_rows() -> None:
    table, slots = pool(2), counts.TokenToKVPoolAllocator(8)
    one, other = table.alloc_rows(2)
    table.append(one, slots.alloc(2))
    table.append(other, slots.alloc(2))
    counts.check(table, slots)
    table.write((other, 0), 1)  # the slot of the other's first cell
    with pytest.raises(RuntimeError, match="slot 1 is in 2 live cells, wanted 1"):
        counts.check(table, slots)


def test_checks_come_as_often_as_asked_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    free = []
    monkeypatch.setattr(counts, "check", lambda pool, slots: free.append(slots.available_size()))
    found = run(arriving((0.0, 1, 7)), pool(1), 8, check_every=3)
    assert (found.num_steps, free) == (7, [8 - 3, 8 - 6, 8])  # after steps 3 and 6, and when all is over


# ------------------------------------------------------------------------------------------------ bad input


def test_what_can_never_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"request '0' needs 70 tokens .* max_context_len is 64: raise it"):
        run(arriving((0.0, 60, 10)), pool(1), 100)
    with pytest.raises(ValueError, match=r"request '0' needs 20 tokens .* the number of KV slots is 16: raise it"):
        run(arriving((0.0, 10, 10)), pool(1), 16)
    used = pool(2)
    used.alloc_rows(1)
    with pytest.raises(ValueError, match=r"every row free, got ReqToTokenPool\(size=2, max_context_len=64, free=1"):
        run(arriving((0.0, 1, 1)), used, 16)


@pytest.mark.parametrize("setting", [{"budget": 0}, {"chunk_size": 0}, {"check_every": 0}, {"num_slots": 0}])
def test_a_limit_of_0_is_refused(setting: dict) -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        run(arriving((0.0, 1, 1)), pool(1), **{"num_slots": 16, **setting})


# ------------------------------------------------------------------------------------------------ a real hour


@with_real_files
def test_the_step_time_has_the_shape_of_the_measured_kernels() -> None:
    path = Path(REAL) / "vidur-kernel-times" / "h100_llama-2-7b_mlp_tp1.csv"
    ratios = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        kernels = [float(ms) for name, ms in row.items() if name.endswith(".median") and ".emb." not in name]
        ratios[int(row["num_tokens"])] = step_seconds(int(row["num_tokens"])) * 1000 / (32 * sum(kernels))
    assert len(ratios) == 259
    assert all(0.8 < ratio < 1.1 for tokens, ratio in ratios.items() if tokens <= 128 or tokens >= 1_000)
    assert all(0.59 < ratio < 1.1 for ratio in ratios.values())  # in between the measured curve has steps, upwards


@with_real_files
@pytest.mark.slow
def test_the_first_200_requests_with_cells_and_a_check_at_every_step() -> None:
    first = load("azure-conversation").first(200)
    celled = run(first, pool(12, 4_200), 12_000, cells=True, check_every=1)
    assert same(celled, run(first, pool(12, 4_200), 12_000))
    assert celled.num_decoded == sum(one.output_len for one in first)
    assert int(celled.retractions[-1]) > 0 and int(celled.rows.max()) == 12  # tight on purpose


@with_real_files
@pytest.mark.slow
def test_a_whole_hour_and_littles_law() -> None:
    hour = load("azure-conversation")
    found = run(hour, pool(256, 16_384), 100_000)
    assert found.num_decoded == 4_088_665
    assert int(found.retractions[-1]) == 0
    inside = found.mean(found.rows) + found.mean(found.waiting)
    arriving_s = len(hour) / found.span_s
    assert inside == pytest.approx(arriving_s * float(found.residence_s.mean()), rel=0.02)
    assert 7 <= found.median(found.rows) <= 12


def test_a_synthetic_hour_is_like_the_real_one() -> None:
    found = run(synthetic(num_requests=500), pool(64, 16_384), 100_000)
    assert "synthetic" in found.label
    assert 4 <= found.median(found.rows) <= 16
