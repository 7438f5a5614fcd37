"""What the learner wrote is run here, and every failure of it ends in a sentence.

    call(function, *args)    the result, or   NotAttempted   the whole function is still the stub
                                              Raised         an exception, with the learner's own line
                                              Stopped        too many instructions, too much memory, too much time;
                                                             or some branch is not written yet
    reading(look, value)     what `look` makes of an object of the learner's, or Unreadable: `__repr__` and `__iter__`
                             are the learner's code too

Everything that was said has no addresses in it and a bounded length: the same answer is told the same.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from types import CodeType, TracebackType
from typing import Any, TypeVar

from reqpool.exercises import limits as bounds
from reqpool.exercises.limits import OverLimit, counted, is_foreign, limits

__all__ = ["NotAttempted", "Raised", "Stopped", "Unreadable", "call", "limits", "need_time", "own_line", "reading"]

MOST_SAID = 400  # letters of a message

Seen = TypeVar("Seen")


class NotAttempted(Exception):
    """No error: the stub is still there. `name` says whose; `said` is the sentence."""

    def __init__(self, name: str, said: str = "") -> None:
        super().__init__(name)
        self.name, self.said = name, said or f"`{name}` is still the stub."


class Raised(Exception):
    """What the learner's code raised: `error`; `where` names the line, and is empty where none is the learner's."""

    def __init__(self, error: BaseException, where: str) -> None:
        said = message_of(error)
        super().__init__(f"{type(error).__name__}: {said}" if said else type(error).__name__)
        self.error, self.where, self.said = error, where, said


class Stopped(Exception):
    """A limit was reached; the message says which, and where."""


class Unreadable(Stopped):
    """What the learner's code returned cannot be turned into plain values within the limits."""

    def __init__(self, why: str) -> None:
        super().__init__(f"What it returns cannot be read: {why}.")


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function of the learner's."""
    name = getattr(function, "__name__", "the function")
    try:
        with counted():
            result = function(*args, **kwargs)
    except OverLimit as limit:
        raise Stopped(f"{limit} {own_line(limit) or f'It was in `{name}`.'}") from None
    except (KeyboardInterrupt, NotAttempted, Raised, Stopped):
        raise
    except BaseException as error:
        raise _what_to_say(error, function) from error
    if result is ...:
        if any(_branches(code) for code in _codes_of(function)):
            raise Stopped(f"Here `{name}` still gives `...`.")
        raise NotAttempted(name)
    return result


def reading(look: Callable[[Any], Seen], value: Any) -> Seen:
    """What `look` makes of an object of the learner's."""
    try:
        with counted():
            return look(value)
    except OverLimit:
        raise Unreadable("that takes far too long") from None
    except (KeyboardInterrupt, Unreadable):
        raise
    except RecursionError:
        raise Unreadable("it is nested too deeply, or in itself") from None
    except BaseException as error:
        raise Unreadable(f"that raises {type(error).__name__}") from error


def message_of(error: BaseException) -> str:
    """What an exception of the learner's says; where that cannot be said, nothing."""
    try:
        return readable(reading(str, error))
    except Unreadable:
        return ""


def readable(text: str, most: int = MOST_SAID) -> str:
    """
    >>> readable("<function f at 0x7f3a10>"), readable("abcdef", 4)
    ('<function f>', 'abc…')
    """
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text[: 4 * most + 100])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def need_time() -> None:
    """Between calls: code that only sleeps is noticed here."""
    if bounds.is_overdue():
        raise Stopped(f"The check was stopped after {bounds.MOST_SECONDS:g} seconds: what you wrote {bounds.WAITS[3:]}")


def _what_to_say(error: BaseException, function: Callable[..., Any]) -> Exception:
    said = message_of(error)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in said):
        most = bounds.MOST_BYTES // 2**20
        return Stopped(f"It asks for more than {most} MiB of memory, for a handful of rows. {own_line(error)}".rstrip())
    if isinstance(error, RuntimeError) and "start new thread" in said:
        return Stopped(f"It starts a thread, and there is no room for one in a check. {own_line(error)}".rstrip())
    if isinstance(error, NotImplementedError) and not said:
        return _not_written(error, function) or Raised(error, own_line(error))
    return Raised(error, own_line(error))


def run_cell(source: str, filename: str, names: dict[str, Any]) -> None:
    """Run a source as if it were a cell, in these names; its lines can be shown under this file name."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), names)


# ---- whose line --------------------------------------------------------------------------------------------------


def own_line(error: BaseException) -> str:
    """The last line that the learner wrote, as a sentence; empty where there is none.

    Inside a comprehension it is the line of the function around it, of an endless recursion the line of the call.
    """
    own = [at for at in _traceback(error) if _is_own(at)]
    while own[1:] and (_is_nameless(own[-1]) or (isinstance(error, RecursionError) and _is_at_def(own[-1]))):
        own.pop()
    if not own:
        return ""
    first, name, text = _place(own[-1])
    return f"In line {first} of `{name}`" + (f": `{text}`" if text else ".")


def _traceback(error: BaseException) -> Iterator[TracebackType]:
    at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def _is_own(at: TracebackType) -> bool:
    filename = at.tb_frame.f_code.co_filename
    return not is_foreign(filename) and filename != "<string>"  # of which nobody has the text


def _is_nameless(at: TracebackType) -> bool:
    return at.tb_frame.f_code.co_name.startswith("<")


def _is_at_def(at: TracebackType) -> bool:
    return at.tb_lineno == at.tb_frame.f_code.co_firstlineno


def _place(at: TracebackType) -> tuple[int, str, str]:
    """The line within its function, the function, the text."""
    code, line = at.tb_frame.f_code, at.tb_lineno
    text = linecache.getline(code.co_filename, line, at.tb_frame.f_globals).strip()
    return line - code.co_firstlineno + 1, code.co_name, readable(text, 120)


# ---- the stub, as a whole or in part -----------------------------------------------------------------------------


def _not_written(error: NotImplementedError, function: Callable[..., Any]) -> Exception | None:
    """For a `raise NotImplementedError` that stands in the learner's text; None for one of a library."""
    *_, last = _traceback(error)
    if not _is_own(last):
        return None
    code = last.tb_frame.f_code
    if code in _codes_of(function) and not _branches(code, last.tb_lasti):
        return NotAttempted(code.co_name)
    first, name, text = _place(last)
    return Stopped(f"In line {first} of `{name}` it still says `{text or 'raise NotImplementedError'}`.")


def _codes_of(function: Callable[..., Any]) -> list[CodeType]:
    """Of the function itself, without decorators; of a class, what makes an object."""
    parts = [function.__init__, function.__new__] if isinstance(function, type) else [function]
    whole = [inspect.unwrap(getattr(part, "__func__", part)) for part in parts]
    return [part.__code__ for part in whole if isinstance(getattr(part, "__code__", None), CodeType)]


def _branches(code: CodeType, before: int | None = None) -> bool:
    """Whether something decides which way to go, before this instruction: whoever meets a stub then has begun."""
    jumps = {*dis.hasjrel, *dis.hasjabs}
    return any(each.opcode in jumps and (before is None or each.offset < before) for each in dis.get_instructions(code))
