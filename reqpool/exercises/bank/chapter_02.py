"""Answers to `must_refuse`, `give_back` and `two_in_one_row`."""

from __future__ import annotations

from reqpool.exercises.bank import UnusualAnswer, WrongAnswer

WRONG = (
    WrongAnswer(
        "must_refuse",
        "the last row is kept back",
        """
def must_refuse(free_rows, n):
    return n >= len(free_rows)
""",
        "`True`, wanted `False`",
    ),
    WrongAnswer(
        "must_refuse",
        "only an empty list refuses",
        """
def must_refuse(free_rows, n):
    return not free_rows
""",
        "wanted",
    ),
    WrongAnswer(
        "must_refuse",
        "says whether it fits",
        """
def must_refuse(free_rows, n):
    return n <= len(free_rows)
""",
        "wanted `False`",
    ),
    WrongAnswer(
        "must_refuse",
        "compares with the number of the last row",
        """
def must_refuse(free_rows, n):
    return n > free_rows[-1]
""",
        "IndexError",
    ),
    WrongAnswer(
        "must_refuse",
        "a number that counts as true",
        """
def must_refuse(free_rows, n):
    return max(0, n - len(free_rows))
""",
        "return a bool",
    ),
    WrongAnswer(
        "must_refuse",
        "counts the padding row in",
        """
def must_refuse(free_rows, n):
    return n > len(free_rows) + 1
""",
        "`False`, wanted `True`",
    ),
    WrongAnswer(
        "must_refuse",
        "compares with the number of the last row, where there is one",
        """
def must_refuse(free_rows, n):
    return n > (free_rows[-1] if free_rows else 0)
""",
        "`must_refuse([3, 1], 2)` gives `True`, wanted `False`",
    ),
    WrongAnswer(
        "must_refuse",
        "for small batches only",
        """
def must_refuse(free_rows, n):
    return n > min(len(free_rows), 10)
""",
        "`True`, wanted `False`",
    ),
    WrongAnswer(
        "give_back",
        "lifo puts the rows in front in their order",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + rows
    return rows + free_rows
""",
        "the right rows in the wrong order",
    ),
    WrongAnswer(
        "give_back",
        "fifo and lifo swapped",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "lifo":
        return free_rows + rows
    return rows[::-1] + free_rows
""",
        "the right rows in the wrong order",
    ),
    WrongAnswer(
        "give_back",
        "lifo puts them at the end, as for a stack that is taken from its end",
        """
def give_back(free_rows, rows, reuse):
    return free_rows + rows
""",
        "With lifo the row freed last has to go out first",
    ),
    WrongAnswer(
        "give_back",
        "extend returns None",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows.extend(rows)
    return rows[::-1] + free_rows
""",
        "is there a `return`?",
    ),
    WrongAnswer(
        "give_back",
        "only the first row is given back",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + [rows[0]]
    return [rows[0]] + free_rows
""",
        "is lost",
    ),
    WrongAnswer(
        "give_back",
        "a list within the list",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + [rows]
    return [rows] + free_rows
""",
        "wanted",
    ),
    WrongAnswer(
        "give_back",
        "the free rows are sorted",
        """
def give_back(free_rows, rows, reuse):
    return sorted(free_rows + rows, reverse=reuse == "lifo")
""",
        "the right rows in the wrong order",
    ),
    WrongAnswer(
        "give_back",
        "a set loses the order",
        """
def give_back(free_rows, rows, reuse):
    return list(set(free_rows) | set(rows))
""",
        "the right rows in the wrong order",
    ),
    WrongAnswer(
        "give_back",
        "the list is changed while it is walked",
        """
def give_back(free_rows, rows, reuse):
    for row in rows:
        if reuse == "fifo":
            free_rows.append(row)
        else:
            free_rows.insert(0, row)
        rows.remove(row)
    return free_rows
""",
        "is lost",
    ),
    WrongAnswer(
        "give_back",
        "reverses the free rows, too",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + rows
    return (free_rows + rows)[::-1]
""",
        "the right rows in the wrong order",
    ),
    WrongAnswer(
        "give_back",
        "five rows at most",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + rows[:5]
    return rows[::-1] + free_rows
""",
        "row 6 is lost",
    ),
    WrongAnswer(
        "give_back",
        "lifo turned round for a few rows only",
        """
def give_back(free_rows, rows, reuse):
    if reuse == "fifo":
        return free_rows + rows
    return (rows[::-1] if len(rows) < 5 else rows) + free_rows
""",
        "With lifo the row freed last has to go out first",
    ),
    WrongAnswer(
        "two_in_one_row",
        "the row is named where the request should be",
        """
def two_in_one_row(pool):
    row = pool.alloc_rows(1)
    pool.free(row)
""",
        "In line 3 of `two_in_one_row`: `pool.free(row)`",
    ),
    WrongAnswer(
        "two_in_one_row",
        "freed once",
        """
def two_in_one_row(pool):
    row = pool.alloc_rows(1)
    pool.free_rows(row)
    pool.alloc([Req("x")])
    pool.alloc([Req("y")])
""",
        "no row is given back a second time",
    ),
    WrongAnswer(
        "two_in_one_row",
        "not enough requests come",
        """
def two_in_one_row(pool):
    row = pool.alloc_rows(1)
    pool.free_rows(row)
    pool.free_rows(row)
    pool.alloc([Req("x")])
""",
        "not handed out to two",
    ),
    WrongAnswer(
        "two_in_one_row",
        "a row is freed that was never out",
        """
def two_in_one_row(pool):
    pool.free_rows([2])
    pool.alloc_rows(3)
""",
        "no second free",
    ),
)

UNUSUAL = (
    UnusualAnswer(
        "must_refuse",
        "asks for the row that would be missing",
        """
def must_refuse(free_rows, n):
    return bool(n) and not free_rows[n - 1 : n]
""",
    ),
    UnusualAnswer(
        "must_refuse",
        "NumPy's own bool",
        """
import numpy as np

def must_refuse(free_rows, n):
    return np.int64(n) > np.int64(len(free_rows))
""",
    ),
    UnusualAnswer(
        "give_back",
        "a deque, changed in place",
        """
from collections import deque

def give_back(free_rows, rows, reuse):
    free = deque(free_rows)
    (free.extend if reuse == "fifo" else free.extendleft)(rows)
    return free
""",
    ),
    UnusualAnswer(
        "give_back",
        "an array of NumPy integers",
        """
import numpy as np

def give_back(free_rows, rows, reuse):
    parts = [free_rows, rows] if reuse == "fifo" else [rows[::-1], free_rows]
    return np.concatenate([np.array(part, dtype=np.int64) for part in parts])
""",
    ),
    UnusualAnswer(
        "give_back",
        "a tuple, by recursion",
        """
def give_back(free_rows, rows, reuse):
    if not rows:
        return tuple(free_rows)
    row, *others = rows
    return give_back([*free_rows, row] if reuse == "fifo" else [row, *free_rows], others, reuse)
""",
    ),
    UnusualAnswer(
        "two_in_one_row",
        "three times by count, the third in one call",
        """
def two_in_one_row(pool):
    first, second = pool.alloc_rows(2)
    pool.free_rows([second, second])
    pool.alloc_rows(1)
    pool.alloc_rows(1)
""",
    ),
    UnusualAnswer(
        "two_in_one_row",
        "three requests in one batch",
        """
def two_in_one_row(pool):
    row = pool.alloc_rows(1)
    pool.free_rows(row)
    pool.free_rows(row)
    pool.alloc([Req(rid) for rid in "xyz"])
""",
    ),
    UnusualAnswer(
        "two_in_one_row",
        "one request, then a batch of two",
        """
def two_in_one_row(pool):
    row = pool.alloc_rows(1)
    pool.free_rows(row)
    pool.free_rows(row)
    pool.alloc([Req("x")])
    pool.alloc([Req("y"), Req("z")])
""",
    ),
    UnusualAnswer(
        "two_in_one_row",
        "taken by a request, given back by it and by count",
        """
def two_in_one_row(pool):
    a = Req("a")
    (row,) = pool.alloc([a])
    pool.free(a)
    pool.free_rows(row)
    pool.alloc([Req(rid) for rid in "xyz"])
""",
    ),
)
