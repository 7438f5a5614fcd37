"""What a learner's function returned, in plain Python: a NumPy integer is an integer, a deque is a list.

What is read may be the learner's own object, so it is read with the limits of `guard`: a list in itself, a `__repr__`
that raises, an `__iter__` without end. Shown is nothing that changes from one kernel to the next: no address, no
order of a set.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from types import GeneratorType, NoneType
from typing import Any

import numpy as np
from torch import Tensor

from reqpool.exercises.guard import Unreadable, readable, reading

SEQUENCES = (list, tuple, deque, range)
SIMPLE = {int, bool, float, str, NoneType}

MOST_ITEMS = 1000  # a right answer has some dozens at most
MOST_DEPTH = 20
MOST_DIGITS = 40  # that are shown
MOST_BITS = 3000  # of an integer among others: Python refuses to write down very long ones


def plain(value: Any) -> Any:
    """
    Raises:
        Unreadable: more than `MOST_ITEMS` items, or nested too deeply, or the learner's own class fails.

    >>> plain([np.int64(3), (True, "a")])
    [3, [True, 'a']]
    """
    if type(value) in SIMPLE:
        return value
    if type(value) in (list, tuple) and len(value) <= MOST_ITEMS and all(map(_is_simple, value)):
        return list(value)  # nothing of the learner's runs
    return reading(_Reading().plain, value)


def _is_simple(value: Any) -> bool:
    return type(value) in SIMPLE and not (type(value) is int and value.bit_length() > MOST_BITS)


class _Reading:
    """One value, item by item."""

    def __init__(self) -> None:
        self.num_items = 0

    def plain(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise Unreadable(f"there is {_integer(value)} in it")
        if isinstance(value, Tensor):
            self.add(value.numel())
            return value.detach().cpu().tolist()
        if isinstance(value, np.ndarray):
            self.add(value.size)
            return self.plain(value.tolist(), depth)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, SEQUENCES):
            return [self.plain(each, depth + 1) for each in self.items(value, depth)]
        if isinstance(value, Mapping):
            pairs = self.items(value.items(), depth)
            return {
                key.item() if isinstance(key, np.generic) else key: self.plain(each, depth + 1) for key, each in pairs
            }
        return value

    def items(self, value: Iterable[Any], depth: int) -> Iterable[Any]:
        if depth > MOST_DEPTH:
            raise Unreadable("it is nested too deeply, or in itself")
        for each in value:
            self.add(1)
            yield each

    def add(self, num: int) -> None:
        self.num_items += num
        if self.num_items > MOST_ITEMS:
            raise Unreadable(f"it has more than {MOST_ITEMS:,} items")


def same(got: Any, wanted: Any) -> bool:
    """Equal and of the same kind: 1 is not True, 4.0 is not 4. Both plain.

    >>> same([1, 2], [1, 2]), same(1, True), same(plain((1, 2)), [1, 2])
    (True, False, True)
    """
    if isinstance(wanted, list):
        return type(got) is list and len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(wanted, dict):
        return (
            type(got) is dict and len(got) == len(wanted) and all(k in got and same(got[k], wanted[k]) for k in wanted)
        )
    return type(got) is type(wanted) and bool(got == wanted)


def difference(got: Any, wanted: Any) -> str:
    """In words: what came, what was wanted; and where the two look alike, what kind each is."""
    hint = ""
    if got is None:
        hint = " (is there a `return`?)"
    elif isinstance(wanted, bool) and not isinstance(got, bool):
        hint = f" (return a bool, True or False, not {kind_of(got)})"
    elif isinstance(wanted, list) and type(got) is not list:
        hint = f" (a list, and yours is {kind_of(got)})"
    elif type(got) is not type(wanted):
        hint = f" ({kind_of(wanted)}, and yours is {kind_of(got)})"
    return f"`{shortened(got)}`, wanted `{shortened(wanted)}`{hint}"


def kind_of(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1] in tuple('aeiouAEIOU') else 'a'} {name}"


def shortened(value: Any, most: int = 120) -> str:
    """As text; of what cannot be shown, the kind.

    >>> shortened({3, 1, 2}), shortened(iter([])), shortened(-(10**5000))
    ('{1, 2, 3}', 'a list_iterator object', 'an integer of 5,001 digits')
    """
    try:
        return readable(reading(lambda each: _shown(each, most), value), most)
    except Unreadable:
        return f"{kind_of(value)} that cannot be shown"


def _shown(value: Any, most: int, depth: int = 0) -> str:
    kind = type(value)
    if kind is int:
        return _integer(value)
    if kind is str:
        return repr(value[: most + 1])
    if kind in (list, tuple, set, frozenset, dict) and depth > MOST_DEPTH:
        return "…"
    if kind is list or kind is tuple:
        items = [_shown(each, most, depth + 1) for each in islice(value, most)]
        return f"[{', '.join(items)}]" if kind is list else f"({', '.join(items)}{',' * (len(items) == 1)})"
    if kind is dict:
        pairs = islice(value.items(), most)
        return f"{{{', '.join(f'{_shown(k, most, depth + 1)}: {_shown(v, most, depth + 1)}' for k, v in pairs)}}}"
    if (kind is set or kind is frozenset) and value:
        items = f"{{{', '.join(_shown(each, most, depth + 1) for each in _in_order(value))}}}"
        return items if kind is set else f"frozenset({items})"
    if kind is GeneratorType:
        return "a generator"
    return f"{kind_of(value)} object" if kind.__repr__ is object.__repr__ else repr(value)


def _in_order(items: Iterable[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda each: _shown(each, MOST_ITEMS))


def _integer(value: int) -> str:
    num = int(abs(value).bit_length() * math.log10(2))  # or one less than there are
    if num <= MOST_DIGITS:
        return repr(value)
    return f"an integer of {num + (abs(value) >= 10**num):,} digits"
