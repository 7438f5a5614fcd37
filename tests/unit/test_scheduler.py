"""The schedule lane on its own, then the engine where it is attacked: in flight, at its limits, in every state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from reqpool.faulty import CounterOnly, NoPaddingRow, NoResetOnReuse, PaddingInsideSize
from reqpool.kv import TokenToKVPoolAllocator
from reqpool.pool import ReqToTokenPool
from reqpool.serving import DUMMY, Engine, Entry, Request, Scheduler, recite


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine made these small tensors ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Lane:
    """A scheduler whose results are said by hand: the letters are always right, and as late as one wants."""

    def __init__(
        self,
        size: int = 4,
        context: int = 24,
        num_slots: int = 96,
        pool_class: type[ReqToTokenPool] = ReqToTokenPool,
        **scheduling: Any,
    ) -> None:
        self.facts: list[tuple[str, dict[str, Any]]] = []
        self.pool = pool_class(size, context, device="cpu")
        self.slots = TokenToKVPoolAllocator(num_slots)
        self.scheduler = Scheduler(
            self.pool, self.slots, on_fact=lambda kind, **facts: self.facts.append((kind, facts)), **scheduling
        )
        self.flying: list[list[Entry]] = []

    def add(self, rid: str, prompt: str = "xyz", limit: int = 4) -> Request:
        req = Request(rid, prompt=prompt, max_new_tokens=limit)
        self.scheduler.add(req)
        return req

    def launch(self) -> list[tuple[str, str, int]]:
        """One step is launched: (rid, kind, tokens) of its entries."""
        batch = self.scheduler.next_batch()
        self.flying.append(batch)
        return [(entry.req.rid, entry.kind, entry.num_tokens) for entry in batch]

    def result(self) -> None:
        """The oldest step in flight comes back."""
        batch = self.flying.pop(0)
        letters = {i: "?" for i, entry in enumerate(batch) if entry.last}
        for i, entry in enumerate(batch):
            if i in letters:
                letters[i] = entry.req.prompt[entry.req.output_len % entry.req.prompt_len]
        self.scheduler.process(batch, letters)

    def step(self) -> list[tuple[str, str, int]]:
        said = self.launch()
        self.result()
        return said

    def free(self) -> tuple[int, int]:
        self.pool.check()
        self.slots.check()
        return self.pool.available_size(), self.slots.available_size()


# ---- counters ----------------------------------------------------------------------------------------------------


def test_the_chunk_counter_goes_up_at_launch_down_at_the_result_and_is_0_on_the_last_chunk() -> None:
    lane = Lane(chunk_size=4)
    a, seen = lane.add("a", "abcdefghij", limit=2), []
    for _ in range(4):
        lane.launch()
        launched = a.inflight_middle_chunks, a.kv_committed_len, a.state
        lane.result()
        seen.append((launched, (a.inflight_middle_chunks, a.kv_committed_len, a.state), a.output))
    assert seen == [
        ((1, 4, "prefilling"), (0, 4, "prefilling"), ""),
        ((1, 8, "prefilling"), (0, 8, "prefilling"), ""),
        ((0, 10, "running"), (0, 10, "running"), "a"),
        ((0, 11, "running"), (0, 0, "finished"), "ab"),
    ]


def test_in_overlap_a_chunk_is_launched_before_the_last_ones_result_comes() -> None:
    lane = Lane(chunk_size=4)
    a, seen = lane.add("a", "abcdefghijkl", limit=4), []
    lane.launch()
    for _ in range(4):
        lane.launch()
        launched = a.inflight_middle_chunks, a.kv_committed_len
        lane.result()
        seen.append((launched, (a.inflight_middle_chunks, a.output)))
    assert seen == [((2, 8), (1, "")), ((1, 12), (0, "")), ((0, 13), (0, "a")), ((0, 14), (0, "ab"))]


def test_a_chunked_request_keeps_its_row_and_its_generation() -> None:
    lane = Lane(chunk_size=2)
    a = lane.add("a", "abcdefg")
    rows = set()
    for _ in range(4):
        lane.step()
        rows.add((a.req_pool_idx, int(lane.pool.generation[a.req_pool_idx])))
    assert rows == {(1, 1)} and a.state == "running"


def test_every_launched_token_has_its_cell_before_the_step_runs() -> None:
    """The schedule lane writes the cell of a decoded token; the forward lane finds it there."""
    lane = Lane(chunk_size=2)
    a = lane.add("a", "abc")
    for committed in (2, 3, 4, 5):
        lane.launch()
        cells = lane.pool.req_to_token[a.req_pool_idx].tolist()
        assert all(cells[:committed]) and not any(cells[committed:])
        assert int(lane.pool.verified_lens[a.req_pool_idx]) == 0  # the forward lane's, and it has not run
        lane.result()


# ---- budget, chunks, mixing --------------------------------------------------------------------------------------


def test_mixed_decodes_come_out_of_the_budget_first() -> None:
    lane = Lane(budget=5)
    a, b = lane.add("a", "ab"), lane.add("b", "cd")
    lane.step()
    assert a.state == b.state == "running"
    lane.add("c", "efghijk")
    assert lane.step() == [("c", "prefill", 3), ("a", "decode", 1), ("b", "decode", 1)]
    assert lane.step() == [("c", "prefill", 3), ("a", "decode", 1), ("b", "decode", 1)]
    assert lane.step() == [("c", "prefill", 1), ("a", "decode", 1), ("b", "decode", 1)]
    assert lane.step() == [("c", "decode", 1)]


def test_not_mixed_a_step_with_prefill_work_decodes_nothing() -> None:
    lane = Lane(budget=3, mixed=False)
    a = lane.add("a", "ab")
    lane.step()
    lane.add("b", "cdefg")
    assert [lane.step() for _ in range(3)] == [
        [("b", "prefill", 3)],
        [("b", "prefill", 2)],
        [("a", "decode", 1), ("b", "decode", 1)],
    ]
    assert a.output == "ab"


def test_several_prompts_share_a_step_and_only_the_last_is_cut() -> None:
    lane = Lane(budget=8)
    for rid, prompt in (("a", "abc"), ("b", "de"), ("c", "fghijk"), ("d", "l")):
        lane.add(rid, prompt)
    assert lane.launch() == [("a", "prefill", 3), ("b", "prefill", 2), ("c", "prefill", 3)]
    assert lane.scheduler.chunked is not None and lane.scheduler.chunked.rid == "c"


def test_a_prompt_cut_by_the_chunk_size_lets_no_other_begin() -> None:
    """At most one prompt is between its chunks, although the budget would have room."""
    lane = Lane(budget=8, chunk_size=2)
    lane.add("a", "abcde")
    lane.add("b", "fg")
    assert [lane.step() for _ in range(3)] == [
        [("a", "prefill", 2)],
        [("a", "prefill", 2)],
        [("a", "prefill", 1), ("b", "prefill", 2)],
    ]


def test_more_running_requests_than_budget_take_turns_by_finishing() -> None:
    lane = Lane(budget=2, mixed=False)
    reqs = [lane.add(rid, "x", limit=3) for rid in "abc"]
    steps = []
    while not lane.scheduler.idle:
        steps.append([rid for rid, *_ in lane.step()])
    assert steps == [["a", "b"], ["c"], ["a", "b"], ["a", "b"], ["c"], ["c"]]
    assert all(req.output == "xxx" for req in reqs)


def test_slots_are_made_free_only_for_those_who_run_in_this_step() -> None:
    lane = Lane(budget=1, mixed=False, num_slots=6)
    a, b = lane.add("a", "x", limit=5), lane.add("b", "y", limit=5)
    for _ in range(5):
        lane.step()  # both prompts, then a alone: 5 of 6 slots are taken, and a needs one more
    assert (a.output, b.output, lane.free()[1]) == ("xxxx", "y", 1)
    lane.step()
    assert a.state == "finished" and b.state == "running" and lane.scheduler.num_retracted == 0


@pytest.mark.parametrize(("name", "value"), [("budget", 0), ("budget", -1), ("chunk_size", 0), ("chunk_size", -3)])
def test_a_budget_or_chunk_size_below_one_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got {value}"):
        Lane(**{name: value})


@pytest.mark.parametrize("name", ["budget", "chunk_size"])
@pytest.mark.parametrize("value", [1.5, True, "4"])
def test_a_budget_or_chunk_size_is_an_integer(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        Lane(**{name: value})


# ---- admission ---------------------------------------------------------------------------------------------------


def test_nobody_is_admitted_without_a_free_row() -> None:
    lane = Lane(size=1)
    a, b = lane.add("a", limit=2), lane.add("b", limit=1)
    assert lane.step() == [("a", "prefill", 3)]
    assert lane.step() == [("a", "decode", 1)] and a.state == "finished"
    assert b.state == "waiting" and lane.step() == [("b", "prefill", 3)]


def test_nobody_is_admitted_without_slots_for_the_prompt_and_the_running_ones() -> None:
    lane = Lane(num_slots=9)
    a = lane.add("a", "abc", limit=5)
    lane.step()
    b = lane.add("b", "defgh", limit=2)  # 6 slots are free, a takes the next: 5 are left, and one is kept for a
    assert lane.step() == [("a", "decode", 1)] and b.state == "waiting"
    lane.scheduler.abort(a)
    assert lane.step() == [("b", "prefill", 5)]


def test_whoever_came_first_is_not_overtaken_by_a_smaller_one() -> None:
    lane = Lane(num_slots=9)
    lane.add("a", "abcde", limit=4)
    lane.step()
    lane.add("b", "fghij", limit=1)
    lane.add("c", "k", limit=1)
    assert lane.step() == [("a", "decode", 1)]


@pytest.mark.parametrize(
    ("prompt", "limit", "said"),
    [
        ("a" * 9, 1, r"'a' needs 10 tokens \(prompt 9 \+ output 1\), max_context_len is 8: raise it"),
        ("a" * 4, 5, r"'a' needs 9 tokens \(prompt 4 \+ output 5\), max_context_len is 8: raise it"),
    ],
)
def test_a_request_beyond_the_context_is_refused_with_the_limit_to_raise(prompt: str, limit: int, said: str) -> None:
    lane = Lane(context=8)
    with pytest.raises(ValueError, match=said):
        lane.add("a", prompt, limit)
    assert lane.scheduler.idle and lane.launch() == []
    lane.add("a", "ab", 6)  # the rid is not used up


def test_a_request_beyond_all_slots_is_refused_with_the_limit_to_raise() -> None:
    lane = Lane(num_slots=5)
    with pytest.raises(ValueError, match=r"'a' needs 6 tokens \(prompt 3 \+ output 3\), the number of KV slots is 5"):
        lane.add("a", "xyz", 3)
    lane.add("a", "xyz", 2)


def test_a_rid_is_used_once_whatever_became_of_it() -> None:
    lane = Lane()
    a = lane.add("a", limit=1)
    with pytest.raises(ValueError, match="'a': this rid has been used"):
        lane.add("a")
    lane.step()
    assert a.state == "finished"
    with pytest.raises(ValueError, match="'a': this rid has been used"):
        lane.scheduler.add(a)
    b = lane.add("b")
    lane.scheduler.abort(b)
    with pytest.raises(ValueError, match="'b': this rid has been used"):
        lane.add("b")
    assert lane.scheduler.idle


def test_a_request_that_ran_already_is_refused_elsewhere() -> None:
    lane, other = Lane(), Lane()
    a, b = lane.add("a", limit=1), lane.add("b")
    lane.step()
    for req, said in ((a, "'a' is finished with 1 letters"), (b, "'b' is running with 1 letters")):
        with pytest.raises(ValueError, match=said):
            other.scheduler.add(req)
    assert other.scheduler.idle and not other.scheduler.rids


def test_a_refused_alloc_loses_no_waiting_request() -> None:
    lane = Lane(pool_class=CounterOnly, chunk_size=2, budget=8)
    a, b = lane.add("a"), lane.add("b", "p", 1)
    lane.step()
    for _ in range(2):
        with pytest.raises(ValueError, match="'a': it already holds row 1 and has nothing to continue"):
            lane.launch()
        assert list(lane.scheduler.waiting) == [b] and lane.scheduler.chunked is a
    lane.scheduler.abort(a)
    lane.step()
    assert b.output == "p" and lane.free() == (4, 96)


def test_a_chunk_takes_the_slots_that_are_left_and_the_running_one_gives_way() -> None:
    lane = Lane(num_slots=12, budget=4, chunk_size=3)
    a = lane.add("a", "xy", limit=9)
    lane.step()
    b = lane.add("b", "abcdefgh", limit=3)
    assert [lane.step() for _ in range(3)] == [[("b", "prefill", n), ("a", "decode", 1)] for n in (3, 3, 1)]
    assert lane.free()[1] == 0
    assert lane.step() == [("b", "prefill", 1)] and a.state == "retracted"  # the last letter of b's prompt
    while not lane.scheduler.idle:
        lane.step()
    assert a.output == a.expected and b.output == b.expected and lane.free() == (4, 12)


# ---- retraction --------------------------------------------------------------------------------------------------


def test_the_request_with_the_fewest_letters_is_retracted_first() -> None:
    lane = Lane(size=3, num_slots=16)
    a = lane.add("a", "abc", 13)
    lane.step()
    b = lane.add("b", "de", 10)
    lane.step()
    lane.step()
    assert (a.output_len, b.output_len) == (3, 2)
    while lane.scheduler.num_retracted == 0:
        lane.step()
    assert (a.state, b.state) == ("running", "retracted")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_equals_the_one_with_the_longest_prompt_is_retracted(order: str) -> None:
    lane = Lane(size=3, num_slots=14)
    reqs = {rid: lane.add(rid, {"a": "xy", "b": "vwxyz"}[rid], 8) for rid in order}
    while lane.scheduler.num_retracted == 0:
        lane.step()
    assert (reqs["a"].state, reqs["b"].state) == ("running", "retracted")


def test_a_retracted_request_gives_up_row_and_slots_and_prefills_prompt_and_output_again() -> None:
    lane = Lane()
    a, b = lane.add("a", "xyz", 6), lane.add("b", "pq", 6)
    for _ in range(3):
        lane.step()
    before, row = lane.free(), a.req_pool_idx
    lane.add("c", "m")
    lane.scheduler.retract(a)
    assert lane.free() == (before[0] + 1, before[1] + 5)
    assert (a.state, a.req_pool_idx, a.output) == ("retracted", None, "xyz")
    assert (a.computed_len, a.kv_committed_len, a.inflight_middle_chunks) == (0, 0, 0)
    assert [(kind, facts["rid"], facts["rows"]) for kind, facts in lane.facts] == [("retract", "a", (row,))]
    assert lane.step() == [("a", "prefill", 6), ("c", "prefill", 1), ("b", "decode", 1)]  # before those who wait
    while not lane.scheduler.idle:
        lane.step()
    assert a.output == a.expected and b.output == b.expected and lane.free() == (4, 96)


def test_a_request_that_holds_no_row_cannot_be_retracted_and_stays_where_it_is() -> None:
    lane = Lane(size=1)
    a, b = lane.add("a"), lane.add("b")
    lane.step()
    with pytest.raises(ValueError, match="retract of request 'b': it is waiting"):
        lane.scheduler.retract(b)
    assert list(lane.scheduler.waiting) == [b] and lane.facts == [] and lane.scheduler.num_retracted == 0
    while not lane.scheduler.idle:
        lane.step()
    with pytest.raises(ValueError, match="retract of request 'a': it is finished"):
        lane.scheduler.retract(a)


def test_a_chunked_request_can_be_retracted_between_its_chunks() -> None:
    lane = Lane(chunk_size=2)
    a = lane.add("a", "abcde")
    lane.step()
    lane.scheduler.retract(a)
    assert lane.scheduler.chunked is None and a.state == "retracted" and lane.free() == (4, 96)
    assert lane.step() == [("a", "prefill", 2)] and a.kv_committed_len == 2


# ---- abort -------------------------------------------------------------------------------------------------------


def to_state(lane: Lane, state: str) -> Request:
    a = lane.add("a", "abcde", 3)
    if state == "waiting":
        return a
    lane.step()
    if state == "retracted":
        lane.scheduler.retract(a)
    while a.state != state:
        lane.step()
    return a


@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize("state", ["waiting", "prefilling", "running", "retracted"])
def test_abort_in_every_state_frees_everything_at_once(state: str, in_flight: bool) -> None:
    lane = Lane(chunk_size=3)
    a = to_state(lane, state)
    if in_flight and state in ("prefilling", "running"):
        lane.launch()
    lane.scheduler.abort(a)
    assert a.state == "aborted" and a.req_pool_idx is None and lane.free() == (4, 96)
    said = a.output
    while lane.flying:
        lane.result()
    assert lane.scheduler.idle and lane.launch() == [] and a.output == said and a.inflight_middle_chunks == 0
    lane.scheduler.abort(a)  # once more: it stays as it is
    assert a.state == "aborted" and lane.free() == (4, 96)


def test_abort_of_a_finished_request_leaves_it_finished() -> None:
    lane = Lane()
    a = to_state(lane, "finished")
    lane.scheduler.abort(a)
    assert a.state == "finished" and a.output == "abc"


def test_abort_of_a_request_of_another_scheduler_is_refused() -> None:
    lane, other = Lane(), Lane()
    for a in (Request("a", prompt="x"), to_state(other, "running")):
        state, free = a.state, other.free()
        with pytest.raises(ValueError, match="'a' is not in this scheduler"):
            lane.scheduler.abort(a)
        assert a.state == state and other.free() == free


def test_abort_of_one_leaves_the_others_in_their_step() -> None:
    lane = Lane()
    a, b = lane.add("a"), lane.add("b")
    lane.step()
    lane.launch()
    lane.scheduler.abort(a)
    lane.result()
    assert (a.output, b.output) == ("x", "xy")


# ---- in flight ---------------------------------------------------------------------------------------------------


def test_a_result_that_comes_after_a_retraction_is_dropped() -> None:
    lane = Lane()
    a = lane.add("a")
    lane.step()
    lane.launch()
    lane.scheduler.retract(a)
    lane.result()
    assert a.output == "x" and a.state == "retracted"


def test_a_result_of_the_time_before_is_dropped_although_the_same_request_has_the_same_row_again() -> None:
    lane = Lane(size=1)
    a = lane.add("a")
    lane.step()
    lane.launch()
    row = a.req_pool_idx
    lane.scheduler.retract(a)
    assert lane.launch() == [("a", "prefill", 4)] and a.req_pool_idx == row
    lane.result()  # the decode of before
    assert a.output == "x"
    lane.result()
    assert a.output == "xy"


def test_a_middle_chunk_of_the_time_before_does_not_lower_the_counter_of_now() -> None:
    lane = Lane(size=1, chunk_size=2)
    a = lane.add("a", "abcdef")
    lane.launch()
    lane.scheduler.retract(a)
    lane.launch()
    assert a.inflight_middle_chunks == 1
    lane.result()
    assert a.inflight_middle_chunks == 1
    lane.result()
    assert a.inflight_middle_chunks == 0


def test_the_step_after_the_last_letter_is_launched_and_dropped() -> None:
    """The schedule lane cannot know yet that the request will end; its slot goes back with the others."""
    lane = Lane()
    a = lane.add("a", limit=1)
    lane.launch()
    assert lane.launch() == [("a", "decode", 1)]
    lane.result()
    assert a.state == "finished" and lane.free() == (4, 96)
    lane.result()
    assert a.output == "x" and lane.free() == (4, 96)


# ---- the engine --------------------------------------------------------------------------------------------------


def engine_of(size: int = 2, context: int = 16, num_slots: int = 32, reuse: str = "fifo", **how: Any) -> Engine:
    return Engine(ReqToTokenPool(size, context, device="cpu", reuse=reuse), num_slots, **how)


OVERLAP = pytest.mark.parametrize("overlap", [False, True])
MIXED = pytest.mark.parametrize("mixed", [False, True])


@OVERLAP
@MIXED
@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
@pytest.mark.parametrize(
    "world",
    [
        {"size": 1},
        {"size": 2, "budget": 1},
        {"size": 2, "chunk_size": 1},
        {"size": 1, "budget": 1, "chunk_size": 1, "num_slots": 11},
        {"size": 4, "num_slots": 11},
        {"size": 3, "runner": {"graph_sizes": (8,)}},
        {"size": 3, "runner": {"graph_sizes": (3,), "writes": "length", "accumulate": True}},
    ],
    ids=str,
)
def test_small_worlds_recite(world: dict[str, Any], overlap: bool, mixed: bool, reuse: str) -> None:
    engine = engine_of(**{"context": 12, **world}, overlap=overlap, mixed=mixed, reuse=reuse)
    reqs = [
        engine.add(Request(rid, prompt=prompt, max_new_tokens=limit))
        for rid, prompt, limit in (("a", "xyz", 8), ("b", "pqrstuv", 4), ("c", "m", 10), ("d", "abcdefghij", 1))
    ]
    engine.run()
    assert [req.output for req in reqs] == ["xyzxyzxy", "pqrs", "m" * 10, "a"]
    engine.slots.check()
    assert engine.slots.available_size() == engine.slots.size
    assert engine.pool.available_size() == engine.pool.size


@OVERLAP
@pytest.mark.parametrize(("prompt_len", "limit"), [(11, 1), (1, 11), (6, 6)])
def test_a_request_that_fills_its_row_and_all_slots_exactly(prompt_len: int, limit: int, overlap: bool) -> None:
    """In overlap even the step after the last letter has its position and its slot."""
    prompt = "abcdefghijk"[:prompt_len]
    pool = ReqToTokenPool(1, 12, device="cpu")
    req = Request("a", prompt=prompt, max_new_tokens=limit)
    assert recite([req], pool, num_slots=12, overlap=overlap) == {"a": req.expected}


@pytest.mark.parametrize(("prompt_len", "limit"), [(12, 1), (13, 1), (1, 12)])
def test_one_token_more_is_refused(prompt_len: int, limit: int) -> None:
    with pytest.raises(ValueError, match="max_context_len is 12: raise it"):
        engine_of(context=12).add(Request("a", prompt="x" * prompt_len, max_new_tokens=limit))


def test_in_overlap_the_forward_lane_is_one_step_late() -> None:
    engine = engine_of(overlap=True)
    a = engine.add(Request("a", prompt="xyz", max_new_tokens=3))
    seen = []
    while engine.step():
        row = a.req_pool_idx
        seen.append((a.output, row and int(engine.pool.alloced_lens[row]), row and int(engine.pool.verified_lens[row])))
    assert seen == [("", 3, 0), ("x", 4, 3), ("xy", 5, 4), ("xyz", None, None), ("xyz", None, None)]
    assert engine.num_steps == 5


def test_without_overlap_a_step_is_launched_and_computed_at_once() -> None:
    engine = engine_of()
    a = engine.add(Request("a", prompt="xyz", max_new_tokens=3))
    outputs = []
    while engine.step():
        outputs.append(a.output)
    assert outputs == ["x", "xy", "xyz"]


@pytest.mark.parametrize("pool_class", [ReqToTokenPool, NoResetOnReuse])
def test_the_step_after_the_last_letter_writes_into_the_free_row(pool_class: type[ReqToTokenPool]) -> None:
    """It lands between free and alloc: the generation has not moved, only the reset on reuse can help."""
    engine = Engine(pool_class(1, 16, device="cpu"), 32, overlap=True)
    engine.add(Request("a", prompt="xyz", max_new_tokens=2))
    engine.run()
    assert engine.pool.available_size() == 1 and int(engine.pool.verified_lens[1]) == 1
    engine.pool.check()
    engine.add(Request("b", prompt="pqr", max_new_tokens=4))
    engine.step()
    assert int(engine.pool.verified_lens[1]) == (1 if pool_class is NoResetOnReuse else 0)


@pytest.mark.parametrize("generation_check", [True, False])
def test_a_step_whose_row_was_handed_out_again_is_dropped_only_by_the_generation_check(generation_check: bool) -> None:
    """It lands after alloc: the reset is too late."""
    engine = engine_of(size=1, overlap=True, generation_check=generation_check)
    a = engine.add(Request("a", prompt="vwxyz", max_new_tokens=4))
    engine.step()  # a's prompt is launched
    engine.scheduler.abort(a)
    b = engine.add(Request("b", prompt="pqr", max_new_tokens=4))
    engine.step()  # b has a's row; a's prompt is computed
    assert int(engine.pool.verified_lens[1]) == (0 if generation_check else 5)
    assert a.output == ""
    if generation_check:
        engine.run()
        assert b.output == b.expected


@pytest.mark.parametrize("late_len", [1, 2])
def test_a_late_step_of_one_alone_is_unseen_in_overlap(late_len: int) -> None:
    """The new owner's steps all begin one position further on, at cells that are written by then; two are too many."""
    for overlap in (True, False):
        engine = engine_of(size=1, context=24, overlap=overlap)
        b = engine.add(Request("b", prompt="pqr", max_new_tokens=9))
        launch = engine.scheduler.next_batch

        def next_batch(engine: Engine = engine, launch: Any = launch) -> list[Entry]:
            batch = launch()
            if engine.num_steps == 0:
                engine.pool.verified_lens[1] += late_len  # right after b's alloc
            return batch

        engine.scheduler.next_batch = next_batch
        engine.run()
        assert (b.output == b.expected) == (overlap and late_len == 1)


@OVERLAP
def test_abort_in_flight_and_the_next_one_recites(overlap: bool) -> None:
    for when in range(1, 7):
        engine = engine_of(size=1, overlap=overlap, chunk_size=2)
        a = engine.add(Request("a", prompt="vwxyz", max_new_tokens=8))
        for _ in range(when):
            engine.step()
        engine.scheduler.abort(a)
        b = engine.add(Request("b", prompt="pqr", max_new_tokens=7))
        engine.run()
        assert a.expected.startswith(a.output) and b.output == b.expected
        assert engine.pool.available_size() == 1 and engine.slots.available_size() == 32


@OVERLAP
def test_retraction_at_every_moment_changes_no_letter(overlap: bool) -> None:
    for when in range(1, 12):
        engine = engine_of(overlap=overlap, chunk_size=2)
        a, b = (
            engine.add(Request(rid, prompt=prompt, max_new_tokens=8)) for rid, prompt in (("a", "vwxyz"), ("b", "pq"))
        )
        for _ in range(when):
            engine.step()
        for req in (a, b):
            if req.state in ("prefilling", "running"):
                engine.scheduler.retract(req)
        engine.run()
        assert (a.output, b.output) == (a.expected, b.expected)


def test_a_request_that_the_engine_refuses_is_not_queued() -> None:
    engine = engine_of()
    for bad in ("x" * 20, "X", "x·y"):
        with pytest.raises(ValueError, match="'a'"):
            engine.add(Request("a", prompt=bad))
    assert engine.scheduler.idle and not engine.step()


def test_a_run_that_does_not_end_says_who_is_left() -> None:
    engine = engine_of(size=1)
    engine.add(Request("a", prompt="xyz", max_new_tokens=9))
    engine.add(Request("b", prompt="xyz", max_new_tokens=9))
    with pytest.raises(RuntimeError, match="1 running, 1 waiting requests after 2 steps"):
        engine.run(max_steps=2)


@OVERLAP
@pytest.mark.parametrize("sizes", [(1,), (2, 4), (8,)])
def test_more_requests_run_than_the_largest_graph_has_entries(sizes: tuple[int, ...], overlap: bool) -> None:
    engine = engine_of(size=9, num_slots=144, overlap=overlap, runner={"graph_sizes": sizes})
    reqs = [
        engine.add(Request(str(i), prompt="abcdefghijklmnop"[i : i + 1 + i % 4], max_new_tokens=6)) for i in range(9)
    ]
    most = 0
    while engine.step():
        most = max(most, len(engine.scheduler.running))
    assert most == 9 and [req.output for req in reqs] == [req.expected for req in reqs]


@OVERLAP
@pytest.mark.parametrize("pool_class", [ReqToTokenPool, PaddingInsideSize])
def test_a_run_that_gets_no_row_says_so(pool_class: type[ReqToTokenPool], overlap: bool) -> None:
    engine = Engine(pool_class(1, 16, device="cpu"), 32, overlap=overlap)
    if pool_class is ReqToTokenPool:
        engine.pool.alloc_rows(1)  # held by somebody else
    engine.add(Request("a", prompt="xyz", max_new_tokens=3))
    with pytest.raises(
        RuntimeError, match=r"1 waiting: request 'a' of 3 tokens cannot go on: no row .*size is 1\): raise its size"
    ):
        engine.run()


@OVERLAP
@pytest.mark.parametrize("leaked", [2, 3, 5, 6])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_a_run_that_gets_no_slots_says_so(leaked: int, chunk_size: int | None, overlap: bool) -> None:
    """It neither ends with work undone nor retracts the only one that runs, again and again."""
    engine = engine_of(size=1, num_slots=8, overlap=overlap, chunk_size=chunk_size)
    engine.slots.alloc(leaked)
    a = engine.add(Request("a", prompt="xyz", max_new_tokens=5))
    with pytest.raises(RuntimeError, match=r"request 'a'.* of 8 KV slots are free: raise the number of KV slots"):
        engine.run(max_steps=50)
    assert not a.ended and a.expected.startswith(a.output)
    assert engine.scheduler.num_retracted == 0


# ---- a row whose cells were overwritten --------------------------------------------------------------------------


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_row_that_no_longer_holds_its_slots_is_an_error_or_a_fact(tolerant: bool) -> None:
    lane = Lane(tolerant=tolerant)
    a = lane.add("a", "xyz", 2)
    lane.step()
    lane.pool.req_to_token[a.req_pool_idx, 1] = 0  # as a dummy entry does that writes its last cell
    if not tolerant:
        with pytest.raises(ValueError, match="free of slot 0: it is the dummy slot"):
            lane.step()
        return
    lane.step()
    assert a.state == "finished" and lane.free() == (4, 95)
    [(kind, facts)] = lane.facts
    assert (kind, facts["rid"], facts["rows"]) == ("note", "a", (1,))
    assert facts["text"].startswith("request a gives back 3 slots. Its row says one more that cannot be given back")


DAMAGED = {"graph_sizes": (4,), "writes": "cell", "dummy_len": 2}


def test_a_damaged_text_can_be_retracted_and_resumed() -> None:
    engine = Engine(NoPaddingRow(2, 24, device="cpu"), 24, runner=DAMAGED, tolerant=True)
    a, _ = (engine.add(Request(rid, prompt=prompt, max_new_tokens=9)) for rid, prompt in (("a", "xyz"), ("b", "pqr")))
    for _ in range(5):
        engine.step()
    assert DUMMY in a.output
    engine.scheduler.retract(a)
    engine.run()
    assert a.state == "finished" and len(a.output) == 9


@OVERLAP
@pytest.mark.parametrize("cell", [-1, -7, 0, 7, 10_000])
def test_a_row_whose_cells_say_no_slot_at_all_can_be_given_back(cell: int, overlap: bool) -> None:
    engine = Engine(NoPaddingRow(2, 16, device="cpu"), 6, overlap=overlap, tolerant=True)
    a = engine.add(Request("a", prompt="xyz", max_new_tokens=3))
    engine.step()
    engine.pool.req_to_token[0, 1] = cell
    engine.scheduler.abort(a)
    engine.slots.check()
    assert engine.slots.available_size() == 5  # one leaks
    assert engine.slots.alloc(5) is not None


@OVERLAP
def test_dummies_that_write_slot_minus_1_into_a_cell_end_in_no_error(overlap: bool) -> None:
    runner = {"graph_sizes": (4,), "writes": "cell", "dummy_slot": -1}
    engine = Engine(NoPaddingRow(2, 16, device="cpu"), 6, overlap=overlap, runner=runner, tolerant=True)
    a = engine.add(Request("a", prompt="xyz", max_new_tokens=3))
    engine.run()
    assert a.state == "finished"
    engine.slots.check()
