"""Chapter 03, chunked prefill: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "counter_at_the_last_chunk": Prediction(
        "The third chunk is the last one. It is launched, and asks `alloc` for its row. What is "
        "`inflight_middle_chunks` at this moment?",
        choices={0: "0", 1: "1", 2: "2", 3: "3"},
        why="The last chunk is no middle chunk, so it does not count; and the results of the other two are there. "
        "The counter alone would say that there is nothing to continue.",
        seen="At step 13 the sentence says that `inflight_middle_chunks` is 0 and `kv_committed_len` is 8. Step "
        "forward: in step 14 request a keeps row 1 all the same, and in step 15 its last two tokens go to positions 8 "
        "and 9.",
    ),
    "counter_only": Prediction(
        "The same prompt, the same three chunks, on a `CounterOnly` pool. What happens?",
        choices={
            (1,): "the first `alloc` raises",
            (2,): "the second `alloc` raises",
            (3,): "the third `alloc` raises",
            (): "nothing raises",
        },
        why="Two chunks pass, since the counter is 1 when the second one asks, and the first takes a new row. At the "
        "third it is 0, and 8 tokens are in the row: all this work is refused at the last chunk. That is sglang-jax "
        "pull 998.",
        seen="The last event is a refusal. `kv_committed_len` is 8, as the step before says, and 8 positions of row "
        "1 are verified. `ReqToTokenPool` keeps the row here.",
    ),
}

QUIZ = (
    QuizQuestion(
        "A prompt of 1,000 tokens, chunk size 256, nobody else there. How often is `alloc` asked for this request "
        "until its first token, and how many rows does it take?",
        right="4 times, 1 row",
        choices={
            "once, 1 row": "No: every batch asks for all its requests, and the prompt is in four batches. From the "
            "second time on the answer is the row that is there.",
            "4 times, 1 row": "Yes: 256 + 256 + 256 + 232. The first `alloc` takes a row, the other three keep it.",
            "4 times, 4 rows": "No: a request that has begun keeps its row. If each chunk took a new one, what the "
            "chunks before had written would be lost to it.",
        },
    ),
    QuizQuestion(
        "Results come at once. Which half of the condition keeps the row at the last chunk?",
        right="`kv_committed_len > 0`",
        choices={
            "`kv_committed_len > 0`": "Yes: what the earlier chunks computed is committed.",
            "`inflight_middle_chunks > 0`": "No: the last chunk is no middle chunk, and the others have their "
            "results. The counter is 0.",
            "none: the last chunk gets a new row": "No: a new row is empty, so the end of the prompt would stand "
            "alone at its beginning.",
        },
    ),
    QuizQuestion(
        "With our clock (6 ms at least, 50 tokens a millisecond), 8 requests run and a long prompt comes. You go "
        "from chunk size 256 to 64. What happens?",
        right="nobody waits less, and the long prompt waits longer",
        choices={
            "the running requests get their tokens four times as fast": "No: an engine step takes 6 ms with 256 + 8 "
            "tokens, and 6 ms with 64 + 8.",
            "the long prompt has its first token earlier": "No: it needs four times as many engine steps, and each "
            "takes 6 ms as before.",
            "nobody waits less, and the long prompt waits longer": "Yes: up to 300 tokens an engine step takes 6 ms, "
            "so smaller chunks make none shorter, and there are four times as many.",
        },
    ),
)
