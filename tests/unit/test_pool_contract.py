"""What the pool promises, by example. What it refuses is in test_pool_errors.py."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from reqpool.pool import MAX_SLOT, Req, ReqToTokenPool, ReqToTokenPoolInfo
from tests.properties.slow_model import state_of


def new_pool(size: int = 3, max_context_len: int = 5, **options: Any) -> ReqToTokenPool:
    return ReqToTokenPool(size, max_context_len, device="cpu", **options)


def lengths(pool: ReqToTokenPool, row: int) -> tuple[int, int, int]:
    """Known good, reserved, and the host's mirror of the latter."""
    return int(pool.verified_lens[row]), int(pool.alloced_lens[row]), int(pool.alloced_lens_cpu[row])


def info(verified: int, slots: list[int]) -> ReqToTokenPoolInfo:
    return ReqToTokenPoolInfo(verified, len(slots), torch.tensor(slots, dtype=torch.int32))


# ------------------------------------------------------------------------------------------------ Req and info


def test_a_request_begins_without_a_row() -> None:
    req = Req("a")
    assert (req.rid, req.req_pool_idx, req.kv_committed_len, req.inflight_middle_chunks) == ("a", None, 0, 0)


def test_requests_are_compared_by_identity() -> None:
    a, other = Req("a"), Req("a")
    assert a == a and a != other and len({a, other}) == 2


def test_a_request_shows_its_rid_and_row() -> None:
    req = Req("a")
    assert repr(req) == "Req(rid='a', pool_idx=None)"
    new_pool().alloc([req])
    assert repr(req) == "Req(rid='a', pool_idx=1)"


def test_equal_rids_are_two_requests() -> None:
    pool = new_pool()
    first, second = Req("a"), Req("a")
    assert pool.alloc([first, second]) == [1, 2]
    pool.free(first)
    assert (first.req_pool_idx, second.req_pool_idx) == (None, 2)


class SlottedReq:
    __slots__ = ("inflight_middle_chunks", "kv_committed_len", "req_pool_idx", "rid")

    def __init__(self, rid: str) -> None:
        self.rid, self.req_pool_idx, self.kv_committed_len, self.inflight_middle_chunks = rid, None, 0, 0


class ServedReq(Req):
    prompt = (1, 2, 3)


def a_namespace(rid: str) -> Any:
    return types.SimpleNamespace(rid=rid, req_pool_idx=None, kv_committed_len=0, inflight_middle_chunks=0)


@pytest.mark.parametrize("make", [SlottedReq, ServedReq, a_namespace])
def test_any_object_with_the_four_attributes_is_a_request(make: Any) -> None:
    pool, req = new_pool(), make("a")
    assert pool.alloc([req]) == [1] and req.req_pool_idx == 1
    pool.append(req, [7, 8])
    assert pool.read(req).tolist() == [7, 8, 0, 0, 0]
    req.inflight_middle_chunks = 1
    assert pool.alloc([req]) == [1]
    pool.free(req)
    assert req.req_pool_idx is None


def test_an_info_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        info(0, [7]).verified_len = 1  # type: ignore[misc]


def test_infos_are_compared_by_identity() -> None:
    one, other = info(0, [7]), info(0, [7])
    assert one == one and one != other and len({one, other}) == 2


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_an_info_keeps_an_int32_copy_of_its_slots(dtype: torch.dtype) -> None:
    slots = torch.tensor([7, MAX_SLOT], dtype=dtype)
    kept = ReqToTokenPoolInfo(1, 2, slots)
    slots[0] = 99
    assert kept.alloced_slots.dtype == torch.int32
    assert kept.alloced_slots.tolist() == [7, MAX_SLOT]


# ------------------------------------------------------------------------------------------------ attributes


def test_the_table_has_a_row_more_than_there_are_usable_rows() -> None:
    pool = new_pool(size=3, max_context_len=5)
    assert (pool.size, pool.max_context_len, pool.device) == (3, 5, torch.device("cpu"))
    assert pool.req_to_token.shape == (4, 5) and pool.req_to_token.dtype == torch.int32
    assert not pool.req_to_token.any()


def test_lengths_are_int32_and_generations_int64_one_for_each_row() -> None:
    pool = new_pool(size=3)
    for lens in (pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu):
        assert lens.shape == (4,) and lens.dtype == torch.int32 and not lens.any()
    assert pool.generation.shape == (4,) and pool.generation.dtype == torch.int64 and not pool.generation.any()


def test_the_mirror_is_storage_of_its_own() -> None:
    pool = new_pool()
    pool.alloced_lens[1] = 4
    assert int(pool.alloced_lens_cpu[1]) == 0
    pool.alloced_lens_cpu[2] = 3
    assert int(pool.alloced_lens[2]) == 0
    storages = {t.untyped_storage().data_ptr() for t in (pool.alloced_lens, pool.verified_lens)}
    assert pool.alloced_lens_cpu.untyped_storage().data_ptr() not in storages


def test_the_two_device_lengths_do_not_overlap() -> None:
    pool = new_pool()
    pool.verified_lens.fill_(1)
    assert pool.alloced_lens.tolist() == [0, 0, 0, 0]


def test_the_free_rows_can_be_counted_and_walked_in_hand_out_order() -> None:
    pool = new_pool(size=3)
    assert len(pool.free_slots) == 3 and list(pool.free_slots) == [1, 2, 3]
    pool.alloc_rows(1)
    assert len(pool.free_slots) == pool.available_size() == 2 and list(pool.free_slots) == [2, 3]


def test_the_smallest_pool_has_one_usable_row() -> None:
    pool = new_pool(size=1, max_context_len=1)
    assert pool.alloc_rows(1) == [1] and pool.alloc_rows(1) is None


def test_numpy_and_torch_integers_are_welcome() -> None:
    pool = ReqToTokenPool(np.int64(3), torch.tensor(5), device="cpu")
    assert (pool.size, pool.max_context_len) == (3, 5) and type(pool.size) is int
    assert pool.alloc_rows(np.int32(1)) == [1] and pool.alloc_rows(torch.tensor(2)) == [2, 3]
    pool.append(np.int64(1), np.array([7, 8]))
    pool.append(torch.tensor(1), torch.tensor([9]))
    pool.set_req_pool_info(np.int16(1), ReqToTokenPoolInfo(np.int64(1), torch.tensor(3), torch.tensor([7, 8, 9])))
    assert pool.get_req_pool_info(torch.tensor(1)).alloced_slots.tolist() == [7, 8, 9]
    pool.free_rows(np.int64(2))
    pool.free_rows(torch.tensor([1, 3]))
    assert list(pool.free_slots) == [2, 1, 3] and all(type(row) is int for row in pool.free_slots)


@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
def test_its_repr_is_the_engines(reuse: str) -> None:
    pool = new_pool(size=3, max_context_len=5, reuse=reuse)
    pool.alloc_rows(1)
    assert repr(pool) == "ReqToTokenPool(size=3, max_context_len=5, free=2, device=cpu)"


# ------------------------------------------------------------------------------------------------ alloc


def test_alloc_gives_a_row_to_each_request_in_batch_order() -> None:
    pool = new_pool()
    a, b, c = Req("a"), Req("b"), Req("c")
    pool.alloc([b])
    assert pool.alloc([c, a]) == [2, 3]
    assert (a.req_pool_idx, b.req_pool_idx, c.req_pool_idx) == (3, 1, 2)


def test_an_empty_batch_gets_an_empty_list_even_from_a_full_pool() -> None:
    pool = new_pool(size=1)
    assert pool.alloc([]) == [] and pool.alloc_rows(0) == []
    pool.alloc_rows(1)
    assert pool.alloc([]) == [] and pool.alloc_rows(0) == []


def test_a_batch_may_be_any_iterable() -> None:
    pool = new_pool()
    assert pool.alloc(Req(rid) for rid in "ab") == [1, 2]
    assert pool.alloc((Req("c"),)) == [3]


def test_row_0_is_never_handed_out() -> None:
    for reuse in ("fifo", "lifo"):
        pool = new_pool(size=3, reuse=reuse)
        for _ in range(5):
            rows = [pool.alloc_rows(1) for _ in range(4)]
            assert rows.pop() is None
            assert sorted(row for [row] in rows) == [1, 2, 3]
            pool.free_rows([row for [row] in rows])


def test_a_batch_that_does_not_fit_gets_none_and_nothing_has_changed() -> None:
    pool = new_pool(size=3)
    kept, new, newer = Req("kept"), Req("new"), Req("newer")
    pool.alloc([kept, Req("other")])
    kept.inflight_middle_chunks = 1
    pool.append(kept, [7, 8])
    pool.alloced_lens[3] = 4  # a late write in the free row: not even the reset has happened
    before = state_of(pool)
    assert pool.alloc([new, kept, newer]) is None
    assert pool.alloc_rows(2) is None
    assert pool.alloc_rows(4) is None  # more than the pool has: not now, as in the engines
    assert pool.alloc_rows(10**30) is None
    assert state_of(pool) == before
    assert (new.req_pool_idx, kept.req_pool_idx, newer.req_pool_idx) == (None, 1, None)


def test_a_batch_that_fits_to_the_last_row_gets_it() -> None:
    pool = new_pool(size=3)
    assert pool.alloc([Req("a"), Req("b"), Req("c")]) == [1, 2, 3]
    assert pool.available_size() == 0


@pytest.mark.parametrize(("chunks", "committed"), [(1, 0), (0, 1), (2, 4)])
def test_a_started_request_keeps_its_row_and_its_lengths(chunks: int, committed: int) -> None:
    pool = new_pool()
    a, b = Req("a"), Req("b")
    pool.alloc([a])
    pool.append(a, [7, 8, 9])
    pool.verify([1], 2)
    a.inflight_middle_chunks, a.kv_committed_len = chunks, committed
    assert pool.alloc([b, a]) == [2, 1]
    assert lengths(pool, 1) == (2, 3, 3)
    assert pool.generation.tolist() == [0, 1, 1, 0]
    assert pool.read(a).tolist() == [7, 8, 9, 0, 0]
    assert (a.inflight_middle_chunks, a.kv_committed_len) == (chunks, committed)


def test_a_kept_row_needs_no_free_row() -> None:
    pool = new_pool(size=1)
    a = Req("a", kv_committed_len=4)
    pool.alloc([a])
    assert pool.alloc([a]) == [1]
    assert pool.alloc([a, Req("b")]) is None


def test_a_request_with_committed_tokens_but_no_row_gets_a_new_one() -> None:
    pool = new_pool()
    resumed = Req("a", kv_committed_len=4, inflight_middle_chunks=1)
    assert pool.alloc([resumed]) == [1]


def test_alloc_rows_gives_rows_that_no_request_holds() -> None:
    pool = new_pool()
    assert pool.alloc_rows(2) == [1, 2]
    assert pool.holders == {1: None, 2: None}
    assert pool.alloc([Req("a")]) == [3]


def test_the_holders_one_is_shown_are_a_copy() -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    pool.holders.clear()
    assert pool.holders == {1: None}


# ------------------------------------------------------------------------------------------------ order of reuse


def test_fresh_pools_of_both_kinds_give_1_2_3() -> None:
    assert new_pool(reuse="fifo").alloc_rows(3) == [1, 2, 3]
    assert new_pool(reuse="lifo").alloc_rows(3) == [1, 2, 3]
    assert new_pool().reuse == "fifo"


def test_fifo_takes_from_the_head_and_gives_back_at_the_tail() -> None:
    pool = new_pool(size=5, reuse="fifo")
    pool.alloc_rows(5)
    pool.free_rows([3, 5])
    pool.free_rows(1)
    assert list(pool.free_slots) == [3, 5, 1]
    assert pool.alloc_rows(2) == [3, 5]


def test_lifo_takes_the_row_freed_last() -> None:
    pool = new_pool(size=5, reuse="lifo")
    pool.alloc_rows(5)
    pool.free_rows([3, 5])
    assert pool.alloc_rows(2) == [5, 3]
    pool.free_rows([3, 5])
    pool.free_rows(1)
    assert list(pool.free_slots) == [1, 5, 3]


def test_requests_are_reused_in_the_same_order_as_rows() -> None:
    for reuse, wanted in (("fifo", [1, 2]), ("lifo", [2, 1])):
        pool = new_pool(size=2, reuse=reuse)
        a, b = Req("a"), Req("b")
        pool.alloc([a, b])
        pool.free(a)
        pool.free(b)
        assert pool.alloc([Req("c"), Req("d")]) == wanted


@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
def test_a_big_pool_is_not_slower_than_a_small_one(reuse: str) -> None:
    def fastest(size: int) -> float:
        pool = new_pool(size=size, max_context_len=1, reuse=reuse)
        times = []
        for _ in range(30):
            began = time.perf_counter()
            pool.free_rows(pool.alloc_rows(1))
            times.append(time.perf_counter() - began)
        return min(times)

    assert fastest(300_000) < 10 * fastest(64)  # taking a slice of the free list is a hundred times slower


# ------------------------------------------------------------------------------------------------ free


@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
def test_free_zeroes_the_lengths_and_leaves_the_cells(reuse: str) -> None:
    pool = new_pool(reuse=reuse)
    a = Req("a")
    pool.alloc([a])
    pool.append(a, [7, 8, 9])
    pool.verify([1], 2)
    pool.free(a)
    assert a.req_pool_idx is None and pool.holders == {}
    assert lengths(pool, 1) == (0, 0, 0)
    assert pool.req_to_token[1].tolist() == [7, 8, 9, 0, 0]
    assert 1 in pool.free_slots


def test_free_rows_zeroes_the_lengths_and_leaves_the_cells() -> None:
    pool = new_pool()
    pool.alloc_rows(3)
    for row in (1, 2, 3):
        pool.append(row, [row, 9])
        pool.verify([row], 1)
    pool.free_rows([3, 1])
    assert [lengths(pool, row) for row in (1, 2, 3)] == [(0, 0, 0), (1, 2, 2), (0, 0, 0)]
    assert pool.req_to_token[:, 0].tolist() == [0, 1, 2, 3]


def test_free_leaves_what_is_the_schedulers() -> None:
    pool = new_pool()
    a = Req("a", kv_committed_len=4, inflight_middle_chunks=1)
    pool.alloc([a])
    pool.free(a)
    assert (a.kv_committed_len, a.inflight_middle_chunks) == (4, 1)


def test_free_moves_no_other_row() -> None:
    pool = new_pool()
    a, b = Req("a"), Req("b")
    pool.alloc([a, b])
    pool.append(b, [7, 8])
    pool.free(a)
    assert b.req_pool_idx == 2 and lengths(pool, 2) == (0, 2, 2) and pool.holders == {2: b}


@pytest.mark.parametrize(
    "rows", [[2, 3], (2, 3), range(2, 4), np.array([2, 3]), torch.tensor([2, 3]), {2: "", 3: ""}], ids=repr
)
def test_free_rows_takes_one_row_or_any_iterable_of_rows(rows: Any) -> None:
    pool = new_pool()
    pool.alloc_rows(3)
    pool.free_rows(1)
    pool.free_rows(rows)
    assert list(pool.free_slots) == [1, 2, 3]


def test_free_rows_takes_a_generator_and_an_empty_list() -> None:
    pool = new_pool()
    pool.alloc_rows(2)
    pool.free_rows([])
    assert pool.available_size() == 1
    pool.free_rows(row for row in (2, 1))
    assert list(pool.free_slots) == [3, 2, 1]


# ------------------------------------------------------------------------------------------------ reset and generation


@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
@pytest.mark.parametrize("by_count", [False, True])
def test_a_row_given_anew_has_zero_lengths_although_a_late_write_landed_while_it_was_free(
    reuse: str, by_count: bool
) -> None:
    pool = new_pool(size=2, reuse=reuse)
    old, new = Req("old"), Req("new")
    pool.alloc([old])
    pool.free(old)
    pool.verified_lens[1] = 3
    pool.alloced_lens[1] = 4
    pool.alloced_lens_cpu[1] = 4
    rows = pool.alloc_rows(2) if by_count else pool.alloc([new, Req("other")])
    assert sorted(rows or []) == [1, 2]
    assert lengths(pool, 1) == (0, 0, 0)


def test_a_refused_batch_resets_nothing() -> None:
    pool = new_pool(size=1)
    pool.verified_lens[1] = 3
    assert pool.alloc_rows(2) is None
    assert int(pool.verified_lens[1]) == 3


def test_generation_counts_hand_outs_and_never_goes_back() -> None:
    pool = new_pool(size=2)
    a = Req("a")
    pool.alloc([a])
    assert pool.generation.tolist() == [0, 1, 0]
    pool.free(a)
    assert pool.generation.tolist() == [0, 1, 0]
    pool.alloc_rows(2)
    assert pool.generation.tolist() == [0, 2, 1]
    pool.clear()
    assert pool.generation.tolist() == [0, 2, 1]
    pool.alloc_rows(1)
    assert pool.generation.tolist() == [0, 3, 1]


def test_generation_lies_on_the_host() -> None:
    assert new_pool().generation.device.type == "cpu"


# Three moments at which the previous owner's forward step can write late, and what saves whom.


def test_a_late_write_before_free_does_no_harm() -> None:
    pool = new_pool(size=1, max_context_len=16)
    a, b = Req("a"), Req("b")
    pool.alloc([a])
    pool.verify([1], 8)
    pool.free(a)
    assert lengths(pool, 1) == (0, 0, 0)
    pool.alloc([b])
    assert lengths(pool, 1) == (0, 0, 0)
    pool.check()


def test_between_free_and_alloc_the_reset_saves_and_the_generation_says_nothing() -> None:
    pool = new_pool(size=1, max_context_len=16)
    a, b = Req("a"), Req("b")
    pool.alloc([a])
    launched_with = int(pool.generation[1])
    pool.free(a)
    assert int(pool.generation[1]) == launched_with  # a check of the count alone lets the write through
    pool.verify([1], 8)
    pool.check()  # lengths of free rows are exempt
    pool.alloc([b])
    assert lengths(pool, 1) == (0, 0, 0)


def test_after_alloc_the_generation_tells_and_the_reset_is_too_early() -> None:
    pool = new_pool(size=1, max_context_len=16)
    a, b = Req("a"), Req("b")
    pool.alloc([a])
    launched_with = int(pool.generation[1])
    pool.free(a)
    pool.alloc([b])
    assert int(pool.generation[1]) != launched_with  # the host thread that issues the write can refuse it
    pool.verify([1], 8)
    assert lengths(pool, 1) == (8, 0, 0)
    with pytest.raises(RuntimeError):
        pool.check()


# ------------------------------------------------------------------------------------------------ clear


@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
def test_clear_zeroes_everything_but_the_generation(reuse: str) -> None:
    pool = new_pool(reuse=reuse)
    pool.alloc_rows(3)
    pool.append(1, [7, 8])
    pool.verify([1], 2)
    pool.free_rows([2])
    for late in (pool.req_to_token, pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu):
        late[0] = 5  # the padding row too
    tensors = (pool.req_to_token, pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu)
    pool.clear()
    fresh = {**state_of(new_pool(reuse=reuse)), "generation": [0, 1, 1, 1]}
    assert state_of(pool) == fresh
    now = (pool.req_to_token, pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu)
    assert [t.data_ptr() for t in now] == [t.data_ptr() for t in tensors]  # who holds a view still sees the pool


def test_clear_releases_every_holder_so_that_a_late_free_is_refused() -> None:
    pool = new_pool(size=2)
    a, b = Req("a"), Req("b")
    pool.alloc([a])
    pool.alloc_rows(1)
    pool.clear()
    assert a.req_pool_idx is None and pool.holders == {}
    for late in (lambda: pool.free(a), lambda: pool.free_rows(2)):
        with pytest.raises(ValueError):
            late()
    assert pool.alloc([b, a]) == [1, 2]
    pool.check()


# ------------------------------------------------------------------------------------------------ cells and lengths


def test_write_is_index_assignment_and_moves_no_length() -> None:
    pool, twin = new_pool(), torch.zeros(4, 5, dtype=torch.int32)
    pool.alloc_rows(3)
    rows, positions = torch.tensor([1, 2]), torch.tensor([0, 3])
    for indices, values in (
        ((1, slice(0, 3)), torch.tensor([7, 8, 9], dtype=torch.int32)),
        ((rows, positions), torch.tensor([5, 6], dtype=torch.int32)),
        (3, 4),
        ((2, -1), 11),  # nothing is checked here: that is CheckedPool's work
        (twin == 6, 12),
    ):
        pool.write(indices, values)
        twin[indices] = values
        assert torch.equal(pool.req_to_token, twin)
    assert not pool.alloced_lens.any() and not pool.alloced_lens_cpu.any() and not pool.verified_lens.any()


@pytest.mark.parametrize(
    "slots", [[7, 8], (7, 8), range(7, 9), np.array([7, 8]), torch.tensor([7, 8]), torch.tensor([7, 8]).int()], ids=repr
)
def test_append_writes_behind_what_is_reserved_and_raises_both_lengths(slots: Any) -> None:
    pool = new_pool()
    a = Req("a")
    pool.alloc([Req("other"), a])
    pool.append(a, [1])
    pool.append(a, slots)
    pool.append(2, iter([9]))
    assert pool.req_to_token.tolist() == [[0] * 5, [0] * 5, [1, 7, 8, 9, 0], [0] * 5]
    assert lengths(pool, 2) == (0, 4, 4) and lengths(pool, 1) == (0, 0, 0)


def test_append_fills_a_row_to_its_last_position() -> None:
    pool = new_pool(max_context_len=5)
    pool.alloc_rows(1)
    pool.append(1, [1, 2, 3, 4, MAX_SLOT])
    pool.append(1, [])
    assert pool.req_to_token[1].tolist() == [1, 2, 3, 4, MAX_SLOT] and lengths(pool, 1) == (0, 5, 5)
    assert pool.req_to_token[2].tolist() == [0] * 5


def test_append_takes_rows_handed_out_by_request_too() -> None:
    pool = new_pool()
    pool.alloc([Req("a")])
    pool.append(1, [7])
    assert lengths(pool, 1) == (0, 1, 1)


def test_append_keeps_no_hold_of_the_slots_it_was_given() -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    slots = torch.tensor([7, 8], dtype=torch.int32)
    pool.append(1, slots)
    slots.zero_()
    assert pool.req_to_token[1].tolist() == [7, 8, 0, 0, 0]


@pytest.mark.parametrize("rows", [[1, 3], torch.tensor([1, 3]), (1, 3)], ids=repr)
def test_verify_raises_the_known_good_length_and_nothing_else(rows: Any) -> None:
    pool = new_pool()
    pool.alloc_rows(3)
    pool.append(1, [7, 8])
    pool.verify(list(rows) if isinstance(rows, tuple) else rows, 2)
    assert pool.verified_lens.tolist() == [0, 2, 0, 2]
    assert pool.alloced_lens.tolist() == pool.alloced_lens_cpu.tolist() == [0, 2, 0, 0]


def test_verify_takes_one_number_for_each_row() -> None:
    pool = new_pool()
    pool.alloc_rows(3)
    pool.verify(torch.tensor([1, 2]), torch.tensor([2, 5], dtype=torch.int32))
    pool.verify(torch.tensor([1, 2]), torch.tensor([1, 1], dtype=torch.int32))
    assert pool.verified_lens.tolist() == [0, 3, 6, 0]


def test_read_gives_a_view_of_the_whole_row() -> None:
    pool = new_pool()
    a = Req("a")
    pool.alloc([Req("other"), a])
    pool.append(a, [7, 8])
    row = pool.read(a)
    assert row.tolist() == [7, 8, 0, 0, 0]
    row[4] = 9
    assert pool.req_to_token[2].tolist() == [7, 8, 0, 0, 9]


# ------------------------------------------------------------------------------------------------ get and set info


def test_get_then_set_is_the_identity() -> None:
    pool = new_pool()
    a = Req("a")
    pool.alloc([a, Req("b")])
    pool.append(a, [7, 8, 9])
    pool.verify([1], 2)
    pool.write((1, 4), 5)  # beyond the length: no business of the info
    before = state_of(pool)
    got = pool.get_req_pool_info(1)
    assert (got.verified_len, got.alloced_len, got.alloced_slots.tolist()) == (2, 3, [7, 8, 9])
    pool.set_req_pool_info(1, got)
    assert state_of(pool) == before


def test_what_get_gives_is_a_copy() -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    pool.append(1, [7, 8])
    got = pool.get_req_pool_info(1)
    pool.write((1, 0), 99)
    assert got.alloced_slots.tolist() == [7, 8]
    got.alloced_slots[1] = 98
    assert pool.req_to_token[1].tolist() == [99, 8, 0, 0, 0]


def test_an_info_moves_a_request_to_another_pool() -> None:
    here, there = new_pool(), new_pool(size=2, max_context_len=8)
    here.alloc_rows(1)
    here.append(1, [7, 8, 9])
    here.verify([1], 2)
    there.alloc_rows(2)
    there.set_req_pool_info(2, here.get_req_pool_info(1))
    assert lengths(there, 2) == (2, 3, 3)
    assert there.req_to_token[2].tolist() == [7, 8, 9, 0, 0, 0, 0, 0]
    there.append(2, [10])
    assert there.req_to_token[2, 3] == 10
    there.check()


def test_set_replaces_the_lengths_and_leaves_the_cells_beyond() -> None:
    pool = new_pool()
    pool.alloc_rows(2)
    pool.append(1, [1, 2, 3, 4])
    pool.verify([1], 4)
    pool.set_req_pool_info(1, info(1, [7, 8]))
    assert pool.req_to_token[1].tolist() == [7, 8, 3, 4, 0] and lengths(pool, 1) == (1, 2, 2)
    pool.set_req_pool_info(1, info(0, []))
    assert pool.req_to_token[1].tolist() == [7, 8, 3, 4, 0] and lengths(pool, 1) == (0, 0, 0)
    pool.set_req_pool_info(1, info(5, [5, 6, 7, 8, 9]))
    assert lengths(pool, 1) == (5, 5, 5) and lengths(pool, 2) == (0, 0, 0)


# ------------------------------------------------------------------------------------------------ check


def test_a_lawful_pool_passes_at_every_moment() -> None:
    pool = new_pool(size=3)
    a = Req("a")
    for move in (
        lambda: pool.alloc([a]),
        lambda: pool.alloc_rows(2),
        lambda: pool.append(a, [7, 8]),
        lambda: pool.verify([1], 2),
        lambda: pool.free(a),
        lambda: pool.free_rows([2, 3]),
        pool.clear,
    ):
        pool.check()
        move()
    pool.check()


def test_lengths_of_free_rows_and_of_row_0_are_exempt() -> None:
    pool = new_pool(size=2)
    pool.alloc_rows(1)
    for row in (0, 2):
        pool.verified_lens[row] = 9
        pool.alloced_lens[row] = -1
        pool.alloced_lens_cpu[row] = 7
    pool.check()


def row_0_on_the_list(pool: ReqToTokenPool) -> None:
    pool.free_slots.append(0)


def a_row_on_the_list_twice(pool: ReqToTokenPool) -> None:
    pool.free_slots.append(3)


def a_row_that_is_out_on_the_list(pool: ReqToTokenPool) -> None:
    pool.free_slots.append(1)


def a_row_that_is_nowhere(pool: ReqToTokenPool) -> None:
    pool.free_slots.pop()


def a_row_that_there_is_not(pool: ReqToTokenPool) -> None:
    pool.free_slots[-1] = 4


UNLAWFUL = [
    (row_0_on_the_list, "row 0 is 1x free and 0x handed out"),
    (a_row_on_the_list_twice, "row 3 is 2x free and 0x handed out"),
    (a_row_that_is_out_on_the_list, "row 1 is 1x free and 1x handed out"),
    (a_row_that_is_nowhere, "row 3 is 0x free and 0x handed out"),
    (a_row_that_there_is_not, "row 4 is 1x free and 0x handed out"),
]


@pytest.mark.parametrize(("tamper", "words"), UNLAWFUL, ids=[tamper.__name__ for tamper, _ in UNLAWFUL])
def test_check_finds(tamper: Any, words: str) -> None:
    pool = new_pool(size=3)
    pool.alloc_rows(2)
    tamper(pool)
    with pytest.raises(RuntimeError, match=f"{len(pool.free_slots)} free \\+ 2 handed out") as caught:
        pool.check()
    assert words in str(caught.value) and "1..3" in str(caught.value)


@pytest.mark.parametrize(
    ("verified", "alloced", "mirror", "words"),
    [
        (0, 3, 2, "row 2: alloced_lens is 3, its mirror alloced_lens_cpu is 2"),
        (4, 3, 3, "got 4, 3, 5"),
        (0, 6, 6, "got 0, 6, 5"),
        (-1, 3, 3, "got -1, 3, 5"),
    ],
)
def test_check_compares_the_lengths_of_rows_that_are_out(verified: int, alloced: int, mirror: int, words: str) -> None:
    pool = new_pool(size=3, max_context_len=5)
    pool.alloc_rows(1)
    pool.alloc([Req("a")])
    pool.verified_lens[2], pool.alloced_lens[2], pool.alloced_lens_cpu[2] = verified, alloced, mirror
    with pytest.raises(RuntimeError) as caught:
        pool.check()
    assert words in str(caught.value) and "row 2" in str(caught.value)


def test_check_changes_nothing() -> None:
    pool = new_pool()
    pool.alloc_rows(2)
    pool.append(1, [7])
    before = state_of(pool)
    pool.check()
    assert state_of(pool) == before


# ------------------------------------------------------------------------------------------------ devices


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


class Factory:
    """Stands in for torch.zeros: remembers what was asked for, and makes it on the CPU whatever was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool, bool]] = []  # device, pinned, inside the memory saver's region
        self.inside = False
        self.real = torch.zeros

    def __call__(self, *shape: Any, device: Any = "cpu", pin_memory: bool = False, **options: Any) -> torch.Tensor:
        self.asked.append((torch.device(device).type, pin_memory, self.inside))
        return self.real(*shape, **options)


@pytest.fixture
def zeros(monkeypatch: pytest.MonkeyPatch) -> Factory:
    factory = Factory()
    monkeypatch.setattr(torch, "zeros", factory)
    return factory


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch, zeros: Factory) -> Factory:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return zeros


def test_device_none_is_the_cpu_where_there_is_no_cuda(no_cuda: None) -> None:
    pool = ReqToTokenPool(2, 4)
    assert pool.device == torch.device("cpu") and pool.req_to_token.device.type == "cpu"
    assert not pool.alloced_lens_cpu.is_pinned()


def test_device_none_is_cuda_where_there_is_one_and_the_mirror_is_pinned_there(a_gpu: Factory) -> None:
    assert ReqToTokenPool(2, 4).device.type == "cuda"
    assert {device for device, _, _ in a_gpu.asked} == {"cuda", "cpu"}
    assert [(device, pinned) for device, pinned, _ in a_gpu.asked if pinned] == [("cpu", True)]


def test_the_mirror_of_a_cpu_pool_is_pinned_too_where_there_is_cuda(a_gpu: Factory) -> None:
    ReqToTokenPool(2, 4, device="cpu")
    assert [pinned for _, pinned, _ in a_gpu.asked].count(True) == 1


def test_a_device_may_be_a_name_or_a_torch_device() -> None:
    for device in ("cpu", torch.device("cpu")):
        assert ReqToTokenPool(2, 4, device).device == torch.device("cpu")


def test_a_device_that_is_not_there_is_named(no_cuda: None, zeros: Factory) -> None:
    with pytest.raises(RuntimeError, match=r"'cuda'.*torch finds no such device here"):
        ReqToTokenPool(2, 4, device="cuda")
    assert zeros.asked == []


@pytest.mark.parametrize("device", ["nonsense", 1.5, object()])
def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(ValueError, match="device must be a torch device"):
        ReqToTokenPool(2, 4, device=device)


# ------------------------------------------------------------------------------------------------ memory saver


@pytest.fixture
def saver(monkeypatch: pytest.MonkeyPatch, zeros: Factory) -> list[dict[str, Any]]:
    """A package that is there, and the options of the regions it was asked for."""
    regions: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def region(**options: Any) -> Iterator[None]:
        regions.append(options)
        zeros.inside = True
        yield
        zeros.inside = False

    module = types.ModuleType("torch_memory_saver")
    module.torch_memory_saver = types.SimpleNamespace(region=region)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_memory_saver", module)
    return regions


@pytest.fixture
def no_saver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_memory_saver", None)


def test_the_memory_saver_package_is_looked_for_first(no_saver: None, no_cuda: None, zeros: Factory) -> None:
    with pytest.raises(RuntimeError, match="package torch_memory_saver"):
        ReqToTokenPool(2, 4, enable_memory_saver=True)
    assert zeros.asked == []


def test_the_memory_saver_package_is_missed_on_a_gpu_too(no_saver: None, a_gpu: Factory) -> None:
    with pytest.raises(RuntimeError, match="package torch_memory_saver"):
        ReqToTokenPool(2, 4, enable_memory_saver=True)
    assert a_gpu.asked == []


@pytest.mark.parametrize("device", [None, "cpu"])
def test_then_cuda_is_looked_for(
    saver: list[dict[str, Any]], no_cuda: None, zeros: Factory, device: str | None
) -> None:
    with pytest.raises(RuntimeError, match="CUDA"):
        ReqToTokenPool(2, 4, device=device, enable_memory_saver=True)
    assert zeros.asked == [] and saver == []


def test_with_both_the_device_tensors_and_no_others_are_made_in_the_region(
    saver: list[dict[str, Any]], a_gpu: Factory
) -> None:
    ReqToTokenPool(2, 4, enable_memory_saver=True)
    assert saver == [{"tag": "kv_cache", "enable_cpu_backup": False}]
    assert {(device, inside) for device, _, inside in a_gpu.asked} == {("cuda", True), ("cpu", False)}


def test_without_asking_no_region_is_made(saver: list[dict[str, Any]], a_gpu: Factory) -> None:
    ReqToTokenPool(2, 4)
    assert saver == [] and not any(inside for _, _, inside in a_gpu.asked)


# ------------------------------------------------------------------------------------------------ both forms


def test_rows_by_request_and_by_count_come_from_one_list() -> None:
    pool = new_pool(size=4)
    a, b = Req("a"), Req("b")
    assert (pool.alloc([a]), pool.alloc_rows(2), pool.alloc([b])) == ([1], [2, 3], [4])
    pool.free_rows([3])
    pool.free(a)
    assert pool.alloc_rows(2) == [3, 1] and pool.alloc_rows(1) is None
    pool.check()


def test_two_pools_share_nothing() -> None:
    here, there = new_pool(), new_pool()
    untouched = state_of(there)
    a = Req("a")
    here.alloc([a])
    here.append(a, [7])
    here.verify([1], 1)
    assert state_of(there) == untouched


def test_a_request_may_go_from_pool_to_pool_when_it_is_freed_in_between() -> None:
    pools = [new_pool() for _ in range(3)]
    a = Req("a")
    for here, there in itertools.pairwise(pools):
        assert here.alloc([a]) == [1]
        here.free(a)
        assert there.available_size() == 3
