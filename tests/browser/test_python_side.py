"""What the player promises on the Python side; what it draws is in test_page.py and test_lab.py."""

import dataclasses
import re

import pytest
import torch
import traitlets
from IPython.display import HTML

from reqpool.player import Player, show
from reqpool.player.assets import ESM
from reqpool.player.page import to_fragment, to_frame, to_html
from reqpool.player.tape import encode, tape
from reqpool.pool import Req, ReqToTokenPool
from reqpool.trace import Trace, record
from reqpool.views.theme import OWNER_COLOURS
from tests.browser.stories import SCRIPT, busy, story


def test_a_thousand_events_on_64_x_256_fit_in_100_kb() -> None:
    assert len(encode(busy(64, 256, 1000))) <= 100_000


def reciting(rows: int, columns: int, events: int) -> Trace:
    """The same, and each event tells its lane, what all requests have recited by then, and what is wrong in it."""
    trace, texts = busy(rows, columns, events), [""] * rows
    for k, event in enumerate(trace.events):
        which = k % rows
        texts[which] = (texts[which] + chr(97 + k % 26) * 5)[:columns]
        said = tuple((f"r{i}", text, tuple(range(0, len(text), 9))) for i, text in enumerate(texts))
        facts = (("texts", said), ("lane", ("schedule", "forward")[k % 2]), ("wrong", ((1, k % columns),)))
        trace.events[k] = dataclasses.replace(event, facts=event.facts + facts)
    return trace


def test_a_thousand_events_on_64_x_256_fit_in_100_kb_with_everything_they_can_tell() -> None:
    assert len(encode(reciting(64, 256, 1000))) <= 100_000


def with_fact(**facts: object) -> Trace:
    pool = ReqToTokenPool(2, 4, device="cpu")
    with record(pool) as trace:
        pool.alloc_rows(1)
        trace.emit("note", text="a fact", **facts)
    return trace


def test_only_lines_that_changed_are_on_the_tape() -> None:
    pool = ReqToTokenPool(2, 4, device="cpu")
    with record(pool) as trace:
        for said in ((), ("x", ()), ("x", ()), ("xy", (1,))):
            trace.emit("note", text="a text", texts=[("a", "", ()), *([("b", *said)] if said else [])])
    assert [event.get("texts") for event in tape(trace)["events"]] == [
        [1, [0, "a", 0, "", []]],
        [2, [1, "b", 0, "x", []]],
        None,
        [2, [1, "b", 1, "y", [1]]],
    ]


@pytest.mark.parametrize(
    "facts",
    [
        {"wrong": [(3, 0)]},
        {"wrong": [(1, 4)]},
        {"wrong": [(-1, 0)]},
        {"wrong": [1, 2]},
        {"wrong": 7},
        {"lane": "sideways"},
        {"lane": ["forward"]},
        {"texts": "abc"},
        {"texts": [("a", "abc")]},
        {"texts": [("a", "abc", (3,))]},
        {"texts": [("a", "abc", ("b",))]},
        {"texts": [("a", 7, ())]},
        {"texts": [(None, "abc", ())]},
        {"texts": 7},
    ],
)
def test_a_fact_that_cannot_be_drawn_is_refused_by_name(facts: dict) -> None:
    (name,) = facts
    with pytest.raises(ValueError, match=f"^event 2: {name}=.* cannot be drawn, wanted "):
        encode(with_fact(**facts))
    player = Player(story())
    with pytest.raises(ValueError, match="cannot be drawn"):
        player.trace = with_fact(**facts)
    assert len(player.trace) == 13, "nothing has changed"


def test_a_frame_wants_no_label_or_one_for_each() -> None:
    assert to_frame(story()).count("&lt;section&gt;") == 1
    assert to_frame([story(), story()], ("<b>x</b>", "y")).count("&lt;section&gt;") == 2
    with pytest.raises(ValueError, match="1 labels for 2 traces, wanted none or one for each"):
        to_frame([story(), story()], ["x"])


def test_encoding_leaves_torch_its_threads() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    encode(busy(200, 200, 9))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)


def test_equal_traces_give_equal_tapes_and_pages() -> None:
    assert encode(story()) == encode(story())
    assert to_html(story()) == to_html(story())


def test_the_tape_leaves_out_what_an_event_has_not() -> None:
    refusal = next(event for event in tape(story())["events"] if event["kind"] == "refuse")
    assert set(refusal) == {"kind", "rid", "rows"}


def test_nothing_of_a_trace_is_in_the_page_as_it_is() -> None:
    pool = ReqToTokenPool(1, 2, device="cpu")
    with record(pool) as trace:
        pool.alloc([Req(SCRIPT + '"</script>')])
    page = to_html(trace, title="</title><script>")
    assert SCRIPT not in page
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in page
    assert page.count("</script>") == 1


def test_the_page_names_no_other_host() -> None:
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", re.sub(r'data-tape="[^"]*"', "", to_html(story())))
    assert set(addresses) <= {"http://www.w3.org"}, "a namespace is no address"


def test_the_palette_is_the_theme_s() -> None:
    hues = re.findall(r'"(\d+ \d+ \d+)"', ESM.split("HUES = ")[1].split("];")[0])
    assert ["#" + "".join(f"{int(part):02X}" for part in hue.split()) for hue in hues] == list(OWNER_COLOURS)


@pytest.mark.parametrize("step", [-1, 14])
def test_a_step_that_is_not_there_is_refused(step: int) -> None:
    player = Player(story(), step=3)
    with pytest.raises(traitlets.TraitError, match=f"step {step} does not exist: this trace has steps 0 to 13"):
        player.step = step
    assert player.step == 3


@pytest.mark.parametrize("trace", [None, "a trace", [1, 2]])
def test_only_a_trace_can_be_shown(trace: object) -> None:
    for refused in (lambda: Player(trace), lambda: show(trace), lambda: show(trace, static=True)):
        with pytest.raises(TypeError, match=f"a player shows a Trace.* this is a {type(trace).__name__}"):
            refused()
    player = Player(story())
    with pytest.raises(TypeError, match="a player shows a Trace"):
        player.trace = trace
    assert len(player.trace) == 13


def test_a_new_trace_begins_at_its_start() -> None:
    player = Player(story(), step=13)
    player.trace = busy(2, 3, 5)
    assert (player.step, len(player.trace)) == (0, 5)
    player.step = 5


def test_a_late_report_of_the_old_trace_is_dropped() -> None:
    player = Player(story(), step=2)
    player.set_state({"step": 99, "playing": True})
    assert (player.step, player.playing) == (2, True)


def test_show_chooses_between_widget_and_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQPOOL_STATIC", raising=False)
    assert isinstance(show(story()), Player)
    assert show(story(), static=True).data == to_fragment(story())
    monkeypatch.setenv("REQPOOL_STATIC", "1")
    assert isinstance(show(story()), HTML)
    assert isinstance(show(story(), static=False), Player)
