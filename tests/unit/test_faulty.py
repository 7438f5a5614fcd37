"""Each faulty pool breaks a law that the real pool keeps: the same function, run on both.

The laws are the promises of the pool in a few lines each. The table below says which of them each faulty pool breaks;
it keeps all the others, so what was taken out is one safeguard and not more.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable

import pytest

from reqpool.checked import CheckedPool
from reqpool.faulty import (
    FAULTY_POOLS,
    CounterOnly,
    FreedBetweenChunks,
    FreedTwice,
    NoPaddingRow,
    NoResetOnReuse,
    NotAllOrNothing,
    PaddingInsideSize,
)
from reqpool.pool import Req, ReqToTokenPool

PoolClass = type[ReqToTokenPool]


def all_usable_rows_are_handed_out(pool_class: PoolClass) -> None:
    pool = pool_class(size=2, max_context_len=4, device="cpu")
    assert pool.available_size() == 2
    assert len(pool.alloc_rows(2) or []) == 2
    assert pool.alloc_rows(1) is None


def row_0_is_handed_out_to_nobody(pool_class: PoolClass) -> None:
    pool = pool_class(size=2, max_context_len=4, device="cpu")
    while rows := pool.alloc_rows(1):
        assert rows != [0]


def a_batch_gets_all_or_nothing(pool_class: PoolClass) -> None:
    pool = pool_class(size=2, max_context_len=4, device="cpu")
    reqs = [Req(rid) for rid in "abc"]
    free = list(pool.free_slots)
    assert pool.alloc(reqs) is None and pool.alloc_rows(3) is None
    assert list(pool.free_slots) == free and not pool.generation.any()
    assert [req.req_pool_idx for req in reqs] == [None, None, None]


def a_request_between_two_chunks_keeps_its_row(pool_class: PoolClass) -> None:
    pool, a = pool_class(size=3, max_context_len=4, device="cpu"), Req("a")
    rows = pool.alloc([a])
    pool.append(a, [7, 8])
    a.inflight_middle_chunks = 1
    assert pool.alloc([a]) == rows
    assert pool.read(a).tolist() == [7, 8, 0, 0] and int(pool.alloced_lens[rows or []]) == 2


def a_request_keeps_its_row_for_the_last_chunk(pool_class: PoolClass) -> None:
    pool, a = pool_class(size=3, max_context_len=4, device="cpu"), Req("a")
    rows = pool.alloc([a])
    a.kv_committed_len = 2  # and the counter of middle chunks is back at 0
    assert pool.alloc([a]) == rows


def a_new_owner_begins_with_zero_lengths(pool_class: PoolClass) -> None:
    pool = pool_class(size=2, max_context_len=16, device="cpu")
    rows = pool.alloc_rows(1) or []
    pool.free_rows(rows)
    pool.verify(rows, 8)  # the previous owner's forward step, late
    pool.alloced_lens[rows] += 8
    pool.alloced_lens_cpu[rows] += 8
    pool.alloc_rows(pool.available_size())
    for lens in (pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu):
        assert int(lens[rows]) == 0


def a_row_is_given_back_once(pool_class: PoolClass) -> None:
    pool = pool_class(size=2, max_context_len=4, device="cpu")
    rows = pool.alloc_rows(1) or []
    pool.free_rows(rows)
    with pytest.raises(ValueError):
        pool.free_rows(rows)
    assert len(set(pool.free_slots)) == len(pool.free_slots)


LAWS: tuple[Callable[[PoolClass], None], ...] = (
    all_usable_rows_are_handed_out,
    row_0_is_handed_out_to_nobody,
    a_batch_gets_all_or_nothing,
    a_request_between_two_chunks_keeps_its_row,
    a_request_keeps_its_row_for_the_last_chunk,
    a_new_owner_begins_with_zero_lengths,
    a_row_is_given_back_once,
)

BREAKS: dict[PoolClass, set[Callable[[PoolClass], None]]] = {
    NoPaddingRow: {row_0_is_handed_out_to_nobody},
    PaddingInsideSize: {all_usable_rows_are_handed_out},
    NotAllOrNothing: {a_batch_gets_all_or_nothing},
    FreedBetweenChunks: {a_request_between_two_chunks_keeps_its_row, a_request_keeps_its_row_for_the_last_chunk},
    CounterOnly: {a_request_keeps_its_row_for_the_last_chunk},
    NoResetOnReuse: {a_new_owner_begins_with_zero_lengths},
    FreedTwice: {a_row_is_given_back_once},
}


def is_broken_by(law: Callable[[PoolClass], None], pool_class: PoolClass) -> bool:
    try:
        law(pool_class)
    except (AssertionError, ValueError, pytest.fail.Exception):
        return True
    return False


def names(things: object) -> list[str]:
    return [thing.__name__ for thing in things]  # type: ignore[attr-defined]


@pytest.mark.parametrize("law", LAWS, ids=names(LAWS))
@pytest.mark.parametrize("pool_class", [ReqToTokenPool, CheckedPool], ids=["the pool", "the checked pool"])
def test_the_real_pool_keeps_the_law_that(law: Callable[[PoolClass], None], pool_class: PoolClass) -> None:
    law(pool_class)


@pytest.mark.parametrize("faulty", FAULTY_POOLS, ids=names(FAULTY_POOLS))
def test_a_faulty_pool_breaks_its_own_law_and_keeps_the_others(faulty: PoolClass) -> None:
    assert {law for law in LAWS if is_broken_by(law, faulty)} == BREAKS[faulty]


def test_every_faulty_pool_breaks_something_and_every_law_is_broken_by_one() -> None:
    assert set(BREAKS) == set(FAULTY_POOLS) and all(BREAKS.values())
    assert set().union(*BREAKS.values()) == set(LAWS)


@pytest.mark.parametrize("faulty", FAULTY_POOLS, ids=names(FAULTY_POOLS))
def test_a_faulty_pool_differs_by_a_few_lines(faulty: PoolClass) -> None:
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(faulty))).body
    assert isinstance(tree, ast.ClassDef) and faulty.__bases__ == (ReqToTokenPool,)
    assert ast.get_docstring(tree), "the lesson needs its words"
    code = ast.unparse([node for node in tree.body if not isinstance(node, ast.Expr)])
    assert len(code.splitlines()) <= 8


@pytest.mark.parametrize("faulty", FAULTY_POOLS, ids=names(FAULTY_POOLS))
def test_a_faulty_pool_changes_only_what_the_pool_has(faulty: PoolClass) -> None:
    own = {name for name in vars(faulty) if not name.startswith("__")}
    assert own and all(hasattr(ReqToTokenPool, name) for name in own)
