"""Answers to `slot_of`, `keys_of` and `make_them_share`."""

from __future__ import annotations

from reqpool.exercises.bank import UnusualAnswer, WrongAnswer

WRONG = (
    WrongAnswer(
        "slot_of",
        "row and position swapped",
        """
def slot_of(table, row, position):
    return table[position][row]
""",
        "slot_of(table, 1, 0)",
    ),
    WrongAnswer(
        "slot_of",
        "positions counted from 1",
        """
def slot_of(table, row, position):
    return table[row][position - 1]
""",
        "wanted",
    ),
    WrongAnswer(
        "slot_of",
        "rows counted from 0",
        """
def slot_of(table, row, position):
    return table[row - 1][position]
""",
        "gives `0`",
    ),
    WrongAnswer(
        "slot_of",
        "the whole row",
        """
def slot_of(table, row, position):
    return table[row]
""",
        "yours is a list",
    ),
    WrongAnswer(
        "slot_of",
        "the row is left out",
        """
def slot_of(table, row, position):
    return table[1][position]
""",
        "slot_of(table, 2, 0)",
    ),
    WrongAnswer(
        "slot_of",
        "a list within the list is asked for both at once",
        """
def slot_of(table, row, position):
    return table[row, position]
""",
        "TypeError",
    ),
    WrongAnswer(
        "slot_of",
        "the answer is printed",
        """
def slot_of(table, row, position):
    print(table[row][position])
""",
        "is there a `return`?",
    ),
    WrongAnswer(
        "keys_of",
        "the length is forgotten",
        """
def keys_of(cells, length, keys):
    return [keys[cell] for cell in cells]
""",
        "yours reads on",
    ),
    WrongAnswer(
        "keys_of",
        "one too many",
        """
def keys_of(cells, length, keys):
    return [keys[cell] for cell in cells[: length + 1]]
""",
        "yours reads on",
    ),
    WrongAnswer(
        "keys_of",
        "one too few",
        """
def keys_of(cells, length, keys):
    return [keys[cell] for cell in cells[: length - 1]]
""",
        "wanted",
    ),
    WrongAnswer(
        "keys_of",
        "stops at the first zero instead of at the length",
        """
def keys_of(cells, length, keys):
    read = []
    for cell in cells:
        if cell == 0:
            break
        read.append(keys[cell])
    return read
""",
        "yours reads on",
    ),
    WrongAnswer(
        "keys_of",
        "the first keys, whatever the cells say",
        """
def keys_of(cells, length, keys):
    return keys[:length]
""",
        "wanted",
    ),
    WrongAnswer(
        "keys_of",
        "keys by position",
        """
def keys_of(cells, length, keys):
    return [keys[position] for position in range(length)]
""",
        "wanted",
    ),
    WrongAnswer(
        "keys_of",
        "the slots, not their keys",
        """
def keys_of(cells, length, keys):
    return cells[:length]
""",
        "wanted",
    ),
    WrongAnswer(
        "keys_of",
        "in the order of the slots",
        """
def keys_of(cells, length, keys):
    return [keys[cell] for cell in sorted(cells[:length])]
""",
        "in another order than that of the positions",
    ),
    WrongAnswer(
        "keys_of",
        "a set forgets the order, and what comes twice",
        """
def keys_of(cells, length, keys):
    return [key for slot, key in enumerate(keys) if slot in cells[:length]]
""",
        "in another order than that of the positions",
    ),
    WrongAnswer(
        "keys_of",
        "one text in place of a list",
        """
def keys_of(cells, length, keys):
    return "".join(keys[cell] for cell in cells[:length])
""",
        "yours is a str",
    ),
    WrongAnswer(
        "keys_of",
        "range of the wrong thing",
        """
def keys_of(cells, length, keys):
    return [keys[cells[position]] for position in range(1, length)]
""",
        "the request has 1 token, and yours gives 0",
    ),
    WrongAnswer(
        "keys_of",
        "nothing is returned",
        """
def keys_of(cells, length, keys):
    found = []
    for cell in cells[:length]:
        found.append(keys[cell])
""",
        "is there a `return`?",
    ),
    WrongAnswer(
        "keys_of",
        "returned within the loop",
        """
def keys_of(cells, length, keys):
    found = []
    for cell in cells[:length]:
        found.append(keys[cell])
        return found
    return found
""",
        "the request has 2 tokens, and yours gives 1",
    ),
    WrongAnswer(
        "make_them_share",
        "slots that nobody has",
        """
def make_them_share(pool, b):
    pool.append(b, [6, 7, 8])
""",
        "no slot has two owners yet",
    ),
    WrongAnswer(
        "make_them_share",
        "one owner twice",
        """
def make_them_share(pool, b):
    pool.append(b, [6, 6])
""",
        "one owner twice",
    ),
    WrongAnswer(
        "make_them_share",
        "the dummy slot",
        """
def make_them_share(pool, b):
    pool.append(b, [0, 0])
""",
        "dummy slot",
    ),
    WrongAnswer(
        "make_them_share",
        "a cell beyond the length",
        """
def make_them_share(pool, b):
    pool.write((b.req_pool_idx, 0), 3)
""",
        "beyond its length of 0",
    ),
    WrongAnswer(
        "make_them_share",
        "the lengths do not agree",
        """
def make_them_share(pool, b):
    pool.write((b.req_pool_idx, 0), 3)
    pool.alloced_lens[b.req_pool_idx] += 1
""",
        "`pool.check()` does find something",
    ),
    WrongAnswer(
        "make_them_share",
        "a call for each slot",
        """
def make_them_share(pool, b):
    for slot in (6, 7, 3):
        pool.append(b, [slot])
""",
        "that took 3 calls: append, append and append",
    ),
    WrongAnswer(
        "make_them_share",
        "the tables are written without a call",
        """
def make_them_share(pool, b):
    row = b.req_pool_idx
    pool.req_to_token[row, 0] = 3
    pool.alloced_lens[row] = pool.alloced_lens_cpu[row] = 1
""",
        "changed without a call of the pool",
    ),
    WrongAnswer(
        "make_them_share",
        "a call, and a cell is written over",
        """
def make_them_share(pool, b):
    pool.append(b, [6, 7])
    pool.req_to_token[b.req_pool_idx, 1] = 3
""",
        "changed without a call of the pool",
    ),
    WrongAnswer(
        "make_them_share",
        "more than a row holds",
        """
def make_them_share(pool, b):
    pool.append(b, range(1, 10))
""",
        "does not fit row 2",
    ),
)

UNUSUAL = (
    UnusualAnswer(
        "slot_of",
        "NumPy, and its own integers",
        """
import numpy as np

def slot_of(table, row, position):
    return np.array(table)[row, position]
""",
    ),
    UnusualAnswer(
        "slot_of",
        "a tensor of one number",
        """
import torch

def slot_of(table, row, position):
    return torch.tensor(table)[row, position]
""",
    ),
    UnusualAnswer(
        "slot_of",
        "the flat number of the cell",
        """
def slot_of(table, row, position):
    return [cell for cells in table for cell in cells][row * len(table[0]) + position]
""",
    ),
    UnusualAnswer(
        "slot_of",
        "takes everything away that comes before",
        """
def slot_of(table, row, position):
    del table[:row]
    del table[0][:position]
    return table[0][0]
""",
    ),
    UnusualAnswer(
        "keys_of",
        "a generator's tuple",
        """
def keys_of(cells, length, keys):
    return tuple(keys[cell] for _, cell in zip(range(length), cells))
""",
    ),
    UnusualAnswer(
        "keys_of",
        "recursion",
        """
def keys_of(cells, length, keys):
    if length == 0:
        return []
    return [*keys_of(cells, length - 1, keys), keys[cells[length - 1]]]
""",
    ),
    UnusualAnswer(
        "keys_of",
        "an array of letters",
        """
import numpy as np

def keys_of(cells, length, keys):
    return np.array(keys)[np.array(cells[:length], dtype=int)]
""",
    ),
    UnusualAnswer(
        "keys_of",
        "a deque, from the end",
        """
from collections import deque

def keys_of(cells, length, keys):
    found = deque()
    for position in reversed(range(length)):
        found.appendleft(keys[cells[position]])
    return found
""",
    ),
    UnusualAnswer(
        "make_them_share",
        "all of a's slots, as a tensor",
        """
import torch

def make_them_share(pool, b):
    pool.append(b, torch.arange(1, 6))
""",
    ),
    UnusualAnswer(
        "keys_of",
        "cells that say 0 are left out, wherever they stand: a token is never there",
        """
def keys_of(cells, length, keys):
    return [keys[cell] for cell in cells if cell][:length]
""",
    ),
    UnusualAnswer(
        "make_them_share",
        "looks first",
        """
def make_them_share(pool, b):
    row_of_a = next(row for row in pool.holders if row != b.req_pool_idx)
    pool.append(b, pool.get_req_pool_info(row_of_a).alloced_slots[:1])
""",
    ),
    UnusualAnswer(
        "make_them_share",
        "the row and its lengths, handed over",
        """
def make_them_share(pool, b):
    pool.set_req_pool_info(b.req_pool_idx, pool.get_req_pool_info(1))
""",
    ),
    UnusualAnswer(
        "make_them_share",
        "by the row's number",
        """
def make_them_share(pool, b):
    pool.append(b.req_pool_idx, [5])
""",
    ),
)
