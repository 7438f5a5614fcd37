"""Answers to `may_land`, `reset_on_reuse` and `past_the_reset`."""

from __future__ import annotations

from reqpool.exercises.bank import UnusualAnswer, WrongAnswer

WRONG = (
    WrongAnswer(
        "may_land",
        "says when it is too late",
        """
def may_land(launched, now):
    return launched != now
""",
        "`False`, wanted `True`",
    ),
    WrongAnswer(
        "may_land",
        "not later than now: always so",
        """
def may_land(launched, now):
    return launched <= now
""",
        "has been handed out again",
    ),
    WrongAnswer(
        "may_land",
        "the wrong way round, and strictly",
        """
def may_land(launched, now):
    return now < launched
""",
        "has not been handed out since",
    ),
    WrongAnswer(
        "may_land",
        "one new owner is let pass",
        """
def may_land(launched, now):
    return now - launched <= 1
""",
        "`True`, wanted `False`",
    ),
    WrongAnswer(
        "may_land",
        "a number that counts as true",
        """
def may_land(launched, now):
    return 1 if launched == now else 0
""",
        "return a bool",
    ),
    WrongAnswer(
        "may_land",
        "no return",
        """
def may_land(launched, now):
    launched == now
""",
        "`None`, wanted `True`",
    ),
    WrongAnswer(
        "may_land",
        "even and odd",
        """
def may_land(launched, now):
    return launched % 2 == now % 2
""",
        "has been handed out 2 times since request a's step was launched",
    ),
    WrongAnswer(
        "may_land",
        "the last two bits",
        """
def may_land(launched, now):
    return launched % 4 == now % 4
""",
        "has been handed out 4 times since request a's step was launched",
    ),
    WrongAnswer(
        "may_land",
        "the last byte",
        """
def may_land(launched, now):
    return launched & 255 == now & 255
""",
        "has been handed out 256 times since request a's step was launched",
    ),
    WrongAnswer(
        "may_land",
        "only the next owner is minded",
        """
def may_land(launched, now):
    return launched == now or now - launched > 1
""",
        "has been handed out 2 times since request a's step was launched",
    ),
    WrongAnswer(
        "may_land",
        "a row that was often handed out is let pass",
        """
def may_land(launched, now):
    return launched == now or now > 3
""",
        "`True`, wanted `False`",
    ),
    WrongAnswer(
        "may_land",
        "the same object: true of small numbers only",
        """
def may_land(launched, now):
    return launched is now
""",
        "wanted `True`",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "free did it already",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    pass
""",
        "is new in row 1: its verified length is 2 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "the kept rows, too",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    verified[rows] = 0
    alloced[rows] = 0
""",
        "goes on in row 1: its verified length is 0 now, wanted 2. Request a recites `zu`",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "the kept rows only",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row in kept:
            verified[row] = alloced[row] = 0
""",
        "goes on in row 1",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "the verified length only",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in set(rows) - set(kept):
        verified[row] = 0
""",
        "alloced length is 2 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "the alloced length only",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in set(rows) - set(kept):
        alloced[row] = 0
""",
        "verified length is 2 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "all rows",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    verified.zero_()
    alloced.zero_()
""",
        "wanted 2",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "all rows but the kept ones of this batch",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in range(len(verified)):
        if row not in kept:
            verified[row] = alloced[row] = 0
""",
        "is not in this batch",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "the first row of the batch only",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    if rows[0] not in kept:
        verified[rows[0]] = alloced[rows[0]] = 0
""",
        "is new in row",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "nothing as soon as one is kept",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    if not kept:
        verified[rows] = 0
        alloced[rows] = 0
""",
        "is new in row",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "as many from the front as are new",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    new = rows[: len(rows) - len(kept)]
    verified[new] = 0
    alloced[new] = 0
""",
        "goes on in row",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "rows counted from zero",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row - 1] = alloced[row - 1] = 0
""",
        "is not in this batch",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "new tensors under the old names",
        """
import torch

def reset_on_reuse(rows, kept, verified, alloced):
    new = [row for row in rows if row not in kept]
    verified = verified.index_fill(0, torch.tensor(new, dtype=torch.int64), 0)
    alloced = alloced.index_fill(0, torch.tensor(new, dtype=torch.int64), 0)
    return verified, alloced
""",
        "verified length is 2 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "verified set to alloced: the late step raised both",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row]
""",
        "verified length is 2 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "the list of rows is changed while it is walked",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row in kept:
            rows.remove(row)
    verified[rows] = 0
    alloced[rows] = 0
""",
        "goes on in row 2",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "one length reset, the other copied from it",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    new = [row for row in rows if row not in kept]
    verified[new] = 0
    alloced.copy_(verified)
""",
        "alloced length is 2 now, wanted 3",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "one length reset, the other copied from it, the other way round",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    new = [row for row in rows if row not in kept]
    alloced[new] = 0
    verified.copy_(alloced)
""",
        "verified length is 3 now, wanted 2",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "what is alloced is taken for verified in the kept rows",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0
        else:
            verified[row] = alloced[row]
""",
        "verified length is 3 now, wanted 2",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "nothing verified is taken for nobody's",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = 0
    alloced[verified == 0] = 0
""",
        "is not in this batch, and holds row 2: its alloced length is 0 now, wanted 1",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "row 0 gets a length",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0
    verified[0] = alloced[0] = 9
""",
        "row 0 is the padding row, and not in this batch: its verified length is 9 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "rows that nobody has are raised",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0
    for row in range(1, len(verified)):
        if row not in rows and not verified[row]:
            alloced[row] = 1
""",
        "is free, and not in this batch: its alloced length is 1 now, wanted 0",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "right, and then copied elsewhere",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0
    verified.data = verified.clone()
    alloced.data = alloced.clone()
""",
        "`verified` lies elsewhere in memory now",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "floats",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0
    verified.data = verified.float()
""",
        "`verified` holds numbers of torch.float32 now, wanted torch.int32",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "a tensor shrinks",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    verified.resize_(1)
""",
        "`verified` has 1 entry now, wanted 2 entries",
    ),
    WrongAnswer(
        "reset_on_reuse",
        "a tensor grows",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for row in rows:
        if row not in kept:
            verified[row] = alloced[row] = 0
    alloced.resize_(40)
""",
        "`alloced` has 40 entries now",
    ),
    WrongAnswer(
        "past_the_reset",
        "between free and alloc, where the reset saves",
        """
def past_the_reset():
    return {"landing": "after the free", "late_len": 8}
""",
        "b's `alloc` zeroed what had landed",
    ),
    WrongAnswer(
        "past_the_reset",
        "before the free",
        """
def past_the_reset():
    return {"landing": "before the free", "late_len": 12}
""",
        "`free` zeroed what had landed",
    ),
    WrongAnswer(
        "past_the_reset",
        "a step later: the owner itself is hurt",
        """
def past_the_reset():
    return {"landing": "after b's step", "late_len": 8}
""",
        "b, which has the row, recites",
    ),
    WrongAnswer(
        "past_the_reset",
        "the right moment, a step of one token",
        """
def past_the_reset():
    return {"landing": "after b's alloc", "late_len": 1}
""",
        "c recites wrongly, too",
    ),
)

UNUSUAL = (
    UnusualAnswer(
        "may_land",
        "not handed out in between",
        """
def may_land(launched, now):
    return not now - launched
""",
    ),
    UnusualAnswer(
        "may_land",
        "NumPy's own bool",
        """
import numpy as np

def may_land(launched, now):
    return np.int64(launched) >= np.int64(now)
""",
    ),
    UnusualAnswer(
        "reset_on_reuse",
        "with a mask, in torch",
        """
import torch

def reset_on_reuse(rows, kept, verified, alloced):
    new = torch.zeros(len(verified), dtype=torch.bool)
    new[rows] = True
    new[kept] = False
    verified[new] = 0
    alloced[new] = 0
""",
    ),
    UnusualAnswer(
        "reset_on_reuse",
        "by multiplication, and it returns something",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    for lengths in (verified, alloced):
        for row in dict.fromkeys(rows):
            lengths[row] *= row in kept
    return rows
""",
    ),
    UnusualAnswer(
        "reset_on_reuse",
        "the list of rows is used up",
        """
def reset_on_reuse(rows, kept, verified, alloced):
    while rows:
        row = rows.pop()
        if kept.count(row) == 0:
            verified[row], alloced[row] = 0, 0
""",
    ),
    UnusualAnswer(
        "past_the_reset",
        "an integer of NumPy's",
        """
import numpy as np

def past_the_reset():
    return dict(late_len=np.int64(8), landing="after b's alloc")
""",
    ),
)
