"""The guard rail: a write that cannot be right raises before it lands, and every other write is the pool's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqpool.checked import CheckedPool
from reqpool.pool import MAX_SLOT, Req, ReqToTokenPool, ReqToTokenPoolInfo
from tests.properties.slow_model import state_of


def new_pool(**options: Any) -> CheckedPool:
    """Five positions; row 1 (request a) and row 2 (by count) are out, row 3 is free."""
    pool = CheckedPool(size=3, max_context_len=5, device="cpu", **options)
    pool.alloc([Req("a")])
    pool.alloc_rows(1)
    return pool


def unchecked() -> ReqToTokenPool:
    pool = ReqToTokenPool(size=3, max_context_len=5, device="cpu")
    pool.alloc_rows(2)
    return pool


def refused(call: Callable[[], Any], pool: CheckedPool, *words: str, error: type[Exception] = ValueError) -> None:
    before = state_of(pool)
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error
    for word in words:
        assert word in str(caught.value)
    assert state_of(pool) == before


# ------------------------------------------------------------------------------------------------ what goes through

ROWS, POSITIONS = torch.tensor([1, 2]), torch.tensor([4, 0])
MASK = torch.zeros(4, 5, dtype=torch.bool)
MASK[1, 2:4] = MASK[2, 0] = True

LAWFUL = [
    ((1, 0), 7),
    ((2, 4), MAX_SLOT),
    ((1, slice(0, 3)), torch.tensor([7, 8, 9])),
    ((1, slice(3, None)), torch.tensor([7, 8], dtype=torch.int32)),
    ((1, slice(0, 5, 2)), [7, 8, 9]),
    ((1, slice(2, 2)), 7),
    ((1, [0, 3]), [7, 8]),
    ((torch.tensor(1), torch.tensor(3)), torch.tensor(7)),
    ((ROWS, POSITIONS), torch.tensor([7, 8])),
    ((ROWS.int(), POSITIONS.int()), torch.tensor([7, 8])),
    ((ROWS, POSITIONS), 7),
    ((ROWS[:, None], POSITIONS[None]), torch.tensor([[7, 8], [9, 10]])),
    ((np.array([1, 2]), np.array([0, 4])), np.array([7, 8])),
    ((slice(1, 3), 0), [7, 8]),
    ((slice(1, 3), slice(0, 2)), torch.tensor([[7, 8], [9, 10]])),
    ((torch.tensor([False, True, True, False]), 1), [7, 8]),
    ((1, torch.tensor([True, False, True, False, False])), [7, 8]),
    (1, 7),
    (2, torch.arange(5)),
    ([1, 2], torch.arange(5)),
    (ROWS, torch.arange(10).reshape(2, 5)),
    (slice(1, 3), 7),
    (MASK, torch.tensor([7, 8, 9])),
    (MASK, 7),
]


@pytest.mark.parametrize(("indices", "values"), LAWFUL, ids=repr)
def test_a_lawful_write_is_the_pools_own(indices: Any, values: Any) -> None:
    pool, plain = new_pool(), torch.zeros(4, 5, dtype=torch.int32)
    plain[indices] = torch.as_tensor(values).int()
    pool.write(indices, values)
    assert torch.equal(pool.req_to_token, plain)
    assert not pool.alloced_lens.any() and not pool.alloced_lens_cpu.any()


def test_everything_else_is_the_pools_own_too() -> None:
    pool, plain = new_pool(), unchecked()
    for either in (pool, plain):
        either.append(2, [7, 8])
        either.verify([2], 1)
        either.set_req_pool_info(1, ReqToTokenPoolInfo(1, 2, torch.tensor([5, 6])))
        either.free_rows(2)
        either.alloc_rows(1)
        either.check()
    wanted, got = state_of(plain), state_of(pool)
    assert wanted.pop("holders").keys() == got.pop("holders").keys()
    assert got == wanted
    assert repr(pool) == "CheckedPool(size=3, max_context_len=5, free=1, device=cpu)"


# ------------------------------------------------------------------------------------------------ what does not

UNLAWFUL = [
    ((0, 0), 7, "row 0", "the padding row", "padding_writes"),
    ((3, 0), 7, "row 3", "free", "wanted a row that is handed out"),
    ((-1, 0), 7, "row -1", "not one of the rows 1..3"),
    ((4, 0), 7, "row 4", "not one of the rows 1..3"),
    ((2**40, 0), 7, "not one of the rows 1..3"),
    ((torch.tensor([1, 3]), 0), 7, "row 3", "free"),
    ((torch.tensor([[1], [-3]]), torch.tensor([0, 1])), 7, "row -3"),
    ((slice(0, 2), 0), 7, "row 0", "the padding row"),
    ((slice(1, 4), 0), 7, "row 3", "free"),
    ((slice(None), 0), 7, "row 0"),
    ((slice(-2, None), 0), 7, "rows -2:None count from the end"),
    (3, 7, "row 3", "free"),
    (slice(2, None), 7, "row 3", "free"),
    ([2, 0], 7, "row 0"),
    (torch.ones(4, 5, dtype=torch.bool), 7, "row 0"),
    (torch.tensor([False, False, False, True]), 7, "row 3"),
    ((1, -1), 7, "position -1 of row 1", "wanted 0..4"),
    ((1, torch.tensor([0, -5])), 7, "position -5 of row 1", "wanted 0..4"),
    ((1, slice(-2, None)), 7, "positions -2:None count from the end"),
    ((1, slice(0, -1)), 7, "positions 0:-1 count from the end"),
    ((1, 5), 7, "does not fit row 1", "max_context_len is 5"),
    ((2, torch.arange(6)), torch.arange(6), "write of 6 slots does not fit row 2: max_context_len is 5"),
    ((2, slice(0, 6)), torch.arange(6), "write of 6 slots does not fit row 2: max_context_len is 5"),
    ((2, slice(3, 7)), torch.arange(4), "write of 4 slots does not fit row 2: max_context_len is 5"),
    ((1, 0), -1, "slot -1", f"wanted 0..{MAX_SLOT}", "int32"),
    ((1, 0), 2**31, f"slot {2**31}", f"wanted 0..{MAX_SLOT}", "int32"),
    ((1, 0), 2**32 + 7, f"slot {2**32 + 7}"),
    ((1, slice(0, 2)), [7, -(2**31)], f"slot {-(2**31)}"),
    ((1, slice(0, 3)), [7, 8], "2 slots into 3 cells", "wanted one slot a cell"),
    ((1, slice(0, 2)), [7, 8, 9], "3 slots into 2 cells"),
    (1, torch.arange(6), "6 slots into 5 cells"),
    ((ROWS, torch.tensor([0, 1, 2])), 7, "rows and positions do not go together"),
    ((torch.tensor([True, False]), 0), 7, "a mask of 2 rows, wanted 4"),
    ((1, torch.tensor([True, False])), 7, "a mask of 2 positions, wanted 5"),
]


@pytest.mark.parametrize(("indices", "values", "words"), [(i, v, w) for i, v, *w in UNLAWFUL], ids=repr)
def test_a_write_that_cannot_be_right_raises_before_it_lands(indices: Any, values: Any, words: list[str]) -> None:
    pool = new_pool()
    pool.append(1, [1, 2])
    refused(lambda: pool.write(indices, values), pool, *words)


NO_INTEGERS = [
    ((1, 2.0), 7, "position"),
    ((1.0, 2), 7, "row"),
    (("a", 2), 7, "row"),
    ((None, 2), 7, "row"),
    ((1, None), 7, "position"),
    (None, 7, "row"),
    (..., 7, "row"),
    ((1, ...), 7, "position"),
    ((torch.tensor([1.0]), 0), 7, "row"),
    ((1, 0), 7.0, "slots must be integers"),
    ((1, 0), True, "slots must be integers"),
    ((1, slice(0, 2)), torch.ones(2), "slots must be integers, got torch.float32"),
    ((1, slice(0, 2)), torch.ones(2).half(), "slots must be integers, got torch.float16"),
    ((1, slice(0, 2)), torch.ones(2).bool(), "slots must be integers, got torch.bool"),
    ((1, slice(0, 2)), torch.ones(2).to(torch.complex64), "slots must be integers, got torch.complex64"),
]


@pytest.mark.parametrize(("indices", "values", "words"), NO_INTEGERS, ids=repr)
def test_what_is_no_integer_is_a_type_error(indices: Any, values: Any, words: str) -> None:
    pool = new_pool()
    refused(lambda: pool.write(indices, values), pool, words, error=TypeError)


def test_a_row_that_was_freed_may_not_be_written_and_one_given_again_may() -> None:
    pool = new_pool()
    pool.free_rows(2)
    refused(lambda: pool.write((2, 0), 7), pool, "row 2", "free")
    pool.alloc_rows(2)
    pool.write((2, 0), 7)
    pool.clear()
    refused(lambda: pool.write((1, 0), 7), pool, "row 1", "free")


def test_the_holder_of_a_row_is_named_by_append_as_in_the_pool() -> None:
    pool = new_pool()
    for row, words in ((0, "the padding row"), (3, "free"), (-1, "1..3")):
        refused(lambda row=row: pool.append(row, [7]), pool, f"row {row}", words)
    refused(lambda: pool.append(1, [1] * 6), pool, "append of 6 slots does not fit row 1", "max_context_len is 5")
    refused(lambda: pool.append(1, [-1]), pool, "-1", f"0..{MAX_SLOT}")
    refused(lambda: pool.append(1, torch.ones(1)), pool, "got torch.float32", error=TypeError)


def test_append_takes_what_the_pool_takes() -> None:
    pool = new_pool()
    for slots in ((slot for slot in (1, 2)), range(3, 4), np.array([4]), torch.tensor([5], dtype=torch.int32)):
        pool.append(2, slots)
    assert pool.req_to_token[2].tolist() == [1, 2, 3, 4, 5]


# ------------------------------------------------------------------------------------------------ the padding row


def test_a_graph_runner_may_write_row_0_inside_the_block_and_not_after_it() -> None:
    pool = new_pool()
    with pool.padding_writes():
        pool.write((0, 0), 7)
        pool.write((torch.tensor([0, 1]), 1), 8)
    assert pool.req_to_token[0].tolist() == [7, 8, 0, 0, 0]
    refused(lambda: pool.write((0, 0), 9), pool, "row 0", "padding row")


def test_inside_the_block_everything_else_is_still_refused() -> None:
    pool = new_pool()
    with pool.padding_writes():
        for indices in ((3, 0), (-1, 0), (4, 0), (0, -1), (0, 5)):
            refused(lambda indices=indices: pool.write(indices, 7), pool, "row")
        refused(lambda: pool.write((0, 0), -1), pool, "slot -1")


def test_the_block_ends_when_something_in_it_raises() -> None:
    pool = new_pool()
    with pytest.raises(LookupError), pool.padding_writes():
        raise LookupError
    refused(lambda: pool.write((0, 0), 7), pool, "row 0")


def test_a_block_in_a_block_does_not_close_the_outer_one() -> None:
    pool = new_pool()
    with pool.padding_writes():
        with pool.padding_writes():
            pass
        pool.write((0, 0), 7)
    refused(lambda: pool.write((0, 0), 9), pool, "row 0")


def test_one_pools_block_is_not_anothers() -> None:
    pool, other = new_pool(), new_pool()
    with other.padding_writes():
        refused(lambda: pool.write((0, 0), 7), pool, "row 0")


# ------------------------------------------------------------------------------------------------ slots of their own


def shared() -> CheckedPool:
    pool = new_pool(exclusive_slots=True)
    pool.append(1, [7, 8, 0])
    return pool


def test_rows_may_share_slots_unless_one_asks() -> None:
    pool = new_pool()
    pool.append(1, [7, 8])
    pool.append(2, [7, 8])
    pool.write((2, slice(0, 2)), [8, 7])
    assert pool.req_to_token[1:3, :2].tolist() == [[7, 8], [8, 7]]


def test_on_request_a_slot_that_another_row_holds_is_refused() -> None:
    pool = shared()
    info = ReqToTokenPoolInfo(0, 1, torch.tensor([8]))
    refused(lambda: pool.write((2, 0), 7), pool, "row 2", "slot 7", "row 1", "wanted a slot that no other row holds")
    refused(lambda: pool.write((2, slice(0, 2)), [9, 8]), pool, "row 2", "slot 8", "row 1")
    refused(lambda: pool.append(2, [9, 8]), pool, "row 2", "slot 8", "row 1")
    refused(lambda: pool.set_req_pool_info(2, info), pool, "row 2", "slot 8", "row 1")


def test_its_own_slots_the_dummy_slot_and_slots_of_free_rows_are_no_strangers() -> None:
    pool = shared()
    pool.write((1, slice(0, 2)), [8, 7])
    pool.append(1, [7])
    pool.append(2, [0, 9])
    pool.free_rows(2)
    pool.append(1, [9])
    assert pool.req_to_token[1].tolist() == [8, 7, 0, 7, 9]


# ------------------------------------------------------------------------------------------------ the law


def numbers(low: int, high: int) -> st.SearchStrategy[Any]:
    number = st.integers(low, high)
    return st.one_of(
        number,
        st.lists(number, min_size=1, max_size=3),
        st.lists(number, min_size=1, max_size=3).map(torch.tensor),
        st.builds(slice, st.none() | number, st.none() | number, st.sampled_from([None, 1, 2])),
    )


SLOTS = st.one_of(st.integers(-1, 9), st.sampled_from([MAX_SLOT, 2**31]), st.lists(st.integers(0, 9), max_size=4))


@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(indices=st.one_of(numbers(-2, 5), st.tuples(numbers(-2, 5), numbers(-2, 7))), values=SLOTS)
def test_a_write_is_refused_or_lands_in_rows_that_are_out_exactly_as_the_plain_pool_writes_it(
    indices: Any, values: Any
) -> None:
    pool, plain = new_pool(), unchecked()
    slots = torch.as_tensor(values, dtype=torch.int64)
    before = pool.req_to_token.clone()
    try:
        pool.write(indices, slots)
    except ValueError:
        assert torch.equal(pool.req_to_token, before)
        return
    plain.write(indices, slots.int())
    assert torch.equal(pool.req_to_token, plain.req_to_token)
    assert not pool.req_to_token[[0, 3]].any()
    row, position = indices if isinstance(indices, tuple) else (indices, 0)
    for number, end in ((row, 4), (position, 5)):
        if not isinstance(number, slice):
            assert all(0 <= one < end for one in np.ravel(number))  # nothing wrapped around
