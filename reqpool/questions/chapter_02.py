"""Chapter 02, alloc and free: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "rows_fifo": Prediction(
        "Four rows, first in, first out. Requests p, q and r take the rows 1, 2 and 3. Then q ends, and then p. The "
        "next batch has two requests, x and y. Which rows do they get?",
        choices={(1, 2): "[1, 2]", (2, 1): "[2, 1]", (4, 1): "[4, 1]", (4, 2): "[4, 2]"},
        why="Row 4 was free all the time, then 2 came behind it, then 1: the free rows are 4, 2, 1, and the batch "
        "takes from the front.",
        seen="At step 3 the free rows on top read 4, 2, 1. Step forward: x and y get the first two of them, and row 1 "
        "is left. What came back last waits longest.",
    ),
    "rows_lifo": Prediction(
        'A pool with `reuse="lifo"`, and exactly the same calls. Which rows do x and y get now?',
        choices={(2, 1): "[2, 1]", (1, 2): "[1, 2]", (4, 2): "[4, 2]", (4, 1): "[4, 1]"},
        why="What was freed last goes first: the free rows are 1, 2, 4.",
        seen="At step 3 the free rows on top read 1, 2, 4: each row that came back went to the front. Step forward: "
        "row 4 is left, which nobody has had yet.",
    ),
}

QUIZ = (
    QuizQuestion(
        "A batch of three new requests comes, and two rows are free. What does `alloc` do?",
        right="it returns `None`, and both rows stay free",
        choices={
            "it returns two rows": "No: all or nothing. Two thirds of a batch is no batch.",
            "it raises `ValueError`": "No: an error is for what is never right. This call may be right in a moment.",
            "it returns `None`, and both rows stay free": "Yes: `None` is *not now*, and nothing has changed.",
        },
    ),
    QuizQuestion(
        "A row is freed and, before anybody else writes, one looks at its cells. What is there?",
        right="the slots of the old owner",
        choices={
            "the slots of the old owner": "Yes, and they are stale: beyond the length of the row, which is 0 now.",
            "zeros": "No: `clear` writes zeros, `free` does not. The length becomes zero, and that is enough.",
            "anything": "No: `free` writes no cell, so what is there is exactly what was there before.",
        },
    ),
    QuizQuestion(
        "A row is freed twice, and nobody notices. When does it hurt?",
        right="when two later requests get that row",
        choices={
            "at once": "No: the second free changes only the list of free rows. That is why such a fault is hard to "
            "find.",
            "when two later requests get that row": "Yes: far away from the mistake. Hence the check at the call "
            "itself.",
            "never: the row is free anyway": "No: it stands among the free rows twice, so it can be handed out twice.",
        },
    ),
)
