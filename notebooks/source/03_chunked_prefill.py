# %% [markdown]
# # 03 · Chunked prefill: a long prompt keeps its row
#
# **You will be able to**
#
# - lay out the chunks of a prompt, and say which cells of which row each of them fills,
# - explain why the rule for keeping a row has two halves,
# - read in a recited text that a row was given back between two chunks.
#
# **About 30 minutes.** You need chapters [00](00_start_here.ipynb) and [02](02_alloc_and_free.ipynb): row, position, slot; alloc and free.

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
# An engine computes a long prompt in parts, called *chunks*. In SGLang such a prompt used to give its row back after every chunk, and took a row again for the next. When rows were scarce, another request of the same batch got that row and wrote its slots there, while the forward step of the chunk before was still reading it.
# ([sgl-project/sglang pull 17850](https://github.com/sgl-project/sglang/pull/17850), merged, 2026-02-02.)
#
# So the row is kept. But who may keep one? The condition in SGLang has two halves. sglang-jax asked for one of them alone, a counter, and prompts that came in chunks failed with an `AssertionError`.
# ([sgl-project/sglang-jax pull 998](https://github.com/sgl-project/sglang-jax/pull/998), opened 2026-04-28, merged. It was seen in *hybrid* models: those in which some layers keep one state for the whole request in place of K and V of each token.) You will take out each of the two safeguards, and predict where it hurts.

# %% [markdown]
# ## The picture
#
# **A long prompt is computed in chunks, one in an engine step. All of them stand in one row, each behind the one before; the verified length says how far the computing has come.**

# %%
from reqpool.notebook import player
from reqpool.scenarios import chunked_prefill

player(chunked_prefill(prompt_len=10, chunk_size=4), step=10)

# %% [markdown]
# Request a has 10 prompt tokens. Two chunks of 4 are in row 1; 2 tokens are still to come. Request b has come in between, and has a row of its own.
#
# The words of this chapter:
#
# - **Engine step**: the *scheduler* puts a batch together, the *forward step* computes it, and its results come. It is always called so. Where it says *step 10*, the player is meant, which makes one step for each event; an engine step is several of them.
# - **Prefill**: the tokens of a prompt are computed, many in one engine step.
# - **Decode**: a running request gets its next token, one in an engine step.
# - **Chunk**: a part of a prompt that is prefilled in one engine step. Every chunk but the last is a *middle* chunk.
# - **Budget**: the tokens that one engine step may compute. Each token takes one of them, of a prompt or decoded.

# %% [markdown]
# ## Worked example: ten tokens, four at a time
#
# Four numbers follow a request. Two belong to its row, and two to the request:
#
# | number | whose | who keeps it | what it counts | when it moves |
# | --- | --- | --- | --- | --- |
# | `alloced_lens[row]` | the row's | the pool, in `append` | tokens that have a slot | at the launch |
# | `verified_lens[row]` | the row's | the forward step | tokens whose K and V are there | when it is done |
# | `kv_committed_len`, *committed* for short | the request's | the scheduler | tokens that the scheduler regards as done | in this engine, and in SGLang, at the launch already |
# | `inflight_middle_chunks`, *the counter* | the request's | the scheduler | middle chunks launched, and without a result yet | up at the launch, down at the result |
#
# So *committed* is what the scheduler reckons with, and not a measurement: it goes up before the forward step has run.
#
# Each cell changes the pool or the request, so run them in order; to repeat one, start again at step 1.
#
# **Step 1. The first chunk is launched.** It is not the last, so the counter goes up; then the batch asks for rows.

# %%
from reqpool import Req, ReqToTokenPool

pool = ReqToTokenPool(size=2, max_context_len=10, device="cpu")
a = Req("a")
a.inflight_middle_chunks += 1
pool.alloc([a])

# %%
pool.append(a, [1, 2, 3, 4])
a.kv_committed_len += 4  # at the launch
print(f"counter: {a.inflight_middle_chunks}, committed: {a.kv_committed_len}")

# %% [markdown]
# **Step 2. Its result comes.** The forward step raises the verified length; the counter goes down.

# %%
pool.verify([1], 4)
a.inflight_middle_chunks -= 1
print(f"counter: {a.inflight_middle_chunks}, committed: {a.kv_committed_len}")

# %% [markdown]
# **Step 3. The second chunk**, not the last either. The request asks `alloc` again, as everyone in a batch does, and gets the row that it has.

# %%
a.inflight_middle_chunks += 1
print(f"rows: {pool.alloc([a])}, still free: {pool.available_size()}")

# %% [markdown]
# **Step 4. No length was reset**, because the row is not new: the chunk goes behind the first one.

# %%
pool.append(a, [5, 6, 7, 8])
print("row 1:", pool.req_to_token[1].tolist())
print(f"alloced: {pool.alloced_lens[1]}, verified: {pool.verified_lens[1]}")

# %% [markdown]
# **Step 5. Not everybody may keep a row.** Request b holds row 2 and has done nothing with it: that it asks again is a mistake, and it is better said than hidden.

# %%
b = Req("b")
pool.alloc([b])

try:
    pool.alloc([b])
except ValueError as error:
    print(error)

# %% [markdown]
# The code: who keeps its row, and the condition with its two halves.

# %%
from reqpool.notebook import source

source(ReqToTokenPool._keeps_row, ReqToTokenPool._has_more_to_do)

# %% [markdown]
# ## Predict
#
# Ten tokens, chunk size 4: the chunks are 4, 4 and 2. The result of each comes before the next is launched.

# %% jupyter={"source_hidden": true}
from reqpool.notebook import predict
from reqpool.scenarios.chunks import asked

counter = asked(num_chunks=3)[-1].inflight_middle_chunks
predict("counter_at_the_last_chunk", outcome=counter, reveal=chunked_prefill(prompt_len=10, chunk_size=4), at=13)

# %% [markdown]
# **One half taken out.** `CounterOnly` is the same pool, but its condition asks for the counter alone. (What it consists of comes below: commit your prediction first.)

# %% jupyter={"source_hidden": true}
from reqpool.faulty import CounterOnly

refused = chunked_prefill(prompt_len=10, chunk_size=4, pool_class=CounterOnly)
raises = [event.step + 1 for event in refused if event.kind == "refuse"]
predict("counter_only", outcome=raises, reveal=refused)

# %% [markdown]
# ### And the other half?
#
# This section gives both predictions away. First, what was taken out:

# %%
source(CounterOnly)

# %% [markdown]
# Would the other half, `kv_committed_len > 0`, do alone? That depends on two things:
#
# - *when results come*. **At once**: before the next chunk is launched. **Late**: after that. An engine in *overlap* launches the next engine step while the one before is still computed, so that the GPU need not wait.
# - *when committed moves*. **At the launch** of a chunk, or **at its result**.
#
# Three chunks of 4 tokens again, in all four combinations:

# %%
from reqpool.lab import two_halves

two_halves()

# %% [markdown]
# - The counter is 0 in the first two lines, at the last chunk: both middle chunks have their results, and the last chunk does not count.
# - Committed is 0 in the fourth line, at the second chunk: it is launched before the result of the first, so nothing is committed yet.
# - The third line has no 0, and nowhere are both 0 at the same chunk.
#
# So each half is 0 somewhere, and either one is enough. In the lines that commit at the launch, as SGLang and our engine do, committed alone would do between chunks. But a pool cannot know how its scheduler counts: it asks for both. Here is a pool that asks for committed alone, in the fourth line:


# %%
class CommittedOnly(ReqToTokenPool):
    continues_if = "kv_committed_len > 0"

    def _has_more_to_do(self, req):
        return req.kv_committed_len > 0


try:
    asked(3, 4, overlap=True, committed_at="result", pool_class=CommittedOnly)
except ValueError as error:
    print(error)

# %% jupyter={"source_hidden": true}
assert len(asked(3, 4, overlap=True, committed_at="result")) == 2  # `ReqToTokenPool`: no chunk is refused
assert len(asked(3, 4, committed_at="launch", pool_class=CommittedOnly)) == 2  # nor here
assert refused[len(refused) - 2].text.endswith("kv_committed_len is 8")
assert refused[len(refused) - 1].kind == "refuse" and refused.snapshot(len(refused)).verified[1] == 8
assert [event.rows for event in chunked_prefill() if event.kind == "keep"] == [(1,), (1,)]

# %% [markdown]
# ## Play
#
# The story of the picture, from its start. Watch the counter in the sentences, and the two lengths of row 1.

# %%
from reqpool.player import show

story = chunked_prefill(prompt_len=10, chunk_size=4)
show(story)

# %% [markdown]
# ### What did you see?
#
# <details><summary>Which cells does the second chunk fill, and how does the pool know where to begin?</summary>
# Positions 4 to 7 of row 1. <code>append</code> begins at the alloced length, which was 4 and was not reset.
# </details>
# <details><summary>Which row does b get, and what becomes of it?</summary>
# Row 2. Request b ends before the third chunk, and row 2 is free again. Row 1 is in nobody's way.
# </details>
# <details><summary>When are alloced and verified length of row 1 different?</summary>
# From the moment a chunk's slots are written until its forward step is done: cells that are reserved, but not known good.
# </details>

# %%
for k, event in enumerate(story, start=1):
    if event.kind == "keep":
        print(f"step {k}: {event.rids[0]} keeps row 1, alloced length {story.snapshot(k).alloced[1]}")

# %% [markdown]
# ## Change it
#
# Now a whole engine, small but honest: a scheduler, K and V in slots, and a model that recites its prompt again and again. Request *short* is running (it recites `xyzxyzxy`), *long* comes with its prompt in engine step 2, *other* in engine step 3.
#
# The scheduler has one rule about it: **at most one prompt is between its chunks, and while it is, nobody new is admitted**, even if tokens of the budget are left. So *other* comes in engine step 3 and waits; it can begin in the engine step of *long*'s last chunk at the earliest, which is number 4 here. The table says what each engine step computes; the player shows how the row fills, and below it the recited texts.

# %%
from reqpool.lab import in_chunks

in_chunks()

# %% [markdown]
# *Try:*
#
# - Chunk size 1, then 12: in which engine step does *long* say its first letter?
# - A budget of 4. *short* takes one token of it: what is left for the chunk? And why does *other* come in chunks now?
# - Prefill and decode *in separate engine steps*: how many engine steps does *short* wait for its next letter?
# - Move everything at will. The texts stay right: no chunk size changes a letter.
#
# <details><summary>Answers</summary>
# Chunk size 1: twelve chunks, and the first letter in engine step 14. (<em>short</em>'s own prompt of three now comes in chunks, too, so <em>long</em> begins in engine step 3.) Chunk size 12: the budget of 8 leaves 7 tokens, so it is two chunks, and the first letter comes in engine step 3; with a budget of 13 it is one chunk, and engine step 2.
# <br>A budget of 4: 3 tokens are left for the chunk. When <em>other</em> begins, <em>short</em> and <em>long</em> both decode: 2 tokens are left for its prompt of three.
# <br>In separate engine steps: 4 engine steps, since three of them prefill.
# </details>

# %% jupyter={"source_hidden": true}
from reqpool.scenarios.experiments import chunks

assert all(
    chunks(n, size, budget=8, mixed=mixed).wrong == {}
    for n in (1, 9, 20)
    for size in (1, 4, 20)
    for mixed in (True, False)
)

# %% [markdown]
# ### Why in chunks at all?
#
# Because others wait. An engine step takes longer the more tokens it computes, and whoever is running gets one token in it. Our clock has two numbers: no engine step is shorter than 6 ms, and 50 tokens take a millisecond.

# %%
from reqpool.serving.counts import step_seconds

source(step_seconds)

# %% [markdown]
# One long prompt comes while others run. How long do they wait for their next token, and how long does the long prompt wait for its first?

# %%
from reqpool.lab import waiting_times

waiting_times()

# %% [markdown]
# *Try:*
#
# - From which chunk size on does a smaller one help nobody? Look for the size at which an engine step takes 6 ms anyway.
# - Which chunk size would you choose, if nobody may wait more than 50 ms?
# - Not mixed: our scheduler then runs all chunks before it decodes again. What have the chunks been good for?
#
# <details><summary>Answers, for a prompt of 8,192 tokens and 8 running requests</summary>
# From 256 on a smaller chunk size helps nobody: 256 and 8 tokens take 6 ms anyway.
# <br>2,048 is the largest in the list: 41.1 ms. With 512 it is 10.4 ms, and the long prompt waits 2 ms longer.
# <br>Not mixed: for nobody's waiting. It is 169.8 ms for every chunk size from 512 on, and longer for a smaller one.
# </details>
#
# The clock follows the shape of measured times, those of the linear layers of Llama-2-7B on an H100, 32 layers, from [microsoft/vidur](https://github.com/microsoft/vidur) (commit of 2024-11-19, MIT licence). Up to 128 tokens, and from 1,000 tokens on, it is within a fifth of the measurement. In between it is up to 40 % too short: 328 tokens take 11.0 ms there, 6.6 ms here. Attention, the reading of K and V, and the work of the host are left out.
#
# What the chart counts is what the engine does. The same small case, a prompt of 12 in chunks of 4 with one request running, engine step by engine step:

# %%
from reqpool.serving.chunk_times import Step, longest_wait, prefill_steps, time_to_first_token

prefill_steps(prompt_len=12, chunk_size=4, num_running=1)

# %% jupyter={"source_hidden": true}
from reqpool.lab import plan

engine_steps = plan(chunks(prompt_len=12, chunk_size=4, budget=8).trace)[1:4]
assert [Step(step["long"], step["short"]) for step in engine_steps] == prefill_steps(12, 4, 1)[:3]

whole, small, tiny = (prefill_steps(8192, size, num_running=8) for size in (8192, 512, 64))
assert longest_wait(whole) > 160 and longest_wait(small) < 11 and longest_wait(tiny) == 6
assert time_to_first_token(tiny) > 4 * time_to_first_token(small)

# %% [markdown]
# ## Break it
#
# On the left a request gives its row back between two chunks and takes the next free one; on the right it keeps it. Both engines, both pools and all requests are the same otherwise, and both players stand at the same moment.

# %%
from reqpool.lab import freed_between

freed_between()

# %% [markdown]
# Step to where *long* gets its second row. The new row is empty: its lengths are zero, so the forward step begins at position 0 again. No live cell says the slots of the first chunk any more, so the picture shows them like slots that were never used.
#
# After the last chunk the model is to recite, and looks for K of the first letter of the prompt. No live cell of the new row leads there. It finds nothing, and then it says `·`: a dot in a recited text is no letter, and stands for *nothing found*. So *long* recites `····`.
#
# The picture shows what the table's live cells say. The allocator of KV slots says something else: nobody has given those slots back to it. *long* alone, with its 7 prompt tokens in chunks of 3, and the slots that are free when it has ended:

# %%
from reqpool.faulty import FreedBetweenChunks
from reqpool.serving import Engine, Request


def slots_in_the_end(pool_class):
    engine = Engine(pool_class(4, 11, "cpu"), num_slots=33, chunk_size=3, budget=8, tolerant=True)
    engine.add(Request("long", prompt="abcdefg", max_new_tokens=4))
    engine.run()
    return engine.slots.available_size()


for kind in (FreedBetweenChunks, ReqToTokenPool):
    print(f"{kind.__name__}: {slots_in_the_end(kind)} of 33 slots are free")

# %% jupyter={"source_hidden": true}
assert slots_in_the_end(FreedBetweenChunks) == 33 - 6 and slots_in_the_end(ReqToTokenPool) == 33

# %% [markdown]
# Six of 33 stay taken for ever: those of the first two chunks.
#
# *Try:*
#
# - A chunk size as long as the prompt: why is nothing wrong?
# - A smaller budget, until *other* is hurt too: what has changed for it?
# - *In separate engine steps*: does it save anybody?
#
# <details><summary>Answers</summary>
# As long as the prompt: one chunk, so there is no second one before which a row could be given back.
# <br>A budget of 4: <em>short</em> and the last chunk of <em>long</em> take a token each, 2 are left, and <em>other</em>'s prompt of three comes in two chunks. Its row is given back between them.
# <br>In separate engine steps: nobody is saved, the same letters are wrong.
# </details>
#
# All that was taken out is this:

# %%
source(FreedBetweenChunks)

# %% jupyter={"source_hidden": true}
broken, mended = chunks(7, 3, budget=8, freed_between=True), chunks(7, 3, budget=8)
assert list(broken.wrong) == ["long"] and mended.wrong == {}
assert chunks(7, 7, budget=8, freed_between=True).wrong == {}
assert chunks(7, 3, budget=8, mixed=False, freed_between=True).wrong == broken.wrong
for name, run in (("broken", broken), ("mended", mended)):
    print(f"{name}:", "; ".join(f"{rid} recites {text}" for rid, text in run.recited.items()))

# %% [markdown]
# ### The incident itself
#
# SGLang did not lose the first chunk: its scheduler wrote the slots of all chunks so far into the new row. What the scheduler had written was right. But the forward step runs later, and it had been launched with the number of the *old* row.
#
# So the players below have two **lanes**, one above the other. In the *schedule lane* the scheduler hands out rows and writes cells; in the *forward lane* the forward step reads them, later.
#
# There are two rows, request a with its chunks `abcd` and `efgh`, and a request b. The first three tokens of b, `xyz`, have K and V in the cache already, in slots 1 to 3. So the scheduler writes these slots into b's row as soon as b has one:

# %%
from reqpool.lab import read_while_freed

read_while_freed()

# %% [markdown]
# The last step of the players is the forward step of a's first chunk. On the left, row 1 is b's by then: at positions 0 to 2 the forward step finds b's slots, and behind them one of a's; what it reads stands below, as what a recites. On the right it finds what was there when it was launched. Who gives a row back while a step that uses it is under way, gives it back too early; chapter 05 is about such forward steps.

# %% jupyter={"source_hidden": true}
from reqpool.scenarios import row_read_while_freed

texts = [dict(row_read_while_freed(kind)[-1].facts)["texts"] for kind in (FreedBetweenChunks, ReqToTokenPool)]
(_, broken_text, _), (_, mended_text, _) = (lines[0] for lines in texts)
assert (broken_text, mended_text) == ("xyzd", "abcd")
print("broken: the forward step reads", broken_text)
print("mended: the forward step reads", mended_text)

# %% [markdown]
# ## Build it
#
# (A *piece*, where an exercise says so, is a chunk.) Each check lets what you wrote decide in small pools, and answers with the smallest case in which it goes wrong: with yours on the left, as it should be on the right. Nothing counts your attempts.
#
# ### A. Complete a line

# %%
from reqpool.examine import check, exercise

exercise("keeps_row")


# %%
def keeps_row(counter, committed):
    return ...  # your line


# %%
check(keeps_row)

# %% [markdown]
# ### B. Write a function

# %%
exercise("pieces")


# %%
def pieces(prompt_len, chunk_size, budget, num_running):
    return ...  # your lines


# %%
check(pieces)

# %% [markdown]
# ### C. Break the pool

# %%
exercise("hurt_by_the_budget")


# %%
def hurt_by_the_budget():
    return ...  # three numbers


# %%
check(hurt_by_the_budget)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true}
from reqpool.notebook import quiz

quiz("03")

# %% jupyter={"source_hidden": true}
assert len(prefill_steps(1000, 256, 0)) - 1 == 4
assert longest_wait(prefill_steps(8192, 256, 8)) == longest_wait(prefill_steps(8192, 64, 8)) == 6
assert time_to_first_token(prefill_steps(8192, 64, 8)) == 4 * time_to_first_token(prefill_steps(8192, 256, 8))

# %% [markdown]
# ## In real engines
#
# As read in their public code and threads (SGLang to 2026-08-31, sglang-jax 2026-08-21, mini-sglang 2026-03-13, TokenSpeed 2026-08-22, SGLang-FluentLLM 2026-02-24); the behaviour in words, not in code.
#
# | engine | between two chunks | who may keep a row |
# | --- | --- | --- |
# | SGLang | at most one request is between its chunks; its row is kept since pull 17850 | counter or committed length, as here; since pull 37167 (2026-08-31) whoever has slots reserved |
# | sglang-jax | kept; the table lies on the host, and a race like SGLang's was mended in pull 1008 | at most one request in a batch, and counter or committed length |
# | mini-sglang | the object of the chunk carries the row number on | nobody asks |
# | TokenSpeed, in C++ | the chunk's state hands a movable handle to the next state | only new and retracted requests can take a row |
# | SGLang-FluentLLM | kept on purpose; the forward thread adds to the verified length | nobody asks |
#
# Published figures for the same question: in Sarathi-Serve (Table 4, openchat, Yi-34B on two A100, budget 1,024) the 99th percentile of the time between tokens falls from 0.68 s with mixed batches of whole prompts to 0.14 s with mixed batches and chunks, and the median time to the first token rises from 0.53 s to 0.76 s. The same two directions as in the chart above; model, machine, load and scheduler are others, so only the directions may be compared.
#
# ## Summary
#
# A long prompt goes in chunks so that others need not wait for it. All its chunks stand in one row: `alloc` lets a request keep its row while the counter or the committed length says that it goes on, and each half is 0 somewhere. Who gives the row back between two chunks loses what stood there, or lets a forward step read somebody else's slots.

# %%
from reqpool.notebook import figure

figure("chunked_prefill.gif")

# %% [markdown]
# Words: [the glossary](glossary.md). **Next:** [04 · The padding row](04_padding_row.ipynb): what a batch of fixed size does with its empty places.
