"""What the pool refuses: which error, in which words, and that nothing at all has changed.

One small world, and a table of calls that are never right in it:

    row 1  request a, 3 slots, 2 of them verified          b      no row
    row 2  handed out by count                             ghost  says it holds row 1, which is a's
    row 3  free, with a late write in its lengths          c      holds row 1 of another pool
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from reqpool.checked import CheckedPool
from reqpool.pool import MAX_SLOT, Req, ReqToTokenPool, ReqToTokenPoolInfo
from tests.properties.slow_model import state_of

ROOT = Path(__file__).resolve().parents[2]


class World:
    def __init__(self, pool_class: type[ReqToTokenPool] = ReqToTokenPool, reuse: str = "fifo", full: bool = False):
        self.pool = pool_class(size=3, max_context_len=5, device="cpu", reuse=reuse)
        self.elsewhere = pool_class(size=3, max_context_len=5, device="cpu")
        self.a, self.b, self.c, self.ghost = Req("a"), Req("b"), Req("c"), Req("ghost", req_pool_idx=1)
        self.pool.alloc([self.a])
        self.pool.append(self.a, [7, 8, 9])
        self.pool.verify([1], 2)
        self.pool.alloc_rows(1)
        self.elsewhere.alloc([self.c])
        if full:
            self.pool.alloc_rows(1)
        else:
            self.pool.verified_lens[3] = 4

    def everything(self) -> list[Any]:
        """A full copy, so that whatever a refused call changes shows."""
        requests = [dict(vars(req)) for req in (self.a, self.b, self.c, self.ghost)]
        return [state_of(self.pool), state_of(self.elsewhere), requests]


@dataclass(frozen=True)
class Refusal:
    title: str
    call: Callable[[World], Any]
    words: tuple[str, ...]
    error: type[Exception] = ValueError


def started(req: Req) -> Req:
    req.inflight_middle_chunks = 1
    return req


def info(verified: int, alloced: int, num_slots: int) -> ReqToTokenPoolInfo:
    return ReqToTokenPoolInfo(verified, alloced, torch.arange(num_slots))


def fails_halfway() -> Iterator[Req]:
    yield Req("d")
    raise LookupError("the queue broke")


ALLOC = [
    Refusal("the same new request twice", lambda w: w.pool.alloc([w.b, w.b]), ("'b'", "row None", "twice", "wanted")),
    Refusal("a kept request twice", lambda w: w.pool.alloc([w.a, w.b, w.a]), ("'a'", "row 1", "twice", "wanted")),
    Refusal(
        "a request that has a row and nothing to continue",
        lambda w: w.pool.alloc([w.b, w.a]),
        ("'a'", "row 1", "nothing to continue", "wanted inflight_middle_chunks > 0 or kv_committed_len > 0"),
    ),
    Refusal("a stale request", lambda w: w.pool.alloc([w.b, w.ghost]), ("'ghost'", "row 1", "not its own", "wanted")),
    Refusal("a copy of a request", lambda w: w.pool.alloc([copy.copy(w.a)]), ("'a'", "row 1", "not its own", "wanted")),
    Refusal("a request of another pool", lambda w: w.pool.alloc([w.c]), ("'c'", "row 1", "not its own", "wanted")),
    Refusal(
        "a request that names a free row",
        lambda w: w.pool.alloc([Req("d", 3, kv_committed_len=4)]),
        ("'d'", "row 3", "not its own", "wanted"),
    ),
    Refusal("a request that names row 0", lambda w: w.pool.alloc([Req("d", 0)]), ("'d'", "row 0", "padding row")),
    Refusal("a request that names row -1", lambda w: w.pool.alloc([Req("d", -1)]), ("'d'", "row -1", "1..3")),
    Refusal("a request that names row 4", lambda w: w.pool.alloc([Req("d", 4)]), ("'d'", "row 4", "1..3")),
    Refusal("a request by its rid", lambda w: w.pool.alloc([w.b, "a"]), ("request", "'a'"), TypeError),
    Refusal("a request without a list", lambda w: w.pool.alloc(w.b), ("list of requests", "rid='b'"), TypeError),
    Refusal("None", lambda w: w.pool.alloc(None), ("list of requests", "None"), TypeError),
    Refusal("by count", lambda w: w.pool.alloc(1), ("list of requests", "1"), TypeError),
    Refusal("a queue that breaks halfway", lambda w: w.pool.alloc(fails_halfway()), ("queue broke",), LookupError),
    Refusal("alloc_rows(-1)", lambda w: w.pool.alloc_rows(-1), ("alloc_rows", "n >= 0", "-1")),
    *(
        Refusal(f"alloc_rows({n!r})", lambda w, n=n: w.pool.alloc_rows(n), ("n must be an integer", repr(n)), TypeError)
        for n in (True, 1.0, "1", None, [1], torch.tensor(1.0), torch.tensor(True), np.float64(1), np.bool_(True))
    ),
]

FREE = [
    Refusal("free of a request without a row", lambda w: w.pool.free(w.b), ("free", "'b'", "no row", "wanted")),
    Refusal("free of a stale request", lambda w: w.pool.free(w.ghost), ("free", "'ghost'", "row 1", "wanted")),
    Refusal("free of a copy", lambda w: w.pool.free(copy.copy(w.a)), ("free", "'a'", "row 1", "not its own")),
    Refusal("free of another pool's request", lambda w: w.pool.free(w.c), ("free", "'c'", "row 1", "not its own")),
    Refusal("free of a row by count's number", lambda w: w.pool.free(2), ("free wants a request", "2"), TypeError),
    Refusal("free of None", lambda w: w.pool.free(None), ("free wants a request", "None"), TypeError),
    Refusal("read of a request without a row", lambda w: w.pool.read(w.b), ("read", "'b'", "no row", "wanted")),
    Refusal("read of a stale request", lambda w: w.pool.read(w.ghost), ("read", "'ghost'", "row 1", "wanted")),
    Refusal("read of another pool's request", lambda w: w.pool.read(w.c), ("read", "'c'", "row 1", "not its own")),
    Refusal("read of a row number", lambda w: w.pool.read(1), ("read wants a request", "1"), TypeError),
    Refusal("free_rows of row 0", lambda w: w.pool.free_rows(0), ("row 0", "padding row", "wanted")),
    Refusal("free_rows of row -1", lambda w: w.pool.free_rows(-1), ("row -1", "1..3", "wanted")),
    Refusal("free_rows of a row too many", lambda w: w.pool.free_rows([2, 4]), ("row 4", "1..3", "wanted")),
    Refusal("free_rows of a huge row", lambda w: w.pool.free_rows(2**70), (str(2**70), "1..3", "wanted")),
    Refusal("free_rows of a request's row", lambda w: w.pool.free_rows([2, 1]), ("row 1", "rid='a'", "wanted")),
    Refusal("free_rows of a row twice", lambda w: w.pool.free_rows([2, 2]), ("[2, 2]", "twice", "wanted")),
    Refusal("a generator of a row twice", lambda w: w.pool.free_rows(2 for _ in "ab"), ("twice", "wanted")),
    *(
        Refusal(f"free_rows({r!r})", lambda w, r=r: w.pool.free_rows(r), ("row must be an integer",), TypeError)
        for r in (2.0, True, None, "2", [2, 2.0], [2, [2]], [True], torch.tensor([2.0]), np.array([2.0]), Req("r", 2))
    ),
]

CELLS = [
    Refusal(
        "append past the end",
        lambda w: w.pool.append(w.a, [1, 2, 3]),
        ("append of 3 slots does not fit row 1", "alloced_len is 3", "max_context_len is 5"),
    ),
    Refusal("append past the end of a row", lambda w: w.pool.append(2, torch.arange(6)), ("6 slots", "row 2", "is 5")),
    Refusal("append to a request without a row", lambda w: w.pool.append(w.b, [1]), ("append", "'b'", "no row")),
    Refusal("append to a stale request", lambda w: w.pool.append(w.ghost, [1]), ("append", "'ghost'", "row 1")),
    Refusal("append to another pool's request", lambda w: w.pool.append(w.c, [1]), ("append", "'c'", "row 1")),
    Refusal("append to row 0", lambda w: w.pool.append(0, [1]), ("append", "row 0", "padding row", "wanted")),
    Refusal("append to row -1", lambda w: w.pool.append(-1, [1]), ("append", "row -1", "1..3", "wanted")),
    Refusal("append to a row too many", lambda w: w.pool.append(4, [1]), ("append", "row 4", "1..3", "wanted")),
    Refusal("append to a row 2.0", lambda w: w.pool.append(2.0, [1]), ("row must be an integer", "2.0"), TypeError),
    Refusal("append to row True", lambda w: w.pool.append(True, [1]), ("row must be an integer", "True"), TypeError),
    Refusal("append of a negative slot", lambda w: w.pool.append(2, [3, -1]), (f"0..{MAX_SLOT}", "-1..3")),
    Refusal("append of a slot past int32", lambda w: w.pool.append(2, [2**31]), (f"0..{MAX_SLOT}", str(2**31))),
    Refusal(
        "append of a table", lambda w: w.pool.append(2, torch.zeros(1, 2).long()), ("one-dimensional", "shape (1, 2)")
    ),
    Refusal("append of a number", lambda w: w.pool.append(2, torch.tensor(7)), ("one-dimensional", "shape ()")),
    *(
        Refusal(
            f"append of {dtype}",
            lambda w, dtype=dtype: w.pool.append(2, torch.ones(1).to(dtype)),
            ("slots must be int32 or int64", str(dtype)),
            TypeError,
        )
        for dtype in (torch.float32, torch.float16, torch.bool, torch.uint8, torch.int16, torch.uint16, torch.complex64)
    ),
    *(
        Refusal(f"append of {s!r}", lambda w, s=s: w.pool.append(2, s), ("slots must be an integer",), TypeError)
        for s in ([1, 2.0], [True], ["7"], "78", [None], np.array([1.0]), [[7]])
    ),
]

INFO = [
    Refusal(
        "more verified than reserved",
        lambda w: w.pool.set_req_pool_info(2, info(3, 2, 2)),
        ("row 2", "verified_len is 3", "alloced_len = 2", "wanted"),
    ),
    Refusal(
        "less than nothing verified", lambda w: w.pool.set_req_pool_info(2, info(-1, 2, 2)), ("row 2", "-1", "wanted")
    ),
    Refusal(
        "more slots than the row has positions",
        lambda w: w.pool.set_req_pool_info(2, info(0, 6, 6)),
        ("row 2", "alloced_len is 6", "max_context_len is 5"),
    ),
    Refusal(
        "fewer slots than it says",
        lambda w: w.pool.set_req_pool_info(2, info(0, 3, 2)),
        ("row 2", "2 slots", "wanted alloced_len = 3"),
    ),
    Refusal(
        "more slots than it says",
        lambda w: w.pool.set_req_pool_info(2, info(0, 1, 2)),
        ("row 2", "2 slots", "wanted alloced_len = 1"),
    ),
    Refusal("a negative number of slots", lambda w: w.pool.set_req_pool_info(2, info(-2, -1, 0)), ("row 2", "wanted")),
    *(
        Refusal(
            f"set into row {row}",
            lambda w, row=row: w.pool.set_req_pool_info(row, info(0, 0, 0)),
            ("set_req_pool_info", f"row {row} is", what, "wanted"),
        )
        for row, what in ((0, "padding row"), (-1, "1..3"), (4, "1..3"))
    ),
    *(
        Refusal(
            f"get of row {row}",
            lambda w, row=row: w.pool.get_req_pool_info(row),
            ("get_req_pool_info", f"row {row} is", what, "wanted"),
        )
        for row, what in ((0, "padding row"), (-1, "1..3"), (4, "1..3"))
    ),
    *(
        Refusal(
            f"get of row {row!r}",
            lambda w, row=row: w.pool.get_req_pool_info(row),
            ("req_pool_idx must be an integer",),
            TypeError,
        )
        for row in (1.0, True, "1", None, [1])
    ),
]

NEVER_RIGHT = [*ALLOC, *FREE, *CELLS, *INFO]

ONLY_WHILE_ROW_3_IS_FREE = [
    Refusal("free_rows of a free row", lambda w: w.pool.free_rows([2, 3]), ("row 3 is free", "wanted")),
    Refusal("free_rows of a tensor of rows", lambda w: w.pool.free_rows(torch.tensor([3, 2])), ("row 3 is free",)),
    Refusal("append to a free row", lambda w: w.pool.append(3, [1]), ("append", "row 3 is free", "wanted")),
    Refusal("get of a free row", lambda w: w.pool.get_req_pool_info(3), ("row 3 is free", "wanted")),
    Refusal("set into a free row", lambda w: w.pool.set_req_pool_info(3, info(0, 0, 0)), ("row 3 is free", "wanted")),
]


def titles(refusals: list[Refusal]) -> list[str]:
    return [refusal.title for refusal in refusals]


def refuse(world: World, refusal: Refusal) -> None:
    before = world.everything()
    with pytest.raises(refusal.error) as caught:
        refusal.call(world)
    assert caught.type is refusal.error
    for word in refusal.words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert world.everything() == before
    world.pool.check()


@pytest.mark.parametrize("refusal", NEVER_RIGHT, ids=titles(NEVER_RIGHT))
@pytest.mark.parametrize("full", [False, True], ids=["a row is free", "no row is free"])
def test_what_is_never_right_raises_even_when_rows_are_too_few(refusal: Refusal, full: bool) -> None:
    refuse(World(full=full), refusal)


@pytest.mark.parametrize("refusal", ONLY_WHILE_ROW_3_IS_FREE, ids=titles(ONLY_WHILE_ROW_3_IS_FREE))
@pytest.mark.parametrize("reuse", ["fifo", "lifo"])
def test_a_free_row_is_nobodys(refusal: Refusal, reuse: str) -> None:
    refuse(World(reuse=reuse), refusal)


@pytest.mark.parametrize("refusal", [*ALLOC, *FREE, *INFO], ids=titles([*ALLOC, *FREE, *INFO]))
def test_the_checked_pool_refuses_in_the_same_words(refusal: Refusal) -> None:
    refuse(World(CheckedPool), refusal)


def test_one_wrong_request_in_a_batch_of_good_ones_leaves_the_good_ones_alone() -> None:
    for place in range(3):
        world = World()
        batch = [started(world.a), world.b]
        batch.insert(place, world.ghost)
        refuse(world, Refusal("", lambda w, batch=batch: w.pool.alloc(batch), ("'ghost'", "row 1", "wanted")))


def test_a_request_freed_twice_is_refused_the_second_time() -> None:
    world = World()
    world.pool.free(world.a)
    refuse(world, Refusal("", lambda w: w.pool.free(w.a), ("'a'", "no row", "wanted")))


def test_it_is_the_owner_check_that_refuses_a_returned_request() -> None:
    """The counters stay as the scheduler left them, so only the owner tells a stale request from a started one."""
    world = World()
    stale = started(world.a)
    world.pool.free(stale)
    stale.req_pool_idx = 1
    refuse(world, Refusal("", lambda w: w.pool.alloc([w.a]), ("'a'", "row 1 is not its own", "free", "wanted")))


def test_a_row_given_to_the_next_owner_is_refused_to_the_last() -> None:
    world = World(full=True)
    last = copy.copy(world.a)
    world.pool.free(world.a)
    world.pool.alloc([world.b])
    for call in (world.pool.free, world.pool.read, lambda req: world.pool.alloc([req])):
        refuse(world, Refusal("", lambda w, call=call: call(last), ("'a'", "row 1", "rid='b'", "wanted")))


class EqualToAll(Req):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = Req.__hash__


def test_a_request_that_says_it_equals_the_owner_is_not_the_owner() -> None:
    world = World()
    world.b = EqualToAll("b", req_pool_idx=1, kv_committed_len=4)
    for call in (world.pool.free, world.pool.read, lambda req: world.pool.alloc([req])):
        refuse(world, Refusal("", lambda w, call=call: call(w.b), ("'b'", "row 1 is not its own", "rid='a'")))
    twins = [EqualToAll("d"), EqualToAll("d")]  # equal, and still two requests
    assert ReqToTokenPool(2, 4, device="cpu").alloc(twins) == [1, 2]


def test_a_row_freed_twice_by_count_is_refused_the_second_time() -> None:
    world = World()
    world.pool.free_rows([2])
    refuse(world, Refusal("", lambda w: w.pool.free_rows([2]), ("row 2 is free", "wanted")))


def test_a_rid_with_markup_is_quoted_as_it_is() -> None:
    world = World()
    world.b.rid = "<script>alert('x')</script>"
    refuse(world, Refusal("", lambda w: w.pool.free(w.b), ("<script>alert('x')</script>", "no row")))


@pytest.mark.parametrize("missing", ["rid", "req_pool_idx", "kv_committed_len", "inflight_middle_chunks"])
def test_an_object_that_lacks_an_attribute_is_told_which(missing: str) -> None:
    world = World()
    lacking = SimpleNamespace(rid="d", req_pool_idx=None, kv_committed_len=0, inflight_middle_chunks=0)
    delattr(lacking, missing)
    refuse(world, Refusal("", lambda w: w.pool.alloc([w.b, lacking]), ("request", missing), TypeError))


def test_a_batch_may_ask_the_pool_while_it_is_walked() -> None:
    world = World()

    def batch() -> Iterator[Req]:
        yield Req("d")
        world.pool.free_rows(2)
        yield Req("e")

    assert world.pool.alloc(batch()) == [3, 2]
    world.pool.check()


def test_the_pool_goes_on_after_a_refusal() -> None:
    world = World()
    for refusal in [*NEVER_RIGHT, *ONLY_WHILE_ROW_3_IS_FREE]:
        refuse(world, refusal)
    assert world.pool.alloc([started(world.a), world.b]) == [1, 3]
    world.pool.check()


# ------------------------------------------------------------------------------------------------ construction

SIZES = [
    ({"size": 0}, ValueError, "size must be at least 1, got 0"),
    ({"size": -3}, ValueError, "size must be at least 1, got -3"),
    ({"max_context_len": 0}, ValueError, "max_context_len must be at least 1, got 0"),
    ({"max_context_len": torch.tensor(-1)}, ValueError, "max_context_len must be at least 1, got -1"),
    ({"reuse": "random"}, ValueError, "reuse must be 'fifo' or 'lifo', got 'random'"),
    ({"reuse": "FIFO"}, ValueError, "got 'FIFO'"),
    ({"reuse": None}, ValueError, "got None"),
    ({"reuse": ["fifo"]}, ValueError, "got ['fifo']"),
    *(
        ({name: value}, TypeError, f"{name} must be an integer, got {value!r}")
        for name in ("size", "max_context_len")
        for value in (True, 2.0, "2", None, [2], np.float32(2), np.bool_(True), torch.tensor(2.0), torch.tensor(True))
    ),
]


@pytest.mark.parametrize(("wrong", "error", "words"), SIZES, ids=repr)
def test_a_pool_that_cannot_be_is_refused_before_any_tensor_is_made(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], error: type[Exception], words: str
) -> None:
    def no_tensor(*shape: Any, **options: Any) -> None:
        pytest.fail("a tensor was made")

    monkeypatch.setattr(torch, "zeros", no_tensor)
    with pytest.raises(error) as caught:
        ReqToTokenPool(**{"size": 3, "max_context_len": 5, "device": "cpu", **wrong})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("verified", "alloced", "slots", "error", "words"),
    [
        (True, 1, torch.zeros(1).int(), TypeError, "verified_len must be an integer, got True"),
        (0, 1.0, torch.zeros(1).int(), TypeError, "alloced_len must be an integer, got 1.0"),
        (0, 1, torch.zeros(1), TypeError, "alloced_slots must be int32 or int64, got torch.float32"),
        (0, 1, torch.zeros(1).bool(), TypeError, "alloced_slots must be int32 or int64, got torch.bool"),
        (0, 1, torch.zeros(1).short(), TypeError, "alloced_slots must be int32 or int64, got torch.int16"),
        (0, 1, torch.zeros(1).to(torch.uint64), TypeError, "got torch.uint64"),
        (0, 1, torch.zeros(1, 1).int(), ValueError, "alloced_slots must be one-dimensional, got shape (1, 1)"),
        (0, 1, torch.tensor(7), ValueError, "one-dimensional, got shape ()"),
        (0, 1, torch.tensor([-1]), ValueError, f"alloced_slots must lie within 0..{MAX_SLOT}, got -1..-1"),
        (0, 2, torch.tensor([3, 2**31]), ValueError, f"0..{MAX_SLOT}, got 3..{2**31}"),
        (0, 1, torch.tensor([2**32 + 7]), ValueError, f"0..{MAX_SLOT}"),  # would be slot 7 after a silent cast
    ],
)
def test_an_info_that_could_be_no_rows_is_refused(
    verified: Any, alloced: Any, slots: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        ReqToTokenPoolInfo(verified, alloced, slots)
    assert words in str(caught.value)


# ------------------------------------------------------------------------------------------------ without asserts


def what_is_refused() -> Iterator[str]:
    """Every refusal, as a line with its type and message."""
    for refusal in [*NEVER_RIGHT, *ONLY_WHILE_ROW_3_IS_FREE]:
        world = World()
        try:
            refusal.call(world)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what we compare
            yield f"{refusal.title}: {type(error).__name__}: {error}".replace("\n", " ")
        else:
            yield f"{refusal.title}: not refused"


def test_python_without_asserts_refuses_the_same() -> None:
    code = "from tests.unit.test_pool_errors import what_is_refused as what; print(__debug__, *what(), sep=chr(10))"
    command = [sys.executable, "-O", "-c", code]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == ["False", *what_is_refused()]
