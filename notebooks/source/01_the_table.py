# %% [markdown]
# # 01 · The table: shape, cost, and what is live
#
# **You will be able to**
#
# - read a row: which cells count, which are left over,
# - compute what the table costs, for any number of rows and any context length,
# - explain why a length says what is live, and what happens to a reader who does without.
#
# **About 25 minutes.** You need chapter [00](00_start_here.ipynb), or its [words](00_start_here.ipynb#Words): row, position, slot.

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
# Somebody started SGLang with a context length of 10,485,760 tokens, and it stopped with *"Tried to allocate 80.04 GiB"*: more than the whole memory of an 80 GB GPU, for a single tensor.
# ([sgl-project/sglang issue 5755](https://github.com/sgl-project/sglang/issues/5755), looked up in autumn 2026.)
#
# At the end of this chapter you can compute that number from two others.

# %% [markdown]
# ## The picture
#
# **One row per request, one position per token, and in each cell the slot of that token. What a row's cells say counts up to the row's length, and not beyond.**

# %%
from reqpool.notebook import figure

figure("table.svg")

# %% [markdown]
# ## Worked example: one table, read aloud
#
# Some of these cells change the pool, so run them in order; to repeat one, start again at step 1.
#
# **Step 1. Make it.** Room for 4 requests, 8 tokens each.

# %%
from reqpool import Req, ReqToTokenPool

pool = ReqToTokenPool(size=4, max_context_len=8, device="cpu")
pool.req_to_token.shape

# %% [markdown]
# Five rows, not four: **table row 0 is the padding row**, and is nobody's. So a table for `size` requests has `size + 1` rows.
#
# **Step 2. The type.** A slot is a whole number, and int32 reaches to 2,147,483,647: enough, as long as the KV cache has no more slots than that. Four bytes a cell.

# %%
pool.req_to_token.dtype, pool.req_to_token.element_size()

# %% [markdown]
# **Step 3. What it costs**, in bytes: rows × positions × 4.

# %%
print(f"computed: {(pool.size + 1) * pool.max_context_len * 4}, measured: {pool.req_to_token.nbytes}")

# %% [markdown]
# **Step 4. Fill a row.** Five tokens of request a.

# %%
a = Req("a")
pool.alloc([a])
pool.append(a, [11, 12, 13, 6, 7])
pool.read(a)

# %% [markdown]
# **Step 5. The lengths.** `alloced_lens` says for how many tokens slots are *reserved*; `verified_lens` for how many K and V are *known to be good*, since the forward step that writes them (the model computing a batch) has reported. One number of each per row.

# %%
pool.verify([a.req_pool_idx], 4)
print("alloced ", pool.alloced_lens.tolist())
print("verified", pool.verified_lens.tolist())

# %% [markdown]
# Row 1 has 5 reserved and 4 known good: the fifth token is under way. Where this is laid out in the code: the lines with `torch.zeros` make the table and the lengths. Skip the others, which are checks and options.

# %%
from reqpool.notebook import source

source(ReqToTokenPool.__init__)

# %% [markdown]
# ## Predict
#
# **First the memory.**

# %% jupyter={"source_hidden": true}
from reqpool.notebook import predict
from reqpool.views import charts

small, large = charts.table_bytes(2048, 131_072), charts.table_bytes(2048, 262_144)
costs = {"small": charts.readable(small), "large": charts.readable(large)}
picture = charts.svg(charts.table_memory(2048, 262_144), label="Memory of a table of 2,048 rows, by context length.")
predict("context_doubled", outcome=large // small, reveal=picture, **costs)

# %% [markdown]
# **Then the row.**

# %% jupyter={"source_hidden": true}
from reqpool.scenarios import one_row

reused = one_row([11, 12, 13, 6, 7], 2)
num_slots = int((reused.snapshot(len(reused)).table[1] != 0).sum())
predict("cells_of_a_reused_row", outcome=num_slots, reveal=reused)

# %% [markdown]
# ## Play
#
# Two requests, one row. Each slot holds a letter in place of K and V: what a request recites through its row stands under the KV slots, from step 3 on. Watch the hatching, and the two numbers at the end of the row.

# %%
from reqpool.player import show
from reqpool.scenarios import stale_cells

story = stale_cells("horse", "dog")
show(story)

# %% [markdown]
# ### What did you see?
#
# <details><summary>Which single change made five live cells stale, in step 4?</summary>
# The row's length went from 5 to 0. No cell was touched.
# </details>
# <details><summary>Request b wrote three letters over five. Where does it stop reading?</summary>
# At position 3, because its length is 3: positions 3 and 4 are stale.
# </details>
# <details><summary>Why does an engine not simply write zeros on free?</summary>
# It would have to write up to a whole row, on the device, for every request that ends; and it would not help against a write that lands <em>after</em> the free (chapter 05). A length costs one number.
# </details>

# %%
assert story.changed(4) == () and story.snapshot(3).alloced[1] == 5
print("cells changed in step 4:", len(story.changed(4)))
print("alloced length of row 1 before and after:", story.snapshot(3).alloced[1], story.snapshot(4).alloced[1])

# %% [markdown]
# ## Change it
#
# Two sliders, one table. The line is the cost at every context length for your number of rows; the orange diamonds are tables of real engines. Nothing of this size is allocated here.

# %%
from reqpool.lab import table_cost

table_cost(size=256, max_context_len=4096)

# %% [markdown]
# *Try:* 2,048 rows, and then the longest context. Where does it cross the dashed line?
#
# **The 80 GiB.** SGLang's default is at least 2,048 rows, to which comes one more; and rows are 4 positions wider than the context (code of August 2026). So:

# %%
rows, positions = 2_048 + 1, 10_485_760 + 4
num_bytes = rows * positions * 4
print(f"{num_bytes:,} bytes are {num_bytes / 2**30:.2f} GiB")

# %% jupyter={"source_hidden": true}
assert f"{num_bytes / 2**30:.2f}" == "80.04"  # what the message says, to the digit

# %% [markdown]
# The report names the amount, not the tensor. That it was this table is *inferred*, from these two numbers alone; they fit to the last printed digit.
#
# **How much of such a table says anything?** 4,096 rows for a context of 131,072: too many cells to draw, so here is a map of it. Say that every row is taken, and every request has 1,000 tokens, which is a busy day:

# %%
from IPython.display import HTML

from reqpool.player import table_map

lengths = dict.fromkeys(range(1, 4_096 + 1), 1_000)
HTML(table_map(4_096 + 1, 131_072 + 4, lengths))

# %% [markdown]
# Of the table's 2 GiB, 16 MB hold slots of somebody's tokens. It costs no time: `alloc`, `append` and `free` touch no more than their own rows. What it costs is memory, all at once, from the start.

# %%
live, cells = sum(lengths.values()), (4_096 + 1) * (131_072 + 4)
assert round(cells * 4 / 2**30, 1) == 2.0 and round(live * 4 / 10**6) == 16
f"{live / cells:.2%} of the cells are live"

# %% [markdown]
# And there is a second trap. A kernel that finds a cell by one flat number, row × width + position, needs more than int32 for it:

# %%
print(f"{rows * positions:,} cells are {rows * positions / 2**31:.1f} times what int32 reaches")

# %% [markdown]
# In vLLM just such a product, 598 × 3,600,000, came out negative ([vllm-project/vllm pull 16806](https://github.com/vllm-project/vllm/pull/16806), merged; looked up in autumn 2026):

# %%
import torch

torch.tensor(598, dtype=torch.int32) * torch.tensor(3_600_000, dtype=torch.int32)

# %% [markdown]
# ## Break it
#
# A reader who does without the length, and believes every cell that is not zero. It works, until a row is used a second time by somebody shorter. The broken reader, and beside it one who asks the length; both read the same table.

# %%
from reqpool.lab import side_by_side

broken = stale_cells("horse", "dog", by_length=False)
side_by_side(broken, story, ("broken: reads up to the first zero", "mended: reads up to the length"))

# %% [markdown]
# Step 3 is right on both sides, and step 7 is not. The broken reader is this; one can see why somebody would think it is enough:

# %%
from reqpool.scenarios.cells import cells_that_are_not_zero

source(cells_that_are_not_zero)

# %%
print("step 3:", broken[2].text)
print("step 7:", broken[6].text)

# %% [markdown]
# ## Build it
#
# Each check tries what you wrote on small tables, and answers with the smallest case in which it goes wrong: with yours on the left, as it should be on the right. Nothing counts your attempts.
#
# ### A. Complete a line

# %%
from reqpool.examine import check, exercise

exercise("bytes_of_table")


# %%
def bytes_of_table(size, max_context_len):
    return ...  # your line


# %%
check(bytes_of_table)

# %% [markdown]
# ### B. Write a function

# %%
exercise("state")


# %%
def state(slot, position, verified_len, alloced_len):
    return ...  # your lines


# %%
check(state)

# %% [markdown]
# ### C. Break the reader

# %%
exercise("two_texts")


# %%
def two_texts():
    return ...  # two texts


# %%
check(two_texts)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("01")

# %% [markdown]
# ## In real engines
#
# | engine, date of the code | rows × positions | by default |
# | --- | --- | --- |
# | SGLang, 2026-08 | (size + 1) × (context + extra), int32 | 2,048 to 4,096 rows; 4 extra positions, and more for draft tokens |
# | LightLLM, 2025-07-11 | (max_req + 1) × max_len, int32; the *last* row is the padding row | 1,000 rows, 16,384 positions |
# | mini-sglang, 2026-03-13 | (max_running_req + 1) × context rounded up to 32, int32; the *last* row is padding | |
# | vLLM v1, 2026-08-17 | requests × blocks, int32: a cell for each *block*, so smaller by the block size | |
# | sglang-jax, 2026-08-21 | size × context, int32, in the host's memory | no padding row |
#
# SGLang's table got its padding row at index 0 on 2026-05-01 (pull 24243); before, row 0 was an ordinary one. What a free row holds differs too: in vLLM v1 a vacated row is zeroed; in the others above, free leaves the cells.
#
# ## Summary
#
# `(size + 1) × max_context_len × 4` bytes, all at once, whatever the requests need. In a row, the length says what counts: live below it, stale or empty from there on.
#
# Words: [the glossary](glossary.md). **Next:** [02 · Alloc and free](02_alloc_and_free.ipynb): how rows are taken and given back.
