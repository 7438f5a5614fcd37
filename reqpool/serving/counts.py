"""A real stream of requests on a real pool, without a model: how many rows and slots it takes, and for how long.

    arrivals ---> waiting ---> rows of the pool ---> finished          time_s   rows  slots  waiting
                     ^   (chunks, then one token      |                 0.000      1    374        0
                     +---- a step) --- retracted -----+                 0.008      1    375        0

The pool, its rows and its lengths are real (`alloc`, `free`, `alloced_lens`, its mirror, `verified_lens`), and so is
the scheduler's policy; slots are a number, cells, K and V are left out, and the clock is simulated. So an hour of
traffic takes seconds. With `cells=True` slots and cells are real too, and the same run comes out, slowly.

The clock: a step takes `step_seconds(tokens)`, the shape of measured times of a 7B model's linear layers on an H100.
Attention and the reading of K and V are left out, and so is the host's work between steps: in a real engine requests
stay longer than here.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reqpool.kv import TokenToKVPoolAllocator, flatten_rows
from reqpool.pool import ReqToTokenPool, _at_least_one
from reqpool.serving.requests import Request
from reqpool.serving.scheduler import Entry, Scheduler
from reqpool.workloads import Arrival, Stream

LETTER = "x"  # what every token is, where nobody reads


def step_seconds(num_tokens: int) -> float:
    """How long a step of so many tokens takes: 6 ms up to 300 tokens, then 50 tokens a millisecond.

    Source: vidur (commit 7d47513), kernel times of Llama-2-7B's linear layers on an H100, x 32 layers; looked at on
    2026-11-30. The measured curve rises in stairs: from 129 to 1,000 tokens it lies up to 40 % higher, elsewhere within
    20 %.
    """
    return max(0.006, num_tokens / 50_000)


@dataclass(frozen=True, eq=False)
class Run:
    """What came out, by step: the state while the step runs, after its launch and before its results.

    Attributes:
        label: of the stream.
        time_s, step_s: float64 [steps], when each step began and how long it took. Between two steps nobody was here.
        rows, slots, waiting: int32 [steps], rows and slots held, requests without a row.
        retractions: int32 [steps], how many so far.
        residence_s: float64 [requests], from arrival to the last token, in order of arrival.
        num_decoded: output tokens.
    """

    label: str
    time_s: Tensor
    step_s: Tensor
    rows: Tensor
    slots: Tensor
    waiting: Tensor
    retractions: Tensor
    residence_s: Tensor
    num_decoded: int

    @property
    def num_steps(self) -> int:
        return len(self.time_s)

    @property
    def span_s(self) -> float:
        """From the first request to the last token."""
        return float(self.time_s[-1] + self.step_s[-1])

    def mean(self, counts: Tensor) -> float:
        """One of the counts over time, pauses included: a long step weighs more than a short one."""
        return float((counts * self.step_s).sum()) / self.span_s

    def median(self, counts: Tensor) -> int:
        """One of the counts: half of the time, pauses included, it was no higher."""
        pauses = self.span_s - float(self.step_s.sum())
        values, order = torch.sort(torch.cat([counts.new_zeros(1), counts]))
        so_far = torch.cumsum(torch.cat([self.step_s.new_tensor([pauses]), self.step_s])[order], 0)
        return int(values[int((so_far < so_far[-1] / 2).sum())])


def run(
    stream: Stream,
    pool: ReqToTokenPool,
    num_slots: int,
    budget: int = 512,
    chunk_size: int | None = None,
    mixed: bool = True,
    cells: bool = False,
    check_every: int = 1_000,
) -> Run:
    """Serve the stream to its end.

    Args:
        pool: with every row free. It has them all back afterwards; after an error it is as the error left it.
        num_slots: usable KV slots.
        budget, chunk_size, mixed: as in `Scheduler`.
        cells: real slots from a `TokenToKVPoolAllocator`, and cells written with them.
        check_every: steps between two checks that rows, lengths and slots add up; one more at the end.
    Raises:
        ValueError: a request that can never run, or a pool that is in use.
        RuntimeError: what a check has found.
    """
    check_every = _at_least_one("check_every", check_every)
    if pool.available_size() < pool.size:
        raise ValueError(f"run wants a pool with every row free, got {pool!r}")
    slots = TokenToKVPoolAllocator(num_slots) if cells else SlotCount(num_slots)
    lane = (CellLane if cells else CountLane)(pool, slots, budget, chunk_size, mixed)
    log = _Log(len(stream))
    arrivals = deque(enumerate(stream))
    now = 0.0
    while arrivals or not lane.idle:
        if lane.idle:
            now = max(now, arrivals[0][1].time_s)  # nobody is here until then
        while arrivals and arrivals[0][1].time_s <= now:
            lane.add(Lengths.of(*arrivals.popleft()))
        batch = lane.next_batch()
        if not batch:
            raise RuntimeError(f"nothing can run, and {len(lane.waiting)} requests wait: the scheduler is stuck")
        log.launched(now, lane)
        num_tokens, finished = lane.forward(batch)
        now += step_seconds(num_tokens)
        log.ended(now, finished)
        if len(log.time_s) % check_every == 0:
            check(pool, slots)
    check(pool, slots)
    return log.run(stream.label)


class _Log:
    """A run as it grows: C arrays, 32 bytes a step."""

    def __init__(self, num_requests: int) -> None:
        self.time_s, self.end_s, self.residence_s = array("d"), array("d"), array("d", bytes(8 * num_requests))
        self.rows, self.slots, self.waiting, self.retractions = (array("i") for _ in range(4))
        self.num_decoded = 0

    def launched(self, now: float, lane: Scheduler) -> None:
        self.time_s.append(now)
        self.rows.append(lane.pool.size - lane.pool.available_size())
        self.slots.append(lane.slots.size - lane.slots.available_size())
        self.waiting.append(len(lane.waiting))
        self.retractions.append(lane.num_retracted)

    def ended(self, now: float, finished: list[Request]) -> None:
        self.end_s.append(now)
        for req in finished:
            self.residence_s[int(req.rid)] = now - req.arrival
            self.num_decoded += req.output_len

    def run(self, label: str) -> Run:
        time_s, end_s, residence_s = (
            torch.frombuffer(numbers, dtype=torch.float64) for numbers in (self.time_s, self.end_s, self.residence_s)
        )
        rows, slots, waiting, retractions = (
            torch.frombuffer(numbers, dtype=torch.int32)
            for numbers in (self.rows, self.slots, self.waiting, self.retractions)
        )
        return Run(label, time_s, end_s - time_s, rows, slots, waiting, retractions, residence_s, self.num_decoded)


def check(pool: ReqToTokenPool, slots: Any) -> None:
    """Rows add up, and every slot that is taken is reserved by exactly one row; with real slots, cell by cell."""
    pool.check()
    slots.check()
    rows = sorted(pool.holders)
    lens = pool.alloced_lens_cpu[rows]
    taken = slots.size - slots.available_size()
    if int(lens.sum()) != taken:
        raise RuntimeError(f"the rows reserve {int(lens.sum())} slots, and {taken} are taken")
    if isinstance(slots, TokenToKVPoolAllocator):
        _, cells = flatten_rows(pool, rows, lens)
        times, wanted = torch.bincount(cells.cpu(), minlength=slots.size + 1), slots._taken.long()
        if not torch.equal(times, wanted):
            slot = int(torch.nonzero(times != wanted)[0])
            raise RuntimeError(f"slot {slot} is in {int(times[slot])} live cells, wanted {int(wanted[slot])}")


# ---- what a run is made of ---------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Lengths(Request):
    """A request without letters: a prompt of `prompt_tokens` tokens, `output_tokens` of the output so far."""

    prompt_tokens: int = 1
    output_tokens: int = 0

    @classmethod
    def of(cls, number: int, one: Arrival) -> Lengths:
        return cls(str(number), max_new_tokens=one.output_len, arrival=one.time_s, prompt_tokens=one.prompt_len)

    @property
    def prompt_len(self) -> int:
        return self.prompt_tokens

    @property
    def output_len(self) -> int:
        return self.output_tokens

    def take(self, letter: str) -> None:
        self.output_tokens += 1


class SlotCount:
    """The allocator's twin that only counts: how many slots are free, not which.

    >>> slots = SlotCount(4)
    >>> slots.alloc(3), slots.alloc(2), slots.available_size()
    (3, None, 1)
    """

    def __init__(self, size: int) -> None:
        self.size = _at_least_one("size", size)
        self._num_free = self.size

    def available_size(self) -> int:
        return self._num_free

    def alloc(self, n: int) -> int | None:
        """n, or None when fewer are free."""
        if n > self._num_free:
            return None
        self._num_free -= n
        return n

    def free(self, n: int) -> None:
        self._num_free += n

    def check(self) -> None:
        if not 0 <= self._num_free <= self.size:
            raise RuntimeError(f"{self._num_free} slots are free, there are {self.size}")


class CellLane(Scheduler):
    """The scheduler as it is; the forward lane raises `verified_lens` and says a letter for everybody."""

    def forward(self, batch: list[Any]) -> tuple[int, list[Request]]:
        """How many tokens the step has, and who has finished by it."""
        rows = torch.tensor([entry.row for entry in batch])
        lens = torch.tensor([entry.num_tokens for entry in batch], dtype=torch.int32)
        self.pool.verify(rows.to(self.pool.device), lens.to(self.pool.device))
        return int(lens.sum()), self.process(batch, dict.fromkeys(range(len(batch)), LETTER))


class CountLane(Scheduler):
    """The same policy, with no cells and no slot numbers, and one write a step for all who decode.

    A request that decodes stands in the batch itself: an `Entry` for every token would cost more than all the rest.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._decoding: list[int] = []  # rows
        self._index = self._index_cpu = torch.empty(0, dtype=torch.int64)
        self._one = self._one_cpu = torch.empty(0, dtype=torch.int32)

    def _launch_decodes(self, reqs: list[Any]) -> list[Any]:
        if reqs:
            self.slots.alloc(len(reqs))
            self._index_rows([req.req_pool_idx for req in reqs])
            self.pool.alloced_lens.index_add_(0, self._index, self._one)
            self.pool.alloced_lens_cpu.index_add_(0, self._index_cpu, self._one_cpu)
            for req in reqs:
                req.computed_len += 1
                req.kv_committed_len += 1
        return reqs

    def _index_rows(self, rows: list[int]) -> None:
        if rows != self._decoding:  # the same rows decode for many steps
            self._decoding, device = rows, self.pool.device
            self._index_cpu, self._one_cpu = torch.tensor(rows), torch.ones(len(rows), dtype=torch.int32)
            self._index, self._one = self._index_cpu.to(device), self._one_cpu.to(device)

    def _reserve(self, req: Request, n: int) -> None:
        self.slots.alloc(n)
        self.pool.alloced_lens[req.req_pool_idx].add_(n)
        self.pool.alloced_lens_cpu[req.req_pool_idx].add_(n)

    def _give_back_slots(self, req: Request) -> None:
        self.slots.free(int(self.pool.alloced_lens_cpu[req.req_pool_idx]))

    def forward(self, batch: list[Any]) -> tuple[int, list[Request]]:
        """How many tokens the step has, and who has finished by it."""
        prefills = [part for part in batch if isinstance(part, Entry)]
        decodes = batch[len(prefills) :]
        for entry in prefills:
            self.pool.verified_lens[entry.row].add_(entry.num_tokens)
        finished = self.process(prefills, dict.fromkeys(range(len(prefills)), LETTER))
        if decodes:
            self.pool.verified_lens.index_add_(0, self._index, self._one)
        done = []
        for req in decodes:
            req.output_tokens += 1
            if req.output_tokens >= req.max_new_tokens:
                done.append(req)
        for req in done:
            self._finish(req)
        return sum(entry.num_tokens for entry in prefills) + len(decodes), finished + done
