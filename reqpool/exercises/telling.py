"""What a world says to whoever records its pool: who reads what, where the dummies point, what came late.

The search plays a world thousands of times with nobody listening, and once or twice recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from reqpool.serving.requests import no_fact


def listener(pool: Any) -> Callable[..., None]:
    """`trace.emit` of the record that is under way on this pool; else a function that does nothing."""
    recorder = getattr(vars(pool).get("read"), "recorder", None)
    return no_fact if recorder is None else recorder.trace.emit


Text = tuple[str, str, str]  # rid, what it says, what it should say


def differing(said: str, wanted: str) -> list[int]:
    """
    >>> differing("xzx", "xyxy"), differing("xyz", "xy")
    ([1], [2])
    """
    return [i for i, letter in enumerate(said) if wanted[i : i + 1] != letter]


def tell_texts(pool: Any, what: str, texts: Iterable[Text]) -> None:
    """Everybody's text so far, below the table; wrong letters are marked there."""
    lines = [(rid, said, differing(said, wanted)) for rid, said, wanted in texts]
    odd = [rid for rid, _, wrong in lines if wrong]
    listener(pool)("note", text=f"{what}{f' ({and_then(odd)}: wrong)' if odd else ''}", texts=lines)


def and_then(words: Iterable[str]) -> str:
    """
    >>> and_then("abc"), and_then("a")
    ('a, b and c', 'a')
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
