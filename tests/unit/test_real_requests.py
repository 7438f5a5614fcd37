"""The experiments on a stream's own lengths and arrivals: exact with the safeguards, not without, and deterministic."""

from collections import Counter

import pytest

from reqpool.pool import ReqToTokenPool
from reqpool.scenarios import real_requests
from reqpool.scenarios.real_requests import CONTEXT, STEP_S, Served, late_runs, padding_runs, serve, small_requests
from reqpool.views import charts
from reqpool.workloads import Arrival, Stream, stream, synthetic

STREAMS = {"on this machine": stream().first(100), "synthetic": synthetic(num_requests=100)}


@pytest.fixture(scope="module", params=STREAMS)
def arrivals(request: pytest.FixtureRequest) -> Stream:
    return STREAMS[request.param]


@pytest.fixture(scope="module")
def padded(arrivals: Stream) -> dict[str, Served]:
    return padding_runs(arrivals)


@pytest.fixture(scope="module")
def late(arrivals: Stream) -> dict[str, Served]:
    return late_runs(arrivals)


def came_to(run: Served) -> tuple:
    return [req.output for req in run.requests], run.marks, run.batches, run.landed, run.found


def test_lengths_are_divided_rounded_up_and_clipped_and_the_order_is_kept() -> None:
    raw = [(0.0, 1, 1), (0.5, 257, 17), (0.5, 14_050, 1_000)]
    reqs = small_requests(Stream("three", tuple(Arrival(*one) for one in raw)))
    assert [(req.rid, req.prompt_len, req.max_new_tokens) for req in reqs] == [("0", 2, 1), ("1", 3, 2), ("2", 12, 24)]
    assert [req.arrival for req in reqs] == [0, 5, 5] and pytest.approx(0.096) == STEP_S


def test_every_small_request_fits_and_a_seed_gives_the_same_letters(arrivals: Stream) -> None:
    once, again, other = (small_requests(arrivals, seed) for seed in (0, 0, 1))
    assert max(req.prompt_len + req.max_new_tokens for req in once) <= CONTEXT
    assert [req.prompt for req in once] == [req.prompt for req in again] != [req.prompt for req in other]
    assert sorted(req.arrival for req in once) == [req.arrival for req in once]


def test_nobody_starts_before_it_has_come() -> None:
    pause = Stream("a pause", (Arrival(0.0, 300, 40), Arrival(60.0, 300, 40)))
    run = serve(pause, ReqToTokenPool(1, CONTEXT, "cpu"), CONTEXT, runner={"graph_sizes": (1,)})
    assert not run.wrong and [req.state for req in run.requests] == ["finished"] * 2


def test_with_the_padding_row_everybody_recites_exactly(padded: dict[str, Served]) -> None:
    run = padded["padding row"]
    assert [req.output for req in run.requests] == [req.expected for req in run.requests]
    assert run.num_padded > 0 and not run.touched and not run.had_row_0


def test_without_it_owners_of_row_0_recite_wrongly_and_nobody_else(padded: dict[str, Served]) -> None:
    run = padded["no padding row"]
    assert run.wrong and run.wrong.keys() <= run.touched <= run.had_row_0 < {req.rid for req in run.requests}
    assert all(run.requests[int(rid)].output[1] == "·" for rid in run.wrong)


def test_a_graph_for_every_batch_size_hides_the_fault(padded: dict[str, Served]) -> None:
    run = padded["no padding row, full batches"]
    assert run.had_row_0 and not run.touched and not run.wrong and not run.num_padded


def test_steps_that_are_not_full_are_those_whose_batch_is_no_graph_size(padded: dict[str, Served]) -> None:
    for name in ("padding row", "no padding row"):
        run = padded[name]
        assert run.num_padded == sum(n for size, n in run.batches.items() if size not in (1, 2, 4, 8))


def test_with_reset_and_generation_check_everybody_recites_exactly(late: dict[str, Served]) -> None:
    run = late["reset and generation check"]
    assert [req.output for req in run.requests] == [req.expected for req in run.requests] and not run.touched
    assert run.num_retracted > 0 and {where for where, _ in run.landed} == {"between", "after"}


@pytest.mark.parametrize("guards", ["reset on reuse alone", "generation check alone"])
def test_one_safeguard_is_not_enough(late: dict[str, Served], guards: str) -> None:
    run = late[guards]
    assert run.wrong and len(run.touched) > len(run.wrong) == len(run.found)


def test_every_request_that_ends_or_is_retracted_leaves_a_late_step(late: dict[str, Served]) -> None:
    run = late["reset and generation check"]
    assert len(run.requests) <= sum(run.landed.values()) <= len(run.requests) + run.num_retracted


def test_two_runs_come_to_the_same(arrivals: Stream, padded: dict[str, Served], late: dict[str, Served]) -> None:
    first = Stream(arrivals.label, arrivals[:20])
    assert [came_to(run) for run in late_runs(first).values()] == [came_to(run) for run in late_runs(first).values()]
    assert came_to(padding_runs(arrivals)["no padding row"]) == came_to(padded["no padding row"])


def test_what_is_told_are_the_runs_own_numbers(padded: dict[str, Served], late: dict[str, Served]) -> None:
    for runs, told in (
        (padded, real_requests.told_of_padding(padded)),
        (late, real_requests.told_of_late(late)),
    ):
        label, *lines = told.splitlines()
        assert label.startswith(next(iter(runs.values())).label)
        for line, (name, run) in zip(lines, runs.items(), strict=True):
            said = f"{len(run.wrong)} recite" if run.wrong else "nobody recites wrongly"
            assert line.startswith(f"**{name}**: ") and said in line


def test_the_chart_has_a_square_and_a_sign_for_every_request(late: dict[str, Served]) -> None:
    marks = {name: run.marks for name, run in late.items()}
    (axes,) = charts.requests_hurt(marks).axes
    drawn = Counter({line.get_marker(): 0 for line in axes.lines})
    for line in axes.lines:
        drawn[line.get_marker()] += len(line.get_xdata())
    words = Counter(word for run in marks.values() for word in run)
    assert (drawn["o"], drawn["x"]) == (words["touched"], words["wrong"])
    assert sum(len(bars.get_paths()) for bars in axes.collections) == sum(words.values()) == 300
    assert [text.get_text() for text in axes.get_yticklabels() if text.get_text()] == list(marks)
    assert charts.svg(charts.requests_hurt(marks), "x") == charts.svg(charts.requests_hurt(marks), "x")
