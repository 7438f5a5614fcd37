"""Words for what the laws find: every sentence names the request, the row, what is, and what was wanted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields as fields_of
from typing import Any

from reqpool.exercises.guard import Raised
from reqpool.exercises.search import Wrong
from reqpool.exercises.telling import in_words
from reqpool.exercises.values import kind_of
from reqpool.pool import Req

LAWS = (
    "the table",
    "one row each",
    "all or nothing",
    "give back",
    "the padding row",
    "keep the row",
    "reset on reuse",
    "only what is held",
)
PADDING = 5
FIELDS = frozenset(each.name for each in fields_of(Req))
COUNTED = re.compile(r"takes \d+ positional arguments? but \d+ (was|were) given")
LACKS = re.compile(r"'MyPool' object has no attribute '(\w+)'")


def law_named(law: int) -> str:
    """
    >>> law_named(6)
    'Law 6, keep the row'
    """
    return f"Law {law}, {LAWS[law - 1]}"


class Broken(Wrong):
    """A `Wrong` that is found where another law would be blamed: it says which one is broken."""

    def __init__(self, law: int, sentence: str) -> None:
        super().__init__(sentence)
        self.law = law


def misnamed(req: Req) -> str:
    """Where another attribute was set: what the field is called. `repr` says `pool_idx`, and is the contract's."""
    other = next((name for name in vars(req) if name not in FIELDS), None)
    return f" You set `{other}`; the field is `req_pool_idx`." if other else ""


def asked(error: Raised) -> str:
    """A question about an exception that has a usual cause."""
    if isinstance(error.error, TypeError) and not error.where and COUNTED.search(error.said):
        return " Is `self` missing?"
    if isinstance(error.error, AttributeError) and (lacks := LACKS.search(error.said)):
        return f" Is `self.{lacks[1]}` made in `__init__`?"
    return ""


def both_orders(one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one, other), (other, one)


def fields(req: Req) -> tuple[Any, Any]:
    return req.inflight_middle_chunks, req.kv_committed_len


def moved_field(name: str, before: tuple[Any, Any], req: Req) -> str:
    names = ("inflight_middle_chunks", "kv_committed_len")
    field, was, now = next(each for each in zip(names, before, fields(req), strict=True) if each[1] != each[2])
    return f"`{name}.{field}` from {was} to {shown(now)}"


def is_started(req: Req) -> bool:
    return req.inflight_middle_chunks > 0 or req.kv_committed_len > 0


def why_started(req: Req) -> str:
    return f"inflight_middle_chunks is {req.inflight_middle_chunks}, kv_committed_len is {req.kv_committed_len}"


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def rows_named(rows: Sequence[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'the rows'} {in_words(rows)}"


def free_named(free: set[int]) -> str:
    return f"{counted(len(free), 'row')} {'is' if len(free) == 1 else 'are'} free" if free else "no row is free"


def shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (int, str, list, tuple, type(None))) else kind_of(value)
    return text if len(text) < 60 else f"{text[:59]}…"


def code(name: str) -> str:
    return f"`{name}`" if "_" in name else name


def was_and_is(before: Any, after: Any) -> str:
    was, now = next((was, now) for was, now in zip(before, after, strict=True) if was != now)
    return f"{listed(was)} to {listed(now)}"


def listed(rows: Any) -> Any:
    return list(rows) if isinstance(rows, tuple) else rows
