"""The learner's pool in the clothes of ours: what `record` and the engine need, around an object that has less.

    req_to_token, verified_lens, alloced_lens     the learner's own tensors, looked up anew every time
    free_slots                                    the learner's, of whatever container, as a list of rows
    alloc, free, clear                            the learner's, run with the limits of `guard`
    generation, holders                           kept here, from what those three were seen to do
    alloced_lens_cpu                              a copy at every look: the learner has no such thing, so none differs
    append, verify, read, ...                     ours: they write the learner's tensors

Nothing here judges. What the learner's code raises is raised as it is, and `raised` knows the line. A tensor that the
learner has replaced by something else is shown as it last was.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqpool.exercises import guard
from reqpool.exercises.guard import Raised, Stopped
from reqpool.pool import ReqToTokenPool

TENSORS = ("req_to_token", "verified_lens", "alloced_lens")
BUILT_IN = (list, tuple, set, frozenset, dict, range)
MOST_ROWS = 1000  # that are looked at: `itertools.count()` has no end


class OwnPool(ReqToTokenPool):
    """`own`, which has a table and lengths as wanted; the caller has made sure of that.

    Args:
        padding_row: 0, or None as long as the learner's table has none.
        plain_rows: make every `req_pool_idx` a plain integer after `alloc`, for an engine that indexes with it.
    """

    def __init__(
        self, own: Any, size: int, max_context_len: int, padding_row: int | None, plain_rows: bool = False
    ) -> None:
        self.plain_rows = plain_rows
        self.own, self.size, self.max_context_len = own, size, max_context_len
        self.padding_row, self.reuse = padding_row, "fifo"
        self._last: dict[str, Any] = {name: getattr(own, name) for name in TENSORS}
        self._last["free_slots"] = []
        self.device = self.req_to_token.device
        num_rows = len(self.req_to_token)
        self.generation = torch.zeros(num_rows, dtype=torch.int64, device="cpu")
        self._holders: dict[int, Any] = {}
        self.raised: Raised | None = None  # by the last call

    def _call(self, name: str, *args: Any) -> Any:
        self.raised = None
        try:
            return guard.call(getattr(self.own, name), *args)
        except Raised as raised:
            self.raised = raised
            raise raised.error from raised

    def raised_as(self, error: BaseException) -> Raised | None:
        """The learner's exception, where that is what has arrived, or what could not be printed on the way."""
        if self.raised is not None and self.raised.error in (error, error.__context__):
            return self.raised
        return None

    # ---- the learner's state ---------------------------------------------------------------------------------------

    @property
    def req_to_token(self) -> Tensor:  # type: ignore[override]
        return self._tensor("req_to_token")

    @property
    def verified_lens(self) -> Tensor:  # type: ignore[override]
        return self._tensor("verified_lens")

    @property
    def alloced_lens(self) -> Tensor:  # type: ignore[override]
        return self._tensor("alloced_lens")

    @property
    def alloced_lens_cpu(self) -> Tensor:  # type: ignore[override]
        return self.alloced_lens.to("cpu", copy=True)

    def _tensor(self, name: str) -> Tensor:
        last = self._last[name]
        try:
            now = look(self.own, name)
        except (Raised, Stopped):
            return last
        if isinstance(now, Tensor) and now.dtype == last.dtype and now.shape == last.shape:
            self._last[name] = now
        return self._last[name]

    @property
    def free_slots(self) -> list[int]:  # type: ignore[override]
        try:
            rows = rows_in(look(self.own, "free_slots"))
        except (Raised, Stopped, TypeError):
            return list(self._last["free_slots"])
        self._last["free_slots"] = [row for row in rows if 0 <= row < len(self.generation)]
        return list(self._last["free_slots"])

    # ---- the learner's calls -----------------------------------------------------------------------------------------

    def alloc(self, reqs: Iterable[Any]) -> Any:
        reqs = list(reqs)
        held = [req.req_pool_idx for req in reqs]
        result = self._call("alloc", list(reqs))
        for req, before in zip(reqs, held, strict=True):
            row = row_number(req.req_pool_idx)
            if row is None or not 0 <= row < len(self.generation):
                continue
            if self.plain_rows:
                req.req_pool_idx = row
            self._holders[row] = req
            if row != row_number(before):
                self.generation[row] += 1
        return result

    def free(self, req: Any) -> None:
        row = row_number(req.req_pool_idx)
        self._call("free", req)
        if row is not None and self._holders.get(row) is req and req.req_pool_idx is None:
            del self._holders[row]

    def clear(self) -> None:
        self._call("clear")
        self._holders = {row: req for row, req in self._holders.items() if req.req_pool_idx is not None}


# ---- reading what a learner may have chosen ------------------------------------------------------------------------


def look(own: Any, name: str) -> Any:
    """An attribute; where it is a property, the learner's code runs in the limits of `guard`."""
    try:
        return vars(own)[name]
    except (KeyError, TypeError):  # a property, a slot, or an attribute of the class
        return guard.call(getattr, own, name)


def row_number(row: Any) -> int | None:
    """A row as a plain integer: NumPy's and torch's are welcome. None for what is no integer.

    >>> row_number(np.int64(2)), row_number(torch.tensor(2)), row_number(2.0), row_number(None)
    (2, 2, None, None)
    """
    if type(row) is int:
        return row
    if row is None or isinstance(row, bool):
        return None
    try:
        return operator.index(row)
    except (TypeError, ValueError, RuntimeError):
        return None


def rows_in(container: Any) -> list[int]:
    """The free rows, whatever holds them; of a mask, the rows that are True.

    >>> rows_in({3: None, 1: None}), rows_in(np.array([2, 4])), rows_in(torch.tensor([False, True, True]))
    ([3, 1], [2, 4], [1, 2])
    """
    if isinstance(container, Mapping) and container and all(type(each) is bool for each in container.values()):
        container = [row for row, is_free in container.items() if is_free]
    if isinstance(container, (Tensor, np.ndarray)):
        items = container.flatten().tolist()
    elif isinstance(container, str) or not isinstance(container, Iterable):
        raise TypeError("that is not a container of rows")
    else:
        items = list(container) if type(container) in BUILT_IN else guard.call(list, islice(container, MOST_ROWS))
    if items and all(type(each) is bool for each in items):
        return [row for row, is_free in enumerate(items) if is_free]
    rows = [row_number(item) for item in items]
    if None in rows:
        raise TypeError(f"{items[rows.index(None)]!r:.40} is not the number of a row")
    return rows  # type: ignore[return-value]
