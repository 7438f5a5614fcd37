"""What a world says while its case is recorded: who reads what, and which letters are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Text = tuple[str, str, str]  # rid, what it says, what it should say


def differing(said: str, wanted: str) -> list[int]:
    """
    >>> differing("xzx", "xyxy"), differing("xyz", "xy")
    ([1], [2])
    """
    return [i for i, letter in enumerate(said) if wanted[i : i + 1] != letter]


def tell_texts(emit: Callable[..., None], what: str, texts: Iterable[Text]) -> None:
    """Everybody's text so far, below the table; wrong letters are marked there."""
    lines = [(rid, said, differing(said, wanted)) for rid, said, wanted in texts]
    odd = [rid for rid, _, wrong in lines if wrong]
    emit("note", text=f"{what}{f' ({in_words(odd)}: wrong)' if odd else ''}", texts=lines)


def in_words(things: Iterable[Any]) -> str:
    """
    >>> in_words("d"), in_words("de"), in_words("def")
    ('d', 'd and e', 'd, e and f')
    """
    *front, last = map(str, things)
    return f"{', '.join(front)} and {last}" if front else last
