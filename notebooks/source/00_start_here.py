# %% [markdown]
# # 00 · Start here: where an engine keeps your tokens
#
# **You will be able to**
#
# - follow a token of a request down to its K and V: request → row → position → slot,
# - play a recorded story forwards and backwards, and read what the picture says,
# - say what goes wrong when one slot has two owners.
#
# **About 20 minutes.** You need to know what a tensor is, and to have met the words *transformer* and *KV cache*. No GPU, no engine.

# %% [markdown]
# ## Set up
#
# The next cell is folded, and it runs as it is: click *this* text, then press Shift+Enter twice. It says what it found; a second run does nothing new.
# (Three dots open it, which you need not do. *Run All* in the menu *Run* runs every cell at once; the questions wait for you all the same.)
#
# Where it says *Error displaying widget: model not found*, the notebook was saved by somebody and its kernel is gone: run the cells again, with *Run All*.

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
# In June 2026 SGLang got a check that looks for **one piece of the KV cache with two owners** (a *page*: some slots side by side). It was needed because the check that was there before adds up what is free and what is held,
# and that sum *stays balanced* while two requests share a page that should be one request's: both go on, one of them with the other's memory.
# ([sgl-project/sglang pull 27731](https://github.com/sgl-project/sglang/pull/27731), opened 2026-06-10, merged; looked up in autumn 2026.)
#
# To see how that can be, you need to know where an engine keeps what. That is this chapter.

# %% [markdown]
# ## The picture
#
# **A request holds a row. A position in the row is one of its tokens. The cell says in which slot of the KV cache the K and V of that token lie.**
# Engines call this table `req_to_token`.

# %%
from reqpool.notebook import figure

figure("path.svg")

# %% [markdown]
# The same, as a recorded story that you can step through. Point at a cell: its slot lights up below, and the line under the table says what is what.
#
# The two numbers at the end of a row are its lengths, **verified / alloced**: for how many tokens K and V are *known good*, and for how many a slot is *reserved*. In this story nobody reports that K and V are there, so the first stays 0; chapter 01 has both.

# %%
from reqpool.notebook import player
from reqpool.scenarios import alloc_and_free

story = alloc_and_free()
player(story, step=4)

# %% [markdown]
# Two zeros are in this picture, and they are different things. **Table row 0** is the *padding row*: it belongs to no request. **KV slot 0** is the *dummy slot*: no token of a request lies there.
# Chapter 04 is about what they are good for.

# %% [markdown]
# ## Worked example: down to K and V
#
# Some of these cells change the pool, so run them in order; to repeat one, start again at step 1.
#
# **Step 1. A request arrives.** It has an id, and no row yet.

# %%
from reqpool import Req, ReqToTokenPool

a = Req("a")
a

# %% [markdown]
# **Step 2. It gets a row.** The pool has two rows for requests, 1 and 2, and row 0.

# %%
pool = ReqToTokenPool(size=2, max_context_len=8, device="cpu")
pool.alloc([a])

# %% [markdown]
# **Step 3. Its three tokens get slots.** They need not lie side by side: these came back from other requests, in any order.

# %%
pool.append(a, [5, 2, 7])
pool.req_to_token

# %% [markdown]
# **Step 4. One cell.** The token at position 1 of request a is in slot 2.

# %%
slot = pool.req_to_token[a.req_pool_idx, 1]
slot

# %% [markdown]
# **Step 5. K and V.** Here is a tiny KV cache: one line of K for each slot, and one of V. A real one is the same with more numbers, once for every layer.

# %%
from reqpool.lab import kv_cache

k, v = kv_cache()
k[slot], v[slot]

# %% [markdown]
# **Step 6. All tokens of the request**, in the order of their positions. This gathering is what attention does for every token that is computed, for every request of the batch.

# %%
length = pool.alloced_lens[a.req_pool_idx]
k[pool.read(a)[:length]]

# %% [markdown]
# The code behind steps 2 and 3 is short. Here is `append`: it writes cells, and moves the row's length (`alloced_lens_cpu` is a copy of the lengths that can be read without waiting for a GPU).

# %%
from reqpool.notebook import source

source(ReqToTokenPool.append)

# %% [markdown]
# ## Predict
#
# The next cell *decodes* one more token: the model makes it, and it becomes part of the request. Choose before you look: nothing is stored, and a wrong guess teaches more than none. A cell of the table is chosen by a click, or with the keys: Enter goes into the table, arrow keys move there, and Enter chooses.

# %%
from reqpool import record

with record(pool) as trace:  # from here on every call is written down
    pool.append(a, [4])

# %% jupyter={"source_hidden": true}
from reqpool.notebook import predict

predict("cell_of_the_next_token", outcome=trace.changed(1)[0], reveal=trace, step=0)

# %% [markdown]
# ## Play
#
# This is the player. Try each of these once:
#
# - **Step forward** and **Step back**; the sentence on top says what has just happened, the thick outline where.
# - Drag the line with the marks; press **Play**. Each mark is one event, in the colour of its request: tall where a row is taken, refused (thick) or given back (dashed), short where cells or lengths are written or something is said.
# - The keyboard: click the sentence on top, or come to the player with Tab. Left and Right step, Home and End jump, Space plays. Enter goes into the table; arrow keys move from cell to cell there, and Escape leaves it; a second Escape leaves the player.
# - Click a cell, and press Right: it still steps. Only Enter goes into the table.
# - Point at a slot below the table: the cells that name it light up.

# %%
from reqpool.player import show

show(story)

# %% [markdown]
# ### What did you see?
#
# Answer in your own words first, then open.
#
# <details><summary>Why did step 5 change nothing?</summary>
# A batch of two requests wanted two rows, and one was free. All or nothing: <code>alloc</code> returned <code>None</code>. Chapter 02.
# </details>
# <details><summary>In step 6 request a gives its row back. Why are its slots still in the cells?</summary>
# Because nobody needs to erase them: the row's length is zero, and the length says which cells count. They are <em>stale</em>: hatched, struck through. Chapter 01.
# </details>
# <details><summary>In which order were the free rows handed out?</summary>
# The row that had been free longest went first: first in, first out. That can be changed. Chapter 02.
# </details>

# %%
refused = story[4]
assert refused.kind == "refuse" and not refused.change
assert not any(any(story.snapshot(k).verified) for k in range(len(story) + 1))
assert story.snapshot(6).alloced[1] == 0 and story.snapshot(6).table[1].any()
print("free rows at step 6:", *story.snapshot(6).free)
print("handed out in step 7:", *story[6].rows)

# %% [markdown]
# ### Three more stories: what this course is about
#
# Play each once. You need not understand everything yet; each has its chapter.
#
# **Chunked prefill** (chapter 03). A prompt of ten tokens is computed in parts of at most four, called chunks. Request a keeps its row between its chunks, while request b comes and goes.

# %%
from reqpool.scenarios import chunked_prefill

show(chunked_prefill())

# %% [markdown]
# **Row 0** (chapter 04). The batch has four entries, always, since it was recorded for four. Two are live. The other two point at table row 0, and their K and V go to KV slot 0, where they harm nobody.

# %%
from reqpool.scenarios import padding_row

show(padding_row())

# %% [markdown]
# **Reset** (chapter 05). Request a is gone, but its last *forward step*, the model computing a batch, is not done yet: it writes a length into a row that is free by now. The next owner's lengths are reset when it gets the row, or it would begin in the wrong place.

# %%
from reqpool.scenarios import late_write

show(late_write())

# %% [markdown]
# ## Change it
#
# Two requests; they decode one token each in turn, so their slots lie between each other's. Move the sliders, then follow one token down to its K and V.

# %%
from reqpool.lab import follow

follow()

# %% [markdown]
# *Try:* make both prompts 1 and decode 4 tokens each. Which slots does request b have? And what does the trail say at a position that holds no token?

# %% [markdown]
# ## Break it
#
# Now the incident. Whoever hands out KV slots, the *KV allocator*, keeps its own list of those that are free. Slot 3 belongs to request a, and by some fault it is on the KV allocator's list as well. Request b gets it.
# In the broken variant nobody looks; in the mended one the pool refuses a slot that another row holds.
#
# In place of K and V each slot holds one letter here, so that one can *read* what a wrong one does: from step 3 on, what each request **recites** through its row stands under the KV slots, with a cross at a wrong letter. Both players move together.

# %%
from reqpool.lab import side_by_side
from reqpool.scenarios import two_owners

broken, mended = two_owners(), two_owners(guarded=True)
side_by_side(broken, mended, ("broken: nobody looks", "mended: `CheckedPool(exclusive_slots=True)`"))

# %% [markdown]
# Go to step 7 and look at what is recited. In the broken variant request a wrote *hello* and reads something else, although `pool.check()` found nothing wrong one step before: every row is free or handed out, exactly once.
# **`pool.check()` counts rows, and a slot is not a row.** (SGLang's sum is of pages; it stayed balanced too, for another reason.)
#
# To find it, look at *who names which slot*. SGLang's new check does so with pages: none that a row names may also be free, and none may be on the free list twice. In this story it would complain at step 4: row 1 names slot 3, and slot 3 is free.

# %%
broken[6].text

# %% [markdown]
# At the end of the story the slot is not free any more, and two rows name it. Here are the slots that each of the two names, up to its length, and what they have in common. (Whoever counts *slots* finds it here as well: 5 cells and 3, and only 7 different slots.)

# %%
last = broken.snapshot(len(broken))
of_a, of_b = (set(last.table[row, : last.alloced[row]].tolist()) for row in (1, 2))
print("slots that both name:", *(of_a & of_b))

# %% [markdown]
# ## Build it
#
# Three small tasks. Each check tries what you wrote in small pools, in every way, and answers with the smallest case in which it goes wrong: with yours on the left, as it should be on the right. Nothing counts your attempts. Write in the cell with `...`, run it, then run the check below it.
#
# ### A. Complete a line

# %%
from reqpool.examine import check, exercise

exercise("slot_of")


# %%
def slot_of(table, row, position):
    return ...  # your line


# %%
check(slot_of)

# %% [markdown]
# ### B. Write a function

# %%
exercise("keys_of")


# %%
def keys_of(cells, length, keys):
    return ...  # your lines


# %%
check(keys_of)

# %% [markdown]
# ### C. Break the pool

# %%
exercise("make_them_share")


# %%
def make_them_share(pool, b):
    raise NotImplementedError  # your call


# %%
check(make_them_share)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("00")

# %% [markdown]
# ## In real engines
#
# As read in their public code; the date is that of the code.
#
# | engine | the table | what a cell says |
# | --- | --- | --- |
# | SGLang, 2026-08-11 | `req_to_token`, one row per request, kept as long as the request runs | the slot of one token |
# | mini-sglang, 2026-03-13 | `page_table`, and beside it `token_pool` with the token ids | the slot of one token |
# | LightLLM, 2025-07-11 | `req_to_token_indexs` | the slot of one token |
# | vLLM v1, 2026-08-17 | a block table per cache group; rows are places in the batch, and move | the id of a block of slots |
# | TokenSpeed, 2026-08-22 | page tables made for each batch; rows number side tables only | the id of a page |
# | nano-vllm, 2026-04-26 | none: a Python list in every sequence | the id of a block |
#
# ## Words
#
# - **row**: one request's line in the table. **Table row 0** is the padding row.
# - **position**: the number of a token within its request, from 0: a column.
# - **slot**: the place of one token's K and V in the KV cache: the number in a cell. **KV slot 0** is the dummy slot.
# - **page** (or block): an aligned run of slots. In this course a page is one slot.
# - **alloced** length: for how many tokens of a row slots are reserved. **Verified** length: for how many K and V are known good.
# - **free rows**: those that nobody holds, in the order in which they will be handed out. Engines call the list `free_slots`, although it holds rows. The *KV allocator's* free slots are another list.
# - **live**: below the row's length. **Stale**: not zero, at or beyond the length.
#
# ## Summary
#
# Request → row → position → slot → K and V. The table is the third of these arrows: small, made of integers, and every token of every request goes through it at every step.
#
# **Next:** [01 · The table](01_the_table.ipynb): how large it is, what it costs, and why a length says what is live.
