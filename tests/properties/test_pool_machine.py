"""The pool and the slow, obvious model go through the same random history; after every step they are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from reqpool.checked import CheckedPool
from reqpool.faulty import FAULTY_POOLS
from reqpool.pool import MAX_SLOT, Req, ReqToTokenPool, ReqToTokenPoolInfo
from tests.properties.slow_model import Refused, SlowPool, SlowReq, state_of

RIDS = ("a", "b", "c", "a", "d")  # two requests share a rid: identity counts
WHO = st.integers(0, len(RIDS) - 1)
ROW = st.integers(-1, 5)
SLOT = st.sampled_from([0, 1, 2, 7, 8, 9, MAX_SLOT])
SLOTS = st.lists(SLOT, max_size=4)
QUICK = settings(
    max_examples=200,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class PoolMachine(RuleBasedStateMachine):
    pool_class: type[ReqToTokenPool] = ReqToTokenPool

    @initialize(size=st.integers(1, 4), width=st.integers(1, 6), reuse=st.sampled_from(["fifo", "lifo"]))
    def begin(self, size: int, width: int, reuse: str) -> None:
        self.size, self.width = size, width
        self.pool = self.pool_class(size, width, device="cpu", reuse=reuse)
        self.model = SlowPool(size, width, reuse)
        self.elsewhere = ReqToTokenPool(2, 2, device="cpu")  # requests may come from another pool
        self.elsewhere_model = SlowPool(2, 2, "fifo")
        self.reqs = [Req(rid) for rid in RIDS]
        self.slow = [SlowReq(name) for name in range(len(RIDS))]
        self.identity = {name: id(req) for name, req in enumerate(self.reqs)}

    def both(self, real: Callable[[], Any], model: Callable[[], Any]) -> None:
        """Either both refuse or both return the same; `equal` compares the states afterwards."""
        try:
            wanted = ("returned", model())
        except Refused:
            wanted = ("refused", None)
        try:
            got = ("returned", real())
        except ValueError as error:
            got = ("refused", None)
            assert str(error)
        assert got == wanted

    # ---- rows

    @rule(batch=st.lists(WHO, max_size=5))
    def alloc(self, batch: list[int]) -> None:
        self.both(
            lambda: self.pool.alloc([self.reqs[i] for i in batch]),
            lambda: self.model.alloc([self.slow[i] for i in batch]),
        )

    @rule(batch=st.lists(WHO, max_size=3, unique=True))
    def alloc_what_can_be_had(self, batch: list[int]) -> None:
        self.alloc([i for i in batch if self.slow[i].row is None or self.slow[i].chunks or self.slow[i].committed])

    @rule(data=st.data(), committed=st.sampled_from([0, 3]), chunks=st.sampled_from([0, 1]))
    def alloc_a_request_that_has_a_row_and_a_new_one(self, data: st.DataObject, committed: int, chunks: int) -> None:
        holding = [who for who, req in enumerate(self.slow) if self.model.owns(req)]
        without = [who for who, req in enumerate(self.slow) if req.row is None]
        if holding:
            who = data.draw(st.sampled_from(holding))
            self.the_scheduler_moves_on(who, committed, chunks)
            self.alloc(data.draw(st.permutations([who, *without[:1]])))

    @rule(n=st.integers(-1, 5))
    def alloc_rows(self, n: int) -> None:
        self.both(lambda: self.pool.alloc_rows(n), lambda: self.model.alloc_rows(n))

    @rule(who=WHO, committed=st.sampled_from([0, 3]), chunks=st.sampled_from([0, 1]))
    def the_scheduler_moves_on(self, who: int, committed: int, chunks: int) -> None:
        self.reqs[who].kv_committed_len = self.slow[who].committed = committed
        self.reqs[who].inflight_middle_chunks = self.slow[who].chunks = chunks

    @rule(who=WHO)
    def free(self, who: int) -> None:
        self.both(lambda: self.pool.free(self.reqs[who]), lambda: self.model.free_req(self.slow[who]))

    @rule(rows=st.one_of(ROW, st.lists(ROW, max_size=3)))
    def free_rows(self, rows: int | list[int]) -> None:
        several = rows if isinstance(rows, list) else [rows]
        self.both(lambda: self.pool.free_rows(rows), lambda: self.model.free_rows(several))

    @rule(data=st.data(), as_tensor=st.booleans())
    def free_rows_that_are_out_by_count(self, data: st.DataObject, as_tensor: bool) -> None:
        out = [row for row, req in self.pool.holders.items() if req is None]
        rows = data.draw(st.permutations(out).map(lambda rows: rows[:2]))
        given = torch.tensor(rows, dtype=torch.int64) if as_tensor else rows
        self.both(lambda: self.pool.free_rows(given), lambda: self.model.free_rows(rows))

    @rule()
    def clear(self) -> None:
        self.both(self.pool.clear, self.model.clear)

    @rule(who=WHO)
    def alloc_elsewhere(self, who: int) -> None:
        self.both(lambda: self.elsewhere.alloc([self.reqs[who]]), lambda: self.elsewhere_model.alloc([self.slow[who]]))

    @rule(who=WHO)
    def free_elsewhere(self, who: int) -> None:
        self.both(lambda: self.elsewhere.free(self.reqs[who]), lambda: self.elsewhere_model.free_req(self.slow[who]))

    @rule(who=WHO, row=st.one_of(st.none(), ROW))
    def somebody_tampers_with_a_request(self, who: int, row: int | None) -> None:
        self.reqs[who].req_pool_idx = self.slow[who].row = row

    # ---- cells and lengths

    @rule(who=WHO, slots=SLOTS)
    def append_to_request(self, who: int, slots: list[int]) -> None:
        tensor = torch.tensor(slots, dtype=torch.int64)
        self.both(lambda: self.pool.append(self.reqs[who], tensor), lambda: self.model.append(self.slow[who], slots))

    @rule(row=ROW, slots=SLOTS)
    def append_to_row(self, row: int, slots: list[int]) -> None:
        tensor = torch.tensor(slots, dtype=torch.int32)
        self.both(lambda: self.pool.append(row, tensor), lambda: self.model.append(row, slots))

    @rule(data=st.data(), slots=SLOTS)
    def write(self, data: st.DataObject, slots: list[int]) -> None:
        if not self.model.owner:
            return
        row = data.draw(st.sampled_from(sorted(self.model.owner)))
        position = data.draw(st.integers(0, self.width - 1))
        slots = slots[: self.width - position]
        cells = (row, slice(position, position + len(slots)))
        values = torch.tensor(slots, dtype=torch.int32)
        self.both(lambda: self.pool.write(cells, values), lambda: self.model.write(row, position, slots))

    @rule(data=st.data(), n=st.integers(0, 3))
    def verify(self, data: st.DataObject, n: int) -> None:
        if not self.model.owner:
            return
        rows = data.draw(st.lists(st.sampled_from(sorted(self.model.owner)), unique=True, min_size=1))
        self.both(lambda: self.pool.verify(rows, n), lambda: self.model.verify(rows, n))

    @rule(who=WHO)
    def read(self, who: int) -> None:
        self.both(
            lambda: self.pool.read(self.reqs[who]).tolist(),
            lambda: self.model.table[self.model.row_of(self.slow[who])],
        )

    @rule(row=ROW)
    def get_info_and_set_it_again(self, row: int) -> None:
        if row in self.model.owner and not self.model.row_is_lawful(row):
            return  # a late write has been there: nothing is promised of its lengths
        before = state_of(self.pool)

        def real() -> tuple[int, int, list[int]]:
            info = self.pool.get_req_pool_info(row)
            self.pool.set_req_pool_info(row, info)
            return info.verified_len, info.alloced_len, info.alloced_slots.tolist()

        self.both(real, lambda: self.model.get_info(row))
        assert state_of(self.pool) == before

    @rule(row=ROW, verified=st.integers(-1, 7), alloced=st.integers(-1, 7), slots=SLOTS)
    def set_info(self, row: int, verified: int, alloced: int, slots: list[int]) -> None:
        info = ReqToTokenPoolInfo(verified, alloced, torch.tensor(slots, dtype=torch.int64))
        self.both(
            lambda: self.pool.set_req_pool_info(row, info), lambda: self.model.set_info(row, verified, alloced, slots)
        )

    @rule(row=ROW, verified=st.integers(0, 3), slots=SLOTS)
    def set_info_that_has_a_chance(self, row: int, verified: int, slots: list[int]) -> None:
        self.set_info(row, min(verified, len(slots)), len(slots), slots)

    # ---- late writes: straight into the tensors, of free rows, rows that are out, and the padding row

    @rule(data=st.data(), late=st.integers(0, 7))
    def a_late_write_hits_a_length(self, data: st.DataObject, late: int) -> None:
        row = data.draw(st.integers(0, self.size))
        tensor, mine = data.draw(
            st.sampled_from(
                [
                    (self.pool.verified_lens, self.model.verified),
                    (self.pool.alloced_lens, self.model.alloced),
                    (self.pool.alloced_lens_cpu, self.model.mirror),
                ]
            )
        )
        tensor[row] = mine[row] = late

    @rule(data=st.data(), slot=SLOT)
    def a_late_write_hits_a_cell(self, data: st.DataObject, slot: int) -> None:
        row, position = data.draw(st.integers(0, self.size)), data.draw(st.integers(0, self.width - 1))
        self.pool.req_to_token[row, position] = self.model.table[row][position] = slot

    # ---- after every step

    @invariant()
    def equal(self) -> None:
        assert state_of(self.pool) == self.model.state(self.identity)
        assert state_of(self.elsewhere) == self.elsewhere_model.state(self.identity)
        assert [req.req_pool_idx for req in self.reqs] == [req.row for req in self.slow]
        assert [req.kv_committed_len for req in self.reqs] == [req.committed for req in self.slow]
        assert self.pool.available_size() == len(self.pool.free_slots) == len(self.model.free)

    @invariant()
    def check_agrees(self) -> None:
        try:
            self.pool.check()
            lawful = True
        except RuntimeError:
            lawful = False
        assert lawful == self.model.is_lawful()


def machine_for(pool_class: type[ReqToTokenPool]) -> type[PoolMachine]:
    return type(f"{pool_class.__name__}Machine", (PoolMachine,), {"pool_class": pool_class})


def test_the_pool_is_the_slow_obvious_pool() -> None:
    run_state_machine_as_test(PoolMachine, settings=QUICK)


def test_the_checked_pool_is_the_same_pool_for_lawful_writes() -> None:
    run_state_machine_as_test(machine_for(CheckedPool), settings=settings(QUICK, max_examples=30))


@pytest.mark.parametrize("faulty", FAULTY_POOLS, ids=lambda faulty: faulty.__name__)
def test_this_history_would_find_the_faulty_pool(faulty: type[ReqToTokenPool]) -> None:
    find_only = settings(QUICK, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises((AssertionError, IndexError)):
        run_state_machine_as_test(machine_for(faulty), settings=find_only)
