"""Chapter 04: what dummy entries touch, who recites wrongly, and the sentence that says why."""

import re
from collections import Counter
from itertools import product

import ipywidgets as widgets
import pytest
import torch

from reqpool import lab
from reqpool.faulty import NoPaddingRow
from reqpool.lab import OFF, Lab
from reqpool.parts import FramedPlayer
from reqpool.player import Player
from reqpool.scenarios.dummies import drift, first_cell, first_raise
from reqpool.scenarios.experiments import PADDING, WRITES, padding, replayed, stale_tail, verdicts
from reqpool.serving.graph import carried

CELL, ADD = "the cell [row, seq_len - 1] (LightLLM)", "the length, with index_add_"
SLOT, ONCE = "nothing but slot 0 (SGLang)", "the length, with += (FluentLLM)"
WITH_A_ROW = ("row 0", "last row")


def players(experiment: Lab) -> list[Player]:
    return experiment.children[3].players


def texts(experiment: Lab) -> list[str]:
    """What stands below each of the two players, without its markup."""
    return [re.sub(r"<[^>]+>", "", column.children[2].value) for column in experiment.children[3].columns]


# ---- the damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("live, graph_size", [(1, 1), (1, 2), (1, 4), (2, 4), (3, 4), (1, 8), (4, 8)])
def test_a_padding_row_saves_every_kind_of_step_wherever_it_is(live: int, graph_size: int) -> None:
    found = verdicts(live, graph_size)
    assert not any(wrong for (_, where), wrong in found.items() if where in WITH_A_ROW)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_nothing_happens_in_a_full_batch(size: int) -> None:
    assert not any(verdicts(size, size).values())


@pytest.mark.parametrize("live, graph_size", [(1, 2), (1, 4), (2, 4), (3, 4), (1, 8), (4, 8)])
def test_without_one_a_cell_and_an_atomic_add_hurt_request_a_and_nobody_else(live: int, graph_size: int) -> None:
    found = {kind: verdicts(live, graph_size)[kind, OFF] for kind in WRITES}
    assert found[SLOT] == found[ONCE] == {}
    assert found[CELL] == {"a": [1, 4, 7]}
    assert found[ADD].keys() == {"a"}


def test_the_first_wrong_letter_of_the_default_comes_within_12_steps() -> None:
    run = padding(OFF)
    assert run.trace[lab.telling_step(run.trace) - 1].step == 2
    assert "·" in run.recited["a"]


def test_slot_minus_one_guards_the_slots_and_not_the_rows() -> None:
    found = verdicts()
    where = "none, slot -1"
    assert not found[SLOT, where] and not found[ONCE, where]
    assert found[CELL, where] and found[ADD, where]
    assert padding(where, writes="slot").dummies == Counter({(0, 0, -1): 2})


@pytest.mark.parametrize("live", [1, 2, 3])
def test_only_a_step_that_writes_lengths_moves_the_padding_row_s_length(live: int) -> None:
    for where, row in (("row 0", 0), ("last row", 4)):
        ends = {kind: drift(padding(where, live, **told).trace, row)[-1] for kind, told in WRITES.items()}
        assert ends == {SLOT: 0, CELL: 0, ONCE: 8, ADD: 8 * (4 - live)}


@pytest.mark.parametrize("kind, where", list(product(WRITES, PADDING)))
def test_no_change_of_a_run_is_left_unannounced(kind: str, where: str) -> None:
    run = padding(where, 2, 4, **WRITES[kind])
    assert not [event for event in run.trace if event.kind in ("write", "late_write")]


@pytest.mark.parametrize("kind, where", list(product(WRITES, PADDING)))
def test_unrecorded_runs_say_what_recorded_ones_say(kind: str, where: str) -> None:
    recorded, bare = (padding(where, 3, 4, **WRITES[kind], recorded=on) for on in (True, False))
    assert recorded.recited == bare.recited
    assert recorded.dummies == bare.dummies
    with pytest.raises(RuntimeError, match="recorded=False"):
        _ = bare.trace


def test_runs_side_by_side_are_at_the_same_engine_step_until_rows_are_given_back() -> None:
    for kind, where in product(WRITES, PADDING):
        broken, mended = padding(OFF, **WRITES[kind]).trace, padding(where, **WRITES[kind]).trace
        for left, right in zip(broken, mended, strict=False):
            if "free" in (left.kind, right.kind) or "leak" in left.text + right.text:
                break
            assert (left.step, left.kind) == (right.step, right.kind)


# ---- the stale tail, and no engine around it -------------------------------------------------------------------------


def test_a_stale_tail_hurts_the_request_that_has_got_its_slot_and_a_reset_one_nobody() -> None:
    stale, fresh = stale_tail(), stale_tail(refresh_tail=True)
    assert stale.wrong == {"e": [3]} and stale.recited["e"] == "efgp"
    assert fresh.wrong == {}
    assert len(stale.trace) == len(fresh.trace)


def test_a_stale_tail_says_what_the_buffers_hold_and_marks_the_cell_it_hits() -> None:
    stale = stale_tail().trace
    hit = [event for event in stale if dict(event.facts).get("wrong")]
    assert [event.kind for event in hit] == ["pad_read"]
    assert "1 dummy entry reads row 3, positions 0 to 3; its K and V go to slot 21" in hit[0].text
    assert dict(hit[0].facts)["wrong"] == ((3, 3),)
    assert not [event for event in stale_tail(refresh_tail=True).trace if dict(event.facts).get("wrong")]


def test_with_no_engine_around_it_the_runner_recites_the_same() -> None:
    assert replayed() == padding("row 0").recited["a"]
    assert replayed(NoPaddingRow) == padding(OFF).recited["a"]


@pytest.mark.parametrize(
    "num, row, length, slot, said",
    [
        (1, 4, 2, 0, "1 dummy entry reads row 4, positions 0 to 1; its K and V go to slot 0"),
        (3, 0, 0, -1, "3 dummy entries read no cell; their K and V are stored nowhere (slot -1)"),
    ],
)
def test_what_a_dummy_carries_is_one_sentence(num: int, row: int, length: int, slot: int, said: str) -> None:
    assert carried(num, row, length, slot) == said


# ---- the experiment --------------------------------------------------------------------------------------------------


def test_every_combination_of_controls_works_and_says_what_was_recited() -> None:
    experiment = lab.dummy_entries()
    controls = experiment.controls
    for live, graph_size in ((1, 2), (2, 4), (4, 8)):
        controls["live"].value, controls["graph_size"].value = live, graph_size
        for where, kind in product([option for option in PADDING if option != OFF], WRITES):
            controls["where"].value, controls["writes"].value = where, kind
            assert experiment.error.value == ""
            for side, text in zip((OFF, where), texts(experiment), strict=True):
                run = padding(side, min(live, graph_size), graph_size, **WRITES[kind], recorded=False)
                assert ("Nobody recites wrongly." in text) == (not run.wrong)
                assert all(f"{rid} recites{said}" in text for rid, said in run.recited.items())


def test_a_caption_says_wrong_only_of_a_letter_of_its_own_step() -> None:
    heard = [event.text for event in padding(OFF).trace if "recites" in event.text]
    assert [number for number, text in enumerate(heard, start=1) if "a: wrong" in text] == [2, 5, 8]  # those with a dot
    assert all(("a recites ·" in text) == ("wrong" in text) for text in heard)


def test_a_row_that_was_overwritten_says_what_it_gives_back_and_what_leaks() -> None:
    (leak,) = (event.text for event in padding(OFF).trace if "leak" in event.text)
    assert leak == (
        "request a gives back 10 slots. Its row says one more that cannot be given back (slot 0: it is the dummy "
        "slot); so the slot that stood there before leaks"
    )


def test_both_players_stand_at_the_step_at_which_the_first_wrong_letter_is_heard() -> None:
    experiment = lab.dummy_entries()
    broken, mended = players(experiment)
    assert broken.step == mended.step == 12
    assert broken.trace[11].text == "engine step 2: a recites ·, b recites l (a: wrong)"
    assert mended.trace[11].text == "engine step 2: a recites y, b recites l"
    now = [one.trace.snapshot(one.step).table for one in (broken, mended)]
    assert torch.nonzero(now[0] != now[1]).tolist() == [[0, 1]], "the damage, and nothing besides"
    experiment.controls["writes"].value = ADD
    assert broken.trace[broken.step - 1].text.startswith("engine step 3: a recites ·")
    assert broken.step == mended.step


def test_the_players_stay_the_same_widgets() -> None:
    experiment = lab.dummy_entries()
    before = players(experiment)
    experiment.controls["live"].value = 3
    assert players(experiment) == before


def test_the_damage_of_a_cell_is_told_from_the_cell_to_the_letter() -> None:
    said = lab.cause(padding(OFF))
    assert first_cell(padding(OFF).trace) == (2, 0, 1, 2, 0)
    assert said.startswith("Engine step 2: the cell of row 0, position 1 said slot 2")
    assert "made it slot 0" in said and "**a recites · instead of y** (letter 2, in engine step 2)." in said


@pytest.mark.parametrize("live, graph_size", [(1, 2), (1, 4), (2, 4), (3, 4), (1, 8)])
def test_the_damage_of_a_length_is_told_from_the_length_to_the_letter(live: int, graph_size: int) -> None:
    run = padding(OFF, live, graph_size, **WRITES[ADD])
    step, row, before, after = first_raise(run.trace)
    assert (step, row, before, after) == (2, 0, 3, 4 + graph_size - live)
    said = lab.cause(run)
    assert f"went from 3 to {after}, and 4 is right" in said
    assert f"starts at position {after}" in said and "0, the dummy slot" in said
    assert f"**a recites {run.recited['a'][2]} instead of z** (letter 3, in engine step 3)." in said


def test_what_dummies_touch_names_cells_slots_lengths_and_whose_row_it_is() -> None:
    assert lab.touched(padding(OFF), CELL) == (
        "2 dummy entries read row 0, positions 0 to 1; their K and V go to slot 0. "
        "Cells written: the cell of row 0, position 1 (slot 0). Lengths raised: none. Row 0 is request a's."
    )
    assert lab.touched(padding("last row", **WRITES[ADD]), ADD) == (
        "2 dummy entries read row 4, position 0; their K and V go to slot 0. "
        "Cells written: none. Lengths raised: row 4's, from 0 to 2 in engine step 2. Row 4 is nobody's."
    )
    assert lab.touched(padding(live=4), CELL) == "The batch is full: there is no dummy entry."


def test_wrong_letters_are_marked_and_said_in_words() -> None:
    html = lab.recital(padding(OFF))
    assert html.count("data-wrong") == 3
    assert "wrong: letters 2, 5, 8, wanted <code>xyzxyzxyz</code>" in html


def test_the_table_of_verdicts_is_what_the_runs_say() -> None:
    experiment = lab.dummy_entries()
    table = experiment.children[4].value
    found = verdicts(2, 4)
    assert table.count("no damage") == sum(not wrong for wrong in found.values())
    assert table.count("a wrong from letter 2 on") == 2 and table.count("a wrong from letter 3 on") == 2
    experiment.controls["live"].value = 4
    assert experiment.children[4].value.count("no damage") == len(found)


def test_a_live_that_does_not_fit_in_the_graph_is_said_below_the_controls() -> None:
    experiment = lab.dummy_entries()
    said = experiment.children[2]
    assert "2 live requests in a graph of 4: 2 dummy entries." in said.value and "chose" not in said.value
    experiment.controls["live"].value, experiment.controls["graph_size"].value = 4, 2
    assert "2 live requests in a graph of 2: no dummy entry." in said.value
    assert "Of the 4 that you chose only 2 fit in this graph." in said.value


def test_labels_are_visible_and_nothing_goes_through_an_output_widget() -> None:
    experiment = lab.dummy_entries()
    assert all(control.description for control in experiment.controls.values())
    assert not [one for one in _all(experiment) if isinstance(one, widgets.Output)]


def test_without_third_party_widgets_framed_pages_take_the_players_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    experiment = lab.dummy_entries()
    experiment.controls["where"].value = "last row"
    assert experiment.error.value == ""
    assert all(isinstance(one, FramedPlayer) for one in players(experiment))


def _all(box: widgets.Widget) -> list[widgets.Widget]:
    return [box, *(one for child in getattr(box, "children", ()) for one in _all(child))]
