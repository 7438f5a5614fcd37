"""The stories are true: what they show is in the tensors, the mended variant is right and the broken one is not."""

import json

import pytest

from reqpool import scenarios
from reqpool.faulty import FreedTwice, NoPaddingRow, NoResetOnReuse
from reqpool.player.tape import tape
from reqpool.pool import ReqToTokenPool
from reqpool.trace import Trace
from reqpool.views import text_view

STORIES = {
    "alloc_and_free": scenarios.alloc_and_free,
    "alloc_and_free lifo": lambda: scenarios.alloc_and_free("lifo"),
    "come_and_go": lambda: scenarios.come_and_go(3, 5),
    "free_twice": scenarios.free_twice,
    "free_twice broken": lambda: scenarios.free_twice(FreedTwice),
    "chunked_prefill": scenarios.chunked_prefill,
    "padding_row": scenarios.padding_row,
    "padding_row broken": lambda: scenarios.padding_row(NoPaddingRow),
    "late_write": scenarios.late_write,
    "late_write broken": lambda: scenarios.late_write(NoResetOnReuse),
    "two_owners": scenarios.two_owners,
    "two_owners guarded": lambda: scenarios.two_owners(guarded=True),
    "stale_cells": scenarios.stale_cells,
    "stale_cells broken": lambda: scenarios.stale_cells(by_length=False),
}


def kinds(trace: Trace) -> list[str]:
    return [event.kind for event in trace]


def wrong(trace: Trace) -> list[tuple[int, int]]:
    return [cell for event in trace for cell in dict(event.facts).get("wrong", ())]


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_is_short_and_the_same_every_time(story) -> None:
    once, again = story(), story()
    assert 6 <= len(once) <= 20
    assert json.dumps(tape(once)) == json.dumps(tape(again))
    last = len(once)
    assert text_view(once.snapshot(last)) == text_view(again.snapshot(last))


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_no_change_in_a_story_is_unannounced(story) -> None:
    assert [event for event in story() if event.kind == "write" and not event.call and not event.text] == []


def test_a_refused_batch_changes_nothing_and_the_rows_are_reused_in_order() -> None:
    for reuse, rows in (("fifo", (3, 1)), ("lifo", (1, 3))):
        trace = scenarios.alloc_and_free(reuse)
        k = kinds(trace).index("refuse")
        assert text_view(trace.snapshot(k)) == text_view(trace.snapshot(k + 1))
        assert next(event.rows for event in trace if event.rids == ("c", "d") and event.kind == "alloc") == rows


def test_come_and_go_refuses_exactly_those_for_whom_there_is_no_row() -> None:
    for size in range(1, 5):
        for num_requests in range(1, 7):
            trace = scenarios.come_and_go(size, num_requests)
            refused = [event.rids for event in trace if event.kind == "refuse" and event.step == 0]
            assert len(refused) == max(0, num_requests - size)


def test_come_and_go_gives_everybody_with_a_row_two_tokens() -> None:
    for size, num_requests in ((1, 1), (3, 5), (6, 8)):
        appended = [event for event in scenarios.come_and_go(size, num_requests) if event.kind == "append"]
        assert appended and {len(event.change.cells) for event in appended} == {2}


def test_come_and_go_hands_rows_out_again_in_the_order_they_came_back() -> None:
    for frees, fifo in (("oldest first", 1), ("newest first", 3), ("every other first", 1)):
        trace = scenarios.come_and_go(3, 4, "fifo", frees)
        assert next(e.rows for e in trace if e.step == 2) == (fifo,)
    assert next(e.rows for e in scenarios.come_and_go(3, 4, "lifo", "oldest first") if e.step == 2) == (3,)
    with pytest.raises(ValueError, match="frees must be one of"):
        scenarios.come_and_go(3, 4, frees="never")


@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_second_free_is_refused_or_gives_one_row_to_two(reuse: str, size: int) -> None:
    mended = scenarios.free_twice(reuse=reuse, size=size)
    broken = scenarios.free_twice(FreedTwice, reuse=reuse, size=size)
    assert len(mended) == len(broken), "the same step is the same moment"
    assert all(len(rids) == 1 for rids in mended.snapshot(len(mended)).owners.values())
    assert not wrong(mended)
    assert max(len(rids) for rids in broken.snapshot(len(broken)).owners.values()) == 2
    assert wrong(broken)


def test_a_chunked_prompt_keeps_its_row_and_the_counter_is_zero_on_the_last_chunk() -> None:
    trace = scenarios.chunked_prefill()
    assert {event.rows for event in trace if event.rid == "a" and event.rows} == {(1,)}
    assert kinds(trace).count("keep") == 2
    launches = [event.text for event in trace if event.kind == "note"]
    assert "inflight_middle_chunks is 0, kv_committed_len is 8" in launches[-1]
    assert trace.snapshot(len(trace) - 1).verified[1] == 10


def test_chunks_of_every_size_fill_the_row() -> None:
    for chunk_size in range(3, 11):
        trace = scenarios.chunked_prefill(10, chunk_size)
        assert trace.snapshot(len(trace) - 1).verified[1] == 10


def test_dummy_entries_count_in_row_zero_or_in_somebody_s_row() -> None:
    trace = scenarios.padding_row()
    writes = [k for k, kind in enumerate(kinds(trace), 1) if kind == "pad_write"]
    assert [trace.snapshot(k).verified[0] for k in writes] == [1, 1]
    assert trace.snapshot(len(trace)).verified == (0, 6, 5, 0)
    broken = scenarios.padding_row(NoPaddingRow)
    last = broken.snapshot(len(broken))
    assert (last.verified[0], last.alloced[0]) == (8, 6)


def test_a_late_write_is_reset_or_spoils_the_next_request() -> None:
    mended, broken = scenarios.late_write(), scenarios.late_write(NoResetOnReuse)
    assert len(mended) == len(broken)
    k = kinds(mended).index("late_write") + 1
    assert (mended.snapshot(k).owners, mended.snapshot(k).verified[1]) == ({}, 1)
    assert (mended.snapshot(len(mended)).verified[1], wrong(mended)) == (3, [])
    assert (broken.snapshot(len(broken)).verified[1], wrong(broken)) == (4, [(1, 0), (1, 1), (1, 2)])


def texts(trace: Trace) -> list[tuple]:
    """What stands under the table after each event that says something new of it."""
    return [facts["texts"] for event in trace if "texts" in (facts := dict(event.facts))]


def test_what_is_recited_stands_under_the_table_until_it_is_recited_anew() -> None:
    assert texts(scenarios.two_owners()) == [
        (("a", "hello", ()),),
        (("a", "hewlo", (2,)),),
        (("a", "hewlo", (2,)), ("b", "wow", ())),
    ]
    assert texts(scenarios.two_owners(guarded=True))[-1] == (("a", "hello", ()),)
    assert texts(scenarios.stale_cells(by_length=False))[-1] == (("a", "horse", ()), ("b", "dogse", (3, 4)))


@pytest.mark.parametrize("pool_class", [FreedTwice, ReqToTokenPool])
def test_after_a_second_free_the_text_of_everybody_with_a_row_stands_there(pool_class) -> None:
    trace = scenarios.free_twice(pool_class)
    said = {label: (text, wrong) for label, text, wrong in texts(trace)[-1]}
    with_row = {rid for rids in trace.snapshot(len(trace)).owners.values() for rid in rids}
    assert said.keys() == with_row
    assert any(wrong for _, wrong in said.values()) == (pool_class is FreedTwice)


def test_a_slot_in_two_rows_spoils_a_text_and_the_guard_refuses_it() -> None:
    broken, mended = scenarios.two_owners(), scenarios.two_owners(guarded=True)
    assert len(mended) == len(broken)
    table = broken.snapshot(len(broken)).table
    assert set(table[1].tolist()) & set(table[2].tolist()) - {0} == {3}
    assert (wrong(broken), wrong(mended)) == ([(1, 2)], [])
    assert "refuse" in kinds(mended)


def test_stale_cells_are_read_only_without_the_length() -> None:
    assert wrong(scenarios.stale_cells()) == []
    assert wrong(scenarios.stale_cells(by_length=False)) == [(1, 3), (1, 4)]
    assert wrong(scenarios.stale_cells("dog", "horse", by_length=False)) == []
