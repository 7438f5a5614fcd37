"""Exercises C of chapters 04 and 05: every setting is played, what is no setting is named; and what a world tells."""

from itertools import product
from typing import Any

import pytest
import torch

from reqpool.exercises import chapter_04, chapter_05
from reqpool.exercises.catalogue import find
from reqpool.exercises.exercise import Verdict, examine
from reqpool.exercises.search import Wrong
from reqpool.scenarios.experiments import LANDINGS, late


def answering(name: str, settings: Any) -> Verdict:
    return examine(find(name), lambda: settings)


def test_the_only_landings_accepted_are_those_at_which_the_reset_leaves_c_alone_wrong() -> None:
    for at, late_len in product(range(len(LANDINGS)), (1, 7, 8, 9, 12)):
        verdict = answering("past_the_reset", {"landing": LANDINGS[at], "late_len": late_len})
        who = list(late(at, late_len, reset=True, recorded=False).wrong)
        assert verdict.state == ("right" if who == ["c"] else "wrong"), (LANDINGS[at], late_len)
        if late_len == 8:  # by its number in the lab, too
            assert answering("past_the_reset", {"landing": at + 1, "late_len": late_len}).sentence == verdict.sentence


def test_a_landing_that_the_reset_saves_is_shown_up_to_the_event_that_zeroes_it() -> None:
    for landing, kind in (("before the free", "free"), ("after the free", "reset"), ("after c's step", "reset")):
        case = answering("past_the_reset", {"landing": landing, "late_len": 5}).case
        assert case is not None and case.yours is not None
        assert case.yours[-1].kind == kind
        assert case.yours.snapshot(len(case.yours) - 1).verified[1] >= 5
        assert case.yours.snapshot(len(case.yours)).verified[1] == 0


def test_the_only_settings_accepted_raise_a_length_as_often_as_it_is_named_and_have_a_dummy_entry() -> None:
    for live, graph_size, writes, accumulate in product((1, 4), (4, 8), ("slot", "cell", "length"), (False, True)):
        settings = {"live": live, "graph_size": graph_size, "writes": writes, "accumulate": accumulate}
        right = writes == "length" and accumulate and live < graph_size
        assert answering("third_letter_first", settings).state == ("right" if right else "wrong"), settings


def test_a_dummy_with_another_number_than_the_given_one_is_told_the_given_one() -> None:
    def zeros(buffer: Any, values: Any, dummy: int) -> None:
        buffer.zero_()
        buffer[: len(values)] = values

    assert (
        "entry 1 is a dummy: the number for it is `dummy`, 1 here; it says 0."
        in examine(chapter_04.FILL, zeros).sentence
    )


def test_the_pictures_of_a_setting_are_named_after_where_its_dummies_point() -> None:
    case = answering("third_letter_first", {}).case
    assert case is not None and case.labels == ("without a padding row", "the same, dummies at the last row")


ODD = {
    "no dict": ("third_letter_first", ["length", True], "wanted a dict"),
    "no setting": ("third_letter_first", {"padding": 0}, "`'padding'` is no setting"),
    "no such value": ("third_letter_first", {"live": 5}, "`live` is `5`: wanted one of 1, 2, 3, 4"),
    "counts as true": ("third_letter_first", {"accumulate": 1}, "`accumulate` is `1`: wanted one of True, False"),
    "too many for the graph": ("third_letter_first", {"graph_size": 1}, "2 live requests do not fit in a graph of 1 "),
    "nothing": ("past_the_reset", None, "wanted a dict"),
    "a moment that is none": ("past_the_reset", {"landing": "never", "late_len": 8}, "`landing` is `'never'`"),
    "half of it": ("past_the_reset", {"landing": LANDINGS[3]}, "`late_len` is not in the settings"),
}


@pytest.mark.parametrize(("name", "settings", "told"), ODD.values(), ids=ODD)
def test_what_cannot_be_played_is_named(name: str, settings: Any, told: str) -> None:
    verdict = answering(name, settings)
    assert verdict.state == "wrong" and told in verdict.sentence


def test_a_wrong_letter_is_marked_below_the_table_and_in_its_cell() -> None:
    def all_but_the_tail(buffer: Any, values: Any, dummy: int) -> None:
        buffer[: len(values)] = values

    case = examine(chapter_04.FILL, all_but_the_tail).case
    assert case is not None and case.yours is not None and case.right is not None
    said = "the buffers say: rows [1, 0, 0], positions [3, 1, 1], out_slots [8, 0, 0]"
    assert case.right[-1].text == said
    told = [facts for event in case.yours if "texts" in (facts := dict(event.facts))]
    (_, _, wrong), *_ = told[-1]["texts"]
    assert "the buffer `out_slots` says `[8, 8, 9]`, wanted `[8, 0, 0]`" in case.sentence
    assert "Slot 8 is a's by now, so the dummy's K and V lie over a's." in case.sentence
    assert not any(event.kind == "read" for trace in (case.yours, case.right) for event in trace)
    assert wrong and (1, wrong[0]) in dict(case.yours[-1].facts)["wrong"]
    assert not any(wrong for event in case.right for _, _, wrong in dict(event.facts).get("texts", ()))


@pytest.mark.parametrize("times", [1, 2, 5, 256])
def test_a_late_step_that_lands_hurts_who_has_the_row_however_often_it_was_handed_out(times: int) -> None:
    verdict = examine(chapter_05.MAY_LAND, lambda launched, now: now - launched in (0, times))
    assert "Request b recites `kl··`, but it wrote `kl`" in verdict.sentence
    assert verdict.case is not None and verdict.case.yours is not None
    assert [event.kind for event in verdict.case.yours] == ["late_write", "note", "note"]


def test_a_view_that_is_made_into_something_else_leaves_the_tensor_as_it_was() -> None:
    tensor = torch.arange(4)
    for spoil in (
        lambda view: view.resize_(1),
        lambda view: view.resize_(9),
        lambda view: view.set_(torch.zeros(4, dtype=torch.int64)),
        lambda view: setattr(view, "data", view.float()),
        lambda view: setattr(view, "data", view.flip(0)),
    ):
        with pytest.raises(Wrong, match=r"^it (has|holds|lies)"), chapter_04.in_place({"it": tensor}) as (view,):
            spoil(view)
        assert tensor.tolist() == [0, 1, 2, 3] and tensor.dtype == torch.int64
    with chapter_04.in_place({"it": tensor}) as (view,):
        view[1:] = 7
    assert tensor.tolist() == [0, 7, 7, 7]


def test_no_two_requests_write_the_same_letter_at_the_same_position() -> None:
    texts = [chapter_05.text_of(chapter_05.Running(rid)) for rid in chapter_05.RIDS]
    assert all(len(set(letters)) == len(texts) for letters in zip(*texts, strict=True)) and texts[0] == "xyzuvw"


def test_the_right_picture_says_what_the_learner_was_to_write() -> None:
    case = examine(chapter_05.RESET, lambda rows, kept, verified, alloced: None).case
    assert case is not None and case.right is not None
    assert case.right[-1].text == "after alloc, verified is [0, 0] and alloced is [0, 0]"
    assert (
        "After the end of request a, then the late step of request a, then a step of a new request: " in case.sentence
    )
    case = examine(chapter_05.MAY_LAND, lambda launched, now: True).case
    assert case is not None and case.right is not None and case.right[-1].text == "may_land(1, 2) gives False"


def test_a_reset_that_forgets_shows_the_late_write_before_it() -> None:
    case = examine(chapter_05.RESET, lambda rows, kept, verified, alloced: None).case
    assert case is not None and case.yours is not None
    assert [event.kind for event in case.yours][:4] == ["free", "retract", "late_write", "alloc"]
    assert case.num_operations == 3
