"""What a new pool has: the table, its lengths, the free rows. Asked of every pool that is made, before it is played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from reqpool.exercises.guard import NotAttempted, Raised
from reqpool.exercises.own_pool_adapter import look, row_number, rows_in
from reqpool.exercises.own_pool_words import PADDING, Broken, counted, rows_named, shown
from reqpool.exercises.search import Wrong
from reqpool.exercises.values import kind_of, shortened

LENGTHS = ("verified_lens", "alloced_lens")


def need_table(own: Any, step: int, size: int, width: int) -> None:
    """Step 1, and from step 5 on the padding row: what a new pool has."""
    made = f"{_call_of(own)}{size}, {width})`"
    for name, wanted in (("size", size), ("max_context_len", width)):
        if row_number(needed(own, name)) != wanted:
            raise Wrong(f"`{name}` of {made} is {shown(look(own, name))}, wanted {wanted}.")
    table = needed(own, "req_to_token")
    _need_int32("req_to_token", table, 2, made)
    _need_num_rows(tuple(table.shape), step, size, width, made)
    need_shapes(own, len(table), width, made)
    for name in ("req_to_token", *LENGTHS):
        if bool(look(own, name).any()):
            raise Wrong(f"`{name}` of {made} begins with {shortened(look(own, name).tolist())}, wanted zeros.")
    _need_own_cells(own, made)
    free = list(free_slots_of(own, made))
    again = list(free_slots_of(own, made))
    if again != free:
        raise Wrong(
            f"`free_slots` of {made} is {kind_of(look(own, 'free_slots'))}: read twice, it gives {shortened(free, 20)} "
            f"and then {shortened(again, 20)}. Wanted a container that stays as it is when it is read."
        )
    _need_free_rows(free, step, size, len(table), made)


def need_methods(cls: type, names: Sequence[str]) -> None:
    """Raises: NotAttempted: one of them was never written, or is gone with an earlier class of this name."""
    absent = [name for name in names if getattr(cls, name, None) in (None, getattr(object, name, None))]
    if not absent:
        return
    said = f"`{cls.__name__}` has no `{absent[0]}` yet."
    if absent[0] == "__init__" and len(names) > 1:
        said = (
            f"`{cls.__name__}` has no `__init__` (any more): was the cell `class {cls.__name__}` run again? "
            "Then run your steps again, from 1."
        )
    raise NotAttempted(absent[0], said)


def _call_of(own: Any) -> str:
    return f"`{type(own).__name__}("


def needed(own: Any, name: str) -> Any:
    try:
        return look(own, name)
    except Raised as error:
        if isinstance(error.error, AttributeError) and not error.where:
            raise Wrong(f"`{type(own).__name__}` has no `{name}`: `__init__` has to make it.") from error
        raise


def _need_num_rows(shape: tuple[int, int], step: int, size: int, width: int, made: str) -> None:
    rows, columns = shape
    if columns != width:
        turned = ": first rows, then positions" if shape in ((width, size), (width, size + 1)) else ""
        raise Wrong(
            f"`req_to_token` of {made} is {rows} x {columns}, "
            f"wanted {counted(size + (step >= 5), 'row')} of {width} positions{turned}."
        )
    if step >= 5 and rows != size + 1:
        raise Broken(
            PADDING,
            f"`req_to_token` of {made} has {counted(rows, 'row')}, wanted {size + 1}: "
            f"{size} for requests, and the padding row.",
        )
    if rows not in (size, size + 1):
        raise Wrong(f"`req_to_token` of {made} has {counted(rows, 'row')}, wanted {size}.")


def _need_int32(name: str, tensor: Any, ndim: int, made: str) -> None:
    if not isinstance(tensor, Tensor):
        raise Wrong(f"`{name}` of {made} is {kind_of(tensor)}, wanted a torch tensor of int32.")
    if tensor.dtype != torch.int32:
        raise Wrong(f"`{name}` of {made} has the dtype {tensor.dtype}, wanted torch.int32.")
    if tensor.ndim != ndim:
        raise Wrong(f"`{name}` of {made} has the shape {tuple(tensor.shape)}, wanted {_axes(ndim)}.")


def _axes(ndim: int) -> str:
    return "rows x positions" if ndim == 2 else "one number a row"


def need_shapes(own: Any, num_rows: int, width: int, doing: str) -> None:
    """The table and the lengths are int32 tensors that fit each other. Cheap: it is asked after every operation."""
    table, *lengths = (needed(own, name) for name in ("req_to_token", *LENGTHS))
    if not (isinstance(table, Tensor) and table.dtype == torch.int32 and table.shape == (num_rows, width)):
        _need_int32("req_to_token", table, 2, f"the pool after {doing}")
        raise Wrong(
            f"`req_to_token` after {doing} is {' x '.join(map(str, table.shape))}, wanted {num_rows} x {width}."
        )
    for name, tensor in zip(LENGTHS, lengths, strict=True):
        if isinstance(tensor, Tensor) and tensor.dtype == torch.int32 and tensor.shape == (num_rows,):
            continue
        _need_int32(name, tensor, 1, doing if doing.startswith(_call_of(own)) else f"the pool after {doing}")
        raise Wrong(
            f"`{name}` has {counted(len(tensor), 'number')} and the table {counted(num_rows, 'row')}: wanted one a row."
        )


def _need_own_cells(own: Any, made: str) -> None:
    """Every cell and every length is one of its own: write numbers, look whether just those have changed."""
    table, lens = look(own, "req_to_token"), {name: look(own, name) for name in LENGTHS}
    numbers = torch.arange(1, table.numel() + 1, dtype=torch.int32, device=table.device).view(table.shape)
    try:
        table.copy_(numbers)
    except RuntimeError as error:
        raise Wrong(
            f"the rows of `req_to_token` of {made} are one and the same in memory: wanted each its own."
        ) from error
    for name, lengths in lens.items():
        if bool(lengths.any()):
            raise Wrong(f"`{name}` lies in the memory of `req_to_token`: who writes a cell writes a length.")
    for name, lengths in lens.items():
        lengths += 1
        others = {other: look(own, other) for other in LENGTHS if other != name}
        if any(bool(each.any()) for each in others.values()):
            raise Wrong("`verified_lens` and `alloced_lens` are one and the same tensor: who writes one writes both.")
        if not bool((look(own, name) == 1).all()):
            raise Wrong(f"what the engine writes into `{name}` is gone at the next look: keep one tensor.")
        lengths.zero_()
    if not torch.equal(look(own, "req_to_token"), numbers):
        raise Wrong("what the engine writes into `req_to_token` is gone at the next look: keep one tensor.")
    table.zero_()


def free_slots_of(own: Any, doing: str) -> tuple[int, ...]:
    free = needed(own, "free_slots")
    try:
        return tuple(rows_in(free))
    except TypeError as error:
        when = f" {'of' if doing.startswith(_call_of(own)) else 'after'} {doing}" if doing else ""
        raise Wrong(f"`free_slots`{when} is {shortened(free, 60)}: {error}. Wanted the free rows.") from error


def _need_free_rows(free: list[int], step: int, size: int, num_rows: int, made: str) -> None:
    if 0 in free and step >= 5:
        raise Broken(
            PADDING, f"table row 0 is in `free_slots` of {made}: the padding row is nobody's, and never handed out."
        )
    for row in free:
        if not 0 <= row < num_rows:
            raise Wrong(f"row {row} is in `free_slots` of {made}, and the table has {rows_named(range(num_rows))}.")
        if free.count(row) > 1:
            raise Wrong(f"row {row} is in `free_slots` of {made} {free.count(row)} times, wanted each row once.")
    if len(free) != size:
        wanted = f": {rows_named(range(1, size + 1))}" if step >= 5 else ""
        raise Wrong(f"`free_slots` of {made} holds {counted(len(free), 'row')}, wanted {size}{wanted}.")
