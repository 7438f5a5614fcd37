"""A random history on a real pool under `record`; whatever was kept apart while it ran, the trace must replay."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from reqpool.faulty import FAULTY_POOLS
from reqpool.pool import Req, ReqToTokenPool, ReqToTokenPoolInfo
from reqpool.trace import Change, Snapshot, Trace, record

RIDS = ("a", "b", "a", "<i>", "")  # two share a rid: identity counts
SLOT = st.sampled_from([0, 1, 2, 9, 2**31 - 1, -5])
ROW, POSITION = st.integers(0, 9), st.integers(0, 9)  # taken modulo the pool's own size
QUICK = settings(
    max_examples=100,
    stateful_step_count=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def state_of(pool: ReqToTokenPool, owners: dict[int, list[str | None]]) -> dict[str, Any]:
    """A deep copy of everything, taken from the pool without the trace."""
    return {
        "table": pool.req_to_token.tolist(),
        "verified": pool.verified_lens.tolist(),
        "alloced": pool.alloced_lens.tolist(),
        "mirror": pool.alloced_lens_cpu.tolist(),
        "generation": pool.generation.tolist(),
        "free": list(pool.free_slots),
        "owners": {row: sorted(map(str, rids)) for row, rids in owners.items() if rids},
    }


def state_in(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "table": snapshot.table.tolist(),
        "verified": list(snapshot.verified),
        "alloced": list(snapshot.alloced),
        "mirror": list(snapshot.alloced_cpu),
        "generation": list(snapshot.generation),
        "free": list(snapshot.free),
        "owners": {row: sorted(map(str, rids)) for row, rids in snapshot.owners.items()},
    }


def entries(change: Change) -> int:
    splice = change.free or (0, (), ())
    return len(change.cells) + len(change.lengths) + len(change.owners) + len(splice[1]) + len(splice[2])


def difference(before: dict[str, Any], after: dict[str, Any]) -> int:
    """How many numbers differ, the free list counted whole."""
    cells = sum(
        old != new for a, b in zip(before["table"], after["table"], strict=True) for old, new in zip(a, b, strict=True)
    )
    lengths = sum(
        old != new
        for name in ("verified", "alloced", "mirror", "generation")
        for old, new in zip(before[name], after[name], strict=True)
    )
    rows = before["owners"].keys() | after["owners"].keys()
    owners = sum(before["owners"].get(row) != after["owners"].get(row) for row in rows)
    return (
        cells + lengths + owners + (len(before["free"]) + len(after["free"]) if before["free"] != after["free"] else 0)
    )


class TraceMachine(RuleBasedStateMachine):
    pool_class: type[ReqToTokenPool] = ReqToTokenPool

    @initialize(
        size=st.integers(1, 4),
        width=st.integers(1, 5),
        reuse=st.sampled_from(["fifo", "lifo"]),
        begun=st.integers(0, 2),
        slot=SLOT,
    )
    def begin(self, size: int, width: int, reuse: str, begun: int, slot: int) -> None:
        self.pool = self.pool_class(size, width, device="cpu", reuse=reuse)
        self.reqs = [Req(rid) for rid in RIDS]
        self.pool.alloc(self.reqs[:1])  # the first state is not always an empty pool
        self.pool.alloc_rows(begun)
        self.pool.req_to_token[-1, -1] = slot
        self.recording = record(self.pool)
        self.trace = self.recording.__enter__()
        self.kept = {0: self.now()}  # number of events -> the state then, where nothing was unannounced

    def now(self) -> dict[str, Any]:
        """Owners from the pool's books: only the real pool's are right, the faulty ones' are not compared."""
        owners = {row: [None if req is None else req.rid] for row, req in self.pool.holders.items()}
        return state_of(self.pool, owners)

    def call(self, name: str, *args: Any) -> None:
        """A call, refused or not, then a copy of the state; the number of events grows at once with it."""
        before = len(self.trace)
        try:
            result = getattr(self.pool, name)(*args)
        except (ValueError, TypeError, IndexError) as error:
            result = error
        events = [event for event in self.trace[before:] if event.call]
        assert all(event.call == name for event in events)
        told = [event.kind for event in events]
        if isinstance(result, Exception) or (result is None and name in ("alloc", "alloc_rows")):
            assert told == ["refuse"]
        elif name in ("alloc", "alloc_rows"):
            assert told in [
                [*keep, *alloc, *reset]
                for keep in ([], ["keep"])
                for alloc in ([], ["alloc"])
                for reset in ([], ["reset"])
            ]
            assert sorted(row for event in events if event.kind != "reset" for row in event.rows) == sorted(result)
        else:
            assert len(told) == 1
        self.kept[len(self.trace)] = self.now()

    @rule(who=st.lists(st.integers(0, len(RIDS) - 1), max_size=4))
    def alloc(self, who: list[int]) -> None:
        self.call("alloc", [self.reqs[i] for i in who])

    @rule(who=st.integers(0, len(RIDS) - 1), committed=st.integers(0, 1), chunks=st.integers(0, 1))
    def schedule(self, who: int, committed: int, chunks: int) -> None:
        self.reqs[who].kv_committed_len, self.reqs[who].inflight_middle_chunks = committed, chunks

    @rule(n=st.integers(-1, 4))
    def alloc_rows(self, n: int) -> None:
        self.call("alloc_rows", n)

    @rule(who=st.integers(0, len(RIDS) - 1))
    def free(self, who: int) -> None:
        self.call("free", self.reqs[who])

    @rule(rows=st.lists(st.integers(0, 5), max_size=3))
    def free_rows(self, rows: list[int]) -> None:
        self.call("free_rows", rows)

    @rule()
    def clear(self) -> None:
        self.call("clear")

    @rule(who=st.integers(0, len(RIDS) - 1), slots=st.lists(SLOT, max_size=3))
    def append(self, who: int, slots: list[int]) -> None:
        self.call("append", self.reqs[who], slots)

    @rule(row=st.integers(-6, 6), position=st.integers(-6, 6), slot=SLOT)
    def write_a_cell(self, row: int, position: int, slot: int) -> None:
        self.call("write", (row, position), slot)

    @rule(first=st.integers(-3, 4), count=st.integers(0, 3), position=POSITION, slot=SLOT)
    def write_a_block(self, first: int, count: int, position: int, slot: int) -> None:
        self.call("write", (slice(first, first + count), slice(position, None)), slot)

    @rule(bits=st.lists(st.booleans(), min_size=5, max_size=5), slot=SLOT)
    def write_by_a_mask(self, bits: list[bool], slot: int) -> None:
        self.call("write", torch.tensor(bits[: self.pool.size + 1]), slot)

    @rule(rows=st.lists(st.integers(0, 5), max_size=3), n=st.integers(-1, 3))
    def verify(self, rows: list[int], n: int) -> None:
        self.call("verify", torch.tensor(rows, dtype=torch.int64), n)

    @rule(row=st.integers(0, 5), verified=st.integers(0, 2), slots=st.lists(st.integers(0, 9), max_size=4))
    def set_info(self, row: int, verified: int, slots: list[int]) -> None:
        info = ReqToTokenPoolInfo(verified, len(slots), torch.tensor(slots, dtype=torch.int32))
        self.call("set_req_pool_info", row, info)

    @rule(who=st.integers(0, len(RIDS) - 1))
    def read(self, who: int) -> None:
        self.call("read", self.reqs[who])

    @rule(row=ROW, position=POSITION, slot=SLOT)
    def raw_cell(self, row: int, position: int, slot: int) -> None:
        rows, columns = self.pool.req_to_token.shape
        self.pool.req_to_token[row % rows, position % columns] = slot

    @rule(name=st.sampled_from(["verified_lens", "alloced_lens", "alloced_lens_cpu"]), row=ROW, n=st.integers(-1, 3))
    def raw_length(self, name: str, row: int, n: int) -> None:
        getattr(self.pool, name)[row % (self.pool.size + 1)] += n

    @rule(kind=st.sampled_from(["note", "write", "pad_write", "late_write", "verify"]), row=ROW)
    def emit(self, kind: str, row: int) -> None:
        before = self.now()
        self.trace.emit(kind, rows=row % (self.pool.size + 1), text="told")
        assert self.now() == before
        self.kept[len(self.trace)] = before

    @rule()
    def look_back(self) -> None:
        """Replay in the midst of recording disturbs neither."""
        middle = len(self.trace) // 2
        assert middle not in self.kept or self.same(self.trace.snapshot(middle), self.kept[middle])

    def same(self, snapshot: Snapshot, kept: dict[str, Any]) -> bool:
        found = state_in(snapshot)
        if self.pool_class is not ReqToTokenPool:
            found, kept = ({**state, "owners": None} for state in (found, kept))
        return found == kept

    def teardown(self) -> None:
        if not hasattr(self, "recording"):
            return
        self.recording.__exit__(None, None, None)
        self.kept[len(self.trace)] = self.now()
        assert "alloc" not in vars(self.pool)
        self.replays(self.trace)

    def replays(self, trace: Trace) -> None:
        steps = list(range(len(trace) + 1))
        shuffled = random.Random(len(trace)).sample(steps, len(steps))
        walk = [state_in(trace.snapshot(k)) for k in steps]
        for k in [*reversed(steps), *shuffled]:
            assert state_in(trace.snapshot(k)) == walk[k]
        for k, kept in self.kept.items():
            assert self.same(trace.snapshot(k), kept), f"after {k} events"
        assert trace.changed(0) == ()
        for k in steps[1:]:
            tables = (walk[k - 1]["table"], walk[k]["table"])
            cells = [
                (row, position)
                for row, (old, new) in enumerate(zip(*tables, strict=True))
                for position in range(len(old))
                if old[position] != new[position]
            ]
            assert list(trace.changed(k)) == cells
            assert entries(trace[k - 1].change) <= difference(walk[k - 1], walk[k])


def test_every_prefix_of_a_trace_is_the_pool_as_it_was() -> None:
    run_state_machine_as_test(TraceMachine, settings=QUICK)


@pytest.mark.parametrize("faulty", FAULTY_POOLS, ids=lambda cls: cls.__name__)
def test_a_faulty_pool_is_replayed_as_faithfully(faulty: type[ReqToTokenPool]) -> None:
    machine = type(f"{faulty.__name__}Machine", (TraceMachine,), {"pool_class": faulty})
    run_state_machine_as_test(machine, settings=settings(QUICK, max_examples=12))


def test_the_machine_would_notice_a_recorder_that_looks_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expectation is made apart from the trace: a recorder that misses raw writes to one position fails."""
    from reqpool.trace.recorder import _Recorder

    cells_moved = _Recorder._cells_moved
    monkeypatch.setattr(_Recorder, "_cells_moved", lambda self, row: [c for c in cells_moved(self, row) if c[1]])
    hurried = settings(QUICK, phases=[Phase.generate], max_examples=30)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(TraceMachine, settings=hurried)
