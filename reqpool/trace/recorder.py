"""`record(pool)`: watch a pool from outside, and leave it exactly as it was.

    with record(pool) as trace:      pool.alloc, pool.free, ... are wrapped on this one instance
        pool.alloc([a])              compare with the last known state  ->  unannounced changes become events
                                     the call itself                    ->  keep, alloc, reset, or one refuse
                                     compare again                      ->  what the call changed
    the wrappers are gone

What is shown was found in the tensors: a scenario cannot invent its own damage, and cannot hide it either.
The first comparison is of everything. The second is too, but for the pool's own methods that only touch cells or
lengths: there it looks where they can write. Should one write elsewhere, the next comparison says that nobody
announced it. Who holds a row is asked of the requests and of what the calls returned, not of the pool's books alone:
where they disagree is a fault that one must see.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from reqpool.pool import ReqToTokenPool, _plain_row, _row_list
from reqpool.trace.events import (
    LENGTHS,
    NOTHING,
    Cell,
    Change,
    Event,
    Length,
    Owner,
    Rids,
    Snapshot,
    check_event,
    frozen,
    splice,
)
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
DTYPES = dict.fromkeys(("req_to_token", *LENGTH_TENSORS.values()), torch.int32) | {"generation": torch.int64}
WRITES = ("write", "late_write", "pad_write", "verify", "reset")  # kinds whose emit claims the changes in its rows
REACH = {  # the pool's own methods that hand out and take back nothing: can they write cells, and which lengths
    "write": (True, ()),
    "append": (True, ("alloced", "alloced_cpu")),
    "set_req_pool_info": (True, ("verified", "alloced", "alloced_cpu")),
    "verify": (False, ("verified",)),
    "read": (False, ()),
    "get_req_pool_info": (False, ()),
}
FEW = 256  # a call that names more cells is compared everywhere, which then costs less


@contextmanager
def record(pool: Any) -> Iterator[Trace]:
    """Record every call on this pool, refusals too, and every change that nobody announced.

    Cost: one comparison of the whole table a call, two where rows change hands: for lessons and tests.

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
    for name in CALLS:
        setattr(pool, name, recorder.wrap(name, getattr(pool, name)))
    recorder.trace._emit = recorder.emit
    try:
        yield recorder.trace
    finally:
        recorder.ended, recorder.trace._emit = True, None
        _unwrap(pool)
        recorder.unannounced()


def _unwrap(pool: Any) -> None:
    """Take off the wrappers whose record has ended, from the outside in: records may end in any order."""
    own = vars(pool)
    for name in CALLS:
        while name in own and getattr(getattr(own[name], "recorder", None), "ended", False):
            earlier = own.pop(name).earlier
            if earlier is not None:
                own[name] = earlier


class _Recorder:
    def __init__(self, pool: Any) -> None:
        _need_pool(pool)
        self.pool = pool
        self.busy = False  # inside a call: what it calls in turn is part of it
        self.ended = False
        self.reqs: dict[int, Any] = {}  # every request that has been seen to hold a row, by id
        self.by_count: Counter[int] = Counter()  # row -> how often it is held by count: twice in a faulty pool
        # the last known state: table, lengths, free rows and owners
        self.table = pool.req_to_token.clone(memory_format=torch.contiguous_format)
        self.lengths: dict[str, list[int]] = {name: getattr(pool, at).tolist() for name, at in LENGTH_TENSORS.items()}
        self.free: list[int] = list(pool.free_slots)
        self.owners = self._owners_now(announced=False)
        self.numbers = torch.arange(self.table.numel(), device=self.table.device).view(self.table.shape)  # of cells
        lengths = {name: tuple(numbers) for name, numbers in self.lengths.items()}
        table = self.table.to("cpu", copy=True)
        state = {"padding_row": pool.padding_row, "reuse": pool.reuse}
        self.trace = Trace(Snapshot(table, dict(self.owners), tuple(self.free), **lengths, **state))

    # ---- one call ----------------------------------------------------------------------------------------------

    def wrap(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        reach = REACH.get(name) if getattr(method, "__func__", None) is getattr(ReqToTokenPool, name) else None
        keyword = _subject_keyword(name, method)

        @wraps(method)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self.busy or self.ended:
                return method(*args, **kwargs)
            self.unannounced()
            subject = args[0] if args else kwargs.get(keyword)
            self.busy, rids, rows = True, (), ()
            try:
                if name in ("alloc", "free_rows") and subject is not None:
                    subject = _listed(subject)
                    args, kwargs = ((subject, *args[1:]), kwargs) if args else ((), {**kwargs, keyword: subject})
                rids, rows, where = self._named(name, subject)
                result = method(*args, **kwargs)
            except BaseException as error:
                self._refused(name, rids, rows, str(error), type(error).__name__)
                raise
            finally:
                self.busy = False
            if name == "alloc" or name == "alloc_rows":
                self._alloced(name, subject, rids, rows, result)
            else:
                self._done(name, rids, rows, where, reach)
            return result

        recorded.recorder, recorded.earlier = self, vars(self.pool).get(name)  # type: ignore[attr-defined]
        return recorded

    def _named(self, name: str, subject: Any) -> tuple[Sequence[Any], Sequence[Any], Any]:
        """The requests a call names and the rows they hold, or the rows of this table it names; and where it writes."""
        if name == "write":
            return (), (), _indexed(self.numbers, subject)
        if name == "verify":
            first_cells = _indexed(self.numbers[:, 0], subject)
            rows = [] if first_cells is None else (first_cells // self.table.shape[1]).tolist()
            return (), rows, ()
        if name == "alloc_rows" or name == "clear":
            return (), (), None
        things = subject if isinstance(subject, (list, tuple)) else (subject,)
        reqs = [thing for thing in things if hasattr(thing, "req_pool_idx")]
        rows = [self._row(getattr(thing, "req_pool_idx", thing)) for thing in reqs or things]
        if reqs:
            return [str(req.rid) for req in reqs], rows, rows
        rows = [row for row in rows if row is not None]
        return (), rows, rows

    def _row(self, number: Any) -> int | None:
        row = -1 if number is None else _plain_row(number)
        return row if 0 <= row < len(self.table) else None

    def _done(self, name: str, rids: Sequence[Any], rows: Sequence[Any], where: Any, reach: Any) -> None:
        if reach is None:
            change = self._difference()
        else:
            writes_cells, lengths = reach
            change = self._change_in(where if writes_cells else (), lengths)
        if name == "write":
            rows = change.rows
            rids = self._rids_of(rows)
        elif not rids:
            rids = (None,) * len(rows) if name == "free_rows" else self._rids_of(rows)
        elif None in rows:  # an override that takes requests without a row
            rids, rows = _parted((rid, row) for rid, row in zip(rids, rows, strict=True) if row is not None)
        self._event(CALLS[name], rids, rows, call=name, change=change)

    def _alloced(self, call: str, subject: Any, rids: Sequence[Any], held: Sequence[Any], result: Any) -> None:
        """One call gives keep, alloc and reset, in this order and only where not empty; or one refusal."""
        if result is None:
            wanted = sum(row is None for row in held) if call == "alloc" else subject
            return self._refused(
                call, rids, held, f"{wanted} row{'' if wanted == 1 else 's'} wanted, {len(self.free)} free", "None"
            )
        if call == "alloc_rows":
            rows = _row_list(result)
            rids = held = (None,) * len(rows)
            was_free = Counter(rows) & Counter(self.free)  # what was not free was given back within the call
            self.by_count = (self.by_count + was_free) | Counter(rows)
        else:
            rows = self._named(call, subject)[1]
            self._remember(subject)
        change = self._difference()
        taken = [each for each in zip(rids, rows, held, strict=True) if each[1] is not None]
        kept = [(rid, row) for rid, row, had in taken if row == had]
        new = [(rid, row) for rid, row, had in taken if row != had]
        rid_of = {row: rid for rid, row in new}
        is_reset = [name != "generation" and row in rid_of for name, row, *_ in change.lengths]
        reset = Change(lengths=tuple(compress(change.lengths, is_reset)))
        rest = replace(change, lengths=tuple(compress(change.lengths, map(operator.not_, is_reset))))
        if kept:
            self._event("keep", *_parted(kept), call=call, change=NOTHING if new else rest)
        if new:
            self._event("alloc", *_parted(new), call=call, change=rest)
        if reset:
            self._event("reset", [rid_of[row] for row in reset.rows], reset.rows, call=call, change=reset)
        if rest and not taken:
            self._event("note", call=call, text=f"{call} handed out no row, yet it changed something", change=rest)

    def _remember(self, subject: Any) -> None:
        """All of a batch: two that got one row in one call stand there once in the pool's books, as the later one."""
        things = subject if isinstance(subject, (list, tuple)) else (subject,)
        self.reqs.update((id(thing), thing) for thing in things if hasattr(thing, "req_pool_idx"))

    def _refused(self, name: str, rids: Sequence[Any], rows: Sequence[Any], why: str, error: str) -> None:
        rows = [row for row in rows if row is not None]
        change = self._difference()  # nothing, unless the pool is faulty
        self._event("refuse", rids, rows, call=name, text=why, facts=(("error", error),), change=change)

    # ---- facts and changes that no call shows --------------------------------------------------------------------

    def emit(self, kind: str, rid: str | None, rows: Any, text: str, facts: dict[str, Any]) -> None:
        rows = tuple(_row_list(rows))
        rids = (rid,) * len(rows) if rid is not None else ()
        pairs = tuple((name, frozen(name, value)) for name, value in facts.items())
        event = Event(self.trace.step, kind, rid, rows, rids, text=text, facts=pairs)
        check_event(event, len(self.table))
        change = self.unannounced(claim=rows if kind in WRITES else ())
        self.trace.events.append(replace(event, change=change))

    def unannounced(self, claim: Sequence[int] = ()) -> Change:
        """Compare with the last known state: events for what nobody announced, except in the rows that are claimed."""
        change = self._difference(announced=False)
        if not change:
            return change
        claimed, touched = set(claim), set(change.rows)
        moved = {row for name, row, *_ in change.lengths if name == "generation"}  # handed out by no recorded call
        late = touched & (set(self.free) | moved) - claimed
        for kind, rows in (("late_write", late), ("write", touched - late - claimed)):
            if rows:
                part = change.only(rows)
                self._event(kind, self._rids_of(part.rows), part.rows, change=part)
        owners = tuple(owner for owner in change.owners if owner[0] not in touched | claimed)
        rest = Change(owners=owners, free=change.free)
        if rest:
            self._event("note", text="the free list was changed by no recorded call", change=rest)
        return change.only(claimed)

    def _event(self, kind: str, rids: Iterable[str | None] = (), rows: Iterable[int] = (), **rest: Any) -> None:
        rids = tuple(rids)
        rid = rids[0] if len(rids) == 1 else None
        self.trace.events.append(Event(self.trace.step, kind, rid, tuple(rows), rids, **rest))

    # ---- comparison: what differs from the last known state, which then is the present one -------------------------

    def _difference(self, announced: bool = True) -> Change:
        """Everywhere. Owners too after a call; else only where a row has changed hands unseen."""
        change = self._change_in(None, LENGTHS)
        before, self.free = self.free, list(self.pool.free_slots)
        free = None if before == self.free else splice(before, self.free)
        handed = announced or free or any(length[0] == "generation" for length in change.lengths)
        owners = self._owners_moved(announced) if handed else ()
        return replace(change, owners=owners, free=free) if owners or free else change

    def _change_in(self, where: Tensor | Sequence[int] | None, lengths: Iterable[str]) -> Change:
        """In the cells of these numbers or of these rows, None for all, and in these lengths."""
        cells, moved = self._cells_moved(where), self._lengths_moved(lengths)
        return Change(tuple(cells), tuple(moved)) if cells or moved else NOTHING

    def _cells_moved(self, where: Tensor | Sequence[int] | None) -> list[Cell]:
        if isinstance(where, Tensor):
            return self._cells_moved_at(where)
        return [cell for row in (self._rows_moved() if where is None else where) for cell in self._cells_moved_in(row)]

    def _rows_moved(self) -> list[int]:
        differs = self.pool.req_to_token ^ self.table  # half the time of torch.equal
        low, high = torch.aminmax(differs)
        if low.item() == 0 == high.item():
            return []
        low, high = torch.aminmax(differs, dim=1)
        return torch.nonzero(low | high).flatten().tolist()

    def _cells_moved_in(self, row: int) -> list[Cell]:
        now, known = self.pool.req_to_token[row], self.table[row]
        where = torch.nonzero(now != known).squeeze(1)
        before, after = known.index_select(0, where).tolist(), now.index_select(0, where).tolist()
        known.copy_(now)
        return [(row, *cell) for cell in zip(where.tolist(), before, after, strict=True)]

    def _cells_moved_at(self, numbers: Tensor) -> list[Cell]:
        known, width = self.table.view(-1), self.table.shape[1]
        now = self.pool.req_to_token.flatten().index_select(0, numbers)
        found = zip(numbers.tolist(), known.index_select(0, numbers).tolist(), now.tolist(), strict=True)
        known.index_copy_(0, numbers, now)
        moved = sorted({each for each in found if each[1] != each[2]})  # an index may name a cell twice
        return [(number // width, number % width, before, after) for number, before, after in moved]

    def _lengths_moved(self, names: Iterable[str]) -> list[Length]:
        moved: list[Length] = []
        for name in names:
            known, now = self.lengths[name], getattr(self.pool, LENGTH_TENSORS[name]).tolist()
            if now != known:
                pairs = enumerate(zip(known, now, strict=True))
                moved += [(name, row, before, after) for row, (before, after) in pairs if before != after]
                self.lengths[name] = now
        return moved

    def _owners_moved(self, announced: bool) -> tuple[Owner, ...]:
        before, self.owners = self.owners, self._owners_now(announced)
        rows = sorted(row for row in before.keys() | self.owners.keys() if before.get(row) != self.owners.get(row))
        return tuple((row, before.get(row, ()), self.owners.get(row, ())) for row in rows)

    def _owners_now(self, announced: bool) -> dict[int, Rids]:
        """The requests that hold a row or still name it, and hand-outs by count: after a call those that it returned
        (rows that a refused batch took are nobody's), where hands changed unseen those in the pool's books."""
        holders = self.pool.holders
        booked = Counter(row for row, req in holders.items() if req is None)
        known = Counter({row: n for row, n in self.by_count.items() if row in (holders if announced else booked)})
        self.by_count = known if announced else known | booked
        self.reqs.update((id(req), req) for req in holders.values() if req is not None)
        self.reqs = {key: req for key, req in self.reqs.items() if req.req_pool_idx is not None}
        owners: dict[int, Rids] = {row: (None,) * n for row, n in sorted(self.by_count.items())}
        for req in self.reqs.values():
            if (row := self._row(req.req_pool_idx)) is not None:
                owners[row] = (*owners.get(row, ()), str(req.rid))
        return owners

    def _rids_of(self, rows: Iterable[int]) -> Rids:
        return tuple(owner[0] if (owner := self.owners.get(row)) else None for row in rows)


def _need_pool(pool: Any) -> None:
    missing = [name for name in (*DTYPES, "free_slots", "holders", *CALLS) if not hasattr(pool, name)]
    if missing:
        raise TypeError(f"record wants a ReqToTokenPool, got {pool!r}, which has no {', '.join(missing[:4])}")
    for name, dtype in DTYPES.items():
        if (found := getattr(pool, name).dtype) != dtype:
            raise TypeError(f"record wants a pool whose {name} is {dtype}, got {found}")
    if pool.req_to_token.is_meta:
        raise TypeError(f"record wants a pool whose tensors hold numbers, got {pool!r}")


def _subject_keyword(name: str, method: Callable[..., Any]) -> str:
    """The name of a call's first parameter; of the pool's own method where an override only passes on *args."""
    parameters = (*signature(method).parameters.values(), *signature(getattr(ReqToTokenPool, name)).parameters.values())
    names = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD and each.name != "self"]
    return names[0] if names else ""


def _indexed(numbers: Tensor, index: Any) -> Tensor | None:
    """What an index names, as torch reads it: negative numbers, masks, slices. None: too much, or nothing it can."""
    try:
        named = numbers[index]
    except (IndexError, TypeError, ValueError, RuntimeError):
        return None  # the call itself will say so
    return named.flatten() if named.numel() <= FEW else None


def _listed(things: Any) -> Any:
    """A generator, a set, an array: as a list it can be read again, and in the same order."""
    return list(things) if isinstance(things, Iterable) and getattr(things, "ndim", 1) else things


def _parted(pairs: Iterable[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    pairs = list(pairs)
    return [first for first, _ in pairs], [second for _, second in pairs]
