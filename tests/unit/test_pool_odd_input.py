"""Odd inputs that once got past a check: none may again, and a refusal changes nothing."""

import sys

import numpy as np
import pytest
import torch

import reqpool.pool as rp
from reqpool.checked import CheckedPool
from reqpool.pool import Req, ReqToTokenPool, ReqToTokenPoolInfo
from tests.properties.slow_model import state_of


def make(kind=ReqToTokenPool, **options):
    return kind(4, 6, device="cpu", **options)


@pytest.fixture(autouse=True)
def fresh_ones():
    if hasattr(rp, "_ones"):
        rp._ones.cache_clear()
    yield
    if hasattr(rp, "_ones"):
        rp._ones.cache_clear()


def refused(pool, call, *errors):
    before = state_of(pool)
    with pytest.raises(errors or (ValueError, TypeError)):
        call()
    assert state_of(pool) == before


# 1 default device
def test_host_tensors_are_on_the_host_whatever_the_default_device():
    with torch.device("meta"):
        pool = make()
    assert pool.alloced_lens_cpu.device.type == pool.generation.device.type == "cpu"


def test_alloc_works_under_another_default_device():
    pool = make()
    with torch.device("meta"):
        assert pool.alloc_rows(3) == [1, 2, 3]


def test_append_of_a_list_works_under_another_default_device():
    pool = make()
    pool.alloc_rows(1)
    with torch.device("meta"):
        pool.append(1, [7, 8])
    assert pool.req_to_token[1, :2].tolist() == [7, 8]


def test_another_default_device_once_does_not_spoil_every_pool_afterwards():
    pool = make()
    with torch.device("meta"):
        assert pool.alloc_rows(3) == [1, 2, 3]
    assert make().alloc_rows(3) == [1, 2, 3]


def test_an_alloc_that_fails_in_torch_changes_nothing():
    pool = make()
    before = state_of(pool)
    with torch.device("meta"):
        try:
            pool.alloc_rows(3)
        except RuntimeError:
            assert state_of(pool) == before


def test_a_pool_made_in_inference_mode_works_outside_or_refuses_whole():
    with torch.inference_mode():
        pool = make()
    before = state_of(pool)
    try:
        pool.alloc_rows(2)
    except RuntimeError:
        assert state_of(pool) == before


# 2 guard bypass
@pytest.mark.parametrize("indices", [True, (True, 0), (torch.tensor(True), 0), (np.True_, 0), (1, True)])
def test_checked_refuses_bool_scalars(indices):
    pool = make(CheckedPool)
    pool.alloc_rows(2)
    refused(pool, lambda: pool.write(indices, 5))


@pytest.mark.parametrize("row", [torch.ones(5, dtype=torch.uint8), np.ones(5, dtype=np.uint8)], ids=["torch", "numpy"])
def test_checked_uint8_rows(row):
    pool = make(CheckedPool)
    pool.alloc_rows(2)
    refused(pool, lambda: pool.write((row, 0), torch.arange(5)))


def test_checked_three_indices():
    pool = make(CheckedPool)
    pool.alloc_rows(4)
    refused(pool, lambda: pool.write((1, 2, 3), 5), IndexError, ValueError, TypeError)


def test_checked_row_slice_past_the_end():
    pool = make(CheckedPool)
    pool.alloc_rows(4)
    refused(pool, lambda: pool.write((slice(1, 99), 0), 5))


# 3 exclusive
def test_exclusive_set_info_with_a_torch_integer():
    pool = make(CheckedPool, exclusive_slots=True)
    pool.alloc_rows(2)
    pool.append(1, [7])
    refused(pool, lambda: pool.set_req_pool_info(torch.tensor(2), ReqToTokenPoolInfo(0, 1, torch.tensor([7]))))


def test_exclusive_within_one_write_to_two_rows():
    pool = make(CheckedPool, exclusive_slots=True)
    pool.alloc_rows(2)
    refused(pool, lambda: pool.write((torch.tensor([1, 2]), 0), 9))


def test_exclusive_row_written_along():
    pool = make(CheckedPool, exclusive_slots=True)
    pool.alloc_rows(2)
    pool.append(1, [7, 8])
    pool.append(2, [9, 9])
    refused(pool, lambda: pool.write((torch.tensor([1, 2]), torch.tensor([1, 1])), torch.tensor([6, 7])))


def test_exclusive_sees_cells_that_write_wrote():
    pool = make(CheckedPool, exclusive_slots=True)
    pool.alloc_rows(2)
    pool.write((1, slice(0, 2)), [7, 8])
    refused(pool, lambda: pool.write((2, 0), 7))


# 4 checked values
def test_checked_append_of_nothing():
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    pool.append(1, [])
    assert int(pool.alloced_lens[1]) == 0


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.uint8])
def test_checked_small_dtypes(dtype):
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    pool.write((1, slice(0, 2)), torch.tensor([7, 8]).to(dtype))
    assert pool.req_to_token[1, :2].tolist() == [7, 8]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_checked_unsigned_is_taken_or_clearly_refused(dtype):
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    try:
        pool.write((1, slice(0, 2)), torch.tensor([7, 8]).to(dtype))
    except (TypeError, ValueError) as e:
        assert "slots must be" in str(e)


@pytest.mark.parametrize("value", [torch.tensor([7]), [7]], ids=repr)
def test_checked_one_slot_into_one_cell(value):
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    pool.write((1, 0), value)
    assert int(pool.req_to_token[1, 0]) == 7


@pytest.mark.parametrize("value", [2**63, -(2**70)])
def test_checked_huge_slot_wording(value):
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    with pytest.raises(ValueError, match=r"0\.\.2147483647"):
        pool.write((1, 0), value)


@pytest.mark.parametrize("value", [None, "x"])
def test_checked_values_of_no_kind(value):
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    with pytest.raises(TypeError, match="slots must be integers"):
        pool.write((1, 0), value)


@pytest.mark.parametrize("huge", [(2**70, 0), (1, 2**70)])
def test_checked_huge_index(huge):
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    refused(pool, lambda: pool.write(huge, 5), ValueError)


def test_checked_numpy_mask():
    mask = np.zeros((5, 6), dtype=bool)
    mask[1, 1] = True
    pool = make(CheckedPool)
    pool.alloc_rows(1)
    pool.write(mask, 5)
    assert int(pool.req_to_token[1, 1]) == 5


# 5 pool words
@pytest.mark.parametrize("slot", [2**63, -(2**63) - 1])
def test_huge_slot_wording(slot):
    pool = make()
    pool.alloc_rows(1)
    with pytest.raises(ValueError, match=r"0\.\.2147483647"):
        pool.append(1, [slot])


@pytest.mark.parametrize("slots", [5, None, Req("a")], ids=repr)
def test_append_of_no_iterable_wording(slots):
    pool = make()
    pool.alloc_rows(1)
    with pytest.raises(TypeError, match="slots"):
        pool.append(1, slots)


@pytest.mark.parametrize("info", [None, (0, 1, [7]), 5], ids=repr)
def test_set_of_no_info_wording(info):
    pool = make()
    pool.alloc_rows(1)
    with pytest.raises(TypeError, match="ReqToTokenPoolInfo"):
        pool.set_req_pool_info(1, info)


def test_memory_saver_package_first_with_device_cuda(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_memory_saver", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="torch_memory_saver"):
        ReqToTokenPool(2, 4, device="cuda", enable_memory_saver=True)


# 6 tampered row numbers
@pytest.mark.parametrize("row", [1.0, True], ids=repr)
def test_free_of_a_request_whose_row_is_no_integer(row):
    pool, a = make(), Req("a")
    pool.alloc([a])
    a.req_pool_idx = row
    try:
        pool.free(a)
    except (ValueError, TypeError):
        assert 1 in pool.holders
    pool.check()
    assert all(type(r) is int for r in pool.free_slots)


@pytest.mark.parametrize("row", [[1], {}], ids=repr)
def test_unhashable_row_wording(row):
    pool, a = make(), Req("a")
    pool.alloc([a])
    a.req_pool_idx = row
    with pytest.raises((ValueError, TypeError), match="'a'"):
        pool.free(a)


def test_numpy_row_comes_back_as_int():
    pool, a = make(), Req("a")
    pool.alloc([a])
    a.req_pool_idx = np.int64(1)
    pool.free(a)
    assert all(type(r) is int for r in pool.free_slots)


@pytest.mark.parametrize("device", ["mps", "xpu"])
def test_device_not_there_one_sentence(device):
    with pytest.raises(RuntimeError) as e:
        ReqToTokenPool(2, 4, device=device)
    assert "\n" not in str(e.value) and device in str(e.value)
