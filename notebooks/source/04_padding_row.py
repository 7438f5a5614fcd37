# %% [markdown]
# # 04 · The padding row: where the dummy entries point
#
# **You will be able to**
#
# - tell table row 0 from KV slot 0, and say what a dummy entry does to each,
# - predict whether dummy entries do damage, and whose letter goes wrong,
# - compare three places where engines let them point, and say what each protects.
#
# **About 30 minutes.** You need chapters [00](00_start_here.ipynb), [01](01_the_table.ipynb) and [02](02_alloc_and_free.ipynb): row, position, slot; a length says what is live; a row has one owner.

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
# One step of a model is many small launches of work on the GPU, and to launch them one by one takes time. So an engine records them once, say for a batch of four, and replays the recording: a *CUDA graph*. The step is *captured*.
# A recording always reads the same buffers, and these have four entries, one for each place in the batch. With two requests two entries are left over: the **dummy entries**. They are computed all the same, so each has to point at some row and at some slot. (These words, and all others: [the glossary](glossary.md).)
#
# Twice in one month that went wrong in an engine:
#
# - SGLang let its dummy entries point at row 0, which was kept for them from 2026-05-01 on: its *padding row*. Rows 0 to `size` are `size + 1` rows. But many attention backends sized their buffers by `pool.size`, one entry too few: what was read or written for row `size` lay behind their end. The answers became less accurate, and nothing crashed.
#   ([sgl-project/sglang pull 24439](https://github.com/sgl-project/sglang/pull/24439), May 2026, merged.)
# - A batch was smaller than the one before it, and the buffers behind its last request still held the rows of that larger batch. The dummy entries then read those rows instead of row 0.
#   ([sgl-project/sglang pull 26292](https://github.com/sgl-project/sglang/pull/26292), 2026-05-25, merged; both looked up in autumn 2026.)

# %% [markdown]
# ## The picture
#
# **A captured step always runs the same number of entries. Those without a request are dummy entries, and they point at table row 0, which belongs to nobody.**

# %%
from reqpool.notebook import player
from reqpool.scenarios.experiments import padding

player(padding("row 0", writes="slot").trace, step=9)

# %% [markdown]
# Two requests run in a batch of four. Where the player stands, the two dummy entries have just read row 0, and their K and V went to slot 0. These are **two different zeros**:
#
# | | table row 0 | KV slot 0 |
# | --- | --- | --- |
# | axis | requests | tokens |
# | name | the padding row | the dummy slot |
# | a dummy entry | reads it; in some engines it also writes a cell or a length of it | writes its K and V there |
# | kept out of use by | the pool, which hands out the rows from 1 to the pool's size | the allocator, which hands out the slots from 1 to the allocator's size |
#
# In the picture the two buffers have SGLang's names: `req_pool_indices` holds the rows, `out_cache_loc` the slots to write. The code of this chapter calls them `rows` and `out_slots`.

# %%
from reqpool.notebook import figure

figure("two_zeros.svg")

# %% [markdown]
# ## Worked example: two requests in a batch of four
#
# **Step 1. Two requests**, with three tokens each, and a runner whose only graph has four entries. (The model recites: it continues *xyz* with *xyzxyz...*)

# %%
import torch

from reqpool import ReqToTokenPool
from reqpool.serving import GraphRunner, Recite

pool, model = ReqToTokenPool(size=4, max_context_len=8, device="cpu"), Recite(num_slots=16, max_context_len=8)
runner = GraphRunner(pool, model, graph_sizes=(4,))
rows = torch.tensor(pool.alloc_rows(2))
rows

# %% [markdown]
# **Step 2. Their prompts.** K and V of *xyz* and *klm* go to slots 1 to 6. The first letters come out, and their slots are reserved: 7 and 8.

# %%
for row, prompt, slots in ((1, "xyz", [1, 2, 3]), (2, "klm", [4, 5, 6])):
    model.write(torch.tensor(slots), torch.arange(3), model.tokens(prompt))
    pool.append(row, [*slots, row + 6])
pool.verify(rows, 3)
pool.req_to_token[:3]

# %% [markdown]
# **Step 3. One decode step.** Both requests are at position 3; the letters x and k go in, and the next ones come out.

# %%
letters = runner.run(rows, positions=torch.tensor([3, 3]), tokens=model.tokens("xk"), wanted=torch.tensor([1, 1]))
letters

# %% [markdown]
# **Step 4. The buffers.** The recorded step reads these, whatever is in them. Two entries are requests; the other two are dummies.

# %%
buffers = {name: runner.static[name].tolist() for name in ("rows", "positions", "out_slots")}
buffers

# %% [markdown]
# **Step 5. Which zero is which?** The zeros in `rows` are table row 0. The zeros in `out_slots` are KV slot 0. The zeros in `positions` are neither: the dummy's only token stands at position 0, so its length is 1.

# %% jupyter={"source_hidden": true}
assert buffers == {"rows": [1, 2, 0, 0], "positions": [3, 3, 0, 0], "out_slots": [7, 8, 0, 0]}

# %% [markdown]
# **Step 6. Why length 1, and not 0?** A softmax over positions that are all masked is not a number. With length 1 the dummy reads one cell of row 0, and gets an answer that nobody looks at.

# %%
all_masked = torch.tensor([float("-inf")])
torch.softmax(all_masked, dim=0)

# %% [markdown]
# **Step 7. What have the dummies changed?** The K and V of slot 0, and nothing else: row 0 is all zeros, and its length is 0.

# %%
k, v = model.cache.read(0, torch.tensor([0]))
bool(v.any()), pool.req_to_token[0].tolist(), pool.verified_lens.tolist()

# %% jupyter={"source_hidden": true}
assert v.any() and not pool.req_to_token[0].any() and pool.verified_lens.tolist() == [0, 4, 4, 0, 0]

# %% [markdown]
# The code that fills the buffers, before each step. `self.static` are the buffers; `live` is what the requests' entries carry, and `self.dummy` what a dummy entry does. (With `refresh_tail` off, the second half is left out: see "The stale tail" below.)

# %%
from reqpool.notebook import source

source(GraphRunner._fill)

# %% [markdown]
# **Not every engine stops at slot 0.** What a step writes for a dummy entry besides K and V differs:
#
# - *nothing more*: SGLang's schedule writes the cells before the step, for real requests only;
# - *a cell*: LightLLM's decode kernel writes the cell [row, seq_len - 1] of every entry. Its dummies have length 2, so the cell written is position 1;
# - *a length*: in FluentLLM the forward thread raises `verified_lens[rows]` for every entry.

# %% [markdown]
# ## Predict
#
# Now the safeguard is off: row 0 is handed out like any other row, and request a gets it. The dummy entries still point at row 0.

# %% jupyter={"source_hidden": true}
from reqpool.lab import OFF, telling_step
from reqpool.notebook import predict

unharmed = [live for live in (1, 2, 3, 4) if not padding(OFF, live=live, recorded=False).wrong]
run = padding(OFF, live=unharmed[0])
predict(
    "load_that_hurts_nobody",
    outcome=unharmed,
    reveal=run.trace,
    at=telling_step(run.trace),
    recited=run.recited["a"],
)

# %% jupyter={"source_hidden": true}
hurt = padding(OFF)
k = next(k for k, event in enumerate(hurt.trace, start=1) if event.kind == "pad_write" and event.change.cells)
predict(
    "cell_of_the_dummies",
    outcome=hurt.trace.changed(k)[0],
    reveal=hurt.trace,
    step=k - 1,
    recited=hurt.recited["a"],
)

# %% [markdown]
# ## Play
#
# The whole run, to step through. Watch row 0, position 1, and what a recites. Look at the end of the rows, too: no length is wrong here. Row 4 is *nobody*'s: the table has `size + 1` rows all the same, and this pool hands out the rows 0 to 3 only.

# %%
from reqpool.player import show

show(hurt.trace)

# %% [markdown]
# ### What did you see?
#
# <details><summary>At which step of the player is the damage done, and at which is it noticed?</summary>
# Step 9 of the player writes the cell; its step 12 brings the first wrong letter. Both belong to engine step 2. In every later engine step the cell is overwritten again, and nothing changes any more.
# </details>
# <details><summary>Whose fault does it look like?</summary>
# Request a's. It alone recites wrongly, request b beside it is right, and both of a's lengths are what they should be.
# </details>
# <details><summary>At the end, request a gives back its row. What is odd?</summary>
# It gives back 10 slots. Its row says slot 0 as well, which cannot be given back. So slot 2, which stood there before, leaks: nobody will ever be given it.
# </details>

# %%
from reqpool.scenarios.dummies import first_cell

leak = next(event.text for event in hurt.trace if "leak" in event.text)
print(hurt.trace[8].text, hurt.trace[11].text, leak, sep="\n")

# %% jupyter={"source_hidden": true}
assert hurt.trace[8].kind == "pad_write" and hurt.trace[11].text.endswith("(a: wrong)")
assert hurt.trace.snapshot(12).verified[:2] == hurt.trace.snapshot(12).alloced[:2] == (4, 4)  # no length is wrong
assert first_cell(hurt.trace) == (2, 0, 1, 2, 0)  # engine step 2, row 0, position 1: slot 2 before, slot 0 after

# %% [markdown]
# ## Change it
#
# Two players that move together, and stand where the first wrong letter comes out: on the left with no padding row, on the right with the dummies where you let them point. At first that is the last row. Request a is then in row 0 on both sides, so the one cell marked *unlike the other player* is the damage. (The one owner that differs is that of row 4: nobody on the left, the padding row on the right.)
#
# Below each player: what its dummies touch, why the first wrong letter is wrong, and all the texts. The table at the end sets every kind of write against every place to point at; each cell of it is a run of its own.

# %%
from reqpool.lab import dummy_entries

dummy_entries()

# %% [markdown]
# *Try:*
#
# - *live requests* up to 4, then *graph size* 8: when is there damage, and when is there none?
# - *the step writes*: which kinds hurt nobody in these runs, even with no padding row? Why is `+=` among them? (The next section says.)
# - *dummies point at*: row 0. Request a is then in row 1 on the right, and the two tables differ in every cell that it or b has: most of the marks *unlike the other player* are no damage now.
# - *none, slot -1*: it protects one of the two zeros only. Which kind of write gets through? Where the step writes a cell, the text still says *read row 0, positions 0 to 1*: slot -1 is about K and V only, the buffer of rows still says 0, and row 0 is a's there.
#
# Two of the cells belong to no engine: vLLM, whose dummies have slot -1 and length 0, was not seen to write a cell or a length for them. They show that slot -1 guards the slots and not the rows.

# %% jupyter={"source_hidden": true}
from reqpool.scenarios.experiments import WRITES, verdicts

found = verdicts(live=2, graph_size=4)
assert not any(wrong for (_, where), wrong in found.items() if where in ("row 0", "last row"))
assert [kind for kind in WRITES if found[kind, OFF]] == [
    "the cell [row, seq_len - 1] (LightLLM)",
    "the length, with index_add_",
]

# %% [markdown]
# ## Break it
#
# The padding row is one line of the pool. This is all that was taken out:

# %%
from reqpool.faulty import NoPaddingRow

source(ReqToTokenPool._usable_rows, NoPaddingRow)

# %% [markdown]
# ### Once, or as often as it is named
#
# The step raises the length of every entry's row, and the batch names row 0 twice. Two ways to write that, and they differ:

# %%
batch = torch.tensor([1, 2, 0, 0])
once, each = torch.zeros(2, 3, dtype=torch.int32)
once[batch] += 1
each.index_add_(0, batch, torch.ones(4, dtype=torch.int32))
once.tolist(), each.tolist()

# %% [markdown]
# `+=` reads, adds and writes back: row 0 rises once, however often it is named. `index_add_` adds for every name, as a kernel with atomic adds does. **With** a padding row neither hurts, but the length of row 0 drifts:

# %%
from reqpool.scenarios.dummies import drift

one_a_step, two_a_step = (
    drift(padding("row 0", **WRITES[kind]).trace)
    for kind in ("the length, with += (FluentLLM)", "the length, with index_add_")
)
one_a_step, two_a_step

# %% jupyter={"source_hidden": true}
assert two_a_step == [2 * length for length in one_a_step]  # there are two dummy entries

# %% [markdown]
# **Without** one it depends on where row 0's owner is. In the run below request a has row 0 and is in the batch itself, which is [0, 1, 0, 0]. There `+=` does no harm: a's length has to rise by one anyway. `index_add_` moves it by three, once for a and once for each of the two dummies, and a starts too far to the right. Both players move together.

# %%
from reqpool.lab import show_pair, side_by_side, telling_step

raised = [padding(OFF, **WRITES[kind]) for kind in ("the length, with index_add_", "the length, with += (FluentLLM)")]
traces = [run.trace for run in raised]
show_pair(side_by_side(*traces, ("broken: as often as named", "no damage: once")), traces, telling_step(traces[0]))

# %%
from reqpool.lab import cause
from reqpool.notebook import prose, text_box

assert raised[0].wrong and not raised[1].wrong
text_box(prose(cause(raised[0])))

# %% [markdown]
# And if row 0's owner is **not** in the batch, because it waits or is being prefilled? In the batch [1, 2, 0, 0] only the dummies name row 0. Then its length is raised even with `+=`, and nothing was computed for it:

# %%
lengths = torch.tensor([3, 3, 3])  # row 0's owner has three tokens, and is not in the batch
lengths[batch] += 1
lengths.tolist()

# %% jupyter={"source_hidden": true}
assert batch.tolist() == [1, 2, 0, 0] and lengths.tolist() == [4, 4, 4]

# %% [markdown]
# So `+=` hurts nobody only while row 0's owner is in every batch, as in the runs above. And a test that happens to use `+=` says nothing about a kernel that adds atomically. FluentLLM sets row 0's length back to zero after every replay. TokenSpeed lets some drafters' dummies point at a row of their own, because lengths read through row 0 would grow and hang them.

# %% [markdown]
# ### The stale tail
#
# A batch of four, then c and d end. The buffers stay as they are between replays. Whoever forgets to reset their tail replays c and d as dummies: with c's row and c's slot. Here request e has just got both.

# %%
from reqpool.scenarios.experiments import stale_tail

stale, fresh = stale_tail(), stale_tail(refresh_tail=True)
traces = stale.trace, fresh.trace
tail_step = next(k for k, event in enumerate(stale.trace, 1) if event.kind == "pad_read" and event.step == 3)
show_pair(side_by_side(*traces, ("broken: the tail stays", "mended: the tail is reset")), traces, tail_step)

# %%
tail = stale.trace[tail_step - 1]
print(tail.text.replace("; 1", "\n1"))
stale.recited["e"], stale.expected["e"]

# %% [markdown]
# Read it backwards. Request e recites **p** instead of **h**. It finds that letter at position 3 of row 3, in slot 21. Slot 21 was c's last one, and p was the letter that went in there. In engine step 3 the stale entry wrote it once more, just after e's prompt had been written. There *is* a padding row here; nobody pointed at it.

# %% jupyter={"source_hidden": true}
((row, position),) = dict(tail.facts)["wrong"]
assert (row, position, int(stale.trace.snapshot(tail_step).table[row, position])) == (3, 3, 21)
assert stale.wrong == {"e": [3]} and stale.recited["e"][3] == "p" and not fresh.wrong

# %% [markdown]
# In SGLang's case (pull 26292) only the row numbers were stale; the lengths were already reset, so the dummies read one cell of a foreign row. The fix is to set one more buffer to zero. Here the whole tail is stale, and K and V go astray as well.

# %% [markdown]
# ### One entry short
#
# The other incident, pull 24439. With a padding row the table has `size + 1` rows, and everything that is indexed by row needs as many entries. Here is a buffer sized by `pool.size`, so one less, and a write for the highest row:

# %%
side = torch.zeros(pool.size, dtype=torch.int32)
highest = max(pool.free_slots)
try:
    side[highest] = 7
except IndexError as error:
    print(error)

# %% [markdown]
# torch notices. A kernel computes an address and writes; what lies behind the buffer is somebody else's:

# %%
memory = torch.zeros(8, dtype=torch.int32)
side, neighbour = memory[: pool.size], memory[pool.size :]
memory[highest] = 7  # what a kernel does with the address of side[highest]
side.tolist(), neighbour.tolist()

# %% jupyter={"source_hidden": true}
assert neighbour[0] == 7 and pool.verified_lens.shape[0] == pool.size + 1

# %% [markdown]
# ### On a GPU
#
# The same as a captured CUDA graph: the step is recorded once and replayed over the same buffers. (This path has not yet been run on a GPU; on the CPU the same function runs over the same buffers.)

# %%
from reqpool.scenarios.experiments import replayed

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu":
    print("No GPU here: the captured graph is skipped, and the same function runs on the CPU.")
said = replayed(device=device), replayed(NoPaddingRow, device)
said

# %% jupyter={"source_hidden": true}
assert said == ("xyzxyzxyz", hurt.recited["a"])

# %% [markdown]
# ## A hundred requests as they came
#
# Three letters a request and two requests at a time are easy to watch. Is the padding row needed on a real day? There is a public record of an hour of a chat service: the Azure LLM inference trace 2023, conversation (Patel et al., *Splitwise*, ISCA 2024; CC BY 4.0; its first 100 rows, made smaller). Where its file is not on this machine, a hundred *synthetic* requests with its percentiles stand in; then a line in bold above the picture says so.

# %%
from reqpool.workloads import stream

arrivals = stream("azure-conversation").first(100)
arrivals.label, arrivals[0], arrivals[1]

# %% [markdown]
# **Made smaller**, so that one can read them: prompts are divided by 128 and clipped to 2 to 12 letters, outputs are divided by 16 and clipped to 1 to 24. The order is kept. One engine step stands for 16 short ones of 6 ms, so arrivals are divided by 0.096 s. The letters are made up, from a seed: the trace has none. The first five, as engine step of arrival, prompt, letters of output:

# %%
from reqpool.scenarios import real_requests

[(one.arrival, one.prompt, one.max_new_tokens) for one in real_requests.small_requests(arrivals)[:5]]

# %% [markdown]
# Three runs of the whole engine: eight rows, graphs of 1, 2, 4 and 8 entries, and a step that writes a cell for its dummies, as LightLLM's does. The third run has a graph for *every* batch size.

# %%
runs = real_requests.padding_runs(arrivals)

# %% [markdown]
# Each square is a request. A **cross**: it recites wrongly. A **dot**: a dummy entry wrote into its row, and it recites rightly all the same.

# %% jupyter={"source_hidden": true}
from reqpool.notebook import note
from reqpool.views import charts

told = real_requests.told_of_padding(runs)
drawing = charts.svg(charts.requests_hurt({name: run.marks for name, run in runs.items()}), told.replace("**", ""))
page = "max-width: 760px; color: var(--jp-content-font-color1, inherit)"
stand_in = real_requests.told_of_stand_in(arrivals)
text_box(
    f'{stand_in and note(prose(stand_in))}<div style="{page}">{drawing}</div>{note(prose(told).replace(chr(10), "<br>"))}'
)

# %% [markdown]
# One of them, what it recites above what it should:

# %%
hurt_most = runs["no padding row"].longest_wrong()
print(hurt_most.output, hurt_most.expected, sep="\n")

# %% [markdown]
# **What follows.** With the padding row nobody is hurt. Without it most requests are not hurt either: only who has row 0 can be, and only in an engine step that is not full. With a graph for every batch size no step has a dummy entry, so the fault is there and hurts nobody. That is luck by configuration, and it ends with the first batch that does not fit.

# %% jupyter={"source_hidden": true}
with_row, without, all_full = runs.values()
assert not with_row.wrong and not with_row.touched and not all_full.wrong and all_full.had_row_0
assert without.wrong.keys() <= without.touched <= without.had_row_0 and without.wrong
assert {indices[0] for indices in without.wrong.values()} == {1}  # always the second letter first

# %% [markdown]
# ### What did you see?
#
# <details><summary>Dummy entries wrote into the rows with a dot. Why do those requests recite rightly?</summary>
# Our model reads position 1 once, for its second letter. A request whose cell is overwritten later never looks there again, and one that wants a single letter never does. A trained model attends to all positions in every step: it would read the wrong slot each time.
# </details>

# %% [markdown]
# ## Build it
#
# In A and B what you write stands in a real graph runner, while requests come, decode in one batch, and end. Its step writes a cell for every entry, as LightLLM's does. The answer is the smallest case in which it goes wrong: with yours on the left, as it should be on the right. Nothing counts your attempts.
#
# ### A. Complete a line

# %%
from reqpool.examine import check, exercise

exercise("padded")


# %%
def padded(rows, graph_size):
    return ...  # your line


# %%
check(padded)

# %% [markdown]
# ### B. Write a function

# %%
exercise("fill")


# %%
def fill(buffer, values, dummy):
    raise NotImplementedError  # your lines


# %%
check(fill)

# %% [markdown]
# ### C. Break the pool

# %%
exercise("third_letter_first")


# %%
def third_letter_first():
    return ...  # your settings


# %%
check(third_letter_first)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("04")

# %% [markdown]
# ## In real engines
#
# As read in their public code (SGLang 2026-08, FluentLLM 2026-02-24, TokenSpeed 2026-08-22, mini-sglang 2026-03-13, LightLLM 2025-07-11, vLLM 2026-08-17).
#
# | engine | a dummy entry points at | its length, its slot | what else the step writes for it |
# | --- | --- | --- | --- |
# | SGLang | row 0, since pull 24243 (2026-05-01); before that row 0 was an ordinary row | 1 in nearly every backend; slot 0 | nothing in the table; row 0 of buffers beside it |
# | FluentLLM | row 0 | | raises row 0's length, and sets it to zero after each replay |
# | TokenSpeed | row 0; for some drafters the row after the last | 1; its dummy slot | state goes to the row after the last. The tail is reset at every step |
# | mini-sglang | the last row, which belongs to a dummy request and is filled with the dummy slot | 1; the dummy slot | |
# | LightLLM | the last row | 2; a slot after the last one | the cell at position 1 of that row |
# | vLLM | no row is kept for it: its block table says block 0, which nobody gets | 0; slot -1, which the store kernels skip | |
#
# ## Summary
#
# A captured batch has a fixed size, so dummy entries must point somewhere. **Table row 0** is the row they may read and write, because nobody owns it. **KV slot 0** is where their K and V may land. Whether a missing padding row hurts depends on what the step writes for dummies, and on whether row 0's owner is in the batch; a full batch has none. The buffers stay between replays: reset the tail, and give everything that is indexed by row `size + 1` entries.

# %%
figure("padding_row.gif")

# %% [markdown]
# Words: [the glossary](glossary.md). **Next:** [05 · Reset on reuse](05_reset_on_reuse.ipynb): a step that writes after its row was given back.
