"""What `record` makes of each call and each unannounced change, and that it leaves the pool as it was."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

from reqpool.checked import CheckedPool
from reqpool.faulty import FreedBetweenChunks, FreedTwice, NoPaddingRow, NoResetOnReuse, NotAllOrNothing
from reqpool.pool import Req, ReqToTokenPool, ReqToTokenPoolInfo
from reqpool.trace import KINDS, Event, Trace, record

CALLS = ["alloc", "alloc_rows", "free", "free_rows", "clear", "write", "append", "verify", "read"]
CALLS += ["set_req_pool_info", "get_req_pool_info"]


def new_pool(size: int = 3, max_context_len: int = 5, cls: type = ReqToTokenPool, **options: Any) -> Any:
    return cls(size, max_context_len, device="cpu", **options)


def new_reqs(*rids: str) -> list[Req]:
    return [Req(rid) for rid in rids]


def said(trace: Trace, start: int = 0) -> list[tuple[str, str, tuple[int, ...], tuple[str | None, ...]]]:
    """What the events say, but not what they changed."""
    return [(event.kind, event.call, event.rows, event.rids) for event in trace[start:]]


def kinds(trace: Trace) -> list[str]:
    return [event.kind for event in trace]


def agrees(trace: Trace, pool: Any) -> bool:
    """The last snapshot is the pool; owners as the pool's own books have them."""
    last = trace.snapshot(len(trace))
    lens = (pool.verified_lens, pool.alloced_lens, pool.alloced_lens_cpu, pool.generation)
    return (
        torch.equal(last.table, pool.req_to_token)
        and [list(n) for n in (last.verified, last.alloced, last.alloced_cpu, last.generation)]
        == [n.tolist() for n in lens]
        and list(last.free) == list(pool.free_slots)
        and last.owners == {row: (None if req is None else req.rid,) for row, req in pool.holders.items()}
    )


# ------------------------------------------------------------------------------------------------ one call, its events


def test_a_batch_of_new_requests_is_one_alloc() -> None:
    pool, (a, b) = new_pool(), new_reqs("a", "b")
    with record(pool) as trace:
        assert pool.alloc([a, b]) == [1, 2]
    assert said(trace) == [("alloc", "alloc", (1, 2), ("a", "b"))] and trace[0].rid is None
    assert trace[0].change.owners == ((1, (), ("a",)), (2, (), ("b",)))
    assert trace[0].change.free == (0, (1, 2), ())
    assert trace[0].change.lengths == (("generation", 1, 0, 1), ("generation", 2, 0, 1))
    assert agrees(trace, pool)


def test_an_event_about_one_request_names_it() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.free(a)
    assert [event.rid for event in trace] == ["a", "a"]


def test_one_call_gives_keep_then_alloc_then_reset() -> None:
    pool, (a, b) = new_pool(size=2), new_reqs("a", "b")
    with record(pool) as trace:
        pool.alloc([a])
        a.inflight_middle_chunks = 1
        pool.append(a, [7, 8])
        pool.verified_lens[2] += 3
        pool.alloc([b, a])
    assert said(trace, 2) == [
        ("late_write", "", (2,), (None,)),
        ("keep", "alloc", (1,), ("a",)),
        ("alloc", "alloc", (2,), ("b",)),
        ("reset", "alloc", (2,), ("b",)),
    ]
    assert not trace[3].change
    assert trace[5].change.lengths == (("verified", 2, 3, 0),)
    assert agrees(trace, pool)


def test_a_reset_is_said_only_where_a_length_was_not_zero() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.alloced_lens[1] = 2
        pool.alloced_lens_cpu[3] = 4
        pool.alloc_rows(3)
    assert said(trace) == [
        ("late_write", "", (1, 3), (None, None)),
        ("alloc", "alloc_rows", (1, 2, 3), (None, None, None)),
        ("reset", "alloc_rows", (1, 3), (None, None)),
    ]
    assert trace[2].change.lengths == (("alloced", 1, 2, 0), ("alloced_cpu", 3, 4, 0))


def test_a_batch_that_only_keeps_is_one_keep() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        a.kv_committed_len = 2
        pool.alloc([a])
    assert said(trace, 1) == [("keep", "alloc", (1,), ("a",))] and not trace[1].change


def test_nothing_asked_is_no_event() -> None:
    pool = new_pool()
    with record(pool) as trace:
        assert pool.alloc([]) == [] and pool.alloc_rows(0) == []
    assert len(trace) == 0


def test_too_few_rows_is_one_refuse_that_says_how_many() -> None:
    pool, reqs = new_pool(size=1), new_reqs("a", "b")
    with record(pool) as trace:
        assert pool.alloc(reqs) is None
        assert pool.alloc_rows(2) is None
    assert said(trace) == [("refuse", "alloc", (), ("a", "b")), ("refuse", "alloc_rows", (), ())]
    assert all(event.facts == (("error", "None"),) and "2" in event.text and "1" in event.text for event in trace)
    assert not any(event.change for event in trace)


@pytest.mark.parametrize(
    "call",
    [
        lambda pool, a: pool.alloc([a]),
        lambda pool, a: pool.alloc([Req("b"), a]),
        lambda pool, a: pool.alloc_rows(-1),
        lambda pool, a: pool.alloc_rows(1.5),
        lambda pool, a: pool.alloc(5),
        lambda pool, a: pool.free(Req("x")),
        lambda pool, a: pool.free(None),
        lambda pool, a: pool.free_rows(0),
        lambda pool, a: pool.free_rows([2, 2]),
        lambda pool, a: pool.free_rows(a.req_pool_idx),
        lambda pool, a: pool.append(a, [1] * 9),
        lambda pool, a: pool.append(2, [1]),
        lambda pool, a: pool.read(Req("x")),
        lambda pool, a: pool.write((9, 0), 1),
        lambda pool, a: pool.write((0, 9), 1),
        lambda pool, a: pool.verify([9], 1),
        lambda pool, a: pool.get_req_pool_info(2),
        lambda pool, a: pool.set_req_pool_info(1, ReqToTokenPoolInfo(1, 0, torch.tensor([], dtype=torch.int32))),
        lambda pool, a: pool.write(),
    ],
)
def test_an_exception_is_one_refuse_and_reaches_the_caller(call: Callable[[Any, Req], Any]) -> None:
    plain, (twin,) = new_pool(), new_reqs("a")
    plain.alloc([twin])
    with pytest.raises(Exception) as unrecorded:
        call(plain, twin)
    pool, (a,) = new_pool(), new_reqs("a")
    pool.alloc([a])
    with record(pool) as trace, pytest.raises(type(unrecorded.value)) as raised:
        call(pool, a)
    assert str(raised.value) == str(unrecorded.value)
    assert kinds(trace) == ["refuse"]
    assert (trace[0].text, dict(trace[0].facts)) == (
        str(raised.value),
        {"error": type(raised.value).__name__},
    )
    assert not trace[0].change and agrees(trace, pool)


def test_a_refused_batch_names_its_requests_and_the_rows_they_hold() -> None:
    pool, (a, b) = new_pool(), new_reqs("a", "b")
    pool.alloc([a])
    with record(pool) as trace, pytest.raises(ValueError, match="nothing to continue"):
        pool.alloc([b, a])
    assert said(trace) == [("refuse", "alloc", (1,), ("b", "a"))]


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda pool: pool.free_rows([3]), (3,)),
        (lambda pool: pool.append(2, [1]), (2,)),
        (lambda pool: pool.get_req_pool_info(2), (2,)),
        (lambda pool: pool.free_rows([3, 99, -1]), (3,)),
        (lambda pool: pool.alloc_rows(-1), ()),
    ],
)
def test_a_refusal_names_the_rows_it_was_asked_for_as_far_as_they_exist(
    call: Callable[[Any], Any], rows: tuple[int, ...]
) -> None:
    pool = new_pool()
    with record(pool) as trace, pytest.raises(ValueError):
        call(pool)
    assert trace[0].kind == "refuse" and trace[0].rows == rows


def test_a_refusal_does_not_name_a_row_of_another_pool() -> None:
    other, pool, reqs = new_pool(size=40), new_pool(), new_reqs(*map(str, range(40)))
    other.alloc(reqs)
    with record(pool) as trace, pytest.raises(ValueError):
        pool.free(reqs[-1])
    assert said(trace) == [("refuse", "free", (), ("39",))]


def test_a_tuple_of_requests_is_counted_in_its_refusal() -> None:
    pool = new_pool(size=1)
    with record(pool) as trace:
        assert pool.alloc(tuple(new_reqs("a", "b"))) is None
    assert trace[0].text == "2 rows wanted, 1 free"


def test_a_batch_that_fails_while_it_is_read_is_a_refusal() -> None:
    def broken() -> Iterable[Req]:
        yield Req("a")
        raise RuntimeError("boom")

    pool = new_pool()
    with record(pool) as trace, pytest.raises(RuntimeError, match="boom"):
        pool.alloc(broken())
    assert kinds(trace) == ["refuse"] and trace[0].text == "boom"


def test_an_interrupted_call_is_a_refusal_and_what_it_did_is_not_called_late() -> None:
    class Interrupted(ReqToTokenPool):
        def alloc_rows(self, n: int) -> list[int] | None:
            super().alloc_rows(n)
            raise KeyboardInterrupt

    pool = new_pool(cls=Interrupted)
    with record(pool) as trace, contextlib.suppress(KeyboardInterrupt):
        pool.alloc_rows(1)
    assert kinds(trace) == ["refuse"] and trace[0].change.free == (0, (1,), ())
    assert trace.snapshot(1).generation == (0, 1, 0, 0) and trace.snapshot(1).owners == {}  # nobody was told of row 1


def test_each_call_has_its_kind() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.append(a, torch.tensor([7, 8, 9]))
        pool.write((1, 4), 5)
        pool.verify([1], 2)
        pool.read(a)
        info = pool.get_req_pool_info(1)
        pool.set_req_pool_info(1, info)
        pool.free(a)
        rows = pool.alloc_rows(2)
        pool.free_rows(rows)
        pool.free_rows(pool.alloc_rows(1)[0])
        pool.clear()
    one = ((1,), ("a",))
    assert said(trace) == [
        ("alloc", "alloc", *one),
        ("append", "append", *one),
        ("write", "write", *one),
        ("verify", "verify", *one),
        ("read", "read", *one),
        ("read", "get_req_pool_info", *one),
        ("write", "set_req_pool_info", *one),
        ("free", "free", *one),
        ("alloc", "alloc_rows", (2, 3), (None, None)),
        ("free", "free_rows", (2, 3), (None, None)),
        ("alloc", "alloc_rows", (1,), (None,)),
        ("free", "free_rows", (1,), (None,)),
        ("clear", "clear", (), ()),
    ]
    assert trace[1].change.cells == ((1, 0, 0, 7), (1, 1, 0, 8), (1, 2, 0, 9))
    assert trace[1].change.lengths == (("alloced", 1, 0, 3), ("alloced_cpu", 1, 0, 3))
    assert trace[3].change.lengths == (("verified", 1, 0, 2),)
    assert not trace[6].change  # get, then set, is the identity
    assert trace[7].change.lengths == (("verified", 1, 2, 0), ("alloced", 1, 3, 0), ("alloced_cpu", 1, 3, 0))
    assert trace[7].change.free == (2, (), (1,)) and not trace[7].change.cells
    assert {cell[:2] for cell in trace[-1].change.cells} == {(1, 0), (1, 1), (1, 2), (1, 4)}
    assert agrees(trace, pool)


def test_setting_an_info_is_a_write_with_cells_and_lengths() -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    with record(pool) as trace:
        pool.set_req_pool_info(1, ReqToTokenPoolInfo(1, 2, torch.tensor([4, 5])))
    assert trace[0].change.cells == ((1, 0, 0, 4), (1, 1, 0, 5))
    assert trace[0].change.lengths == (("verified", 1, 0, 1), ("alloced", 1, 0, 2), ("alloced_cpu", 1, 0, 2))


def test_clear_releases_every_holder_in_one_event() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.alloc_rows(1)
        pool.clear()
    assert kinds(trace) == ["alloc", "alloc", "clear"]
    assert trace[2].change.owners == ((1, ("a",), ()), (2, (None,), ())) and agrees(trace, pool)


BATCHES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda reqs: (req for req in reqs),
    "deque": collections.deque,
    "values": lambda reqs: {req.rid: req for req in reqs}.values(),
    "keys": lambda reqs: dict.fromkeys(reqs),
    "array": lambda reqs: np.array(reqs, dtype=object),
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_a_batch_may_be_any_of_these(make: Callable[[list[Req]], Iterable[Req]]) -> None:
    pool, reqs = new_pool(), new_reqs("a", "b")
    with record(pool) as trace:
        assert pool.alloc(make(reqs)) == [1, 2]
    assert said(trace) == [("alloc", "alloc", (1, 2), ("a", "b"))]


@pytest.mark.parametrize("rows", [[1, 3], (1, 3), np.array([1, 3]), torch.tensor([1, 3]), iter([1, 3]), {1: 0, 3: 0}])
def test_rows_may_be_given_back_in_any_of_these(rows: Any) -> None:
    pool = new_pool()
    pool.alloc_rows(3)
    with record(pool) as trace:
        pool.free_rows(rows)
    assert said(trace) == [("free", "free_rows", (1, 3), (None, None))] and agrees(trace, pool)


@pytest.mark.parametrize("row", [3, np.int64(3), np.array(3), torch.tensor(3)])
def test_a_row_may_be_any_integer(row: Any) -> None:
    pool = new_pool()
    pool.alloc_rows(3)
    with record(pool) as trace:
        pool.append(row, [9])
        pool.get_req_pool_info(row)
        pool.free_rows(row)
    assert said(trace) == [
        ("append", "append", (3,), (None,)),
        ("read", "get_req_pool_info", (3,), (None,)),
        ("free", "free_rows", (3,), (None,)),
    ]
    assert all(type(row) is int for event in trace for row in event.rows)


ONE_ROW = torch.zeros(4, 5, dtype=torch.bool)
ONE_ROW[2, 3] = True


@pytest.mark.parametrize(
    "indices",
    [
        1,
        -1,
        (2, 3),
        (-1, -1),
        (-1, 0),
        (slice(None), 2),
        slice(1, 3),
        slice(None, None, 2),
        (slice(-2, None), slice(1, 3)),
        Ellipsis,
        (Ellipsis, 2),
        (1, Ellipsis),
        None,
        [1, 3],
        [-1, 1],
        ([1, 2], [0, 4]),
        (torch.tensor([1, 2]), torch.tensor([-1, 0])),
        torch.tensor(2),
        torch.tensor([-1, 1]),
        torch.tensor([[1, 2], [2, 3]]),
        torch.tensor([True, False, True, False]),
        [True, False, True, False],
        True,
        np.array([True, False, True, False]),
        (np.array([True, False, True, False]), 1),
        ([True, False, True, False], 1),
        (torch.tensor([True, False, True, False]), 1),
        ONE_ROW,
        np.int64(2),
        np.array([1, 3]),
        (np.array([1, 3]), np.array([0, 1])),
        (True, 1),
        range(1, 3),
        [],
        (),
    ],
    ids=repr,
)
def test_a_write_is_one_event_with_exactly_the_cells_it_changed(indices: Any) -> None:
    pool, wanted = new_pool(), torch.zeros(4, 5, dtype=torch.int32)
    wanted[indices] = 9
    with record(pool) as trace:
        pool.write(indices, 9)
    cells = tuple((row, position, 0, 9) for row, position in torch.nonzero(wanted).tolist())
    assert kinds(trace) == ["write"]
    assert trace[0].change.cells == cells
    assert trace[0].rows == tuple(sorted({cell[0] for cell in cells}))
    assert agrees(trace, pool)


def test_a_write_of_the_same_slot_changes_nothing() -> None:
    pool = new_pool()
    pool.write((1, 2), 7)
    with record(pool) as trace:
        pool.write((1, slice(1, 4)), torch.tensor([0, 7, 0], dtype=torch.int32))
    assert said(trace) == [("write", "write", (), ())] and not trace[0].change


def test_keyword_arguments_are_as_good() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as trace:
        pool.alloc(reqs=[a])
        pool.append(req_or_row=a, slots=[3])
        pool.write(indices=(2, 0), values=9)
        pool.verify(rows=[1], n=1)
        pool.free(req=a)
        pool.free_rows(rows=pool.alloc_rows(n=1))
    assert kinds(trace) == ["alloc", "append", "write", "verify", "free", "alloc", "free"] and agrees(trace, pool)


def test_keyword_arguments_may_come_in_any_order() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.append(slots=[9], req_or_row=a)
        pool.write(values=1, indices=(2, 0))
        pool.verify(n=1, rows=[1])
    assert said(trace, 1) == [
        ("append", "append", (1,), ("a",)),
        ("write", "write", (2,), (None,)),
        ("verify", "verify", (1,), ("a",)),
    ]
    assert agrees(trace, pool)


def test_an_override_that_passes_everything_on_is_recorded_as_well() -> None:
    class PassesOn(ReqToTokenPool):
        def alloc(self, *args: Any, **kwargs: Any) -> list[int] | None:
            return super().alloc(*args, **kwargs)

        def append(self, *args: Any, **kwargs: Any) -> None:
            super().append(*args, **kwargs)

    pool, (a,) = new_pool(cls=PassesOn), new_reqs("a")
    with record(pool) as trace:
        pool.alloc(reqs=iter([a]))
        pool.append(slots=[9], req_or_row=a)
    assert said(trace) == [("alloc", "alloc", (1,), ("a",)), ("append", "append", (1,), ("a",))]


@pytest.mark.parametrize(
    ("rows", "named"),
    [([-1], (3,)), ([True, False, True, False], (0, 2)), (slice(1, 3), (1, 2)), (torch.tensor([2, -3]), (2, 1))],
    ids=repr,
)
def test_verify_names_the_rows_that_torch_takes_its_index_for(rows: Any, named: tuple[int, ...]) -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.verify(rows, 2)
    assert said(trace) == [("verify", "verify", named, (None,) * len(named))] and agrees(trace, pool)


def test_recording_does_not_make_a_wrong_call_right() -> None:
    pool = new_pool()
    with pytest.raises(IndexError):
        pool.verify(iter([1]), 1)
    with record(pool) as trace, pytest.raises(IndexError):
        pool.verify(iter([1]), 1)
    assert kinds(trace) == ["refuse"]


def test_a_write_whose_index_lies_in_the_table_itself_is_found_whole() -> None:
    pool = new_pool()
    pool.req_to_token = pool.req_to_token.clone()
    pool.write((0, slice(0, 2)), torch.tensor([1, 2], dtype=torch.int32))
    with record(pool) as trace:
        pool.write((pool.req_to_token[0, :2], 0), 3)
        pool.write((slice(None), slice(None)), pool.req_to_token.flip(0))
    assert kinds(trace) == ["write", "write"] and agrees(trace, pool)


def test_a_write_of_many_cells_is_one_event() -> None:
    pool = new_pool(size=30, max_context_len=40)
    with record(pool) as trace:
        pool.write(slice(None), 4)
    assert kinds(trace) == ["write"] and len(trace[0].change.cells) == 31 * 40 and agrees(trace, pool)


def test_a_rid_is_text_everywhere() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.alloc([Req(7)])  # type: ignore[arg-type]
    assert trace[0].rid == "7" and trace[0].rids == ("7",) and trace[0].change.owners == ((1, (), ("7",)),)


def test_steps_are_the_engine_s_and_events_are_counted_apart() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.alloc_rows(1)
        trace.step = 7
        pool.verified_lens[2] = 1
        pool.free_rows(1)
    assert [event.step for event in trace] == [0, 7, 7] and len(trace) == 3


# ------------------------------------------------------------------------------------------------ left as it was


class OwnAttributes(ReqToTokenPool):
    """A pool with an override on the instance, as a monkeypatch would leave it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log: list[Any] = []
        self.alloc_rows = self._logged  # type: ignore[method-assign]

    def _logged(self, n: int) -> list[int] | None:
        self.log.append(n)
        return ReqToTokenPool.alloc_rows(self, n)


@pytest.mark.parametrize("cls", [ReqToTokenPool, CheckedPool, OwnAttributes])
@pytest.mark.parametrize("how", ["quietly", "by an exception", "by an interrupt"])
def test_the_pool_is_left_exactly_as_it_was(cls: type, how: str) -> None:
    pool = new_pool(cls=cls)
    before = dict(vars(pool))
    error = {"quietly": None, "by an exception": RuntimeError, "by an interrupt": KeyboardInterrupt}[how]
    with contextlib.suppress(RuntimeError, KeyboardInterrupt), record(pool) as trace:
        assert all(name in vars(pool) for name in CALLS)
        pool.alloc_rows(1)
        if error:
            raise error
    assert vars(pool).keys() == before.keys() and all(vars(pool)[name] is before[name] for name in before)
    assert kinds(trace) == ["alloc"]
    for name in CALLS:
        assert name in before or getattr(pool, name).__func__ is getattr(cls, name)
    pool.free_rows(1)
    assert len(trace) == 1


def test_an_override_on_the_instance_is_called_and_comes_back() -> None:
    pool = new_pool(cls=OwnAttributes)
    with record(pool) as trace:
        pool.alloc_rows(2)
    pool.alloc_rows(1)
    assert pool.log == [2, 1] and said(trace) == [("alloc", "alloc_rows", (1, 2), (None, None))]


def test_the_last_change_is_found_even_when_the_block_ends_by_an_exception() -> None:
    pool = new_pool()
    with pytest.raises(RuntimeError), record(pool) as trace:
        pool.alloc_rows(1)
        pool.req_to_token[1, 2] = 5
        raise RuntimeError
    assert said(trace, 1) == [("write", "", (1,), (None,))]


def test_records_nest_and_each_sees_everything_from_its_beginning() -> None:
    pool = new_pool()
    before = dict(vars(pool))
    with record(pool) as outer:
        pool.alloc_rows(1)
        with record(pool) as inner:
            pool.alloc_rows(1)
            pool.req_to_token[1, 0] = 3
        pool.free_rows(2)
    assert kinds(inner) == ["alloc", "write"]
    assert kinds(outer) == ["alloc", "alloc", "write", "free"]
    assert inner.snapshot(0).owners == {1: (None,)}
    assert agrees(outer, pool) and vars(pool) == before


def test_records_may_end_in_any_order() -> None:
    pool = new_pool(cls=OwnAttributes)
    before = dict(vars(pool))
    first, second, third = record(pool), record(pool), record(pool)
    traces = [each.__enter__() for each in (first, second, third)]
    for number, each in enumerate((second, first, third)):
        pool.write((1, 0), number + 1)
        each.__exit__(None, None, None)
    pool.write((1, 0), 9)
    assert [len(trace) for trace in traces] == [2, 1, 3]
    assert vars(pool).keys() == before.keys() and vars(pool)["alloc_rows"] == before["alloc_rows"]


def test_a_method_kept_beyond_the_block_records_no_more() -> None:
    pool = new_pool()
    with record(pool) as trace:
        kept = pool.alloc_rows
    assert kept(1) == [1] and len(trace) == 0


def test_a_pool_can_be_recorded_again() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    with record(pool) as first:
        pool.alloc([a])
    pool.req_to_token[1, 0] = 4
    with record(pool) as second:
        pool.free(a)
    assert kinds(first) == ["alloc"] and kinds(second) == ["free"]
    assert second.snapshot(0).owners == {1: ("a",)} and int(second.snapshot(0).table[1, 0]) == 4


def test_the_first_state_is_a_copy() -> None:
    pool = new_pool()
    with record(pool) as trace:
        first = trace.snapshot(0)
        pool.write((1, 0), 9)
    assert int(first.table[1, 0]) == 0 and int(trace.snapshot(0).table[1, 0]) == 0


def test_the_first_state_has_the_holders_there_were() -> None:
    pool, (a,) = new_pool(reuse="lifo"), new_reqs("a")
    pool.alloc([a])
    pool.alloc_rows(1)
    with record(pool) as trace:
        pool.free(a)
    first = trace.snapshot(0)
    assert first.owners == {1: ("a",), 2: (None,)} and first.free == (3,)
    assert (first.padding_row, first.reuse, first.size, first.max_context_len) == (0, "lifo", 3, 5)
    assert agrees(trace, pool)


def test_only_a_pool_can_be_recorded() -> None:
    with pytest.raises(TypeError, match="ReqToTokenPool"), record(object()):
        pass


@pytest.mark.parametrize("tensor", ["req_to_token", "verified_lens", "alloced_lens_cpu"])
def test_a_tensor_of_another_type_is_refused_at_once(tensor: str) -> None:
    pool = new_pool()
    setattr(pool, tensor, getattr(pool, tensor).float())
    with pytest.raises(TypeError, match=f"{tensor} is torch.int32, got torch.float32"), record(pool):
        pass
    assert "alloc" not in vars(pool)


# ------------------------------------------------------------------------------------------------ found in the tensors


@pytest.mark.parametrize("tensor", ["req_to_token", "verified_lens", "alloced_lens", "alloced_lens_cpu"])
@pytest.mark.parametrize(("row", "kind"), [(0, "write"), (1, "write"), (3, "late_write")])
def test_an_unannounced_change_is_a_write_or_a_late_write(tensor: str, row: int, kind: str) -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    pool.alloc([a])
    with record(pool) as trace:
        view = getattr(pool, tensor)
        view.reshape(len(view), -1)[row, 0] += 4
        pool.read(a)
    assert said(trace) == [
        (kind, "", (row,), ("a" if row == 1 else None,)),
        ("read", "read", (1,), ("a",)),
    ]
    assert len(trace[0].change.cells) + len(trace[0].change.lengths) == 1 and agrees(trace, pool)


def test_one_comparison_parts_the_late_from_the_others() -> None:
    pool, (a,) = new_pool(), new_reqs("a")
    pool.alloc([a])
    with record(pool) as trace:
        pool.req_to_token[:, 2] = 6
    assert said(trace) == [("late_write", "", (2, 3), (None, None)), ("write", "", (0, 1), (None, "a"))]
    assert agrees(trace, pool)


def test_a_raw_write_before_a_refusal_is_not_the_refusal_s() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.req_to_token[2, 2] = 6
        with pytest.raises(ValueError):
            pool.alloc_rows(-1)
    assert kinds(trace) == ["late_write", "refuse"] and not trace[1].change


def test_a_row_handed_out_by_no_recorded_call_makes_its_write_late() -> None:
    pool, (a, b) = new_pool(size=1), new_reqs("a", "b")
    with record(pool) as trace:
        pool.alloc([a])
        ReqToTokenPool.free(pool, a)
        ReqToTokenPool.alloc(pool, [b])
        pool.req_to_token[1, 0] = 8
    assert kinds(trace) == ["alloc", "late_write"]
    assert trace[1].rows == (1,) and trace[1].change.cells == ((1, 0, 0, 8),)


def test_hands_that_change_by_no_recorded_call_are_in_the_books() -> None:
    pool, (a, b) = new_pool(), new_reqs("a", "b")
    with record(pool) as trace:
        ReqToTokenPool.alloc(pool, [a])
        pool.append(a, [4])
        assert agrees(trace, pool)
        pool.alloc_rows(1)
        ReqToTokenPool.free_rows(pool, 2)
        pool.read(a)
        assert agrees(trace, pool)
        pool.alloc_rows(1)
        ReqToTokenPool.free_rows(pool, 3)
        ReqToTokenPool.alloc(pool, [b])
    assert agrees(trace, pool)
    assert kinds(trace) == [
        *("late_write", "note", "append", "alloc", "note", "read"),
        *("alloc", "late_write", "note"),
    ]


def test_a_numpy_view_is_seen_though_no_version_counter_moves() -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    with record(pool) as trace:
        pool.req_to_token.numpy()[1, 3] = 12
        pool.check()
    assert said(trace) == [("write", "", (1,), (None,))]


def test_a_free_list_changed_by_no_call_is_told() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.free_slots.reverse()
        pool.alloc_rows(1)
    assert kinds(trace) == ["note", "alloc"] and trace[1].rows == (3,) and agrees(trace, pool)


def test_the_largest_slots_are_compared_exactly() -> None:
    pool = new_pool(size=1, max_context_len=2)
    with record(pool) as trace:
        pool.write((1, slice(None)), torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32))
        pool.write((1, 0), -1)
    assert trace[0].change.cells == ((1, 0, 0, 2**31 - 1), (1, 1, 0, -(2**31)))
    assert trace[1].change.cells == ((1, 0, 2**31 - 1, -1),)


# ------------------------------------------------------------------------------------------------ emit


def test_emit_outside_of_recording_is_refused() -> None:
    pool = new_pool()
    with record(pool) as trace:
        trace.emit("note", text="inside")
    with pytest.raises(RuntimeError, match="record"):
        trace.emit("note", text="outside")
    with pytest.raises(RuntimeError):
        Trace(trace.first).emit("note")
    assert kinds(trace) == ["note"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_emitted(kind: str) -> None:
    pool = new_pool()
    with record(pool) as trace:
        trace.emit(kind, rid="a", rows=2, text="why", tokens=(1, 2), ratio=0.5, on=True, nothing=None)
    facts = (("tokens", (1, 2)), ("ratio", 0.5), ("on", True), ("nothing", None))
    assert list(trace) == [Event(0, kind, "a", (2,), ("a",), text="why", facts=facts)]


@pytest.mark.parametrize("kind", ["write", "late_write", "pad_write", "verify"])
def test_emit_claims_what_changed_in_its_rows_and_no_more(kind: str) -> None:
    pool = new_pool()
    pool.alloc_rows(2)
    with record(pool) as trace:
        pool.req_to_token[:, 1] = torch.tensor([5, 6, 7, 8])
        pool.verified_lens[:] += 1
        trace.emit(kind, rows=[0, 3])
    assert said(trace) == [("write", "", (1, 2), (None, None)), (kind, "", (0, 3), ())]
    assert trace[1].change.cells == ((0, 1, 0, 5), (3, 1, 0, 8))
    assert trace[1].change.lengths == (("verified", 0, 0, 1), ("verified", 3, 0, 1)) and agrees(trace, pool)


@pytest.mark.parametrize("kind", ["note", "pad_read", "read", "retract"])
def test_a_kind_that_is_no_write_claims_nothing(kind: str) -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.req_to_token[0, 0] = 5
        trace.emit(kind, rows=0)
    assert kinds(trace) == ["write", kind] and not trace[1].change


def test_emit_cannot_invent_a_change() -> None:
    pool = new_pool()
    with record(pool) as trace:
        trace.emit("late_write", rows=[1, 2], text="row 1 is overwritten", slots=[1, 2])
    assert not trace[0].change and agrees(trace, pool)


@pytest.mark.parametrize(
    ("emit", "error"),
    [
        ({"kind": "nonsense"}, ValueError),
        ({"kind": "note", "rows": 9}, ValueError),
        ({"kind": "note", "rows": [1, -1]}, ValueError),
        ({"kind": "note", "what": object()}, TypeError),
        ({"kind": "note", "what": {"a": 1}}, TypeError),
        ({"kind": "note", "what": [1, torch.tensor(1)]}, TypeError),
        ({"kind": "note", "what": float("nan")}, ValueError),
        ({"kind": "note", "what": [float("inf")]}, ValueError),
        ({"kind": "note", "what": 10**5000}, ValueError),
        ({"kind": "note", "rid": 7}, TypeError),
        ({"kind": "note", "text": 7}, TypeError),
        ({"kind": "note", "rows": [1.5]}, TypeError),
        ({"kind": "note", "rows": True}, TypeError),
    ],
)
def test_a_wrong_emit_is_refused_and_leaves_no_event(emit: dict[str, Any], error: type[Exception]) -> None:
    pool = new_pool()
    with record(pool) as trace, pytest.raises(error):
        trace.emit(**emit)
    assert len(trace) == 0


def test_a_fact_as_deep_as_it_may_be_is_kept_and_a_deeper_one_refused() -> None:
    deep: Any = 1
    for _ in range(16):
        deep = [deep]
    pool = new_pool()
    with record(pool) as trace:
        trace.emit("note", what=deep)
        with pytest.raises(ValueError, match="deep"):
            trace.emit("note", what=[deep])
    assert len(trace) == 1


def test_a_step_that_is_no_integer_is_refused() -> None:
    with record(new_pool()) as trace:
        trace.step = np.int64(4)  # type: ignore[assignment]
        assert type(trace.step) is int
        for wrong in (1.5, "1", None, True):
            with pytest.raises(TypeError, match="step"):
                trace.step = wrong  # type: ignore[assignment]
    assert trace.step == 4


# ------------------------------------------------------------------------------------------------ nested calls


class FreesDoneFirst(ReqToTokenPool):
    """Its alloc gives back the finished requests first, through its own free."""

    done: tuple[Req, ...] = ()

    def alloc(self, reqs: Iterable[Any]) -> list[int] | None:
        done, self.done = self.done, ()
        for req in done:
            self.free(req)
        return super().alloc(reqs)


def test_what_a_call_calls_in_turn_is_part_of_it() -> None:
    pool, (a, b) = new_pool(size=1, cls=FreesDoneFirst), new_reqs("a", "b")
    with record(pool) as trace:
        pool.alloc([a])
        pool.done = (a,)
        assert pool.alloc([b]) == [1]
    assert said(trace) == [("alloc", "alloc", (1,), ("a",)), ("alloc", "alloc", (1,), ("b",))]
    assert trace[1].change.owners == ((1, ("a",), ("b",)),) and agrees(trace, pool)


def test_a_call_that_fails_inside_another_is_the_outer_one_s_refusal() -> None:
    pool, (a, b) = new_pool(cls=FreesDoneFirst), new_reqs("a", "b")
    pool.done = (a,)
    with record(pool) as trace:
        with pytest.raises(ValueError, match="holds no row"):
            pool.alloc([b])
        pool.alloc([b])
    assert said(trace) == [("refuse", "alloc", (), ("b",)), ("alloc", "alloc", (1,), ("b",))]


def test_what_an_empty_batch_changed_is_not_lost() -> None:
    pool, (a,) = new_pool(cls=FreesDoneFirst), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.done = (a,)
        pool.alloc([])
    assert said(trace, 1) == [("note", "alloc", (), ())] and agrees(trace, pool)


def test_lengths_of_a_row_that_was_only_given_back_are_no_reset() -> None:
    pool, (a, b) = new_pool(size=2, cls=FreesDoneFirst), new_reqs("a", "b")
    with record(pool) as trace:
        pool.alloc([a])
        pool.append(a, [7])
        pool.done = (a,)
        pool.alloc([b])
    assert said(trace, 2) == [("alloc", "alloc", (2,), ("b",))] and agrees(trace, pool)


def test_what_append_calls_in_turn_is_part_of_it() -> None:
    class GoesOn(ReqToTokenPool):
        def append(self, req: Any, slots: Any) -> None:
            super().append(req, slots)
            self.verify([req.req_pool_idx], 1)
            self.verified_lens[3] += 1
            if 0 in slots:
                self.free(req)

    pool, (a,) = new_pool(cls=GoesOn), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.append(a, [1, 2])
        pool.append(a, [0])
    assert kinds(trace) == ["alloc", "append", "append"] and agrees(trace, pool)
    assert trace[2].change.owners == ((1, ("a",), ()),)


def test_rows_given_back_within_alloc_rows_are_held_once() -> None:
    class Evicts(ReqToTokenPool):
        def alloc_rows(self, n: int) -> list[int] | None:
            if n > self.available_size():
                self.free_rows(list(self.holders))
            return super().alloc_rows(n)

    pool = new_pool(size=2, cls=Evicts)
    with record(pool) as trace:
        pool.alloc_rows(2)
        pool.alloc_rows(1)
        pool.alloc_rows(2)
    assert kinds(trace) == ["alloc"] * 3 and agrees(trace, pool)


def test_the_guard_rail_s_refusals_and_padding_writes_are_recorded() -> None:
    pool = new_pool(cls=CheckedPool)
    with record(pool) as trace:
        with pytest.raises(ValueError):
            pool.write((0, 0), 4)
        with pool.padding_writes():
            pool.write((0, 0), 4)
    assert kinds(trace) == ["refuse", "write"] and trace[1].change.cells == ((0, 0, 0, 4),)


# ------------------------------------------------------------------------------------------------ faulty pools


def test_two_owners_of_one_row_become_visible() -> None:
    pool, (a, b) = new_pool(size=1, cls=FreedTwice), new_reqs("a", "b")
    with record(pool) as trace:
        pool.alloc([a])
        pool.free_rows(1)
        pool.alloc([b])
    assert trace.snapshot(2).owners == {1: ("a",)} and trace.snapshot(2).free == (1,)
    assert trace.snapshot(3).owners == {1: ("a", "b")}


@pytest.mark.parametrize("batches", [("xyz",), ("x", "yz"), ("xy", "z"), ("x", "y", "z")])
def test_two_that_get_one_row_own_it_both_in_one_call_or_in_several(batches: tuple[str, ...]) -> None:
    pool = new_pool(size=2, cls=FreedTwice)
    with record(pool) as trace:
        row = pool.alloc_rows(1)
        pool.free_rows(row)
        pool.free_rows(row)
        for rids in batches:
            pool.alloc(new_reqs(*rids))
    assert trace.snapshot(len(trace)).owners == {1: ("y", "z"), 2: ("x",)}


def test_a_row_by_count_and_by_request_at_once_becomes_visible() -> None:
    pool, (a,) = new_pool(size=2, cls=FreedTwice), new_reqs("a")
    with record(pool) as trace:
        pool.alloc_rows(1)
        pool.free_rows([1, 1])
        pool.alloc_rows(2)
        pool.alloc([a])
    assert trace.snapshot(len(trace)).owners[1] == (None, "a")


@pytest.mark.parametrize("calls", [(3,), (2, 1), (1, 1, 1)])
def test_a_row_given_out_twice_by_count_has_two_owners(calls: tuple[int, ...]) -> None:
    pool = new_pool(size=2, cls=FreedTwice)
    with record(pool) as trace:
        row = pool.alloc_rows(1)
        pool.free_rows(row)
        pool.free_rows(row)
        for n in calls:
            pool.alloc_rows(n)
    assert trace.snapshot(len(trace)).owners == {1: (None, None), 2: (None,)}


def test_who_gives_rows_back_by_count_is_not_the_request_that_holds_one() -> None:
    pool, (a,) = new_pool(cls=FreedTwice), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.free_rows(1)
    assert said(trace, 1) == [("free", "free_rows", (1,), (None,))] and trace[1].rid is None


def test_a_refusal_that_changed_something_is_visible() -> None:
    pool, reqs = new_pool(size=2, cls=NotAllOrNothing), new_reqs("a", "b", "c")
    with record(pool) as trace:
        assert pool.alloc(reqs) is None
    assert kinds(trace) == ["refuse"] and trace[0].change.free == (0, (1, 2), ())
    assert trace.snapshot(1).free == () and trace.snapshot(1).generation == (0, 1, 1)


def test_a_row_lost_between_two_chunks_is_no_keep() -> None:
    pool, (a,) = new_pool(cls=FreedBetweenChunks), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        a.inflight_middle_chunks = 1
        pool.alloc([a])
    assert said(trace, 1) == [("alloc", "alloc", (2,), ("a",))]
    assert trace[1].change.owners == ((1, ("a",), ()), (2, (), ("a",))) and trace[1].change.free == (0, (2, 3), (3, 1))


def test_without_the_reset_there_is_no_reset_event_and_the_length_stays() -> None:
    pool = new_pool(cls=NoResetOnReuse)
    with record(pool) as trace:
        pool.verified_lens[1] = 3
        pool.alloc_rows(1)
    assert kinds(trace) == ["late_write", "alloc"] and trace.snapshot(2).verified == (0, 3, 0, 0)


def test_a_pool_without_a_padding_row_says_so() -> None:
    pool, (a,) = new_pool(cls=NoPaddingRow), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
    assert trace.snapshot(1).padding_row is None and trace.snapshot(1).owners == {0: ("a",)}


def test_a_clear_that_releases_nobody_leaves_its_owners_in_sight() -> None:
    class Forgetful(ReqToTokenPool):
        def clear(self) -> None:
            self._holders = {}
            super().clear()

    pool, (a,) = new_pool(cls=Forgetful), new_reqs("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.clear()
    assert trace.snapshot(2).owners == {1: ("a",)} and trace.snapshot(2).free == (1, 2, 3)


def test_a_pool_without_numbers_is_refused_in_one_sentence():
    pool = ReqToTokenPool(2, 4, device="meta")
    with pytest.raises(TypeError, match=r"wants a pool whose tensors hold numbers.*device=meta"), record(pool):
        pass
    assert "alloc" not in vars(pool)
