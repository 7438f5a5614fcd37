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
    8     clear, free of what is not held; a row of       all released; ValueError, and nothing has changed
          another pool for one who was here
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from reqpool.exercises.guard import Raised
from reqpool.exercises.own_pool_adapter import OwnPool, row_number
from reqpool.exercises.own_pool_apart import Maker, need_apart, need_apart_in_use
from reqpool.exercises.own_pool_books import NAMES, Books, state_of
from reqpool.exercises.own_pool_table import LENGTHS, free_slots_of, need_table
from reqpool.exercises.own_pool_words import (
    PADDING,
    Broken,
    asked,
    both_orders,
    counted,
    fields,
    free_named,
    is_started,
    misnamed,
    shown,
    why_started,
)
from reqpool.exercises.search import Move, Wrong
from reqpool.exercises.values import SEQUENCES, kind_of
from reqpool.pool import Req

TOKENS = 2  # in every write

Choices = list[list[int]]  # the rows newly given, alloc by alloc


class OwnPoolWorld(Books):
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
        size, width = start
        maker.law = PADDING if step == PADDING else 1  # until there is a pool to be played with
        own = maker.new(size, width)
        if start not in maker.twins:  # else a pool of this size was looked at before, and every one is made alike
            need_table(own, step, size, width)
            before = state_of(own)
            twin = maker.new(size, width, again=True)
            need_apart(own, before, twin)
            need_apart_in_use(maker, step, size, width)
            own, twin = maker.new(size, width), maker.new(size, width, again=True)
            maker.twins[start] = twin, free_slots_of(twin, "")
        super().__init__(own, step, size, width)
        self.maker, self.start = maker, start
        self.choices, self.follow, self.num_allocs = [] if choices is None else choices, follow, 0
        if not follow:
            self.choices.clear()
        self.pool = OwnPool(own, size, width, 0 if self.is_padded else None)
        self.emit: Callable[..., None] | None = None  # while a case is recorded: for what no call shows
        self.used: set[str] = set()
        self.last: dict[str, int] = {}  # the row that a request held last
        self.next_slot = 1
        self.happened = "a new pool: this is as it should be"

    # ---- what can be done next -------------------------------------------------------------------------------------

    def moves(self) -> Sequence[Move]:
        return list(self._moves())

    def _moves(self) -> Iterator[Move]:
        if self.step < 2:
            return
        if self.elsewhere:
            yield from ((kind, name) for kind in ("free", "back") for name in self.elsewhere)
            yield ("clear",)
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
            yield from (("elsewhere", name, row) for name in gone[:1] for row in ("same", "another"))
            yield from (("namesake", name) for name in list(self.held)[:1])
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
        held, last, elsewhere = (tuple(each.items()) for each in (self.held, self.last, self.elsewhere))
        books = (held, last, elsewhere, tuple(sorted(self.used)), tuple(sorted(self.late)))
        free, table, lengths = self.state
        return free, tuple(map(tuple, table)), tuple(map(tuple, lengths)), reqs, books

    def so_it_should_be(self) -> str:
        return self.happened

    def led_by(self, moves: Sequence[Move]) -> str:
        return f"after {counted(len(moves), 'operation')}" if moves else "right after `__init__`"

    # ---- the operations --------------------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        kind, *rest = move  # type: ignore[misc]
        self.law, self.happened = self._law_of(kind, rest), "this is as it should be"
        try:
            getattr(self, f"_play_{kind}")(*rest)
            self._compare_twin(kind)
        except BaseException as error:
            self.maker.law = error.law if isinstance(error, Broken) else self.law
            raise

    def _law_of(self, kind: str, names: Sequence[str]) -> int:
        """Which law this operation is about; whoever finds that another one is broken says so."""
        if kind == "alloc":
            held = sum(name in self.held for name in names)
            if held and not all(is_started(self.reqs[name]) for name in names if name in self.held):
                return 6
            return 3 if len(names) - held > len(self.free) else 6 if held else 2
        if kind == "write" or (kind == "free" and names[0] in self.held):
            return 4
        return {"chunk": 6, "result": 6, "late": 7}.get(kind, 8)

    def _called(self, name: str, *args: Any) -> Any:
        """The learner's method, by way of the pool that may be recorded; its own exceptions come with their line."""
        try:
            return getattr(self.pool, name)(*args)
        except BaseException as error:
            raised = self.pool.raised_as(error)
            if raised is None:
                raise
            raise raised from error

    def _play_alloc(self, *names: str) -> None:
        doing = f"`alloc([{', '.join(names)}])`"
        reqs = [self.reqs[name] for name in names]
        idle = [name for name in names if name in self.held and not is_started(self.reqs[name])]
        new = [name for name in names if name not in self.held]
        too_few = len(new) > len(self.free)
        self._prefer()
        try:
            result = self._called("alloc", reqs)
        except Raised as error:
            if idle and isinstance(error.error, ValueError):
                self._happens(f"{doing} raises a ValueError, and nothing has changed")
                return self._need_unchanged(doing, "An alloc that raises")
            raise self._raised(doing, error, self._wanted(names, idle, too_few)) from error
        if too_few and result is None:
            self._happens(f"{doing} gives None, and nothing has changed")
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
        given = {name: row for name, row in zip(names, rows, strict=True) if name not in self.held}
        kept = [name for name in names if name in self.held]
        self.choices += [list(given.values())] if not self.follow else []
        self.num_allocs += 1
        self.used.update(given)
        self.held.update(given)
        self.free -= set(given.values())
        for row in given.values():
            self._zero(row)
        self._happens(
            f"{doing} gives {shown(rows)}" + "".join(f"; {name} keeps row {self.held[name]}" for name in kept)
        )
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
            why = f"`{name}` holds no row"
            if name in self.elsewhere:
                why = (
                    f"row {self.elsewhere[name]} of `{name}` is another pool's; here it held row {self.last[name]} once"
                )
            return self._need_refusal(self.reqs[name], f"`free({name})`", why)
        doing = f"`free({name})`"
        try:
            self._called("free", self.reqs[name])
        except Raised as error:
            raise self._raised(doing, error, f"row {self.held[name]} back") from error
        row = self.held.pop(name)
        self.free.add(row)
        self.last[name] = row
        self._zero(row)
        self._happens(f"{doing} gives row {row} back, with lengths 0")
        self._compare(doing, freed={name: row})
        return None

    def _play_foreign(self, what: str) -> None:
        """A request x that names a row which this pool did not give it: it belongs to another pool."""
        row = {"beyond": self.num_rows, "free": min(self.free, default=0)}.get(what, self.held.get(what, 0))
        owner = {"beyond": f"the table has no row {row}", "free": "that row is free"}.get(what, f"`{what}` holds that")
        self._need_stranger_refused(Req("x", row), f"`x` names row {row} and never got it here ({owner})")

    def _play_namesake(self, name: str) -> None:
        """Another request with the name of a holder, which names the holder's row."""
        self._tell(name, f"another request with the rid {name} names row {self.held[name]}: here it is called x")
        why = f"`x` has the rid of `{name}` and names its row {self.held[name]}, but is another request"
        self._need_stranger_refused(Req(name, self.held[name]), why)

    def _need_stranger_refused(self, x: Req, why: str) -> None:
        row = x.req_pool_idx
        self._need_refusal(x, "`free(x)`", why)
        if x.req_pool_idx != row:
            raise Wrong(f"`free(x)` was refused, and yet `x.req_pool_idx` went from {row} to {shown(x.req_pool_idx)}.")

    def _need_refusal(self, req: Req, doing: str, why: str) -> None:
        try:
            self._called("free", req)
        except Raised as error:
            if not isinstance(error.error, ValueError):
                said = f"{doing} raises `{error}`: {why}. Wanted a ValueError that says so.{asked(error)} {error.where}"
                raise Wrong(said.rstrip()) from error
        else:
            after = self._whats_odd(doing)
            so = f", and no change. As it is, {after}" if after else "."
            raise Wrong(f"{doing} passed: {why}. Wanted a ValueError{so}", self.cells_wrong)
        self._happens(f"{doing} raises a ValueError, and nothing has changed")
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
        self._happens("`clear()` leaves every row free, with lengths and cells 0, and nobody holds one")
        self._compare("`clear()`", freed=freed)

    # ---- what the engine does: no code of the learner's is called --------------------------------------------------

    def _play_write(self, name: str) -> None:
        row, start = self.held[name], self.lengths["alloced_lens"][self.held[name]]
        slots = list(range(self.next_slot, self.next_slot + TOKENS))
        self.next_slot += TOKENS
        self.pool.append(row, slots)
        self.pool.verify([row], TOKENS)
        self.reqs[name].kv_committed_len += TOKENS
        self.fields[name] = fields(self.reqs[name])
        self.table[row][start : start + TOKENS] = slots
        for length in LENGTHS:
            self.lengths[length][row] += TOKENS
        self._compare(f"the engine's write of {TOKENS} tokens into row {row}")
        if self.step >= 6:
            now = self.reqs[name].kv_committed_len
            self._tell(name, f"these tokens of {name} are committed: kv_committed_len {now - TOKENS} → {now}")

    def _play_chunk(self, name: str) -> None:
        self.reqs[name].inflight_middle_chunks += 1
        self.fields[name] = fields(self.reqs[name])
        self._tell(name, f"a chunk of {name}, not its last, is launched: {self._fields_now(name, '0 → 1')}")

    def _play_result(self, name: str) -> None:
        self.reqs[name].inflight_middle_chunks -= 1
        self.fields[name] = fields(self.reqs[name])
        self._tell(name, f"the chunk of {name} has its result: {self._fields_now(name, '1 → 0')}")

    def _fields_now(self, name: str, middle: str) -> str:
        return f"inflight_middle_chunks {middle}, kv_committed_len is {self.reqs[name].kv_committed_len}"

    def _play_late(self, name: str, length: str) -> None:
        row = self.last[name]
        getattr(self.pool, length)[row] += TOKENS
        self.lengths[length][row] += TOKENS
        self.late[row] = name
        if self.emit is not None:
            self.emit("late_write", rid=name, rows=[row])
        self._compare(f"the late write of `{name}`'s step into `{length}[{row}]`")

    def _play_elsewhere(self, name: str, which: str) -> None:
        """A request that was here gets a row of another pool: of the number that it had here, or of another one."""
        here = self.last[name]
        row = here if which == "same" else next((row for row in self._usable() if row != here), here + 1)
        self.reqs[name].req_pool_idx = self.elsewhere[name] = row
        self._tell(name, f"request {name} gets row {row} of another pool")

    def _play_back(self, name: str) -> None:
        row = self.elsewhere.pop(name)
        self.reqs[name].req_pool_idx = None
        self._tell(name, f"request {name} gives row {row} back to the other pool")

    def _happens(self, said: str) -> None:
        self.happened = f"{said.replace('`', '')}: as it should be"

    def _tell(self, name: str, text: str) -> None:
        if self.emit is not None:
            self.emit("note", rid=name, rows=[self.held[name]] if name in self.held else [], text=text)

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
        return Wrong(f"{doing} raises `{error}`; wanted {wanted}.{asked(error)} {error.where}".rstrip())

    def _returned(self, doing: str, result: Any, names: Sequence[str]) -> list[int]:
        """The rows that came back, as plain integers, one for each of the batch."""
        if result is None:
            self.law = 3 if self.step >= 3 and self.law == 2 else self.law
            new = [name for name in names if name not in self.held]
            why = f"though {free_named(self.free)}" if new else "though nobody needs a new row"
            hint = " Is there a `return`?" if new and self.reqs[new[-1]].req_pool_idx is not None else ""
            raise Wrong(f"{doing} gives None, {why}: wanted {self._wanted(names)}.{hint}")
        is_list = isinstance(result, SEQUENCES) or (isinstance(result, (Tensor, np.ndarray)) and result.ndim == 1)
        if not is_list:
            raise Wrong(f"{doing} gives {kind_of(result)}, wanted a list of {counted(len(names), 'row')}.")
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
            kept = [name for name in names if name in self.held]
            short = ""
            if kept and len(rows) + len(kept) == len(names):
                wanted = [row_number(self.reqs[name].req_pool_idx) for name in names]
                short = f" Wanted {wanted}: a kept row belongs on the list too."
            raise Wrong(f"{doing} gives {rows}: {counted(len(rows), 'row')} for {batch}.{short}")
        return rows  # type: ignore[return-value]

    def _need_row(self, doing: str, name: str, row: int, rows: list[int], names: Sequence[str]) -> None:
        known = self.reqs[name].req_pool_idx
        if known is None:
            raise Wrong(
                f"{doing} gives {rows}, and `{name}.req_pool_idx` is None: the request must know its row."
                f"{misnamed(self.reqs[name])}"
            )
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
            raise Broken(PADDING, f"{doing} gives `{name}` table row 0: that is the padding row, and nobody's.")
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

    # ---- the twin ------------------------------------------------------------------------------------------------

    def _compare_twin(self, kind: str) -> None:
        """Its tensors were seen to be its own; its free rows may still be shared."""
        twin, was = self.maker.twins[self.start]
        now = free_slots_of(twin, "")
        if now != was:
            del self.maker.twins[self.start]
            raise Broken(
                1,
                f"`{kind}` here changed the `free_slots` of another pool, from {shown(list(was))} to "
                f"{shown(list(now))}. Two pools must share nothing: make everything in `__init__`.",
            )
