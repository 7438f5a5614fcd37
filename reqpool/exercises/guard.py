"""What the learner wrote is run here, with limits: an endless loop or a huge allocation ends in a sentence.

    call(function, *args)    the result, or   NotAttempted   the stub is still there
                                              Raised         an exception, with the learner's own line
                                              Stopped        too many instructions, too much memory, too much time

Instructions are counted, not seconds, so the same answer is stopped at the same place on every machine. (Lines would
not do: `while True: pass` passes none.) What loops inside one C call, as `sum(itertools.count())` does, cannot be
stopped from here: it takes a restart of the kernel.
"""

from __future__ import annotations

import linecache
import site
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

try:
    import resource
except ImportError:  # Windows: nothing there bounds the memory of a part of a process
    resource = None

MOST_INSTRUCTIONS = 300_000  # in one call; a right answer takes some hundreds in these small worlds
MOST_SECONDS = 20.0  # for one check: what sleeps executes none
MOST_BYTES = 2**29  # beyond what the process has when the check begins

PACKAGE = str(Path(__file__).resolve().parent.parent)


class NotAttempted(Exception):
    """No error: the stub is still there. `name` says whose."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Raised(Exception):
    """What the learner's code raised: `error`; `where` names the line, and is empty where none is the learner's."""

    def __init__(self, error: BaseException, where: str) -> None:
        super().__init__(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        self.error, self.where = error, where


class Stopped(Exception):
    """A limit was reached; the message says which, and where."""


class _OverLimit(BaseException):
    """Thrown into the learner's code; no `except Exception` of theirs catches it."""


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function of the learner's."""
    name = getattr(function, "__name__", "the function")
    try:
        with _counted():
            result = function(*args, **kwargs)
    except NotImplementedError as stub:
        if isinstance(stub.__traceback__, TracebackType) and str(stub) == "":
            raise NotAttempted(_stub_name(stub.__traceback__, name)) from None
        raise Raised(stub, own_line(stub)) from stub
    except _OverLimit as limit:
        raise Stopped(f"{limit} {own_line(limit) or f'It was in `{name}`.'}".rstrip()) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if _is_about_memory(error):
            said = f"It asks for more than {MOST_BYTES // 2**20} MiB of memory, for a handful of rows."
            raise Stopped(f"{said} {own_line(error)}".rstrip()) from None
        raise Raised(error, own_line(error)) from error
    if result is ...:
        raise NotAttempted(name)
    return result


def _stub_name(at: TracebackType, name: str) -> str:
    frames = list(traceback.walk_tb(at))
    return frames[-1][0].f_code.co_name if frames else name


def _is_about_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error))


# ---- whose line --------------------------------------------------------------------------------------------------


def own_line(error: BaseException) -> str:
    """The last line that the learner wrote, as a sentence; empty where there is none."""
    own = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if is_own(frame.f_code.co_filename)]
    if not own:
        return ""
    frame, line = own[-1]
    text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
    first = line - frame.f_code.co_firstlineno + 1
    return f"In line {first} of `{frame.f_code.co_name}`" + (f": `{text}`" if text else ".")


@lru_cache(maxsize=256)
def is_own(filename: str) -> bool:
    """Neither this package's nor the standard library's nor an installed one's."""
    others = (PACKAGE, *sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages())
    return not filename.startswith((*others, "<frozen")) and filename != "<string>"


# ---- limits ------------------------------------------------------------------------------------------------------

_deadline: list[float] = []  # of the checks under way, the outermost first


@contextmanager
def limits() -> Iterator[None]:
    """Bound the memory and the time of everything inside; the instructions are counted call by call."""
    _deadline.append(time.monotonic() + MOST_SECONDS)
    try:
        with _bounded_memory():
            yield
    finally:
        _deadline.pop()


def need_time() -> None:
    """Between calls: code that only sleeps is noticed here."""
    if _deadline and time.monotonic() > _deadline[0]:
        raise Stopped(f"The check was stopped after {MOST_SECONDS:g} seconds: what you wrote takes too long.")


@contextmanager
def _counted() -> Iterator[None]:
    left = MOST_INSTRUCTIONS

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if not is_own(frame.f_code.co_filename):
            return None  # not counted in here; functions that it calls are looked at again
        frame.f_trace_opcodes = True
        left -= 1
        if left < 0:
            raise _OverLimit(f"It was stopped after {MOST_INSTRUCTIONS:,} instructions: a loop does not end.")
        if left % 1024 == 0 and _deadline and time.monotonic() > _deadline[0]:
            raise _OverLimit(f"It was stopped after {MOST_SECONDS:g} seconds.")
        return count

    before = sys.gettrace()  # a debugger's, perhaps
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    statm = Path("/proc/self/statm")
    if resource is None or not statm.exists():
        yield  # a Mac takes the limit and does not keep it
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(statm.read_text().split()[0]) * resource.getpagesize() + MOST_BYTES
    if resource.RLIM_INFINITY not in (before,) and before < wanted:
        yield  # somebody has set a lower one
        return
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
