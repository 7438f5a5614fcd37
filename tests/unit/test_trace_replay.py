"""A trace walks to any step, in both directions, and says exactly what each event changed."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from reqpool.pool import Req, ReqToTokenPool
from reqpool.trace import Change, Event, Snapshot, Trace, record


def state(snapshot: Snapshot) -> tuple[Any, ...]:
    lengths = (snapshot.verified, snapshot.alloced, snapshot.alloced_cpu, snapshot.generation)
    return snapshot.table.tolist(), list(snapshot.owners.items()), snapshot.free, lengths


def a_day(size: int = 3, max_context_len: int = 5) -> Trace:
    """Two requests, a late write, a refusal, a reset, a clear."""
    pool, a, b = ReqToTokenPool(size, max_context_len, device="cpu"), Req("a"), Req("b")
    with record(pool) as trace:
        pool.alloc([a, b])
        pool.append(a, [7, 8, 9])
        pool.write((0, 1), 3)
        pool.free(a)
        pool.verified_lens[1] += 2
        pool.req_to_token[1, 3] = 6
        pool.alloc_rows(9)
        pool.alloc_rows(size - 1)
        pool.free(b)
        pool.clear()
    return trace


def emitted(*changes: Change, rows: int = 3, free: tuple[int, ...] = (1, 2)) -> Trace:
    zeros = (0,) * rows
    first = Snapshot(torch.zeros(rows, 2, dtype=torch.int32), {}, free, zeros, zeros, zeros, zeros)
    return Trace(first, [Event(0, "note", change=change) for change in changes])


def test_a_trace_is_a_sequence_of_events() -> None:
    trace = a_day()
    assert list(trace) == [trace[i] for i in range(len(trace))] and trace[-1].kind == "clear"
    assert all(isinstance(event, Event) for event in trace)
    assert str(len(trace)) in repr(trace)
    with pytest.raises(IndexError):
        trace[len(trace)]


def test_events_and_changes_cannot_be_edited() -> None:
    event = a_day()[0]
    for thing, name in ((event, "kind"), (event.change, "cells")):
        with pytest.raises(AttributeError):
            setattr(thing, name, ())
    assert hash(event) == hash(a_day()[0]) and event == a_day()[0]


@pytest.mark.parametrize("k", [-1, 99, 10**30])
def test_a_step_outside_of_the_trace_is_an_index_error(k: int) -> None:
    trace = a_day()
    for ask in (trace.snapshot, trace.changed):
        with pytest.raises(IndexError, match=f"{len(trace)}"):
            ask(k)


@pytest.mark.parametrize("k", [True, 1.0, "1", None])
def test_a_step_that_is_no_integer_is_a_type_error(k: Any) -> None:
    for ask in (a_day().snapshot, a_day().changed):
        with pytest.raises(TypeError, match="integer"):
            ask(k)


def test_every_walk_meets_the_same_states() -> None:
    trace = a_day()
    steps = list(range(len(trace) + 1))
    forward = [state(trace.snapshot(k)) for k in steps]
    assert [state(trace.snapshot(k)) for k in reversed(steps)] == forward[::-1]
    shuffled = steps * 3
    random.Random(7).shuffle(shuffled)
    assert [state(trace.snapshot(k)) for k in shuffled] == [forward[k] for k in shuffled]
    assert [state(Trace(trace.first, trace.events).snapshot(k)) for k in steps] == forward


def test_changed_is_the_difference_of_neighbouring_tables() -> None:
    trace = a_day()
    assert trace.changed(0) == ()
    for k in range(1, len(trace) + 1):
        differs = trace.snapshot(k - 1).table != trace.snapshot(k).table
        assert list(trace.changed(k)) == [tuple(cell) for cell in torch.nonzero(differs).tolist()]


def test_a_snapshot_is_its_own_copy() -> None:
    trace = a_day()
    before = state(trace.snapshot(2))
    mine = trace.snapshot(2)
    mine.table.fill_(99)
    mine.owners.clear()
    assert state(trace.snapshot(2)) == before and state(trace.snapshot(0))[1] == []


def test_a_snapshot_has_the_pool_s_shape_and_kind() -> None:
    snapshot = a_day(size=2, max_context_len=6).snapshot(1)
    assert (snapshot.size, snapshot.max_context_len, snapshot.padding_row, snapshot.reuse) == (2, 6, 0, "fifo")
    assert snapshot.table.dtype == torch.int32 and snapshot.table.shape == (3, 6)
    assert list(snapshot.owners) == sorted(snapshot.owners)


def test_a_trace_can_be_looked_at_while_it_is_recorded() -> None:
    pool = ReqToTokenPool(2, 3, device="cpu")
    with record(pool) as trace:
        pool.alloc_rows(1)
        assert trace.snapshot(1).owners == {1: (None,)}
        pool.alloc_rows(1)
        assert trace.snapshot(1).free == (2,) and trace.snapshot(2).free == ()


def test_an_empty_trace_has_one_state() -> None:
    with record(ReqToTokenPool(2, 3, device="cpu")) as trace:
        pass
    assert len(trace) == 0 and trace.snapshot(0).free == (1, 2) and trace.changed(0) == ()


@pytest.mark.parametrize(
    ("before", "after", "splice"),
    [
        ((1, 2), (2,), (0, (1,), ())),
        ((1, 2), (1, 2, 3), (2, (), (3,))),
        ((1, 2), (3, 1, 2), (0, (), (3,))),
        ((1, 2, 1), (1, 2, 1, 1), (3, (), (1,))),
        ((1, 2, 3, 4), (1, 9, 8, 4), (1, (2, 3), (9, 8))),
        ((1, 1, 1), (1, 1), (2, (1,), ())),
        ((), (5, 6), (0, (), (5, 6))),
        ((5, 6), (), (0, (5, 6), ())),
        ((1, 2, 3), (3, 2, 1), (0, (1, 2, 3), (3, 2, 1))),
    ],
)
def test_a_changed_free_list_is_one_small_splice_that_goes_both_ways(
    before: tuple[int, ...], after: tuple[int, ...], splice: Any
) -> None:
    pool = ReqToTokenPool(2, 2, device="cpu")
    pool.free_slots.clear()
    pool.free_slots.extend(before)
    with record(pool) as trace:
        pool.free_slots.clear()
        pool.free_slots.extend(after)
    assert trace.snapshot(1).free == after and trace.snapshot(0).free == before
    _, out, into = trace[0].change.free
    assert len(out) + len(into) == len(splice[1]) + len(splice[2])


def test_owners_and_lengths_go_both_ways() -> None:
    trace = emitted(
        Change(owners=((1, (), ("a",)),), lengths=(("verified", 2, 0, 4), ("generation", 2, 0, 1))),
        Change(owners=((1, ("a",), ("a", None)),)),
        Change(owners=((1, ("a", None), ()),)),
    )
    assert [trace.snapshot(k).owners.get(1) for k in (3, 2, 1, 0)] == [None, ("a", None), ("a",), None]
    assert trace.snapshot(1).verified == (0, 0, 4) and trace.snapshot(0).generation == (0, 0, 0)


def test_storage_grows_with_what_changed_and_not_with_the_table() -> None:
    """The same calls on a table a thousand times as large keep exactly as many entries."""

    def entries(trace: Trace) -> int:
        return sum(
            len(event.change.cells)
            + len(event.change.lengths)
            + len(event.change.owners)
            + sum(len(rows) for rows in (event.change.free or (0, (), ()))[1:])
            for event in trace
        )

    sizes = set()
    for size, max_context_len in ((3, 5), (300, 50)):
        pool, a = ReqToTokenPool(size, max_context_len, device="cpu"), Req("a")
        with record(pool) as trace:
            for _ in range(20):
                pool.alloc([a])
                pool.append(a, [4, 5])
                pool.free(a)
        sizes.add((len(trace), entries(trace) < 20 * 15))
        assert not any(
            isinstance(value, torch.Tensor) for event in trace for value in (*vars(event).values(), event.change)
        )
    assert sizes == {(60, True)}


def test_neighbouring_snapshots_replay_one_event_and_far_ones_only_the_way() -> None:
    trace = emitted(*(Change(cells=((1, 0, i, i + 1),)) for i in range(50)))
    assert int(trace.snapshot(50).table[1, 0]) == 50
    assert trace._state.k == 50
    assert int(trace.snapshot(49).table[1, 0]) == 49 and trace._state.k == 49
