"""Wrong cells that people write in the eight steps of chapter 11, and right classes that look unlike ours.

A wrong cell stands on the right cells of the steps before it. `says` is in the sentence that answers it.
"""

from __future__ import annotations

from dataclasses import dataclass

from reqpool.exercises.own_pool import written
from reqpool.exercises.own_pool_steps import TEXTS


@dataclass(frozen=True)
class WrongCell:
    step: int
    name: str
    mistake: str
    says: str
    cell: str

    def made(self) -> type:
        """The class after this cell."""
        return written([*(text.cell for text in TEXTS[: self.step - 1]), self.cell], f"step {self.step}, {self.name},")


def edited(step: int, name: str, mistake: str, says: str, *edits: tuple[str, str]) -> WrongCell:
    """The right cell of a step with some lines replaced."""
    cell = TEXTS[step - 1].cell
    for old, new in edits:
        if old not in cell:
            raise ValueError(f"{name}: {old!r} is not in the right cell of step {step}")
        cell = cell.replace(old, new)
    return WrongCell(step, name, mistake, says, cell)


def alloc(step: int, name: str, mistake: str, says: str, body: str) -> WrongCell:
    """Another `alloc`."""
    cell = "@part_of(MyPool)\ndef alloc(self, reqs):\n" + body.strip("\n") + "\n"
    return WrongCell(step, name, mistake, says, cell)


def zeroed(row: str, indent: int = 1) -> str:
    """Both lengths of a row to 0."""
    return "".join(f"{'    ' * indent}self.{name}_lens[{row}] = 0\n" for name in ("verified", "alloced"))


ZEROS = "torch.zeros(size, dtype=torch.int32)"
TABLE = "torch.zeros(size, max_context_len, dtype=torch.int32)"

STEP_1 = (
    edited(
        1, "no_dtype", "torch's own dtype is float32", "torch.float32", (TABLE, "torch.zeros(size, max_context_len)")
    ),
    edited(1, "int64", "int64 is twice as large", "torch.int64", (TABLE, TABLE.replace("int32", "int64"))),
    edited(
        1, "turned", "positions x rows", "first rows", (TABLE, "torch.zeros(max_context_len, size, dtype=torch.int32)")
    ),
    edited(
        1,
        "one_tensor_of_lengths",
        "two names for one tensor",
        "one and the same tensor",
        ("self.verified_lens = ", "self.verified_lens = self.alloced_lens = "),
        (f"    self.alloced_lens = {ZEROS}\n", ""),
    ),
    edited(
        1,
        "list_of_the_class",
        "one list for all pools",
        "Two pools must share nothing",
        ("@part_of", "MyPool.free_slots = []\n\n\n@part_of"),
        ("self.free_slots = list(range(size))", "self.free_slots.extend(range(size))"),
    ),
    edited(
        1,
        "default_argument",
        "a default that is made once",
        "Two pools must share nothing",
        ("max_context_len):", "max_context_len, free_slots=[]):"),
        ("self.free_slots = list(range(size))", "self.free_slots = free_slots\n    free_slots.extend(range(size))"),
    ),
    edited(
        1,
        "one_too_few",
        "range from 1, with no row more",
        "holds 0 rows",
        ("list(range(size))", "list(range(1, size))"),
    ),
    edited(
        1, "one_too_many", "a row that the table lacks", "row 1 is in", ("list(range(size))", "list(range(size + 1))")
    ),
    edited(1, "lengths_as_list", "a list for a tensor", "a list, wanted a torch tensor", (ZEROS, "[0] * size")),
    edited(
        1,
        "a_length_a_position",
        "a length for each position",
        "wanted one a row",
        (ZEROS, ZEROS.replace("size", "max_context_len")),
    ),
    edited(1, "ones", "ones for zeros", "wanted zeros", (TABLE, TABLE.replace("zeros", "ones"))),
    edited(
        1,
        "one_row_for_all",
        "expand makes views of one row",
        "one and the same in memory",
        (TABLE, "torch.zeros(1, max_context_len, dtype=torch.int32).expand(size, max_context_len)"),
    ),
    edited(
        1, "list_of_lists", "[[0] * n] * m", "a list, wanted a torch tensor", (TABLE, "[[0] * max_context_len] * size")
    ),
    edited(1, "size_not_kept", "an argument that is not kept", "has no `size`", ("    self.size = size\n", "")),
    edited(
        1, "size_swapped", "the two numbers swapped", "`size` of", ("self.size = size", "self.size = max_context_len")
    ),
    edited(1, "a_count", "how many are free, not which", "free_slots", ("list(range(size))", "size")),
    edited(1, "row_twice", "every row twice", "2 times", ("list(range(size))", "list(range(size)) * 2")),
    edited(
        1,
        "one_table_for_all",
        "a table that belongs to the class",
        "two pools share one",
        ("@part_of", "TABLES = {}\n\n\n@part_of"),
        (TABLE, f"TABLES.setdefault((size, max_context_len), {TABLE})"),
    ),
    edited(
        1,
        "iterator",
        "an iterator can be read once",
        "read twice, it gives [0] and then []",
        ("list(range(size))", "iter(range(size))"),
    ),
    edited(
        1,
        "generator",
        "so can a generator",
        "is a generator: read twice",
        ("list(range(size))", "(row for row in range(size))"),
    ),
    edited(
        1,
        "without_end",
        "an iterator without an end",
        "is a count: read twice",
        ("@part_of", "import itertools\n\n\n@part_of"),
        ("list(range(size))", "itertools.count()"),
    ),
    edited(
        1,
        "hung_on_the_class",
        "made in __init__, and kept in the class",
        "two pools share one `free_slots`",
        ("self.free_slots", "MyPool.free_slots"),
    ),
    edited(
        1,
        "array_of_the_class",
        "one NumPy array for all pools",
        "two pools share one `free_slots`",
        ("@part_of", "import numpy as np\n\nMyPool.rows = np.arange(9)\n\n\n@part_of"),
        ("list(range(size))", "self.rows[:size]"),
    ),
    edited(
        1,
        "length_in_the_table",
        "the first cell of a row for its length",
        "`alloced_lens` lies in the memory of `req_to_token`",
        (f"self.alloced_lens = {ZEROS}", "self.alloced_lens = self.req_to_token[:, 0]"),
    ),
)

TAKE = "req.req_pool_idx = self.free_slots.pop(0)"

STEP_2 = (
    edited(
        2,
        "length_begins_at_1",
        "a row given is no row written",
        "`alloced_lens[0]` at 1, wanted 0.",
        ("        rows.append", "        self.alloced_lens[req.req_pool_idx] = 1\n        rows.append"),
    ),
    edited(
        2,
        "request_not_told",
        "the request does not know its row",
        "must know its row",
        ("        rows.append(req.req_pool_idx)\n", ""),
        (TAKE, "rows.append(self.free_slots.pop(0))"),
    ),
    edited(2, "no_return", "the rows are not returned", "Is there a `return`?", ("    return rows\n", "")),
    edited(
        2, "not_taken_out", "the row is still free", "would share it", (TAKE, "req.req_pool_idx = self.free_slots[0]")
    ),
    edited(
        2,
        "one_row_for_the_batch",
        "the row is taken before the loop",
        "two requests hold row",
        ("    rows = []\n", "    rows = []\n    row = self.free_slots.pop(0) if reqs else None\n"),
        (TAKE, "req.req_pool_idx = row"),
    ),
    edited(
        2,
        "order_turned",
        "the last request's row comes first",
        "order of the batch",
        ("rows.append(req.req_pool_idx)", "rows.insert(0, req.req_pool_idx)"),
    ),
    edited(
        2,
        "sorted",
        "the rows in ascending order, taken from the end",
        "order of the batch",
        ("pop(0)", "pop()"),
        ("return rows", "return sorted(rows)"),
    ),
    edited(
        2,
        "generator",
        "a generator, which can be read once",
        "a generator",
        ("return rows", "return (row for row in rows)"),
    ),
    alloc(
        2,
        "index_for_row",
        "the place in the batch taken for a row",
        "two requests hold row 0",
        """
    for number, req in enumerate(reqs):
        self.free_slots.pop(0)
        req.req_pool_idx = number
    return list(range(len(reqs)))
""",
    ),
    edited(
        2,
        "return_in_loop",
        "the return is in the loop",
        "1 row for a batch of 2",
        ("    return rows", "        return rows\n    return rows"),
    ),
    alloc(
        2,
        "minus_zero",
        "[-0:] is everything",
        "for an empty batch",
        """
    n = len(reqs)
    rows = self.free_slots[-n:]
    self.free_slots = self.free_slots[:-n]
    for req, row in zip(reqs, rows):
        req.req_pool_idx = row
    return rows
""",
    ),
    edited(2, "set_of_rows", "a set has no order", "a set, wanted a list", ("return rows", "return set(rows)")),
    alloc(
        2,
        "removed_while_read",
        "a list that shrinks while it is read",
        "1 row for a batch of 2",
        """
    rows = []
    for req, row in zip(reqs, self.free_slots):
        self.free_slots.remove(row)
        req.req_pool_idx = row
        rows.append(row)
    return rows
""",
    ),
    edited(
        2,
        "taken_from_a_copy",
        "the rows leave a copy",
        "would share it",
        ("    rows = []\n", "    rows = []\n    free = list(self.free_slots)\n"),
        ("self.free_slots.pop(0)", "free.pop(0)"),
    ),
    edited(
        2,
        "requests_returned",
        "the requests, not their rows",
        "the numbers of rows",
        ("return rows", "return list(reqs)"),
    ),
    edited(
        2,
        "first_row_only",
        "one row, not a list",
        "an int, wanted a list",
        ("return rows", "return rows[0] if rows else []"),
    ),
    edited(
        2,
        "two_taken",
        "two rows leave for one request",
        "is lost",
        ("        rows.append", "        self.free_slots[1:2] = []\n        rows.append"),
    ),
)

LOOK = "    if len(reqs) > len(self.free_slots):\n        return None\n"

STEP_3 = (
    edited(3, "not_checked", "it runs into the empty list", "wanted None", (LOOK, "")),
    edited(3, "last_row_kept_back", "the very last row never goes out", "though 1 row is free", ("> len(", ">= len(")),
    alloc(
        3,
        "taken_first",
        "rows are taken before it is noticed that they are too few",
        "is lost",
        """
    rows = [self.free_slots.pop(0) for _ in reqs if self.free_slots]
    if len(rows) < len(reqs):
        return None
    for req, row in zip(reqs, rows):
        req.req_pool_idx = row
    return rows
""",
    ),
    edited(3, "empty_list", "an empty list for None", "wanted None", ("return None", "return []")),
    edited(3, "false", "False for None", "wanted None", ("return None", "return False")),
    edited(3, "raises", "not now is no error", "wanted None", ("return None", 'raise ValueError("too few rows")')),
    edited(3, "what_there_is", "half a batch", "All or nothing", (LOOK, "    reqs = reqs[: len(self.free_slots)]\n")),
    alloc(
        3,
        "told_first",
        "the requests are told before it is checked",
        "was refused, and yet",
        """
    for req, row in zip(reqs, self.free_slots):
        req.req_pool_idx = row
    if len(reqs) > len(self.free_slots):
        return None
    self.free_slots = self.free_slots[len(reqs) :]
    return [req.req_pool_idx for req in reqs]
""",
    ),
    alloc(
        3,
        "half_undone",
        "the rows go back, the requests still name them",
        "was refused, and yet",
        """
    rows = []
    for req in reqs:
        if not self.free_slots:
            self.free_slots = rows
            return None
        req.req_pool_idx = self.free_slots.pop(0)
        rows.append(req.req_pool_idx)
    return rows
""",
    ),
    edited(
        3,
        "against_size",
        "compared with all rows, not with the free ones",
        "wanted None",
        ("len(self.free_slots):", "self.size:"),
    ),
    edited(
        3,
        "only_when_none",
        "one row is taken for rows enough",
        "wanted None",
        ("if len(reqs) > len(self.free_slots)", "if reqs and not self.free_slots"),
    ),
    edited(
        3,
        "turned_round",
        "the comparison the other way round",
        "wanted None",
        ("len(reqs) > len(self.free_slots)", "len(reqs) < len(self.free_slots)"),
    ),
    edited(
        3,
        "count_of_the_class",
        "one count for all pools",
        "with two pools in use, `alloc` of one gives None",
        ("@part_of", "MyPool.taken = 0\n\n\n@part_of"),
        ("len(reqs) > len(self.free_slots)", "MyPool.taken + len(reqs) > self.size"),
        ("        rows.append", "        MyPool.taken += 1\n        rows.append"),
    ),
    edited(3, "no_return_at_all", "the refusal prints", "wanted None", ("return None", 'print("too few rows")')),
)

FREE = "    self.free_slots.append(row)\n"

STEP_4 = (
    edited(4, "not_given_back", "the row is nobody's for ever", "is lost", (FREE, "")),
    edited(
        4,
        "still_named",
        "the request still names its row",
        "left `a` holding row 0",
        ("    req.req_pool_idx = None\n", ""),
    ),
    edited(
        4,
        "lengths_stay",
        "lengths are not zeroed",
        "wanted 0",
        ("    self.verified_lens[row] = 0\n    self.alloced_lens[row] = 0\n", ""),
    ),
    edited(4, "one_length", "only one length is zeroed", "`alloced_lens[0]`", ("    self.alloced_lens[row] = 0\n", "")),
    edited(
        4,
        "cells_cleared",
        "the cells are cleared too",
        "Cells stay as they are",
        (FREE, f"{FREE}    self.req_to_token[row] = 0\n"),
    ),
    edited(
        4,
        "forgotten_too_soon",
        "the row's number is deleted before it is read",
        "None is not the number of a row",
        ("    row = req.req_pool_idx\n", "    req.req_pool_idx = None\n    row = req.req_pool_idx\n"),
    ),
    edited(
        4,
        "all_lengths",
        "everybody's lengths are zeroed",
        "holds row",
        ("self.verified_lens[row] = 0", "self.verified_lens.zero_()"),
        ("self.alloced_lens[row] = 0", "self.alloced_lens.zero_()"),
    ),
    edited(
        4,
        "all_rows_free",
        "the list is made anew, whoever holds a row",
        "would share it",
        (FREE, "    self.free_slots = list(range(self.size))\n"),
    ),
    edited(
        4,
        "twice_on_the_list",
        "the row goes on the list twice",
        "twice",
        (FREE, FREE + FREE.replace("append(row)", "insert(0, row)")),
    ),
    edited(
        4,
        "request_on_the_list",
        "the request goes on the list",
        "is not the number of a row",
        ("append(row)", "append(req)"),
    ),
    edited(4, "minus_one", "-1 for no row", "wanted None", ("req.req_pool_idx = None", "req.req_pool_idx = -1")),
    edited(
        4, "zero", "0 for no row, and 0 is a row", "wanted None", ("req.req_pool_idx = None", "req.req_pool_idx = 0")
    ),
    edited(4, "one_beside", "lengths of the row beside", "wanted 0", ("verified_lens[row]", "verified_lens[row - 1]")),
    edited(4, "removed", "remove for append", "raises `ValueError", ("append(row)", "remove(row)")),
    edited(
        4, "list_replaced", "the list is replaced, not made longer", "is lost", (FREE, "    self.free_slots = [row]\n")
    ),
    edited(
        4,
        "lengths_as_numbers",
        "the whole tensor becomes a number",
        "an int, wanted a torch tensor",
        ("self.verified_lens[row] = 0", "self.verified_lens = 0"),
    ),
)

SIZE_1 = "size + 1, dtype"

STEP_5 = (
    edited(
        5, "lengths_not_grown", "a table of size + 1 rows, size lengths", "wanted one a row", (SIZE_1, "size, dtype")
    ),
    edited(
        5,
        "one_length_not_grown",
        "one of the lengths has not grown",
        "`alloced_lens` has 1 number",
        ("self.alloced_lens = torch.zeros(size + 1", "self.alloced_lens = torch.zeros(size"),
    ),
    edited(
        5,
        "row_0_handed_out",
        "row 0 is handed out, the last row never",
        "padding row",
        ("range(1, size + 1)", "range(size)"),
    ),
    edited(5, "row_0_too", "row 0 is handed out as well", "padding row", ("range(1, size + 1)", "range(size + 1)")),
    edited(5, "one_too_few", "range ends before its end", "holds 0 rows", ("range(1, size + 1)", "range(1, size)")),
    edited(
        5, "one_too_many", "a row that the table lacks", "row 2 is in", ("range(1, size + 1)", "range(1, size + 2)")
    ),
    edited(5, "size_grown", "size counts the padding row", "`size` of", ("self.size = size", "self.size = size + 1")),
    edited(
        5,
        "table_not_grown",
        "the padding row is counted inside size",
        "and the padding row",
        ("torch.zeros(size + 1, max", "torch.zeros(size, max"),
    ),
    edited(
        5,
        "wrong_axis",
        "one position more, not one row",
        "is 1 x 5, wanted 2 rows of 4 positions",
        ("size + 1, max_context_len", "size, max_context_len + 1"),
    ),
    edited(
        5,
        "inside_size",
        "one row too few: SGLang pull 23635",
        "and the padding row",
        ("size + 1", "size"),
        ("range(1, size)", "range(1, size)"),
    ),
    edited(
        5,
        "dtype_lost",
        "retyped without the dtype",
        "torch.float32",
        ("max_context_len, dtype=torch.int32", "max_context_len"),
    ),
    edited(
        5,
        "two_more",
        "two rows more",
        "wanted 2",
        ("size + 1", "size + 2"),
        ("range(1, size + 2)", "range(1, size + 1)"),
    ),
)

BEGUN = "req.inflight_middle_chunks > 0 or req.kv_committed_len > 0"
NEW = "new = [req for req in reqs if req.req_pool_idx is None]"
REFUSE = "    if len(new) > len(self.free_slots):\n        return None\n"

STEP_6 = (
    edited(
        6,
        "counter_only",
        "the counter is 0 on the last chunk",
        "has begun",
        (BEGUN, "req.inflight_middle_chunks > 0"),
    ),
    edited(
        6,
        "committed_only",
        "before the first result nothing is committed",
        "has begun",
        (BEGUN, "req.kv_committed_len > 0"),
    ),
    edited(6, "and_for_or", "both at once, where one is enough", "has begun", (" or ", " and ")),
    WrongCell(6, "nobody_keeps", "everybody gets a new row", "nothing to continue", TEXTS[2].cell),
    edited(
        6,
        "everybody_keeps",
        "who has a row keeps it, begun or not",
        "Wanted a ValueError",
        ('raise ValueError(f"{req} has a row and nothing to continue")', "pass"),
    ),
    edited(
        6,
        "at_least_0",
        ">= 0 is always true",
        "Wanted a ValueError",
        ("req.inflight_middle_chunks > 0", "req.inflight_middle_chunks >= 0"),
    ),
    edited(
        6,
        "all_counted",
        "those who keep count as new",
        "though nobody needs a new row",
        ("len(new) > ", "len(reqs) > "),
    ),
    alloc(
        6,
        "checked_on_the_way",
        "the check comes when others have rows already",
        "was refused, and yet",
        """
    if sum(req.req_pool_idx is None for req in reqs) > len(self.free_slots):
        return None
    for req in reqs:
        if req.req_pool_idx is None:
            req.req_pool_idx = self.free_slots.pop(0)
        elif not (req.inflight_middle_chunks > 0 or req.kv_committed_len > 0):
            raise ValueError(f"{req} has nothing to continue")
    return [req.req_pool_idx for req in reqs]
""",
    ),
    edited(
        6,
        "kept_first",
        "first those who keep, then the new ones",
        "order of the batch",
        (
            "return [req.req_pool_idx for req in reqs]",
            "return [req.req_pool_idx for req in sorted(reqs, key=new.__contains__)]",
        ),
    ),
    edited(
        6,
        "kept_is_reset",
        "lengths of a kept row are zeroed",
        "its tokens are in there",
        ("    return [", "    for req in reqs:\n        self.verified_lens[req.req_pool_idx] = 0\n    return ["),
    ),
    alloc(
        6,
        "freed_between_chunks",
        "the row goes back, and the next free one is taken: SGLang pull 17850",
        "keep",
        """
    for req in reqs:
        if req.req_pool_idx is not None:
            if not (req.inflight_middle_chunks > 0 or req.kv_committed_len > 0):
                raise ValueError(f"{req} has nothing to continue")
    for req in reqs:
        if req.req_pool_idx is not None:
            self.free(req)
    if len(reqs) > len(self.free_slots):
        return None
    for req in reqs:
        req.req_pool_idx = self.free_slots.pop(0)
    return [req.req_pool_idx for req in reqs]
""",
    ),
    alloc(
        6,
        "begun_without_a_row",
        "who has begun and was freed is taken for one that keeps",
        "needs a new one",
        """
    begun = [req for req in reqs if req.inflight_middle_chunks > 0 or req.kv_committed_len > 0]
    new = [req for req in reqs if req not in begun]
    for req in new:
        if req.req_pool_idx is not None:
            raise ValueError(f"{req} has nothing to continue")
    if len(new) > len(self.free_slots):
        return None
    for req in new:
        req.req_pool_idx = self.free_slots.pop(0)
    return [req.req_pool_idx for req in reqs]
""",
    ),
    edited(
        6,
        "only_new_returned",
        "the kept rows are not in the list",
        "0 rows for a batch of 1",
        ("for req in reqs]\n", "for req in new]\n"),
    ),
    edited(
        6,
        "counts_down",
        "the counter is counted down here",
        "that is the scheduler's",
        ("    return [", "    for req in reqs:\n        req.inflight_middle_chunks = 0\n    return ["),
    ),
    edited(6, "key_error", "another exception", "wanted a ValueError", ("ValueError", "KeyError")),
    edited(
        6,
        "none_for_error",
        "None for what is never right",
        "Wanted a ValueError",
        ('raise ValueError(f"{req} has a row and nothing to continue")', "return None"),
    ),
    edited(6, "nobody_refused", "the check for rows got lost", "wanted None", (REFUSE, "")),
    edited(
        6,
        "falsy_row",
        "row 1 is true, and None is not the question",
        "ValueError",
        ("req.req_pool_idx is not None and", "req.req_pool_idx == 0 and"),
    ),
)

RESET = zeroed("row", 2)

STEP_7 = (
    WrongCell(7, "no_reset", "free has zeroed them, has it not?", "`alloc` must reset it", TEXTS[5].cell),
    edited(
        7,
        "kept_too",
        "kept rows are reset as well",
        "its tokens are in there",
        (RESET, ""),
        (
            "    return [",
            f"    for req in reqs:\n{zeroed('req.req_pool_idx', 2)}    return [",
        ),
    ),
    edited(7, "verified_only", "one of two lengths", "`alloced_lens", ("        self.alloced_lens[row] = 0\n", "")),
    edited(
        7, "alloced_only", "the other of two lengths", "`verified_lens", ("        self.verified_lens[row] = 0\n", "")
    ),
    edited(
        7,
        "everybody",
        "all rows are reset",
        "holds row",
        (RESET, "        self.verified_lens.zero_()\n        self.alloced_lens.zero_()\n"),
    ),
    edited(
        7,
        "reset_then_refused",
        "reset before it is known that there are rows enough",
        "was refused, and yet",
        (
            "    if len(new)",
            f"    for row in self.free_slots[: len(new)]:\n{zeroed('row', 2)}    if len(new)",
        ),
        ("pop(0)\n" + RESET, "pop(0)\n"),
    ),
    edited(
        7,
        "reset_too_soon",
        "the request has no row yet: index None is everything",
        "holds row",
        ("        row = req.req_pool_idx = self.free_slots.pop(0)\n", "        row = req.req_pool_idx\n"),
        (RESET, f"{RESET}        req.req_pool_idx = self.free_slots.pop(0)\n"),
    ),
    edited(
        7,
        "cells_too",
        "the cells are cleared too",
        "the cells of row 1",
        (RESET, f"{RESET}        self.req_to_token[row] = 0\n"),
    ),
    edited(7, "one_beside", "lengths of the row beside", "holds row", ("_lens[row] = 0", "_lens[row - 1] = 0")),
    edited(
        7,
        "float_tensor",
        "a new tensor, of floats",
        "torch.float32",
        ("self.verified_lens[row] = 0", "self.verified_lens = torch.zeros(self.size + 1)"),
    ),
    edited(
        7,
        "only_if_never_begun",
        "a retracted request comes again with tokens committed",
        "`alloc` must reset it",
        (
            RESET,
            "        if req.kv_committed_len == 0:\n" + zeroed("row", 3),
        ),
    ),
    edited(
        7,
        "last_one_only",
        "the reset is behind the loop",
        "`alloc` must reset it",
        (RESET, ""),
        (
            "    return [",
            "    if new:\n        self.verified_lens[row] = 0\n        self.alloced_lens[row] = 0\n    return [",
        ),
    ),
    edited(
        7,
        "behind_return",
        "no line after return is run",
        "`alloc` must reset it",
        (RESET, ""),
        (
            "    return [req.req_pool_idx for req in reqs]\n",
            "    return [req.req_pool_idx for req in reqs]\n" + zeroed("row"),
        ),
    ),
    edited(7, "compared", "== compares", "`alloc` must reset it", ("_lens[row] = 0", "_lens[row] == 0")),
    edited(
        7,
        "condition_lost",
        "the half of the condition got lost on the way",
        "has begun",
        (BEGUN, "req.inflight_middle_chunks > 0"),
    ),
)

OWN = '    if self.holders.get(row) is not req:\n        raise ValueError(f"{req} has no row of its own here")\n'
RELEASE = "    for req in self.holders.values():\n        req.req_pool_idx = None\n"
ALL_FREE = "self.free_slots = list(range(1, self.size + 1))"

STEP_8 = (
    edited(8, "not_released", "holders still name their rows", "left `a` holding row 1", (RELEASE, "")),
    edited(8, "list_not_whole", "the free list stays as it is", "is lost", (f"    {ALL_FREE}\n", "")),
    edited(
        8,
        "row_0_free",
        "clear frees the padding row too",
        "padding row",
        (ALL_FREE, "self.free_slots = list(range(self.size + 1))"),
    ),
    edited(
        8,
        "one_too_few",
        "clear forgets the last row",
        "is lost",
        (ALL_FREE, "self.free_slots = list(range(1, self.size))"),
    ),
    edited(
        8,
        "list_longer",
        "clear adds all rows to those that are free",
        "twice",
        (ALL_FREE, "self.free_slots += range(1, self.size + 1)"),
    ),
    edited(8, "cells_stay", "clear leaves the cells", "wanted zeros", ("    self.req_to_token.zero_()\n", "")),
    edited(8, "lengths_stay", "clear leaves a length", "wanted 0", ("    self.alloced_lens.zero_()\n", "")),
    edited(
        8,
        "free_unchecked",
        "whoever comes is freed",
        "passed",
        (OWN, ""),
        ("    del self.holders[row]\n", "    self.holders.pop(row, None)\n"),
    ),
    edited(
        8,
        "only_none_checked",
        "a row that is another's is freed",
        "never got it here",
        ("if self.holders.get(row) is not req:", "if row is None:"),
        ("    del self.holders[row]\n", "    self.holders.pop(row, None)\n"),
    ),
    edited(
        8,
        "not_whose",
        "the row is held, no matter by whom",
        "`a` holds that",
        ("if self.holders.get(row) is not req:", "if row not in self.holders:"),
    ),
    edited(8, "key_error", "del raises, but not what was wanted", "Wanted a ValueError", (OWN, "")),
    edited(
        8,
        "freed_then_checked",
        "the check comes last",
        "was refused, and yet",
        (OWN, ""),
        (FREE, f"{FREE}{OWN}"),
        ("    del self.holders[row]\n", ""),
        (
            zeroed("row") + "    req.req_pool_idx = None",
            "    del self.holders[row]\n" + zeroed("row") + "    req.req_pool_idx = None",
        ),
    ),
    edited(
        8,
        "silent",
        "a second free passes in silence",
        "passed",
        ('raise ValueError(f"{req} has no row of its own here")', "return"),
    ),
    edited(
        8,
        "new_tensor",
        "clear makes lengths of floats",
        "torch.float32",
        ("self.verified_lens.zero_()", "self.verified_lens = torch.zeros(self.size + 1)"),
    ),
    edited(
        8,
        "freed_in_a_loop",
        "free changes the dict that is being read",
        "raises `RuntimeError",
        (RELEASE, "    for req in self.holders.values():\n        self.free(req)\n"),
    ),
    edited(
        8,
        "rid_of_none",
        "nobody has no rid",
        "Wanted a ValueError",
        ("self.holders.get(row) is not req", "self.holders.get(row).rid != req.rid"),
    ),
    edited(
        8,
        "init_again",
        "a new start, but the holders do not hear of it",
        "left `a` holding row 1",
        (RELEASE, "    self.__init__(self.size, self.max_context_len)\n"),
    ),
    edited(
        8,
        "row_in_free",
        "a row that is not free is not yet one's own",
        "`a` holds that",
        ("if self.holders.get(row) is not req:", "if row is None or row in self.free_slots or row > self.size:"),
    ),
    edited(
        8,
        "first_only",
        "the return is in the loop",
        "left `b` holding row 2",
        (
            "        req.req_pool_idx = None\n    self.holders = {}\n",
            "        req.req_pool_idx = None\n        break\n    self.holders = {}\n",
        ),
    ),
    edited(
        8,
        "free_keeps_the_holder",
        "who was here once may free for ever",
        "is another pool's",
        ("    del self.holders[row]\n", ""),
    ),
    edited(
        8,
        "clear_keeps_the_holders",
        "who was here before the clear may free for ever",
        "is another pool's",
        (f"    self.holders = {{}}\n    {ALL_FREE}\n    self.req", f"    {ALL_FREE}\n    self.req"),
    ),
    edited(
        8,
        "clear_finds_former_holders",
        "free asks the free rows too, clear does not",
        "holds row 1 of another pool",
        ("    del self.holders[row]\n", ""),
        ("is not req:", "is not req or row in self.free_slots:"),
    ),
    edited(
        8,
        "known_for_ever",
        "who was given some row here may free any",
        "is another pool's",
        ("self.holders.get(row) is not req", "row is None or req not in self.seen or row > self.size"),
        ("self.holders = {}\n\n", "self.holders = {}\n    self.seen = set()\n\n"),
        ("self.holders[row] = req", "self.holders[row] = req\n        self.seen.add(req)"),
        ("    del self.holders[row]\n", "    self.holders.pop(row, None)\n"),
    ),
    edited(
        8,
        "by_rid",
        "another request may have the same rid",
        "`x` has the rid of `a`",
        (
            "self.holders.get(row) is not req",
            "row not in self.holders or self.holders[row].rid != req.rid",
        ),
    ),
    edited(
        8,
        "fields_cleared",
        "clear zeroes what the scheduler counts",
        "that is the scheduler's",
        (
            "        req.req_pool_idx = None\n    self.holders = {}\n",
            "        req.req_pool_idx = None\n        req.kv_committed_len = req.inflight_middle_chunks = 0\n"
            "    self.holders = {}\n",
        ),
    ),
    edited(
        8,
        "holders_of_the_class",
        "one dict of holders for all pools",
        "with two pools in use",
        ("@part_of(MyPool)\ndef __init__", "MyPool.holders = {}\n\n\n@part_of(MyPool)\ndef __init__"),
        ("    self.holders = {}\n\n", "\n"),
        ("    self.holders = {}\n    self.free", "    self.holders.clear()\n    self.free"),
    ),
    edited(
        8,
        "zeros_not_in_place",
        "zero without the underscore",
        "no attribute 'zero'",
        ("self.req_to_token.zero_()", "self.req_to_token.zero()"),
    ),
)

WRONG_CELLS: tuple[WrongCell, ...] = (*STEP_1, *STEP_2, *STEP_3, *STEP_4, *STEP_5, *STEP_6, *STEP_7, *STEP_8)

# ---- right, though written otherwise: whole classes, which every step accepts ---------------------------------------


@dataclass(frozen=True)
class UnusualPool:
    name: str
    what: str
    source: str

    def made(self) -> type:
        return written([self.source], f"unusual, {self.name},")


BASE = """
import bisect
import heapq
import random
from collections import deque

import numpy as np


class MyPool:
    def __init__(self, size, max_context_len):
        self.size, self.max_context_len = size, max_context_len
        self.req_to_token = torch.zeros((size + 1, max_context_len), dtype=torch.int32)
        self.verified_lens = torch.zeros(size + 1, dtype=torch.int32)
        self.alloced_lens = torch.zeros(size + 1, dtype=torch.int32)
        self.owner = {}
        self.start()

    def start(self):
        self.free_slots = list(range(1, self.size + 1))

    def num_free(self):
        return len(self.free_slots)

    def take(self):
        return self.free_slots.pop(0)

    def put(self, row):
        self.free_slots.append(row)

    def answer(self, rows):
        return rows

    def zero(self, row):
        self.verified_lens[row] = self.alloced_lens[row] = 0

    def alloc(self, reqs):
        reqs = list(reqs)
        new = [req for req in reqs if req.req_pool_idx is None]
        for req in reqs:
            if req.req_pool_idx is not None and not (req.inflight_middle_chunks > 0 or req.kv_committed_len > 0):
                raise ValueError("nothing to continue")
        if len(new) > self.num_free():
            return None
        for req in new:
            req.req_pool_idx = self.take()
            self.owner[int(req.req_pool_idx)] = req
            self.zero(req.req_pool_idx)
        return self.answer([req.req_pool_idx for req in reqs])

    def free(self, req):
        row = req.req_pool_idx
        if row is None or self.owner.get(int(row)) is not req:
            raise ValueError("not its own")
        del self.owner[int(row)]
        self.zero(row)
        self.put(int(row))
        req.req_pool_idx = None

    def clear(self):
        for req in self.owner.values():
            req.req_pool_idx = None
        self.owner.clear()
        self.req_to_token[:] = 0
        self.verified_lens[:] = 0
        self.alloced_lens[:] = 0
        self.start()
"""


def unusual(name: str, what: str, methods: str) -> UnusualPool:
    """The base class with these methods in place of its own."""
    return UnusualPool(name, what, f"{BASE}\n\nclass MyPool(MyPool):{methods}")


UNUSUAL_POOLS: tuple[UnusualPool, ...] = (
    UnusualPool("plain", "whole at once, in a class statement", BASE),
    unusual(
        "deque",
        "a deque, and a tuple returned",
        """
    def start(self):
        self.free_slots = deque(range(1, self.size + 1))
    def take(self):
        return self.free_slots.popleft()
    def answer(self, rows):
        return tuple(rows)
""",
    ),
    unusual(
        "last_in_first_out",
        "a stack",
        """
    def take(self):
        return self.free_slots.pop()
""",
    ),
    unusual(
        "set",
        "a set: any order",
        """
    def start(self):
        self.free_slots = set(range(1, self.size + 1))
    def take(self):
        return self.free_slots.pop()
    def put(self, row):
        self.free_slots.add(row)
""",
    ),
    unusual(
        "heap",
        "a heap: the smallest row first",
        """
    def take(self):
        return heapq.heappop(self.free_slots)
    def put(self, row):
        heapq.heappush(self.free_slots, row)
""",
    ),
    unusual(
        "sorted_list",
        "a sorted list: the largest row first",
        """
    def take(self):
        return self.free_slots.pop()
    def put(self, row):
        bisect.insort(self.free_slots, row)
""",
    ),
    unusual(
        "dict",
        "the keys of a dict",
        """
    def start(self):
        self.free_slots = dict.fromkeys(range(1, self.size + 1))
    def take(self):
        return self.free_slots.popitem()[0]
    def put(self, row):
        self.free_slots[row] = None
""",
    ),
    unusual(
        "dict_of_flags",
        "a dict from row to whether it is free",
        """
    def start(self):
        self.free_slots = {row: row > 0 for row in range(self.size + 1)}
    def num_free(self):
        return sum(self.free_slots.values())
    def take(self):
        row = next(row for row, is_free in self.free_slots.items() if is_free)
        self.free_slots[row] = False
        return row
    def put(self, row):
        self.free_slots[row] = True
""",
    ),
    unusual(
        "tensor_of_rows",
        "a tensor of rows, and rows that are tensors",
        """
    def start(self):
        self.free_slots = torch.arange(1, self.size + 1)
    def take(self):
        row, self.free_slots = self.free_slots[0].clone(), self.free_slots[1:]
        return row
    def put(self, row):
        self.free_slots = torch.cat([self.free_slots, torch.tensor([row])])
""",
    ),
    unusual(
        "numpy_rows",
        "a NumPy array, NumPy integers, an array returned",
        """
    def start(self):
        self.free_slots = np.arange(1, self.size + 1)
    def take(self):
        row, self.free_slots = self.free_slots[-1], self.free_slots[:-1]
        return row
    def put(self, row):
        self.free_slots = np.append(self.free_slots, row)
    def answer(self, rows):
        return np.array(rows, dtype=np.int32)
""",
    ),
    unusual(
        "mask",
        "a mask of the rows, shown as a property",
        """
    def start(self):
        self.is_free = torch.ones(self.size + 1, dtype=torch.bool)
        self.is_free[0] = False
    @property
    def free_slots(self):
        return self.is_free.nonzero().flatten().tolist()
    def take(self):
        row = int(self.is_free.nonzero()[0])
        self.is_free[row] = False
        return row
    def put(self, row):
        self.is_free[row] = True
    def answer(self, rows):
        return torch.tensor(rows, dtype=torch.int64)
""",
    ),
    unusual(
        "bare_mask",
        "the mask itself",
        """
    def start(self):
        self.free_slots = torch.arange(self.size + 1) > 0
    def num_free(self):
        return int(self.free_slots.sum())
    def take(self):
        row = int(self.free_slots.nonzero()[-1])
        self.free_slots[row] = False
        return row
    def put(self, row):
        self.free_slots[row] = True
""",
    ),
    unusual(
        "list_of_flags",
        "a list of True and False",
        """
    def start(self):
        self.free_slots = [False] + [True] * self.size
    def num_free(self):
        return sum(self.free_slots)
    def take(self):
        row = self.free_slots.index(True)
        self.free_slots[row] = False
        return row
    def put(self, row):
        self.free_slots[row] = True
""",
    ),
    unusual(
        "one_tensor_of_lengths",
        "the lengths are two views of one tensor, as ours",
        """
    def start(self):
        super().start()
        if not hasattr(self, "lens"):
            self.lens = torch.zeros(2, self.size + 1, dtype=torch.int32)
            self.verified_lens, self.alloced_lens = self.lens
    def zero(self, row):
        self.lens[:, int(row)] = 0
    def answer(self, rows):
        return deque(rows)
""",
    ),
    unusual(
        "made_anew",
        "clear makes everything anew",
        """
    def clear(self):
        for req in self.owner.values():
            req.req_pool_idx = None
        self.__init__(self.size, self.max_context_len)
""",
    ),
    unusual(
        "by_chance",
        "any free row, from a generator of its own",
        """
    def start(self):
        super().start()
        self.chance = random.Random(0)
    def take(self):
        return self.free_slots.pop(self.chance.randrange(len(self.free_slots)))
""",
    ),
    unusual(
        "shuffled",
        "the free rows in an order that is another one in each pool",
        """
    def start(self):
        super().start()
        random.shuffle(self.free_slots)
""",
    ),
    unusual(
        "holders_in_a_list",
        "who holds what is asked of a list with one place a row, free rows from a generator",
        """
    def start(self):
        self.of = [self, *[None] * self.size]
    @property
    def free_slots(self):
        return (row for row, who in enumerate(self.of) if who is None)
    def num_free(self):
        return self.of.count(None)
    def take(self):
        row = len(self.of) - 1 - self.of[::-1].index(None)
        self.of[row] = "somebody"
        return row
    def put(self, row):
        self.of[row] = None
""",
    ),
    UnusualPool("ours", "the course's own pool", "from reqpool.pool import ReqToTokenPool as MyPool\n"),
)
