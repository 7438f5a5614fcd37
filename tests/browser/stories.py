"""Small traces for the browser tests, and what the picture of a step must be: computed here, from the tensors."""

import random

import torch

from reqpool.pool import Req, ReqToTokenPool
from reqpool.trace import Trace, record
from reqpool.views import cell_state

Cell = tuple[int, int, int, str, bool]  # row, position, slot, state, just changed

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"

READ_CELLS = """(root) => [...root.querySelectorAll('[role="grid"] [data-position]')].map(({dataset: d}) =>
  [Number(d.row), Number(d.position), Number(d.slot), d.state, d.changed !== undefined])"""


def slots(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def story() -> Trace:
    """Every sign at once: two owners in turn, stale cells, a refusal, a late write, a reset, a row by count."""
    pool = ReqToTokenPool(size=3, max_context_len=6, device="cpu")
    with record(pool) as trace:
        a, b, c = Req("a"), Req("b"), Req("c")
        pool.alloc([a, b])
        pool.append(a, slots(1, 2, 3, 4))
        pool.verify(a.req_pool_idx, 3)
        pool.append(b, slots(5, 6))
        pool.alloc([Req("x"), Req("y")])
        late = a.req_pool_idx
        pool.free(a)
        pool.verify(late, 1)
        pool.alloc([c])
        pool.append(c, slots(1))
        pool.alloc_rows(1)
        pool.append(b, slots(7))
        pool.free(b)
    return trace


def busy(rows: int, columns: int, events: int, seed: int = 1) -> Trace:
    """Requests that come, grow and go, every slot from one list of free ones."""
    dice = random.Random(seed)
    pool = ReqToTokenPool(rows, columns, device="cpu")
    free, held, named = list(range(1, rows * columns + 1)), {}, 0
    with record(pool) as trace:
        while len(trace) < events:
            throw = dice.random()
            if not held or (throw < 0.15 and pool.available_size()):
                req = Req(f"r{named}")
                named += 1
                pool.alloc([req])
                held[req] = []
            elif throw < 0.85:
                req = dice.choice(list(held))
                n = min(dice.randint(1, max(1, columns // 8)), columns - len(held[req]))
                if n:
                    given, free = free[:n], free[n:]
                    held[req] += given
                    pool.append(req, slots(*given))
            else:
                req = dice.choice(list(held))
                free += held.pop(req)
                pool.free(req)
    return trace


def picture(trace: Trace, k: int) -> list[Cell]:
    """Every cell as the player must show it after k events."""
    snapshot, changed = trace.snapshot(k), set(trace.changed(k))
    table = snapshot.table.tolist()
    return [
        (row, position, slot, cell_state(snapshot, row, position), (row, position) in changed)
        for row, cells in enumerate(table)
        for position, slot in enumerate(cells)
    ]


def late_step(pool_class: type[ReqToTokenPool] = ReqToTokenPool) -> Trace:
    """Two lanes: a step that was launched for a lands in b's row. With `NoResetOnReuse` b writes too far on.

    Both have the same number of events, so that they can stand side by side.
    """
    pool = pool_class(1, 8, device="cpu")
    with record(pool) as trace:
        a, b = Req("a"), Req("b")
        pool.alloc([a])
        trace.emit("note", rid="a", rows=[1], text="a's step is launched", lane="schedule", texts=[("a", "", ())])
        pool.append(a, slots(1, 2, 3))
        pool.verified_lens[1] += 3
        trace.emit("verify", rid="a", rows=[1], lane="forward", texts=[("a", "fox", ())])
        trace.emit("retract", rid="a", rows=[1], text="a is retracted", lane="schedule")
        pool.free(a)
        pool.verified_lens[1] += 2
        trace.emit("late_write", rid="a", rows=[1], lane="forward")
        pool.alloc([b])
        if trace[-1].kind != "reset":
            trace.emit("note", rid="b", rows=[1], text="no reset")
        start = int(pool.verified_lens[1])
        pool.append(b, slots(4, 5, 6, 7, 8))
        trace.emit(
            "note", rid="b", rows=[1], text="b starts", lane="forward", texts=[("a", "fox", ()), ("b", "xy", ())]
        )
        pool.write((1, slots(start)), slots(3))
        wrong = (2, 4) if start else ()
        said = [("a", "fox", ()), ("b", "xywwv" if start else "xyzwx", wrong)]
        cells = [(1, position) for position in wrong]
        trace.emit("note", rid="b", rows=[1], text="b recites", lane="forward", texts=said, wrong=cells)
    return trace
