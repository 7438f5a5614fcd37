# %% [markdown]
# # 05 · Reset on reuse: the write that comes late
#
# **You will be able to**
#
# - trace a wrong letter back: late length, start position, stale slot, whose letter,
# - say for every moment at which a late write can land which safeguard saves it,
# - explain when reset on reuse is *not* enough.
#
# **About 30 minutes.** You need chapters [02](02_alloc_and_free.ipynb) (alloc, free, fifo and lifo) and [03](03_chunked_prefill.ipynb) (steps of an engine). Chapter [04](04_padding_row.ipynb) helps with the dummy entries.

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
# While one forward step computes on the GPU, an engine already plans the next one. So a request can be taken off *while its last forward step is still under way*. Its row is freed, the row gets a new owner, and then the step of the old owner writes its result: into a row that is not its own any more.
#
# Two answers from real engines:
#
# - TokenSpeed's older Python pool, and SGLang-FluentLLM where the same design runs (code of 2026-02-24), zero a row's lengths when it is freed **and once more when it is handed out**. The reason: the forward thread may still add to the length of a row whose request was retracted meanwhile.
# - In SGLang that would have come too late. There the first values of a new request's row were written from the schedule side (when decoding takes over after a separate prefill), and then the step under way wrote the old owner's into the same row. The fix is neither a reset nor a check: the schedule stream now **waits** for the forward stream first. ([sgl-project/sglang pull 35748](https://github.com/sgl-project/sglang/pull/35748), merged 2026-08-21; the race is described in [pull 34077](https://github.com/sgl-project/sglang/pull/34077), closed in favour of it. Looked up in autumn 2026.)
#
# Which of them is right, and when? That is this chapter.

# %% [markdown]
# ## The picture
#
# **Two lanes. The schedule lane hands out rows and slots and takes them back. The forward lane computes, writes K and V, and then raises the row's verified length. The next forward step of that row starts at the verified length.**

# %%
from reqpool.notebook import player
from reqpool.scenarios import experiments

unguarded = experiments.late("after the free", reset=False)
player(unguarded.trace, step=4)

# %% [markdown]
# Request a's last forward step was of eight tokens. The row was free when that step came to its end, and now a *free* row has the verified length 8. The arrow is the late write.
#
# **Why eight?** A decode step has one token as a rule. A step of several is what *speculative decoding* launches: some tokens are guessed and checked together. The story exaggerates it, so that the damage is seen at once; the slider below goes down to one. Only the *length* of that step comes late here, and the slots that it would have reserved are left out. So a verified length can lie beyond the alloced length, against chapter 01's rule that it never does: where the write lands before the free, it goes from 14 to 22 while alloced is 14. For a row that is handed out, that is just what `pool.check()` would refuse; of a free row it asks nothing.

# %% [markdown]
# ## Worked example: from a late length to a wrong letter
#
# The whole engine runs here, with K, V and a real attention (a model that recites its prompt over and over: each letter is the one that stands one *period* back, and a request's period is the length of its prompt). Taken out is one thing: `alloc` does not zero the lengths again.

# %%
from reqpool.faulty import NoResetOnReuse
from reqpool.notebook import source

source(NoResetOnReuse._reset_on_reuse)

# %% [markdown]
# **Step 1. The row is freed, then the length arrives.** Nothing else changed: the cells still say a's slots.

# %%
trace = unguarded.trace
trace[2].kind, trace[3].kind, trace.snapshot(4).verified[1], trace.snapshot(4).owners

# %% [markdown]
# **Step 2. Request c comes.** It gets row 3, and the *slots* that a gave back. So stale cells of row 1 now say slots that are c's.

# %%
k = next(k for k, event in enumerate(trace, start=1) if event.kind == "append" and event.rid == "c")
after = trace.snapshot(k)
after.table[1, :12].tolist(), after.table[3, :12].tolist()

# %% [markdown]
# **Step 3. Request b comes**, and gets row 1. Four tokens are alloced, and the verified length says 8 already.

# %%
k = next(k for k, event in enumerate(trace, start=1) if event.kind == "append" and event.rid == "b")
trace.snapshot(k).verified[1], trace.snapshot(k).alloced[1]

# %% [markdown]
# **Step 4. b's first forward step starts at the verified length**: at position 8, not at 0. Its K and V go to the slots that stand there.

# %%
from reqpool.views import caption

caption(trace, k + 1)

# %% [markdown]
# **Step 5. Somebody reads it.** Seven engine steps later c comes to the letter whose K and V lie there.

# %%
unguarded.recited, unguarded.expected

# %% [markdown]
# The chain, found in the trace, not typed:

# %%
print(unguarded.chain.replace(" → ", "\n→ "))

# %% [markdown]
# Who is hurt? Not a, which is gone. Not b, the owner of the row: it wrote to the wrong place, and reads from the same wrong place. It is **c, which never had that row**. Whoever debugs this looks at c's row, where every cell and every length is right.

# %% jupyter={"source_hidden": true}
assert list(unguarded.wrong) == ["c"] and unguarded.recited["b"] == unguarded.expected["b"]

# %% [markdown]
# ## Three safeguards
#
# **Reset on reuse.** `alloc` zeroes the lengths of every row that it hands out, again, although `free` did.

# %%
from reqpool import ReqToTokenPool

source(ReqToTokenPool._reset_on_reuse)

# %% [markdown]
# **Generation check.** The pool counts how often a row has been handed out. A forward step remembers the count with which it was launched; before it writes, the host compares. Another count: the row is somebody else's, and the write is dropped.

# %%
pool = ReqToTokenPool(size=1, max_context_len=16, device="cpu")
(row,) = pool.alloc_rows(1)
launched = int(pool.generation[row])
pool.free_rows(row)
freed = int(pool.generation[row])
pool.alloc_rows(1)
launched, freed, int(pool.generation[row])

# %% [markdown]
# Look at the middle number. `free` does not move the count; `alloc` does.
#
# **Fence.** `free` waits until the forward step that uses the row is done. Nothing is late then. The price is the waiting.

# %% [markdown]
# ## Predict
#
# ### Where does b write?
#
# No safeguard at all. This time the write lands *later*: b has the row and has recited its first letter. This runs, and is not shown yet:

# %%
later = experiments.late("after b's step", reset=False)

# %% jupyter={"source_hidden": true}
from reqpool.notebook import predict

landed = next(k for k, event in enumerate(later.trace, start=1) if event.kind == "late_write")
k = next(k for k in range(landed + 1, len(later.trace)) if later.trace[k - 1].kind == "verify")
went = dict(later.trace[k - 1].facts)["wrong"][0]
b_row = later.trace.snapshot(k).table[1].tolist()
predict("where_b_writes", outcome=went, reveal=later.trace, step=k - 1, slot=b_row[went[1]], given=b_row[4])

# %% [markdown]
# ### Who recites wrongly?

# %% jupyter={"source_hidden": true}
heard = next(k for k, event in enumerate(later.trace, start=1) if "wrong)" in event.text)
predict("who_recites_wrongly", outcome=sorted(later.wrong), reveal=later.trace, at=heard, chain=later.chain)

# %% [markdown]
# ### Which switch saves this landing time?
#
# The late write lands when the row has just been handed out to b, before b's first forward step.

# %%
found = experiments.outcomes()  # by safeguards (reset, check, fence): who recites wrongly at each landing
at = experiments.LANDINGS.index("after b's alloc")
alone = {"reset on reuse": found[True, False, False][at], "generation check": found[False, True, False][at]}

# %% jupyter={"source_hidden": true}
enough = [name for name, who in alone.items() if who == "nobody"]
reset_alone = experiments.late("after b's alloc", reset=True).trace
lands = next(k for k, event in enumerate(reset_alone, start=1) if event.kind == "late_write")
predict("reset_or_check", outcome=enough, reveal=reset_alone, at=lands)

# %% [markdown]
# ## Play
#
# The first run once more, whole. Step to the late write, then to b's `append`, then to engine step 12. The two lanes show who does what; the texts below the table show what comes of it.

# %%
from reqpool.player import show

show(trace)

# %% [markdown]
# ### What did you see?
#
# <details><summary>At which step of the player does the damage begin, and when is it noticed?</summary>
# It begins with the late write, step 4 of the player. K and V are overwritten in b's first forward step. The first wrong letter comes seven engine steps after that.
# </details>
# <details><summary>Which cells of row 3, which is c's, are wrong?</summary>
# None. The table is right in every cell. What is wrong are K and V in slots 9, 10, 11 and 12: c's forward step wrote them, and then b's. (In 25 too, at c's position 12; c recites twelve letters and reads positions 0 to 11 for them.) The cell below looks them up.
# </details>
# <details><summary>Why does b recite rightly?</summary>
# It wrote at positions 8 to 11 and looks a period, four positions, back from 12: at position 8. Written and read at the same wrong place.
# </details>

# %% jupyter={"source_hidden": true}
reading = next(k for k, event in enumerate(trace, start=1) if "(c: wrong)" in event.text)
starts = next(k for k, event in enumerate(trace, start=1) if event.kind == "verify" and event.rid == "b")
assert trace[reading - 1].step - trace[starts - 1].step == 7 and trace[3].kind == "late_write"

went = [
    (k, cell) for k in range(reading) if trace[k].kind == "verify" for cell in dict(trace[k].facts).get("wrong", ())
]
overwritten = {int(trace.snapshot(k).table[cell]) for k, cell in went}
c_row = trace.snapshot(reading).table[3, : trace.snapshot(reading).alloced[3]].tolist()
assert c_row.index(25) == 12 == len(unguarded.recited["c"])  # read for its letters: positions 0 to 11
[slot for slot in c_row if slot in overwritten]

# %% [markdown]
# ## Change it
#
# On top: *when* the write lands, six landings numbered 1 to 6; how large the late step is; and the three safeguards. Every cell of the table is a run of its own: **✗** and a name where somebody recites wrongly, **✓** where nobody does. *reset* and *check* are reset on reuse and generation check; with the fence nothing comes late, whatever else is on: one line of the table.
#
# The frame is round your run. The player shows it, and begins where the write lands. *play* shows the run with no safeguard in its place, or both, which move together.

# %%
from reqpool.lab import late_step

late_step()

# %% [markdown]
# *Try:*
#
# - Only *reset on reuse*, and move the first slider from left to right. Where does it stop helping?
# - Only *generation check*. Where does it help, where not?
# - Both. Is there any landing left that hurts? And with the fence alone?
# - A late step of 12: who is hurt now, and through which cells?
# - *lifo*: how much earlier is the reset too late?
# - *fifo* with four rows: what happened to the damage, and would you rely on it?
#
# <details><summary>Only reset on reuse: where does it stop helping?</summary>
# At landing 4, "after b's alloc": b has the row, and nothing zeroes it any more.
# </details>
# <details><summary>Only the generation check: where does it help, where not?</summary>
# It helps from landing 4 on, "after b's alloc". At landings 2 and 3 the row is free, the count has not moved, and the write passes. At landing 1 nothing needs help.
# </details>
# <details><summary>Both, or the fence alone: is any landing left that hurts?</summary>
# None, with both and with the fence alone; for late steps of 1, 2, 8 and 12 the cell below runs them all.
# </details>
# <details><summary>A late step of 12: who is hurt, and through which cells?</summary>
# b itself. With landing 2 it looks for its third letter at position 14 of its own row: a cell that was never written and says slot 0, the dummy slot.
# </details>
# <details><summary>lifo: how much earlier is the reset too late?</summary>
# From landing 3 on, "after c's step", one earlier than with fifo: c has taken the row.
# </details>
# <details><summary>fifo with four rows: what happened to the damage?</summary>
# Nobody recites wrongly, since nobody takes the row within the story. That is no safeguard: the next request gets it (see "Why fifo gives more time").
# </details>

# %% jupyter={"source_hidden": true}
for late_len in (1, 2, 8, 12):
    for reuse in ("fifo", "lifo"):
        every = experiments.outcomes(late_len, reuse)
        assert set(every[True, True, False]) == set(every[False, False, True]) == {"nobody"}

ahead = experiments.late("before the free").trace
lands = next(k for k, event in enumerate(ahead, start=1) if event.rid == "a" and event.kind == "verify")
was, now = ahead.snapshot(lands - 1), ahead.snapshot(lands)
assert (was.verified[1], now.verified[1], now.alloced[1]) == (14, 22, 14) and now.owners[1] == ("a",)

twelve = experiments.late("after the free", 12, reset=False)
assert list(twelve.wrong) == ["b"] and "third letter at position 14" in twelve.chain and "slot 0" in twelve.chain
first_too_late = {
    reuse: next(at for at, who in enumerate(experiments.outcomes(8, reuse)[True, False, False]) if who != "nobody")
    for reuse in ("fifo", "lifo")
}
assert [experiments.LANDINGS[at] for at in first_too_late.values()] == ["after b's alloc", "after c's step"]

# %% [markdown]
# ### The three regimes
#
# What the table says, in words. The moment counts in relation to two calls: the old owner's `free` and the next owner's `alloc`.
#
# | the late write lands | reset on reuse alone | generation check alone | fence |
# | --- | --- | --- | --- |
# | before `free` | harmless anyway: `free` zeroes the length | harmless anyway | harmless anyway |
# | between `free` and `alloc` | **saves**: `alloc` zeroes what landed | does **not**: the count has not moved yet, so the write passes | saves: `free` waits |
# | after `alloc` | does **not**: it was at the alloc, and that is over | **saves**: the count has moved, the write is dropped | saves: `free` waits |
#
# So the reset is not enough when the write can land after the row was handed out again. The check alone is not enough when it can land before. Together they close both gaps; a fence closes them alone.
#
# Which landing is which moment? With *fifo* and three rows landing 1 is before `free`, 2 and 3 lie between `free` and b's `alloc`, and 4, 5 and 6 after it; the folded cell below looks it up. With *lifo* the `alloc` that counts is c's, which is not on the slider: it lies between landing 2, "after the free", and 3, "after c's step".

# %% jupyter={"source_hidden": true}
before, between, after_alloc = [1], [2, 3], [4, 5, 6]  # fifo, three rows; the numbers on the slider


def saved(reset, generation, landings):
    return all(found[reset, generation, False][number - 1] == "nobody" for number in landings)


assert saved(False, False, before)
assert not saved(False, False, between) and saved(True, False, between) and not saved(False, True, between)
assert not saved(False, False, after_alloc) and not saved(True, False, after_alloc) and saved(False, True, after_alloc)
assert saved(True, True, before + between + after_alloc)
assert all(set(who) == {"nobody"} for (_, _, fence), who in found.items() if fence)

# %% [markdown]
# ### Why fifo gives more time
#
# When a row is freed, the next owner takes it: at once with *lifo*, after all the others with *fifo*. Whose row it is at each of the six landings, computed:

# %%
for reuse in ("fifo", "lifo"):
    for size in (3, 4):
        print(f"{reuse}, {size} rows:", ", ".join(owner or "free" for owner in experiments.owners(8, reuse, size)))

# %% [markdown]
# With *lifo* c has the row already in the first engine step after the abort, so the time between `free` and `alloc` is short, and the reset is too late sooner. With *fifo* and four rows, nobody takes the row within this story. Who recites wrongly at each landing, without any safeguard?

# %%
experiments.outcomes(8, "fifo", 4)[False, False, False]

# %% jupyter={"source_hidden": true}
assert {who for row in experiments.outcomes(8, "fifo", 4).values() for who in row} == {"nobody"}

# %% [markdown]
# That is *time*, not safety. One more request, and the row is taken:

# %%
pool = ReqToTokenPool(size=4, max_context_len=24, device="cpu", reuse="fifo")
a_row, e_row = pool.alloc_rows(2)
pool.free_rows([a_row])
(c_row,) = pool.alloc_rows(1)
pool.free_rows([e_row])
(b_row,) = pool.alloc_rows(1)
(one_more,) = pool.alloc_rows(1)
assert one_more == a_row and a_row not in (b_row, c_row)
{"a": a_row, "e": e_row, "c": c_row, "b": b_row, "one more": one_more}

# %% [markdown]
# What fifo buys: a late write has more time in which the row is still free, where the reset saves.

# %% [markdown]
# ## Break it
#
# **When reset on reuse is not enough.** In the first player the reset is *on*, and the write lands after b's `alloc`. In the second the generation check is on as well, and at the same moment the write is dropped. Step on to b's first forward step, then to the end.

# %%
from reqpool.lab import late_beside

handed_out = "after b's alloc"
only_reset, both = (experiments.late(handed_out, reset=True, generation=check) for check in (False, True))
late_beside(only_reset, both, ("reset on reuse", "reset on reuse and generation check"))

# %%
print(only_reset.chain.replace(" → ", "\n→ "))
only_reset.recited, both.recited

# %% [markdown]
# **When a generation check is not enough.** The other way round: only the check, and the write lands while the row is free.

# %%
only_check, both = (experiments.late("after the free", reset=reset, generation=True) for reset in (False, True))
late_beside(only_check, both, ("generation check", "generation check and reset on reuse"))

# %% jupyter={"source_hidden": true}
assert list(only_reset.wrong) == list(only_check.wrong) == ["c"] and not both.wrong

# %% [markdown]
# Left out here, to keep the story readable: only the *length* of a's step comes late, K and V of its tokens do not. And the check is made by the host thread that issues the write. A kernel that is queued already asks nobody: it passed the host's check when it was issued, and the row may change hands before it runs. On a device only a fence is safe, or a count that lies on the device and is compared there, when the kernel writes.

# %% [markdown]
# ## A hundred requests as they came
#
# The story above was written for its slider. Does it happen by itself? There is a public record of an hour of a chat service: the Azure LLM inference trace 2023, conversation (Patel et al., *Splitwise*, ISCA 2024; CC BY 4.0; its first 100 rows, made smaller). Where its file is not on this machine, a hundred *synthetic* requests with its percentiles stand in; then a line in bold above the picture says so.

# %%
from reqpool.workloads import stream

arrivals = stream("azure-conversation").first(100)
arrivals.label

# %% [markdown]
# **Made smaller**, so that one can read them: prompts are divided by 128 and clipped to 2 to 12 letters, outputs are divided by 16 and clipped to 1 to 24. The order is kept. One engine step stands for 16 short ones of 6 ms, so arrivals are divided by 0.096 s. The letters are made up, from a seed.
#
# The engine runs in overlap: the schedule lane is one engine step ahead. That a request is at its end is known when its last letter comes, and by then its next forward step is launched. So every request that ends leaves **one late step**, and so does every request that is retracted. Rows and slots are scarce, eight and 64, and rows are handed out last in, first out.

# %%
from reqpool.scenarios import real_requests

runs = real_requests.late_runs(arrivals)

# %% [markdown]
# Each square is a request. A **cross**: it recites wrongly. A **dot**: in some engine step its row said a wrong start position, and it recites rightly all the same.

# %% jupyter={"source_hidden": true}
from reqpool.notebook import note, prose, text_box
from reqpool.views import charts

told = real_requests.told_of_late(runs)
drawing = charts.svg(charts.requests_hurt({name: run.marks for name, run in runs.items()}), told.replace("**", ""))
page = "max-width: 760px; color: var(--jp-content-font-color1, inherit)"
stand_in = real_requests.told_of_stand_in(arrivals)
text_box(
    f'{stand_in and note(prose(stand_in))}<div style="{page}">{drawing}</div>{note(prose(told).replace(chr(10), "<br>"))}'
)

# %% [markdown]
# One of them, what it recites above what it should:

# %%
hurt_most = runs["generation check alone"].longest_wrong()
print(hurt_most.output, hurt_most.expected, sep="\n")

# %% [markdown]
# **What follows.** Both moments come by themselves, row free and row handed out again. So each safeguard alone leaves somebody hurt, and the two together leave nobody. Most wrong starts are never noticed: nearly every late step has one token, so the next owner starts one position too far on. It writes there, reads there, and its next cell is reserved already.

# %% jupyter={"source_hidden": true}
guarded, *others = runs.values()
assert not guarded.wrong and not guarded.touched and all(run.wrong for run in others)
assert guarded.num_retracted and {where for where, _ in guarded.landed} == {"between", "after"}
assert all(len(run.touched - run.wrong.keys()) > len(run.touched) / 2 for run in others)
assert sum(n for (_, tokens), n in guarded.landed.items() if tokens == 1) > 0.9 * sum(guarded.landed.values())

# %% [markdown]
# A wrong letter: how many keys does the request find, in its own row, for the position it looks for? For the first wrong letter of each request that has one:

# %%
from collections import Counter

for name, run in runs.items():
    keys = Counter({0: "none", 1: "one", 2: "two"}.get(num, num) for num in run.found.values())
    print(f"{name}:", ", ".join(f"{how_many} ({times} times)" for how_many, times in keys.items()) or "no wrong letter")

# %% [markdown]
# *None*: K went to another slot, or somebody else's step has written over it (a `·` in a text: nothing was found). *Two*: the owner has skipped a cell, so its slot still holds K and V of whoever had it before, and they answer, too. *One*: there is a key, and the letter is another's.

# %% [markdown]
# ### What did you see?
#
# <details><summary>A test that compares texts finds only the crosses. What would find the dots as well?</summary>
# Comparing the two lengths of a row: a request that starts at a wrong position has a verified length that its tokens do not explain. FluentLLM's check looks for it where it is simplest: when the engine is idle, every length but row 0's must be zero.
# </details>

# %% [markdown]
# ## Build it
#
# In A and B what you write stands in a real pool, while batches run, requests end, and their last steps land late. The answer is the smallest case in which it goes wrong: with yours on the left, as it should be on the right. Nothing counts your attempts.
#
# ### A. Complete a line

# %%
from reqpool.examine import check, exercise

exercise("may_land")


# %%
def may_land(launched, now):
    return ...  # your line


# %%
check(may_land)

# %% [markdown]
# ### B. Write a function

# %%
exercise("reset_on_reuse")


# %%
import torch


def reset_on_reuse(rows: list[int], kept: list[int], verified: torch.Tensor, alloced: torch.Tensor) -> None:
    raise NotImplementedError  # your lines


# %%
check(reset_on_reuse)

# %% [markdown]
# ### C. Get past the reset

# %%
exercise("past_the_reset")


# %%
def past_the_reset():
    return ...  # your settings


# %%
check(past_the_reset)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("05")

# %% [markdown]
# ## In real engines
#
# As read in their public code and threads (SGLang 2026-08 and later threads, SGLang-FluentLLM 2026-02-24, TokenSpeed 2026-08-22, mini-sglang 2026-03-13); the behaviour in words, not in code.
#
# | engine | what may come late | what guards it |
# | --- | --- | --- |
# | SGLang-FluentLLM | the forward thread adds to `verified_lens` after its step; the next step's write positions start at that length (prefill *sets* it, to the length of the prefix) | **reset**: zeroed at free and again at alloc; an idle check warns when a length of any row but 0 is not zero. A release can also be delayed on request |
# | TokenSpeed, older Python pool | the same design; in the live engine nothing constructs it any more | **reset** at free and again at alloc |
# | TokenSpeed, in C++ | per-row side tables | lengths are *set* from the prefix length when a prefill chunk starts; rows are handed on by handles that can only be moved |
# | SGLang | values relayed from step to step, by row | **generation**: a count per row goes up at alloc (pull 30261, 2026-07-12), and readers drop values of an older one. **Fence**: the schedule stream waits before it writes a reused row's values (pull 35748, merged 2026-08-21) |
# | mini-sglang | the sampled token of an unfinished chunk | written to column -1 on purpose, since a race in chunked prefill was mended |
#
# What waiting costs, as reported in SGLang's threads for a fence against another race (a row rewritten while it is still read): a wait in both directions took 4 % of the occupancy (pull 26380).
#
# Order of reuse: SGLang took rows last in, first out from 2026-08-11 on (pull 32208); its pool for decoding after a separate prefill kept first in, first out, which leaves late writers more time.
#
# ## Summary
#
# A step knows the *number* of a row, not its owner. A write that lands before `free` is harmless. Between `free` and `alloc` the reset saves, and a generation check alone does not. After `alloc` a generation check or a fence saves, and the reset does not. The one who recites wrongly need never have had the row: stale cells lead to other people's slots.

# %%
from reqpool.notebook import figure

figure("reset_on_reuse.gif")

# %%
figure("three_regimes.svg")

# %% [markdown]
# Words: [the glossary](glossary.md). **Next:** [11 · Build your own pool](11_build_your_own_pool.ipynb): all of this once more, with your own hands.
