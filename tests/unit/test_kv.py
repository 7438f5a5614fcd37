"""Slots, K and V, and the flattened rows, each beside the slow and obvious way to say the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from reqpool.kv import KVCache, TokenToKVPoolAllocator, _gather, flatten_rows
from reqpool.pool import ReqToTokenPool

# ---- slots -------------------------------------------------------------------------------------------------------


class SlotMachine(RuleBasedStateMachine):
    """The allocator beside a list: what is free, in the order in which it will be handed out."""

    @initialize(size=st.integers(1, 6))
    def begin(self, size: int) -> None:
        self.size = size
        self.slots = TokenToKVPoolAllocator(size)
        self.free = list(range(1, size + 1))

    @property
    def taken(self) -> list[int]:
        return [slot for slot in range(1, self.size + 1) if slot not in self.free]

    @rule(n=st.integers(0, 7))
    def alloc(self, n: int) -> None:
        got = self.slots.alloc(n)
        if n > len(self.free):
            assert got is None
            return
        assert got is not None and got.dtype == torch.int64 and got.tolist() == self.free[:n]
        self.free = self.free[n:]
        got += 100  # the caller's tensor is the caller's

    @rule(data=st.data(), how=st.sampled_from([list, tuple, torch.tensor, lambda s: torch.tensor(s).int()]))
    def give_back(self, data: st.DataObject, how: Any) -> None:
        some = data.draw(st.permutations(self.taken))[: data.draw(st.integers(0, self.size))]
        self.slots.free(how(some) if some else [])
        self.free += some

    @rule(data=st.data())
    def a_wrong_free_changes_nothing(self, data: st.DataObject) -> None:
        odd = data.draw(st.sampled_from([0, -1, self.size + 1, *self.free]))
        at = data.draw(st.integers(0, len(self.taken)))
        with pytest.raises(ValueError, match=f"{odd}"):
            self.slots.free([*self.taken[:at], odd, *self.taken[at:]])

    @rule(data=st.data())
    def a_slot_freed_twice_in_one_call_changes_nothing(self, data: st.DataObject) -> None:
        if self.taken:
            slot = data.draw(st.sampled_from(self.taken))
            with pytest.raises(ValueError, match="twice"):
                self.slots.free([slot, *self.taken])

    @rule(data=st.data())
    def free_what_is_taken(self, data: st.DataObject) -> None:
        some = data.draw(st.lists(st.integers(-2, self.size + 2), max_size=8))
        wanted = sorted(set(some) & set(self.taken))
        assert self.slots.free_what_is_taken(torch.tensor(some, dtype=torch.int32)) == len(wanted)
        self.free += wanted

    @rule()
    def clear(self) -> None:
        self.slots.clear()
        self.free = list(range(1, self.size + 1))

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "slots"):
            self.slots.check()
            assert self.slots.available_size() == len(self.free)

    def teardown(self) -> None:
        if hasattr(self, "slots"):
            assert self.slots.alloc(len(self.free)).tolist() == self.free  # the order, to the last one


def test_the_allocator_is_the_slow_list() -> None:
    run_state_machine_as_test(SlotMachine, settings=settings(max_examples=150, stateful_step_count=25, deadline=None))


@pytest.mark.parametrize("size", [0, -1])
def test_an_allocator_without_slots_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"size must be at least 1, got {size}"):
        TokenToKVPoolAllocator(size)


@pytest.mark.parametrize("n", [1.0, True, "1", None])
def test_a_number_of_slots_is_an_integer(n: Any) -> None:
    slots = TokenToKVPoolAllocator(3)
    with pytest.raises(TypeError, match="n must be an integer"):
        slots.alloc(n)
    with pytest.raises(TypeError, match="size must be an integer"):
        TokenToKVPoolAllocator(n)


def test_fewer_than_no_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="n >= 0"):
        TokenToKVPoolAllocator(3).alloc(-1)


@pytest.mark.parametrize("slots", [torch.tensor([1.0]), torch.tensor([[1]]), [1.5], 1, [True]])
def test_what_is_no_list_of_slots_is_refused_and_nothing_is_free(slots: Any) -> None:
    allocator = TokenToKVPoolAllocator(3)
    allocator.alloc(3)
    with pytest.raises((TypeError, ValueError), match="slots"):
        allocator.free(slots)
    assert allocator.available_size() == 0


def test_check_finds_a_lost_slot_and_a_doubled_one() -> None:
    for tamper in ("lost", "doubled"):
        allocator = TokenToKVPoolAllocator(4)
        taken = allocator.alloc(2)
        allocator._taken[taken[0] if tamper == "lost" else 3] = tamper == "doubled"
        with pytest.raises(RuntimeError, match="slots do not add up"):
            allocator.check()


# ---- K and V -----------------------------------------------------------------------------------------------------


def test_what_is_written_to_a_slot_is_read_from_it_and_nowhere_else() -> None:
    cache = KVCache(size=5, num_layers=2, num_heads=3, head_dim=4, dtype=torch.float64)
    assert cache.k.shape == cache.v.shape == (2, 6, 3, 4) and cache.k.dtype == torch.float64
    k, v = torch.rand(2, 2, 3, 4, dtype=torch.float64)
    cache.write(1, torch.tensor([5, 0]), k, v)
    got_k, got_v = cache.read(1, torch.tensor([5, 0]))
    assert torch.equal(got_k, k) and torch.equal(got_v, v)
    assert not cache.k[0].any() and not cache.v[0].any()
    assert not cache.k[1, 1:5].any() and not cache.v[1, 1:5].any()


def test_what_is_read_is_a_copy() -> None:
    cache = KVCache(size=2, head_dim=2)
    for tensor in cache.read(0, torch.tensor([1, 2])):
        tensor += 1
    assert not cache.k.any() and not cache.v.any()


def test_a_batch_is_read_in_the_shape_of_its_slots() -> None:
    k, v = KVCache(size=4, num_heads=2, head_dim=3).read(0, torch.zeros(5, 7, dtype=torch.int64))
    assert k.shape == v.shape == (5, 7, 2, 3)


@pytest.mark.parametrize("name", ["size", "num_layers", "num_heads", "head_dim"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_a_cache_of_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        KVCache(**{"size": 2, name: value})


# ---- flatten_rows ------------------------------------------------------------------------------------------------

NUM_ROWS, WIDTH = 5, 6


def a_pool() -> ReqToTokenPool:
    """Every cell holds a different slot, row 0 too: a mistake of one row or one position shows."""
    pool = ReqToTokenPool(NUM_ROWS - 1, WIDTH, device="cpu")
    pool.req_to_token[:] = torch.arange(1, NUM_ROWS * WIDTH + 1).reshape(NUM_ROWS, WIDTH)
    return pool


def the_obvious_loop(pool: Any, rows: list[int], lens: list[int]) -> tuple[list[int], list[int]]:
    indptr, indices = [0], []
    for row, length in zip(rows, lens, strict=True):
        for position in range(length):
            indices.append(int(pool.req_to_token[row, position]))
        indptr.append(len(indices))
    return indptr, indices


BATCHES = st.lists(st.tuples(st.integers(0, NUM_ROWS - 1), st.integers(0, WIDTH)), max_size=7)
FORMS = st.sampled_from(
    [list, tuple, torch.tensor, lambda n: torch.tensor(n, dtype=torch.int32), np.array, lambda n: iter(n)]
)


def in_form(form: Any, numbers: list[int]) -> Any:
    return form(numbers) if numbers else []  # an empty tensor is one of floats


@given(batch=BATCHES, rows_form=FORMS, lens_form=FORMS)
def test_flattened_rows_are_those_of_the_obvious_loop(
    batch: list[tuple[int, int]], rows_form: Any, lens_form: Any
) -> None:
    pool, rows, lens = a_pool(), [row for row, _ in batch], [length for _, length in batch]
    before = pool.req_to_token.clone()
    kv_indptr, kv_indices = flatten_rows(pool, in_form(rows_form, rows), in_form(lens_form, lens))
    assert (kv_indptr.tolist(), kv_indices.tolist()) == the_obvious_loop(pool, rows, lens)
    assert (kv_indptr.dtype, kv_indices.dtype) == (torch.int64, torch.int32)
    assert torch.equal(pool.req_to_token, before)


@given(batch=BATCHES)
def test_the_gather_of_a_gpu_gives_the_same(batch: list[tuple[int, int]]) -> None:
    pool, rows, lens = a_pool(), [row for row, _ in batch], [length for _, length in batch]
    indptr, indices = the_obvious_loop(pool, rows, lens)
    offsets, flat = torch.full((len(indptr),), -7), torch.full((len(indices) + 3,), -7, dtype=torch.int32)
    _gather(pool.req_to_token, np.array(rows, dtype=np.int64), np.array(indptr), offsets, flat[: len(indices)])
    assert offsets.tolist() == indptr
    assert flat.tolist() == [*indices, -7, -7, -7]


@given(batches=st.lists(BATCHES, min_size=1, max_size=4))
def test_static_buffers_are_filled_from_the_front_and_keep_their_stale_tail(batches: list[list[tuple]]) -> None:
    pool = a_pool()
    out = torch.full((8,), -7), torch.full((7 * WIDTH,), -7, dtype=torch.int32)
    there = tuple(buffer.data_ptr() for buffer in out)
    for batch in batches:
        rows, lens = [row for row, _ in batch], [length for _, length in batch]
        tails = tuple(buffer.tolist() for buffer in out)
        got = flatten_rows(pool, rows, lens, out=out)
        for view, buffer, tail, wanted in zip(got, out, tails, the_obvious_loop(pool, rows, lens), strict=True):
            assert view.tolist() == wanted
            assert buffer.tolist() == wanted + tail[len(wanted) :]
        assert tuple(view.data_ptr() for view in got if len(view)) == there[: 1 + bool(len(got[1]))]  # no copy


def test_buffers_that_fit_exactly_are_enough_and_one_less_is_refused_unchanged() -> None:
    pool, rows, lens = a_pool(), [3, 1, 3], [6, 0, 2]
    for short in ((0, 0), (1, 0), (0, 1)):
        out = torch.full((4 - short[0],), -7), torch.full((8 - short[1],), -7, dtype=torch.int32)
        if short == (0, 0):
            flatten_rows(pool, rows, lens, out=out)
            assert out[0].tolist() == [0, 6, 6, 8]
            continue
        with pytest.raises(ValueError, match="wanted at least 4 and 8"):
            flatten_rows(pool, rows, lens, out=out)
        assert all((buffer == -7).all() for buffer in out)


def test_an_empty_batch_has_one_offset() -> None:
    kv_indptr, kv_indices = flatten_rows(a_pool(), [], [])
    assert kv_indptr.tolist() == [0] and kv_indices.tolist() == []


def test_cell_numbers_beyond_two_to_the_31_are_no_trouble_for_the_gather() -> None:
    """A table of 60,000 x 40,000 that takes no room: all its rows are one."""
    table = torch.arange(40_000, dtype=torch.int32).expand(60_000, 40_000)
    offsets, flat = torch.empty(3, dtype=torch.int64), torch.empty(40_002, dtype=torch.int32)
    _gather(table, np.array([59_999, 0]), np.array([0, 40_000, 40_002]), offsets, flat)
    assert flat.tolist() == [*range(40_000), 0, 1] and offsets.tolist() == [0, 40_000, 40_002]


def test_on_a_gpu_nothing_is_asked_of_the_host_where_rows_and_lengths_are_there() -> None:
    """On tensors that have no numbers in them: what waits for the device would raise."""
    pool = SimpleNamespace(req_to_token=torch.empty(NUM_ROWS, WIDTH, dtype=torch.int32, device="meta"))
    kv_indptr, kv_indices = flatten_rows(pool, [1, 3, 0], torch.tensor([2, 6, 1]))
    assert (kv_indptr.shape, kv_indices.shape) == ((4,), (9,))
    assert kv_indptr.is_meta and kv_indices.is_meta
    with pytest.raises((RuntimeError, NotImplementedError)):  # so it would be noticed
        flatten_rows(pool, [1], torch.empty(1, dtype=torch.int64, device="meta"))


@pytest.mark.parametrize(
    ("rows", "lens", "said"),
    [
        ([1, 2], [3], "2 rows and 1 lengths"),
        ([1], [1, 2], "1 rows and 2 lengths"),
        ([NUM_ROWS], [1], rf"row {NUM_ROWS}: wanted rows 0\.\.4, lengths 0\.\.6"),
        ([-1], [1], "row -1"),
        ([1], [WIDTH + 1], f"{WIDTH + 1} positions of row 1"),
        ([1], [-1], "-1 positions of row 1"),
    ],
)
def test_a_batch_that_does_not_fit_the_table_is_refused(rows: list[int], lens: list[int], said: str) -> None:
    for form in (list, torch.tensor):
        with pytest.raises(ValueError, match=said):
            flatten_rows(a_pool(), form(rows), form(lens))


@pytest.mark.parametrize(
    "odd", [[1.0], [True], torch.tensor([1.0]), torch.tensor([True]), torch.tensor([[1]]), torch.tensor(1), [None]]
)
def test_rows_and_lengths_are_one_dimensional_integers(odd: Any) -> None:
    with pytest.raises(TypeError, match="req_pool_indices"):
        flatten_rows(a_pool(), odd, [1])
    with pytest.raises(TypeError, match="seq_lens"):
        flatten_rows(a_pool(), [1], odd)
