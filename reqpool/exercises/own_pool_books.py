"""The books: who holds which row, what stands in every cell, how long every row is; and what differs from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reqpool.exercises.own_pool_adapter import look, row_number
from reqpool.exercises.own_pool_table import LENGTHS, free_slots_of, need_shapes
from reqpool.exercises.own_pool_words import PADDING, fields, misnamed, moved_field, rows_named, shown
from reqpool.exercises.search import Wrong
from reqpool.pool import Req

NAMES = "abcd"

State = tuple[tuple[int, ...], list[list[int]], list[list[int]]]  # free rows, cells, both lengths


def state_of(own: Any, doing: str = "") -> State:
    return free_slots_of(own, doing), look(own, "req_to_token").tolist(), [look(own, name).tolist() for name in LENGTHS]


class Books:
    """What should be in a pool, in lists and dicts; whoever does something to the pool notes it here.

    Attributes:
        free, held: rows that nobody holds; request -> row.
        elsewhere: request -> row of another pool.
        fields: request -> what the scheduler has written into it.
        late: rows into which a late write has come while they were free -> whose.
        state: what was seen in the pool when it was last looked at.
    """

    def __init__(self, own: Any, step: int, size: int, width: int) -> None:
        self.own, self.step, self.size, self.width = own, step, size, width
        self.state = state_of(own)
        rows, cells, _ = self.state
        self.num_rows = len(cells)
        self.is_padded = self.num_rows > size and 0 not in rows
        self.reqs = {name: Req(name) for name in NAMES}
        self.free: set[int] = set(rows)
        self.held: dict[str, int] = {}
        self.elsewhere: dict[str, int] = {}
        self.fields = {name: fields(req) for name, req in self.reqs.items()}
        self.late: dict[int, str] = {}
        self.table = [[0] * width for _ in range(self.num_rows)]
        self.lengths = {name: [0] * self.num_rows for name in LENGTHS}
        self.cells_wrong: list[tuple[int, int]] = []
        self.law = 1  # that is broken, where something is wrong: of the operation, or of what is found

    def _zero(self, row: int) -> None:
        for length in LENGTHS:
            self.lengths[length][row] = 0

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
        self.cells_wrong = []
        given, freed = given or {}, freed or {}
        operation, self.law = self.law, 1
        need_shapes(self.own, self.num_rows, self.width, doing)
        self.law = operation
        free, table, lengths = self.state = state_of(self.own, doing)
        return (
            self._wrong_field(cause)
            or self._wrong_holder(cause, freed)
            or self._wrong_free_rows(cause, list(free), freed)
            or self._wrong_length(cause, lengths, given, kept, freed)
            or self._wrong_cell(cause, table)
        )

    def _wrong_field(self, cause: str) -> str:
        """From step 6 on the two fields are the scheduler's: before, nobody has said whose they are."""
        for name, req in self.reqs.items():
            if self.step >= 6 and fields(req) != self.fields[name]:
                self.law = 6
                return f"{cause or 'it'} changed {moved_field(name, self.fields[name], req)}: that is the scheduler's."
        return ""

    def _wrong_holder(self, cause: str, freed: dict[str, int]) -> str:
        for name, req in self.reqs.items():
            row, wanted = row_number(req.req_pool_idx), self.held.get(name, self.elsewhere.get(name))
            if row == wanted and (req.req_pool_idx is None) == (wanted is None):
                continue
            if name in freed:
                return (
                    f"{cause} left `{name}` holding row {freed[name]}: `{name}.req_pool_idx` is "
                    f"{shown(req.req_pool_idx)}, wanted None. The row's next owner would share it.{misnamed(req)}"
                )
            verb = f"{cause} left" if cause else "it left"
            if wanted is None:
                return f"{verb} `{name}` with req_pool_idx {shown(req.req_pool_idx)}, wanted None."
            whose = " of another pool" if name in self.elsewhere else ""
            return f"{verb} `{name}` with req_pool_idx {shown(req.req_pool_idx)}: it holds row {wanted}{whose}."
        return ""

    def _wrong_free_rows(self, cause: str, free: list[int], freed: dict[str, int]) -> str:
        holders = {row: name for name, row in self.held.items()}
        after = f" after {cause}" if cause else ""
        for row in sorted(set(free)):
            if row == 0 and self.step >= 5:
                self.law = PADDING
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
            if got == self.lengths[name]:
                continue
            self.law = 7 if self.step >= 7 and self.law == 2 else self.law
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
                said = f"`{name}` begins in row {row} with {where} at {is_now}, wanted 0{late}."
                return f"{said} `alloc` must reset it." if self.step >= 7 else said
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
        if not cause:
            return f"{where} went from {wanted} to {is_now}."
        return f"{where} is {is_now} after {cause}, wanted {wanted}: {whose}.{self._asked(cause, where, given)}"

    def _asked(self, cause: str, where: str, given: dict[str, int]) -> str:
        if not cause.startswith("`alloc"):
            return ""
        if not given:
            return f" {cause} gave no new row, so it may touch none."
        name = where.strip("`").partition("[")[0]
        is_zeroed = not look(self.own, name).any()
        return " Are the lengths of all rows zeroed? Then the index may be `None`, or missing." if is_zeroed else ""

    def _wrong_cell(self, cause: str, table: list[list[int]]) -> str:
        for row, (got, wanted) in enumerate(zip(table, self.table, strict=True)):
            if got != wanted:
                self.law = 4 if self.step >= 4 and self.law == 2 else self.law
                self.cells_wrong = [
                    (row, at) for at, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]
                ]
                if "clear" in cause:
                    return f"the cells of row {row} are {got} after {cause}, wanted zeros."
                why = " Cells stay as they are: a length says which are live." if row in self.free else ""
                return f"the cells of row {row} are {got}{f' after {cause}' if cause else ''}, wanted {wanted}.{why}"
        return ""
