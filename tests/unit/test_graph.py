"""The decode step of fixed size: what its dummy entries carry and write, and that it asks nothing of the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from reqpool.faulty import NoPaddingRow
from reqpool.pool import Req, ReqToTokenPool
from reqpool.serving import DUMMY, LETTERS, GraphRunner, Recite

CONTEXT, NUM_SLOTS = 8, 40
TEXTS = ("abcd", "wxyz", "pq", "mno", "stuv", "ghijk")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine made these small tensors ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Bench:
    """Requests whose whole text is in the cache but for its last token, which the next decode step puts there.

    Request i holds the slots 6i + 1, 6i + 2, ... in that order reversed, so that slot order says nothing.
    """

    def __init__(
        self, num_reqs: int, pool_class: type[ReqToTokenPool] = ReqToTokenPool, size: int = 6, **runner: Any
    ) -> None:
        self.pool = pool_class(size, CONTEXT, device="cpu")
        self.model = Recite(NUM_SLOTS, CONTEXT)
        self.runner = GraphRunner(self.pool, self.model, **runner)
        self.reqs, self.texts = [Req(text) for text in TEXTS[:num_reqs]], list(TEXTS[:num_reqs])
        self.rows = self.pool.alloc(self.reqs)
        for i, (req, row) in enumerate(zip(self.reqs, self.rows, strict=True)):
            n = len(req.rid)
            slots = torch.arange(6 * i + n, 6 * i, -1)
            self.pool.append(req, slots)
            self.model.write(slots[:-1], torch.arange(n - 1), self.model.tokens(req.rid[:-1]))
            self.pool.verified_lens[row] = n - 1

    def step(self, *who: int, wanted: int = 0) -> list[str]:
        """One decode step of these requests; each asks for the letter at `wanted`."""
        rows = torch.tensor([self.rows[i] for i in who])
        tokens = torch.cat([self.model.tokens(self.texts[i][-1]) for i in who])
        positions = torch.tensor([len(self.texts[i]) - 1 for i in who])
        return self.runner.run(rows, positions, tokens, torch.full_like(rows, wanted))

    def letter(self, slot: int) -> str:
        return LETTERS[int(self.model.cache.v[0, slot, 0].argmax())]

    def state(self) -> tuple[Any, ...]:
        cache = self.model.cache
        return (
            self.pool.req_to_token.tolist(),
            self.pool.verified_lens.tolist(),
            [cache.k[0, 1:, 0].argmax(-1).tolist(), cache.v[0, 1:, 0].argmax(-1).tolist()],
        )


# ---- sizes and what dummies carry --------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 2, 4, 6), (4, 1, 6, 2), (6,), (3, 6)])
def test_a_step_takes_the_smallest_graph_that_fits(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    bench, taken = Bench(6, graph_sizes=sizes), []
    monkeypatch.setattr(bench.runner, "_step", taken.append)
    for n in range(1, 7):
        bench.step(*range(n))
    assert taken == [min(size for size in sizes if size >= n) for n in range(1, 7)]


def test_a_step_beyond_the_largest_graph_is_refused_and_changes_nothing() -> None:
    bench = Bench(3, graph_sizes=(1, 2))
    before = bench.state()
    with pytest.raises(ValueError, match="3 entries: the largest graph has 2"):
        bench.step(0, 1, 2)
    assert bench.state() == before


@pytest.mark.parametrize("sizes", [(), (0,), (4, -1)])
def test_graph_sizes_are_at_least_one(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="graph_sizes must be at least 1"):
        Bench(1, graph_sizes=sizes)


@pytest.mark.parametrize("sizes", [(1.0,), ("4",), (True,), (2, None)])
def test_graph_sizes_are_integers(sizes: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="each of graph_sizes must be an integer"):
        Bench(1, graph_sizes=sizes)


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ({"padding_row": 7}, r"padding_row must lie within 0\.\.6, got 7"),
        ({"padding_row": -1}, "padding_row"),
        ({"dummy_len": CONTEXT + 1}, rf"dummy_len must lie within 1\.\.{CONTEXT}, got {CONTEXT + 1}"),
        ({"dummy_len": 0}, "dummy_len"),
        ({"dummy_len": 0, "dummy_slot": -1, "writes": "cell"}, "dummy_len"),
        ({"dummy_len": -1, "dummy_slot": -1}, "dummy_len"),
        ({"dummy_slot": NUM_SLOTS + 1}, rf"dummy_slot must lie within -1\.\.{NUM_SLOTS}, got {NUM_SLOTS + 1}"),
        ({"dummy_slot": -2}, "dummy_slot"),
    ],
)
def test_what_a_dummy_carries_is_checked_when_the_runner_is_made(runner: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Bench(1, **runner)


@pytest.mark.parametrize(
    "runner",
    [{"padding_row": 6}, {"dummy_len": CONTEXT}, {"dummy_slot": NUM_SLOTS}, {"dummy_len": 0, "dummy_slot": -1}],
)
def test_what_a_dummy_carries_may_go_to_the_limit(runner: dict[str, Any]) -> None:
    assert Bench(1, graph_sizes=(4,), **runner).step(0) == ["a"]


def test_an_unknown_kind_of_write_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="writes must be one of slot, cell, length, got 'row'"):
        Bench(1, writes="row")


@pytest.mark.parametrize("refresh_tail", [True, False])
def test_dummy_entries_carry_row_0_length_1_slot_0(refresh_tail: bool) -> None:
    bench = Bench(2, graph_sizes=(4,), refresh_tail=refresh_tail)  # a fresh tail needs no refreshing
    assert bench.step(0, 1) == ["a", "w"]
    static = {name: buffer.tolist() for name, buffer in bench.runner.static.items()}
    assert static == {
        "rows": [1, 2, 0, 0],
        "positions": [3, 3, 0, 0],
        "out_slots": [1, 7, 0, 0],
        "tokens": [*bench.model.tokens("dz").tolist(), 0, 0],
        "wanted": [0, 0, 0, 0],
    }
    assert bench.runner.kv_indptr.tolist() == [0, 4, 8, 9, 10]  # a dummy's sequence length is 1
    assert bench.runner.kv_indices[:10].tolist() == [4, 3, 2, 1, 10, 9, 8, 7, 0, 0]


@pytest.mark.parametrize("size", [2, 3, 6])
def test_the_graph_size_changes_no_letter(size: int) -> None:
    bench = Bench(2, graph_sizes=(size,))
    assert [bench.step(0, 1, wanted=position) for position in range(4)] == [
        [*pair] for pair in zip(*TEXTS[:2], strict=True)
    ]


def test_the_buffers_never_move() -> None:
    bench = Bench(6, graph_sizes=(1, 4, 6))
    runner = bench.runner
    buffers = [*runner.static.values(), runner.kv_indptr, runner.kv_indices, runner.out]
    there = [buffer.data_ptr() for buffer in buffers]
    for who in ((0,), (0, 1, 2, 3, 4, 5), (2, 1)):
        bench.step(*who)
    now = [*runner.static.values(), runner.kv_indptr, runner.kv_indices, runner.out]
    assert [buffer.data_ptr() for buffer in now] == there
    assert runner.kv_indices.shape == (6 * CONTEXT,) and runner.kv_indptr.shape == (7,)


# ---- what is written ---------------------------------------------------------------------------------------------


def changes(bench: Bench, *who: int) -> dict[str, Any]:
    """What one step changes: cells, lengths and slots, dummies' and live ones' together."""
    pool, cache = bench.pool, bench.model.cache
    table, lens, k, v = pool.req_to_token.clone(), pool.verified_lens.clone(), cache.k.clone(), cache.v.clone()
    bench.step(*who)
    slots = ((cache.k != k) | (cache.v != v)).flatten(2).any(-1)[0]
    return {
        "cells": [tuple(cell) for cell in torch.nonzero(pool.req_to_token != table).tolist()],
        "lengths": {row: n for row, n in enumerate((pool.verified_lens - lens).tolist()) if n},
        "slots": torch.nonzero(slots).flatten().tolist(),
    }


def test_with_slot_the_dummies_write_k_and_v_to_slot_0_and_nothing_else() -> None:
    bench = Bench(2, graph_sizes=(4,), writes="slot")
    assert changes(bench, 0, 1) == {"cells": [], "lengths": {1: 1, 2: 1}, "slots": [0, 1, 7]}
    assert bench.letter(0) == DUMMY and bench.letter(1) == "d" and bench.letter(7) == "z"


@pytest.mark.parametrize("dummy_len", [1, 2, 3])
def test_with_cell_the_dummies_write_their_last_cell(dummy_len: int) -> None:
    bench = Bench(2, graph_sizes=(4,), writes="cell", dummy_len=dummy_len)
    bench.pool.req_to_token[0] = 39  # so that a written 0 shows
    got = changes(bench, 0, 1)
    assert got == {"cells": [(0, dummy_len - 1)], "lengths": {1: 1, 2: 1}, "slots": [0, 1, 7]}
    assert bench.pool.req_to_token[0].tolist() == [0 if i == dummy_len - 1 else 39 for i in range(CONTEXT)]


@pytest.mark.parametrize("num_dummies", [0, 1, 2, 4])
@pytest.mark.parametrize("accumulate", [True, False])
def test_with_length_the_dummies_raise_row_0(num_dummies: int, accumulate: bool) -> None:
    """A kernel with atomic adds raises row 0 once for each dummy entry; torch's += on a repeated row, once."""
    bench = Bench(2, graph_sizes=(2 + num_dummies,), writes="length", accumulate=accumulate)
    drift = num_dummies if accumulate else min(num_dummies, 1)
    for step in (1, 2, 3):
        bench.step(0, 1)
        assert bench.pool.verified_lens.tolist() == [drift * step, 3 + step, 3 + step, 0, 0, 0, 0]


def test_a_growing_length_of_row_0_does_not_move_where_dummies_read() -> None:
    bench = Bench(2, graph_sizes=(4,), writes="length", accumulate=True)
    for _ in range(3 * CONTEXT):  # past the row's end
        bench.step(0, 1)
    assert bench.runner.kv_indptr.tolist() == [0, 4, 8, 9, 10]
    assert bench.step(0, 1, wanted=2) == ["c", "y"]


@pytest.mark.parametrize("writes", ["slot", "length"])
def test_slot_minus_1_stores_nothing(writes: str) -> None:
    bench = Bench(2, graph_sizes=(4,), dummy_slot=-1, writes=writes)
    assert changes(bench, 0, 1)["slots"] == [1, 7]
    assert not bench.model.cache.k[0, 0].any() and not bench.model.cache.v[0, 0].any()
    assert not bench.model.cache.k[0, NUM_SLOTS].any(), "slot -1 is not the last slot"
    assert bench.step(0, 1, wanted=1) == ["b", "x"]


def test_the_damage_of_a_dummy_without_a_padding_row_is_one_cell_of_row_0() -> None:
    bench = Bench(1, NoPaddingRow, graph_sizes=(4,), writes="cell", dummy_len=2)
    assert bench.rows == [0]
    assert changes(bench, 0)["cells"] == [(0, 1)]
    assert [bench.step(0, wanted=position)[0] for position in (0, 2, 3)] == ["a", "c", "d"]
    assert bench.step(0, wanted=1) == [DUMMY]  # position 1 lies in slot 0 now, and a dummy has spoken there


@pytest.mark.parametrize("row", [1, 2])
def test_dummies_read_and_write_the_row_they_are_told(row: int) -> None:
    bench = Bench(1, graph_sizes=(3,), writes="length", accumulate=True, padding_row=row)
    bench.step(0)
    assert bench.pool.verified_lens.tolist()[:3] == ([0, 3 + 1 + 2, 0] if row == 1 else [0, 4, 2])


# ---- the stale tail ----------------------------------------------------------------------------------------------


def shrunk(refresh_tail: bool, writes: str = "slot") -> Bench:
    """A step of four, then one of two in the same graph, after the other two have gone."""
    bench = Bench(4, graph_sizes=(4,), refresh_tail=refresh_tail, writes=writes)
    bench.step(0, 1, 2, 3)
    bench.pool.free(bench.reqs[2])
    bench.pool.free(bench.reqs[3])
    return bench


def test_a_stale_tail_is_there_when_it_is_not_refreshed() -> None:
    bench = shrunk(refresh_tail=False)
    bench.step(0, 1)
    assert bench.runner.static["rows"].tolist() == [1, 2, 3, 4]
    bench = shrunk(refresh_tail=True)
    bench.step(0, 1)
    assert bench.runner.static["rows"].tolist() == [1, 2, 0, 0]


@pytest.mark.parametrize("refresh_tail", [True, False])
def test_a_stale_tail_writes_into_a_slot_that_is_somebody_elses_by_now(refresh_tail: bool) -> None:
    bench = shrunk(refresh_tail)
    slot = int(bench.pool.req_to_token[3, len(TEXTS[2]) - 1])  # of request 2, which has gone: now request 0's
    bench.pool.req_to_token[1, 0] = slot
    bench.model.write(torch.tensor([slot]), torch.tensor([0]), bench.model.tokens("a"))
    said = bench.step(0, 1)
    assert (bench.letter(slot) == "a") == refresh_tail
    assert (said == ["a", "w"]) == refresh_tail


@pytest.mark.parametrize("refresh_tail", [True, False])
def test_a_stale_tail_raises_the_length_of_a_row_that_is_free(refresh_tail: bool) -> None:
    bench = shrunk(refresh_tail, writes="length")
    bench.step(0, 1)
    assert bench.pool.verified_lens.tolist()[3:5] == ([0, 0] if refresh_tail else [1, 1])


def test_a_stale_tail_of_several_rows_is_named_row_by_row() -> None:
    facts: list[tuple[str, dict[str, Any]]] = []
    bench = Bench(
        4,
        graph_sizes=(4,),
        refresh_tail=False,
        writes="length",
        on_fact=lambda kind, **said: facts.append((kind, said)),
    )
    bench.step(0, 1, 2, 3)
    assert facts == [("verify", {"rows": [1, 2, 3, 4]})]
    bench.step(0, 1)
    kind, said = facts[-1]
    assert (kind, said["rows"]) == ("pad_write", [1, 2, 3, 4])
    assert "1 dummy entry names row 3 and 1 dummy entry names row 4, which rises once" in said["text"]


@pytest.mark.parametrize("writes", ["slot", "cell", "length"])
def test_where_nobody_listens_nothing_is_looked_up(writes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(2, graph_sizes=(4,), writes=writes)
    monkeypatch.setattr(bench.runner, "dummies", None)
    assert bench.step(0, 1) == ["a", "w"]


# ---- nothing is asked of the host --------------------------------------------------------------------------------


def test_the_captured_step_asks_nothing_of_the_host() -> None:
    """On tensors without any numbers in them it runs through: .item(), .tolist(), a size that depends on data raise."""
    with FakeTensorMode():
        pool = ReqToTokenPool(3, CONTEXT, device="cpu")
        runner = GraphRunner(pool, Recite(NUM_SLOTS, CONTEXT), graph_sizes=(2, 4))
        for size in runner.graph_sizes:
            runner._step(size)
        with pytest.raises(DataDependentOutputException):  # so it would be noticed
            runner.out.sum().item()


class Shapes(TorchDispatchMode):
    """Every operation with the shapes it takes and gives."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.seen.append((str(func), *(shapes(it) for it in (args, out))))
        return out


def shapes(it: Any) -> Any:
    if isinstance(it, torch.Tensor):
        return tuple(it.shape)
    return [shapes(each) for each in it] if isinstance(it, (list, tuple)) else None


def test_the_captured_step_does_the_same_operations_whatever_the_lengths() -> None:
    bench, seen = Bench(4, graph_sizes=(4,)), []
    for who in ((0, 1, 2, 3), (2,), (3, 0)):
        bench.step(*who)
        with Shapes() as mode:
            bench.runner._step(4)
        seen.append(mode.seen)
    assert seen[0] == seen[1] == seen[2] and len(seen[0]) > 10


def test_a_replay_reads_the_buffers_and_not_the_table() -> None:
    """`flatten_rows` comes before the replay: what happens to the table afterwards, the captured step cannot see."""
    bench = Bench(2, graph_sizes=(2,))
    assert bench.step(0, 1) == ["a", "w"]
    bench.pool.req_to_token.zero_()
    bench.runner.out.zero_()
    bench.runner._step(2)
    assert [LETTERS[token] for token in bench.runner.out[:2].tolist()] == ["a", "w"]
