"""Answers to `bytes_of_table`, `state` and `two_texts`."""

from __future__ import annotations

from reqpool.exercises.bank import UnusualAnswer, WrongAnswer

WRONG = (
    WrongAnswer(
        "bytes_of_table",
        "the padding row is forgotten",
        """
def bytes_of_table(size, max_context_len):
    return size * max_context_len * 4
""",
        "pays for 3 of 6 cells",
    ),
    WrongAnswer(
        "bytes_of_table",
        "the four bytes are forgotten",
        """
def bytes_of_table(size, max_context_len):
    return (size + 1) * max_context_len
""",
        "pays for 1 of 6 cells",
    ),
    WrongAnswer(
        "bytes_of_table",
        "eight bytes, as torch's integers have",
        """
def bytes_of_table(size, max_context_len):
    return (size + 1) * max_context_len * 8
""",
        "would pay for 12 cells, and the table has 6",
    ),
    WrongAnswer(
        "bytes_of_table",
        "one is added to the product",
        """
def bytes_of_table(size, max_context_len):
    return (size * max_context_len + 1) * 4
""",
        "wanted",
    ),
    WrongAnswer(
        "bytes_of_table",
        "both get one more",
        """
def bytes_of_table(size, max_context_len):
    return (size + 1) * (max_context_len + 1) * 4
""",
        "wanted",
    ),
    WrongAnswer(
        "bytes_of_table",
        "bits",
        """
def bytes_of_table(size, max_context_len):
    return (size + 1) * max_context_len * 32
""",
        "wanted",
    ),
    WrongAnswer(
        "bytes_of_table",
        "a float",
        """
def bytes_of_table(size, max_context_len):
    return (size + 1) * max_context_len * 32 / 8
""",
        "yours is a float",
    ),
    WrongAnswer(
        "state",
        "lengths include their own position",
        """
def state(slot, position, verified_len, alloced_len):
    if position <= verified_len:
        return "known good"
    if position <= alloced_len:
        return "live"
    return "stale" if slot != 0 else "empty"
""",
        "not below the alloced length 0",
    ),
    WrongAnswer(
        "state",
        "the alloced length is asked first",
        """
def state(slot, position, verified_len, alloced_len):
    if position < alloced_len:
        return "live"
    if position < verified_len:
        return "known good"
    return "stale" if slot != 0 else "empty"
""",
        "below the verified length 1",
    ),
    WrongAnswer(
        "state",
        "the lengths are swapped",
        """
def state(slot, position, verified_len, alloced_len):
    if position < alloced_len:
        return "known good"
    if position < verified_len:
        return "live"
    return "stale" if slot != 0 else "empty"
""",
        "wanted `'live'`",
    ),
    WrongAnswer(
        "state",
        "a zero is taken as empty, wherever it stands",
        """
def state(slot, position, verified_len, alloced_len):
    if slot == 0:
        return "empty"
    if position < verified_len:
        return "known good"
    return "live" if position < alloced_len else "stale"
""",
        "`state(0, 0, 0, 1)` gives `'empty'`, wanted `'live'`",
    ),
    WrongAnswer(
        "state",
        "the lengths are not asked",
        """
def state(slot, position, verified_len, alloced_len):
    return "live" if slot else "empty"
""",
        "wanted",
    ),
    WrongAnswer(
        "state",
        "stale and empty swapped",
        """
def state(slot, position, verified_len, alloced_len):
    if position < verified_len:
        return "known good"
    if position < alloced_len:
        return "live"
    return "empty" if slot != 0 else "stale"
""",
        "there is nothing in the cell",
    ),
    WrongAnswer(
        "state",
        "stale is forgotten",
        """
def state(slot, position, verified_len, alloced_len):
    if position < verified_len:
        return "known good"
    if position < alloced_len:
        return "live"
    return "empty"
""",
        "slot 5 is still there",
    ),
    WrongAnswer(
        "state",
        "slot 1 is taken for nothing",
        """
def state(slot, position, verified_len, alloced_len):
    if position < verified_len:
        return "known good"
    if position < alloced_len:
        return "live"
    return "stale" if slot > 1 else "empty"
""",
        "slot 1 is still there",
    ),
    WrongAnswer(
        "state",
        "the slot is compared with the length",
        """
def state(slot, position, verified_len, alloced_len):
    if slot < verified_len:
        return "known good"
    if slot < alloced_len:
        return "live"
    return "stale" if slot != 0 else "empty"
""",
        "wanted",
    ),
    WrongAnswer(
        "state",
        "known good has to fill all that is alloced",
        """
def state(slot, position, verified_len, alloced_len):
    if position < verified_len == alloced_len:
        return "known good"
    if position < alloced_len:
        return "live"
    return "stale" if slot != 0 else "empty"
""",
        "below the verified length 1",
    ),
    WrongAnswer(
        "state",
        "another spelling",
        """
def state(slot, position, verified_len, alloced_len):
    if position < verified_len:
        return "known_good"
    if position < alloced_len:
        return "live"
    return "stale" if slot != 0 else "empty"
""",
        "`'known_good'`, wanted `'known good'`",
    ),
    WrongAnswer(
        "state",
        "the last case falls through",
        """
def state(slot, position, verified_len, alloced_len):
    if position < verified_len:
        return "known good"
    if position < alloced_len:
        return "live"
    if slot != 0:
        return "stale"
""",
        "is there a `return`?",
    ),
    WrongAnswer(
        "two_texts",
        "the same length",
        """
def two_texts():
    return "mouse", "horse"
""",
        "The broken reader reads `horse` rightly after `mouse`.",
    ),
    WrongAnswer(
        "two_texts",
        "the second is longer",
        """
def two_texts():
    return "dog", "horse"
""",
        "The broken reader reads `horse` rightly after `dog`.",
    ),
    WrongAnswer(
        "two_texts",
        "the lesson's own",
        """
def two_texts():
    return "horse", "dog"
""",
        "find others",
    ),
)

UNUSUAL = (
    UnusualAnswer(
        "bytes_of_table",
        "torch is asked",
        """
import torch

def bytes_of_table(size, max_context_len):
    return torch.zeros(size + 1, max_context_len, dtype=torch.int32).nbytes
""",
    ),
    UnusualAnswer(
        "bytes_of_table",
        "a NumPy integer, with a shift",
        """
import numpy as np

def bytes_of_table(size, max_context_len):
    return np.int64(size + 1) * max_context_len << 2
""",
    ),
    UnusualAnswer(
        "state",
        "by counting how many lengths cover it",
        """
def state(slot, position, verified_len, alloced_len):
    covered = (position < verified_len) + (position < alloced_len)
    return ("stale" if slot else "empty", "live", "known good")[covered]
""",
    ),
    UnusualAnswer(
        "state",
        "ranges, and match",
        """
def state(slot, position, verified_len, alloced_len):
    match position in range(verified_len), position in range(alloced_len), slot:
        case True, _, _:
            return "known good"
        case _, True, _:
            return "live"
        case _, _, 0:
            return "empty"
    return "stale"
""",
    ),
    UnusualAnswer(
        "state",
        "a NumPy text",
        """
import numpy as np

def state(slot, position, verified_len, alloced_len):
    conditions = [position < verified_len, position < alloced_len, slot != 0]
    return np.select(conditions, ["known good", "live", "stale"], "empty")[()]
""",
    ),
    UnusualAnswer(
        "two_texts",
        "a list, one letter shorter",
        """
def two_texts():
    return ["pool", "row"]
""",
    ),
)
