"""Chapter 05: the late step. The regimes, the chain and the strip, each looked up apart from what shows them."""

import re
from collections.abc import Iterator
from itertools import product

import ipywidgets as widgets
import pytest

from reqpool import ReqToTokenPool, lab
from reqpool.lab import late_step
from reqpool.parts import FramedPlayer
from reqpool.player import Player
from reqpool.player.tape import tape
from reqpool.scenarios.experiments import LANDINGS, late, outcomes, owners
from reqpool.trace import Snapshot, Trace
from tests.unit.test_lab import everything_in, players, texts, values

ORDERS = [("fifo", 3), ("lifo", 3), ("fifo", 2), ("fifo", 4)]
ON_OFF = (False, True)


def settings(control: widgets.Widget) -> list:
    return [True, False] if isinstance(control, widgets.Checkbox) else list(values(control))


@pytest.fixture(scope="module")
def experiment() -> lab.Lab:
    return late_step()


# ---- what the runs say -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reuse", "size"), ORDERS)
def test_each_safeguard_saves_its_own_regime_and_no_other(reuse: str, size: int) -> None:
    found, whose = outcomes(8, reuse, size), owners(8, reuse, size)
    assert whose[0] == "a"
    reused = [owner not in ("a", "") for owner in whose]
    hurts = [owner != "a" and any(reused) for owner in whose]  # a row that nobody ever gets hurts nobody
    for (reset, generation, fence), who in found.items():
        saved = [fence or (generation if late_now else reset) for late_now in reused]
        for at in range(len(LANDINGS)):
            assert (who[at] == "nobody") == (saved[at] or not hurts[at]), (reset, generation, fence, LANDINGS[at])


@pytest.mark.parametrize("late_len", [1, 8, 12])
def test_outcomes_are_those_of_runs_with_exactly_these_safeguards(late_len: int) -> None:
    found = outcomes(late_len)
    for guards in product(ON_OFF, repeat=3):
        for at in range(len(LANDINGS)):
            run = late(at, late_len, *guards, recorded=False)
            assert found[guards][at] == (" + ".join(sorted(run.wrong)) or "nobody"), (guards, LANDINGS[at])


def test_recording_changes_nothing() -> None:
    for at, reset in product(range(len(LANDINGS)), ON_OFF):
        recorded, not_recorded = late(at, reset=reset), late(at, reset=reset, recorded=False)
        assert recorded.recited == not_recorded.recited
        assert recorded.owner == not_recorded.owner


def test_a_third_request_recites_the_letters_of_the_row_s_new_owner() -> None:
    run = late(1, reset=False)
    assert run.recited == {"c": "klmnopqrxyzw", "b": "xyzwxy"}
    assert run.wrong == {"c": [8, 9, 10, 11]}


# ---- the chain -------------------------------------------------------------------------------------------------------


def test_the_default_chain_names_length_position_slot_and_letter() -> None:
    assert late(1, reset=False).chain == (
        "row 1 begins with verified length 8 → b's first letter x goes to position 8 → that cell still says slot 9, "
        "which c holds at its position 8 → c recites x instead of s"
    )


@pytest.mark.parametrize(("reuse", "size"), ORDERS)
@pytest.mark.parametrize("late_len", [1, 3, 8, 12])
def test_every_wrong_run_has_a_chain_whose_numbers_stand_in_the_table(reuse: str, size: int, late_len: int) -> None:
    for at in range(len(LANDINGS)):
        run = late(at, late_len, reset=False, reuse=reuse, size=size)
        assert bool(run.chain) == bool(run.wrong), LANDINGS[at]
        if not run.chain:
            continue
        who, said, wanted = re.search(r"(\w) recites (.) instead of (.)$", run.chain).groups()
        assert (said, wanted) in [(run.recited[who][i], run.expected[who][i]) for i in run.wrong[who]]
        cell = re.search(r"position (\d+).*that cell still says slot (\d+)", run.chain)
        if cell:
            position, slot = map(int, cell.groups())
            steps = range(len(run.trace) + 1)
            assert any(int(run.trace.snapshot(k).table[run.row, position]) == slot for k in steps)
        if held := re.search(r"says slot (\d+), which (\w)(?: itself)? holds at its position (\d+)", run.chain):
            slot, rid, position = int(held[1]), held[2], int(held[3])
            assert any(
                int(now.table[row, position]) == slot
                for now in map(run.trace.snapshot, range(len(run.trace) + 1))
                for row, rids in now.owners.items()
                if rids == (rid,) and position < now.alloced[row]
            )


PROMPTS = {"b": "xyzw", "c": "klmnopqrstuv"}
NTH = r"(first|second|third|fourth|\d+th)"
ORDINAL = {"first": 0, "second": 1, "third": 2, "fourth": 3}


def index_of(word: str) -> int:
    return ORDINAL[word] if word in ORDINAL else int(word.removesuffix("th")) - 1


def steps_of(trace: Trace) -> Iterator[tuple[Snapshot, str, int, int, int, int]]:
    """Every forward step of b and c: the snapshot before it, rid, row, verified length, its tokens, tokens before."""
    for k, event in enumerate(trace):
        if event.kind == "verify":
            now = trace.snapshot(k)
            for _, row, start, end in event.change.lengths:
                if (rid := now.owners[row][0]) in PROMPTS:
                    yield now, rid, row, start, end - start, now.alloced[row] - (end - start)


def says_so(now: Snapshot, row: int, position: int, sentence: str) -> bool:
    """Whether what a chain says of a cell is so at this moment."""
    if sentence == "that is beyond the end of the row":
        return position >= now.max_context_len
    slot = int(now.table[row, position])
    held = {
        (rids[0], at, cell)
        for owned, rids in now.owners.items()
        for at, cell in enumerate(now.table[owned, : now.alloced[owned]].tolist())
    }
    if sentence == "that cell was never written: it says slot 0, the dummy slot":
        return slot == 0
    if found := re.fullmatch(r"that cell still says slot (\d+), which nobody holds now", sentence):
        return slot == int(found[1]) != 0 and slot not in {cell for _, _, cell in held}
    found = re.fullmatch(
        r"that cell still says slot (\d+), which (\w)(?: itself)? holds at its position (\d+)", sentence
    )
    return slot == int(found[1]) and (found[2], int(found[3]), slot) in held


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
@pytest.mark.parametrize("late_len", [1, 2, 8, 12])
def test_every_number_that_a_chain_names_is_the_trace_s(late_len: int, reuse: str, size: int) -> None:
    for at, reset in product(range(len(LANDINGS)), ON_OFF):
        run = late(at, late_len, reset, reuse=reuse, size=size)
        assert run.row == 1  # as the strip of the lab says
        if not run.chain:
            continue
        length, moves, cell, verdict = run.chain.split(" → ")
        steps = list(steps_of(run.trace))
        who, said, wanted = re.fullmatch(r"(\w) recites (.) instead of (.)", verdict).groups()

        if found := re.fullmatch(r"row (\d+) begins with verified length (\d+)", length):
            named = (int(found[1]), int(found[2]), 0)
        else:
            found = re.fullmatch(r"row (\d+)'s verified length is (\d+) where (\w) has (\d+) tokens", length)
            assert found[3] == moves[0]
            named = (int(found[1]), int(found[2]), int(found[4]))
        strays = [one for one in steps if (one[2], one[3], one[5]) == named and one[1] == moves[0]]
        assert len(strays) == 1, (run.chain, LANDINGS[at])
        ((now, rid, row, start, count, done),) = strays
        text = PROMPTS[rid] + run.recited[rid]

        if found := re.fullmatch(rf"(\w)'s {NTH} letter (\w) goes to position (\d+)", moves):
            index, position = index_of(found[2]), int(found[4])
            assert done <= index < done + count and position == start + index - done and found[3] == text[index]
            held = int(re.search(r"at its position (\d+)$", cell)[1])
            assert who != rid and (run.recited[who][held], run.expected[who][held]) == (said, wanted)
            assert said == (found[3] if position == held else "·")
        else:
            found = re.fullmatch(
                rf"(\w) looks for its {NTH} letter at position (\d+)(?: of the row, not (\d+))?", moves
            )
            index, position = index_of(found[2]), int(found[3])
            assert (index != position) == (found[4] is not None) and found[4] in (None, str(index))
            assert who == rid and (run.recited[who][index], run.expected[who][index]) == (said, wanted)
            period = len(PROMPTS[rid])
            (last,) = (one for one in steps if one[1] == rid and one[4] + one[5] == index + period)
            now = last[0]
            assert position == last[3] + last[4] - period and last[2] == row
        assert says_so(now, row, position, cell), run.chain


def test_a_chain_names_the_length_before_the_step_not_inside_it() -> None:
    assert late(2, 1, reset=False).chain == (
        "row 1 begins with verified length 1 → b's fourth letter w goes to position 4 → that cell still says slot 5, "
        "which c holds at its position 4 → c recites w instead of o"
    )


def test_verified_beyond_alloced_is_refused_by_check_for_a_row_that_is_handed_out_only() -> None:
    pool = ReqToTokenPool(1, 24, "cpu")
    (row,) = pool.alloc_rows(1)
    pool.verify([row], 8)
    with pytest.raises(RuntimeError, match="wanted 0 <= verified_len <= alloced_len"):
        pool.check()
    pool.free_rows([row])
    pool.verify([row], 8)
    pool.check()


def test_the_caption_at_the_first_wrong_letter_of_the_chain_tells_the_chain() -> None:
    run = late(1, reset=False)
    told = [event for event in run.trace if run.chain in event.text]
    assert len(told) == 1 and "c recites x (c: wrong)" in told[0].text
    assert dict(told[0].facts)["wrong"] == ((3, 8),)


def test_a_saved_run_has_no_chain_and_no_wrong_cell() -> None:
    for guards in [(True, True, False), (False, False, True)]:
        for at in range(len(LANDINGS)):
            run = late(at, 8, *guards)
            assert run.chain == ""
            assert not [event for event in run.trace if dict(event.facts).get("wrong")]


# ---- the lanes -------------------------------------------------------------------------------------------------------


def test_every_event_lies_in_a_lane_and_the_late_write_in_the_forward_lane() -> None:
    for at, guards in product(range(len(LANDINGS)), product(ON_OFF, repeat=3)):
        events = tape(late(at, 8, *guards).trace)["events"]
        assert {event["lane"] for event in events} == {"schedule", "forward"}
        lanes = {
            kind: {event["lane"] for event in events if event["kind"] == kind} for kind in ("alloc", "free", "reset")
        }
        assert all(lane <= {"schedule"} for lane in lanes.values())
        assert all(event["lane"] == "forward" for event in events if event["kind"] in ("late_write", "verify"))


# ---- the lab ---------------------------------------------------------------------------------------------------------


def test_no_value_of_any_control_makes_an_error(experiment: lab.Lab) -> None:
    assert experiment.error.value == ""
    for name, control in experiment.controls.items():
        start = control.value
        for value in settings(control):
            control.value = value
            assert experiment.error.value == "", f"{name} = {value}"
        control.value = start


def test_every_control_has_a_label_and_nothing_is_an_output_widget(experiment: lab.Lab) -> None:
    assert all(control.description for control in experiment.controls.values())
    assert not [one for one in everything_in(experiment) if isinstance(one, widgets.Output)]


def play(experiment: lab.Lab, played: str) -> list[Player]:
    experiment.controls["played"].value = played
    return players(experiment)


def test_one_player_at_a_time_stands_where_the_write_lands_or_is_dropped(experiment: lab.Lab) -> None:
    for at in range(1, len(LANDINGS)):
        for generation in ON_OFF:
            experiment.controls["landing"].value, experiment.controls["generation"].value = at, generation
            (yours,) = play(experiment, lab.PLAYED[0])
            event = yours.trace[yours.step - 1]
            assert event.text.endswith("dropped") if generation and at > 2 else event.kind == "late_write"
            (bare,) = play(experiment, lab.PLAYED[1])
            assert bare.trace[bare.step - 1].kind == "late_write"
            assert bare.trace.snapshot(bare.step).verified[1] >= 8
    experiment.controls["landing"].value, experiment.controls["generation"].value = 1, False
    play(experiment, lab.PLAYED[0])


def test_two_players_stand_at_the_late_write_and_have_equally_many_steps(experiment: lab.Lab) -> None:
    for at in range(1, len(LANDINGS)):
        experiment.controls["landing"].value = at
        left, right = play(experiment, "both")
        assert len(left.trace) == len(right.trace)
        assert left.step == right.step
        assert left.trace[left.step - 1].kind == "late_write"
    experiment.controls["landing"].value = 1
    play(experiment, lab.PLAYED[0])


def test_without_a_safeguard_there_is_no_second_player_to_show(experiment: lab.Lab) -> None:
    experiment.controls["reset"].value = False
    assert len(play(experiment, "both")) == 1
    experiment.controls["reset"].value = True
    assert len(players(experiment)) == 2
    play(experiment, lab.PLAYED[0])


def test_the_strip_is_a_table_in_which_exactly_your_choice_is_marked(experiment: lab.Lab) -> None:
    strip = next(one.value for one in everything_in(experiment) if "data-strip" in str(getattr(one, "value", "")))
    assert strip.count('scope="row"') == 5 and strip.count('scope="col"') == 1 + len(LANDINGS)
    assert strip.count("✗") + strip.count("✓") == 5 * len(LANDINGS)
    assert strip.count("<caption") == 1
    assert marked(strip) == ["✓ nobody (yours)"]


def marked(html: str) -> list[str]:
    """The text of the cells that are yours, as it is read aloud."""
    return [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td aria-current=[^>]*>(.*?)</td>", html)]


@pytest.mark.parametrize(("reuse", "size"), ORDERS)
@pytest.mark.parametrize("late_len", [1, 2, 8, 12])
def test_the_fence_alone_says_what_it_says_with_the_others(late_len: int, reuse: str, size: int) -> None:
    found = outcomes(late_len, reuse, size)
    assert {tuple(who) for (_, _, fence), who in found.items() if fence} == {("nobody",) * len(LANDINGS)}


def test_the_strip_follows_the_controls(experiment: lab.Lab) -> None:
    controls = experiment.controls
    for at, *guards in product((0, 1, 3), ON_OFF, ON_OFF, ON_OFF):
        controls["landing"].value = at
        for name, on in zip(("reset", "generation", "fence"), guards, strict=True):
            controls[name].value = on
        who = late(at, 8, *guards, recorded=False).wrong
        said = f"✗ {' + '.join(sorted(who))} (yours)" if who else "✓ nobody (yours)"
        assert marked(texts(experiment)) == [said]
    for name, value in {"landing": 1, "reset": True, "generation": False, "fence": False}.items():
        controls[name].value = value


def test_landings_are_numbered_alike_on_the_slider_and_in_the_table(experiment: lab.Lab) -> None:
    labels = [label for label, _ in experiment.controls["landing"].options]
    heads = re.findall(r'<th scope="col"[^>]*>(\d\. [^<]*)<br>', texts(experiment))
    assert [head.replace("&#x27;", "'") for head in heads] == labels
    assert labels == [f"{number}. {name}" for number, name in enumerate(LANDINGS, start=1)]


def test_the_sentence_says_whose_row_it_is_and_who_is_wrong(experiment: lab.Lab) -> None:
    play(experiment, "both")
    assert "no safeguard: c recites wrongly." in texts(experiment)
    assert "with your safeguards: nobody recites wrongly." in texts(experiment)
    assert "row 1 is free." in texts(experiment)
    play(experiment, lab.PLAYED[0])
    assert "no safeguard: " not in texts(experiment)
    experiment.controls["landing"].value = 3
    assert "with your safeguards: c recites wrongly." in texts(experiment)
    assert "row 1 is b's by now." in texts(experiment)
    experiment.controls["landing"].value = 1


def test_without_third_party_widgets_a_framed_page_takes_the_player_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    experiment = late_step()
    experiment.controls["landing"].value = 4
    assert experiment.error.value == ""
    assert [type(one) for one in players(experiment)] == [FramedPlayer]
    assert [type(one) for one in play(experiment, "both")] == [FramedPlayer, FramedPlayer]
    assert not [one for one in everything_in(experiment) if isinstance(one, Player)]
