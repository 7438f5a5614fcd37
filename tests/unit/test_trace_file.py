"""A saved trace comes back whole, and whatever else lies in a file gives one sentence that names it."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reqpool.trace.file as trace_file
from reqpool.faulty import NoPaddingRow
from reqpool.pool import Req, ReqToTokenPool
from reqpool.trace import Change, Event, Snapshot, Trace, record
from reqpool.views import caption, grid_svg, text_view

HOSTILE = {
    "html": "<script>alert('x')</script>&amp;",
    "emoji": "🦆\U0001f468‍\U0001f469‍\U0001f467",
    "a lone surrogate": "a\ud800b",
    "the other one": "\udfff",
    "long": "x" * 10_000,
    "quotes": "\"'\\\n\r\t",
    "control": "\x00\x1b[31m\x7f\x85",
    "line ends": "a\u2028b\u2029c\x0b\x0c\x1c\x1d\x1e",
    "right to left": "\u202eabc",
    "json": '{"sha256": "0"}\n',
    "name": "None",
}


def state(snapshot: Snapshot) -> tuple[Any, ...]:
    lengths = (snapshot.verified, snapshot.alloced, snapshot.alloced_cpu, snapshot.generation)
    return (
        snapshot.table.tolist(),
        snapshot.table.dtype,
        snapshot.owners,
        snapshot.free,
        lengths,
        snapshot.padding_row,
        snapshot.reuse,
    )


def same(one: Trace, other: Trace) -> bool:
    steps = range(len(one) + 1)
    return list(one) == list(other) and all(state(one.snapshot(k)) == state(other.snapshot(k)) for k in steps)


def a_day(rid: str = "a", cls: type = ReqToTokenPool, reuse: str = "fifo") -> Trace:
    """Something of every field: a first state that is not empty, refusals, facts, steps, every sort of change."""
    pool = cls(3, 5, device="cpu", reuse=reuse)
    a, b = Req(rid), Req("b")
    pool.alloc([a])
    pool.write((1, slice(0, 2)), torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32))
    pool.verified_lens[3] = 2
    with record(pool) as trace:
        pool.alloc_rows(1)
        pool.alloc([Req("c"), Req("d"), Req("e"), Req("f")])
        trace.step = 3
        pool.append(a, [7, 8])
        pool.req_to_token[:, 4] = 5
        trace.emit(
            "note", rid=rid, rows=[0, 1], text=f"{rid} says", n=1, ratio=0.5, on=True, off=None, deep=((1,), "x")
        )
        pool.alloc([b])
        pool.free(a)
        pool.clear()
    return trace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a trace.jsonl"


def sealed(lines: list[Any]) -> bytes:
    """Header and events, as values or as text, with a checksum that fits."""
    body = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines).encode()
    return body + (json.dumps({"sha256": hashlib.sha256(body).hexdigest()}) + "\n").encode()


def values_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-2]]


def refused(path: Path, word: str = "") -> str:
    with pytest.raises(ValueError) as raised:
        Trace.load(path)
    message = str(raised.value)
    assert type(raised.value) is ValueError and str(path) in message and len(message.splitlines()) == 1, message
    assert word in message and len(message) < 1_000, message
    return message


def refused_or_whole(path: Path) -> bool:
    """Either one sentence, or a trace that walks both ways and is saved and loaded again as it is."""
    try:
        trace = Trace.load(path)
    except ValueError:
        refused(path)
        return False
    steps = range(len(trace) + 1)
    forward = [state(trace.snapshot(k)) for k in steps]
    assert [state(trace.snapshot(k)) for k in reversed(steps)] == forward[::-1]
    again = path.with_name("again.jsonl")
    trace.save(again)
    assert same(Trace.load(again), trace)
    return True


# ------------------------------------------------------------------------------------------------ round trip


@pytest.mark.parametrize("rid", HOSTILE.values(), ids=HOSTILE)
def test_what_is_saved_comes_back(path: Path, rid: str) -> None:
    trace = a_day(rid)
    trace.save(path)
    assert same(Trace.load(path), trace)
    assert path.read_bytes().isascii()


@pytest.mark.parametrize(("cls", "reuse"), [(ReqToTokenPool, "lifo"), (NoPaddingRow, "fifo")])
def test_every_kind_of_pool_comes_back(path: Path, cls: type, reuse: str) -> None:
    trace = a_day(cls=cls, reuse=reuse)
    trace.save(path)
    assert same(Trace.load(path), trace)


def test_an_empty_trace_comes_back(path: Path) -> None:
    with record(ReqToTokenPool(1, 1, device="cpu")) as trace:
        pass
    trace.save(path)
    assert same(Trace.load(path), trace) and len(Trace.load(path)) == 0


def test_the_same_trace_gives_the_same_bytes(path: Path) -> None:
    a_day().save(path)
    first = path.read_bytes()
    Trace.load(path).save(path)
    assert path.read_bytes() == first


def test_saving_does_not_depend_on_where_one_stands_in_the_trace(path: Path) -> None:
    trace = a_day()
    trace.snapshot(len(trace))
    trace.save(path)
    assert same(Trace.load(path), a_day())


def test_the_path_may_be_text(path: Path) -> None:
    a_day().save(str(path))
    assert same(Trace.load(str(path)), a_day())


def test_the_file_can_be_read_line_by_line(path: Path) -> None:
    trace = a_day()
    trace.save(path)
    head, *events = values_of(path)
    assert (head["format"], head["version"]) == ("reqpool-trace", 1)
    assert [event["kind"] for event in events] == [event.kind for event in trace]


def test_an_empty_rid_comes_back(path: Path) -> None:
    trace = a_day("")
    trace.save(path)
    assert same(Trace.load(path), trace) and any(event.rid == "" for event in Trace.load(path))


def test_calls_that_name_odd_rows_come_back(path: Path) -> None:
    other, mine = ReqToTokenPool(50, 2, device="cpu"), ReqToTokenPool(3, 5, device="cpu")
    reqs = [Req(str(i)) for i in range(40)]
    other.alloc(reqs)
    with record(mine) as trace:
        mine.verify([-1], 1)
        for call in (lambda: mine.free(reqs[-1]), lambda: mine.free_rows([-1, True, 99])):
            with pytest.raises((ValueError, TypeError)):
                call()
    trace.save(path)
    assert same(Trace.load(path), trace) and [event.kind for event in trace] == ["verify", "refuse", "refuse"]


# ------------------------------------------------------------------------------------------------ damage


def test_a_file_cut_at_any_byte_is_refused(path: Path) -> None:
    a_day().save(path)
    whole = path.read_bytes()
    for length in sorted({*range(0, len(whole), 29), *range(40), *range(len(whole) - 80, len(whole))}):
        path.write_bytes(whole[:length])
        refused(path)


def test_a_file_cut_at_any_line_is_refused(path: Path) -> None:
    a_day().save(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(len(lines)):
        path.write_bytes(b"".join(lines[:at]))
        refused(path)
        path.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
        refused(path)
        path.write_bytes(b"".join(lines[: at + 1] + lines[at:]))
        refused(path)


def test_a_flipped_digit_is_refused(path: Path) -> None:
    a_day().save(path)
    whole = path.read_bytes()
    for at in [i for i, byte in enumerate(whole) if chr(byte).isdigit()][::7]:
        digit = b"1" if whole[at : at + 1] != b"1" else b"2"
        path.write_bytes(whole[:at] + digit + whole[at + 1 :])
        refused(path)


def test_a_flipped_digit_with_a_new_checksum_is_refused_or_is_a_trace(path: Path) -> None:
    a_day().save(path)
    body = b"".join(path.read_bytes().splitlines(keepends=True)[:-1]).decode()
    outcomes = []
    for at in [i for i, char in enumerate(body) if char.isdigit()][::3]:
        digit = "1" if body[at] != "1" else "2"
        path.write_bytes(sealed([body[:at] + digit + body[at + 1 :]]))
        outcomes.append(refused_or_whole(path))
    assert outcomes.count(False) > len(outcomes) / 3  # most of what can be known to be wrong is


@pytest.mark.parametrize("at", [0, 3, -1])
def test_a_byte_put_in_is_refused(path: Path, at: int) -> None:
    a_day().save(path)
    whole = path.read_bytes()
    for byte in (b" ", b"\n", b"\x00", b"\xff"):
        path.write_bytes(whole + byte if at == -1 else whole[:at] + byte + whole[at:])
        refused(path)


def test_other_line_ends_are_refused(path: Path) -> None:
    a_day().save(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    refused(path)


def test_a_change_that_does_not_follow_from_the_state_is_refused(path: Path) -> None:
    a_day().save(path)
    lines = values_of(path)
    assert refused_or_whole(path)
    at = next(i for i, line in enumerate(lines[1:], 1) if line.get("change", {}).get("cells"))
    lines[at]["change"]["cells"][0][2] = 77
    path.write_bytes(sealed(lines))
    assert f"line {at + 1}" in refused(path)


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\n\n",
        PNG,
        b"hello\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"5\n",
        b'"reqpool-trace"\n',
        b'["format", "version"]\n',
        b'{"format": "reqpool-trace"}\n',
        b'{"format": "reqpool-trace", "version": 1}\n',
        b'{"format": "reqpool-trace", "version": 1, "events": -1}\n',
        b'{"format": "reqpool-trace", "version": 1, "events": 0}\n{"sha256": 1}\n',
        b'{"format": "reqpool-trace", "version": 1, "events": 0}\n[]\n',
        b'{"format": ["reqpool-trace"], "version": 1}\n',
        b'{"cells": [],\n "metadata": {}}\n',
        b"\xff\xfe{\x00}\x00\n\x00",
        b"\xef\xbb\xbf{}\n",
        b"\x80\x04\x95\x10",
        b"[" * 100_000,
        b"[" * 100_000 + b"\n",
        b'{"a":' * 50_000 + b"\n",
        b"1" * 100_000 + b"\n",
        b"NaN\n",
    ],
    ids=lambda content: ascii(content[:24]),
)
def test_what_is_no_trace_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(path)


@pytest.mark.parametrize("version", [2, True, 1.0, 1.5, "1", "2", None, [], {}, -1, 0, 2**70, "missing"])
def test_another_version_is_refused(path: Path, version: Any) -> None:
    a_day().save(path)
    lines = values_of(path)
    lines[0]["version"] = version
    if version == "missing":
        del lines[0]["version"]
    path.write_bytes(sealed(lines))
    assert "version" in refused(path)


def test_a_newer_version_is_told_so_without_reading_on(path: Path) -> None:
    path.write_bytes(b'{"format": "reqpool-trace", "version": 2, "what": "nobody knows"}\nanything\n')
    refused(path, "newer")


def test_a_file_over_the_limit_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_day().save(path)
    size = path.stat().st_size
    monkeypatch.setattr(trace_file, "MAX_BYTES", size)
    assert same(Trace.load(path), a_day())
    monkeypatch.setattr(trace_file, "MAX_BYTES", size - 1)
    refused(path, "limit")


def test_a_header_that_promises_a_huge_table_is_refused_at_once(path: Path) -> None:
    a_day().save(path)
    lines = values_of(path)
    for rows, positions in ((4, 2**40), (2**25, 2**25), (4, 2**26), (2**70, 1), (2**26, 1), (0, 5), (4, 0), (-4, -5)):
        lines[0].update(rows=rows, positions=positions)
        path.write_bytes(sealed(lines))
        begun = time.monotonic()
        refused(path)
        assert time.monotonic() - begun < 5


def test_a_missing_file_and_a_folder_are_os_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "nothing.jsonl")
    with pytest.raises(OSError):
        Trace.load(tmp_path)
    with pytest.raises(OSError):
        a_day().save(tmp_path / "no folder" / "x.jsonl")


def test_a_key_twice_is_refused_or_one_of_the_two(path: Path) -> None:
    a_day().save(path)
    head, *events = path.read_text().splitlines(keepends=True)[:-1]
    for line in (
        head.replace('"rows":4', '"rows":9,"rows":4'),
        head.replace('"rows":4', '"rows":4,"rows":9'),
        head.replace('"version":1', '"version":1,"version":2'),
    ):
        assert line != head
        path.write_bytes(sealed([line, *events]))
        refused_or_whole(path)


def test_an_unknown_field_of_an_event_or_a_change_is_refused(path: Path) -> None:
    a_day().save(path)
    for place in (lambda line: line, lambda line: line["change"]):
        lines = values_of(path)
        place(lines[1])["surprise"] = 1
        path.write_bytes(sealed(lines))
        refused(path)


# ------------------------------------------------------------------------------------------------ every field


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value can be put in: every field of every line, and what is in it; of long lists the first two."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 2) if path else len(value)):
            yield from places(value[index], (*path, index))


def put(lines: list[Any], at: tuple[Any, ...], value: Any) -> list[Any]:
    lines = copy.deepcopy(lines)
    inner = lines
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return lines


STRANGE = [None, -1, 2**70, "x", "", [], {}, 1.5, True, [[]], [1, 2], "x\ny", {"a": 1}]
EXACT_TYPES = {"rows", "positions", "padding_row", "reuse", "free", "verified", "alloced", "alloced_cpu", "generation"}


def test_a_wrong_value_in_any_field_is_refused_or_is_a_trace(path: Path) -> None:
    """One sentence that is none of Python's own; or a trace that walks, comes back, and can be shown."""
    a_day().save(path)
    lines = values_of(path)
    for at in places(lines):
        for value in STRANGE:
            path.write_bytes(sealed(put(lines, at, value)))
            if refused_or_whole(path):
                trace = Trace.load(path)
                for k in range(len(trace) + 1):
                    caption(trace, k)
                    assert text_view(trace.snapshot(k)) and grid_svg(trace.snapshot(k))
            else:
                message = refused(path)
                assert not any(word in message for word in ("NoneType", "object has no", "unpack", "Error", "Misfit"))


def test_a_missing_field_is_refused_or_has_its_stated_meaning(path: Path) -> None:
    a_day().save(path)
    lines = values_of(path)
    for at in list(places(lines)):
        if isinstance(at[-1], str):
            without = copy.deepcopy(lines)
            inner: Any = without
            for key in at[:-1]:
                inner = inner[key]
            del inner[at[-1]]
            path.write_bytes(sealed(without))
            assert not refused_or_whole(path) or at[0] > 0


@pytest.mark.parametrize("value", [None, -1, 2**70, "x", 1.5, True, {"a": 1}, [[]]], ids=repr)
def test_a_number_or_list_of_the_wrong_type_in_the_header_is_refused(path: Path, value: Any) -> None:
    a_day().save(path)
    lines = values_of(path)
    for name in sorted(EXACT_TYPES - ({"padding_row"} if value is None else set())):
        path.write_bytes(sealed(put(lines, (0, name), value)))
        refused(path)


DEEP_PLACES = [
    *((0, name) for name in ("format", "version", "events", "reuse", "owners")),
    *((1, name) for name in ("step", "rid", "rids", "rows", "facts", "change")),
    (1, "change", "free"),
]


@pytest.mark.parametrize("depth", [17, 100, 300, 600, 990, 5_000])
@pytest.mark.parametrize("at", DEEP_PLACES, ids=str)
def test_deep_nesting_is_refused(path: Path, at: tuple[Any, ...], depth: int) -> None:
    a_day().save(path)
    deep = "[" * depth + "]" * depth
    deep = f'[["x",{deep}]]' if at[-1] == "facts" else deep
    lines = put(values_of(path), at, "DEEP")
    path.write_bytes(sealed([json.dumps(line).replace('"DEEP"', deep) + "\n" for line in lines]))
    refused(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", str(2**63)])
def test_a_fact_that_is_no_64_bit_number_is_refused(path: Path, number: str) -> None:
    a_day().save(path)
    lines = put(values_of(path), (1, "facts"), [["x", "NUMBER"]])
    path.write_bytes(sealed([json.dumps(line).replace('"NUMBER"', number) + "\n" for line in lines]))
    refused(path, "finite")


@pytest.mark.parametrize(
    "change",
    [
        {"free": [50, [], [1]]},
        {"free": [0, [], [999]]},
        {"free": [0, [], []]},
        {"free": [-1, [], [1]]},
        {"cells": [[2, 0, 0, 0]]},
        {"cells": [[2, 0, 0, 5], [2, 0, 0, 6]]},
        {"cells": [[2, 0, 0, 2**31]]},
        {"cells": [[2, -1, 0, 5]]},
        {"cells": [[4, 0, 0, 5]]},
        {"lengths": [["verified", 2, 0, 0]]},
        {"lengths": [["verified", 2, 0, 1], ["verified", 2, 0, 2]]},
        {"lengths": [["alloced", 2, 0, 2**31]]},
        {"lengths": [["alloced", -1, 0, 1]]},
        {"owners": [[2, [], []]]},
        {"owners": [[2, [], ["x"]], [2, [], ["y"]]]},
        {"owners": [[9, [], ["x"]]]},
    ],
    ids=repr,
)
def test_a_change_that_no_comparison_finds_is_refused(path: Path, change: dict[str, Any]) -> None:
    a_day().save(path)
    lines = values_of(path)[:2]
    lines[0]["events"], lines[1]["change"] = 1, change
    path.write_bytes(sealed(lines))
    refused(path, "line 2")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("owners", [[1, ["a"]], [2, []]]),
        ("owners", [[1, ["z"]], [1, ["a"]]]),
        ("verified", [0, 2**40, 0, 0]),
        ("cells", [[5, 1], [5, 2]]),
        ("cells", [[20, 1]]),
        ("free", [1, 4]),
    ],
)
def test_a_first_state_that_no_pool_has_is_refused(path: Path, name: str, value: Any) -> None:
    a_day().save(path)
    path.write_bytes(sealed(put(values_of(path), (0, name), value)))
    refused(path, "line 1")


@pytest.mark.parametrize("at", [*((0, name) for name in ("version", "events", "reuse", "padding_row")), (1, "kind")])
@pytest.mark.parametrize("value", [["x" * 100_000], "x\ny" * 50_000, {"a": {"b": "y" * 100_000}}], ids=type)
def test_a_message_stays_short_and_on_one_line(path: Path, at: tuple[Any, ...], value: Any) -> None:
    a_day().save(path)
    path.write_bytes(sealed(put(values_of(path), at, value)))
    assert len(refused(path)) < len(str(path)) + 400


def test_a_long_free_list_changed_often_is_refused_before_it_takes_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = a_day()
    trace.save(path)
    monkeypatch.setattr(trace_file, "MAX_MOVED", 3)
    refused(path, "limit")


# ------------------------------------------------------------------------------------------------ saving fails


def test_a_failed_save_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = path.with_name("folder")
    folder.mkdir()
    with pytest.raises(OSError):
        a_day().save(folder)
    assert list(path.parent.iterdir()) == [folder]

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_file.os, "replace", full)
    with pytest.raises(OSError):
        a_day().save(path)
    assert list(path.parent.iterdir()) == [folder]


def test_a_neighbour_of_any_name_survives(path: Path) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text("mine")
    a_day().save(path)
    assert part.read_text() == "mine" and sorted(path.parent.iterdir()) == sorted([path, part])


DEEP: Any = ()
for _ in range(3_000):
    DEEP = (DEEP,)


@pytest.mark.parametrize(
    "event",
    [
        Event(0, "note", facts=(("x", float("nan")),)),
        Event(0, "note", facts=(("x", object()),)),
        Event(0, "note", facts=(("x", 10**5000),)),
        Event(0, "note", facts=(("x", DEEP),)),
        Event(0, "note", facts=(("x", {"a": 1}),)),
        Event(np.int64(3), "note"),
        Event(1.5, "note"),  # type: ignore[arg-type]
        Event(0, "nonsense"),
        Event(0, "note", rid=7),  # type: ignore[arg-type]
        Event(0, "note", rows=(99,)),
        Event(0, "note", rows=[1]),  # type: ignore[arg-type]
        Event(0, "free", rows=(1, 2), rids=("a",)),
        Event(0, "note", text=5),  # type: ignore[arg-type]
        Event(0, "note", text=()),  # type: ignore[arg-type]
        Event(0, "note", change=Change(cells=((1, 0, 77, 78),))),
        Event(0, "note", change=Change(lengths=(("verified", 1, 0, True),))),
    ],
    ids=range(16),
)
def test_what_load_would_refuse_or_change_is_not_saved(path: Path, event: Event) -> None:
    trace = a_day()
    trace.events.append(event)
    with pytest.raises(ValueError, match="cannot be saved") as raised:
        trace.save(path)
    assert str(path) in str(raised.value) and len(str(raised.value).splitlines()) == 1
    assert list(path.parent.iterdir()) == []


def test_an_existing_file_survives_a_save_over_the_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_day().save(path)
    before = path.read_bytes()
    for name in ("MAX_BYTES", "MAX_CELLS"):
        with monkeypatch.context() as patch:
            patch.setattr(trace_file, name, 10)
            with pytest.raises(ValueError, match="limit") as raised:
                a_day("longer").save(path)
            assert str(path) in str(raised.value)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_an_existing_file_survives_a_save_that_fails_half_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_day().save(path)
    before = path.read_bytes()
    trace = a_day("other")
    trace.events.append(Event(0, "note", facts=(("what", object()),)))
    with pytest.raises((TypeError, ValueError)):
        trace.save(path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_file.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        a_day("other").save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before and same(Trace.load(path), a_day())


def test_what_save_accepts_load_accepts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every limit between too small and large enough."""
    a_day().save(path)
    size = path.stat().st_size
    for limit in range(size - 3, size + 3):
        monkeypatch.setattr(trace_file, "MAX_BYTES", limit)
        try:
            a_day().save(path)
        except ValueError:
            assert limit < size
        else:
            assert limit >= size and same(Trace.load(path), a_day())
