"""The request-to-token pool: one row per request, one column per token position, each cell a KV-cache slot.

    req_to_token  int32 (size + 1, max_context_len)                    verified_lens  alloced_lens
                   position  0    1    2    3    4    5
    row 0  padding           0    0    0    0    0    0                 belongs to nobody
    row 1  Req("a")          7    8    9    3    .    .                      3             4
    row 2  free              4   11    5    .    .    .                      0             0   (cells are stale)

An engine needs it because attention reads the K and V of a whole request, and those lie wherever there was room.
Four rules keep it right, and each has been broken in a real engine:

    row 0 is never handed out      the dummy entries of a fixed-size (CUDA graph) batch all point at it
    a batch gets all or nothing    half a batch would hold rows that nobody runs
    a started request keeps        the next chunk of a chunked prefill goes on in the same row
    lengths are reset on reuse     the previous owner's forward step may write late, after its row was freed

Names and shapes follow SGLang's and TokenSpeed's Python pools (see NOTICE.md). Nothing here is thread-safe.
"""

from __future__ import annotations

import operator
from array import array
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

MAX_SLOT = 2**31 - 1  # a cell is an int32


@dataclass(eq=False, repr=False)
class Req:
    """What the pool needs to know of a request; the serving loop's request has more. Compared by identity."""

    rid: str
    req_pool_idx: int | None = None  # the row it holds
    kv_committed_len: int = 0  # tokens whose K and V are in the cache for good; the scheduler's
    inflight_middle_chunks: int = 0  # chunks launched that are not the last one; the scheduler's

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rid={self.rid!r}, pool_idx={self.req_pool_idx})"


def row_of(req: Req) -> int:
    """The row of a request that must have one by now; where "none yet" is an answer, ask `req_pool_idx`.

    Raises:
        ValueError: it holds no row.
    """
    if req.req_pool_idx is None:
        raise ValueError(f"request {req.rid!r} holds no row, wanted one that does")
    return req.req_pool_idx


@dataclass(frozen=True, eq=False)
class ReqToTokenPoolInfo:
    """One row's lengths and slots, taken out of the pool: for hand-over, retraction and resume.

    Args:
        verified_len: tokens whose KV is known good.
        alloced_len: tokens for which slots are reserved, the number of `alloced_slots`.
        alloced_slots: int32 or int64 (alloced_len,), any device; kept as an int32 copy.
    Raises:
        TypeError, ValueError: lengths or slots that could be no row's. Whether they fit a pool, the pool says.
    """

    verified_len: int
    alloced_len: int
    alloced_slots: Tensor  # [alloced_len]

    def __post_init__(self) -> None:
        for name in ("verified_len", "alloced_len"):
            object.__setattr__(self, name, _integer(name, getattr(self, name)))
        slots = _slot_tensor("alloced_slots", self.alloced_slots)
        object.__setattr__(self, "alloced_slots", slots.to(torch.int32, copy=True))


class ReqToTokenPool:
    """`size` rows for requests (1..size) and the padding row 0, with the lengths that say which cells are live.

    Args:
        size: usable rows.
        max_context_len: positions in a row.
        device: where the table and the lengths live; None means CUDA if there is one, else CPU.
        enable_memory_saver: make the device tensors in `torch_memory_saver`'s region `kv_cache`, without CPU backup
            (needs that package and CUDA; not yet run on a GPU).
        reuse: "fifo" hands out the row that has been free longest, which gives a late writer the most time;
            "lifo" the row freed last (as SGLang since August 2026, though it takes its tail as a slice: a fresh
            SGLang pool of 4 starts with [3, 4], ours with [1, 2]).

    Attributes:
        req_to_token: int32 (size + 1, max_context_len).
        verified_lens, alloced_lens: int32 (size + 1,) on the device. A cell is live below `alloced_lens`, known good
            below `verified_lens`, stale when it is not zero beyond.
        alloced_lens_cpu: int32 (size + 1,), the host's own copy of `alloced_lens`: reading it waits for no GPU.
        generation: int64 (size + 1,) on the host: how often each row has been handed out.
        free_slots: the free *rows* in the order in which they will be handed out. (Engines call it so: keep the name.)

    >>> pool = ReqToTokenPool(size=2, max_context_len=8, device="cpu")
    >>> a, b = Req("a"), Req("b")
    >>> pool.alloc([a, b]), pool.alloc([Req("c")])
    ([1, 2], None)
    >>> pool.append(a, torch.tensor([7, 8, 9]))
    >>> pool.free(a)
    >>> pool.req_to_token[1].tolist(), int(pool.alloced_lens[1])  # free leaves the cells: the length says what is live
    ([7, 8, 9, 0, 0, 0, 0, 0], 0)
    """

    padding_row: int | None = 0
    continues_if = "inflight_middle_chunks > 0 or kv_committed_len > 0"  # `_has_more_to_do`, in words

    def __init__(
        self,
        size: int,
        max_context_len: int,
        device: torch.device | str | None = None,
        enable_memory_saver: bool = False,
        reuse: str = "fifo",
    ) -> None:
        self.size = _at_least_one("size", size)
        self.max_context_len = _at_least_one("max_context_len", max_context_len)
        if reuse not in ("fifo", "lifo"):
            raise ValueError(f"reuse must be 'fifo' or 'lifo', got {reuse!r}")
        self.reuse = reuse
        saver = _memory_saver() if enable_memory_saver else None
        self.device = _device(device)
        num_rows = self.size + 1
        with torch.inference_mode(False), _device_memory(saver, self.device):
            self.req_to_token = torch.zeros(num_rows, self.max_context_len, dtype=torch.int32, device=self.device)
            self._lens = torch.zeros(2, num_rows, dtype=torch.int32, device=self.device)
        self.verified_lens, self.alloced_lens = self._lens  # two views of one tensor: one write resets both
        with torch.inference_mode(False):  # tensors that may be written wherever the pool is used later
            pinned = torch.cuda.is_available()
            self.alloced_lens_cpu = torch.zeros(num_rows, dtype=torch.int32, device="cpu", pin_memory=pinned)
            self.generation = torch.zeros(num_rows, dtype=torch.int64, device="cpu")
        self._holders: dict[int, Any] = {}  # row handed out -> its request, or None when handed out by count
        self.free_slots = deque(self._usable_rows())

    def _usable_rows(self) -> range:
        return range(1, self.size + 1)  # row 0 is never in the free list: padded batch entries point there

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, max_context_len={self.max_context_len}, "
            f"free={self.available_size()}, device={self.device})"
        )

    def available_size(self) -> int:
        """How many rows are free now."""
        return len(self.free_slots)

    @property
    def holders(self) -> dict[int, Any]:
        """Row -> the request that holds it, or None for a row handed out by count (a copy)."""
        return dict(self._holders)

    # ---- rows are taken and given back -------------------------------------------------------------------------

    def alloc(self, reqs: Iterable[Any]) -> list[int] | None:
        """Give every request of a batch a row, in batch order; all or nothing.

        A request that already holds a row keeps it, lengths and all, if `inflight_middle_chunks > 0` (between two
        chunks of its prompt) or `kv_committed_len > 0`. Both halves are needed.

        Returns:
            The rows, or None when too few are free; then nothing has changed.
        Raises:
            ValueError: a request twice, one with a row but nothing to continue, one whose row is not its own.
        Cost: O(k) for k requests, whatever the size of the pool.
        """
        reqs = _requests(reqs)
        new = [req for req in reqs if not self._keeps_row(req)]
        rows = self._take(len(new))
        if rows is None:
            return None
        for req, row in zip(new, rows, strict=True):
            self._holders[row] = req
            req.req_pool_idx = row
        return [req.req_pool_idx for req in reqs]

    def alloc_rows(self, n: int) -> list[int] | None:
        """Take n rows by count, or None when fewer are free; the caller keeps track of whose they are."""
        n = _integer("n", n)
        if n < 0:
            raise ValueError(f"alloc_rows wants n >= 0 rows, got {n}")
        return self._take(n)

    def _keeps_row(self, req: Any) -> bool:
        if req.req_pool_idx is None:
            return False
        row = self._own_row(req, "alloc")
        if self._has_more_to_do(req):
            return True
        raise ValueError(
            f"alloc of request {req.rid!r}: it already holds row {row} and has nothing to continue "
            f"(inflight_middle_chunks is {req.inflight_middle_chunks}, kv_committed_len is {req.kv_committed_len}; "
            f"wanted {self.continues_if}, or free it first)"
        )

    def _has_more_to_do(self, req: Any) -> bool:
        return req.inflight_middle_chunks > 0 or req.kv_committed_len > 0

    def _take(self, n: int) -> list[int] | None:
        if n > len(self.free_slots):
            return None
        rows = [self.free_slots.popleft() for _ in range(n)]
        if rows:
            self._holders.update(dict.fromkeys(rows))
            index = _index(rows)
            self.generation.index_add_(0, index, _ones(n))
            self._reset_on_reuse(index)
        return rows

    def _reset_on_reuse(self, index: Tensor) -> None:
        self._zero_lens(index)  # again, although free did: a late write may have landed in between

    def _zero_lens(self, index: Tensor) -> None:
        self._lens.index_fill_(1, index.to(self.device), 0)
        self.alloced_lens_cpu.index_fill_(0, index, 0)

    def free(self, req: Any) -> None:
        """Take back a request's row: lengths go to zero, `req_pool_idx` to None, the cells keep their old slots.

        `kv_committed_len` and `inflight_middle_chunks` are the scheduler's and stay as they are.

        Raises:
            ValueError: the request holds no row, or its row is not its own.
        """
        row = self._own_row(req, "free")
        self._give_back([row])
        req.req_pool_idx = None

    def free_rows(self, rows: int | Iterable[int]) -> None:
        """Take back rows that were handed out by count: one, or several in the order given."""
        rows = _row_list(rows)
        self._refuse_to_free(rows)
        if rows:
            self._give_back(rows)

    def _refuse_to_free(self, rows: list[int]) -> None:
        for row in rows:
            if self._holders.get(row, self) is not None:  # None: handed out by count
                raise ValueError(f"free_rows: row {row} is {self._state(row)}, wanted a row handed out by count")
        if len(set(rows)) < len(rows):
            raise ValueError(f"free_rows: a row is named twice in {rows}, wanted each once")

    def _give_back(self, rows: list[int]) -> None:
        for row in rows:
            self._holders.pop(row, None)
        self._zero_lens(_index(rows))
        if self.reuse == "fifo":
            self.free_slots.extend(rows)
        else:
            self.free_slots.extendleft(rows)

    def clear(self) -> None:
        """Start afresh: table and lengths zero, every row free, every holder released. `generation` goes on.

        Releasing matters: a holder that still named its row would put it on the free list a second time.
        """
        for req in self._holders.values():
            if req is not None:
                req.req_pool_idx = None
        self._holders.clear()
        self.free_slots = deque(self._usable_rows())
        for tensor in (self.req_to_token, self._lens, self.alloced_lens_cpu):
            tensor.zero_()

    # ---- cells and lengths -------------------------------------------------------------------------------------

    def write(self, indices: Any, values: Any) -> None:
        """`req_to_token[indices] = values`, as torch's index assignment takes it; checks nothing, moves no length."""
        self.req_to_token[indices] = values

    def append(self, req_or_row: Any, slots: Tensor | Iterable[int]) -> None:
        """Write slots into the cells [alloced, alloced + n) of a row and raise `alloced_lens` and its mirror by n.

        Args:
            req_or_row: a request that holds a row, or the number of a row that is handed out.
            slots: int32 or int64 (n,), any device, or integers; the range check waits for a GPU tensor.
        Raises:
            ValueError: past `max_context_len`; nothing has changed then.
        """
        row = self._row_of(req_or_row, "append")
        slots = _slot_tensor("slots", slots)
        start = int(self.alloced_lens_cpu[row])
        end = start + len(slots)
        if end > self.max_context_len:
            raise ValueError(
                f"append of {len(slots)} slots does not fit row {row}: "
                f"alloced_len is {start}, max_context_len is {self.max_context_len}"
            )
        self.req_to_token[row, start:end] = slots.to(self.device)
        self.alloced_lens[row].add_(len(slots))
        self.alloced_lens_cpu[row].add_(len(slots))

    def verify(self, rows: Any, n: int | Tensor) -> None:
        """`verified_lens[rows] += n`: what the forward lane does after its step; nobody can check it then.

        A row named twice in `rows` rises once: that is what torch's index assignment does.
        """
        self.verified_lens[rows] += n

    def read(self, req: Any) -> Tensor:
        """The request's whole row, a *view* [max_context_len]: who writes it writes the table."""
        return self.req_to_token[self._own_row(req, "read")]

    def get_req_pool_info(self, req_pool_idx: int) -> ReqToTokenPoolInfo:
        """A copy of one row's lengths and slots; waits for the device to read `verified_lens`."""
        row = self._handed_out(_integer("req_pool_idx", req_pool_idx), "get_req_pool_info")
        alloced = int(self.alloced_lens_cpu[row])
        return ReqToTokenPoolInfo(int(self.verified_lens[row]), alloced, self.req_to_token[row, :alloced])

    def set_req_pool_info(self, req_pool_idx: int, info: ReqToTokenPoolInfo) -> None:
        """Restore one row's lengths and slots; the cells beyond stay. After `get_req_pool_info` it changes nothing."""
        row = self._handed_out(_integer("req_pool_idx", req_pool_idx), "set_req_pool_info")
        if not isinstance(info, ReqToTokenPoolInfo):
            raise TypeError(f"set_req_pool_info of row {row} wants a ReqToTokenPoolInfo, got {info!r}")
        verified, alloced, num_slots = info.verified_len, info.alloced_len, len(info.alloced_slots)
        problem = None
        if not 0 <= verified <= alloced:
            problem = f"verified_len is {verified}, wanted 0 <= verified_len <= alloced_len = {alloced}"
        elif num_slots != alloced:
            problem = f"alloced_slots holds {num_slots} slots, wanted alloced_len = {alloced}"
        elif alloced > self.max_context_len:
            problem = f"alloced_len is {alloced}, max_context_len is {self.max_context_len}"
        if problem:
            raise ValueError(f"set_req_pool_info of row {row} does not fit: {problem}")
        self.req_to_token[row, :alloced] = info.alloced_slots.to(self.device)
        self.verified_lens[row] = verified
        self.alloced_lens[row] = alloced
        self.alloced_lens_cpu[row] = alloced

    # ---- who may do what ---------------------------------------------------------------------------------------

    def _row_of(self, req_or_row: Any, call: str) -> int:
        if hasattr(req_or_row, "req_pool_idx"):
            return self._own_row(req_or_row, call)
        return self._handed_out(_integer("row", req_or_row), call)

    def _own_row(self, req: Any, call: str) -> int:
        _need_request(req, call)
        row = req.req_pool_idx
        if row is None:
            raise ValueError(f"{call} of request {req.rid!r}: it holds no row, wanted one that alloc gave it")
        number = row if type(row) is int else _plain_row(row)
        if self._holders.get(number) is not req:
            raise ValueError(
                f"{call} of request {req.rid!r}: row {row} is not its own here "
                f"({self._state(number)}), wanted the row that this pool gave it"
            )
        return number

    def _handed_out(self, row: int, call: str) -> int:
        if row not in self._holders:
            raise ValueError(f"{call}: row {row} is {self._state(row)}, wanted a row that is handed out")
        return row

    def _state(self, row: int) -> str:
        if row in self._holders:
            holder = self._holders[row]
            return "handed out by count" if holder is None else f"held by {holder!r}"
        if row == self.padding_row:
            return "the padding row"
        return "free" if row in self._usable_rows() else f"not one of the rows 1..{self.size}"

    def check(self) -> None:
        """The conservation law: every row of 1..size is free or handed out, exactly once; lengths of those agree.

        Raises:
            RuntimeError: with the numbers of both sides. Lengths of free rows and of row 0 may be anything: a late
                write or a dummy entry may sit there.
        Cost: O(size), and it waits for the device: for tests and lessons, not for a serving loop.
        """
        free, held = list(self.free_slots), sorted(self._holders)
        found, wanted = Counter(free + held), Counter(range(1, self.size + 1))
        if found != wanted:
            odd = sorted((found - wanted) + (wanted - found))
            times = (f"row {row} is {free.count(row)}x free and {held.count(row)}x handed out" for row in odd[:4])
            raise RuntimeError(
                f"rows do not add up: {len(free)} free + {len(held)} handed out, "
                f"wanted each of the rows 1..{self.size} once and row 0 never; {', '.join(times)}"
            )
        if not held:
            return
        index = _index(held)
        verified, alloced = self._lens[:, index.to(self.device)].tolist()
        mirrors = self.alloced_lens_cpu[index].tolist()
        for row, good, reserved, mirror in zip(held, verified, alloced, mirrors, strict=True):
            if reserved != mirror:
                raise RuntimeError(f"row {row}: alloced_lens is {reserved}, its mirror alloced_lens_cpu is {mirror}")
            if not 0 <= good <= reserved <= self.max_context_len:
                raise RuntimeError(
                    f"row {row}: wanted 0 <= verified_len <= alloced_len <= max_context_len, "
                    f"got {good}, {reserved}, {self.max_context_len}"
                )


# ---- what a user can hand over wrong -----------------------------------------------------------------------------


def _integer(name: str, value: Any) -> int:
    if type(value) is int:
        return value
    if not isinstance(value, bool) and getattr(value, "dtype", None) != torch.bool:
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer, got {value!r}")


def _at_least_one(name: str, value: Any) -> int:
    value = _integer(name, value)
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


def _plain_row(row: Any) -> int:
    """NumPy's and torch's integers are welcome as row numbers; what is no integer is no row."""
    try:
        return _integer("row", row)
    except TypeError:
        return -1


def _row_list(rows: Any) -> list[int]:
    several = isinstance(rows, (list, tuple)) or (isinstance(rows, Iterable) and getattr(rows, "ndim", 1) > 0)
    return [_integer("row", row) for row in rows] if several else [_integer("row", rows)]


def _need_request(req: Any, call: str) -> None:
    try:
        _ = req.rid, req.req_pool_idx, req.kv_committed_len, req.inflight_middle_chunks
    except AttributeError as error:
        raise TypeError(
            f"{call} wants a request such as Req('a'), and got {req!r}, which has no {error.name}"
        ) from error


def _requests(reqs: Any) -> list[Any]:
    if not hasattr(type(reqs), "__iter__"):
        raise TypeError(f"alloc wants a list of requests, got {reqs!r}")
    reqs = list(reqs)
    for req in reqs:
        _need_request(req, "alloc")
    if len(set(map(id, reqs))) < len(reqs):
        twice = next(req for i, req in enumerate(reqs) if any(req is other for other in reqs[:i]))
        raise ValueError(f"alloc: request {twice.rid!r} (row {twice.req_pool_idx}) is in the batch twice, wanted once")
    return reqs


def _slot_tensor(name: str, slots: Any) -> Tensor:
    if not isinstance(slots, Tensor):
        if not isinstance(slots, Iterable):
            raise TypeError(f"{name} must be a tensor or a list of integers, got {slots!r}")
        numbers = [_integer(f"each of {name}", slot) for slot in slots]
        if numbers and not 0 <= min(numbers) <= max(numbers) <= MAX_SLOT:
            raise ValueError(f"{name} must lie within 0..{MAX_SLOT}, got {min(numbers)}..{max(numbers)}")
        return torch.tensor(numbers, dtype=torch.int64, device="cpu")
    if slots.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must be int32 or int64, got {slots.dtype}")
    if slots.dim() != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {tuple(slots.shape)}")
    if len(slots):
        low, high = map(int, slots.aminmax())
        if low < 0 or high > MAX_SLOT:
            raise ValueError(f"{name} must lie within 0..{MAX_SLOT}, got {low}..{high}")
    return slots


def _index(rows: list[int]) -> Tensor:
    return torch.frombuffer(array("q", rows), dtype=torch.int64)  # a third of torch.tensor's cost at one row


@lru_cache(maxsize=64)
def _ones(n: int) -> Tensor:
    return torch.ones(n, dtype=torch.int64, device="cpu")  # read, never written: a batch size comes again and again


def _device(device: torch.device | str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be a torch device such as 'cpu' or 'cuda', got {device!r}") from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise RuntimeError(
            f"device is {str(device)!r}, but torch finds no such device here; device=None takes what there is"
        ) from error
    return device


def _memory_saver() -> Any:
    try:
        from torch_memory_saver import torch_memory_saver  # pyright: ignore[reportMissingImports] - nothing requires it
    except ImportError as error:
        raise RuntimeError("enable_memory_saver=True needs the package torch_memory_saver, not found here") from error
    return torch_memory_saver


def _device_memory(saver: Any, device: torch.device) -> AbstractContextManager[Any]:
    if saver is None:
        return nullcontext()
    if device.type != "cuda":
        raise RuntimeError(f"enable_memory_saver=True needs a CUDA device, got {str(device)!r}")
    return saver.region(tag="kv_cache", enable_cpu_backup=False)
