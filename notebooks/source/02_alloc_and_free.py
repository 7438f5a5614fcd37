# %% [markdown]
# # 02 · Alloc and free: rows are taken and given back
#
# **You will be able to**
#
# - say in advance which rows a batch gets, first in, first out or last in, first out,
# - tell *not now* (`None`) from *never right* (an error),
# - show what a second free does, and what stops it.
#
# **About 30 minutes.** You need chapters [00](00_start_here.ipynb) and [01](01_the_table.ipynb): row, position, slot; live and stale.

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
# In mini-sglang a request can be aborted while its forward step is still under way. Its row is then freed at the abort, and **once more** when the result arrives and says *finished*; a row that is free twice can be handed to two requests.
# ([sgl-project/mini-sglang pull 111](https://github.com/sgl-project/mini-sglang/pull/111), opened 2026-03-25, still open when looked up in autumn 2026.)
#
# Taking and giving back looks like the easy part. This chapter plays it step by step, and in the end it gives a row back twice, as happened there.

# %% [markdown]
# ## The picture
#
# **The free rows stand in the order in which they will be handed out. A request takes one when it starts and gives it back when it ends; table row 0 is never among them.**

# %%
from reqpool.notebook import player
from reqpool.scenarios import alloc_and_free

player(alloc_and_free(), step=6)

# %% [markdown]
# Request a has just ended. Its row 1 is the last of the free rows, its lengths are zero, and its cells still hold the old slots.
#
# **Four rules** keep a pool right, and each of them has been broken in a real engine:
#
# 1. Table row 0 is never handed out (chapter 04).
# 2. A batch gets all its rows or none (this chapter).
# 3. A request that has begun keeps its row (chapter 03).
# 4. The lengths of a row are reset when it is handed out again (chapter 05).

# %% [markdown]
# ## Worked example: three rows, four requests
#
# Each cell changes the pool, so run them in order; to repeat one, start again at step 1. (These steps are the example's. Elsewhere in the text a step with a number is the player's.)
#
# **Step 1. A batch takes rows**, in its own order.

# %%
from reqpool import Req, ReqToTokenPool

pool = ReqToTokenPool(size=3, max_context_len=8, device="cpu")
a, b, c, d = (Req(rid) for rid in "abcd")
pool.alloc([a, b])

# %% [markdown]
# **Step 2. The free rows**, the next one first. Engines call the list `free_slots`, although it holds *rows*; the pool keeps that name, and the text says *free rows*.

# %%
pool.free_slots

# %% [markdown]
# **Step 3. Not now.** Two rows wanted, one free: the answer is `None`, and nothing at all has changed. A scheduler asks again later.

# %%
answer = pool.alloc([c, d])
print(f"answer: {answer}, free rows: {pool.available_size()}, row of c: {c.req_pool_idx}")

# %% [markdown]
# **Step 4. Why nothing at all?** If c had got the last row and d none, c would hold a row that no batch runs: nobody would give it back. That is rule 2, *all or nothing*.
#
# **Step 5. One ends.** The row is back, the lengths are zero, the cells stay.

# %%
pool.append(a, [11, 12, 13])
pool.free(a)
print(f"free rows: {list(pool.free_slots)}")
print(f"row 1: cells {pool.req_to_token[1].tolist()}, alloced length {pool.alloced_lens[1]}")

# %% [markdown]
# **Step 6. Now it works.** Row 3 has been free longest, so it goes first.

# %%
pool.alloc([c, d])

# %% [markdown]
# **Step 7. Never right.** Request a has no row any more. To free it again is not a matter of waiting: it is a mistake, and raises.

# %%
try:
    pool.free(a)
except ValueError as error:
    print(error)

# %% [markdown]
# **Step 8. By count.** There is a second way to take a row, that of TokenSpeed's Python pool: ask for *a number of rows*. The pool gives their numbers and knows that they are out, but not whose they are; the caller keeps the numbers.
# The reason: a batch that was launched carries row numbers to the device, not request objects. Whoever works on batches has the number at hand, and gives the row back by it.

# %%
pool.free(b)
rows = pool.alloc_rows(1)
rows, pool.holders

# %% [markdown]
# Row 2 is held by nobody in particular: the player writes *by count* there. By its number it goes back.

# %%
pool.free_rows(rows)
pool.free_slots

# %% [markdown]
# The code. Read `_take` last: it is where rows leave the free ones, at the front; each costs one `popleft`, however many rows the pool has. The lines about `_keeps_row` and chunks are chapter 03; skip `generation`, `_ones` and `_reset_on_reuse`, which are chapter 05.

# %%
from reqpool.notebook import source

source(ReqToTokenPool.alloc, ReqToTokenPool._take)

# %%
source(ReqToTokenPool.free, ReqToTokenPool._give_back)

# %% [markdown]
# **None or an error?** *Not now* is `None`: the same call is right later. *Never right* is an exception, which names who, what is, and what was wanted. Errors come first: a batch with a mistake in it raises even when rows are too few.

# %%
try:
    pool.alloc([Req("e"), a, a])
except ValueError as error:
    print(error)

# %% [markdown]
# ## Predict
#
# This runs without showing its result:

# %%
from reqpool import record

quiet = ReqToTokenPool(size=4, max_context_len=6, device="cpu")
with record(quiet) as trace:
    p, q, r = reqs = [Req("p"), Req("q"), Req("r")]
    quiet.alloc(reqs)
    quiet.free(q)
    quiet.free(p)
    rows = quiet.alloc([Req("x"), Req("y")])

# %% jupyter={"source_hidden": true}
from reqpool.notebook import predict

predict("rows_fifo", outcome=rows, reveal=trace, at=3)

# %% [markdown]
# **The same, last in, first out.**

# %%
stack = ReqToTokenPool(size=4, max_context_len=6, device="cpu", reuse="lifo")
with record(stack) as trace_lifo:
    p, q, r = reqs = [Req("p"), Req("q"), Req("r")]
    stack.alloc(reqs)
    stack.free(q)
    stack.free(p)
    rows_lifo = stack.alloc([Req("x"), Req("y")])

# %% jupyter={"source_hidden": true}
predict("rows_lifo", outcome=rows_lifo, reveal=trace_lifo, at=3)

# %% [markdown]
# ## Play
#
# The whole story, forwards and backwards. Watch three things: the free rows on top, the owner's name, and the lengths at the end of each row.

# %%
from reqpool.player import show

fifo = alloc_and_free("fifo")
show(fifo)

# %% [markdown]
# ### What did you see?
#
# <details><summary>Which step was a refusal, and what did it change?</summary>
# Step 5: two rows wanted, one free. Step back and forth over it: nothing in the picture moves but the sentence.
# </details>
# <details><summary>Request d gets row 1, which was a's. Which cells of it are live when d has three tokens, and which are stale?</summary>
# Positions 0, 1 and 2 are d's. Positions 3 and 4 still say a's slots: stale.
# </details>
# <details><summary>Why is it first in, first out?</summary>
# The row that has been free longest is taken first. Whoever still writes late into a freed row has the most time until it has a new owner. Chapter 05 is about such writes.
# </details>

# %%
assert fifo.snapshot(5).free == fifo.snapshot(4).free and not fifo[4].change
at_9 = fifo.snapshot(9)
print(f"step 9, row 1: cells {at_9.table[1].tolist()}, alloced length {at_9.alloced[1]}")

# %% [markdown]
# Now compare the orders: the same calls on a pool of each kind. At step 6 the same two rows are free, in the opposite order. So at step 7 both pools hand out rows 3 and 1, swapped between c and d, and no row is free until b ends at step 10.

# %%
from reqpool.lab import side_by_side

lifo = alloc_and_free("lifo")
side_by_side(fifo, lifo, ("fifo: longest free first", "lifo: freed last, first out"))

# %% jupyter={"source_hidden": true}
free_at = [(fifo.snapshot(k).free, lifo.snapshot(k).free) for k in range(len(fifo) + 1)]
assert free_at[6] == ((3, 1), (1, 3)) and all(ours == theirs for ours, theirs in free_at[:6] + free_at[7:11])
assert free_at[7] == free_at[9] == ((), ()) and free_at[10] == ((2,), (2,))
for name, story in (("fifo", fifo), ("lifo", lifo)):
    print(f"{name}, step 7: c gets row {story[6].rows[0]}, d gets row {story[6].rows[1]}")

# %% [markdown]
# ## Change it
#
# Requests arrive one by one; two tokens each. Those that got a row end, in the order that you choose; then those that had to wait try again. Where nobody had to wait, one more request comes. Make the pool run out.

# %%
from reqpool.lab import come_and_go

come_and_go()

# %% [markdown]
# *Try:*
#
# - More requests than rows: how many get `None`? And more than twice as many: who still waits in the end?
# - The same with *lifo*: compare the two lists of rows in the sentence.
# - As many requests as rows, or more. *newest first* with *fifo*, and *oldest first* with *lifo*: why are the rows that come next the same?
#
# <details><summary>An answer to the third</summary>
# Both turn the order round, once. With <em>fifo</em> rows go out in the order in which they came back, and <em>newest first</em> brings them back in reverse. With <em>lifo</em> they come back in order, and go out in reverse. With fewer requests than rows it is another matter: with <em>fifo</em> the rows that nobody ever had are in front.
# </details>

# %%
from reqpool import scenarios

turned = [scenarios.come_and_go(3, 5, *order) for order in (("fifo", "newest first"), ("lifo", "oldest first"))]
handed_out = [[event.rows[0] for event in trace if event.kind == "alloc" and event.step == 2] for trace in turned]
assert handed_out[0] == handed_out[1]
print("newest first with fifo, then the rows", handed_out[0])
print("oldest first with lifo, then the rows", handed_out[1])

# %% [markdown]
# ## Break it
#
# The incident. The row is held *by count* here, as in step 8 of the worked example: the pool knows that it is out, but not whose it is, and no request object remembers that it was given back. Broken: a pool that takes back whatever it is told. Mended: `ReqToTokenPool`, the pool of this course. Both players move together.

# %%
from reqpool.lab import free_twice

free_twice()

# %% [markdown]
# Step 6 is the second free. In the broken pool it passes without a word, and the damage shows later and elsewhere: two requests hold one row, the second prompt overwrites the first, and what one of them recites, under the KV slots, is the other's text. In the mended one there is a `ValueError` at the very call that was wrong, and then `None` for the request that really must wait.
#
# All that was taken out is this:

# %%
from reqpool.faulty import FreedTwice

source(FreedTwice, ReqToTokenPool._refuse_to_free)

# %% [markdown]
# Step 6 and step 14 of both, for size 2 and fifo:

# %%
broken, mended = scenarios.free_twice(FreedTwice), scenarios.free_twice()
assert (broken[5].kind, mended[5].kind) == ("free", "refuse")
for name, story in (("broken", broken), ("mended", mended)):
    print(f"{name}, step 6: {story[5].text or 'row 1 is given back'}")
    print(f"{name}, step 14: {story[13].text}")

# %% [markdown]
# The law behind it: every row of 1..size is free or handed out, exactly once. `check()` counts.

# %%
leaky = FreedTwice(size=2, max_context_len=4, device="cpu")
(row,) = leaky.alloc_rows(1)
leaky.free_rows(row)
leaky.free_rows(row)

try:
    leaky.check()
except RuntimeError as error:
    print(error)

# %% [markdown]
# **And half a batch?** A pool that takes what there is before it notices that there is too little: the rows are gone, and nobody has them.

# %%
from reqpool.faulty import NotAllOrNothing

half = NotAllOrNothing(size=3, max_context_len=4, device="cpu")
with record(half) as lost:
    half.alloc([Req("a"), Req("b")])
    half.alloc([Req("c"), Req("d")])

show(lost)

# %% [markdown]
# Three rows, two owners, and none free. What does it:

# %%
assert lost.snapshot(2).free == () and len(lost.snapshot(2).owners) == 2
source(NotAllOrNothing)

# %% [markdown]
# ## Build it
#
# Each check plays what you wrote in small pools, in every way, and answers with the smallest case in which it goes wrong: with yours on the left, as it should be on the right. Nothing counts your attempts.
#
# ### A. Complete a line

# %%
from reqpool.examine import check, exercise

exercise("must_refuse")


# %%
def must_refuse(free_rows, n):
    return ...  # your line


# %%
check(must_refuse)

# %% [markdown]
# ### B. Write a function

# %%
exercise("give_back")


# %%
def give_back(free_rows, rows, reuse):
    return ...  # your lines


# %%
check(give_back)

# %% [markdown]
# ### C. Break the pool

# %%
exercise("two_in_one_row")


# %%
def two_in_one_row(pool):
    raise NotImplementedError  # your calls


# %%
check(two_in_one_row)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("02")

# %% [markdown]
# ## In real engines
#
# As read in their public code (SGLang 2026-08, mini-sglang 2026-03-13, LightLLM 2025-07-11, TokenSpeed 2026-08-22, vLLM 2026-08-17); the behaviour in words, not in code.
#
# | engine | order of reuse | when rows run out | a second free |
# | --- | --- | --- | --- |
# | SGLang | last in, first out since pull 32208 (merged 2026-08-11), first in, first out before; a pool for decoding after a separate prefill still keeps the old order | `None`; the caller then raises, deliberately loudly, since admission should have prevented it | noticed only if the same request object has no row any more |
# | mini-sglang | last in, first out | an `IndexError`, guarded by a look at the number of free rows | not noticed by the pool (pull 111) |
# | LightLLM | last in, first out, a linked list | logs, and returns `None` | an assertion: one mark for each row |
# | TokenSpeed, in C++ | first in, first out | the scheduler looks first, and skips | impossible by construction: the handle can only be moved |
# | vLLM, model runner V2 | last in, first out | an assertion | returns `None` for an id it does not know |
#
# TokenSpeed's older Python pool accepts a second free of a row, as mini-sglang's does (both were run). SGLang takes the rows as a slice from the tail: a fresh pool of four starts with [3, 4], ours with [1, 2].
#
# ## Summary
#
# Free rows are handed out in their order, all or nothing. `None` means *not now*, an exception *never right*. `free` sets lengths to zero and leaves the cells. A row is free or handed out, exactly once: whoever frees twice hurts somebody else, later.

# %%
from reqpool.notebook import figure

figure("alloc_free.gif")

# %% [markdown]
# Words: [the glossary](glossary.md). **Next:** [03 · Chunked prefill](03_chunked_prefill.ipynb): a long prompt comes in chunks and keeps its row between them.
