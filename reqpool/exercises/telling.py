"""What a world says while its case is recorded: who reads what, and which letters are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
    emit("note", text=f"{what}{f' ({and_then(odd)}: wrong)' if odd else ''}", texts=lines)


def and_then(words: Iterable[str]) -> str:
    """
    >>> and_then("abc"), and_then("a")
    ('a, b and c', 'a')
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
