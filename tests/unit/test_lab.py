"""The experiments: each control is moved to each of its values, by calling what the front end would call."""

from collections.abc import Iterator
from typing import Any

import ipywidgets as widgets
import pytest

from reqpool import lab, scenarios
from reqpool.faulty import FreedTwice
from reqpool.lab import Lab
from reqpool.parts import FramedPlayer
from reqpool.player import Player
from reqpool.player.tape import encode
from tests.in_widgets import everything_in

LABS = {
    "follow": lab.follow,
    "table_cost": lab.table_cost,
    "come_and_go": lab.come_and_go,
    "free_twice": lab.free_twice,
}


def values(control: widgets.Widget) -> Iterator[Any]:
    if hasattr(control, "options"):
        return (one[1] if isinstance(one, tuple) else one for one in control.options)
    return iter(range(control.min, control.max + 1))


def players(box: widgets.Widget) -> list[Player]:
    return [one for one in everything_in(box) if isinstance(one, (Player, FramedPlayer))]


def texts(box: widgets.Widget) -> str:
    return " ".join(one.value for one in everything_in(box) if isinstance(one, widgets.HTML))


@pytest.mark.parametrize("make", LABS.values(), ids=LABS)
def test_no_value_of_any_control_makes_an_error(make) -> None:
    experiment = make()
    assert experiment.error.value == ""
    for name, control in experiment.controls.items():
        for value in values(control):
            control.value = value
            assert experiment.error.value == "", f"{name} = {value}"


@pytest.mark.parametrize("make", LABS.values(), ids=LABS)
def test_every_control_has_a_visible_label(make) -> None:
    assert all(control.description for control in make().controls.values())


@pytest.mark.parametrize("make", LABS.values(), ids=LABS)
def test_nothing_is_drawn_through_an_output_widget(make) -> None:
    assert not [one for one in everything_in(make()) if isinstance(one, widgets.Output)]


def test_an_exception_in_a_callback_is_shown_and_goes_away_with_the_next_good_value() -> None:
    def rebuild(size: int) -> None:
        if size == 2:
            raise RuntimeError("two is <too> much")

    experiment = Lab({"size": lab.slider("size", 1, 1, 3)}, rebuild, [])
    experiment.controls["size"].value = 2
    assert "two is &lt;too&gt; much" in experiment.error.value
    assert 'role="alert"' in experiment.error.value
    experiment.controls["size"].value = 3
    assert experiment.error.value == ""


def test_moving_a_control_swaps_the_trace_in_the_same_player() -> None:
    experiment = lab.come_and_go()
    (shown,) = players(experiment)
    tape = shown.tape
    experiment.controls["size"].value = 5
    assert players(experiment) == [shown]
    assert shown.tape != tape
    assert shown.trace.first.size == 5


def test_the_pool_runs_out_exactly_when_there_are_more_requests_than_rows() -> None:
    experiment = lab.come_and_go()
    for size in (1, 3, 6):
        for num_requests in (1, 3, 8):
            experiment.controls["size"].value = size
            experiment.controls["num_requests"].value = num_requests
            assert ("<code>None</code>" in texts(experiment)) == (num_requests > size)


def told(size: int, num_requests: int, *orders: str) -> str:
    return lab._come_and_go_sentence(scenarios.come_and_go(size, num_requests, *orders))


def test_it_is_said_who_waits_who_gets_which_row_and_who_waits_on() -> None:
    assert told(3, 5).endswith("[1, 2, 3]. Those who waited, d and e, get the rows [1, 2].")
    assert told(3, 7).startswith("`None` for d, e, f and g.") and told(3, 7).endswith("; g still waits.")
    assert told(1, 4).endswith("Request b, who waited, gets row 1; c and d still wait.")


def test_where_nobody_waited_the_row_of_one_more_request_is_told_as_new_or_as_somebody_s() -> None:
    assert told(4, 2, "fifo", "newest first").endswith("one more request comes: c takes row 3, which nobody has had.")
    assert told(4, 2, "lifo", "newest first").endswith("one more request comes: c takes row 1, which a had before.")
    assert told(2, 2, "fifo", "newest first").endswith("one more request comes: c takes row 2, which b had before.")
    assert told(4, 2).startswith("No request is refused.")


def test_the_second_free_damages_the_broken_pool_only_and_both_stand_at_the_same_step() -> None:
    experiment = lab.free_twice()
    for size in (1, 2, 3, 4):
        experiment.controls["size"].value = size
        broken, mended = (one.trace for one in players(experiment))
        assert len(broken) == len(mended)
        assert max(map(len, broken.snapshot(len(broken)).owners.values())) == 2
        assert max(map(len, mended.snapshot(len(mended)).owners.values())) == 1


def test_players_side_by_side_are_a_group_of_their_own() -> None:
    first, second = (lab.side_by_side(scenarios.free_twice(FreedTwice), scenarios.free_twice()) for _ in range(2))
    groups = [{one.group for one in players(pair)} for pair in (first, second)]
    assert [len(group) for group in groups] == [1, 1]
    assert groups[0] != groups[1] and "" not in groups[0]


def test_framed_players_side_by_side_stand_in_one_frame_where_they_move_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    pair = lab.side_by_side(scenarios.two_owners(), scenarios.two_owners(guarded=True), ("left", "right"))
    (frame,) = (one for one in everything_in(pair) if isinstance(one, widgets.HTML) and "<iframe" in one.value)
    assert frame.value.count("group: &quot;frame&quot;") == 2
    assert encode(pair.players[0].trace) in frame.value and encode(pair.players[1].trace) in frame.value
    pair.players[1].trace = scenarios.stale_cells()
    assert encode(scenarios.stale_cells()) in frame.value and encode(scenarios.two_owners()) in frame.value


def test_no_number_of_the_tiny_kv_cache_is_minus_zero() -> None:
    assert not any((values == 0).logical_and(values.signbit()).any() for values in lab.kv_cache())


def test_follow_names_the_slot_that_the_table_holds() -> None:
    experiment = lab.follow()
    controls = experiment.controls
    for rid, row in (("a", 1), ("b", 2)):
        controls["request"].value = rid
        for position in range(8):
            controls["position"].value = position
            (shown,) = players(experiment)
            last = shown.trace.snapshot(len(shown.trace))
            if position < last.alloced[row]:
                slot = int(last.table[row, position])
                assert f"position <strong>{position}</strong> → slot <strong>{slot}</strong>" in texts(experiment)
            else:
                assert "holds none" in texts(experiment)


def test_the_cost_is_computed_from_the_shape_and_drawn_with_alternative_text() -> None:
    experiment = lab.table_cost(2048, 10_485_760)
    assert "<strong>80.04 GiB</strong>" in texts(experiment)
    assert "more than the 2³¹" in texts(experiment)
    assert 'role="img" aria-label="(2,048 + 1) rows' in texts(experiment)


def test_without_third_party_widgets_a_framed_page_takes_the_player_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    for make in LABS.values():
        experiment = make()
        assert not [one for one in everything_in(experiment) if isinstance(one, Player)]
        for control in experiment.controls.values():
            control.value = list(values(control))[-1]
        assert experiment.error.value == ""
