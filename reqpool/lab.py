"""The live experiments: controls above, and below what they change.

    Lab            controls, a place for errors, a result; a change rebuilds the result in the kernel
    side_by_side   two players at the same step: broken and mended
    table_cost     chapter 01: size and context length against memory
    follow         chapter 00: from a request down to its K and V
    come_and_go    chapter 02: pool size, requests, order of reuse
    free_twice     chapter 02: the second free, broken and mended

A new trace goes to the player in one message; nothing here draws through an Output widget or a global figure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import ipywidgets as widgets
import torch

from reqpool import scenarios
from reqpool.faulty import FreedTwice
from reqpool.notebook import keys_stay_here, note, player, prose, showing_errors, text_box
from reqpool.player import Player
from reqpool.pool import Req, ReqToTokenPool
from reqpool.scenarios.alloc_free import ORDERS
from reqpool.trace import Trace, record
from reqpool.views import charts

WIDE = {"description_width": "10em"}


class Lab(widgets.VBox):
    """Controls and what they show. `rebuild` gets the controls' values by name, at the start and at every change."""

    def __init__(
        self, controls: dict[str, widgets.Widget], rebuild: Callable[..., None], shown: list[widgets.Widget]
    ) -> None:
        self.controls = controls
        self.error = text_box()
        self._rebuild = rebuild
        self.change = showing_errors(self.error)(self._change)
        for control in controls.values():
            control.observe(self.change, names="value")
        super().__init__([widgets.VBox(list(controls.values())), self.error, *shown, *keys_stay_here()])
        self.change()

    def _change(self, _: Any = None) -> None:
        self._rebuild(**{name: control.value for name, control in self.controls.items()})
        self.error.value = ""


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


def side_by_side(broken: Trace, mended: Trace, labels: tuple[str, str] = ("broken", "mended")) -> widgets.HBox:
    """Two players that move together; the browser sees to that, without the kernel."""
    group = uuid4().hex  # several notebooks share one page in JupyterLab: a number would not do
    pair = [player(trace, group=group) for trace in (broken, mended)]
    heads = [text_box(f"<strong>{prose(label)}</strong>") for label in labels]
    half = widgets.Layout(flex="1 1 28em", min_width="0", width="auto")
    columns = [widgets.VBox([head, one], layout=half) for head, one in zip(heads, pair, strict=True)]
    box = widgets.HBox(columns, layout=widgets.Layout(flex_flow="row wrap", width="100%"))
    box.players = pair
    return box


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
    return k, v


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
    """Requests arrive until rows run out, those that run end, those that waited try again."""
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
    freed = [event.rows[0] for event in trace if event.kind == "free"]
    given = [event.rows[0] for event in trace if event.kind == "alloc" and event.step == 2]
    waits = f"`None` for {', '.join(refused)}" if refused else "no request is refused"
    return f"{waits}. Rows come back in the order {freed} and are handed out again in the order {given}."


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
