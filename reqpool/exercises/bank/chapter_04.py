"""Answers to `padded`, `fill` and `third_letter_first`."""

from __future__ import annotations

from reqpool.exercises.bank import UnusualAnswer, WrongAnswer

WRONG = (
    WrongAnswer(
        "padded",
        "as many dummies as the graph has entries",
        """
def padded(rows, graph_size):
    return rows + [0] * graph_size
""",
        "2 entries. The graph has 1, always",
    ),
    WrongAnswer(
        "padded",
        "one dummy too few",
        """
def padded(rows, graph_size):
    return rows + [0] * (graph_size - len(rows) - 1)
""",
        "1 entry. The graph has 2, always",
    ),
    WrongAnswer(
        "padded",
        "the dummies first",
        """
def padded(rows, graph_size):
    return [0] * (graph_size - len(rows)) + rows
""",
        "entry 0 is request a's",
    ),
    WrongAnswer(
        "padded",
        "the last row, again and again",
        """
def padded(rows, graph_size):
    return rows + [rows[-1]] * (graph_size - len(rows))
""",
        "which is a's. Request a recites `x·x` through its row, wanted `xyx`",
    ),
    WrongAnswer(
        "padded",
        "the rows from the beginning again",
        """
def padded(rows, graph_size):
    return (rows * graph_size)[:graph_size]
""",
        "It points at row 1",
    ),
    WrongAnswer(
        "padded",
        "minus one for nobody",
        """
def padded(rows, graph_size):
    return rows + [-1] * (graph_size - len(rows))
""",
        "wanted `[1, 0]`",
    ),
    WrongAnswer(
        "padded",
        "one list within the other",
        """
def padded(rows, graph_size):
    return [rows, [0] * (graph_size - len(rows))]
""",
        "`[[1], []]`, wanted `[1]`",
    ),
    WrongAnswer(
        "padded",
        "append returns None",
        """
def padded(rows, graph_size):
    return rows.extend([0] * (graph_size - len(rows)))
""",
        "is there a `return`?",
    ),
    WrongAnswer(
        "padded",
        "knows the small graphs only",
        """
def padded(rows, graph_size):
    return (rows + [0, 0, 0])[:graph_size]
""",
        "The graph has 8, always",
    ),
    WrongAnswer(
        "fill",
        "the tail stays",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
""",
        "still says what the step before left there",
    ),
    WrongAnswer(
        "fill",
        "a new tensor under the old name",
        """
import torch

def fill(buffer, values, dummy):
    padding = torch.full((len(buffer) - len(values),), dummy)
    buffer = torch.cat([values, padding])
""",
        "The graph reads the buffer where it was captured",
    ),
    WrongAnswer(
        "fill",
        "returns the new values",
        """
def fill(buffer, values, dummy):
    return values.tolist() + [dummy] * (len(buffer) - len(values))
""",
        "not what is made anew",
    ),
    WrongAnswer(
        "fill",
        "zero for every dummy",
        """
def fill(buffer, values, dummy):
    buffer.zero_()
    buffer[: len(values)] = values
""",
        "the buffer `positions` says",
    ),
    WrongAnswer(
        "fill",
        "from the end: -0 is the beginning",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[-(len(buffer) - len(values)) :] = dummy
""",
        "the buffer `rows` says `[0]`, wanted `[1]`",
    ),
    WrongAnswer(
        "fill",
        "the dummies first",
        """
def fill(buffer, values, dummy):
    buffer[:] = dummy
    buffer[len(buffer) - len(values) :] = values
""",
        "entry 0 is request a's",
    ),
    WrongAnswer(
        "fill",
        "the last value once more, as padding often is",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[len(values) :] = values[-1]
""",
        "It points at row 1",
    ),
    WrongAnswer(
        "fill",
        "the first dummy entry is left out",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[len(values) + 1 :] = dummy
""",
        "still says what the step before left there",
    ),
    WrongAnswer(
        "fill",
        "one dummy entry only",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    if len(values) < len(buffer):
        buffer[len(values)] = dummy
""",
        "still says what the step before left there",
    ),
    WrongAnswer(
        "fill",
        "as if there were no dummies",
        """
def fill(buffer, values, dummy):
    buffer[:] = values
""",
        "It points at row 1",
    ),
    WrongAnswer(
        "fill",
        "the dummies over the requests",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[:] = dummy
""",
        "wanted `[1]`",
    ),
    WrongAnswer(
        "fill",
        "the buffer grows",
        """
def fill(buffer, values, dummy):
    size = len(buffer)
    buffer.resize_(len(values) + size)
    buffer[: len(values)] = values
    buffer[len(values) :] = dummy
""",
        "the buffer `rows` has 2 entries now, wanted 1 entry, always",
    ),
    WrongAnswer(
        "fill",
        "the tensor gets other memory, by data",
        """
import torch

def fill(buffer, values, dummy):
    buffer.data = torch.cat([values, torch.full((len(buffer) - len(values),), dummy)])
""",
        "the buffer `rows` lies elsewhere in memory now",
    ),
    WrongAnswer(
        "fill",
        "the tensor gets other memory, by set_",
        """
import torch

def fill(buffer, values, dummy):
    buffer.set_(torch.cat([values, torch.full((len(buffer) - len(values),), dummy)]))
""",
        "the buffer `rows` lies elsewhere in memory now",
    ),
    WrongAnswer(
        "fill",
        "right, and then copied elsewhere",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[len(values) :] = dummy
    buffer.data = buffer.clone()
""",
        "the buffer `rows` lies elsewhere in memory now",
    ),
    WrongAnswer(
        "fill",
        "floats",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[len(values) :] = dummy
    buffer.data = buffer.float()
""",
        "holds numbers of torch.float32 now, wanted torch.int64",
    ),
    WrongAnswer(
        "fill",
        "the buffer shrinks",
        """
def fill(buffer, values, dummy):
    buffer.resize_(0)
""",
        "the buffer `rows` has 0 entries now",
    ),
    WrongAnswer(
        "fill",
        "three dummies at most",
        """
def fill(buffer, values, dummy):
    buffer[: len(values)] = values
    buffer[len(values) : len(values) + 3] = dummy
""",
        "still says what the step before left there",
    ),
    WrongAnswer(
        "fill",
        "one past the end",
        """
def fill(buffer, values, dummy):
    for i in range(len(values), len(buffer) + 1):
        buffer[i] = dummy
    buffer[: len(values)] = values
""",
        "IndexError",
    ),
    WrongAnswer(
        "fill",
        "the tail is reset only when the batch is smaller than before, and the mark is lost",
        """
last = 0

def fill(buffer, values, dummy):
    global last
    buffer[: len(values)] = values
    if len(values) < last:
        buffer[len(values) :] = dummy
    last = len(values)
""",
        "still says what the step before left there",
    ),
    WrongAnswer(
        "third_letter_first",
        "a cell hurts the second letter",
        """
def third_letter_first():
    return {"live": 2, "graph_size": 4, "writes": "cell"}
""",
        "a's second, wanted: a third",
    ),
    WrongAnswer(
        "third_letter_first",
        "K and V only, at the dummy slot",
        """
def third_letter_first():
    return {"writes": "slot"}
""",
        "nobody recites wrongly",
    ),
    WrongAnswer(
        "third_letter_first",
        "once, however often it is named",
        """
def third_letter_first():
    return {"live": 2, "graph_size": 4, "writes": "length", "accumulate": False}
""",
        "nobody recites wrongly",
    ),
    WrongAnswer(
        "third_letter_first",
        "a full batch",
        """
def third_letter_first():
    return {"live": 4, "graph_size": 4, "writes": "length", "accumulate": True}
""",
        "A full batch has no dummy entry",
    ),
)

UNUSUAL = (
    UnusualAnswer(
        "padded",
        "a tuple, by comprehension",
        """
def padded(rows, graph_size):
    return tuple(rows[i] if i < len(rows) else 0 for i in range(graph_size))
""",
    ),
    UnusualAnswer(
        "padded",
        "NumPy's own padding",
        """
import numpy as np

def padded(rows, graph_size):
    return np.pad(np.array(rows), (0, graph_size - len(rows)))
""",
    ),
    UnusualAnswer(
        "padded",
        "a deque; the list that came is changed",
        """
from collections import deque

def padded(rows, graph_size):
    while len(rows) < graph_size:
        rows.append(0)
    return deque(rows)
""",
    ),
    UnusualAnswer(
        "fill",
        "all dummies first, then the requests",
        """
def fill(buffer, values, dummy):
    buffer.fill_(dummy)
    buffer[: len(values)] = values
    return buffer
""",
    ),
    UnusualAnswer(
        "fill",
        "a new tensor, copied in",
        """
import torch

def fill(buffer, values, dummy):
    buffer.copy_(torch.nn.functional.pad(values, (0, len(buffer) - len(values)), value=dummy))
""",
    ),
    UnusualAnswer(
        "fill",
        "through NumPy, which shares the memory",
        """
def fill(buffer, values, dummy):
    shared = buffer.numpy()
    shared[:] = [*values.tolist(), *[dummy] * (len(buffer) - len(values))]
""",
    ),
    UnusualAnswer(
        "fill",
        "entry by entry, from the end",
        """
def fill(buffer, values, dummy):
    for i in reversed(range(len(buffer))):
        buffer[i] = values[i] if i < len(values) else dummy
""",
    ),
    UnusualAnswer(
        "third_letter_first",
        "one request in a graph of eight",
        """
def third_letter_first():
    return dict(accumulate=True, writes="length", live=1, graph_size=8)
""",
    ),
)
