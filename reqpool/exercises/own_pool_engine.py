"""The course's engine on the learner's pool: chunks, an abort, late writes, a retraction, and what everybody recites.

    step 1..2   a's prompt of 12 goes in chunks of 4, c's of 3 is in
    then        a is aborted while its second chunk is under way: 4 tokens land in a row that is free by then
    then        b and d come; b gets that row. Slots are scarce: somebody is retracted and comes again

Every decode step runs in a graph of four entries, whose dummies write the cell that they point at in table row 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from reqpool.exercises import guard
from reqpool.exercises.exercise import Case, Verdict, first_up
from reqpool.exercises.guard import NotAttempted, Raised, Stopped
from reqpool.exercises.own_pool_adapter import OwnPool, row_number
from reqpool.exercises.own_pool_table import free_slots_of, need_methods, need_shapes, need_table
from reqpool.exercises.own_pool_words import rows_named, shown
from reqpool.exercises.search import Wrong, as_wrong
from reqpool.scenarios.experiments import wrong_letters
from reqpool.serving import Engine, Request
from reqpool.trace import Event, Trace, record

SIZE, WIDTH, NUM_SLOTS = 2, 20, 22
MOST_STEPS = 80


@dataclass(frozen=True, eq=False)
class Service:
    """
    Attributes:
        stopped: why the engine could not go on; empty where it came to the end.
        num_retracted: how often a request was retracted.
        is_padded: whether row 0 is nobody's.
    """

    trace: Trace
    reqs: tuple[Request, ...]
    stopped: str
    num_steps: int
    num_retracted: int
    is_padded: bool

    @property
    def wrong(self) -> dict[str, list[int]]:
        """The wrong letters of each request that has some: indices into what it recited."""
        found = {req.rid: wrong_letters(req.output, req.expected) for req in self.reqs}
        return {rid: indices for rid, indices in found.items() if indices}

    @property
    def is_right(self) -> bool:
        return not self.stopped and not self.wrong


def serve(answer: Any, right: type) -> Verdict:
    """Let the engine run on a pool of this class. `right`: a class whose run is shown beside one that goes wrong."""
    if not isinstance(answer, type):
        raise TypeError(f"serve wants the class itself, as in serve(MyPool), got {answer!r}")
    try:
        need_methods(answer, ("__init__", "alloc", "free"))
        with guard.limits():
            yours = served(answer)
    except NotAttempted as stub:
        return Verdict("not attempted", stub.said)
    except (Wrong, Raised, Stopped) as error:
        said = first_up(as_wrong(error).sentence)
        return Verdict("wrong", said, Case(said))
    if yours.is_right:
        return Verdict("right", _praise(yours), Case("", yours.num_steps, yours.trace))
    said = first_up(yours.stopped or _damage(yours))
    return Verdict("wrong", said, Case(said, yours.num_steps, *_to_the_fault(yours, served(right).trace)))


def _to_the_fault(yours: Service, right: Trace) -> tuple[Trace, Trace]:
    """Both runs up to the engine step whose letter is the first that is wrong, or in which the engine stopped."""
    trace = yours.trace
    end = next((k for k, event in enumerate(trace, start=1) if _hears_wrong(event)), len(trace))
    last = trace[end - 1].step
    beside = [event for event in right if event.step <= last]
    return Trace(trace.first, trace.events[:end]), Trace(right.first, beside)


def _hears_wrong(event: Event) -> bool:
    return any(indices for *_, indices in dict(event.facts).get("texts", ()))


def served(cls: type) -> Service:
    """Run the story on a pool of this class, recorded.

    Raises:
        NotAttempted, Wrong, Raised, Stopped: no pool came about, or a stub was met.
    """
    own = guard.call(cls, SIZE, WIDTH)
    need_table(own, 1, SIZE, WIDTH)
    is_padded = len(own.req_to_token) > SIZE and 0 not in free_slots_of(own, "")
    pool = ServingPool(own, SIZE, WIDTH, 0 if is_padded else None, plain_rows=True)
    a = Request("a", prompt="abcdefghijkl", max_new_tokens=4)
    c = Request("c", prompt="klm", max_new_tokens=14)
    b, d = Request("b", prompt="xyz", max_new_tokens=9), Request("d", prompt="pqrstu", max_new_tokens=6)
    reqs, stopped = (b, c, d), ""
    with record(pool) as trace:
        runner = {"graph_sizes": (4,), "writes": "cell", "dummy_len": 2}
        engine = Engine(
            pool, NUM_SLOTS, overlap=True, budget=6, chunk_size=4, tolerant=True, runner=runner, on_fact=trace.emit
        )
        try:
            for _ in _story(engine, trace, a, b, c, d):
                _tell(engine, trace, reqs)
        except (NotAttempted, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the learner's, SystemExit too, or the engine's on a wrong pool
            stopped = f"in engine step {engine.num_steps + 1} {_why_stopped(pool, error, (a, b, c, d))}"
            trace.emit("note", text=stopped.replace("`", ""))
    return Service(trace, reqs, stopped, engine.num_steps, engine.scheduler.num_retracted, is_padded)


def _story(engine: Engine, trace: Trace, a: Request, b: Request, c: Request, d: Request) -> Iterator[None]:
    """One step after the other."""
    engine.add(c)
    engine.add(a)
    for _ in range(2):
        yield _step(engine, trace)
    trace.emit("retract", rid="a", rows=[int(a.req_pool_idx or 0)], text="request a is aborted, its chunk is under way")
    engine.scheduler.abort(a)
    yield _step(engine, trace)
    engine.add(b)
    engine.add(d)
    for _ in range(MOST_STEPS):
        if engine.scheduler.idle and not engine.queue:
            return
        yield _step(engine, trace)
    raise Stuck(f"after {MOST_STEPS} steps there are still requests: somebody waits for a row that never comes")


def _step(engine: Engine, trace: Trace) -> None:
    trace.step = engine.num_steps + 1
    if not engine.step():
        raise Stuck(f"nothing can run, {engine.scheduler.stuck()}")


def _tell(engine: Engine, trace: Trace, reqs: tuple[Request, ...]) -> None:
    texts = [(req.rid, req.output, wrong_letters(req.output, req.expected)) for req in reqs if req.output]
    wrong = [rid for rid, _, indices in texts if indices]
    odd = f" ({' and '.join(wrong)}: wrong)" if wrong else ""
    trace.emit("note", text=f"engine step {engine.num_steps} is done{odd}", texts=texts)


class Stuck(Exception):
    """Requests wait, and nothing can run."""


class Unfit(Exception):
    """What the engine cannot go on with, after a call of the learner's that raised nothing."""


class ServingPool(OwnPool):
    """Looks at once for what the engine would stumble over only much later, and far from its cause."""

    def alloc(self, reqs: Iterable[Any]) -> Any:
        reqs = list(reqs)
        new = [req for req in reqs if req.req_pool_idx is None]
        result = super().alloc(reqs)
        if result is None and new and all(req.req_pool_idx is not None for req in new):
            raise Unfit("alloc gave every request a row, and then None for their list: is there a `return`?")
        for req in reqs if result is not None else ():
            if row_number(req.req_pool_idx) is None:
                is_now = shown(req.req_pool_idx)
                raise Unfit(f"alloc left {req.rid}.req_pool_idx at {is_now}, wanted the number of its row.")
        self._need_tensors("alloc")
        return result

    def free(self, req: Any) -> None:
        super().free(req)
        if req.req_pool_idx is not None:
            is_now = shown(req.req_pool_idx)
            raise Unfit(f"free({req.rid}) left {req.rid}.req_pool_idx at {is_now}, wanted None.")
        self._need_tensors("free")

    def _need_tensors(self, doing: str) -> None:
        try:
            need_shapes(self.own, len(self.generation), self.max_context_len, doing)
        except Wrong as wrong:
            raise Unfit(wrong.sentence.replace("`", "")) from wrong


def _why_stopped(pool: OwnPool, error: BaseException, reqs: tuple[Request, ...]) -> str:
    if isinstance(error, Stopped):
        return as_wrong(error).sentence
    where = "the engine stopped"
    raised = pool.raised_as(error)
    if raised is not None:
        return f"{where}: your code raised `{raised}`. {raised.where}".rstrip()
    if "wrongly admitted" in str(error):
        return (
            f"{where}: `alloc` returned None, though whoever has begun needs no new row, and for the others there was "
            "one."
        )
    if isinstance(error, Stuck) and (lost := _lost_rows(pool, reqs)):
        are = "is" if len(lost) == 1 else "are"
        return f"{where}, nothing can run: {rows_named(lost)} {are} held by nobody and not in `free_slots`."
    if isinstance(error, (Unfit, Stuck)):
        return f"{where}: {error}"
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"{where}, as something that your pool gave does not fit: {why}. `check(MyPool, step=8)` says which law it is."
    )


def _lost_rows(pool: OwnPool, reqs: tuple[Request, ...]) -> list[int]:
    held = {req.req_pool_idx for req in reqs}
    first = 0 if pool.padding_row is None else 1
    return [row for row in range(first, len(pool.generation)) if row not in held and row not in pool.free_slots]


def _praise(service: Service) -> str:
    texts = ", ".join(f"{req.rid} recites `{req.output}`" for req in sorted(service.reqs, key=lambda req: req.rid))
    times = "once" if service.num_retracted == 1 else f"{service.num_retracted} times"
    return (
        f"The engine has run {service.num_steps} steps on this pool, aborted a, and retracted somebody {times}: "
        f"{texts}. Every letter is as it should be. The lengths that came late into free rows at the end are right "
        "too: nobody has reused those rows."
    )


def _damage(service: Service) -> str:
    hurt = [req for req in service.reqs if req.rid in service.wrong]
    who = [f"request {req.rid} recites `{req.output}`, wanted `{req.expected}`" for req in hurt]
    ask = "what was in that row before?" if service.is_padded else "who wrote to row 0?"
    return f"{'; '.join(who)}. The first letter that is wrong is shown. Step back from there: {ask}"
