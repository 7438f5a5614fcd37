"""Chapter 03: controls at their ends, the damage is what the sentences say, the clock is near a measured one."""

import csv
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pytest

from reqpool import lab, scenarios
from reqpool.faulty import CounterOnly, FreedBetweenChunks
from reqpool.lab import Lab
from reqpool.parts import FramedPlayer
from reqpool.player import Player
from reqpool.player.tape import encode
from reqpool.pool import ReqToTokenPool
from reqpool.scenarios.chunks import asked, chunked_prefill, row_read_while_freed
from reqpool.scenarios.experiments import chunks
from reqpool.scenarios.together import given_back, in_step, mark_wrong
from reqpool.serving import Engine, Request
from reqpool.serving.chunk_times import Step, longest_wait, prefill_steps, time_to_first_token
from reqpool.serving.counts import step_seconds
from reqpool.trace import Trace
from reqpool.views import caption, charts
from tests.in_widgets import everything_in

LABS = {"in_chunks": lab.in_chunks, "freed_between": lab.freed_between, "waiting_times": lab.waiting_times}
SETTINGS = [
    (n, size, budget, mixed) for n in (1, 5, 20) for size in (1, 4, 20) for budget in (2, 6) for mixed in (True, False)
]


def values(control: widgets.Widget) -> Iterator[Any]:
    if hasattr(control, "options"):
        return (one[1] for one in control.options)
    return iter((control.min, control.value, control.max))


def players(box: widgets.Widget) -> list[Player]:
    return [one for one in everything_in(box) if isinstance(one, (Player, FramedPlayer))]


def texts(box: widgets.Widget) -> str:
    return " ".join(one.value for one in everything_in(box) if isinstance(one, widgets.HTML))


def set_all(experiment: Lab, settings: tuple) -> None:
    for control, value in zip(experiment.controls.values(), settings, strict=True):
        control.value = value


# ---- controls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LABS.values(), ids=LABS)
def test_no_value_of_any_control_makes_an_error(make) -> None:
    experiment = make()
    for name, control in experiment.controls.items():
        for value in list(values(control)):
            control.value = value
            assert experiment.error.value == "", f"{name} = {value}"
            assert control.description


@pytest.mark.parametrize("settings", SETTINGS[::7], ids=str)
def test_combined_settings_make_no_error_and_both_players_are_equally_long(settings: tuple) -> None:
    experiment = lab.freed_between()
    set_all(experiment, settings)
    assert experiment.error.value == ""
    broken, mended = (one.trace for one in players(experiment))
    assert len(broken) == len(mended)


def test_without_third_party_widgets_a_framed_page_takes_the_player_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    for box in (lab.in_chunks(), lab.freed_between(), lab.read_while_freed()):
        assert players(box) and not [one for one in everything_in(box) if isinstance(one, Player)]


def test_players_of_both_sides_share_a_group() -> None:
    for box in (lab.freed_between(), lab.read_while_freed()):
        assert len({one.group for one in players(box)}) == 1 and players(box)[0].group


# ---- what is shown is true -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_with_kept_rows_every_text_is_right_and_without_exactly_who_came_in_pieces_is_wrong(settings: tuple) -> None:
    mended, broken = chunks(*settings), chunks(*settings, freed_between=True)
    assert mended.wrong == {} and mended.recited == mended.expected
    pieces = [rid for rid, _ in lab._prefill_steps(broken.trace)]
    assert set(broken.wrong) == {rid for rid in pieces if pieces.count(rid) > 1}


def test_the_sentence_names_the_rows_and_slots_that_the_trace_holds() -> None:
    run = chunks(12, 4, 8, freed_between=True)
    (sentence,) = lab.freed_between_sentences(run)
    rows = [
        event.rows[event.rids.index("long")] for event in run.trace if event.kind == "alloc" and "long" in event.rids
    ]
    assert f"row {rows[0]}, then row {rows[1]}, then row {rows[2]}" in sentence
    last = next(k for k, event in enumerate(run.trace, 1) if event.rid == "long" and event.rows == (rows[-1],))
    row = run.trace.snapshot(last).table[rows[-1]].tolist()
    assert row[:4] == [15, 16, 17, 18] and row[4:] == [0] * len(row[4:])
    assert "positions 0 to 3 of row 4, not at positions 8 to 11" in sentence
    assert "KV slots 5 to 8 and 10 to 13" in sentence
    assert "`····` (`·`: nothing found), expected `abcd`" in sentence


def test_one_chunk_or_no_wrong_letter_is_said_as_such() -> None:
    (sentence,) = lab.freed_between_sentences(chunks(4, 4, 8, freed_between=True))
    assert sentence.startswith("Nobody recites wrongly")


def test_the_plan_adds_up_and_keeps_to_chunk_size_and_budget() -> None:
    for n, size, budget, mixed in SETTINGS[::5]:
        trace = chunks(n, size, budget, mixed).trace
        steps, prefilled = lab.plan(trace), lab._prefill_steps(trace)
        assert all(sum(step.values()) <= budget for step in steps)
        pieces = [step["long"] for number, step in enumerate(steps, 1) if ("long", number) in prefilled]
        assert sum(pieces) == n and max(pieces) <= size
        assert f"{len(pieces)} chunks" in lab._in_chunks_sentence(trace) or len(pieces) == 1


def test_separate_steps_make_the_running_request_wait() -> None:
    mixed, apart = (lab._steps_between_letters(chunks(12, 4, 8, how).trace, "short") for how in (True, False))
    assert max(mixed) == 1 and max(apart) == 4


def test_the_plan_table_is_a_table_with_headers() -> None:
    table = ET.fromstring(lab.plan_table(chunks(12, 4, 8).trace, 8))
    (bold,) = [row for row in table.iter("tr") if row[0].text == "long"]
    assert [cell[0].text for cell in bold[1:] if len(cell)] == ["4", "4", "4"]
    assert {cell.get("scope") for cell in table.iter("th")} == {"col", "row"}


def test_nobody_new_is_admitted_while_a_prompt_is_between_its_chunks() -> None:
    for n, size, budget, mixed in SETTINGS[::5]:
        trace = chunks(n, size, budget, mixed).trace
        steps = {rid: [step for who, step in lab._prefill_steps(trace) if who == rid] for rid in ("long", "other")}
        assert min(steps["other"]) >= max(steps["long"])
    assert min(step for who, step in lab._prefill_steps(chunks(12, 4, 8).trace) if who == "other") == 4


def test_the_answers_to_the_chapter_s_questions() -> None:
    def first_letter(*settings: Any) -> int:
        return max(step for who, step in lab._prefill_steps(chunks(*settings).trace) if who == "long")

    assert [first_letter(12, 1, 8), first_letter(12, 12, 8), first_letter(12, 12, 13)] == [14, 3, 2]
    assert [step["other"] for step in lab.plan(chunks(12, 4, 4).trace)[5:7]] == [2, 1]
    assert "other" in chunks(7, 3, 4, freed_between=True).wrong
    assert "other" not in chunks(7, 3, 5, freed_between=True).wrong
    waits = {size: longest_wait(prefill_steps(8192, size, 8)) for size in (128, 256, 512, 2048, 4096)}
    assert waits[128] == waits[256] == 6 and round(waits[2048], 1) == 41.1 and waits[4096] > 50
    firsts = [time_to_first_token(prefill_steps(8192, size, 8)) for size in (512, 2048)]
    assert round(firsts[0] - firsts[1]) == 2
    apart = [longest_wait(prefill_steps(8192, size, 8, False)) for size in (256, 512, 2048, 8192)]
    assert [round(ms, 1) for ms in apart] == [198.0, 169.8, 169.8, 169.8]


# ---- two runs at the same step ---------------------------------------------------------------------------------------


def recited_at(trace: Trace) -> list[tuple[int, int]]:
    return [(k, event.step) for k, event in enumerate(trace) if "texts" in dict(event.facts)]


def test_both_sides_end_each_engine_step_at_the_same_place_and_nothing_is_lost() -> None:
    for settings in SETTINGS[::7]:
        broken, mended = chunks(*settings, freed_between=True).trace, chunks(*settings).trace
        left, right = in_step(given_back(broken), mended)
        assert recited_at(left) == recited_at(right)
        for before, after in ((broken, left), (mended, right)):
            ends = before.snapshot(len(before)), after.snapshot(len(after))
            assert ends[0].table.equal(ends[1].table)
            assert (ends[0].owners, ends[0].free, ends[0].alloced) == (ends[1].owners, ends[1].free, ends[1].alloced)


def test_an_aligned_trace_replays_and_can_be_saved(tmp_path: Path) -> None:
    run = chunks(12, 4, 8, freed_between=True)
    broken, mended = in_step(given_back(run.trace), chunks(12, 4, 8).trace)
    for name, trace in (("broken", mark_wrong(broken, mended)), ("mended", mended)):
        trace.save(tmp_path / name)
        assert encode(Trace.load(tmp_path / name)) == encode(trace)


def test_a_row_that_alloc_gave_back_is_told_as_given_back() -> None:
    for trace in (given_back(chunks(12, 4, 8, freed_between=True).trace), row_read_while_freed(FreedBetweenChunks)):
        said = [caption(trace, k) for k in range(len(trace) + 1)]
        assert not [sentence for sentence in said if sentence.startswith("Reset on reuse")]
        assert [sentence for sentence in said if "gives back row" in sentence]


def test_the_cells_behind_a_wrong_letter_are_marked() -> None:
    run = chunks(12, 4, 8, freed_between=True)
    broken, mended = in_step(given_back(run.trace), chunks(12, 4, 8).trace)
    marked = mark_wrong(broken, mended)
    first = next(k for k, event in enumerate(marked) if dict(event.facts).get("wrong"))
    assert "long: wrong" in marked[first].text
    assert dict(marked[first].facts)["wrong"] == tuple((4, position) for position in range(4))
    assert not any(dict(event.facts).get("wrong") for event in mark_wrong(mended, mended))


# ---- the reuse condition ---------------------------------------------------------------------------------------------


def test_the_counter_is_0_on_the_last_chunk_when_results_come_at_once() -> None:
    for num_chunks in (2, 3, 7):
        assert [one.inflight_middle_chunks for one in asked(num_chunks)] == [1] * (num_chunks - 2) + [0]


def test_each_half_alone_refuses_somewhere_and_both_together_nowhere() -> None:
    class CommittedOnly(ReqToTokenPool):
        def _has_more_to_do(self, req: Any) -> bool:
            return req.kv_committed_len > 0

    refused = {}
    for pool_class in (ReqToTokenPool, CounterOnly, CommittedOnly):
        for overlap in (False, True):
            for committed_at in ("launch", "result"):
                try:
                    asked(3, 4, overlap, committed_at, pool_class)
                except ValueError:
                    refused[pool_class.__name__, overlap, committed_at] = True
    assert set(refused) == {
        ("CounterOnly", False, "launch"),
        ("CounterOnly", False, "result"),
        ("CommittedOnly", True, "result"),
    }


def test_the_table_of_both_halves_marks_the_zeros_and_no_chunk_has_two() -> None:
    rows = list(ET.fromstring(lab.two_halves().value).iter("tr"))[2:]
    said = [["".join(cell.itertext()) for cell in row] for row in rows]
    assert [row[:2] for row in said] == [
        [come, moves] for come in ("at once", "late") for moves in ("at the launch", "at the result")
    ]
    at_once = ["1", "4", "✗ 0", "8"]  # two middle chunks of 4 tokens, each with its result before the next launch
    assert [row[2:] for row in said] == [at_once, at_once, ["2", "4", "1", "8"], ["2", "✗ 0", "1", "4"]]


def test_counter_only_refuses_the_third_of_three_chunks_and_the_real_pool_none() -> None:
    refused, real = chunked_prefill(pool_class=CounterOnly), chunked_prefill()
    assert [(event.step, event.kind) for event in refused][-1] == (2, "refuse")
    assert not [event for event in real if event.kind == "refuse"]


# ---- the race --------------------------------------------------------------------------------------------------------


def test_the_forward_step_reads_a_mixed_row_only_where_the_row_was_given_back() -> None:
    assert scenarios.row_read_while_freed is row_read_while_freed
    for pool_class, read, wrong in ((FreedBetweenChunks, "xyzd", (0, 1, 2)), (ReqToTokenPool, "abcd", ())):
        facts = dict(row_read_while_freed(pool_class)[-1].facts)
        assert facts["texts"] == (("a", read, wrong),)
        assert facts["wrong"] == tuple((1, position) for position in wrong)
        assert facts["lane"] == "forward"


# ---- the clock -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(("prompt_len", "chunk_size", "num_running"), [(9, 4, 2), (8, 4, 1), (3, 8, 3), (5, 1, 2)])
def test_the_chart_counts_the_steps_that_the_engine_launches(
    prompt_len: int, chunk_size: int, num_running: int, mixed: bool
) -> None:
    engine = Engine(
        ReqToTokenPool(5, 40, "cpu"), 200, chunk_size=chunk_size, budget=chunk_size + num_running, mixed=mixed
    )
    for n in range(num_running):
        engine.add(Request(f"r{n}", prompt="x", max_new_tokens=30))
        engine.step()
    while len(engine.scheduler.running) < num_running:
        engine.step()
    long = engine.add(Request("long", prompt="abcdefghijkl"[:prompt_len], max_new_tokens=3))
    launched: list[Step] = []
    while not launched or launched[-1].prefill:
        batch = engine.scheduler.next_batch()
        counts = {kind: sum(e.num_tokens for e in batch if e.kind == kind) for kind in ("prefill", "decode")}
        launched.append(Step(**counts))
        engine.scheduler.process(batch, engine.forward(batch))
    assert long.output
    assert launched == prefill_steps(prompt_len, chunk_size, num_running, mixed)


def test_a_smaller_chunk_shortens_waiting_until_a_step_takes_6_ms_anyway() -> None:
    waits = [longest_wait(prefill_steps(8192, size, 8)) for size in charts.CHUNK_SIZES if size <= 8192]
    assert waits == sorted(waits) and waits[0] == waits[1] == waits[2] == 6 < waits[3]
    firsts = [time_to_first_token(prefill_steps(8192, size, 8)) for size in charts.CHUNK_SIZES]
    assert firsts[:3] == sorted(firsts[:3], reverse=True)


def test_the_sentence_and_the_drawing_say_the_same() -> None:
    experiment = lab.waiting_times(8192, 512, 8)
    assert "<strong>10.4 ms</strong>" in texts(experiment)
    label = re.search(r'role="img" aria-label="([^"]*)"', texts(experiment))
    assert label and "at most 10.4 ms" in label[1] and "*" not in label[1]
    assert "<style" not in texts(experiment)


def test_the_chart_of_waiting_is_small_and_marks_the_chosen_chunk_size() -> None:
    for settings in ((512, 16384, 64), (16384, 64, 1)):
        figure = charts.waiting_times(*settings)
        upper, lower = figure.axes
        assert any(list(line.get_xdata()) == [settings[1]] * 2 for line in upper.lines)
        assert lower.get_xlim()[1] > sum(step.ms for step in prefill_steps(*settings))
        drawing = charts.svg(figure, "x")
        assert len(drawing) < 60_000
        assert drawing == charts.svg(charts.waiting_times(*settings), "x")


WORKLOADS = os.environ.get("REQPOOL_WORKLOADS", "")


@pytest.mark.skipif(not WORKLOADS, reason="REQPOOL_WORKLOADS, the folder of measured step times, is not set")
def test_the_two_numbers_are_near_the_measured_times_as_the_chapter_says() -> None:
    measured = h100_ms(Path(WORKLOADS) / "vidur-kernel-times" / "h100_llama-2-7b_mlp_tp1.csv")
    ratios = [(num_tokens, 1000 * step_seconds(num_tokens) / ms) for num_tokens, ms in measured]
    assert all(0.8 < ratio < 1.2 for n, ratio in ratios if n <= 128 or n >= 1000)
    assert min(ratio for _, ratio in ratios) > 0.59 and max(ratio for _, ratio in ratios) < 1.2
    assert f"{dict(measured)[328]:.1f} {1000 * step_seconds(328):.1f}" == "11.0 6.6"


def h100_ms(path: Path) -> list[tuple[int, float]]:
    """Tokens and the measured ms of a step: 32 times a layer's operators, and the embedding once."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    medians = [name for name in rows[0] if name.endswith(".median")]
    return [
        (int(row["num_tokens"]), sum((1 if ".emb." in name else 32) * float(row[name]) for name in medians))
        for row in rows
    ]
