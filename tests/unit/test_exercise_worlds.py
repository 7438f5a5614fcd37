"""Exercises of chapters 00, 01 and 03: what their worlds expect, whom they catch without Hypothesis, what they show."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from reqpool import Req, ReqToTokenPool
from reqpool.examine import to_the_end
from reqpool.exercises import chapter_00, chapter_01, chapter_02, chapter_03, chapter_04, chapter_05, exercise
from reqpool.exercises.bank import written
from reqpool.exercises.catalogue import find
from reqpool.exercises.exercise import Verdict, examine
from reqpool.exercises.search import World
from reqpool.scenarios.experiments import chunks
from reqpool.serving import Engine, Request
from reqpool.trace import Trace


def verdict_on(name: str, *lines: str) -> Verdict:
    return examine(find(name), written(source_of(name, *lines), name))


def source_of(name: str, *lines: str) -> str:
    """A cell with these lines in place of the solution's."""
    first = next(line for line in find(name).solution.splitlines() if line.startswith("def "))
    known = "from reqpool import Req\nfrom reqpool.exercises import chapter_01, chapter_03\n\n"
    return known + "\n    ".join((first, *lines)) + "\n"


# ---- expectations against the real thing -----------------------------------------------------------------------------


def launched(prompt_len: int, chunk_size: int, budget: int, num_running: int) -> list[int]:
    """The pieces that a real engine computes while so many requests run."""
    pool = ReqToTokenPool(num_running + 1, 64, "cpu")
    engine = Engine(pool, num_slots=512, chunk_size=chunk_size, budget=budget)
    for n in range(num_running):
        engine.add(Request(f"running {n}", prompt="x", max_new_tokens=40))
        engine.step()
    prompt = "".join("abcdefghijklmnopqrstuvwxyz"[i % 26] for i in range(prompt_len))
    long = engine.add(Request("long", prompt=prompt, max_new_tokens=1))
    found: list[int] = []
    while not long.output:
        batch = engine.scheduler.next_batch()
        found += [entry.num_tokens for entry in batch if entry.req is long]
        engine.scheduler.process(batch, engine.forward(batch))
    return found


@pytest.mark.parametrize("case", chapter_03.CASES)
def test_the_pieces_are_those_that_a_real_engine_launches(case: tuple[int, int, int, int]) -> None:
    world = chapter_03.Piecewise(lambda *_: launched(*case), case)
    while world.moves():
        world.play("step")
    assert chapter_03.pieces_apart(*case) == launched(*case)


@pytest.mark.parametrize("counter", range(4))
@pytest.mark.parametrize("committed", (0, 1, 4096))
def test_a_row_is_kept_exactly_where_the_real_pool_keeps_it(counter: int, committed: int) -> None:
    pool, req = ReqToTokenPool(1, 4, "cpu"), Req("a")
    pool.alloc([req])
    req.inflight_middle_chunks, req.kv_committed_len = counter, committed
    if chapter_03.solved_keeps(counter, committed):
        assert pool.alloc([req]) == [1]
    else:
        with pytest.raises(ValueError, match="nothing to continue"):
            pool.alloc([req])


# ---- answers for the small cases only --------------------------------------------------------------------------------

RIGHT_WHERE_SMALL = {
    "slot_of": ("return table[row][min(position, 2)]",),
    "keys_of": ("return [keys[cell] for cell in cells[: min(length, 3)]]",),
    "bytes_of_table": ("return (size + 1) * max_context_len * 4 if size < 6 else 0",),
    "state": ("return chapter_01.solved_state(slot, min(position, 3), verified_len, alloced_len)",),
    "keeps_row": ("return counter in (1, 2) or committed > 0",),
    "must_refuse": ("return n > min(len(free_rows), 38)",),
    "give_back": ("return free_rows + rows[:9] if reuse == 'fifo' else rows[::-1] + free_rows",),
    "may_land": ("return launched == now or now > 600",),
    "pieces": ("return chapter_03.pieces_apart(min(prompt_len, 8), chunk_size, budget, num_running)",),
}


@pytest.mark.parametrize(("name", "lines"), RIGHT_WHERE_SMALL.items(), ids=RIGHT_WHERE_SMALL)
def test_an_answer_for_small_cases_only_is_caught_without_hypothesis(
    name: str, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise, "deeper", lambda *_: None)
    assert verdict_on(name, *lines).state == "wrong"


# ---- worlds ----------------------------------------------------------------------------------------------------------

CROWDED = {
    "rows that come back": lambda: chapter_02.RowsComeBack(chapter_02.solved, (40, "lifo")),
    "readers": lambda: chapter_00.WholeRow(chapter_00.solved_keys_of, (4, 7)),
    "steps": lambda: chapter_04.Steps(chapter_04.filled_right, (8, 5, 2, 0)),
    "takeovers": lambda: chapter_05.Takeovers(
        chapter_05.right_reset, chapter_05.right_may_land, chapter_05.Start(8, 4, 7)
    ),
}


@pytest.mark.parametrize("build", CROWDED.values(), ids=CROWDED)
def test_the_search_by_numbers_below_64_can_choose_every_move(build: Callable[[], World]) -> None:
    for seed in range(8):
        world, choose = build(), Random(seed)
        for _ in range(25):
            moves = world.moves()
            assert len(moves) <= 64
            if moves:
                world.play(choose.choice(moves))


# ---- pictures --------------------------------------------------------------------------------------------------------


def marked(trace: Trace) -> set[tuple[int, int]]:
    return {tuple(cell) for event in trace for cell in dict(event.facts).get("wrong", ())}


def texts(trace: Trace) -> dict[str, Any]:
    lines = next(facts["texts"] for event in reversed(trace.events) if "texts" in (facts := dict(event.facts)))
    return {label: (text, tuple(wrong)) for label, text, wrong in lines}


def test_what_is_read_past_the_length_stands_marked_below_the_table_and_not_on_the_right() -> None:
    case = verdict_on("keys_of", "return [keys[cell] for cell in cells]").case
    assert texts(case.yours) == {"a": ("h·", (1,))} and texts(case.right) == {"a": ("h", ())}
    assert marked(case.yours) == {(1, 1)} and marked(case.right) == set()


def test_bytes_that_leave_out_the_padding_row_leave_row_0_unpaid() -> None:
    case = verdict_on("bytes_of_table", "return size * max_context_len * 4").case
    assert marked(case.yours) == {(0, 0), (0, 1), (0, 2)} and marked(case.right) == set()


RAISES = "raise KeyError('mine')"


@pytest.mark.parametrize("name", ["give_back", "keeps_row", "padded", "fill", "may_land", "reset_on_reuse"])
def test_what_raises_in_the_pool_is_not_told_as_a_refusal_of_the_pool(name: str) -> None:
    case = verdict_on(name, RAISES).case
    assert "KeyError: 'mine'" in case.sentence and "KeyError: 'mine'" in case.yours[-1].text
    assert all(event.kind != "refuse" for event in case.yours)


def test_an_exception_in_what_breaks_a_pool_is_shown_after_what_was_done_before_it() -> None:
    case = verdict_on("two_in_one_row", "row = pool.alloc_rows(1)", RAISES).case
    assert [event.kind for event in case.yours] == ["alloc", "note"] and case.num_operations == 1
    assert "In line 3 of two_in_one_row" in case.yours[-1].text


def test_a_request_that_is_turned_away_lacks_the_cells_that_it_has_on_the_right() -> None:
    case = verdict_on("keeps_row", "return counter > 0").case
    ends = [trace.snapshot(len(trace)).alloced[1] for trace in (case.yours, case.right)]
    assert ends == [2, 4] and marked(case.yours) == {(1, 2), (1, 3)}


def test_a_negative_piece_is_no_step() -> None:
    case = verdict_on("pieces", "return [1, -1, 1]").case
    assert "no piece has fewer than 0 tokens" in case.sentence
    assert not any("-1 of the prompt" in event.text for event in case.yours)


@pytest.mark.parametrize("answer", [(12, 4, 2), (12, 4, 8), (2, 4, 20)])
def test_the_picture_of_a_budget_ends_where_it_is_decided_whom_it_hurts(answer: tuple[int, int, int]) -> None:
    case = verdict_on("hurt_by_the_budget", f"return {answer}").case
    who = "short" if answer == (12, 4, 2) else "other"
    wrong_at = [
        event.step for event in case.yours for rid, _, wrong in dict(event.facts).get("texts", ()) if rid == who
    ]
    assert case.num_operations == case.yours[-1].step == case.right[-1].step
    if who == "short":
        assert texts(case.yours)["short"][1] == (len(texts(case.yours)["short"][0]) - 1,)  # its last letter alone
        assert texts(case.right)["short"][1] == () and marked(case.yours)
    else:
        assert min(wrong_at) == case.num_operations and texts(case.yours)["other"] == ("k", ())


@pytest.mark.parametrize("answer", [(12, 4, 6), (3, 3, 3), (20, 8, 3), (9, 3, 5)])
def test_what_the_praise_says_of_the_budget_is_so(answer: tuple[int, int, int]) -> None:
    assert verdict_on("hurt_by_the_budget", f"return {answer}").state == "right"
    cells = [event for event in chunks(*answer, freed_between=True).trace if event.kind == "append"]
    first = next(event for event in cells if event.rid == "other")
    last_of_the_prompt = [event for event in cells if event.rid == "long" and event.step == first.step]
    assert len(first.change.cells) in (1, 2) and last_of_the_prompt


def test_a_piece_too_long_is_marked_from_where_it_should_have_ended() -> None:
    case = verdict_on("pieces", "return [prompt_len]").case
    assert "`pieces(2, 1, 3, 0)` gives `[2]`" in case.sentence
    assert marked(case.yours) == {(1, 1)}


def test_the_last_step_of_a_case_is_the_sentence_on_the_left_and_its_counterpart_on_the_right() -> None:
    wanted = "pieces(1, 1, 3, 0) gives [1]: after step 1, the prompt is done"
    for lines in (("while True:", "    pass"), ("return [0]",), ("return None",)):
        case = verdict_on("pieces", *lines).case
        assert case.sentence.replace("`", "").endswith(case.yours[-1].text)
        assert case.right[-1].text == wanted


def test_a_batch_that_fits_gets_its_row_on_the_right_only_and_begins_with_the_free_rows_of_the_call() -> None:
    case = verdict_on("must_refuse", "return n >= len(free_rows)").case
    assert case.sentence.endswith(
        "`must_refuse([1], 1)` gives `True`, wanted `False`: one row is free and one is wanted: that fits."
    )
    assert [event.kind for event in case.yours] == ["refuse", "note"]
    assert [event.kind for event in case.right] == ["alloc", "note"]
    for trace, free in ((case.yours, (1,)), (case.right, ())):
        assert (trace.snapshot(0).free, trace.snapshot(1).free) == ((1,), free)


def test_a_batch_that_does_not_fit_takes_what_there_is_on_the_left_only() -> None:
    case = verdict_on("must_refuse", "return n > len(free_rows) + 1").case
    assert "row 1 is taken all the same, and is nobody's now" in case.sentence
    ends = [trace.snapshot(len(trace)) for trace in (case.yours, case.right)]
    assert [end.free for end in ends] == [(), (1,)] and not ends[0].owners.get(1)


def test_a_sentence_begins_with_the_operations_by_name() -> None:
    lines = ("return free_rows + rows if reuse == 'fifo' else rows + free_rows",)
    case = verdict_on("give_back", *lines).case
    assert case.sentence.startswith("After `take 2 rows`, then `free [1, 2]`: `give_back([], [1, 2], 'lifo')` gives ")
    assert case.right[-1].text == "give_back([], [1, 2], 'lifo') gives [2, 1]"


def test_a_refusal_stands_beside_the_call_that_is_not_refused_on_the_other_side() -> None:
    case = verdict_on(
        "two_in_one_row", "row = pool.alloc_rows(1)", *["pool.free_rows(row)"] * 2, "pool.alloc_rows(1)"
    ).case
    yours, right = to_the_end(case.yours, case.right)
    assert [event.kind for event in yours] == ["alloc", "free", "free", "alloc", "note"]
    assert [event.kind for event in right] == ["alloc", "free", "refuse", "note", "note"]
    case = verdict_on("keeps_row", "return counter > 0").case
    yours, right = to_the_end(case.yours, case.right)
    (k,) = [k for k, event in enumerate(yours) if event.kind == "refuse"]
    assert right[k].kind == "keep" and yours[k].text.startswith("keeps_row(0, 2) says False")


def test_a_request_that_is_given_back_twice_is_told_what_the_faulty_pool_still_remembers() -> None:
    lines = ("req = Req('x')", "pool.alloc([req])", "pool.free(req)", "pool.free(req)")
    assert "take the row by count" in verdict_on("two_in_one_row", *lines).sentence


# ---- inputs that have to break something -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("return 'horse'", "wanted two texts"),
        ("return 'horse', ''", "wanted two texts"),
        ("return 'horseradish', 'dog'", "has 11 letters"),
        ("return 'ab', 'a\\0'", "use letters"),
        ("return 'cow', 'dog'", "reads `dog` rightly"),
        ("return ['horse', 'dog']", "find others"),
    ],
)
def test_two_texts_that_do_not_count_are_told_why(line: str, told: str) -> None:
    assert told in verdict_on("two_texts", line).sentence


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("return 12, 4", "three integers"),
        ("return 12, 4.0, 6", "three integers"),
        ("return 12, True, 6", "three integers"),
        ("return 12, 4, 21", "from 1 to 20"),
        ("return 12, 2, 8", "at least 3"),
        ("return 12, 4, 8", "`(12, 4, 8)` long recites wrongly"),
        ("return 2, 4, 20", "nobody recites wrongly"),
    ],
)
def test_three_numbers_that_do_not_hurt_other_alone_are_told_why(line: str, told: str) -> None:
    assert told in verdict_on("hurt_by_the_budget", line).sentence


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("pass",), "no token yet"),
        (("pool.free(b)",), "hold their rows"),
        (
            ("pool.check = lambda: None", "pool.alloced_lens[2] += 1", "pool.req_to_token[2, 0] = 3"),
            "does find something",
        ),
        (("pool.append(b, [10**6])",), "no slot has two owners yet"),
    ],
)
def test_what_gives_no_slot_two_owners_is_told_why(lines: tuple[str, ...], told: str) -> None:
    assert told in verdict_on("make_them_share", *lines).sentence


def test_the_words_for_a_cell_are_those_of_the_solution() -> None:
    for alloced in range(4):
        for verified in range(alloced + 1):
            for case in [(slot, position, verified, alloced) for slot in (0, 7) for position in range(5)]:
                assert chapter_01.word_for(*case) == chapter_01.solved_state(*case)
