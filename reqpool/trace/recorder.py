"""`record(pool)`: watch a pool from outside, and leave it exactly as it was.

    with record(pool) as trace:      pool.alloc, pool.free, ... are wrapped on this one instance
        pool.alloc([a])              compare with the last known state  ->  unannounced changes become events
                                     the call itself                    ->  keep, alloc, reset, or one refuse
                                     compare again                      ->  what the call changed
    the wrappers are gone

What is shown was found in the tensors: a scenario cannot invent its own damage, and cannot hide it either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from reqpool.trace.events import KINDS, LENGTHS, Cell, Change, Event, Rids, Snapshot, Splice
from reqpool.trace.replay import Trace

CALLS = {
    "alloc": "alloc",
    "alloc_rows": "alloc",
    "free": "free",
    "free_rows": "free",
    "clear": "clear",
    "write": "write",
    "append": "append",
    "verify": "verify",
    "read": "read",
    "set_req_pool_info": "write",
    "get_req_pool_info": "read",
}
LENGTH_TENSORS = {
    "verified": "verified_lens",
    "alloced": "alloced_lens",
    "alloced_cpu": "alloced_lens_cpu",
    "generation": "generation",
}
WRITES = ("write", "late_write", "pad_write", "verify", "reset")  # kinds whose emit claims the changes in its rows


@contextmanager
def record(pool: Any) -> Iterator[Trace]:
    """Record every call on this pool, refusals too, and every change that nobody announced.

    Cost: two comparisons of the whole table a call: for lessons and tests.

    >>> from reqpool import Req, ReqToTokenPool, record
    >>> pool = ReqToTokenPool(size=1, max_context_len=4, device="cpu")
    >>> with record(pool) as trace:
    ...     row = pool.alloc_rows(1)
    ...     pool.free_rows(row)
    ...     pool.verified_lens[1] += 3  # by no call: a forward step that came late
    ...     row = pool.alloc_rows(1)
    >>> [event.kind for event in trace]
    ['alloc', 'free', 'late_write', 'alloc', 'reset']
    """
    recorder = _Recorder(pool)
    earlier = {name: vars(pool)[name] for name in CALLS if name in vars(pool)}
    for name in CALLS:
        setattr(pool, name, recorder.wrap(name, getattr(pool, name)))
    recorder.trace._emit = recorder.emit
    try:
        yield recorder.trace
    finally:
        for name in CALLS:
            vars(pool).pop(name, None)
        vars(pool).update(earlier)
        recorder.trace._emit = None
        recorder.unannounced()


class _Recorder:
    def __init__(self, pool: Any) -> None:
        missing = [
            name
            for name in (*LENGTH_TENSORS.values(), "req_to_token", "free_slots", "holders", *CALLS)
            if not hasattr(pool, name)
        ]
        if missing:
            raise TypeError(f"record wants a ReqToTokenPool, got {pool!r}, which has no {', '.join(missing[:4])}")
        self.pool = pool
        self.reqs = {id(req): req for req in pool.holders.values() if req is not None}
        self.by_count = {row for row, req in pool.holders.items() if req is None}
        self.busy = False  # inside a call: what it calls in turn is part of it
        self.table = pool.req_to_token.clone()  # the last known state: this, `lengths`, `free` and `owners`
        self.lengths: dict[str, list[int]] = {name: getattr(pool, at).tolist() for name, at in LENGTH_TENSORS.items()}
        self.free: list[int] = list(pool.free_slots)
        self.owners = self._owners_now()
        lengths = {name: tuple(numbers) for name, numbers in self.lengths.items()}
        table = self.table.to("cpu", copy=True)
        state = {"padding_row": pool.padding_row, "reuse": pool.reuse}
        self.trace = Trace(Snapshot(table, dict(self.owners), tuple(self.free), **lengths, **state))

    # ---- one call ----------------------------------------------------------------------------------------------

    def wrap(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self.busy:
                return method(*args, **kwargs)
            self.unannounced()
            if name != "write":  # what is read twice must not be a generator
                args = tuple(_once(arg) for arg in args)
                kwargs = {key: _once(arg) for key, arg in kwargs.items()}
            subject = args[0] if args else next(iter(kwargs.values()), None)
            before = _rows_held(subject) if name in _BY_REQUEST else []
            self.busy = True
            try:
                result = method(*args, **kwargs)
            except Exception as error:
                self._refused(name, subject, str(error), type(error).__name__)
                raise
            finally:
                self.busy = False
            if result is None and CALLS[name] == "alloc":
                self._refused(name, subject, self._too_few(subject), "None")
            else:
                self._done(name, subject, before, result)
            return result

        return recorded

    def _done(self, name: str, subject: Any, before: list[int | None], result: Any) -> None:
        kind = CALLS[name]
        if name == "alloc":
            self.reqs.update((id(req), req) for req in subject)
            self._alloced([(req.rid, row, row == had) for req, row, had in zip(subject, result, before, strict=True)])
        elif name == "alloc_rows":
            self.by_count.update(result)
            self._alloced([(None, row, False) for row in result])
        elif name == "write":
            change = self._difference(rows=_row_of_index(subject), lengths=())
            self._event(kind, self._rids_of(change.rows), change.rows, call=name, change=change)
        else:
            rows = [row for row in before if row is not None] or _named_rows(subject)
            rids = _rids(subject) or self._rids_of(rows)
            self.by_count.difference_update(rows if name == "free_rows" else self.by_count if name == "clear" else ())
            if name in _TOUCHES:
                change = self._difference(rows=rows if name == "append" else (), lengths=_TOUCHES[name])
            else:
                change = self._difference(owners=kind in ("free", "clear"))
            self._event(kind, rids, rows, call=name, change=change)

    def _alloced(self, taken: list[tuple[str | None, int, bool]]) -> None:
        """One call gives keep, alloc and reset, in this order and only where not empty."""
        change = self._difference(owners=True)
        resets = tuple(length for length in change.lengths if length[0] != "generation")
        others = tuple(length for length in change.lengths if length[0] == "generation")
        call = "alloc_rows" if taken and taken[0][0] is None else "alloc"
        kept = [(rid, row) for rid, row, keeps in taken if keeps]
        new = [(rid, row) for rid, row, keeps in taken if not keeps]
        rest = Change(change.cells, others, change.owners, change.free)
        for kind, group, part in (("keep", kept, Change() if new else rest), ("alloc", new, rest)):
            if group:
                rids, rows = zip(*group, strict=True)
                self._event(kind, rids=rids, rows=rows, call=call, change=part)
        if resets:
            rows = Change(lengths=resets).rows
            self._event("reset", rids=self._rids_of(rows), rows=rows, call=call, change=Change(lengths=resets))

    def _refused(self, name: str, subject: Any, why: str, error: str) -> None:
        rows = tuple(row for row in _rows_held(subject) if isinstance(row, int))
        change = self._difference(owners=True)  # nothing, unless the pool is faulty
        self._event(
            "refuse", rids=_rids(subject), rows=rows, call=name, text=why, facts=(("error", error),), change=change
        )

    def _too_few(self, subject: Any) -> str:
        wanted = sum(row is None for row in _rows_held(subject)) if isinstance(subject, list) else subject
        return f"{wanted} rows wanted, {len(self.free)} free"

    # ---- facts and changes that no call shows --------------------------------------------------------------------

    def emit(self, kind: str, rid: str | None, rows: Any, text: str, facts: dict[str, Any]) -> None:
        if kind not in KINDS:
            raise ValueError(f"emit: unknown kind {kind!r}, wanted one of {', '.join(KINDS)}")
        rows = _numbers(rows)
        num_rows = len(self.table)
        if any(not 0 <= row < num_rows for row in rows):
            raise ValueError(f"emit: rows {rows} are not all in 0..{num_rows - 1}")
        pairs = tuple((name, _plain(name, value)) for name, value in facts.items())
        claimed = self.unannounced(claim=rows) if kind in WRITES else self.unannounced()
        self._event(kind, rids=(rid,) if rid is not None else (), rows=rows, text=text, facts=pairs, change=claimed)

    def unannounced(self, claim: Sequence[int] = ()) -> Change:
        """Compare with the last known state: events for what nobody announced, except in the rows that are claimed."""
        change = self._difference(owners=False)
        if not change:
            return change
        moved = {row for name, row, *_ in change.lengths if name == "generation"}  # handed out by no recorded call
        late = (set(self.free) | moved) - set(claim)
        others = set(change.rows) - late - set(claim)
        for kind, rows in (("late_write", late), ("write", others)):
            if part := _only(change, rows):
                self._event(kind, rids=self._rids_of(part.rows), rows=part.rows, change=part)
        if change.free:
            self._event("note", text="the free list was changed by no recorded call", change=Change(free=change.free))
        return _only(change, set(claim))

    def _event(self, kind: str, rids: Iterable[str | None] = (), rows: Iterable[int] = (), **rest: Any) -> None:
        rids = tuple(rids)
        rid = rids[0] if len(rids) == 1 else None
        self.trace.events.append(Event(self.trace.step, kind, rid, tuple(rows), rids, **rest))

    # ---- comparison ----------------------------------------------------------------------------------------------

    def _difference(
        self, owners: bool = False, rows: Iterable[int] | None = None, lengths: Iterable[str] = LENGTHS
    ) -> Change:
        """What differs from the last known state, which then is the present one.

        A call that can touch only some rows or lengths is compared only there; the next full comparison, before the
        next event, finds the rest and says that nobody announced it.
        """
        cells = tuple(cell for row in (self._rows_moved() if rows is None else rows) for cell in self._cells_moved(row))
        moved = tuple((name, *length) for name in lengths for length in self._lengths_moved(name))
        free, self.free = self.free, list(self.pool.free_slots)
        splice = None if free == self.free else _splice(free, self.free)
        owned = self._owners_moved() if owners else ()
        return Change(cells, moved, owned, splice) if cells or moved or owned or splice else _NOTHING

    def _rows_moved(self) -> list[int]:
        differs = self.pool.req_to_token ^ self.table  # a third of the time of torch.equal or !=
        low, high = torch.aminmax(differs)
        if low.item() == 0 == high.item():
            return []
        low, high = torch.aminmax(differs, dim=1)
        return torch.nonzero(low | high).flatten().tolist()

    def _cells_moved(self, row: int) -> list[Cell]:
        now, known = self.pool.req_to_token[row], self.table[row]
        (where,) = torch.where(now != known)
        before, after = known.index_select(0, where).tolist(), now.index_select(0, where).tolist()
        known.copy_(now)
        return [(row, *cell) for cell in zip(where.tolist(), before, after, strict=True)]

    def _lengths_moved(self, name: str) -> list[tuple[int, int, int]]:
        known, now = self.lengths[name], getattr(self.pool, LENGTH_TENSORS[name]).tolist()
        if now == known:
            return []
        self.lengths[name] = now
        pairs = enumerate(zip(known, now, strict=True))
        return [(row, before, after) for row, (before, after) in pairs if before != after]

    def _owners_now(self) -> dict[int, Rids]:
        owners: dict[int, Rids] = dict.fromkeys(sorted(self.by_count), (None,))
        for req in self.reqs.values():
            if req.req_pool_idx is not None:
                owners[req.req_pool_idx] = (*owners.get(req.req_pool_idx, ()), str(req.rid))
        return owners

    def _owners_moved(self) -> tuple[tuple[int, Rids, Rids], ...]:
        self.reqs = {key: req for key, req in self.reqs.items() if req.req_pool_idx is not None}
        before, self.owners = self.owners, self._owners_now()
        rows = sorted(row for row in before.keys() | self.owners.keys() if before.get(row) != self.owners.get(row))
        return tuple((row, before.get(row, ()), self.owners.get(row, ())) for row in rows)

    def _rids_of(self, rows: Iterable[int]) -> Rids:
        return tuple(owner[0] if (owner := self.owners.get(row)) else None for row in rows)


_NOTHING = Change()
_BY_REQUEST = ("alloc", "free", "append", "read")
_TOUCHES: dict[str, tuple[str, ...]] = {  # calls that can touch only some rows, and the lengths they can touch
    "append": ("alloced", "alloced_cpu"),
    "verify": ("verified",),
    "read": (),
    "get_req_pool_info": (),
}


def _once(arg: Any) -> Any:
    """A generator, a set, a dict's values: a list of it can be read again, and in the same order."""
    plain = isinstance(arg, (int, str, list, tuple, Tensor)) or not isinstance(arg, Iterable)
    return arg if plain or hasattr(arg, "ndim") else list(arg)


def _rows_held(subject: Any) -> list[int | None]:
    reqs = subject if isinstance(subject, (list, tuple)) else [subject]
    return [req.req_pool_idx for req in reqs if hasattr(req, "req_pool_idx")]


def _rids(subject: Any) -> Rids:
    reqs = subject if isinstance(subject, (list, tuple)) else [subject]
    return tuple(str(req.rid) for req in reqs if hasattr(req, "rid"))


def _numbers(rows: Any) -> list[int]:
    if isinstance(rows, Tensor):
        return rows.flatten().tolist()
    return [int(row) for row in rows] if isinstance(rows, Iterable) else [int(rows)]


def _named_rows(subject: Any) -> list[int]:
    """The rows that a number, or a list or tensor of numbers, names; none for masks, slices and requests."""
    if isinstance(subject, Tensor) and (subject.is_floating_point() or subject.dtype == torch.bool):
        return []
    try:
        return _numbers(subject)
    except (TypeError, ValueError):
        return []


def _row_of_index(indices: Any) -> list[int] | None:
    """The rows that `write` can touch, where its index says so plainly; None: any."""
    rows = _named_rows(indices[0] if isinstance(indices, tuple) and indices else indices)
    return rows if rows and min(rows) >= 0 else None


def _only(change: Change, rows: set[int]) -> Change:
    cells = tuple(cell for cell in change.cells if cell[0] in rows)
    return Change(cells, tuple(length for length in change.lengths if length[1] in rows))


def _splice(before: list[int], after: list[int]) -> Splice:
    """The one replacement that turns `before` into `after`: common head and common tail left out."""
    shorter = min(len(before), len(after))
    head = tail = 0
    if before[:shorter] == after[:shorter]:
        head = shorter
    elif before[len(before) - shorter :] == after[len(after) - shorter :]:
        tail = shorter
    else:
        head = next(i for i in range(shorter) if before[i] != after[i])
        while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
            tail += 1
    return head, tuple(before[head : len(before) - tail]), tuple(after[head : len(after) - tail])


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_plain(name, item) for item in value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"emit: fact {name!r} must be text, a number, None or a list of them, got {value!r}")
