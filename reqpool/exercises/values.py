"""What a learner's function returned, in plain Python: a NumPy integer is an integer, a deque is a list."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

SEQUENCES = (list, tuple, deque, range)


def plain(value: Any) -> Any:
    """
    >>> plain([np.int64(3), (True, "a")])
    [3, [True, 'a']]
    """
    if isinstance(value, Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist()) if isinstance(value, np.ndarray) else value.item()
    if isinstance(value, SEQUENCES):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    return value


def same(got: Any, wanted: Any) -> bool:
    """Equal and of the same kind: 1 is not True, 4.0 is not 4. Both plain.

    >>> same([1, 2], [1, 2]), same(1, True), same(plain((1, 2)), [1, 2])
    (True, False, True)
    """
    if isinstance(wanted, list):
        return type(got) is list and len(got) == len(wanted) and all(map(same, got, wanted))
    return type(got) is type(wanted) and bool(got == wanted)


def difference(got: Any, wanted: Any) -> str:
    """In words: what came, what was wanted; and where the two look alike, what kind each is."""
    hint = ""
    if got is None:
        hint = " (is there a `return`?)"
    elif isinstance(wanted, bool) and not isinstance(got, bool):
        hint = " (True or False itself, not something that counts as it)"
    elif isinstance(wanted, list) and type(got) is not list:
        hint = f" (a list, and yours is {_kind(got)})"
    elif type(got) is not type(wanted):
        hint = f" ({_kind(wanted)}, and yours is {_kind(got)})"
    return f"`{shortened(got)}`, wanted `{shortened(wanted)}`{hint}"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def shortened(value: Any, most: int = 120) -> str:
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
