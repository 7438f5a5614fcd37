"""The laws of the pool, and the small world in which a learner's pool is judged by them.

    free     {2}                    what should be: the rows nobody holds
    held     {"a": 1}               who holds which: *the pool* chooses the row, and the books follow its choice
    table, verified, alloced        one list a row; the engine's own writes are made in the tensors and noted here

After every operation all that can be seen is compared with the books: nothing that was not asked for may have changed.
Whatever the laws leave open is the pool's to choose: the order of reuse, the container of the free rows, the kind of
integer that a row is. The same laws accept our own pool and reject each faulty one that breaks them.

    step  operations                                      law that is new
    1     none: the table is looked at                    shapes, int32, zeros, nothing shared
    2     alloc                                           rows in batch order, each free before, each to one request
    3     alloc of too many                               None, and nothing has changed
    4     write, free                                     the row is free, its lengths 0, its cells as they were
    5     the same                                        one row more; table row 0 is nobody's
    6     chunk and its result, alloc of those who hold   the started keep row and lengths, others are refused
    7     late write                                      lengths of a row newly given are 0, whatever landed there
    8     clear, free of what is not held                 all released; ValueError, and nothing has changed
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from reqpool.exercises.guard import Raised
from reqpool.exercises.own_pool_adapter import OwnPool, look, row_number
from reqpool.exercises.own_pool_table import LENGTHS, free_slots_of, need_shapes, need_table
from reqpool.exercises.own_pool_words import (
    both_orders,
    code,
    counted,
    fields,
    free_named,
    is_started,
    kind,
    listed,
    moved_field,
    rows_named,
    shown,
    was_and_is,
    why_started,
)
from reqpool.exercises.search import Move, Wrong
from reqpool.exercises.values import SEQUENCES
from reqpool.pool import Req
from reqpool.trace import Trace

NAMES = "abcd"
TOKENS = 2  # in every write

Choices = list[list[int]]  # the rows newly given, alloc by alloc


class Maker(Protocol):
    """Makes pools of one class.

    Attributes:
        twins: by size and max_context_len a second pool, which nobody touches: what changes in it is shared.
    """

    twins: dict[tuple[int, int], Any]

    def new(self, size: int, max_context_len: int, again: bool = False) -> Any:
        """A pool of the class as it was at first; `again`: as the pool before has left it."""


class OwnPoolWorld:
    """One small pool of the learner's class, a second one that nobody touches, and the books.

    Args:
        maker: of pools of the learner's class.
        step: 1..8: which operations are played, which laws hold.
        start: size and max_context_len.
        choices: which rows this pool chose, for whoever shows the case beside a right one.
        follow: a right pool whose free rows are a list: it hands out the rows in `choices`, where it may.
    """

    def __init__(
        self,
        maker: Maker,
        step: int,
        start: tuple[int, int],
        choices: Choices | None = None,
        follow: bool = False,
    ) -> None:
        self.step, (self.size, self.width) = step, start
        self.choices, self.follow, self.num_allocs = [] if choices is None else choices, follow, 0
        if not follow:
            self.choices.clear()
        self.own = maker.new(self.size, self.width)
        if start not in maker.twins:  # else a pool of this size was looked at before, and every one is made alike
            need_table(self.own, step, self.size, self.width)
            before = self._state_of(self.own)
            twin = maker.new(self.size, self.width, again=True)
            self._need_apart(before, twin)
            maker.twins[start] = twin
        self.maker, self.start, self.twin = maker, start, maker.twins[start]
        self.twin_state = before = self.state = self._state_of(self.own)
        rows = before[0]
        self.num_rows = len(before[1])
        self.padding = self.num_rows > self.size and 0 not in rows
        self.pool = OwnPool(self.own, self.size, self.width, 0 if self.padding else None)
        self.trace: Trace | None = None  # where a case is being recorded
        self.reqs = {name: Req(name) for name in NAMES}
        self.used: set[str] = set()
        self.free, self.held = set(rows), dict[str, int]()
        self.last: dict[str, int] = {}  # the row that a request held last
        self.late: dict[int, str] = {}  # rows into which a late write has come since: whose
        self.table = [[0] * self.width for _ in range(self.num_rows)]
        self.lengths = {name: [0] * self.num_rows for name in LENGTHS}
        self.next_slot = 11

    # ---- what can be done next -------------------------------------------------------------------------------------

    def moves(self) -> Sequence[Move]:
        return list(self._moves())

    def _moves(self) -> Iterator[Move]:
        if self.step < 2:
            return
        new = [name for name in NAMES if name not in self.used]
        gone = [name for name in NAMES if name in self.used and name not in self.held]
        most = len(self.free) + (self.step >= 3)
        yield from (("alloc", *new[:n]) for n in range(1, min(len(new), most) + 1))
        if self.step >= 4:
            yield from (("free", name) for name in self.held)
            yield from (("alloc", name) for name in gone[:1] if most)
            yield from (("write", name) for name in self.held if self._room(name))
        if self.step >= 6:
            yield from self._keeping(new + gone, most)
        if self.step >= 7:
            yield from self._late_writes(gone)
        if self.step >= 8:
            yield ("clear",)
            yield from (("free", name) for name in (gone + new)[:1])
            yield from (("foreign", what) for what in (*list(self.held)[:1], *["free"][: len(self.free)], "beyond"))
        yield ("alloc",)

    def _room(self, name: str) -> bool:
        return self.lengths["alloced_lens"][self.held[name]] + TOKENS <= self.width

    def _keeping(self, others: Sequence[str], most: int) -> Iterator[Move]:
        holders = list(self.held)
        yield from (("alloc", name) for name in holders)
        if holders:
            yield from (("alloc", *order) for other in others[:most][:1] for order in both_orders(holders[0], other))
            if 1 < most <= len(others):
                yield ("alloc", holders[0], *others[:most])
        if len(holders) > 1:
            yield ("alloc", holders[1], holders[0])
        for name in holders[:2]:
            yield ("result" if self.reqs[name].inflight_middle_chunks else "chunk", name)

    def _late_writes(self, gone: Sequence[str]) -> Iterator[Move]:
        for name in gone:
            row = self.last[name]
            if row in self.free and row not in self.late:
                yield from (("late", name, length) for length in LENGTHS)

    def seen(self) -> Hashable:
        reqs = tuple((req.inflight_middle_chunks, req.kv_committed_len) for req in self.reqs.values())
        books = (tuple(self.held.items()), tuple(self.last.items()), tuple(sorted(self.used)), tuple(sorted(self.late)))
        free, table, lengths = self.state
        return free, tuple(map(tuple, table)), tuple(map(tuple, lengths)), reqs, books

    # ---- the operations --------------------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        kind, *rest = move  # type: ignore[misc]
        getattr(self, f"_play_{kind}")(*rest)
        self._compare_twin(kind)

    def _called(self, name: str, *args: Any) -> Any:
        """The learner's method, by way of the pool that may be recorded; its own exceptions come with their line."""
        try:
            return getattr(self.pool, name)(*args)
        except BaseException as error:
            if self.pool.raised is not None and self.pool.raised.error is error:
                raise self.pool.raised from error
            raise

    def _play_alloc(self, *names: str) -> None:
        doing = f"`alloc([{', '.join(names)}])`"
        reqs = [self.reqs[name] for name in names]
        before = {name: fields(self.reqs[name]) for name in names}
        idle = [name for name in names if name in self.held and not is_started(self.reqs[name])]
        new = [name for name in names if name not in self.held]
        too_few = len(new) > len(self.free)
        self._prefer()
        try:
            result = self._called("alloc", reqs)
        except Raised as error:
            if idle and isinstance(error.error, ValueError):
                return self._need_unchanged(doing, "An alloc that raises")
            raise self._raised(doing, error, self._wanted(names, idle, too_few)) from error
        if too_few and result is None:
            return self._need_unchanged(doing, "A batch that is refused")
        if idle:
            raise Wrong(self._should_raise(doing, idle[0], result))
        if too_few:
            raise Wrong(
                f"{doing} gives {shown(result)} though {free_named(self.free)} for {counted(len(new), 'new request')}: "
                "wanted None. All or nothing."
            )
        rows = self._returned(doing, result, names)
        for name, row in zip(names, rows, strict=True):
            self._need_row(doing, name, row, rows, names)
        for name in names:
            if self.step >= 6 and before[name] != fields(self.reqs[name]):
                raise Wrong(
                    f"{doing} changed {moved_field(name, before[name], self.reqs[name])}: that is the scheduler's."
                )
        given = {name: row for name, row in zip(names, rows, strict=True) if name not in self.held}
        kept = [name for name in names if name in self.held]
        self.choices += [list(given.values())] if not self.follow else []
        self.num_allocs += 1
        self.used.update(given)
        self.held.update(given)
        self.free -= set(given.values())
        for row in given.values():
            self._zero(row)
        self._compare(doing, given=given, kept=kept)
        for row in given.values():
            self.late.pop(row, None)
        return None

    def _prefer(self) -> None:
        """A right pool that is shown beside the learner's takes the same rows, so that one can compare."""
        if self.follow and self.num_allocs < len(self.choices):
            wanted = self.choices[self.num_allocs]
            first = [row for row in wanted if row in self.own.free_slots]
            self.own.free_slots[:] = first + [row for row in self.own.free_slots if row not in first]

    def _play_free(self, name: str) -> None:
        if name not in self.held:
            return self._need_refusal(self.reqs[name], f"`free({name})`", f"`{name}` holds no row")
        doing, before = f"`free({name})`", fields(self.reqs[name])
        try:
            self._called("free", self.reqs[name])
        except Raised as error:
            raise self._raised(doing, error, f"row {self.held[name]} back") from error
        if self.step >= 6 and before != fields(self.reqs[name]):
            raise Wrong(f"{doing} changed {moved_field(name, before, self.reqs[name])}: that is the scheduler's.")
        row = self.held.pop(name)
        self.free.add(row)
        self.last[name] = row
        self._zero(row)
        self._compare(doing, freed={name: row})
        return None

    def _play_foreign(self, what: str) -> None:
        """A request x that names a row which this pool did not give it: it belongs to another pool."""
        row = {"beyond": self.num_rows, "free": min(self.free, default=0)}.get(what, self.held.get(what, 0))
        owner = {"beyond": f"the table has no row {row}", "free": "that row is free"}.get(what, f"`{what}` holds that")
        x = Req("x", req_pool_idx=row)
        self._need_refusal(x, "`free(x)`", f"`x` names row {row} and never got it here ({owner})")
        if x.req_pool_idx != row:
            raise Wrong(f"`free(x)` was refused, and yet `x.req_pool_idx` went from {row} to {shown(x.req_pool_idx)}.")

    def _need_refusal(self, req: Req, doing: str, why: str) -> None:
        try:
            self._called("free", req)
        except Raised as error:
            if not isinstance(error.error, ValueError):
                raise Wrong(
                    f"{doing} raises `{error}`: {why}. Wanted a ValueError that says so. {error.where}".rstrip()
                ) from error
        else:
            after = self._whats_odd(doing)
            so = f", and no change. As it is, {after}" if after else "."
            raise Wrong(f"{doing} passed: {why}. Wanted a ValueError{so}", self.cells_wrong)
        self._need_unchanged(doing, "A free that is refused")

    def _play_clear(self) -> None:
        try:
            self._called("clear")
        except Raised as error:
            raise self._raised("`clear()`", error, "an empty pool") from error
        freed = dict(self.held)
        self.last.update(self.held)
        self.free |= set(self.held.values())
        self.held.clear()
        self.late.clear()
        self.table = [[0] * self.width for _ in range(self.num_rows)]
        self.lengths = {name: [0] * self.num_rows for name in LENGTHS}
        self._compare("`clear()`", freed=freed)

    # ---- what the engine does: no code of the learner's is called --------------------------------------------------

    def _play_write(self, name: str) -> None:
        row, start = self.held[name], self.lengths["alloced_lens"][self.held[name]]
        slots = list(range(self.next_slot, self.next_slot + TOKENS))
        self.next_slot += TOKENS
        self.pool.append(row, slots)
        self.pool.verify([row], TOKENS)
        self.reqs[name].kv_committed_len += TOKENS
        self.table[row][start : start + TOKENS] = slots
        for length in LENGTHS:
            self.lengths[length][row] += TOKENS
        self._compare(f"the engine's write of {TOKENS} tokens into row {row}")

    def _play_chunk(self, name: str) -> None:
        self.reqs[name].inflight_middle_chunks += 1
        self._tell(name, f"a chunk of request {name}, not its last, is launched: inflight_middle_chunks is 1")

    def _play_result(self, name: str) -> None:
        self.reqs[name].inflight_middle_chunks -= 1
        self._tell(name, f"the chunk of request {name} has its result: inflight_middle_chunks is 0")

    def _play_late(self, name: str, length: str) -> None:
        row = self.last[name]
        getattr(self.pool, length)[row] += TOKENS
        self.lengths[length][row] += TOKENS
        self.late[row] = name
        if self.trace is not None:
            self.trace.emit("late_write", rid=name, rows=[row])
        self._compare(f"the late write of `{name}`'s step into `{length}[{row}]`")

    def _tell(self, name: str, text: str) -> None:
        if self.trace is not None:
            self.trace.emit("note", rid=name, rows=[self.held[name]], text=text)

    def _zero(self, row: int) -> None:
        for length in LENGTHS:
            self.lengths[length][row] = 0

    # ---- what alloc gave -------------------------------------------------------------------------------------------

    def _wanted(self, names: Sequence[str], idle: Sequence[str] = (), too_few: bool = False) -> str:
        if idle:
            return f"a ValueError: `{idle[0]}` holds a row and has nothing to continue"
        if too_few:
            return f"None: {free_named(self.free)}"
        kept = [name for name in names if name in self.held]
        if kept:
            why = why_started(self.reqs[kept[0]])
            return f"row {self.held[kept[0]]} for `{kept[0]}`, which has it and has begun ({why})"
        return counted(len(names), "row") if names else "an empty list"

    def _should_raise(self, doing: str, name: str, result: Any) -> str:
        return (
            f"{doing} gives {shown(result)}: `{name}` holds row {self.held[name]} already and has nothing to continue "
            "(inflight_middle_chunks is 0, kv_committed_len is 0). Wanted a ValueError."
        )

    def _raised(self, doing: str, error: Raised, wanted: str) -> Wrong:
        return Wrong(f"{doing} raises `{error}`; wanted {wanted}. {error.where}".rstrip())

    def _returned(self, doing: str, result: Any, names: Sequence[str]) -> list[int]:
        """The rows that came back, as plain integers, one for each of the batch."""
        if result is None:
            new = [name for name in names if name not in self.held]
            why = f"though {free_named(self.free)}" if new else "though nobody needs a new row"
            hint = " Is there a `return`?" if new and self.reqs[new[-1]].req_pool_idx is not None else ""
            raise Wrong(f"{doing} gives None, {why}: wanted {self._wanted(names)}.{hint}")
        is_list = isinstance(result, SEQUENCES) or (isinstance(result, (Tensor, np.ndarray)) and result.ndim == 1)
        if not is_list:
            raise Wrong(f"{doing} gives {kind(result)}, wanted a list of {counted(len(names), 'row')}.")
        rows = [row_number(row) for row in (result.tolist() if isinstance(result, (Tensor, np.ndarray)) else result)]
        if None in rows:
            if len(rows) == len(names) and list(result)[rows.index(None)] is None:
                name = names[rows.index(None)]
                raise Wrong(f"{doing} gives {shown(list(result))}: `{name}` holds no row, so it needs a new one.")
            raise Wrong(
                f"{doing} gives {shown(list(result))}: wanted the numbers of rows, and nothing else, in a list."
            )
        if len(rows) != len(names):
            batch = "an empty batch" if not names else f"a batch of {len(names)}"
            raise Wrong(f"{doing} gives {rows}: {counted(len(rows), 'row')} for {batch}.")
        return rows  # type: ignore[return-value]

    def _need_row(self, doing: str, name: str, row: int, rows: list[int], names: Sequence[str]) -> None:
        known = self.reqs[name].req_pool_idx
        if known is None:
            raise Wrong(f"{doing} gives {rows}, and `{name}.req_pool_idx` is None: the request must know its row.")
        if row_number(known) != row:
            knows = [row_number(self.reqs[each].req_pool_idx) for each in names]
            if None not in knows and sorted(knows) == sorted(rows):  # type: ignore[type-var]
                who = " and ".join(f"`{each}` holds row {of}" for each, of in zip(names, knows, strict=True))
                raise Wrong(f"{doing} gives {rows}, while {who}: the rows must come in the order of the batch.")
            raise Wrong(f"{doing} gives {rows}, and `{name}.req_pool_idx` is {shown(known)}: wanted {row} in both.")
        if name in self.held:
            if row != self.held[name]:
                why = why_started(self.reqs[name])
                raise Wrong(
                    f"{doing} moves `{name}` from row {self.held[name]} to row {row}, though it has begun ({why}): its "
                    f"tokens are in row {self.held[name]}. It keeps its row."
                )
            return
        if row == 0 and self.step >= 5:
            raise Wrong(f"{doing} gives `{name}` table row 0: that is the padding row, and nobody's.")
        if not 0 <= row < self.num_rows:
            raise Wrong(f"{doing} gives `{name}` row {row}: the table has the rows 0 to {self.num_rows - 1}.")
        for other, of in self.held.items():
            if of == row:
                raise Wrong(f"two requests hold row {row}: `{other}` has it, and {doing} gave it to `{name}` too.")
        if rows.count(row) > 1:
            both = " and ".join(f"`{each}`" for each, of in zip(names, rows, strict=True) if of == row)
            raise Wrong(f"two requests hold row {row}: {doing} gave it to {both}.")
        if row not in self.free:
            raise Wrong(f"{doing} gives `{name}` row {row}, which was not in `free_slots`.")

    # ---- everything is as the books say ----------------------------------------------------------------------------

    def _need_unchanged(self, doing: str, what: str) -> None:
        said = self._whats_odd(doing)
        if said:
            raise Wrong(f"{doing} was refused, and yet {said} {what} must change nothing.", self.cells_wrong)

    def _whats_odd(self, doing: str) -> str:
        """What has changed though nothing may have."""
        try:
            return self._whats_wrong(doing, "")
        except Wrong as wrong:
            return wrong.sentence

    def _compare(self, doing: str, **about: Any) -> None:
        said = self._whats_wrong(doing, doing, **about)
        if said:
            raise Wrong(said, self.cells_wrong)

    def _whats_wrong(
        self,
        doing: str,
        cause: str,
        given: dict[str, int] | None = None,
        kept: Sequence[str] = (),
        freed: dict[str, int] | None = None,
    ) -> str:
        """The first thing that is not as it should be, in a sentence; empty where all is well."""
        self.cells_wrong: list[tuple[int, int]] = []
        given, freed = given or {}, freed or {}
        need_shapes(self.own, self.num_rows, self.width, doing)
        free, table, lengths = self.state = self._state_of(self.own, doing)
        return (
            self._wrong_holder(cause, freed)
            or self._wrong_free_rows(cause, list(free), freed)
            or self._wrong_length(cause, lengths, given, kept, freed)
            or self._wrong_cell(cause, table)
        )

    def _wrong_holder(self, cause: str, freed: dict[str, int]) -> str:
        for name, req in self.reqs.items():
            row, wanted = row_number(req.req_pool_idx), self.held.get(name)
            if row == wanted and (req.req_pool_idx is None) == (wanted is None):
                continue
            if name in freed:
                return (
                    f"{cause} left `{name}` holding row {freed[name]}: `{name}.req_pool_idx` is "
                    f"{shown(req.req_pool_idx)}, wanted None. The row's next owner would share it."
                )
            verb = f"{cause} left" if cause else "it left"
            if wanted is None:
                return f"{verb} `{name}` with req_pool_idx {shown(req.req_pool_idx)}, wanted None."
            return f"{verb} `{name}` with req_pool_idx {shown(req.req_pool_idx)}: it holds row {wanted}."
        return ""

    def _wrong_free_rows(self, cause: str, free: list[int], freed: dict[str, int]) -> str:
        holders = {row: name for name, row in self.held.items()}
        after = f" after {cause}" if cause else ""
        for row in sorted(set(free)):
            if row == 0 and self.step >= 5:
                return f"table row 0 is in `free_slots`{after}: the padding row is nobody's, and never handed out."
            if row in holders:
                return (
                    f"row {row} is in `free_slots`{after} while `{holders[row]}` holds it: the next one would share it."
                )
            if row not in self.free:
                return f"row {row} is in `free_slots`{after}, and requests' rows are {rows_named(self._usable())}."
            if free.count(row) > 1:
                twice = "twice" if free.count(row) == 2 else f"{free.count(row)} times"
                return f"row {row} is in `free_slots` {twice}{after}: two requests would be given it."
        for row in sorted(self.free.difference(free)):
            was = next((f" (`{name}` had it)" for name, of in freed.items() if of == row), "")
            return f"row {row} is lost{after}: nobody holds it{was}, and it is not in `free_slots`."
        return ""

    def _usable(self) -> list[int]:
        return sorted(self.free | set(self.held.values()))

    def _wrong_length(
        self, cause: str, lengths: list[list[int]], given: dict[str, int], kept: Sequence[str], freed: dict[str, int]
    ) -> str:
        for name, got in zip(LENGTHS, lengths, strict=True):
            for row, (is_now, wanted) in enumerate(zip(got, self.lengths[name], strict=True)):
                if is_now != wanted:
                    return self._about_length(cause, f"`{name}[{row}]`", row, is_now, wanted, given, kept, freed)
        return ""

    def _about_length(
        self,
        cause: str,
        where: str,
        row: int,
        is_now: int,
        wanted: int,
        given: dict[str, int],
        kept: Sequence[str],
        freed: dict[str, int],
    ) -> str:
        for name, of in given.items():
            if of == row:
                late = f": a late write of `{self.late[row]}`'s step landed there" if row in self.late else ""
                return f"`{name}` begins in row {row} with {where} at {is_now}, wanted 0{late}. `alloc` must reset it."
        for name, of in freed.items():
            if of == row:
                return f"{cause} left {where} at {is_now}, wanted 0: `{name}` no longer holds row {row}."
        for name in kept:
            if self.held[name] == row:
                said = f"`{name}` keeps row {row}, and {cause} put {where} to {is_now}"
                return f"{said}, wanted {wanted}: its tokens are in there."
        whose = next(
            (f"`{name}` holds row {row}, and its tokens are in there" for name, of in self.held.items() if of == row),
            "",
        )
        whose = whose or (f"row {row} is free" if row in self.free else f"row {row} is nobody's")
        return (
            f"{where} is {is_now} after {cause}, wanted {wanted}: {whose}."
            if cause
            else (f"{where} went from {wanted} to {is_now}.")
        )

    def _wrong_cell(self, cause: str, table: list[list[int]]) -> str:
        for row, (got, wanted) in enumerate(zip(table, self.table, strict=True)):
            if got != wanted:
                self.cells_wrong = [
                    (row, at) for at, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]
                ]
                if "clear" in cause:
                    return f"the cells of row {row} are {got} after {cause}, wanted zeros."
                why = " Cells stay as they are: a length says which are live." if row in self.free else ""
                return f"the cells of row {row} are {got}{f' after {cause}' if cause else ''}, wanted {wanted}.{why}"
        return ""

    # ---- looking ---------------------------------------------------------------------------------------------------

    def _state_of(self, own: Any, doing: str = "") -> tuple[tuple[int, ...], list[list[int]], list[list[int]]]:
        return (
            free_slots_of(own, doing),
            look(own, "req_to_token").tolist(),
            [look(own, name).tolist() for name in LENGTHS],
        )

    def _need_apart(self, before: Any, twin: Any) -> None:
        after = self._state_of(self.own)
        if before != after:
            name = next(
                n
                for n, was, now in zip(("free_slots", "req_to_token", "the lengths"), before, after, strict=True)
                if was != now
            )
            raise Wrong(
                f"making a second pool changed the first: its {code(name)} went from {was_and_is(before, after)}. "
                "Two pools must share nothing: make it anew in `__init__`."
            )
        tensors = {name: look(twin, name) for name in ("req_to_token", *LENGTHS)}
        for name, tensor in tensors.items():
            if tensor.untyped_storage().data_ptr() == look(self.own, name).untyped_storage().data_ptr():
                raise Wrong(f"two pools share one `{name}`: make it anew in `__init__`.")

    def _compare_twin(self, kind: str) -> None:
        now = self._state_of(self.twin)
        if now != self.twin_state:
            del self.maker.twins[self.start]
            pairs = zip(("free_slots", "req_to_token", "lengths"), self.twin_state, now, strict=True)
            name, was, is_now = next(each for each in pairs if each[1] != each[2])
            raise Wrong(
                f"`{kind}` here changed the {code(name)} of another pool, "
                f"from {shown(listed(was))} to {shown(listed(is_now))}. "
                "Two pools must share nothing: make everything in `__init__`."
            )
