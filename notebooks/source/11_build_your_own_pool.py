# %% [markdown]
# # 11 · Build your own pool
#
# **You will be able to**
#
# - write the pool of an engine, from an empty class,
# - read the smallest case in which a pool goes wrong, and say which law it breaks,
# - say what each of the eight laws is for, and what a run that is right does not show.
#
# **About 60 minutes.** You need chapters [02](02_alloc_and_free.ipynb) to [05](05_reset_on_reuse.ipynb): all or nothing, chunks, the padding row, reset on reuse.

# %% [markdown]
# ## Set up
#
# Run the folded cell below first: click this text, then press Shift+Enter twice.
# Where it says *Error displaying widget: model not found*, run the cells again, with *Run All* in the menu *Run*: the notebook was saved, and its kernel is gone.

# %% tags=["setup"] jupyter={"source_hidden": true}
import importlib
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from IPython import get_ipython

ARCHIVE = ""  # the address of a tagged archive of this project: unset until it has a public one
THERE = ("torch", "numpy", "matplotlib", "ipywidgets", "anywidget")  # never installed by this cell
SMALL = ("hypothesis", "sortedcontainers", "pooch", "platformdirs")  # added where a hosted service lacks them
SMALL += ("exceptiongroup",) if sys.version_info < (3, 11) else ()


def missing(*names):
    importlib.invalidate_caches()
    specs = {name: find_spec(name) for name in names}
    return [name for name, spec in specs.items() if spec is None or spec.origin is None]  # a mere folder is no package


def torch_version():
    try:
        return version("torch")
    except PackageNotFoundError:
        return "missing"


def add(*packages):
    """Install these, and nothing that they ask for: so whatever is there already stays as it is."""
    before = torch_version()
    get_ipython().run_line_magic("pip", " ".join(["install", "--no-deps", *packages]))
    if torch_version() != before:
        raise RuntimeError(
            f"TORCH WAS CHANGED, from {before} to {torch_version()}, which this cell must never do: "
            "go on in a fresh runtime or environment, and please report it."
        )
    print(f"torch is {before}, as before; nothing has to be restarted.")


if absent := missing(*THERE):
    raise ModuleNotFoundError(
        f"{' and '.join(absent)} must be here first, and this cell leaves that to you: "
        f"run `%pip install {' '.join(absent)}` in a cell of its own, then run this cell again."
    )
for clone in (Path(".."), Path("reqpool")):  # one in which nothing was installed, around this file or beside it
    if missing("reqpool") and (clone / "reqpool" / "pool.py").exists():
        sys.path.insert(0, str(clone.resolve()))
if missing("reqpool") and ARCHIVE:
    add(ARCHIVE)
if missing("reqpool"):
    why = f"could not be installed from {ARCHIVE}; the lines above say why" if ARCHIVE else "is not here"
    raise ModuleNotFoundError(
        f"reqpool {why}: get the whole repository and open this file in its notebooks folder, "
        "or put the repository's folder reqpool beside this file, and run this cell again."
    )
if absent := missing(*SMALL):
    add(*absent)
if absent := missing(*SMALL):
    print(f"Without {' and '.join(absent)} the course works too; `check` then tries short sequences only.")

from reqpool.notebook import setup

setup()

# %% [markdown]
# ## Why anybody should care
#
# It is a small class, and none of its rules is hard. Yet each of these was in an engine's code:
#
# | what went wrong | where | your step |
# | --- | --- | --- |
# | the padding row counted inside `size`: a pool of one waits for ever | [sglang pull 23635](https://github.com/sgl-project/sglang/pull/23635) | 5 |
# | a row given back between two chunks, while it is still read | [sglang pull 17850](https://github.com/sgl-project/sglang/pull/17850) | 6 |
# | a request on its last chunk not recognised as keeping its row | [sglang-jax pull 998](https://github.com/sgl-project/sglang-jax/pull/998) | 6 |
# | a row reused before the last owner's late write had landed | [sglang pull 35748](https://github.com/sgl-project/sglang/pull/35748) | 7 |
# | a row freed twice | [mini-sglang pull 111](https://github.com/sgl-project/mini-sglang/pull/111) | 8 |
#
# You have seen them as pictures. Here you write the class that does not have them, and meet those that you put in on the way.

# %% [markdown]
# ## How it goes
#
# An empty class, and eight steps. In each you write one method or two, in one cell. `part_of` adds a function to an existing class, and so to every pool made of it; a later one of the same name takes the place of the earlier one. So a step that says *again* replaces what you had: take your old lines along.

# %%
from reqpool.examine import check, exercise, shown
from reqpool.exercises.own_pool import part_of, serve


class MyPool:
    """Empty: eight steps to go."""


# %% [markdown]
# Run this cell once. Run again, it makes an empty class, and your steps are gone: then run their cells again, from step 1.
#
# **The eight laws**, one a step. Every verdict says which one is broken: "Law 6, keep the row. After 3 operations: ..." It may be an earlier one than the step's.
#
# | law | name | what it says |
# | --- | --- | --- |
# | 1 | the table | int32, one row a request, two lengths a row; two pools share nothing |
# | 2 | one row each | a row that was free for each request, in the order of the batch |
# | 3 | all or nothing | `None` when rows are too few, and nothing has changed |
# | 4 | give back | a freed row is free once, its lengths 0, its cells as they were |
# | 5 | the padding row | table row 0 is nobody's |
# | 6 | keep the row | whoever has begun keeps its row and its lengths; whoever has a row and has not is refused |
# | 7 | reset on reuse | a row newly given begins at 0, whatever landed there |
# | 8 | only what is held | `clear` tells every holder, and `free` takes only what is held |
#
# **What the check does.** It makes small pools of your class, of one, two and three rows, and plays operations on them: every sequence of one, then of two, of three, about 1,400 in all; then longer ones by chance. Before that it uses two pools side by side: they must share nothing. Its own books say what must be so. Your pool chooses the rows, and the books follow: order of reuse, container, helper methods and further attributes are yours.
#
# **What it answers.** The shortest sequence after which something is wrong, one sentence, and two players: your pool, and beside or below it the same as it should be, in the same steps. Step back, and see how it came about.
#
# **Who does what.** Cells and lengths are written by the engine, straight into the tensors that `self` has under these names. Your class says who has which row, and what must hold when a row changes hands. Later steps are examined by the laws of the earlier ones as well.

# %% [markdown]
# Make mistakes: leave a line out, turn an order round, and look at the answer. Nothing counts your attempts.

# %% [markdown]
# ## Step 1 · The table
#
# The table, as in [chapter 01](01_the_table.ipynb): one row a request, one column a position. Two lengths say how far a row is reserved and how far it is known good. The free rows wait in a container; whether that is a list, a deque, a set or a mask is up to you.

# %%
import torch

torch.zeros(2, 3, dtype=torch.int32)

# %%
exercise("MyPool", step=1)


# %%
@part_of(MyPool)
def __init__(self, size, max_context_len):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=1)

# %% [markdown]
# *Try:* `torch.zeros` without a dtype; one tensor under both names of lengths; a list made in the class instead of in `__init__`, or `MyPool.free_slots` for `self.free_slots`.

# %% [markdown]
# ## Step 2 · Alloc
#
# A batch of requests comes, and each gets a row. Requests are those of the course: `Req("a")` has `req_pool_idx`, which is `None` at first. Whoever holds a row reads its number there.

# %%
from reqpool import Req

Req("a")

# %%
exercise("MyPool", step=2)


# %%
@part_of(MyPool)
def alloc(self, reqs):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=2)

# %% [markdown]
# *Try:* the row stays in `free_slots`; the rows in the opposite order; no `return`; a slice `[-n:]`, and then an empty batch.

# %% [markdown]
# ## Step 3 · All or nothing
#
# Rows are scarce. *Not now* is `None`, and the batch stays outside as a whole: half a batch would hold rows that nobody runs.

# %%
exercise("MyPool", step=3)


# %%
@part_of(MyPool)
def alloc(self, reqs):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=3)

# %% [markdown]
# *Try:* take first, count afterwards; `>=` for `>`; an empty list for `None`.

# %% [markdown]
# ## Step 4 · Free
#
# A request has ended. From here on the check also writes: 2 tokens go into the cells of a row, and both its lengths rise by 2.

# %%
exercise("MyPool", step=4)


# %%
@part_of(MyPool)
def free(self, req):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=4)

# %% [markdown]
# *Try:* one length only; clear the cells as well; forget `req_pool_idx`; make the list of free rows anew.

# %% [markdown]
# ## Step 5 · The padding row
#
# The dummy entries of a batch of fixed size have to point at some row: at table row 0, which is nobody's. (KV slot 0 is another zero, and none of the pool's business.) Nothing else changes, so only `__init__` is written again.

# %%
exercise("MyPool", step=5)


# %%
@part_of(MyPool)
def __init__(self, size, max_context_len):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=5)

# %% [markdown]
# *Try:* `range(1, size)`; `range(size + 1)`; a table that grows and lengths that do not.

# %% [markdown]
# ## Step 6 · Keep the row for the next chunk
#
# A prompt in chunks asks again before each chunk. It has a row, its tokens are in it, and it goes on there. The check plays the scheduler: a chunk that is not the last is launched (`inflight_middle_chunks` is 1), its result comes (0 again); and every write raises `kv_committed_len`.

# %%
exercise("MyPool", step=6)


# %%
@part_of(MyPool)
def alloc(self, reqs):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=6)

# %% [markdown]
# *Try:* one half of the condition; `and` for `or`; `None` where a `ValueError` is wanted; first those who keep and then the new ones.

# %% [markdown]
# ## Step 7 · Reset on reuse
#
# The last owner's forward step was under way when its row was freed. It only knows the row's *number*, and raises a length there, late. The check does so while the row is free.

# %%
exercise("MyPool", step=7)


# %%
@part_of(MyPool)
def alloc(self, reqs):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=7)

# %% [markdown]
# *Try:* no reset at all; one length only; reset the kept rows too; reset before it is known that there are rows enough.

# %% [markdown]
# ## Step 8 · Clear and double free
#
# Two ends. `clear` empties the pool, and nobody may go on believing that it has a row. And `free` is asked for what is not there: by a request without a row, and by one whose row is another's, or another pool's. That one may even have been here before, or have the same `rid` as somebody here. So the pool has to write down who holds what: write `__init__` and `alloc` again too, with a line more each.
#
# *Not asked of yours:* what `alloc` does with a request that is twice in a batch, and with one that has begun and whose row is another pool's. Ours refuses both, with a `ValueError`.

# %%
exercise("MyPool", step=8)


# %%
@part_of(MyPool)
def __init__(self, size, max_context_len):
    raise NotImplementedError  # your lines, and one more


@part_of(MyPool)
def alloc(self, reqs):
    raise NotImplementedError  # your lines, and one more


@part_of(MyPool)
def free(self, req):
    raise NotImplementedError  # your lines


@part_of(MyPool)
def clear(self):
    raise NotImplementedError  # your lines


# %%
check(MyPool, step=8)

# %% [markdown]
# *Try:* `clear` without telling the holders; check only for `None`; compare `rid`s; leave the request in the dict after `free`; change first and check then.

# %% [markdown]
# ## The engine on your pool
#
# Now the engine of the course runs on it: 2 rows, 22 KV slots, prompts in chunks of at most 4, at most 6 new tokens a step (so the first chunk of a has 3), the schedule lane one step ahead of the forward lane. Request c decodes; request a is aborted while its second chunk is under way, and that chunk lands late; then b and d come, slots run out, and somebody is retracted and comes again. Every request recites its prompt over and over; whether the letters are right is up to your rows.

# %%
shown(serve(MyPool))

# %% [markdown]
# Step through it, and look for five things: a row that is kept for a chunk, the late length in a free row, the reset, the dummies at table row 0, and the row that comes back after a retraction.

# %% [markdown]
# ## Break it
#
# The same engine on a pool without the reset of step 7.

# %% jupyter={"source_hidden": true}
from reqpool.exercises.own_pool_engine import served
from reqpool.faulty import CounterOnly, NoPaddingRow, NoResetOnReuse
from reqpool.notebook import predict

run = served(NoResetOnReuse)
predict("engine_without_reset", outcome=sorted(run.wrong), reveal=run.trace)

# %% [markdown]
# **And without the padding row?** Row 0 is a request's, and the dummies of every decode step write a cell there. Here is the first letter that is wrong, with a right pool beside or below it.

# %%
shown(serve(NoPaddingRow))

# %% [markdown]
# **And with half of the condition?** `CounterOnly` asks for the chunk counter alone. This is what the engine says:

# %%
from IPython.display import Markdown

Markdown(serve(CounterOnly).sentence)

# %% [markdown]
# It recites without a fault, since in this run the last chunk is always launched while the one before is under way. The laws say otherwise:

# %%
check(CounterOnly, step=6)

# %% [markdown]
# **A run that is right shows that nothing in it was wrong. It does not show that the pool is right.** That takes the laws, and sequences of operations that nobody has thought of.

# %% jupyter={"source_hidden": true}
from reqpool.exercises.exercise import examine
from reqpool.exercises.own_pool import STEPS

assert serve(CounterOnly).state == "right" and examine(STEPS[5], CounterOnly).state == "wrong"
assert serve(NoResetOnReuse).state == "wrong" and serve(NoPaddingRow).state == "wrong"

# %% [markdown]
# ## Beside ours
#
# The same examiner, on the course's own pool, all eight steps:

# %%
from reqpool import ReqToTokenPool

check(ReqToTokenPool, step=8)

# %%
from reqpool.notebook import source

source(ReqToTokenPool.alloc, ReqToTokenPool._take, ReqToTokenPool.clear)

# %% [markdown]
# What it has that yours does not need to have: rows by count (`alloc_rows`, `free_rows`); a copy of `alloced_lens` on the host, which is read without waiting for a GPU; a `generation` for each row, so that a late write can be told from a timely one; and rows that go out in a known order.
#
# <details><summary>What would you have to change to hand out last freed rows first?</summary>
# Where a row comes back, or where one is taken: the other end of the list. No law says which, so every step is right either way. Chapter 05 says why one may still want the row that has been free longest.
# </details>
# <details><summary>Your pool runs on the CPU. What changes when the tensors lie on a GPU?</summary>
# No law. But every <code>self.verified_lens[row] = 0</code> is an operation of its own there, so one sets the rows of a whole batch at once, and reads no length on the way.
# </details>

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("11")

# %% [markdown]
# ## Summary
#
# Eight laws make a pool.
#
# 1. *The table.* int32, and two lengths a row, which no two pools share.
# 2. *One row each.* A row for each request, in the order of the batch.
# 3. *All or nothing.*
# 4. *Give back.* What is freed is free once, with lengths 0 and cells as they were.
# 5. *The padding row.* Table row 0 is nobody's.
# 6. *Keep the row.* Whoever has begun keeps its row.
# 7. *Reset on reuse.* A row newly given begins at 0, whatever landed there.
# 8. *Only what is held.* `clear` tells everybody, and `free` takes only what is held.
#
# None of them says how. That is why they can be asked of your pool, of ours, and of an engine's.
#
# Words: [chapter 00](00_start_here.ipynb#Words).
