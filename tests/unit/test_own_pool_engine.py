"""The engine on somebody's pool: whoever keeps the laws recites, and a safeguard that is missing is heard."""

from __future__ import annotations

import pytest

from reqpool.exercises.bank.own_pool import UNUSUAL_POOLS, UnusualPool
from reqpool.exercises.own_pool import right_class, serve, written
from reqpool.exercises.own_pool_engine import served
from reqpool.exercises.own_pool_steps import TEXTS
from reqpool.faulty import NoPaddingRow, NoResetOnReuse
from reqpool.pool import ReqToTokenPool
from reqpool.views import caption

KINDS = {"alloc", "keep", "reset", "retract", "free", "append", "pad_write"}


def test_a_right_pool_recites_what_the_prompts_say() -> None:
    service = served(right_class(8))
    assert {req.rid: req.output for req in service.reqs} == {
        "b": "xyz" * 3,
        "c": "klmklmklmklmkl",
        "d": "pqrstu",
    }
    assert serve(right_class(8)).state == "right"


def test_the_run_has_all_that_the_chapter_speaks_of() -> None:
    trace = served(right_class(8)).trace
    assert {event.kind for event in trace} >= KINDS
    captions = [caption(trace, step) for step in range(len(trace) + 1)]
    assert any("verified length 0 → 4. But row 2 is free: this came late" in said for said in captions)
    assert any("is retracted" in said for said in captions)
    assert served(right_class(8)).num_retracted >= 1


@pytest.mark.parametrize("pool", UNUSUAL_POOLS, ids=lambda pool: pool.name)
def test_a_right_pool_that_looks_unlike_ours_recites_too(pool: UnusualPool) -> None:
    assert serve(pool.made()).state == "right"


def test_ours_recites() -> None:
    assert serve(ReqToTokenPool).state == "right"


def test_without_the_reset_somebody_recites_wrongly_and_a_right_run_stands_beside() -> None:
    verdict = serve(right_class(6))
    assert verdict.state == "wrong"
    assert "request b recites `xyz" in verdict.sentence.lower()
    assert verdict.case.yours is not None and verdict.case.right is not None


def test_the_steps_that_the_prediction_names_are_these() -> None:
    service = served(NoResetOnReuse)
    assert sorted(service.wrong) == ["b", "d"]
    trace = service.trace
    late, given = trace[13], trace[19]
    assert late.change.lengths == (("verified", 2, 0, 4),) and trace.snapshot(13).free == (2,)
    assert (given.kind, given.rid, given.rows) == ("alloc", "b", (2,)) and trace.snapshot(20).verified[2] == 4
    wrong = [step for step in range(1, len(trace) + 1) if "wrong)" in trace[step - 1].text]
    assert wrong[0] == 50
    assert "reset" not in {event.kind for event in trace.events[:50]}


def test_without_the_padding_row_somebody_recites_wrongly() -> None:
    assert "wanted" in serve(NoPaddingRow).sentence


def test_without_keeping_rows_the_engine_stops_and_says_where() -> None:
    assert serve(right_class(5)).sentence.startswith("In engine step 2 the engine stopped: ")


def test_an_exception_of_the_learners_is_told_with_its_line() -> None:
    cell = TEXTS[-1].cell.replace("    del self.holders[row]", "    del self.holders[-row]")
    verdict = serve(written([cell]))
    assert "your code raised `KeyError: -" in verdict.sentence
    assert "of `free`: `del self.holders[-row]`" in verdict.sentence


def finished(name: str, body: str) -> type:
    """The right class, with one method written anew."""
    return written([TEXTS[-1].cell, f"@part_of(MyPool)\ndef {name}(self, req):\n{body}"])


def test_a_learners_exit_is_an_exception_like_others() -> None:
    verdict = serve(finished("free", "    raise SystemExit(3)\n"))
    assert "your code raised `SystemExit: 3`. In line 3 of `free`" in verdict.sentence


def test_a_free_that_does_nothing_is_said_where_it_happens() -> None:
    verdict = serve(finished("free", "    pass\n"))
    assert verdict.sentence == "In engine step 3 the engine stopped: free(a) left a.req_pool_idx at 2, wanted None."


def test_a_row_that_is_no_number_is_said_where_it_is_given() -> None:
    cell = TEXTS[-1].cell.replace(
        "    return [req.", "    for req in reqs:\n        req.req_pool_idx = 'x'\n    return [req."
    )
    verdict = serve(written([cell]))
    assert (
        verdict.sentence
        == "In engine step 1 the engine stopped: alloc left c.req_pool_idx at 'x', wanted the number of its row."
    )


def test_a_tensor_that_changes_its_kind_is_said_where_it_happens() -> None:
    cell = TEXTS[-1].cell.replace("    self.alloced_lens[row] = 0\n    req.", "    self.alloced_lens = 0.0\n    req.")
    verdict = serve(written([cell]))
    assert "In engine step 3 the engine stopped: alloced_lens of the pool after free is a float" in verdict.sentence


def test_an_exception_that_cannot_be_printed_is_named() -> None:
    body = "    class Odd(Exception):\n        def __str__(self):\n            raise ValueError\n    raise Odd\n"
    verdict = serve(finished("free", body))
    assert "your code raised `Odd`. In line 6 of `free`: `raise Odd`" in verdict.sentence


def test_a_loop_that_does_not_end_is_said_in_a_whole_sentence() -> None:
    verdict = serve(finished("alloc", "    while True:\n        pass\n"))
    assert verdict.sentence.startswith("In engine step 1 it was stopped after")
    assert verdict.case.yours is not None


def test_rows_that_are_lost_are_named() -> None:
    cell = TEXTS[-1].cell.replace("    self.free_slots.append(row)\n", "")
    said = serve(written([cell])).sentence
    assert "nothing can run: the rows 1 and 2 are held by nobody and not in `free_slots`." in said


def test_a_return_that_is_missing_is_asked_for() -> None:
    cell = TEXTS[-1].cell.replace("    return [req.req_pool_idx for req in reqs]\n", "")
    assert "is there a `return`?" in serve(written([cell])).sentence


def test_a_wrong_letter_is_shown_at_the_engine_step_in_which_it_comes_first() -> None:
    for cls, asks in ((NoResetOnReuse, "what was in that row before?"), (NoPaddingRow, "who wrote to row 0?")):
        verdict = serve(cls)
        yours, right = verdict.case.yours, verdict.case.right
        assert verdict.sentence.endswith(asks)
        assert [k for k, event in enumerate(yours, start=1) if "wrong)" in event.text] == [len(yours)]
        assert right[len(right) - 1].text == f"engine step {yours[len(yours) - 1].step} is done"


def test_no_picture_of_the_engine_speaks_of_a_host_mirror() -> None:
    trace = served(right_class(6)).trace
    assert not [step for step in range(len(trace) + 1) if "mirror" in caption(trace, step)]


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_pool_that_is_not_written_yet_is_not_attempted(steps: int) -> None:
    cls = written([text.cell for text in TEXTS[:steps]])
    assert serve(cls).state == "not attempted"


def test_a_stub_is_not_attempted() -> None:
    stub = "@part_of(MyPool)\ndef alloc(self, reqs):\n    raise NotImplementedError\n"
    verdict = serve(written([TEXTS[-1].cell, stub]))
    assert (verdict.state, verdict.sentence) == ("not attempted", "`alloc` is still the stub.")


def test_a_pool_that_cannot_be_made_is_answered_in_a_sentence() -> None:
    cell = TEXTS[-1].cell.replace("dtype=torch.int32", "dtype=torch.int64")
    assert "torch.int64" in serve(written([cell])).sentence


def test_an_instance_is_refused() -> None:
    with pytest.raises(TypeError, match="serve wants the class itself"):
        serve(ReqToTokenPool(2, 4, "cpu"))
