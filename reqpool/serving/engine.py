"""The engine: a schedule lane and a forward lane over one pool, in steps that one can watch.

    step            1            2            3
    schedule    batch 1      batch 2      batch 3        rows, slots, cells; takes the results as they come
    forward                  batch 1      batch 2        K, V, letters, verified lengths: one step late

In overlap the schedule lane is one step ahead, so a request can end while its next step is already launched, and what
that step writes comes late: into a row that is free, or into one that somebody has by now. A late `+= 1` that comes
alone does no harm there: the new owner's steps all begin one position further on, at cells that the schedule lane, one
step ahead, has written by then. When else a late write could land, and the fence, are an experiment's:
`reqpool.scenarios.experiments.late`.

No threads: the order of things is the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from reqpool.kv import TokenToKVPoolAllocator
from reqpool.pool import ReqToTokenPool
from reqpool.serving.graph import GraphRunner
from reqpool.serving.recite import LETTERS, Recite
from reqpool.serving.requests import Request, no_fact
from reqpool.serving.scheduler import Entry, Scheduler


class Engine:
    """Runs requests on a real pool and recites.

    Args:
        pool: the rows; any `ReqToTokenPool`, a faulty one too.
        num_slots: usable KV slots.
        overlap: the forward lane runs one step late.
        generation_check: a late step whose row has been handed out again since its launch is dropped by the host.
        runner: keyword arguments of `GraphRunner`.
        Everything else as in `Scheduler`.

    >>> engine = Engine(ReqToTokenPool(2, 16, device="cpu"), num_slots=32, budget=4)
    >>> a = engine.add(Request("a", prompt="xyz", max_new_tokens=7))
    >>> engine.run()
    >>> a.output
    'xyzxyzx'
    """

    def __init__(
        self,
        pool: ReqToTokenPool,
        num_slots: int,
        overlap: bool = False,
        generation_check: bool = True,
        runner: dict[str, Any] | None = None,
        on_fact: Callable[..., None] = no_fact,
        **scheduling: Any,
    ) -> None:
        self.pool, self.overlap, self.generation_check = pool, overlap, generation_check
        self.slots = TokenToKVPoolAllocator(num_slots)
        self.model = Recite(num_slots, pool.max_context_len, pool.device)
        self.scheduler = Scheduler(pool, self.slots, on_fact=on_fact, **scheduling)
        self.runner = GraphRunner(pool, self.model, on_fact=on_fact, **(runner or {}))
        self.relay = torch.zeros(pool.size + 1, dtype=torch.int64, device=pool.device)  # the last letter, by row
        self.queue: list[list[Entry]] = []  # launched, not yet computed
        self.num_steps = 0

    def add(self, req: Request) -> Request:
        """Queue a request; see `Scheduler.add` for what is refused."""
        self.model.check_prompt(req.prompt, req.rid)
        self.scheduler.add(req)
        return req

    def run(self, max_steps: int = 10_000) -> None:
        """Step until all requests have ended.

        Raises:
            RuntimeError: they cannot, and which limit it is; or not within so many steps.
        """
        lane = self.scheduler
        for _ in range(max_steps):
            if not self.step():
                if not lane.idle:
                    raise RuntimeError(f"nothing can run, {lane.stuck()}")
                return
        raise RuntimeError(f"{len(lane.running)} running, {len(lane.waiting)} waiting requests after {max_steps} steps")

    def step(self) -> bool:
        """One step of both lanes; False when there was nothing to do."""
        batch = self.scheduler.next_batch()
        if batch:
            self.queue.append(batch)
        late = 1 if self.overlap and batch else 0
        worked = bool(batch)
        while len(self.queue) > late:
            entries = self.queue.pop(0)
            self.scheduler.process(entries, self.forward(entries))
            worked = True
        self.num_steps += worked
        return worked

    def forward(self, entries: list[Entry]) -> dict[int, str]:
        """The forward lane's part of a step: letters by index of entry."""
        live = [
            (i, entry)
            for i, entry in enumerate(entries)
            if not self.generation_check or int(self.pool.generation[entry.row]) == entry.generation
        ]
        letters: dict[int, str] = {}
        for i, entry in live:
            if entry.kind == "prefill":
                letters.update({i: letter} if (letter := self._prefill(entry)) else {})
        decodes = [(i, entry) for i, entry in live if entry.kind == "decode"]
        if decodes:
            said = self._decode([entry for _, entry in decodes])
            letters.update(zip((i for i, _ in decodes), said, strict=True))
        return letters

    def _prefill(self, entry: Entry) -> str | None:
        """Not in a graph: prompt chunks have every length. It starts where the *device* says, at verified_len.

        FluentLLM sets `verified_lens` to the prefix length at prefill, so a late write before it does no harm there;
        here prefill reads it, as every later step does.
        """
        pool, row, n = self.pool, entry.row, entry.num_tokens
        text = entry.req.text[entry.start : entry.start + n]
        start = int(pool.verified_lens[row])
        end = min(start + n, pool.max_context_len)
        positions = torch.arange(start, max(start, end), device=pool.device)
        slots = pool.req_to_token[row, :end].long()
        tokens = self.model.tokens(text)[: len(positions)]
        self.model.write(slots[start:], positions, tokens)
        pool.verify([row], n)
        if not entry.last:
            return None
        wanted = torch.tensor([start + n - len(entry.req.prompt)], device=pool.device)
        token = int(
            self.model.attend(wanted, slots[None], torch.ones(1, len(slots), dtype=torch.bool, device=pool.device))
        )
        self.relay[row] = token
        return LETTERS[token]

    def _decode(self, entries: list[Entry]) -> list[str]:
        """In parts, where more run than the largest graph has entries."""
        most = self.runner.graph_sizes[-1]
        parts = [entries[i : i + most] for i in range(0, len(entries), most)]
        return [letter for part in parts for letter in self._decode_part(part)]

    def _decode_part(self, entries: list[Entry]) -> list[str]:
        rows = torch.tensor([entry.row for entry in entries], device=self.pool.device)
        positions = self.pool.verified_lens[rows].long()
        periods = torch.tensor([len(entry.req.prompt) for entry in entries], device=self.pool.device)
        said = self.runner.run(rows, positions, self.relay[rows], positions + 1 - periods)
        self.relay[rows] = self.runner.out[: len(entries)]
        return said


def recite(requests: Iterable[Request], pool: ReqToTokenPool, num_slots: int, **settings: Any) -> dict[str, str]:
    """Run requests to the end and return what each recited, by rid."""
    engine = Engine(pool, num_slots, **settings)
    requests = [engine.add(req) for req in requests]
    engine.run()
    return {req.rid: req.output for req in requests}
