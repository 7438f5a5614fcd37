"""The eight steps of chapter 11: task, hints, one right cell, and what to say to a right one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """
    Attributes:
        methods: that a pool must have for this step to be judged.
        cell: one right cell of this step; with those of the steps before it makes the class.
    """

    title: str
    methods: tuple[str, ...]
    task: str
    hints: tuple[str, str]
    cell: str
    praise: str


TEXTS = (
    Step(
        "the table",
        ("__init__",),
        "write `__init__(self, size, max_context_len)`. It keeps both numbers under these names, and makes: "
        "`req_to_token`, int32 zeros, `size` rows of `max_context_len` positions; `verified_lens` and `alloced_lens`, "
        "int32 zeros, one number a row; `free_slots`, the free rows, in whatever container you like.",
        (
            "`torch.zeros(rows, columns, dtype=torch.int32)`. A length for each row: how many numbers is that?",
            "Two tensors of lengths, each of its own. And `free_slots` is made here, not in the class: else all pools "
            "share one.",
        ),
        """
@part_of(MyPool)
def __init__(self, size, max_context_len):
    self.size = size
    self.max_context_len = max_context_len
    self.req_to_token = torch.zeros(size, max_context_len, dtype=torch.int32)
    self.verified_lens = torch.zeros(size, dtype=torch.int32)
    self.alloced_lens = torch.zeros(size, dtype=torch.int32)
    self.free_slots = list(range(size))
""",
        "A table of int32 zeros, two lengths a row, and every row free. Two pools share nothing.",
    ),
    Step(
        "alloc",
        ("__init__", "alloc"),
        "write `alloc(self, reqs)`. Each request of the list gets a free row; its number goes into the request's "
        "`req_pool_idx`, and out of `free_slots`. Return the rows as a list (a tuple will do), in the order of the "
        "batch; an empty batch gets an empty list. For now there are always rows enough.",
        (
            "For each request: take one row out of the free ones, tell the request, put the row on the list.",
            "`self.free_slots.pop(0)` takes the first row of a list and returns it.",
        ),
        """
@part_of(MyPool)
def alloc(self, reqs):
    rows = []
    for req in reqs:
        req.req_pool_idx = self.free_slots.pop(0)
        rows.append(req.req_pool_idx)
    return rows
""",
        "Every row that went out was free before and is nobody else's, and the list is in the order of the batch.",
    ),
    Step(
        "all or nothing",
        ("__init__", "alloc"),
        "write `alloc` again. If the batch wants more rows than are free, return `None`, and nothing at all has "
        "changed: no row is gone, no request knows a row. The very last row may go out.",
        (
            "Look first, take then: how many rows does the batch want, how many are free?",
            "Leave before the loop: `if ...: return None`.",
        ),
        """
@part_of(MyPool)
def alloc(self, reqs):
    if len(reqs) > len(self.free_slots):
        return None
    rows = []
    for req in reqs:
        req.req_pool_idx = self.free_slots.pop(0)
        rows.append(req.req_pool_idx)
    return rows
""",
        "A batch that does not fit leaves no trace.",
    ),
    Step(
        "free",
        ("__init__", "alloc", "free"),
        "write `free(self, req)`. The request's row is free again, both its lengths are 0, and the request's "
        "`req_pool_idx` is `None`. The row's cells stay as they are: a length says which are live.",
        (
            "Four lines. Which of them needs the row's number, and where does that stand until you delete it?",
            "`row = req.req_pool_idx` first, `req.req_pool_idx = None` last.",
        ),
        """
@part_of(MyPool)
def free(self, req):
    row = req.req_pool_idx
    self.free_slots.append(row)
    self.verified_lens[row] = 0
    self.alloced_lens[row] = 0
    req.req_pool_idx = None
""",
        "Rows come back, and go out again, and nobody's cells or lengths but the freed one's have moved.",
    ),
    Step(
        "the padding row",
        ("__init__", "alloc", "free"),
        "write `__init__` again. Table row 0 is the padding row and belongs to nobody. So that `size` requests still "
        "fit, the table has `size + 1` rows, and the lengths have as many numbers; requests get the rows 1 to `size`.",
        (
            "Three tensors grow by one. `size` itself stays: it counts the rows for requests.",
            "`range(1, size)` ends at `size - 1`.",
        ),
        """
@part_of(MyPool)
def __init__(self, size, max_context_len):
    self.size = size
    self.max_context_len = max_context_len
    self.req_to_token = torch.zeros(size + 1, max_context_len, dtype=torch.int32)
    self.verified_lens = torch.zeros(size + 1, dtype=torch.int32)
    self.alloced_lens = torch.zeros(size + 1, dtype=torch.int32)
    self.free_slots = list(range(1, size + 1))
""",
        "The dummy entries of a batch of fixed size may point at table row 0 now: no request will ever stand there.",
    ),
    Step(
        "keep the row for the next chunk",
        ("__init__", "alloc", "free"),
        "write `alloc` again. A request of the batch that has a row already keeps it, lengths and all, if it has "
        "begun: `inflight_middle_chunks > 0` or `kv_committed_len > 0`. Only the others need a new row. A request that "
        "has a row and neither raises a `ValueError`, and nothing has changed. The two fields are the scheduler's: "
        "read them.",
        (
            "First find out who is new: `req.req_pool_idx is None`. Only they count when rows are scarce.",
            "Check the whole batch before anybody gets a row. Then go through it in order: who has a row brings it "
            "along, who has none takes one.",
        ),
        """
@part_of(MyPool)
def alloc(self, reqs):
    new = [req for req in reqs if req.req_pool_idx is None]
    for req in reqs:
        begun = req.inflight_middle_chunks > 0 or req.kv_committed_len > 0
        if req.req_pool_idx is not None and not begun:
            raise ValueError(f"{req} has a row and nothing to continue")
    if len(new) > len(self.free_slots):
        return None
    for req in new:
        req.req_pool_idx = self.free_slots.pop(0)
    return [req.req_pool_idx for req in reqs]
""",
        "A long prompt stays in its row from chunk to chunk, also on its last chunk, when the counter is 0 again.",
    ),
    Step(
        "reset on reuse",
        ("__init__", "alloc", "free"),
        "write `alloc` again. It zeroes both lengths of every row that it newly gives, although `free` did: the step "
        "of the row's last owner may have written late in between. A row that is kept is not reset.",
        (
            "The row is in your hands the moment that it leaves `free_slots`. That is where its lengths go to 0.",
            "Both lengths, and only in the loop over the new ones.",
        ),
        """
@part_of(MyPool)
def alloc(self, reqs):
    new = [req for req in reqs if req.req_pool_idx is None]
    for req in reqs:
        begun = req.inflight_middle_chunks > 0 or req.kv_committed_len > 0
        if req.req_pool_idx is not None and not begun:
            raise ValueError(f"{req} has a row and nothing to continue")
    if len(new) > len(self.free_slots):
        return None
    for req in new:
        row = req.req_pool_idx = self.free_slots.pop(0)
        self.verified_lens[row] = 0
        self.alloced_lens[row] = 0
    return [req.req_pool_idx for req in reqs]
""",
        "Whatever landed in a row while it was free, its next owner begins at 0. A kept row keeps its lengths.",
    ),
    Step(
        "clear and double free",
        ("__init__", "alloc", "free", "clear"),
        "write `clear(self)`: table and lengths zero (the old tensors or new ones), every row free, and whoever held "
        "one has `req_pool_idx = None`. And write `free` again: a request that has no row, or whose row this pool did "
        "not give it, raises a `ValueError`, and nothing has changed. For both the pool has to know who holds what: "
        "`__init__` and `alloc` get a line more each.",
        (
            "A dict from row to request: empty in `__init__`, one entry more in `alloc`, one less in `free`.",
            "`self.holders.get(row) is not req` is true for all three: no row, a free row, another's row. "
            "`clear` goes through the values of the dict.",
        ),
        """
@part_of(MyPool)
def __init__(self, size, max_context_len):
    self.size = size
    self.max_context_len = max_context_len
    self.req_to_token = torch.zeros(size + 1, max_context_len, dtype=torch.int32)
    self.verified_lens = torch.zeros(size + 1, dtype=torch.int32)
    self.alloced_lens = torch.zeros(size + 1, dtype=torch.int32)
    self.free_slots = list(range(1, size + 1))
    self.holders = {}


@part_of(MyPool)
def alloc(self, reqs):
    new = [req for req in reqs if req.req_pool_idx is None]
    for req in reqs:
        begun = req.inflight_middle_chunks > 0 or req.kv_committed_len > 0
        if req.req_pool_idx is not None and not begun:
            raise ValueError(f"{req} has a row and nothing to continue")
    if len(new) > len(self.free_slots):
        return None
    for req in new:
        row = req.req_pool_idx = self.free_slots.pop(0)
        self.holders[row] = req
        self.verified_lens[row] = 0
        self.alloced_lens[row] = 0
    return [req.req_pool_idx for req in reqs]


@part_of(MyPool)
def free(self, req):
    row = req.req_pool_idx
    if self.holders.get(row) is not req:
        raise ValueError(f"{req} has no row of its own here")
    del self.holders[row]
    self.free_slots.append(row)
    self.verified_lens[row] = 0
    self.alloced_lens[row] = 0
    req.req_pool_idx = None


@part_of(MyPool)
def clear(self):
    for req in self.holders.values():
        req.req_pool_idx = None
    self.holders = {}
    self.free_slots = list(range(1, self.size + 1))
    self.req_to_token.zero_()
    self.verified_lens.zero_()
    self.alloced_lens.zero_()
""",
        "All eight laws hold. An engine can run on this pool.",
    ),
)
