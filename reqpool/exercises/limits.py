"""What a check may use: instructions, memory, time; and the kernel as it was when the check is over.

    with limits():            one check: memory, all its instructions, the clock; restores what the learner's code set
        with counted():       one call: its instructions

Instructions are counted, not seconds, so the same answer is stopped at the same place on a slow machine too. (Lines
would not do: `while True: pass` passes none.) The clock stops only what executes none, as `time.sleep` does, and is
read between calls. What loops inside one C call, as `sum(itertools.count())` does, cannot be stopped from here: it
takes a restart of the kernel.

Python turns counting off when the limit has been raised once, and a bare `except:` in the learner's loop may swallow
that. So counting begins again as soon as what was raised is thrown away, and where it is not (`finally: while True:`),
at the next tick of processor time: the loop is left level by level, from the inside to the outside.
"""

from __future__ import annotations

import os
import random
import signal
import site
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

try:
    import resource
except ImportError:  # Windows: nothing there bounds the memory of a part of a process
    resource = None

MOST_INSTRUCTIONS = 300_000  # in one call; a right answer takes some hundreds in these small worlds
MOST_IN_ALL = 60_000_000  # in one check; right answers take up to 600,000
MOST_SECONDS = 120.0  # for one check, of the clock
MOST_BYTES = 2**29  # beyond what the process has when the check begins
TICK = 0.01  # seconds of processor time

ENDLESS = "a loop does not end, or takes far too long."
SLOW = "what you wrote takes far too long."
WAITS = "it waits, or takes far too long."

PACKAGE = str(Path(__file__).resolve().parent.parent)


class OverLimit(BaseException):
    """Thrown into the learner's code; no `except Exception` of theirs catches it, and a bare `except:` not for long."""

    counter: Counter | None = None  # where recursion goes too deep even to make one

    def __init__(self, counter: Counter) -> None:
        super().__init__(counter.said)
        self.counter = counter

    def __del__(self) -> None:
        if self.counter is not None and self.counter.is_on:
            self.counter.arm(sys._getframe().f_back)


@dataclass
class Check:
    """What is left to the check under way."""

    deadline: float
    instructions: int


_checks: list[Check] = []  # the outermost first, which is the one that counts


@contextmanager
def limits() -> Iterator[None]:
    """One check: bound its memory, instructions and time, and put the kernel back as it was.

    Put back: the recursion limit, the working directory, warning filters, the random numbers of Python, NumPy and
    torch, torch's default type and device, and whether it computes gradients.
    """
    _checks.append(Check(time.monotonic() + MOST_SECONDS, MOST_IN_ALL))
    try:
        with _kernel_as_before(), _bounded_memory():
            yield
    finally:
        _checks.pop()


def is_overdue() -> bool:
    return bool(_checks) and time.monotonic() > _checks[0].deadline


def counted() -> Counter:
    """One call: `OverLimit` is raised in it after so many instructions, its own or the whole check's."""
    if _checks and _checks[0].instructions < MOST_INSTRUCTIONS:
        said = f"The check was stopped after {MOST_IN_ALL:,} instructions: {SLOW}"
        return Counter(_checks[0].instructions, said)
    return Counter(MOST_INSTRUCTIONS, f"It was stopped after {MOST_INSTRUCTIONS:,} instructions: {ENDLESS}")


# ---- counting --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def is_foreign(filename: str) -> bool:
    """This package's, the standard library's or an installed one's. `<string>` is what `exec` runs: the learner's."""
    others = (PACKAGE, *sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages())
    return filename.startswith((*others, "<frozen"))


class Counter:
    """Counts the instructions of the learner's frames, here and in the threads that they start."""

    def __init__(self, most: int, said: str) -> None:
        self.most, self.left, self.said = most, most, said
        self.is_on, self.is_over = True, False

    def count(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call" and is_foreign(frame.f_code.co_filename):
            return None  # not counted in here; functions that it calls are looked at again
        frame.f_trace_opcodes = True
        self.left -= 1
        if self.left < 0:
            self.stop()
        if self.left % 64 == 0 and is_overdue():
            self.said = f"It was stopped after {MOST_SECONDS:g} seconds: {WAITS}"
            self.left = 0
            self.stop()
        return self.count

    def stop(self) -> None:
        if threading.current_thread() is not self.thread:
            raise SystemExit  # ends a thread without a word
        if not self.is_over:
            self.is_over = True
            self.tick()
        raise OverLimit(self)

    def arm(self, frame: FrameType | None) -> None:
        """Count again, in this frame and those around it."""
        if not self.is_on or threading.current_thread() is not self.thread:
            return
        while frame is not None and frame is not self.outermost:
            if not is_foreign(frame.f_code.co_filename):
                frame.f_trace, frame.f_trace_opcodes = self.count, True
            frame = frame.f_back
        sys.settrace(self.count)

    def tick(self) -> None:
        """From now on, count again at every tick; where there are such ticks: not on Windows, not in a thread."""
        if self.thread is threading.main_thread() and hasattr(signal, "setitimer"):
            self.handler = signal.signal(signal.SIGVTALRM, lambda signum, frame: self.arm(frame))
            signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)

    def __enter__(self) -> Counter:
        self.thread, self.outermost, self.handler = threading.current_thread(), sys._getframe(1), None
        self.before, self.before_in_threads = sys.gettrace(), threading.gettrace()  # a debugger's, perhaps
        threading.settrace(self.count)
        sys.settrace(self.count)
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self.is_on = False
        sys.settrace(self.before)
        threading.settrace(self.before_in_threads)  # type: ignore[arg-type] - None is what it is at first
        if self.handler is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            is_default = self.handler == signal.SIG_DFL  # which would end the process if one tick were still to come
            signal.signal(signal.SIGVTALRM, signal.SIG_IGN if is_default else self.handler)
        if _checks:
            _checks[0].instructions = max(0, _checks[0].instructions - (self.most - self.left))
        if self.is_over and kind is not OverLimit:
            raise OverLimit(self)  # which the learner's code has swallowed


# ---- memory, and the kernel ------------------------------------------------------------------------------------------


@contextmanager
def _bounded_memory() -> Iterator[None]:
    statm, torch = Path("/proc/self/statm"), sys.modules.get("torch")
    if resource is None or not statm.exists():
        yield  # a Mac takes the limit and does not keep it
        return
    if torch is not None and torch.cuda.is_initialized():
        yield  # CUDA takes address space by the gigabyte when it likes, and does not get over being refused
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(statm.read_text().split()[0]) * resource.getpagesize() + MOST_BYTES
    if before != resource.RLIM_INFINITY and before < wanted:
        yield  # somebody has set a lower one
        return
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


@contextmanager
def _kernel_as_before() -> Iterator[None]:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    with ExitStack() as at_the_end:
        at_the_end.enter_context(warnings.catch_warnings())
        at_the_end.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        at_the_end.callback(os.chdir, os.getcwd())
        at_the_end.callback(random.setstate, random.getstate())
        if numpy is not None:
            at_the_end.callback(numpy.random.set_state, numpy.random.get_state())
        if torch is not None:
            at_the_end.callback(torch.set_rng_state, torch.get_rng_state())
            at_the_end.callback(torch.set_grad_enabled, torch.is_grad_enabled())
            at_the_end.callback(torch.set_default_dtype, torch.get_default_dtype())
            at_the_end.callback(_put_device_back, torch, torch.get_default_device())
        yield


def _put_device_back(torch: Any, before: Any) -> None:
    if torch.get_default_device() != before:  # to set it costs time at every call from then on
        torch.set_default_device(None if before.type == "cpu" else before)
