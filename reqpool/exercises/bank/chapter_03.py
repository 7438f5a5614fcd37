"""Answers to `keeps_row`, `pieces` and `hurt_by_the_budget`."""

from __future__ import annotations

from reqpool.exercises.bank import UnusualAnswer, WrongAnswer

WRONG = (
    WrongAnswer(
        "keeps_row",
        "only the counter",
        """
def keeps_row(counter, committed):
    return counter > 0
""",
        "`keeps_row(0, 2)` gives `False`, wanted `True`",
    ),
    WrongAnswer(
        "keeps_row",
        "only the committed length",
        """
def keeps_row(counter, committed):
    return committed > 0
""",
        "`keeps_row(1, 0)` gives `False`, wanted `True`",
    ),
    WrongAnswer(
        "keeps_row",
        "both have to be there",
        """
def keeps_row(counter, committed):
    return counter > 0 and committed > 0
""",
        "wanted `True`",
    ),
    WrongAnswer(
        "keeps_row",
        "zero counts, too",
        """
def keeps_row(counter, committed):
    return counter >= 0 or committed > 0
""",
        "`keeps_row(0, 0)` gives `True`, wanted `False`",
    ),
    WrongAnswer(
        "keeps_row",
        "a number that counts as true",
        """
def keeps_row(counter, committed):
    return counter or committed
""",
        "return a bool",
    ),
    WrongAnswer(
        "keeps_row",
        "more than one chunk",
        """
def keeps_row(counter, committed):
    return counter > 1 or committed > 0
""",
        "`keeps_row(1, 0)` gives `False`, wanted `True`",
    ),
    WrongAnswer(
        "pieces",
        "who runs is forgotten",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget)
    return [min(room, prompt_len - start) for start in range(0, prompt_len, room)]
""",
        "the budget is",
    ),
    WrongAnswer(
        "pieces",
        "the chunk size is forgotten",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = budget - num_running
    return [min(room, prompt_len - start) for start in range(0, prompt_len, room)]
""",
        "the chunk size is 1",
    ),
    WrongAnswer(
        "pieces",
        "the larger limit",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = max(chunk_size, budget - num_running)
    return [min(room, prompt_len - start) for start in range(0, prompt_len, room)]
""",
        "step 1 computes",
    ),
    WrongAnswer(
        "pieces",
        "the last piece is as long as the others",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return [room] * -(-prompt_len // room)
""",
        "1 of the prompt is left",
    ),
    WrongAnswer(
        "pieces",
        "what is left over is lost",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return [room] * (prompt_len // room)
""",
        "there is no piece for step",
    ),
    WrongAnswer(
        "pieces",
        "a piece of nothing at the end",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return [room] * (prompt_len // room) + [prompt_len % room]
""",
        "still follows",
    ),
    WrongAnswer(
        "pieces",
        "the rest comes first",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    rest = prompt_len % room
    return ([rest] if rest else []) + [room] * (prompt_len // room)
""",
        "2 would have fitted",
    ),
    WrongAnswer(
        "pieces",
        "the running take their token once",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    found = []
    while prompt_len > 0:
        found.append(min(chunk_size, prompt_len, budget - num_running))
        prompt_len -= found[-1]
        num_running = 0
    return found
""",
        "step 2 computes",
    ),
    WrongAnswer(
        "pieces",
        "one token short of the budget",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = max(1, min(chunk_size, budget - num_running - 1))
    return [min(room, prompt_len - start) for start in range(0, prompt_len, room)]
""",
        "would have fitted",
    ),
    WrongAnswer(
        "pieces",
        "how many there are",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return -(-prompt_len // room)
""",
        "yours is an int",
    ),
    WrongAnswer(
        "pieces",
        "where each begins",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return list(range(0, prompt_len, room))
""",
        "step 1 computes 0 tokens",
    ),
    WrongAnswer(
        "pieces",
        "true division",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - num_running)
    return [min(room, prompt_len - start) / 1 for start in range(0, prompt_len, room)]
""",
        "wanted `[1]`",
    ),
    WrongAnswer(
        "pieces",
        "the long prompt counts as running",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, budget - (num_running + 1)) or 1
    return [min(room, prompt_len - start) for start in range(0, prompt_len, room)]
""",
        "would have fitted",
    ),
    WrongAnswer(
        "pieces",
        "nothing is returned",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    found = []
    while sum(found) < prompt_len:
        found.append(min(chunk_size, budget - num_running, prompt_len - sum(found)))
""",
        "is there a `return`?",
    ),
    WrongAnswer(
        "pieces",
        "the prompt never gets shorter",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    found = []
    while prompt_len > 0:
        found.append(min(chunk_size, budget - num_running, prompt_len))
    return found
""",
        "a loop does not end",
    ),
    WrongAnswer(
        "hurt_by_the_budget",
        "the budget is wide enough",
        """
def hurt_by_the_budget():
    return 12, 4, 8
""",
        "long recites wrongly",
    ),
    WrongAnswer(
        "pieces",
        "the budget is taken from those who run",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    room = min(chunk_size, num_running - budget)
    return [min(room, prompt_len - start) for start in range(0, prompt_len, chunk_size)]
""",
        "no piece has fewer than 0 tokens",
    ),
    WrongAnswer(
        "hurt_by_the_budget",
        "short is hurt, too",
        """
def hurt_by_the_budget():
    return 12, 4, 2
""",
        "Wanted: other does, short does not.",
    ),
    WrongAnswer(
        "hurt_by_the_budget",
        "the chunk size cuts it",
        """
def hurt_by_the_budget():
    return 12, 2, 8
""",
        "it has to be at least 3",
    ),
)

UNUSUAL = (
    UnusualAnswer(
        "keeps_row",
        "any",
        """
def keeps_row(counter, committed):
    return any((counter, committed))
""",
    ),
    UnusualAnswer(
        "keeps_row",
        "NumPy's own bool, over the sum",
        """
import numpy as np

def keeps_row(counter, committed):
    return np.int64(counter + committed) != 0
""",
    ),
    UnusualAnswer(
        "pieces",
        "subtracting, with a deque of NumPy integers",
        """
from collections import deque

import numpy as np

def pieces(prompt_len, chunk_size, budget, num_running):
    left, found = np.int64(prompt_len), deque()
    while left:
        found.append(np.minimum(left, min(chunk_size, budget - num_running)))
        left -= found[-1]
    return found
""",
    ),
    UnusualAnswer(
        "pieces",
        "recursion, as a tuple",
        """
def pieces(prompt_len, chunk_size, budget, num_running):
    if prompt_len == 0:
        return ()
    piece = min(prompt_len, chunk_size, budget - num_running)
    return piece, *pieces(prompt_len - piece, chunk_size, budget, num_running)
""",
    ),
    UnusualAnswer(
        "pieces",
        "torch splits the prompt",
        """
import torch

def pieces(prompt_len, chunk_size, budget, num_running):
    return [len(part) for part in torch.arange(prompt_len).split(min(chunk_size, budget - num_running))]
""",
    ),
    UnusualAnswer(
        "pieces",
        "an array of differences",
        """
import numpy as np

def pieces(prompt_len, chunk_size, budget, num_running):
    return np.diff([*range(0, prompt_len, min(chunk_size, budget - num_running)), prompt_len])
""",
    ),
    UnusualAnswer(
        "hurt_by_the_budget",
        "a list, with an odd chunk size",
        """
def hurt_by_the_budget():
    return [9, 3, 5]
""",
    ),
)
