"""The live experiments: controls above, and below what they change.

    Lab            controls, a place for errors, a result; a change rebuilds the result in the kernel
    table_cost     chapter 01: size and context length against memory
    follow         chapter 00: from a request down to its K and V
    come_and_go    chapter 02: pool size, requests, order of reuse
    free_twice     chapter 02: the second free, broken and mended
    two_halves     chapter 03: what the two fields of the reuse condition say, where results come at once and where late
    in_chunks      chapter 03: a long prompt fills its row chunk by chunk
    freed_between  chapter 03: the same with a row that is given back between the chunks, broken and mended
    waiting_times  chapter 03: chunk size against the time between tokens
    dummy_entries  chapter 04: a batch of fixed size, without a padding row and with one
    late_step      chapter 05: when a late write lands, and which safeguard saves that landing

A new trace goes to the player in one message; nothing here draws through an Output widget or a global figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from html import escape
from itertools import pairwise
from typing import Any

import ipywidgets as widgets
import torch

from reqpool import scenarios
from reqpool.exercises.telling import in_words
from reqpool.faulty import FreedBetweenChunks, FreedTwice
from reqpool.parts import (
    BAD,
    GOOD,
    TEXT,
    FramedPlayer,
    Pair,
    keys_stay_here,
    note,
    player,
    prose,
    showing_errors,
    side_by_side,
    text_box,
)
from reqpool.player import Player
from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.alloc_free import ORDERS
from reqpool.scenarios.chunks import asked
from reqpool.scenarios.dummies import first_cell, first_raise
from reqpool.scenarios.experiments import (
    LANDINGS,
    PADDING,
    PROMPTS,
    WRITES,
    LateRun,
    PaddingRun,
    Run,
    Safeguards,
    chunks,
    late,
    outcomes,
    owners,
    padding,
    verdicts,
)
from reqpool.scenarios.together import in_step, mark_wrong
from reqpool.serving.chunk_times import longest_wait, prefill_steps, time_to_first_token
from reqpool.serving.graph import carried
from reqpool.serving.recite import DUMMY
from reqpool.trace import Event, Trace, record
from reqpool.views import charts

WIDE = {"description_width": "10em"}


class Lab(widgets.VBox):
    """Controls and what they show. `rebuild` gets the controls' values by name, at the start and at every change.

    Args:
        columns: names of controls that stand beside each other where there is room; without it one below the other.
    """

    def __init__(
        self,
        controls: Mapping[str, widgets.ValueWidget],
        rebuild: Callable[..., None],
        shown: list[widgets.Widget],
        columns: Sequence[Sequence[str]] = (),
    ) -> None:
        self.controls = controls
        self.error = text_box()
        self._rebuild = rebuild
        self.change = showing_errors(self.error)(self._change)
        for control in controls.values():
            control.observe(self.change, names="value")
        super().__init__([_arranged(controls, columns), self.error, *shown, *keys_stay_here()])
        self.change()

    def _change(self, _: Any = None) -> None:
        self._rebuild(**{name: control.value for name, control in self.controls.items()})
        self.error.value = ""


def _arranged(controls: Mapping[str, widgets.ValueWidget], columns: Sequence[Sequence[str]]) -> widgets.Box:
    if not columns:
        return widgets.VBox(list(controls.values()))
    boxes = [widgets.VBox([controls[name] for name in names]) for names in columns]
    return widgets.HBox(boxes, layout=widgets.Layout(flex_flow="row wrap"))


def slider(label: str, value: int, low: int, high: int) -> widgets.IntSlider:
    return widgets.IntSlider(
        value=value, min=low, max=high, description=label, style=WIDE, continuous_update=False, layout=_wide()
    )


def choice(label: str, options: Any, value: Any) -> widgets.Dropdown:
    return widgets.Dropdown(options=options, value=value, description=label, style=WIDE, layout=_wide())


def scale(label: str, numbers: tuple[int, ...], value: int) -> widgets.SelectionSlider:
    options = [(f"{number:,}", number) for number in numbers]
    return widgets.SelectionSlider(
        options=options, value=value, description=label, style=WIDE, continuous_update=False, layout=_wide()
    )


def _wide() -> widgets.Layout:
    return widgets.Layout(width="30em", max_width="100%")


# ---- chapter 00 -----------------------------------------------------------------------------------------------------


def follow() -> Lab:
    """Two requests whose tokens lie between each other's; one token is followed from its request to its K and V."""
    trail, shown = text_box(), player(_two_requests(3, 2, 2)[0])
    built: dict[str, Any] = {}

    def rebuild(prompt_a: int, prompt_b: int, decoded: int, request: str, position: int) -> None:
        if built.get("for") != (prompt_a, prompt_b, decoded):
            built["trace"], built["reqs"], built["pool"] = _two_requests(prompt_a, prompt_b, decoded)
            built["for"] = (prompt_a, prompt_b, decoded)
            with shown.hold_sync():  # one message: the new trace, at its end
                shown.trace = built["trace"]
                if isinstance(shown, Player):
                    shown.step = len(built["trace"])
        trail.value = _trail(built["pool"], built["reqs"][request], position)

    controls = {
        "prompt_a": slider("prompt tokens of a", 3, 1, 4),
        "prompt_b": slider("prompt tokens of b", 2, 1, 4),
        "decoded": slider("decoded by each", 2, 0, 4),
        "request": choice("follow request", ["a", "b"], "a"),
        "position": slider("its position", 2, 0, 7),
    }
    return Lab(controls, rebuild, [trail, shown])


def _two_requests(prompt_a: int, prompt_b: int, decoded: int) -> tuple[Trace, dict[str, Req], ReqToTokenPool]:
    pool = ReqToTokenPool(2, 8, "cpu")
    reqs, slots = {rid: Req(rid) for rid in "ab"}, iter(range(1, 17))
    with record(pool) as trace:
        pool.alloc(list(reqs.values()))
        for rid, num_tokens in (("a", prompt_a), ("b", prompt_b), *[("a", 1), ("b", 1)] * decoded):
            pool.append(reqs[rid], [next(slots) for _ in range(num_tokens)])
    return trace, reqs, pool


def kv_cache(num_slots: int = 17, head_dim: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """A tiny K and a tiny V, [num_slots, head_dim] each, the same numbers every time; slot 0 is the dummy slot."""
    generator = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, num_slots, head_dim, generator=generator).round(decimals=1)
    k[0] = v[0] = 0
    return k + 0.0, v + 0.0  # rounding leaves minus zeros, which 0.0 makes plain


def _trail(pool: ReqToTokenPool, req: Req, position: int) -> str:
    row = req.req_pool_idx
    length = int(pool.alloced_lens_cpu[row])
    if position >= length:
        reason = (
            f"request {req.rid} has {length} tokens, at positions 0 to {length - 1}; position {position} holds none"
        )
        return note(f"{reason}: the length says so.")
    slot = int(pool.req_to_token[row, position])
    k, v = kv_cache()
    chain = [
        f"request <strong>{req.rid}</strong>",
        f"row <strong>{row}</strong>",
        f"position <strong>{position}</strong>",
        f"slot <strong>{slot}</strong>",
        f"K = {_numbers(k[slot])}, V = {_numbers(v[slot])}",
    ]
    return note(" → ".join(chain), "#009E73")


def _numbers(values: torch.Tensor) -> str:
    return "[" + ", ".join(f"{value:.1f}" for value in values.tolist()) + "]"


# ---- chapter 01 -----------------------------------------------------------------------------------------------------

SIZES = (8, 64, 256, 1000, 2048, 4096, 8192, 65536)
CONTEXTS = (64, 4096, 8192, 16384, 32768, 131072, 163840, 1048576, 10485760)


def table_cost(size: int = 256, max_context_len: int = 4096) -> Lab:
    """Two sliders, the memory of the table they make, and where real engines are. No such table is allocated."""
    picture, legend = text_box(), text_box()
    items = "".join(
        f"<li><strong>{mark.letter}</strong>: {mark.rows:,} × {mark.positions:,} × 4 B = "
        f"{charts.readable(mark.num_bytes)}. {mark.who}</li>"
        for mark in charts.REAL_TABLES
    )
    legend.value = f'<ul style="list-style: none; padding: 0; line-height: 1.5">{items}</ul>'

    def rebuild(size: int, max_context_len: int) -> None:
        sentence = cost_sentence(size, max_context_len)
        drawing = charts.svg(charts.table_memory(size, max_context_len), label=sentence.replace("**", ""))
        picture.value = (
            f'{note(prose(sentence))}<div style="max-width: 760px; '
            f'color: var(--jp-content-font-color1, inherit)">{drawing}</div>'
        )

    controls = {
        "size": scale("size (rows)", SIZES, size),
        "max_context_len": scale("max_context_len", CONTEXTS, max_context_len),
    }
    return Lab(controls, rebuild, [picture, legend])


def cost_sentence(size: int, max_context_len: int) -> str:
    num_bytes = charts.table_bytes(size, max_context_len)
    cells = num_bytes // charts.CELL_BYTES
    flat = "more than" if cells > charts.INT32_CELLS else "within"
    return (
        f"({size:,} + 1) rows × {max_context_len:,} positions × 4 B = **{charts.readable(num_bytes)}**; "
        f"{cells:,} cells, {flat} the 2³¹ that a flat int32 index reaches."
    )


# ---- chapter 02 -----------------------------------------------------------------------------------------------------


def come_and_go() -> Lab:
    """Requests arrive until rows run out, those that run end, those that waited try again, or else one more comes."""
    shown, told = player(scenarios.come_and_go(3, 5)), text_box()

    def rebuild(size: int, num_requests: int, reuse: str, frees: str) -> None:
        trace = scenarios.come_and_go(size, num_requests, reuse, frees)
        told.value = note(prose(_come_and_go_sentence(trace)))
        shown.trace = trace

    controls = {
        "size": slider("size (rows)", 3, 1, 6),
        "num_requests": slider("requests", 5, 1, 8),
        "reuse": choice("reuse", ["fifo", "lifo"], "fifo"),
        "frees": choice("who ends first", list(ORDERS), ORDERS[0]),
    }
    return Lab(controls, rebuild, [told, shown])


def _come_and_go_sentence(trace: Trace) -> str:
    refused = [event.rids[0] for event in trace if event.kind == "refuse" and event.step == 0]
    freed = [(event.rows[0], event.rids[0]) for event in trace if event.kind == "free"]
    given = [(event.rows[0], event.rids[0]) for event in trace if event.kind == "alloc" and event.step == 2]
    back = f"Rows come back in the order {[row for row, _ in freed]}"
    if not refused:
        ((row, who),) = given
        had = dict(freed).get(row)
        before = f"which {had} had before" if had else "which nobody has had"
        return (
            f"No request is refused. {back}. Nobody waits, so one more request comes: {who} takes row {row}, {before}."
        )
    rows, who, still = [row for row, _ in given], in_words([rid for _, rid in given]), refused[len(given) :]
    got = (
        f"Those who waited, {who}, get the rows {rows}"
        if given[1:]
        else f"Request {who}, who waited, gets row {rows[0]}"
    )
    left = f"; {in_words(still)} still {'wait' if still[1:] else 'waits'}" if still else ""
    return f"`None` for {in_words(refused)}. {back}. {got}{left}."


def free_twice() -> Lab:
    """The same second free on a pool that takes back whatever it is told, and on the real one."""
    pair = side_by_side(
        scenarios.free_twice(FreedTwice), scenarios.free_twice(), ("broken: `FreedTwice`", "mended: `ReqToTokenPool`")
    )
    told = text_box()

    def rebuild(size: int, reuse: str) -> None:
        broken, mended = (scenarios.free_twice(kind, reuse, size) for kind in (FreedTwice, ReqToTokenPool))
        told.value = note(prose(_free_twice_sentence(broken, mended)))
        for one, trace in zip(pair.players, (broken, mended), strict=True):
            one.trace = trace

    controls = {"size": slider("size (rows)", 2, 1, 4), "reuse": choice("reuse", ["fifo", "lifo"], "fifo")}
    return Lab(controls, rebuild, [told, pair])


def _free_twice_sentence(broken: Trace, mended: Trace) -> str:
    owners = broken.snapshot(len(broken)).owners
    shared = [
        f"row {row} has the owners {' and '.join(map(str, rids))}" for row, rids in owners.items() if len(rids) > 1
    ]
    refused = next(event.text for event in mended if event.kind == "refuse")
    return f"Broken, at the end: {'; '.join(shared) or 'no row has two owners'}. Mended: `{refused}`."


# ---- chapter 03 -----------------------------------------------------------------------------------------------------

RIDS = ("short", "long", "other")
NUMBER = "padding: 1px 7px; text-align: right"


def two_halves() -> widgets.HTML:
    """What `alloc` sees before the second and the third of three chunks; a 0 is where that half alone would refuse."""
    groups = "".join(
        f'<th scope="colgroup" colspan="2" style="{NUMBER}">{head}</th>'
        for head in ("at the second chunk", "at the third, the last")
    )
    left = "".join(
        f'<th scope="col" rowspan="2" style="{NUMBER}; text-align: left">{head}</th>'
        for head in ("results come", "committed moves")
    )
    names = "".join(f'<th scope="col" style="{NUMBER}">{name}</th>' for name in ("counter", "committed") * 2)
    rows = "".join(_halves_row(late, moves) for late in (False, True) for moves in ("launch", "result"))
    caption = "What the two fields say when <code>alloc</code> is asked; <strong>✗ 0</strong>: this half alone refuses"
    return text_box(
        f'<div style="overflow-x: auto"><table style="border-collapse: collapse; {TEXT}">'
        f'<caption style="text-align: left; caption-side: top">{caption}</caption>'
        f"<thead><tr>{left}{groups}</tr><tr>{names}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _halves_row(late: bool, moves: str) -> str:
    style, zero = f"{NUMBER}; text-align: left; font-weight: normal", "<strong>✗ 0</strong>"
    heads = ("late" if late else "at once", f"at the {moves}")
    left = "".join(f'<th scope="row" style="{style}">{head}</th>' for head in heads)
    numbers = [n for one in asked(3, 4, late, moves) for n in (one.inflight_middle_chunks, one.kv_committed_len)]
    cells = "".join(f'<td style="{NUMBER}">{n or zero}</td>' for n in numbers)
    return f"<tr>{left}{cells}</tr>"


def in_chunks() -> Lab:
    """A short request runs, a long prompt comes in chunks, another short one comes meanwhile: nothing is broken."""
    told, shown = text_box(), player(chunks(12, 4, 8).trace)

    def rebuild(prompt_len: int, chunk_size: int, budget: int, mixed: bool) -> None:
        trace = chunks(prompt_len, chunk_size, budget, mixed).trace
        told.value = f"{note(prose(_in_chunks_sentence(trace)))}{plan_table(trace, budget)}"
        shown.trace = trace

    return Lab(_chunk_controls(12, 4), rebuild, [told, shown])


def _chunk_controls(prompt_len: int, chunk_size: int) -> dict[str, widgets.ValueWidget]:
    return {
        "prompt_len": slider("long prompt", prompt_len, 1, 20),
        "chunk_size": slider("chunk size", chunk_size, 1, 20),
        "budget": slider("budget (tokens)", 8, 2, 24),
        "mixed": choice(
            "prefill and decode", [("mixed in one engine step", True), ("in separate engine steps", False)], True
        ),
    }


def plan(trace: Trace) -> list[dict[str, int]]:
    """What each engine step computes: tokens by rid."""
    steps: dict[int, dict[str, int]] = {}
    for event in trace:
        if event.kind == "append":
            steps.setdefault(event.step, {})[event.rid or ""] = len(event.change.cells)
    return [steps.get(step, {}) for step in range(1, max(steps) + 1)]


def plan_table(trace: Trace, budget: int) -> str:
    """The plan as an HTML table; prompt tokens in bold, because colour alone says nothing."""
    steps, prefilled = plan(trace), _prefill_steps(trace)
    head = "".join(f'<th scope="col" style="{NUMBER}">{step}</th>' for step in range(1, len(steps) + 1))
    rows = []
    for rid in RIDS:
        cells = "".join(
            _plan_cell(step.get(rid, 0), (rid, number) in prefilled) for number, step in enumerate(steps, 1)
        )
        rows.append(f'<tr><th scope="row" style="{NUMBER}; text-align: left">{rid}</th>{cells}</tr>')
    sums = "".join(f'<td style="{NUMBER}">{sum(step.values())}</td>' for step in steps)
    rows.append(f'<tr><th scope="row" style="{NUMBER}; text-align: left">used, of {budget}</th>{sums}</tr>')
    caption = "Tokens in each engine step; <strong>bold</strong>: of a prompt, plain: decoded"
    return (
        f'<div style="overflow-x: auto"><table style="border-collapse: collapse; {TEXT}">'
        f'<caption style="text-align: left; white-space: nowrap">{caption}</caption>'
        f'<thead><tr><th scope="col" style="{NUMBER}; text-align: left">engine step</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _plan_cell(num_tokens: int, prefill: bool) -> str:
    if not num_tokens:
        return f'<td style="{NUMBER}"></td>'
    return f'<td style="{NUMBER}">{f"<strong>{num_tokens}</strong>" if prefill else num_tokens}</td>'


def _prefill_steps(trace: Trace) -> set[tuple[str, int]]:
    """(rid, engine step) of prompt chunks: those for which `alloc` is asked."""
    return {(rid, event.step) for event in trace if event.kind in ("alloc", "keep") for rid in event.rids if rid}


def _in_chunks_sentence(trace: Trace) -> str:
    pieces = [step["long"] for number, step in enumerate(plan(trace), 1) if ("long", number) in _prefill_steps(trace)]
    gaps = _steps_between_letters(trace, "short")
    row = next(row for event in trace for rid, row in zip(event.rids, event.rows, strict=False) if rid == "long")
    several = f"{len(pieces)} chunks, {' + '.join(map(str, pieces))} tokens" if len(pieces) > 1 else "one chunk"
    return (
        f"Request long is prefilled in {several}, all in row {row}. Request short waits at most "
        f"{_count(max(gaps), 'engine step')} for its next letter."
    )


def _steps_between_letters(trace: Trace, rid: str) -> list[int]:
    first_seen: dict[int, int] = {}  # number of letters -> step
    for event in trace:
        for label, text, _ in dict(event.facts).get("texts", ()):
            if label == rid:
                first_seen.setdefault(len(text), event.step)
    return [after - before for before, after in pairwise(first_seen.values())]


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def freed_between() -> Lab:
    """The same requests where a row is given back between two chunks, and where it is kept."""
    told, controls = text_box(), _chunk_controls(7, 3)  # a table that fits beside another one
    pair = side_by_side(*_freed_between(*(one.value for one in controls.values()))[1:], BROKEN_CHUNKS)

    def rebuild(prompt_len: int, chunk_size: int, budget: int, mixed: bool) -> None:
        run, broken, mended = _freed_between(prompt_len, chunk_size, budget, mixed)
        told.value = note("<br>".join(map(prose, freed_between_sentences(run))))
        for one, trace in zip(pair.players, (broken, mended), strict=True):
            one.trace = trace

    return Lab(controls, rebuild, [told, pair])


BROKEN_CHUNKS = ("broken: `FreedBetweenChunks`", "mended: `ReqToTokenPool`")


def _freed_between(*settings: Any) -> tuple[Run, Trace, Trace]:
    run = chunks(*settings, freed_between=True)
    broken, mended = in_step(run.trace, chunks(*settings).trace)
    return run, mark_wrong(broken, mended), mended


def freed_between_sentences(run: Run) -> list[str]:
    """For each request that recites wrongly in the broken run: the chain from its rows to the wrong letter."""
    nobody = "Nobody recites wrongly: no prompt came in more than one chunk, so no row was given back between two."
    return [_chain(run, rid) for rid in run.wrong] or [nobody]


def _chain(run: Run, rid: str) -> str:
    asked = {step for who, step in _prefill_steps(run.trace) if who == rid}
    pieces = [
        event.change.cells for event in run.trace if event.kind == "append" and event.rid == rid and event.step in asked
    ]
    *lost, last = pieces
    slots = [cell[3] for cells in lost for cell in cells]
    row, first, num_last = last[0][0], last[0][1], len(last)
    rows = [str(cells[0][0]) for cells in pieces]
    given = f"row {', then row '.join(rows)}" if len(rows) <= 4 else f"a new row for each of its {len(rows)} chunks"
    nothing = f" (`{DUMMY}`: nothing found)" if DUMMY in run.recited[rid] else ""
    lies = f"its first {_count(len(slots), 'token')} are in KV slots" if slots[1:] else "its first token are in KV slot"
    return (
        f"Request **{rid}** gets {given}. A new row starts at verified length 0, so its last chunk stands at "
        f"{_positions(first, num_last)} of row {row}, not at {_positions(len(slots), num_last)}. The K and V of {lies} "
        f"{spans(slots)}, which no live cell of row {row} names. "
        f"It recites `{run.recited[rid]}`{nothing}, expected `{run.expected[rid]}`."
    )


def _positions(first: int, n: int) -> str:
    return f"position{'' if n == 1 else 's'} {spans(list(range(first, first + n)))}"


def spans(numbers: list[int]) -> str:
    """
    >>> spans([5, 6, 7, 8, 10, 12, 13]), spans([1, 2])
    ('5 to 8, 10, 12 and 13', '1 and 2')
    """
    ends = [i for i, n in enumerate(numbers) if numbers[i + 1 : i + 2] != [n + 1]]
    starts = [0, *(i + 1 for i in ends[:-1])]
    runs = [numbers[start : end + 1] for start, end in zip(starts, ends, strict=True)]
    said = [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    return in_words(said)


def read_while_freed() -> Pair:
    """The race: the forward step reads a row that was given back and handed out again meanwhile."""
    broken, mended = (scenarios.row_read_while_freed(kind) for kind in (FreedBetweenChunks, ReqToTokenPool))
    return side_by_side(*in_step(broken, mended), BROKEN_CHUNKS)


def waiting_times(prompt_len: int = 8192, chunk_size: int = 512, num_running: int = 8) -> Lab:
    """Chunk size against the time between two tokens of the others, by the clock of `step_seconds`."""
    picture = text_box()

    def rebuild(prompt_len: int, chunk_size: int, num_running: int) -> None:
        sentence = waiting_sentence(prompt_len, chunk_size, num_running)
        drawing = charts.svg(
            charts.waiting_times(prompt_len, chunk_size, num_running), label=sentence.replace("**", "")
        )
        picture.value = (
            f'{note(prose(sentence))}<div style="max-width: 760px; '
            f'color: var(--jp-content-font-color1, inherit)">{drawing}</div>'
        )

    controls = {
        "prompt_len": scale("long prompt", (512, 1024, 2048, 4096, 8192, 16384), prompt_len),
        "chunk_size": scale("chunk size", charts.CHUNK_SIZES, chunk_size),
        "num_running": slider("running requests", num_running, 1, 64),
    }
    return Lab(controls, rebuild, [picture])


def waiting_sentence(prompt_len: int, chunk_size: int, num_running: int) -> str:
    mixed, apart = (prefill_steps(prompt_len, chunk_size, num_running, how) for how in (True, False))
    return (
        f"{_count(len(mixed) - 1, 'chunk')}. A running request waits at most **{longest_wait(mixed):.1f} ms** for its "
        f"next token when prefill and decode are mixed, {longest_wait(apart):.1f} ms when they are not; the long "
        f"prompt's first token comes after **{time_to_first_token(mixed):.1f} ms**."
    )


# ---- chapter 04 -----------------------------------------------------------------------------------------------------

OFF = "off: row 0 is a request's"
CELL, NOBODY = "padding: 2px 14px 2px 0; text-align: left; vertical-align: top", "no damage"


def dummy_entries() -> Lab:
    """Live requests in a batch of fixed size, without a padding row and with one: who recites wrongly, and why."""
    pair = side_by_side(padding(OFF).trace, padding().trace, ("", ""))
    below = [text_box(), text_box()]
    for column, text in zip(pair.columns, below, strict=True):
        column.children = (*column.children, text)
    told, table = text_box(), text_box()

    def rebuild(live: int, graph_size: int, where: str, writes: str) -> None:
        told.value = note(prose(_batch_sentence(live, graph_size)))
        live = min(live, graph_size)  # a graph of two has room for two
        runs = [_padding_run(side, live, graph_size, writes) for side in (OFF, where)]
        names = ("no padding row: the dummies point at row 0, which is a's", f"the dummies point at: {where}")
        for head, name, text, run in zip(pair.heads, names, below, runs, strict=True):
            head.value = f"<strong>{prose(name)}</strong>"
            text.value = _run_text(run, writes)
        show_pair(pair, [run.trace for run in runs], telling_step(runs[0].trace))
        table.value = _verdict_table(live, graph_size, writes, where)

    controls = {
        "live": slider("live requests", 2, 1, 4),
        "graph_size": scale("graph size", (2, 4, 8), 4),
        "where": choice(
            "dummies point at", [where for where in PADDING if where != OFF], "last row"
        ),  # a in row 0, too
        "writes": choice("the step writes", list(WRITES), "the cell [row, seq_len - 1] (LightLLM)"),
    }
    return Lab(controls, rebuild, [told, pair, table])


def _batch_sentence(live: int, graph_size: int) -> str:
    played = min(live, graph_size)
    dummies = graph_size - played
    entries = "no dummy entry" if not dummies else "1 dummy entry" if dummies == 1 else f"{dummies} dummy entries"
    capped = f" Of the {live} that you chose only {played} fit in this graph." if played < live else ""
    return f"{_count(played, 'live request')} in a graph of {graph_size}: {entries}.{capped}"


@lru_cache(maxsize=128)
def _padding_run(where: str, live: int, graph_size: int, writes: str) -> PaddingRun:
    return padding(where, live, graph_size, **WRITES[writes])


def show_pair(pair: Pair, traces: Sequence[Trace], step: int) -> Pair:
    """Two traces side by side, both at this step; framed players begin at the start."""
    for one, trace in zip(pair.players, traces, strict=True):
        if isinstance(one, Player):
            with one.hold_sync():  # one message: the new trace, at its step
                one.trace, one.step = trace, min(step, len(trace))
        else:
            one.trace = trace
    return pair


def telling_step(trace: Trace) -> int:
    """The player's step at which the first wrong letter is heard, else that at which the first decode step is done."""
    heard = [k for k, event in enumerate(trace, start=1) if event.text.startswith("engine step ")]
    wrong = [k for k in heard if trace[k - 1].text.endswith("wrong)")]
    return (wrong or heard[1:])[0]


def _run_text(run: PaddingRun, writes: str) -> str:
    said = f"{prose(touched(run, writes))}<br>{prose(cause(run))}{recital(run)}"
    return note(said, BAD if run.wrong else GOOD)


def touched(run: PaddingRun, writes: str) -> str:
    """What the dummy entries of every step touch: cells, slots, lengths, and whose row it is."""
    if not run.dummies:
        return "The batch is full: there is no dummy entry."
    ((row, length, slot), num), *_ = run.dummies.items()
    owners = {rid for k in range(len(run.trace)) for rid in run.trace.snapshot(k).owners.get(row, ()) if rid}
    whose = f"request {min(owners)}'s" if owners else "nobody's"
    cell = (
        f"the cell of row {row}, position {length - 1} (slot {slot})" if WRITES[writes]["writes"] == "cell" else "none"
    )
    raised = first_raise(run.trace)
    rises = "row {1}'s, from {2} to {3} in engine step {0}".format(*raised) if raised else "none"
    return f"{carried(num, row, length, slot)}. Cells written: {cell}. Lengths raised: {rises}. Row {row} is {whose}."


def cause(run: PaddingRun) -> str:
    """Why the first wrong letter is wrong: the cell or the length, the slot, the position. Looked up in the trace."""
    if not run.wrong:
        return "**Nobody recites wrongly.**"
    (rid, (letter, *_)), *_ = run.wrong.items()
    at = f"letter {letter + 1}, in engine step {letter + 1}"
    end = f"**{rid} recites {run.recited[rid][letter]} instead of {run.expected[rid][letter]}** ({at})."
    if cell := first_cell(run.trace):
        step, row, position, before, after = cell
        odd = " (torch takes the last slot for it)" if after < 0 else ""
        return (
            f"Engine step {step}: the cell of row {row}, position {position} said slot {before}, where K and V of "
            f"request {rid} lie; the dummy entries made it slot {after}. Request {rid} looks for its letter "
            f"{letter + 1} at position {position}, is led to slot {after}{odd}, and {end}"
        )
    raised = first_raise(run.trace)
    if raised is None:
        raise RuntimeError("letters are wrong, and the dummy entries changed no cell and no length")
    step, row, before, after = raised
    slot = next(int(run.trace.snapshot(k).table[row, after]) for k, event in enumerate(run.trace) if event.step > step)
    sought = after + 1 - len(PROMPTS[rid])
    return (
        f"Engine step {step}: the verified length of row {row} went from {before} to {after}, and {before + 1} is "
        f"right. In engine step {step + 1} request {rid} starts at position {after}: its K and V go to the slot that "
        f"stands there ({'0, the dummy slot: nobody has written that cell' if slot == 0 else slot}), and it looks for "
        f"its letter {letter + 1} at position {sought}, not {letter}: {end}"
    )


def recital(run: Run) -> str:
    """What every request recited, wrong letters marked, beside what it should have."""
    rows = []
    for rid, text in run.recited.items():
        wrong = run.wrong.get(rid, [])
        letters = "".join(_wrong_letter(letter) if i in wrong else escape(letter) for i, letter in enumerate(text))
        verdict = f"wrong: {_letters(wrong)}, wanted <code>{run.expected[rid]}</code>" if wrong else "right"
        rows.append(
            f'<tr><th scope="row" style="{CELL}">{escape(rid)} recites</th>'
            f'<td style="{CELL}"><code>{letters}</code></td><td style="{CELL}">{verdict}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _wrong_letter(letter: str) -> str:
    style = f"color: inherit; background: none; font-weight: bold; text-decoration: underline wavy {BAD}"
    return f'<mark data-wrong style="{style}">{escape(letter)}</mark>'


def _letters(indices: list[int]) -> str:
    return f"letter{'s' if len(indices) > 1 else ''} {', '.join(str(i + 1) for i in indices)}"


def _verdict_table(live: int, graph_size: int, writes: str, where: str) -> str:
    """All that a step can write for dummies, against all places they can point at: each cell is a run of its own."""
    found = verdicts(live, graph_size)
    shown = {(writes, OFF), (writes, where)}
    head = "".join(f'<th scope="col" style="{CELL}">{escape(place)}</th>' for place in PADDING)
    rows = "".join(
        f'<tr><th scope="row" style="{CELL}">{escape(kind)}</th>'
        + "".join(_verdict(found[kind, place], (kind, place) in shown) for place in PADDING)
        + "</tr>"
        for kind in WRITES
    )
    title = f"{live} live in a graph of {graph_size}: who recites wrongly (bold: the two that play above)"
    caption = f'<caption style="text-align: left; caption-side: top">{title}</caption>'
    corner = f'<th scope="col" style="{CELL}">the step writes for its dummies</th>'
    return f'<div style="overflow-x: auto"><table>{caption}<tr>{corner}{head}</tr>{rows}</table></div>'


def _verdict(wrong: dict[str, list[int]], shown: bool) -> str:
    said = "; ".join(f"{rid} wrong from letter {indices[0] + 1} on" for rid, indices in wrong.items()) or NOBODY
    colour = f"; border-left: 4px solid {BAD if wrong else GOOD}; padding-left: 6px"
    return f'<td style="{CELL}{colour}{"; font-weight: bold" if shown else ""}">{said}</td>'


# ---- chapter 05 -----------------------------------------------------------------------------------------------------

SAFEGUARDS = ("reset on reuse", "generation check", "fence")  # as in `Safeguards`
HEADS = ("no safeguard", "with your safeguards")
PLAYED = ("your run", "the run with no safeguard", "both")


def late_step(landing: int = 1, reset: bool = True, generation: bool = False, fence: bool = False) -> Lab:
    """A forward step that lands late: without a safeguard, with yours, and the outcomes of all of them.

    One player at a time unless both are asked for: the table above it and the player then fit in one look.
    """
    bare = _late(landing, reset=False)
    strip, told, place = text_box(), text_box(), widgets.VBox()
    alone, pair = player(bare.trace), late_beside(bare, bare, HEADS)

    def rebuild(
        landing: int, late_len: int, reset: bool, generation: bool, fence: bool, reuse: str, size: int, played: str
    ) -> None:
        chosen = (reset, generation, fence)
        runs = [_late(landing, late_len, *guards, reuse, size) for guards in ((False, False, False), chosen)]
        both = list(zip(HEADS, runs, strict=True))
        shown = both if played == "both" and any(chosen) else both[:1] if played == PLAYED[1] else both[1:]
        told.value = "".join(_late_text(head, run) for head, run in shown)
        _play_late(pair.players if shown == both else [alone], [run for _, run in shown])
        now = (pair if shown == both else alone,)
        if place.children != now:
            place.children = now
        strip.value = outcome_strip(landing, late_len, chosen, reuse, size)  # last: a new one is twelve runs

    controls = {
        "landing": stages("the late write lands", LANDINGS, landing),
        "late_len": slider("late step, tokens", 8, 1, 12),
        "reset": switch(SAFEGUARDS[0], reset),
        "generation": switch(SAFEGUARDS[1], generation),
        "fence": switch("fence: free waits for the step", fence),
        "reuse": choice("order of reuse", ["fifo", "lifo"], "fifo"),
        "size": slider("pool size (rows)", 3, 2, 5),
        "played": choice("play", list(PLAYED), PLAYED[0]),
    }
    columns = (("landing", "late_len", "reuse", "size"), ("reset", "generation", "fence", "played"))
    return Lab(controls, rebuild, [strip, told, place], columns)


def stages(label: str, words: tuple[str, ...], value: int) -> widgets.SelectionSlider:
    """A slider over things that have names and an order, which is told from 1."""
    return widgets.SelectionSlider(
        options=[(f"{i + 1}. {word}", i) for i, word in enumerate(words)],
        value=value,
        description=label,
        style=WIDE,
        continuous_update=False,
        layout=widgets.Layout(width="38em", max_width="100%"),
    )


def switch(label: str, value: bool) -> widgets.Checkbox:
    return widgets.Checkbox(value=value, description=label, style=WIDE, layout=_wide())


_late = lru_cache(maxsize=32)(late)  # one side stays what it was while the other changes


def late_beside(left: LateRun, right: LateRun, labels: tuple[str, str]) -> Pair:
    """Two runs of the late step at the same moment: when the write lands in the first."""
    pair = side_by_side(left.trace, right.trace, labels)
    for column in pair.columns:
        column.layout.flex = "1 1 50em"  # 24 positions want room: one above the other unless the screen is wide
    _play_late(pair.players, [left, right])
    return pair


def _play_late(players: Sequence[Player | FramedPlayer], runs: Sequence[LateRun]) -> None:
    """Each run in its player, at the moment when the write lands in the first; two have equally many steps."""
    traces = in_step(*(run.trace for run in runs)) if len(runs) > 1 else [run.trace for run in runs]
    lands = (k for k, event in enumerate(traces[0], start=1) if event.rid == "a" and _in_forward_lane(event))
    step = next(lands, 0)
    for one, trace in zip(players, traces, strict=True):
        with one.hold_sync():  # one message: the new trace, at the landing
            one.trace = trace
            if isinstance(one, Player):
                one.step = step


def _in_forward_lane(event: Event) -> bool:
    """Of request a's events only the landing is, or the news that the check has dropped it."""
    return dict(event.facts).get("lane") == "forward"


def _late_text(head: str, run: LateRun) -> str:
    chain = f"<br>The chain: {prose(run.chain)}." if run.chain else ""
    who = " and ".join(sorted(run.wrong))
    verdict = f"{who} recite{'' if len(run.wrong) > 1 else 's'} wrongly" if run.wrong else "nobody recites wrongly"
    return note(
        f"<strong>{prose(head)}: {verdict}.</strong> {found_by(run)}{chain}{recital(run)}", BAD if run.wrong else GOOD
    )


def found_by(run: LateRun) -> str:
    """Whose row the late step finds."""
    if run.owner is None:
        return f"The late write never lands: the generation check drops it, since row {run.row} was handed out again."
    whose = "free" if run.owner == "" else f"{run.owner}'s{' by now' if run.reused else ', who launched it'}"
    return f"When the late write lands, row {run.row} is {whose}."


UNSEEN = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap"


def outcome_strip(landing: int, late_len: int, chosen: Safeguards, reuse: str, size: int) -> str:
    """Who recites wrongly: every landing time against every combination of safeguards, each cell computed.

    With the fence every combination is one run, that of a write before the free, and so one line of the table.
    """
    found, cell = outcomes(late_len, reuse, size), "padding: 2px 6px; text-align: left; vertical-align: top"
    whose = [f"row 1: {f'{owner}&#x27;s' if owner else 'free'}" for owner in owners(late_len, reuse, size)]
    times = "".join(
        f'<th scope="col" style="{cell}; font-weight: normal">{i}. {escape(word)}<br><em>{who}</em></th>'
        for i, (word, who) in enumerate(zip(LANDINGS, whose, strict=True), start=1)
    )
    lines = {
        "none": (False, False, False),
        "reset": (True, False, False),
        "check": (False, True, False),
        "reset and check": (True, True, False),
        "fence, with or without others": (False, False, True),
    }
    yours = (False, False, True) if chosen[2] else chosen
    rows = "".join(
        f'<tr><th scope="row" style="{cell}">{name}</th>'
        + "".join(_outcome(who, cell, at == landing and guards == yours) for at, who in enumerate(found[guards]))
        + "</tr>"
        for name, guards in lines.items()
    )
    title = f"Who recites wrongly: late step of {late_len}, {reuse}, {_count(size, 'row')}. In the frame: your run"
    return (
        f'<div style="overflow-x: auto; width: 0; min-width: 100%">'
        f'<table data-strip style="border-collapse: collapse; table-layout: fixed; width: 51em; {TEXT}; '
        f'max-width: none; line-height: 1.35">'
        f'<caption style="text-align: left; caption-side: top; padding: 6px 0">{title}</caption>'
        f'<tr><th scope="col" style="{cell}; width: 10em">safeguards</th>{times}</tr>{rows}</table></div>'
    )


def _outcome(who: str, cell: str, yours: bool) -> str:
    """A cross and who, or a hook: a word, a mark and a colour say the same; yours has a frame, and a word not seen."""
    wrong = who != "nobody"
    said = f"✗ {escape(who)}" if wrong else "✓ nobody"
    style = f"{cell}; position: relative; border-left: 4px solid {BAD if wrong else GOOD}"
    bold = "; font-weight: bold" if wrong else ""
    if not yours:
        return f'<td style="{style}{bold}">{said}</td>'
    frame = "; outline: 2px solid; outline-offset: -2px"
    return f'<td aria-current="true" style="{style}{bold}{frame}">{said}<span style="{UNSEEN}"> (yours)</span></td>'
