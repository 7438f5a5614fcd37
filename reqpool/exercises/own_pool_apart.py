"""Two pools of one class share nothing: neither what they are made of, nor what they count, nor who holds what."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from torch import Tensor

from reqpool.exercises import guard
from reqpool.exercises.guard import Raised, Stopped
from reqpool.exercises.own_pool_adapter import look, row_number
from reqpool.exercises.own_pool_books import NAMES, state_of
from reqpool.exercises.own_pool_table import LENGTHS
from reqpool.exercises.own_pool_words import code, counted, was_and_is
from reqpool.exercises.search import Wrong
from reqpool.pool import Req

FIXED = (tuple, frozenset, range)  # may be one object in two pools


class Maker(Protocol):
    """Makes pools of one class.

    Attributes:
        twins: by size and max_context_len a second pool, which nobody touches, and its free rows: what changes there is
            shared.
        law: the one that was broken last.
    """

    twins: dict[tuple[int, int], tuple[Any, tuple[int, ...]]]
    law: int

    def new(self, size: int, max_context_len: int, again: bool = False) -> Any:
        """A pool of the class as it was at first; `again`: as the pool before has left it."""


# ---- what they are made of -------------------------------------------------------------------------------------------


def need_apart(own: Any, before: Any, twin: Any) -> None:
    """Args: `before`: the state of `own`, before `twin` was made."""
    after = state_of(own)
    if before != after:
        name = next(
            n
            for n, was, now in zip(("free_slots", "req_to_token", "the lengths"), before, after, strict=True)
            if was != now
        )
        raise Wrong(
            f"making a second pool changed the first: its {code(name)} went from {was_and_is(before, after)}. "
            "Two pools must share nothing: make it anew in `__init__`."
        )
    for name in ("req_to_token", *LENGTHS, "free_slots"):
        if _is_shared(look(own, name), look(twin, name)):
            raise Wrong(
                f"two pools share one `{name}`. Two pools must share nothing: make it anew in `__init__`, for `self`."
            )


def _is_shared(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.shares_memory(one, other)
    return one is other and not isinstance(one, FIXED)


# ---- what they count, and who holds what ---------------------------------------------------------------------------


def need_apart_in_use(maker: Maker, step: int, size: int, width: int) -> None:
    """What a pool does alone, it does beside another one too: so a count that is the class's is noticed, or a dict."""
    names = [name for first, name in ((2, "alloc"), (4, "free"), (8, "clear")) if step >= first]
    alone = _User(maker.new(size, width), size)
    done = [alone.does(name) for name in names]
    one = _User(maker.new(size, width), size)
    other = _User(maker.new(size, width, again=True), size)
    for name, wanted in zip(names, done, strict=True):
        if not wanted.startswith("leaves"):
            return  # that needs no second pool
        for user, beside in ((one, other), (other, one)):
            held = beside.rows()
            does = user.does(name)
            if does == wanted and beside.rows() != held:
                does = "changes what the other one's requests hold"
            if does != wanted:
                raise Wrong(
                    f"with two pools in use, `{name}` of one {does}; where there is only one, it {wanted}. "
                    "Two pools must share nothing: make everything in `__init__`, for `self`."
                )


class _User:
    """A pool, and as many requests as it has rows."""

    def __init__(self, pool: Any, size: int) -> None:
        self.pool = pool
        self.reqs = [Req(name) for name in NAMES[:size]]

    def rows(self) -> list[int | None]:
        return [row_number(req.req_pool_idx) for req in self.reqs]

    def does(self, name: str) -> str:
        args: dict[str, list[Any]] = {"alloc": [list(self.reqs)], "free": self.reqs[:1], "clear": []}
        try:
            result = guard.call(getattr(self.pool, name), *args[name])
        except Raised as error:
            return f"raises `{error}`"
        except Stopped:
            return "does not come to an end"
        if result is None and name == "alloc":
            return "gives None"
        return f"leaves {counted(len(self.rows()) - self.rows().count(None), 'request')} with a row"
