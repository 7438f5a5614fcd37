"""The schedule lane: who runs in the next step, in which rows and slots. It moves numbers; it computes no letter.

    waiting --admit--> prefilling --last chunk--> running --limit reached--> finished
       ^                    |                        |
       +----- retracted ----+------------------------+      row and slots are freed; it prefills again later

A step has a budget of tokens. Running requests take one each; a prompt that does not fit goes in chunks, and keeps
its row from chunk to chunk. `inflight_middle_chunks` goes up when a chunk that is not the last is launched and down
when its result comes, so it is 0 on the last chunk; `kv_committed_len` counts the tokens of all launched steps. Both as
in SGLang.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from reqpool.pool import ReqToTokenPool, _at_least_one, row_of
from reqpool.serving.requests import Request, no_fact


@dataclass(frozen=True, eq=False)
class Entry:
    """One request's part of a step: `num_tokens` tokens from position `start` on, in the row it held at launch."""

    req: Request
    row: int
    generation: int  # of the row, at launch
    start: int
    num_tokens: int
    kind: str  # "prefill" or "decode"
    last: bool  # a letter comes out: every decode, and the last chunk of a prefill


class Scheduler:
    """Continuous batching over a pool of rows and a pool of slots.

    Args:
        slots: a `TokenToKVPoolAllocator`, or what counts as one does (`reqpool.serving.counts`).
        budget: tokens a step may compute.
        chunk_size: prompt tokens of one request a step may compute; None: as the budget allows.
        mixed: prefill and decode share a step; otherwise a step with prefill work decodes nothing.
        tolerant: for a pool with a safeguard taken out: a row that is released with slots that cannot be freed (its
            cells were overwritten) is said as a fact; otherwise it is the allocator's ValueError.
        on_fact: called with (kind, **facts) for what no call on the pool shows.
    """

    def __init__(
        self,
        pool: ReqToTokenPool,
        slots: Any,
        budget: int = 64,
        chunk_size: int | None = None,
        mixed: bool = True,
        tolerant: bool = False,
        on_fact: Callable[..., None] = no_fact,
    ) -> None:
        self.pool, self.slots, self.mixed, self.tolerant, self.on_fact = pool, slots, mixed, tolerant, on_fact
        self.budget = _at_least_one("budget", budget)
        self.chunk_size = self.budget if chunk_size is None else _at_least_one("chunk_size", chunk_size)
        self.waiting: deque[Request] = deque()
        self.chunked: Request | None = None  # at most one prompt is between its chunks
        self.running: list[Request] = []
        self.rids: set[str] = set()
        self.num_retracted = 0

    def add(self, req: Request) -> None:
        """Queue a request. One that could never run is refused here: it must not wait for ever.

        Raises:
            ValueError: it needs more positions or slots than there are at all, its rid has been used, or it has run.
        """
        need = req.prompt_len + req.max_new_tokens
        for limit, where in (
            (self.pool.max_context_len, "max_context_len"),
            (self.slots.size, "the number of KV slots"),
        ):
            if need > limit:
                raise ValueError(
                    f"request {req.rid!r} needs {need} tokens (prompt {req.prompt_len} + output {req.max_new_tokens}), "
                    f"{where} is {limit}: raise it, or shorten the request"
                )
        if req.rid in self.rids:
            raise ValueError(f"request {req.rid!r}: this rid has been used, wanted a new one")
        if not req.fresh:
            raise ValueError(f"request {req.rid!r} is {req.state} with {req.output_len} letters, wanted a fresh one")
        self.rids.add(req.rid)
        self.waiting.append(req)

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.chunked or self.running)

    def stuck(self) -> str:
        """Why nothing can run although somebody waits, and which limit it is."""
        first = self.chunked or self.waiting[0]
        limit = self._slot_limit() if self.chunked or self.pool.available_size() else self._row_limit()
        return (
            f"{len(self.waiting) + bool(self.chunked)} waiting: request {first.rid!r} of {first.total_len} tokens "
            f"cannot go on: {limit}"
        )

    def _row_limit(self) -> str:
        return f"no row of the pool is free (its size is {self.pool.size}): raise its size, or free what others hold"

    def _slot_limit(self) -> str:
        return (
            f"{self.slots.available_size()} of {self.slots.size} KV slots are free: raise the number of KV slots, "
            "or free what others hold"
        )

    # ---- launch --------------------------------------------------------------------------------------------------

    def next_batch(self) -> list[Entry]:
        """The entries of the next step; empty when there is nothing that could run."""
        if self.mixed:
            decodes = self._decodes()
            return self._prefills(self.budget - len(decodes)) + decodes
        return self._prefills(self.budget) or self._decodes()

    def _decodes(self) -> list[Entry]:
        reqs = self.running[: self.budget]
        while len(reqs) > self.slots.available_size():
            victim = min(self.running, key=lambda req: (req.output_len, -req.prompt_len))
            if self.running == [victim] and not self.chunked:  # it would come back to as many slots, for ever
                raise RuntimeError(f"request {victim.rid!r} runs alone and needs one more slot: {self._slot_limit()}")
            self.retract(victim)
            reqs = self.running[: self.budget]
        return self._launch_decodes(reqs)

    def _launch_decodes(self, reqs: list[Request]) -> list[Entry]:
        return [self._launch(req, 1, "decode") for req in reqs]

    def _prefills(self, budget: int) -> list[Entry]:
        parts: list[tuple[Request, int]] = []
        room = self.slots.available_size()
        if self.chunked:
            parts.append((self.chunked, self._chunk(self.chunked, min(budget, room))))
        admitted = 0
        for req in islice(self.waiting, self.pool.available_size()):
            spent = sum(n for _, n in parts)
            if parts and not self._finishes(*parts[-1]):
                break
            if budget - spent < 1 or room - spent < req.total_len + len(self.running) + len(parts):
                break
            parts.append((req, self._chunk(req, budget - spent)))
            admitted += 1
        parts = [(req, n) for req, n in parts if n > 0]
        if not parts:
            return []
        middle = [req for req, n in parts if not self._finishes(req, n)]
        for req in middle:
            req.inflight_middle_chunks += 1  # before `alloc` asks for it, as in SGLang
        try:
            if self.pool.alloc([req for req, _ in parts]) is None:
                raise RuntimeError(f"{len(parts)} rows wanted, {self.pool.available_size()} free: wrongly admitted")
        except (ValueError, RuntimeError):
            for req in middle:
                req.inflight_middle_chunks -= 1
            raise
        for _ in range(admitted):  # a refused alloc has left them where they were
            self.waiting.popleft()
        return [self._launch(req, n, "prefill") for req, n in parts]

    def _chunk(self, req: Request, budget: int) -> int:
        return min(req.total_len - req.computed_len, self.chunk_size, budget)

    def _finishes(self, req: Request, n: int) -> bool:
        return req.computed_len + n == req.total_len

    def _launch(self, req: Request, n: int, kind: str) -> Entry:
        start, row = req.computed_len, row_of(req)
        last = kind == "decode" or self._finishes(req, n)
        self._reserve(req, n)
        req.computed_len = req.kv_committed_len = start + n
        if kind == "prefill":
            req.state = "running" if last else "prefilling"
            self.chunked = None if last and self.chunked is req else self.chunked if last else req
            if last:
                self.running.append(req)
        return Entry(req, row, int(self.pool.generation[row]), start, n, kind, last)

    def _reserve(self, req: Request, n: int) -> None:
        self.pool.append(req, self.slots.alloc(n))

    # ---- result --------------------------------------------------------------------------------------------------

    def process(self, entries: list[Entry], letters: dict[int, str]) -> list[Request]:
        """Take a step's results: `letters` by the entry's index. What no longer concerns its request is dropped.

        Returns:
            the requests that have finished by it.
        """
        finished = []
        for i, entry in enumerate(entries):
            req = entry.req
            if not self.concerns(entry):
                continue
            if not entry.last:
                req.inflight_middle_chunks -= 1
            elif i in letters:
                req.take(letters[i])
                if req.output_len >= req.max_new_tokens:
                    self._finish(req)
                    finished.append(req)
        return finished

    def _finish(self, req: Request) -> None:
        self.running.remove(req)
        self._release(req, "finished")

    def concerns(self, entry: Entry) -> bool:
        """Is this step still the business of the request that holds the row?"""
        return entry.req.req_pool_idx == entry.row and int(self.pool.generation[entry.row]) == entry.generation

    def retract(self, req: Request) -> None:
        """Take a running or prefilling request off: row and slots are free, it will prefill prompt and output again."""
        if req is not self.chunked and req not in self.running:
            raise ValueError(f"retract of request {req.rid!r}: it is {req.state}, wanted one that holds a row here")
        rows = (req.req_pool_idx,)
        self._remove(req)
        self.num_retracted += 1
        self.on_fact(
            "retract", rid=req.rid, rows=rows, text=f"request {req.rid} is retracted: it gives up row {rows[0]}"
        )
        self._release(req, "retracted")
        self.waiting.appendleft(req)

    def abort(self, req: Request) -> None:
        """Stop a request in whatever state it is; one that has ended stays as it is.

        Row and slots are free at once, whatever is in flight. SGLang only flags a running request and tears it down
        at a later check (looked at on 2026-11-30).
        """
        if req.ended:
            return
        self._remove(req)
        if req.req_pool_idx is not None:
            self._release(req, "aborted")
        req.state = "aborted"

    def _remove(self, req: Request) -> None:
        if req is self.chunked:
            self.chunked = None
        elif req in self.running:
            self.running.remove(req)
        elif req in self.waiting:
            self.waiting.remove(req)
        else:
            raise ValueError(f"request {req.rid!r} is not in this scheduler")

    def _release(self, req: Request, state: str) -> None:
        self._give_back_slots(req)
        self.pool.free(req)
        req.computed_len = req.kv_committed_len = req.inflight_middle_chunks = 0
        req.state = state

    def _give_back_slots(self, req: Request) -> None:
        row = req.req_pool_idx
        slots = self.pool.req_to_token[row, : int(self.pool.alloced_lens_cpu[row])]
        try:
            self.slots.free(slots)
        except ValueError as error:
            if not self.tolerant:
                raise
            own = self.slots.free_what_is_taken(slots)
            self.on_fact("note", rid=req.rid, rows=(row,), text=_leaking(req.rid, own, len(slots) - own, error))


def _leaking(rid: str, given: int, refused: int, error: ValueError) -> str:
    why = str(error).removeprefix("free of ").removeprefix("free: ")
    more, lost = ("one more", "the slot") if refused == 1 else (f"{refused} more", f"the {refused} slots")
    return (
        f"request {rid} gives back {given} slot{'' if given == 1 else 's'}. Its row says {more} that cannot be given "
        f"back ({why}); so {lost} that stood there before leak{'s' if refused == 1 else ''}"
    )
