"""`make bench`: one table of times, sizes and ratios. What is compared runs in turns, in this one run.

Nothing here is a test: the machine decides the times, so look at the ratios.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import find_browser
import nbformat
import torch
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright

from reqpool import Req, ReqToTokenPool, Trace, record
from reqpool.exercises.bank import UnusualAnswer, WrongAnswer, own_pool, written
from reqpool.exercises.catalogue import CHAPTERS, exercises, find
from reqpool.exercises.exercise import Exercise, Verdict, examine
from reqpool.exercises.own_pool import STEPS, right_class
from reqpool.kv import flatten_rows
from reqpool.player.tape import encode

ROOT = Path(__file__).resolve().parent.parent
SIZES, BATCHES = (64, 4_096, 65_536, 1_000_000), (1, 8, 64)


class Line(NamedTuple):
    what: str
    measured: str
    target: str
    met: bool | None  # None: shown, no target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-browser", action="store_true")
    skip_browser = parser.parse_args().skip_browser
    torch.set_num_threads(1)
    print(f"{date.today()}, {machine()}. This takes some minutes; a line appears when it is measured.")
    parts = [by_request, by_count, flatten, import_time, azure, trace_size, recording, examiner, chapters]
    parts += [] if skip_browser else [labs, browser]
    widths = (66, 44, 30)
    print("  ".join(head.ljust(width) for head, width in zip(("what", "measured", "target"), widths, strict=True)))
    missed = 0
    for part in parts:
        for line in part():
            verdict = {True: "met", False: "MISSED", None: ""}[line.met]
            missed += line.met is False
            cells = (cell.ljust(width) for cell, width in zip(line[:3], widths, strict=True))
            print("  ".join((*cells, verdict)).rstrip(), flush=True)
    print(f"{missed} targets missed. Times are this machine's, in this minute: on a busy one they say little.")


def machine() -> str:
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cpu}, {cores} cores, {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def in_turns(*calls: Callable[[], Any], rounds: int = 15, seconds: float = 0.02) -> list[float]:
    """Microseconds a call, for each: run in turns, and the fastest round counts, which other work disturbs least."""
    counts = []
    for call in calls:
        call()
        began, n = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            call()
            n += 1
        counts.append(n)
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, n, spent in zip(calls, counts, times, strict=True):
            began = time.perf_counter()
            for _ in range(n):
                call()
            spent.append((time.perf_counter() - began) / n * 1e6)
    return [min(spent) for spent in times]


# ---- the pool ------------------------------------------------------------------------------------------------------


class HeadSlice(ReqToTokenPool):
    """The same pool, but its free list is a Python list whose head is cut off (SGLang until August 2026)."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 1, device="cpu")
        self.free_slots: Any = list(self._usable_rows())  # a deque only while the pool itself takes from it

    def _take(self, n: int) -> list[int] | None:
        self.free_slots, rest = deque(self.free_slots[:n]), self.free_slots[n:]
        rows = super()._take(n)
        self.free_slots = rest
        return rows


class ThreeWrites:
    """By count, with three indexed writes for each alloc and for each freed row (TokenSpeed's Python pool)."""

    def __init__(self, size: int) -> None:
        self.free_slots = list(range(1, size + 1))
        self.lens = [torch.zeros(size + 1, dtype=torch.int32) for _ in range(3)]

    def alloc_rows(self, n: int) -> list[int]:
        rows, self.free_slots = self.free_slots[:n], self.free_slots[n:]
        for lens in self.lens:
            lens[rows] = 0
        return rows

    def free_rows(self, rows: list[int]) -> None:
        for row in rows:
            for lens in self.lens:
                lens[row] = 0
        self.free_slots += rows


def by_request() -> Iterator[Line]:
    pools = {size: ReqToTokenPool(size, 1, device="cpu") for size in SIZES}
    head_slice = HeadSlice(65_536)
    for batch in BATCHES:
        reqs = [Req(str(i)) for i in range(batch)]

        def turn(pool: Any, reqs: list[Req] = reqs) -> None:
            pool.alloc(reqs)
            for req in reqs:
                pool.free(req)

        calls = [lambda pool=pool: turn(pool) for pool in (*pools.values(), head_slice)]
        *times, sliced = in_turns(*calls)
        listed = " / ".join(f"{us / batch:.1f}" for us in times)
        yield Line(f"alloc + free, us a request, batch {batch}, {sizes()} rows", listed, "", None)
        ratio = max(times) / min(times)
        yield Line(f"  slowest pool over fastest, batch {batch}", f"{ratio:.2f}x", "at most 1.5x", ratio <= 1.5)
        ratio = sliced / times[2]
        target = ("at least 10x", ratio >= 10) if batch == 1 else ("", None)
        yield Line(f"  faster than the head-slice list, 65,536 rows, batch {batch}", f"{ratio:.1f}x", *target)


def by_count() -> Iterator[Line]:
    for size in SIZES:
        pool, other = ReqToTokenPool(size, 1, device="cpu"), ThreeWrites(size)
        for n in BATCHES:
            ours, theirs = in_turns(
                lambda pool=pool, n=n: pool.free_rows(pool.alloc_rows(n) or []),
                lambda pool=other, n=n: pool.free_rows(pool.alloc_rows(n)),
            )
            wanted = 4 if n >= 8 or size >= 65_536 else 1.5
            yield Line(
                f"by count with resets, {size:,} rows, batch {n}: faster than three writes",
                f"{theirs / ours:.1f}x  ({ours:.1f} against {theirs:.1f} us)",
                f"at least {wanted}x",
                theirs / ours >= wanted,
            )


def sizes() -> str:
    return " / ".join(f"{size:,}" for size in SIZES)


def flatten() -> Iterator[Line]:
    """`flatten_rows` of whole rows; the loop over positions is timed on a few rows of the batch, and reckoned up."""
    for batch, length in ((8, 16), (32, 512), (256, 1_000), (256, 4_000)):
        pool = ReqToTokenPool(batch, length, device="cpu")
        pool.req_to_token[1:] = torch.arange(1, batch * length + 1).view(batch, length)
        rows, lens = torch.randperm(batch) + 1, torch.full((batch,), length, dtype=torch.int32)
        table, pairs = pool.req_to_token, list(zip(rows.tolist(), lens.tolist(), strict=True))
        some = pairs[: max(1, 1_000 // length)]
        source, kept = table[1:].flatten(), torch.empty(batch * length, dtype=torch.int32)

        def positions(table: Any = table, some: Any = some, kept: Any = kept) -> None:
            for i, (row, length) in enumerate(some):
                for position in range(length):
                    kept[i * length + position] = table[row, position]

        ours, cat, plain, loop = in_turns(
            lambda pool=pool, rows=rows, lens=lens: flatten_rows(pool, rows, lens),
            lambda table=table, pairs=pairs: torch.cat([table[row, :length] for row, length in pairs]),
            lambda source=source: source.clone(),
            positions,
        )
        loop *= batch / len(some)
        what, faster = f"flatten_rows, {batch} x {length:,}", cat / ours
        yield Line(what, f"{ours:.0f} us, a plain copy {plain:.0f} us", "", None)
        target = ("at least 2x", faster >= 2) if batch == 256 else ("", None)
        yield Line("  faster than torch.cat of the row slices", f"{faster:.1f}x", *target)
        yield Line("  faster than a loop over positions", f"{loop / ours:,.0f}x", "at least 5x", loop / ours >= 5)


def import_time() -> Iterator[Line]:
    code = "import time, torch; t = time.perf_counter(); import reqpool; print((time.perf_counter() - t) * 1e3)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT, text=True).stdout)
        for _ in range(5)
    ]
    ms = statistics.median(times)
    yield Line("import reqpool, after import torch", f"{ms:.0f} ms", "under 50 ms", ms < 50)


# ---- a real stream -------------------------------------------------------------------------------------------------

PEAK = '''
def peak_mb():
    """The most memory this process had. Linux's ru_maxrss would still hold what its parent had when it was forked."""
    import pathlib, resource, sys
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.open() if line.startswith("VmHWM")) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)

'''
COUNTS_ONLY = """
import sys, time, torch
from reqpool import ReqToTokenPool
from reqpool.serving.counts import run
from reqpool.workloads import stream
torch.set_num_threads(1)
whole = stream()
part = whole.first(len(whole) // int(sys.argv[1]))
pool = ReqToTokenPool(256, 16_384, device="cpu")
wall, cpu = time.perf_counter(), time.process_time()
found = run(part, pool, num_slots=100_000, budget=512)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(wall, cpu, peak_mb(), found.num_decoded, found.num_steps)
print(found.median(found.rows), found.mean(found.rows), found.mean(found.slots), float(found.residence_s.mean()))
print(found.label)
"""


def azure() -> Iterator[Line]:
    """The counts-only run of the Azure conversation trace, or of the synthetic stream where there is no trace."""
    each = {}
    for parts, name in ((4, "a quarter"), (2, "a half"), (1, "the whole")):
        command = [sys.executable, "-c", PEAK + COUNTS_ONLY, str(parts)]
        done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, text=True)
        times, state, label = done.stdout.splitlines()
        wall, cpu, megabytes, decoded, steps = map(float, times.split())
        each[parts] = cpu / decoded * 1e6
        yield Line(
            f"counts-only run, {name}: {decoded:,.0f} tokens in {steps:,.0f} steps",
            f"{wall:.1f} s, {megabytes:.0f} MB, {each[parts]:.2f} us CPU a token",
            "at most 60 s and 1,000 MB" if parts == 1 else "",
            wall <= 60 and megabytes <= 1000 if parts == 1 else None,
        )
    growth = each[1] / each[4]  # the trace's first quarter is its busiest: more tokens share the cost of a step
    yield Line("  us a decoded token, whole over quarter", f"{growth:.2f}x", "at most 1.25x", growth <= 1.25)
    median, rows, slots, residence = map(float, state.split())
    yield Line(f"  ({label})", "", "", None)
    yield Line("  rows held, median and mean", f"{median:.0f} and {rows:.2f}", "", None)
    share = slots / (4_097 * 131_076)
    yield Line("  slots held, mean; share of a table of 4,097 x 131,076", f"{slots:,.0f}; {share:.4%}", "", None)
    yield Line("  mean residence, arrival to last token", f"{residence:.2f} s", "", None)


# ---- the trace -----------------------------------------------------------------------------------------------------


def mix(pool: ReqToTokenPool, turns: int, spent: dict[str, list[float]]) -> None:
    """Turns of one alloc, 32 writes and one free; the writes as engines issue them: half the decode step's indexed
    write for a batch, half an append. Microseconds of each call go to `spent`."""

    def timed(name: str, *args: Any) -> None:
        began = time.perf_counter()
        getattr(pool, name)(*args)
        spent.setdefault(name, []).append((time.perf_counter() - began) * 1e6)

    slots = [torch.tensor([slot], dtype=torch.int32) for slot in range(1, 33)]
    for turn in range(turns):
        req = Req(str(turn))
        timed("alloc", [req])
        row = torch.tensor([req.req_pool_idx])
        for i in range(16):
            timed("append", req, slots[i])
            timed("write", (row, torch.tensor([16 + i])), slots[16 + i])
        timed("free", req)


def trace_of(events: int) -> Trace:
    pool = ReqToTokenPool(63, 256, device="cpu")
    with record(pool) as trace:
        while len(trace) < events:
            mix(pool, 1, {})
    return Trace(trace.first, trace.events[:events])


def trace_size() -> Iterator[Line]:
    kilobytes = len(encode(trace_of(1_000))) / 1e3
    yield Line(
        "1,000 events on 64 x 256 cells, sent to the browser", f"{kilobytes:.0f} kB", "at most 100 kB", kilobytes <= 100
    )
    for few, many in ((500, 1_000), (1_000, 2_000)):
        numbers = [sum(4 * len(e.change.cells) + 4 * len(e.change.lengths) for e in trace_of(n)) for n in (few, many)]
        yield Line(f"numbers kept for {few:,} and {many:,} events", " and ".join(f"{n:,}" for n in numbers), "", None)


def recording() -> Iterator[Line]:
    plain: dict[str, list[float]] = {}
    recorded: dict[str, list[float]] = {}
    pool, watched = (ReqToTokenPool(63, 256, device="cpu") for _ in range(2))
    mix(pool, 20, {})
    gc.collect()
    with record(watched):
        for _ in range(40):  # in turns
            mix(pool, 5, plain)
            mix(watched, 5, recorded)
    for name in plain:
        before, after = statistics.median(plain[name]), statistics.median(recorded[name])
        yield Line(f"  {name}, alone and recorded, 64 x 256 cells", f"{before:.1f} and {after:.1f} us", "", None)
    totals = [sum(statistics.median(times) * len(times) for times in spent.values()) for spent in (plain, recorded)]
    calls = sum(len(times) for times in recorded.values())
    ratio, each = totals[1] / totals[0], totals[1] / calls
    yield Line(
        "recorded mix (32 writes for one alloc and free) over the plain one", f"{ratio:.1f}x", "at most 8x", ratio <= 8
    )
    yield Line("  a recorded call on average", f"{each:.0f} us", "under 40 us", each < 40)


# ---- the examiner --------------------------------------------------------------------------------------------------


def examiner() -> Iterator[Line]:
    """The whole bank. The first check in a process also imports Hypothesis, so one is done before."""
    modules = [importlib.import_module(f"reqpool.exercises.bank.{chapter}") for chapter in CHAPTERS]
    wrong = [(find(one.exercise), answer_of(one)) for module in modules for one in module.WRONG]
    wrong += [(STEPS[cell.step - 1], cell.made()) for cell in own_pool.WRONG_CELLS]
    right = [(find(one.exercise), answer_of(one)) for module in modules for one in module.UNUSUAL]
    right += [(one, written(one.solution, one.name, Req=Req)) for one in exercises().values()]
    right += [(step, right_class(k)) for k, step in enumerate(STEPS, start=1)]
    right += [(STEPS[-1], pool.made()) for pool in own_pool.UNUSUAL_POOLS]
    examined(right[:1])
    verdicts, seconds = examined(wrong)
    rejected = [verdict for verdict in verdicts if verdict.state == "wrong"]
    small = [verdict for verdict in rejected if verdict.case and verdict.case.num_operations <= 4]
    met = len(rejected) == len(wrong) and max(seconds) <= 3
    times = f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.1f} s"
    yield Line("wrong answers rejected", f"{len(rejected)} of {len(wrong)}, {times}", "all, at most 3 s each", met)
    share = len(small) / len(rejected)
    yield Line("their cases of at most 4 operations", f"{share:.0%}", "at least 90 %", share >= 0.9)
    verdicts, seconds = examined(right)
    accepted = sum(verdict.state == "right" for verdict in verdicts)
    times = f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.1f} s"
    yield Line("right answers accepted", f"{accepted} of {len(right)}, {times}", "all", accepted == len(right))


def answer_of(one: WrongAnswer | UnusualAnswer) -> Any:
    return written(one.source, one.exercise, Req=Req)


def examined(answers: list[tuple[Exercise, Any]]) -> tuple[list[Verdict], list[float]]:
    verdicts, seconds = [], []
    for exercise, answer in answers:
        began = time.perf_counter()
        verdicts.append(examine(exercise, answer))
        seconds.append(time.perf_counter() - began)
    return verdicts, seconds


# ---- the course ----------------------------------------------------------------------------------------------------


def chapters() -> Iterator[Line]:
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell(PEAK + "print(peak_mb())"))
        began = time.perf_counter()
        quiet = ["--log-level=40"]
        where = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, kernel_name="python3", extra_arguments=quiet, resources=where).execute()
        seconds = time.perf_counter() - began
        peak = float(notebook.cells[-1].outputs[0].text)
        verdict = seconds <= 15 and peak <= 700
        yield Line(f"{path.stem}, run headless", f"{seconds:.1f} s, {peak:.0f} MB", "at most 15 s, 700 MB", verdict)


LABS = ("table_cost", "come_and_go", "in_chunks", "freed_between", "waiting_times", "dummy_entries", "late_step")
CHANGE = """async (key) => {
  const handle = document.querySelector(".noUi-handle");
  const shown = [...document.querySelectorAll(".reqpool-player, .widget-html-content")];
  handle.focus();
  return await new Promise((done) => {
    const began = performance.now();
    const frame = () => new Promise(requestAnimationFrame);
    const watch = new MutationObserver(async () => {
      watch.disconnect();
      await frame();
      await frame();
      done(performance.now() - began);
    });
    for (const e of shown) watch.observe(e, { childList: true, subtree: true, characterData: true, attributes: true });
    handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    setTimeout(() => done(NaN), 5000);
  });
}"""


def labs() -> Iterator[Line]:
    """The first slider of each live experiment, moved by its key, to the second frame after the picture changed."""
    sys.path.insert(0, str(ROOT))
    from tests.browser.lab import Lab
    from tests.browser.latency import FLAGS, jupyter_home

    with (
        tempfile.TemporaryDirectory() as folder,
        jupyter_home(Path(folder)) as home,
        Lab(Path(folder), home) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=find_browser.find(), args=FLAGS)
        for name in LABS:
            page = browser.new_page(viewport={"width": 1500, "height": 1300})
            lab.open(page, lab.write(f"{name}.ipynb", f"from reqpool.lab import {name}\n{name}()")).run_all()
            page.wait_for_selector(".noUi-handle")
            page.wait_for_timeout(1000)
            times = []
            for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft") * 3:
                times.append(page.evaluate(CHANGE, key))
                page.wait_for_timeout(300)
            page.close()
            ms = statistics.median(times)
            yield Line(
                f"{name}: slider to the new picture, JupyterLab", f"median {ms:.0f} ms", "at most 150 ms", ms <= 150
            )
        browser.close()


# ---- the player ----------------------------------------------------------------------------------------------------


def browser() -> Iterator[Line]:
    sys.path.insert(0, str(ROOT / "tests" / "browser"))
    from latency import measure

    limits = {"8x16": (25, 4), "16x64": (25, 4), "64x256": (34, 8)}  # ms: to the second frame, own drawing
    for found in measure():
        where = f"{found['place']}, {found['size']}, {found['way']}"
        latency, drawing = limits[found["size"]]
        for what, limit, median, p95 in (
            ("scrubber to picture", latency, found["latency_ms"], found["latency_p95_ms"]),
            ("  own drawing", drawing, found["drawing_ms"], found["drawing_p95_ms"]),
        ):
            measured = f"median {median:.1f}, 95th percentile {p95:.1f} ms"
            target = f"at most {limit} and {2 * limit} ms"
            yield Line(f"{what}: {where}", measured, target, median <= limit and p95 <= 2 * limit)
        if found["way"] == "drag":
            lost = found["dropped"] + found["skipped"]
            played = f"{found['played']} steps played at 20 a second"
            yield Line(f"  steps not drawn in their time: {where}", f"{lost} of {played}", "none", lost == 0)


if __name__ == "__main__":
    main()
