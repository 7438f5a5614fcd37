"""The state and the events in words and as a drawing: right, the same every time, and safe with any rid."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from reqpool.faulty import FreedBetweenChunks, FreedTwice, NoPaddingRow, NotAllOrNothing, PaddingInsideSize
from reqpool.pool import Req, ReqToTokenPool, ReqToTokenPoolInfo
from reqpool.trace import KINDS, Change, Event, Snapshot, Trace, record
from reqpool.views import caption, cell_state, grid_svg, owner_name, text_view, theme

SVG = "{http://www.w3.org/2000/svg}"
MARKUP = "<script>alert('x')</script>&amp;\"]]>"


def new_pool(cls: type = ReqToTokenPool, size: int = 3, max_context_len: int = 5) -> Any:
    return cls(size, max_context_len, device="cpu")


def told(do: Callable[[Any, Trace, Req], Any], cls: type = ReqToTokenPool, rid: str = "a") -> list[str]:
    """The captions of what is done to a pool in which `rid` holds row 1 with three tokens."""
    pool, a = new_pool(cls), Req(rid)
    pool.alloc([a])
    pool.append(a, [7, 8, 9])
    with record(pool) as trace:
        do(pool, trace, a)
    return [caption(trace, k) for k in range(1, len(trace) + 1)]


def has(sentence: str, *words: str) -> bool:
    """All of the words, whole, in this order."""
    return re.search(".*".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in words), sentence) is not None


def a_snapshot() -> Snapshot:
    """Row 1 lives with 3 of 4 cells, row 2 is free and stale, row 3 by count; dummy entries wrote the padding row."""
    table = torch.tensor([[5, 0, 0, 0], [7, 8, 9, 3], [4, 0, 6, 0], [0, 0, 0, 0]], dtype=torch.int32)
    return Snapshot(table, {1: ("a",), 3: (None,)}, (2,), (0, 2, 0, 0), (0, 3, 0, 1), (0, 3, 0, 1), (0, 1, 1, 1))


# ------------------------------------------------------------------------------------------------ cell_state


def test_a_cell_is_padding_live_stale_or_empty() -> None:
    snapshot = a_snapshot()
    assert [[cell_state(snapshot, row, position) for position in range(4)] for row in range(4)] == [
        ["padding"] * 4,
        ["live", "live", "live", "stale"],
        ["stale", "empty", "stale", "empty"],
        ["live", "empty", "empty", "empty"],
    ]


def test_without_a_padding_row_row_0_is_a_row_like_any_other() -> None:
    pool, a = new_pool(NoPaddingRow), Req("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.append(a, [7])
    snapshot = trace.snapshot(2)
    assert [cell_state(snapshot, 0, position) for position in (0, 1)] == ["live", "empty"]
    assert owner_name(snapshot, 0) == "a" and "padding" not in text_view(snapshot)
    assert "padding" not in texts(grid_svg(snapshot)) and "url(#padding)" not in grid_svg(snapshot)


@pytest.mark.parametrize("length", [-3, 0, 2**40])
def test_a_length_that_cannot_be_is_no_crash(length: int) -> None:
    first = a_snapshot()
    lengths = (0, length, 0, 0)
    snapshot = Snapshot(first.table, first.owners, first.free, lengths, lengths, lengths, first.generation)
    assert cell_state(snapshot, 1, 0) == ("live" if length > 0 else "stale")
    assert str(length) in text_view(snapshot) and ElementTree.fromstring(grid_svg(snapshot)) is not None


# ------------------------------------------------------------------------------------------------ text_view


def test_the_whole_state_reads_as_one_small_table() -> None:
    assert text_view(a_snapshot(), [(1, 2)]).splitlines() == [
        "free rows, next first: 2",
        "row  owner       0   1   2   3  verified/alloced",
        "  0  padding   :5: :0: :0: :0:",
        "  1  a           7   8 *9* ~3~  2/3",
        "  2  free      ~4~   . ~6~   .  0/0",
        "  3  by count    0   .   .   .  0/1",
    ]


def test_the_free_rows_are_listed_in_their_order() -> None:
    first = a_snapshot()
    for free, words in (((3, 1, 2), "3, 1, 2"), ((), "none"), (tuple(range(20, 0, -1)), "20, 19, 18, 17")):
        snapshot = Snapshot(first.table, {}, free, *(first.generation,) * 4)
        assert text_view(snapshot).startswith(f"free rows, next first: {words}")


@pytest.mark.parametrize(
    ("do", "row", "words"),
    [
        (lambda pool: pool.verified_lens.fill_(1), 2, "free row with a length"),
        (lambda pool: pool.alloced_lens_cpu.fill_(4), 1, "host mirror says 4"),
        (lambda pool: pool.verified_lens.fill_(4), 1, "verified beyond alloced"),
        (lambda pool: pool.verified_lens.fill_(4), 0, "drifted"),
    ],
)
def test_an_odd_length_is_told_in_words(do: Callable[[Any], Any], row: int, words: str) -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    with record(pool) as trace:
        do(pool)
    snapshot = trace.snapshot(len(trace))
    assert words in text_view(snapshot).splitlines()[2 + row]
    assert words in " ".join(ElementTree.fromstring(grid_svg(snapshot)).itertext())


def test_two_owners_are_both_named() -> None:
    pool, (a, b) = new_pool(FreedTwice, size=1), (Req("a"), Req("b"))
    with record(pool) as trace:
        pool.alloc([a])
        pool.free_rows(1)
        pool.alloc([b])
    snapshot = trace.snapshot(len(trace))
    assert owner_name(snapshot, 1) == "a + b" and "a + b" in text_view(snapshot)
    assert "a + b" in [element.text for element in ElementTree.fromstring(grid_svg(snapshot)).iter(f"{SVG}text")]
    assert has(caption(trace, len(trace)), "request b gets row 1", "held by two", "a", "b")


def test_a_changed_cell_still_says_its_state() -> None:
    stale, live, padding = ([(1, 3)], "*~3~*"), ([(1, 2)], "*9*"), ([(0, 0)], "*:5:*")
    for changed, mark in (stale, live, padding):
        assert mark in text_view(a_snapshot(), changed).split()


def test_a_row_that_is_held_and_free_is_told_in_text_and_picture() -> None:
    pool, a = new_pool(FreedTwice), Req("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.free_rows(1)
        pool.free_rows(1)
    for k, words in ((2, "held and on the free list"), (3, "on the free list twice")):
        assert words in text_view(trace.snapshot(k)).splitlines()[3]
        assert any(words in shown for shown in texts(grid_svg(trace.snapshot(k))))
        assert has(caption(trace, k), "row 1", words, "a")


def test_a_row_in_nobody_s_hands_is_not_free() -> None:
    with record(new_pool(PaddingInsideSize)) as trace:
        pass
    assert owner_name(trace.snapshot(0), 3) == "nobody" and "nobody" in texts(grid_svg(trace.snapshot(0)))


# ------------------------------------------------------------------------------------------------ caption


def test_the_start_is_told() -> None:
    pool = new_pool()
    pool.alloc_rows(1)
    with record(pool) as trace:
        pool.alloc_rows(2)
    assert caption(trace, 0) == "somebody (by count) holds row 1; free rows, next first: 2, 3."
    with record(new_pool()) as trace:
        pass
    assert caption(trace, 0) == "nobody holds a row; free rows, next first: 1, 2, 3."


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda pool, trace, a: pool.alloc([Req("b"), Req("c")]), ["b", "row 2", "c", "row 3", "no row is free"]),
        (lambda pool, trace, a: pool.alloc_rows(1), ["row 2", "by count", "free", "row 3"]),
        (lambda pool, trace, a: pool.alloc_rows(2), ["rows 2, 3", "by count"]),
        (lambda pool, trace, a: pool.alloc_rows(3), ["alloc_rows", "None", "3 rows", "2 free", "Nothing has changed"]),
        (lambda pool, trace, a: pool.append(a, [4]), ["a writes slot 4", "row 1", "position 3", "3 → 4"]),
        (lambda pool, trace, a: pool.append(a, [4, 5]), ["a writes slots 4, 5", "row 1", "positions 3, 4", "3 → 5"]),
        (lambda pool, trace, a: pool.append(1, []), ["nothing"]),
        (lambda pool, trace, a: pool.write((1, 2), 66), ["slot 66", "a", "row 1", "position 2", "old slot 9"]),
        (
            lambda pool, trace, a: pool.write((1, [0, 2]), 66),
            ["slots 66, 66", "a", "row 1", "positions 0, 2", "old slots 7, 9"],
        ),
        (lambda pool, trace, a: pool.write((1, 0), 7), ["no cell"]),
        (lambda pool, trace, a: pool.verify([1], 2), ["row 1", "verified length", "0 → 2"]),
        (lambda pool, trace, a: pool.verify([2], 2), ["row 2", "verified length", "0 → 2", "row 2", "free", "late"]),
        (lambda pool, trace, a: pool.read(a), ["a", "row 1", "read"]),
        (lambda pool, trace, a: pool.free(a), ["a gives back row 1", "alloced length 3 → 0", "keep their old slots"]),
        (lambda pool, trace, a: pool.clear(), ["3 cells", "every row is free", "a no longer holds row 1"]),
        (
            lambda pool, trace, a: pool.set_req_pool_info(1, ReqToTokenPoolInfo(1, 1, torch.tensor([4]))),
            ["slot 4", "a", "row 1", "position 0", "verified length", "0 → 1", "alloced length", "3 → 1"],
        ),
    ],
)
def test_a_call_is_told_with_who_and_where_and_what(do: Callable[..., Any], words: list[str]) -> None:
    (sentence,) = told(do)
    assert has(sentence, *words), sentence


def test_a_kept_row_is_told() -> None:
    def keep(pool: Any, trace: Trace, a: Req) -> None:
        a.inflight_middle_chunks = 1
        pool.alloc([a, Req("b")])

    kept, new = told(keep)
    assert has(kept, "a", "keeps row 1") and has(new, "b", "row 2")


def test_a_refusal_is_told_with_its_reason() -> None:
    def twice(pool: Any, trace: Trace, a: Req) -> None:
        with pytest.raises(ValueError):
            pool.alloc([a])

    (sentence,) = told(twice)
    assert has(sentence, "ValueError", "alloc", "'a'", "row 1", "Nothing has changed")


def test_a_refusal_that_changed_something_is_told() -> None:
    (sentence,) = told(lambda pool, trace, a: pool.alloc_rows(3), NotAllOrNothing)
    assert (
        has(sentence, "None", "rows 2, 3 leave the free list", "rows 2, 3", "neither held nor free")
        and "Nothing has changed" not in sentence
    )


def test_a_refusal_that_gave_rows_back_says_so() -> None:
    pool, a = new_pool(FreedBetweenChunks, size=2), Req("a")
    with record(pool) as trace:
        pool.alloc([a])
        a.inflight_middle_chunks = 1
        assert pool.alloc([a, Req("b"), Req("c"), Req("d")]) is None
    assert has(caption(trace, 2), "changed something", "row 1 goes on the free list", "held and on the free list", "a")


def test_a_hand_out_that_took_the_row_away_first_says_so() -> None:
    pool, a = new_pool(FreedBetweenChunks, size=2), Req("a")
    with record(pool) as trace:
        pool.alloc([a])
        a.inflight_middle_chunks = 1
        pool.alloc([a])
    assert has(caption(trace, 2), "a gets row 2", "a no longer holds row 1", "Row 1 goes on the free list")


def test_free_rows_is_not_the_owner_s_doing() -> None:
    pool, a = new_pool(FreedTwice), Req("a")
    with record(pool) as trace:
        pool.alloc([a])
        pool.free_rows(1)
    assert has(caption(trace, 2), "row 1 is given back", "held", "a") and "a gives back" not in caption(trace, 2)


def test_what_no_call_did_to_the_free_list_is_told() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.free_slots.remove(2)
    assert has(caption(trace, 1), "Row 2 leaves the free list", "row 2 is neither held nor free")
    pool = new_pool()
    with record(pool) as trace:
        pool.free_slots.rotate(1)
    assert has(caption(trace, 1), "new order", "3, 1, 2")


def test_a_hand_out_by_no_call_is_told() -> None:
    pool = new_pool()
    with record(pool) as trace:
        ReqToTokenPool.alloc_rows(pool, 1)
    told_of_it = " ".join(caption(trace, k) for k in range(1, len(trace) + 1))
    assert "nothing changed" not in told_of_it and has(told_of_it, "row 1", "0 → 1")


@pytest.mark.parametrize(("row", "words"), [(2, "But row 2 is free"), (0, "Row 0 is the padding row")])
def test_a_write_into_a_row_that_nobody_holds_says_so(row: int, words: str) -> None:
    (sentence,) = told(lambda pool, trace, a: pool.write((row, 0), 77))
    assert has(sentence, "slot 77", f"row {row}", "position 0", words)


def test_slots_that_were_there_already_are_told() -> None:
    def again(pool: Any, trace: Trace, a: Req) -> None:
        pool.free(a)
        b = Req("b")
        pool.alloc([Req("c"), Req("d"), b])
        pool.append(b, [7])
        pool.append(b, [8, 4])

    *_, first, second = told(again)
    assert has(first, "b writes slot 7", "row 1", "position 0", "already there", "0 → 1")
    assert has(second, "b writes slots 8, 4", "positions 1, 2", "old slot 9", "1 of them already there", "1 → 3")


def test_an_unannounced_change_is_told() -> None:
    def damage(pool: Any, trace: Trace, a: Req) -> None:
        pool.req_to_token[:, 1] = torch.tensor([6, 66, 8, 0])

    late, write = told(damage)
    assert has(late, "slot 8", "row 2", "position 1", "row 2 is free")
    assert has(
        write, "nobody announced", "slot 6", "row 0", "slot 66", "row 1", "old slot 8", "Row 0 is the padding row"
    )


def test_a_late_write_names_the_last_owner_and_the_reset_what_it_undid() -> None:
    def late(pool: Any, trace: Trace, a: Req) -> None:
        pool.free(a)
        pool.verified_lens[1] += 2
        pool.alloc_rows(3)

    sentences = told(late)
    assert has(sentences[1], "row 1", "0 → 2", "row 1 is free", "a was the last owner")
    assert has(sentences[3], "new owner", "row 1", "verified length", "2 → 0")


def test_a_mirror_that_goes_its_own_way_is_told() -> None:
    def drift(pool: Any, trace: Trace, a: Req) -> None:
        pool.alloced_lens_cpu[1] = 1

    (sentence,) = told(drift)
    assert has(sentence, "row 1", "mirror", "3 → 1")


def test_an_alloced_length_that_leaves_its_mirror_behind_is_told() -> None:
    def drift(pool: Any, trace: Trace, a: Req) -> None:
        pool.alloced_lens[1] = 5

    (sentence,) = told(drift)
    assert has(sentence, "row 1", "alloced length", "3 → 5", "host mirror is 3")


def test_the_last_owner_of_a_row_may_have_no_name() -> None:
    def late(pool: Any, trace: Trace, a: Req) -> None:
        pool.free(a)
        pool.free_rows(pool.alloc_rows(3))
        pool.verified_lens[1] = 1

    assert has(told(late)[-1], "row 1 is free", "by count", "the last owner")


EMITTED = [
    {"rid": "a", "rows": [1, 2]},
    {"rid": "a"},
    {"rows": [1, 2]},
    {},
    {"text": "why", "rid": "a", "rows": [1, 2]},
    {"text": "why:"},
    {"text": " \n"},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", EMITTED, ids=str)
def test_every_emitted_kind_has_a_caption(kind: str, options: dict[str, Any]) -> None:
    with record(new_pool()) as trace:
        trace.emit(kind, **options)
    sentence = caption(trace, 1)
    assert (
        sentence[0].isalnum()
        and sentence[-1].isprintable()
        and re.search(r"[:;,.] *\.|None| {2}|^ | $", sentence) is None
    )
    assert ("why" in sentence) == ("why" in options.get("text", ""))
    assert "text" in options or all(has(sentence, str(value)) for value in (options.get("rid", ""),) if value)


@pytest.mark.parametrize(("kind", "word"), [("pad_read", "read"), ("pad_write", "written"), ("retract", "retracted")])
def test_what_was_emitted_without_a_text_is_told_by_its_kind(kind: str, word: str) -> None:
    with record(new_pool()) as trace:
        trace.emit(kind, rid="a", rows=0)
    assert has(caption(trace, 1), "request a", "row 0", word)


@pytest.mark.parametrize("call", ["", "alloc", "append", "free", "write", "verify", "clear"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rids", "rows"), [(("a",), (1, 2)), (("a", None), (1,)), ((), ()), ((), (1,))])
def test_an_event_of_any_shape_has_a_caption(kind: str, call: str, rids: Any, rows: Any) -> None:
    change = Change(((1, 0, 7, 5),), (("verified", 2, 0, 2),), ((3, (None,), ("a", "b")),), (0, (2,), (3, 3)))
    for given in (Change(), change):
        sentence = caption(Trace(a_snapshot(), [Event(0, kind, None, rows, rids, call, change=given)]), 1)
        assert sentence.endswith(".") and ": ." not in sentence
        changes = ("slot 5", "0 → 2", "request a and request b") if given else ()
        assert all(has(sentence.lower(), words) for words in changes), sentence


@pytest.mark.parametrize("kind", ["note", "pad_read", "pad_write", "retract", "late_write", "write", "verify"])
def test_an_emitted_text_is_told_with_what_was_found(kind: str) -> None:
    def emit(pool: Any, trace: Trace, a: Req) -> None:
        pool.req_to_token[0, 2] = 5
        trace.emit(kind, rows=0, text="a dummy entry came by")

    *before, sentence = told(emit)
    assert "a dummy entry came by" in sentence
    assert any(has(line.lower(), "slot 5", "row 0", "position 2") for line in [*before, sentence])


@pytest.mark.parametrize("k", [-1, 1, True, False, 1.0, 0.0])
def test_a_step_outside_of_the_trace_has_no_caption(k: Any) -> None:
    with record(new_pool()) as trace:
        pass
    with pytest.raises((IndexError, TypeError)):
        caption(trace, k)


def test_every_kind_has_a_sentence() -> None:
    first = a_snapshot()
    trace = Trace(first, [Event(0, kind, rid="a", rows=(1,), rids=("a",), text="why") for kind in KINDS])
    for k in range(len(KINDS) + 1):
        sentence = caption(trace, k)
        assert sentence.endswith((".", "!")) and len(sentence.splitlines()) == 1


def test_a_caption_does_not_move_the_trace() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.alloc_rows(1)
        pool.free_rows(1)
    assert caption(trace, 1) == caption(trace, 1) and caption(trace, 2) == caption(trace, 2)


def test_a_thousand_captions_take_well_under_a_second() -> None:
    pool = new_pool(size=63, max_context_len=256)
    with record(pool) as trace:
        reqs = [Req(f"r{i}") for i in range(63)]
        pool.alloc(reqs)
        for i in range(999):
            if i % 3:
                pool.append(reqs[i % 63], [i + 1, i + 5])
            else:
                pool.verify([1 + i % 63], 1)
    start = time.perf_counter()
    captions = [caption(trace, k) for k in range(len(trace) + 1)]
    assert time.perf_counter() - start < 1
    assert max(map(len, captions)) < 400, "many rows are counted, not listed"


# ------------------------------------------------------------------------------------------------ grid_svg


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_picture_has_its_title_and_a_description_that_is_the_text_view() -> None:
    snapshot, changed = a_snapshot(), [(1, 2)]
    root = ElementTree.fromstring(grid_svg(snapshot, changed, title="after <one> & two"))
    assert root.get("role") == "img"
    labels = [root.find(f"{SVG}{name}") for name in ("title", "desc")]
    assert [label.text for label in labels] == ["after <one> & two", text_view(snapshot, changed)]
    assert root.get("aria-labelledby").split() == [label.get("id") for label in labels]


def test_a_picture_shows_every_slot_owner_length_and_free_row() -> None:
    snapshot = a_snapshot()
    shown = texts(grid_svg(snapshot))
    for words in ("a", "free", "by count", "padding", "2/3", "0/1"):
        assert words in shown
    for slot in snapshot.table[snapshot.table != 0].tolist():
        assert str(slot) in shown
    many = Snapshot(torch.zeros(30, 2, dtype=torch.int32), {}, tuple(range(1, 30)), *((0,) * 30,) * 4)
    assert any("17 more" in words for words in texts(grid_svg(many)))
    assert "none" in texts(grid_svg(Snapshot(snapshot.table, {}, (), *(snapshot.generation,) * 4)))


def test_what_a_colour_says_is_also_said_by_a_word_or_a_mark() -> None:
    """Without any colour, each state and each owner can still be told from the others."""
    svg = grid_svg(a_snapshot(), [(1, 1)])
    grey = re.sub(r"#[0-9A-Fa-f]{6}", "#777777", svg)
    elements = {element.text: element for element in ElementTree.fromstring(grey).iter(f"{SVG}text")}
    assert elements["4"].get("text-decoration") == elements["6"].get("text-decoration") == "line-through"  # stale
    assert elements["8"].get("font-weight") == "bold" and 'stroke-width="3"' in grey  # just changed
    assert elements["7"].get("font-weight") is None and elements["7"].get("text-decoration") is None
    assert grey.count("url(#padding)") == 4 and grey.count("url(#stale)") == 3
    assert {"a", "by count", "free", "padding"} <= elements.keys()


def test_two_pictures_on_one_page_have_titles_of_their_own() -> None:
    pictures = [
        grid_svg(a_snapshot(), title="one"),
        grid_svg(a_snapshot(), title="other"),
        grid_svg(a_snapshot(), [(1, 1)], "one"),
    ]
    labels = [ElementTree.fromstring(svg).get("aria-labelledby").split() for svg in pictures]
    assert len({label for pair in labels for label in pair}) == 6


def test_a_slot_of_any_length_fits_its_cell() -> None:
    pool = new_pool()
    slots = [9_999, 99_999, 999_999, 2**31 - 1]
    with record(pool) as trace:
        pool.alloc_rows(1)
        pool.append(1, slots)
    sizes = {
        e.text: float(e.get("font-size"))
        for e in ElementTree.fromstring(grid_svg(trace.snapshot(2))).iter(f"{SVG}text")
    }
    assert all(sizes[str(slot)] * 0.7 * len(str(slot)) <= theme.CELL_WIDTH - theme.GAP for slot in slots)


def test_only_changed_cells_are_outlined() -> None:
    plain, marked = grid_svg(a_snapshot()), grid_svg(a_snapshot(), [(1, 1), (2, 1)])
    outline = f'stroke="{theme.INK}" stroke-width="3"'
    assert plain.count(outline) == 0 and marked.count(outline) == 2


def test_changed_may_be_any_iterable_in_any_order() -> None:
    snapshot, cells = a_snapshot(), [(1, 2), (2, 0), (0, 0)]
    for view in (grid_svg, text_view):
        assert view(snapshot, cells) == view(snapshot, reversed(cells)) == view(snapshot, iter(set(cells)))


SCRIPT = """
from hashlib import sha256
from reqpool import Req, ReqToTokenPool, record
from reqpool.views import caption, grid_svg, text_view
pool = ReqToTokenPool(5, 6, device="cpu")
reqs = [Req(rid) for rid in ("delta", "alpha", "echo", "<b>")]
with record(pool) as trace:
    pool.alloc(reqs)
    pool.append(reqs[1], [7, 8, 9])
    pool.req_to_token[:, 2] = 4
    pool.free(reqs[0])
told = "".join(caption(trace, k) + text_view(trace.snapshot(k), set(trace.changed(k)))
               + grid_svg(trace.snapshot(k), set(trace.changed(k))) for k in range(len(trace) + 1))
print(sha256(told.encode()).hexdigest())
"""


def test_the_same_trace_gives_the_same_bytes_in_every_process() -> None:
    root = Path(__file__).resolve().parents[2]
    digests = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4711")
    ]
    assert digests[0] == digests[1] and len(digests[0].strip()) == hashlib.sha256().digest_size * 2


# ------------------------------------------------------------------------------------------------ hostile rids


@pytest.mark.parametrize(
    "rid", [MARKUP, "🦆\U0001f468‍\U0001f469", "é" * 30, "%s {0} \\n", "--><!--", "padding", "free"]
)
def test_a_rid_is_text_and_nothing_else(rid: str) -> None:
    pool, a = new_pool(), Req(rid)
    with record(pool) as trace:
        pool.alloc([a])
        pool.append(a, [1])
    svg = grid_svg(trace.snapshot(2), title=rid)
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "desc", "defs", "pattern", "rect", "line", "text")
    }
    assert not any(name.lower().startswith("on") for element in root.iter() for name in element.attrib)
    assert root.find(f"{SVG}title").text == rid and rid[:6] in "".join(texts(svg))
    assert rid in caption(trace, 1) and rid in text_view(trace.snapshot(2))


RAW = {
    "newline": "a\nb",
    "nul": "\x00",
    "escape": "\x1b[31m",
    "c1": "a\x85b",
    "surrogate": "a\ud800",
    "line separator": "a\u2028b",
    "vertical tab": "\x0b",
    "tab": "a\tb",
    "noncharacter": "\ufffe",
    "right to left": "\u202etxt",
    "invisible": "\u200b",
    "long": "x" * 10_000,
    "long and raw": "\x00" * 10_000,
}


def day(rid: str) -> Trace:
    """A request's life, with its rid in every kind of text."""
    pool, a = new_pool(), Req(rid)
    with record(pool) as trace:
        pool.alloc([a])
        with pytest.raises(ValueError, match="already holds"):
            pool.alloc([a])
        pool.append(a, [1])
        trace.emit("note", rid=rid, rows=1, text=f"{rid} says")
        trace.emit("retract", rid=rid, rows=1)
        pool.free(a)
        pool.verified_lens[1] = 1
    return trace


def unseen(text: str) -> list[str]:
    return [letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cn", "Cs", "Zl", "Zp")]


@pytest.mark.parametrize("rid", RAW.values(), ids=RAW)
def test_a_raw_or_long_rid_gives_short_lines_of_letters_that_are_seen(rid: str) -> None:
    trace = day(rid)
    for k in range(len(trace) + 1):
        assert not unseen(caption(trace, k)) and len(caption(trace, k)) < 400
        text = text_view(trace.snapshot(k))
        assert len(text.splitlines()) == 6 and max(map(len, text.splitlines())) < 200
        assert not unseen(text.replace("\n", ""))


@pytest.mark.parametrize("rid", RAW.values(), ids=RAW)
def test_a_picture_with_a_raw_or_long_rid_is_well_formed_and_small(rid: str) -> None:
    svg = grid_svg(day(rid).snapshot(1), title=rid)
    assert ElementTree.fromstring(svg.encode()) is not None and len(svg) < 20_000
    assert all(len(words) < 60 for words in texts(svg))


def test_long_rids_that_end_differently_look_different() -> None:
    pool = new_pool()
    with record(pool) as trace:
        pool.alloc([Req(f"chatcmpl-{'0' * 60}{i}") for i in range(3)])
    snapshot = trace.snapshot(1)
    assert len({owner_name(snapshot, row) for row in (1, 2, 3)}) == 3
    assert len([words for words in texts(grid_svg(snapshot)) if words.startswith("chatcmp")]) == 3


def test_both_owners_of_a_row_are_seen_in_the_picture() -> None:
    pool = new_pool(FreedTwice, size=1)
    with record(pool) as trace:
        pool.alloc([Req("request-one")])
        pool.free_rows(1)
        pool.alloc([Req("request-two")])
    assert "request-one + request-two" in texts(grid_svg(trace.snapshot(3)))


@pytest.mark.parametrize("rid", ["free", "nobody", "by count", "padding", "a + b", " ", '"free"', "(empty name)"])
def test_a_rid_that_looks_like_a_word_of_ours_is_in_quotation_marks(rid: str) -> None:
    with record(pool := new_pool()) as trace:
        pool.alloc([Req(rid)])
    assert owner_name(trace.snapshot(1), 1) == f'"{rid}"' and f'request "{rid}" gets' in caption(trace, 1)


def test_an_empty_rid_has_a_name() -> None:
    with record(pool := new_pool()) as trace:
        pool.alloc([Req("")])
    assert owner_name(trace.snapshot(1), 1) == "(empty name)" and "(empty name)" in texts(grid_svg(trace.snapshot(1)))
    assert has(caption(trace, 1), "request (empty name) gets row 1")


def test_more_owners_than_colours_go_round() -> None:
    pool = new_pool(size=9)
    with record(pool) as trace:
        pool.alloc([Req(f"r{i}") for i in range(9)])
    shown = texts(grid_svg(trace.snapshot(1)))
    assert all(f"r{i}" in shown for i in range(9))
    assert theme.owner_index([f"r{i}" for i in range(9)], "r6") == 0


# ------------------------------------------------------------------------------------------------ pure


def test_a_view_prints_nothing_and_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    snapshot = a_snapshot()
    before = snapshot.table.clone(), dict(snapshot.owners)
    for view in (text_view, grid_svg):
        assert view(snapshot) == view(snapshot)
    told(lambda pool, trace, a: (pool.free(a), pool.clear()))
    assert torch.equal(snapshot.table, before[0]) and snapshot.owners == before[1]
    assert capfd.readouterr() == ("", "")
