"""The slow, obvious pool: lists and dicts, every promise in one plain line, nothing shared with the pool under test.

    table      [[0, 0, 0], [7, 8, 0], ...]     one list a row, row 0 is the padding row
    free       [2, 3]                          in the order in which the rows will be handed out
    owner      {1: request or BY_COUNT}        the rows that are out

A state is a dict of plain values: `state_of(pool)` takes it from a real pool, `SlowPool.state()` from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BY_COUNT = "by count"


class Refused(Exception):
    """The real pool raises ValueError here, and nothing has changed."""


@dataclass(eq=False)
class SlowReq:
    name: int
    row: int | None = None
    committed: int = 0
    chunks: int = 0


def state_of(pool: Any) -> dict[str, Any]:
    """Everything a pool holds, copied into plain values; a holder is named by its identity."""
    return {
        "table": pool.req_to_token.tolist(),
        "verified": pool.verified_lens.tolist(),
        "alloced": pool.alloced_lens.tolist(),
        "mirror": pool.alloced_lens_cpu.tolist(),
        "generation": pool.generation.tolist(),
        "free": list(pool.free_slots),
        "holders": {row: BY_COUNT if req is None else id(req) for row, req in sorted(pool.holders.items())},
    }


class SlowPool:
    def __init__(self, size: int, max_context_len: int, reuse: str) -> None:
        self.size, self.width, self.reuse = size, max_context_len, reuse
        self.table = [[0] * max_context_len for _ in range(size + 1)]
        self.verified = [0] * (size + 1)
        self.alloced = [0] * (size + 1)
        self.mirror = [0] * (size + 1)
        self.generation = [0] * (size + 1)
        self.free = list(range(1, size + 1))
        self.owner: dict[int, Any] = {}

    def state(self, identity: dict[int, int]) -> dict[str, Any]:
        """`identity`: the name of a slow request -> the id() of the real one."""
        holders = {row: who if who is BY_COUNT else identity[who.name] for row, who in sorted(self.owner.items())}
        return {
            "table": [list(row) for row in self.table],
            "verified": list(self.verified),
            "alloced": list(self.alloced),
            "mirror": list(self.mirror),
            "generation": list(self.generation),
            "free": list(self.free),
            "holders": holders,
        }

    def is_lawful(self) -> bool:
        each_row_once = sorted(self.free + list(self.owner)) == list(range(1, self.size + 1))
        return each_row_once and all(self.row_is_lawful(row) for row in self.owner)

    def row_is_lawful(self, row: int) -> bool:
        return self.mirror[row] == self.alloced[row] and 0 <= self.verified[row] <= self.alloced[row] <= self.width

    # ---- rows

    def alloc(self, batch: list[SlowReq]) -> list[int] | None:
        for i, req in enumerate(batch):
            if any(req is earlier for earlier in batch[:i]):
                raise Refused("twice")
        for req in batch:
            if req.row is not None and not self.owns(req):
                raise Refused("not its own")
            if req.row is not None and req.chunks == 0 and req.committed == 0:
                raise Refused("nothing to continue")
        new = [req for req in batch if req.row is None]
        rows = self.take([*new])
        if rows is None:
            return None
        for req, row in zip(new, rows, strict=True):
            req.row = row
        return [req.row for req in batch if req.row is not None]

    def alloc_rows(self, n: int) -> list[int] | None:
        if n < 0:
            raise Refused("negative")
        return self.take([BY_COUNT] * n)

    def take(self, owners: list[Any]) -> list[int] | None:
        if len(owners) > len(self.free):
            return None
        rows = []
        for owner in owners:
            row = self.free[0]
            self.free = self.free[1:]
            self.owner[row] = owner
            self.generation[row] += 1
            self.verified[row] = self.alloced[row] = self.mirror[row] = 0
            rows.append(row)
        return rows

    def owns(self, req: SlowReq) -> bool:
        return req.row in self.owner and self.owner[req.row] is req

    def free_req(self, req: SlowReq) -> None:
        if not self.owns(req):
            raise Refused("no row of its own")
        self.give_back(req.row)
        req.row = None

    def free_rows(self, rows: list[int]) -> None:
        for i, row in enumerate(rows):
            if row in rows[:i]:
                raise Refused("twice")
            if row not in self.owner or self.owner[row] is not BY_COUNT:
                raise Refused("not out by count")
        for row in rows:
            self.give_back(row)

    def give_back(self, row: int) -> None:
        del self.owner[row]
        self.verified[row] = self.alloced[row] = self.mirror[row] = 0
        self.free = [*self.free, row] if self.reuse == "fifo" else [row, *self.free]

    def clear(self) -> None:
        for who in self.owner.values():
            if who is not BY_COUNT:
                who.row = None
        generation = self.generation
        self.__init__(self.size, self.width, self.reuse)
        self.generation = generation

    # ---- cells and lengths

    def row_of(self, target: SlowReq | int) -> int:
        if isinstance(target, SlowReq) and not self.owns(target):
            raise Refused("no row of its own")
        row = target.row if isinstance(target, SlowReq) else target
        if row not in self.owner:
            raise Refused("not out")
        return row

    def append(self, target: SlowReq | int, slots: list[int]) -> None:
        row = self.row_of(target)
        start = self.mirror[row]  # the host knows how far a row is without asking the device
        if start + len(slots) > self.width:
            raise Refused("past the end")
        for i, slot in enumerate(slots):
            self.table[row][start + i] = slot
        self.alloced[row] += len(slots)
        self.mirror[row] += len(slots)

    def write(self, row: int, position: int, slots: list[int]) -> None:
        for i, slot in enumerate(slots):
            self.table[row][position + i] = slot

    def verify(self, rows: list[int], n: int) -> None:
        for row in rows:
            self.verified[row] += n

    def get_info(self, row: int) -> tuple[int, int, list[int]]:
        row = self.row_of(row)
        return self.verified[row], self.alloced[row], self.table[row][: self.alloced[row]]

    def set_info(self, row: int, verified: int, alloced: int, slots: list[int]) -> None:
        row = self.row_of(row)
        if not 0 <= verified <= alloced <= self.width or len(slots) != alloced:
            raise Refused("does not fit")
        self.table[row][:alloced] = slots
        self.verified[row], self.alloced[row], self.mirror[row] = verified, alloced, alloced
