"""What the chapters ask: each outcome is computed here a second time, and each claim of a text is looked up."""

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from reqpool import Req, ReqToTokenPool, notebook, scenarios
from reqpool.questions import Prediction, Question, QuizQuestion
from reqpool.questions.bank import CHAPTERS, PREDICTIONS, QUIZZES
from reqpool.scenarios.experiments import late, padding
from reqpool.serving import GraphRunner, Recite

SOURCES = sorted((Path(__file__).resolve().parents[2] / "notebooks" / "source").glob("*.py"))
QUIZ_QUESTIONS = [(chapter, one) for chapter, quiz in QUIZZES.items() for one in quiz]


# ---- the notebooks' own outcomes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked() -> Iterator[dict[str, tuple[str, dict[str, Any], Question]]]:
    """By name: the chapter that asks, what it hands over, and the question. Every source is run as a script."""
    found: dict[str, tuple[str, dict[str, Any], Question]] = {}
    real = notebook.predict
    with pytest.MonkeyPatch.context() as patch:
        for path in SOURCES:

            def predict(name: str, chapter: str = path.stem[:2], **given: Any) -> Question:
                assert name not in found, f"{name} is asked twice"
                found[name] = chapter, given, real(name, **given)
                return found[name][2]

            patch.setattr(notebook, "predict", predict)
            space: dict[str, object] = {"__name__": "chapter"}
            for cell in re.split(r"^# %%", path.read_text(), flags=re.MULTILINE)[1:]:
                head, _, code = cell.partition("\n")
                if "[markdown]" not in head and "setup" not in head:
                    exec(compile(code, path.name, "exec"), space)
        yield found


def x_and_y(reuse: str) -> str:
    """Four rows; 1, 2, 3 are taken, 2 and 1 come back, two are taken: on a plain deque."""
    free = deque([1, 2, 3, 4])
    for _ in range(3):
        free.popleft()
    for row in (2, 1):
        free.append(row) if reuse == "fifo" else free.appendleft(row)
    return str([free.popleft(), free.popleft()])


EXPECTED = {  # each found in another way than the notebook's
    "cell_of_the_next_token": (1, len([5, 2, 7])),
    "context_doubled": {1: "as much", 2: "twice as much", 4: "four times"}[2049 * 2 * 131_072 // (2049 * 131_072)],
    "cells_of_a_reused_row": f"in {len(set(range(5)) | set(range(2)))}",
    "rows_fifo": x_and_y("fifo"),
    "rows_lifo": x_and_y("lifo"),
    "counter_at_the_last_chunk": str(sum(launched - done for launched, done in [(1, 1), (1, 1), (0, 0)])),
    "counter_only": "the third `alloc` raises",  # below: the first chunk with a row for which the counter is 0
    "load_that_hurts_nobody": str(next(live for live in range(1, 5) if 4 - live == 0)),
    "cell_of_the_dummies": (0, 2 - 1),
    "where_b_writes": (1, 4 + 8),
    "who_recites_wrongly": "b, the new owner of the row",  # below: its letters
    "reset_or_check": "generation check alone",  # below: two runs
    "engine_without_reset": "b, and d, who never had the row",  # below: its letters
}


@pytest.mark.slow
def test_every_outcome_is_what_a_second_computation_says(asked: dict) -> None:
    assert {name: question.outcome for name, (_, _, question) in asked.items()} == EXPECTED


@pytest.mark.slow
def test_every_text_is_asked_once_in_its_own_chapter(asked: dict) -> None:
    there = {(name, chapter) for chapter, module in CHAPTERS.items() for name in module.PREDICTIONS}
    assert {(name, chapter) for name, (chapter, _, _) in asked.items()} == there
    assert len(PREDICTIONS) == len(there), "no name is given twice"


@pytest.mark.slow
def test_a_cell_that_is_asked_for_is_the_one_that_changes_or_is_written_next(asked: dict) -> None:
    for name in ("cell_of_the_next_token", "cell_of_the_dummies"):
        _, given, question = asked[name]
        assert given["reveal"].changed(given["step"] + 1) == (question.outcome,)
    _, given, question = asked["where_b_writes"]
    now, then = (given["reveal"].snapshot(given["step"] + more) for more in (0, 1))
    assert (now.verified[1], then.verified[1], then.alloced[1]) == (12, 13, 5)
    assert (int(now.table[1, 12]), int(now.table[1, 4])) == (given["slot"], given["given"])
    text = given["reveal"][given["step"]].text
    assert f"go to slot {given['slot']}, which c holds" in text


# ---- what the texts say --------------------------------------------------------------------------------------------


def test_rows_come_back_as_the_texts_say() -> None:
    for reuse, left in (("fifo", [4, 2, 1]), ("lifo", [1, 2, 4])):
        pool, reqs = ReqToTokenPool(4, 6, "cpu", reuse=reuse), [Req(rid) for rid in "abc"]
        pool.alloc(reqs)
        pool.free(reqs[1])
        pool.free(reqs[0])
        assert list(pool.free_slots) == left
        assert ", ".join(map(str, left)) in PREDICTIONS[f"rows_{reuse}"].why
        assert ", ".join(map(str, left)) in PREDICTIONS[f"rows_{reuse}"].seen


def test_a_reused_row_has_two_live_cells_and_three_stale_ones() -> None:
    trace = scenarios.one_row([11, 12, 13, 6, 7], 2)
    last = trace.snapshot(len(trace))
    assert last.alloced[1] == 2 and last.table[1].tolist() == [11, 12, 13, 6, 7]


def test_the_counter_is_0_at_the_third_chunk_in_step_13_and_the_row_is_kept_in_step_14() -> None:
    trace = scenarios.chunked_prefill(prompt_len=10, chunk_size=4)
    assert "inflight_middle_chunks is 0, kv_committed_len is 8" in trace[12].text
    assert (trace[13].kind, trace[13].rows, trace.changed(15)) == ("keep", (1,), ((1, 8), (1, 9)))


def test_the_counter_alone_refuses_the_third_chunk() -> None:
    from reqpool.faulty import CounterOnly

    trace = scenarios.chunked_prefill(prompt_len=10, chunk_size=4, pool_class=CounterOnly)
    kinds = [event.kind for event in trace if event.rid == "a" and event.kind in ("alloc", "keep", "append")]
    assert kinds == ["alloc", "append", "keep", "append"], "two chunks pass"
    assert trace[len(trace) - 1].kind == "refuse"
    assert "kv_committed_len is 8" in trace[len(trace) - 2].text
    assert trace.snapshot(len(trace)).verified[1] == 8


def test_a_full_batch_has_no_dummy_entries_and_two_of_four_spoil_a_s_second_cell() -> None:
    off = "off: row 0 is a request's"
    full, half = padding(off, live=4), padding(off, live=2)
    assert not [event for event in full.trace if event.kind.startswith("pad")]
    assert full.trace.snapshot(2).owners[0] == ("a",) and full.recited["a"] == "xyzxyzxyz"
    k = next(k for k in range(1, len(half.trace) + 1) if half.trace[k - 1].kind == "pad_write")
    before, after = half.trace.snapshot(k - 1), half.trace.snapshot(k)
    assert (int(before.table[0, 1]), int(after.table[0, 1])) == (2, 0)
    assert (before.verified, before.alloced) == (after.verified, after.alloced), "no length moved"
    assert not [event for event in half.trace.events[:k] if "wrong" in event.text]


def letters(run: Any, rid: str, prompt: str) -> list[int]:
    """The indices of the wrong letters: a request repeats its prompt."""
    said = run.recited[rid]
    return [i for i, letter in enumerate(said) if letter != prompt[i % len(prompt)]]


def test_after_the_later_landing_b_alone_recites_wrongly_from_step_24_on() -> None:
    run = late(landing=4, reset=False)
    assert letters(run, "b", "xyzw")[0] == 1 and letters(run, "c", "klmnopqrstuv") == []
    first = next(k for k, event in enumerate(run.trace, start=1) if "wrong" in event.text)
    assert first == 24 and "b recites t (b: wrong)" in run.trace[first - 1].text
    slots = run.trace.snapshot(len(run.trace) - 1).table[3].tolist()
    assert slots.index(25) == 12 == len(run.recited["c"])


def test_after_b_s_alloc_the_check_saves_and_the_reset_does_not() -> None:
    assert late(landing=3, reset=False, generation=True).wrong == {}
    run = late(landing=3, reset=True)
    at = {kind: k for k, event in enumerate(run.trace, start=1) for kind in [event.kind] if event.rid in ("a", "b")}
    assert run.trace[12].kind == "alloc" and run.trace[12].rows == (1,) and run.trace[12].rid == "b"
    assert at["late_write"] == 15 and run.trace.snapshot(15).verified[1] == 8
    assert run.trace[15].text.startswith("request b's step starts at position 8")
    assert next(k for k, event in enumerate(run.trace, start=1) if "wrong" in event.text) == 53
    assert list(run.wrong) == ["c"]


def test_without_the_reset_the_engine_of_chapter_11_makes_b_and_d_recite_wrongly() -> None:
    from reqpool.exercises.own_pool_engine import served
    from reqpool.faulty import NoResetOnReuse

    prompts, said = {"b": "xyz", "c": "klm", "d": "pqrstu"}, {}
    for req in served(NoResetOnReuse).reqs:
        prompt = prompts[req.rid]
        said[req.rid] = req.output == (prompt * len(req.output))[: len(req.output)]
    assert said == {"b": False, "c": True, "d": False}


# ---- the quizzes ---------------------------------------------------------------------------------------------------


def right(chapter: str, number: int) -> str:
    return QUIZZES[chapter][number - 1].right


def test_chapter_00_a_sum_of_rows_balances_while_a_slot_has_two_owners() -> None:
    pool, a, b = ReqToTokenPool(2, 8, "cpu"), Req("a"), Req("b")
    pool.alloc([a, b])
    pool.append(a, [1, 2])
    pool.append(b, [3, 2])
    pool.check()
    assert right("00", 3) == "nothing: it balances"


def test_chapter_01_a_table_of_8_requests_and_64_tokens() -> None:
    table = ReqToTokenPool(8, 64, "cpu").req_to_token
    assert right("01", 1) == str(table.numel()) and table.nbytes / 1024 == 2.25


def test_chapter_01_a_cell_beyond_the_length_is_stale() -> None:
    assert right("01", 2) == "stale"
    last = scenarios.one_row([11, 12, 13, 6, 7, 21], 3).snapshot(5)
    assert (last.alloced[1], int(last.table[1, 5])) == (3, 21)


def test_chapter_02_too_few_rows_are_none_and_a_freed_row_keeps_its_cells() -> None:
    pool, a = ReqToTokenPool(2, 4, "cpu"), Req("a")
    assert pool.alloc([Req("x"), Req("y"), Req("z")]) is None and pool.available_size() == 2
    assert right("02", 1) == "it returns `None`, and both rows stay free"
    pool.alloc([a])
    pool.append(a, [7, 8])
    pool.free(a)
    assert pool.req_to_token[1].tolist() == [7, 8, 0, 0] and right("02", 2) == "the slots of the old owner"


def test_chapter_03_chunks_and_the_clock() -> None:
    assert right("03", 1) == f"{-(-1000 // 256)} times, 1 row" and 1000 - 3 * 256 == 232
    ms = {chunk: max(6, (chunk + 8) / 50) for chunk in (256, 64)}
    assert ms == {256: 6, 64: 6} and 8192 // 64 == 4 * (8192 // 256)
    assert right("03", 3).startswith("nobody waits less, and the long prompt waits longer") and 6 * 50 == 300


def test_chapter_03_the_committed_length_keeps_the_row_at_the_last_chunk() -> None:
    pool, a = ReqToTokenPool(1, 8, "cpu"), Req("a")
    pool.alloc([a])
    a.kv_committed_len, a.inflight_middle_chunks = 4, 0
    assert pool.alloc([a]) == [1] and right("03", 2) == "`kv_committed_len > 0`"


def test_chapter_04_where_a_dummy_writes_and_how_often_a_length_rises() -> None:
    pool, model = ReqToTokenPool(2, 4, "cpu"), Recite(num_slots=8, max_context_len=4)
    runner = GraphRunner(pool, model, graph_sizes=(2,))
    rows = torch.tensor(pool.alloc_rows(1))
    pool.append(1, [3])
    runner.run(rows, torch.tensor([0]), model.tokens("x"), wanted=torch.tensor([0]))
    written = [slot for slot in range(9) if model.cache.read(0, torch.tensor([slot]))[1].any()]
    assert written == [0, 3] and not pool.req_to_token[0].any() and right("04", 1) == "to KV slot 0"
    lens = torch.zeros(2)
    lens[torch.tensor([0, 1, 0, 0])] += 1
    assert right("04", 2) == str(int(lens[0]))
    assert lens.zero_().index_add_(0, torch.tensor([0, 1, 0, 0]), torch.ones(4)).tolist() == [3, 1]
    assert right("04", 3) == str(len(ReqToTokenPool(8, 4, "cpu").verified_lens))


def test_chapter_05_what_reset_and_check_leave_open() -> None:
    assert not late(1, reset=True).wrong and late(3, reset=True).wrong
    assert right("05", 1) == "when the write can land after the row was handed out again"
    run = late(1, reset=False, generation=True)
    assert run.wrong and "starts at position 8" in " ".join(event.text for event in run.trace)
    assert right("05", 2) == "the write passes, and the next owner starts at a wrong position"


# ---- every text ----------------------------------------------------------------------------------------------------


def test_a_chapter_ends_with_three_questions() -> None:
    assert {chapter: len(quiz) for chapter, quiz in QUIZZES.items()} == dict.fromkeys(CHAPTERS, 3)


@pytest.mark.parametrize(("chapter", "one"), QUIZ_QUESTIONS, ids=lambda one: one if isinstance(one, str) else None)
def test_every_reason_says_at_once_whether_its_choice_is_right(chapter: str, one: QuizQuestion) -> None:
    assert len(one.choices) == 3
    for choice, why in one.choices.items():
        assert re.match("Yes[:. ,]" if choice == one.right else "No[:, ]", why), choice
        assert len(why.split()) >= 5, why


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_right_answers_of_a_quiz_stand_at_three_different_places(chapter: str) -> None:
    assert len({list(one.choices).index(one.right) for one in QUIZZES[chapter]}) == 3


@pytest.mark.slow
def test_what_comes_true_is_not_always_the_same_choice(asked: dict) -> None:
    places = [
        list(PREDICTIONS[name].choices.values()).index(question.outcome)
        for name, (_, _, question) in asked.items()
        if PREDICTIONS[name].choices
    ]
    assert max(places.count(place) for place in places) <= len(places) / 2


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_notebook_holds_a_reason(path: Path) -> None:
    source, module = path.read_text(), CHAPTERS[path.stem[:2]]
    texts = [why for one in module.QUIZ for why in one.choices.values()]
    texts += [text for one in module.PREDICTIONS.values() for text in (one.why, one.seen)]
    assert [text for text in texts if text[:40] in source] == []


@pytest.mark.parametrize("one", PREDICTIONS.values(), ids=PREDICTIONS)
def test_a_prediction_has_a_reason_and_a_sentence_about_what_is_seen(one: Prediction) -> None:
    assert len(one.why.split()) >= 8 and len(one.seen.split()) >= 8
    assert one.choices is None or len(one.choices) >= 3
