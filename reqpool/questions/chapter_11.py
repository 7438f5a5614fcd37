"""Chapter 11, build your own pool: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "engine_without_reset": Prediction(
        "The engine runs on a pool that keeps every law but the reset on reuse. Request a is aborted while its chunk "
        "of 4 tokens is under way; the chunk's length lands in a's row, which is free by then. Then b gets this row; "
        "c and d have the other one. Who recites wrongly?",
        choices={
            (): "nobody",
            ("b",): "b, who got the row",
            ("b", "d"): "b, and d, who never had the row",
            ("b", "c", "d"): "all three",
        },
        why="b begins at position 4, where the cells still say a's slots. So b's K and V go to slots that belong to "
        "whoever has them by now, and b does not find its own. d got one of those slots.",
        seen="At step 14 of the player 4 tokens land in row 2, which is free. At step 20 request b gets it with this "
        "length, and nothing in the picture says reset. The first letter that is wrong comes at step 50.",
    ),
}

QUIZ = (
    QuizQuestion(
        "An engine has run for a day on a pool, and every letter was right. What do you know of the pool?",
        right="that no step of this day needed a law that the pool breaks",
        choices={
            "that no step of this day needed a law that the pool breaks": "Yes. A run meets some sequences of "
            "operations. The check meets all short ones, and that is where the rare ones are.",
            "that it keeps all eight laws": "No: you have just seen `CounterOnly` recite without a fault. In this run "
            "the last chunk was always launched while the one before was under way.",
            "nothing, since letters say nothing about rows": "No: a letter comes out of K and V that were found by way "
            "of the row. A wrong cell that is read is heard.",
        },
    ),
    QuizQuestion(
        "`alloc` zeroes both lengths of a row that it gives. May `free` then leave them as they are?",
        right="no: a free row with a length looks like tokens that somebody has lost",
        choices={
            "yes: nobody looks at the lengths of a free row": "No: whoever looks for leaks looks exactly there. When "
            "an engine is idle every length but row 0's must be zero.",
            "yes: what is written twice is wasted": "No: the two writes answer two questions. One says that nobody is "
            "here, the other that a newcomer begins at 0.",
            "no: a free row with a length looks like tokens that somebody has lost": "Yes: chapter 05's idle check "
            "would warn of every row that was ever used, and a real leak would not be seen among them.",
        },
    ),
    QuizQuestion(
        "`clear` makes the list of free rows anew and forgets to tell the holders. When does it hurt?",
        right="when one of them is freed or goes on, in a row that somebody else has by then",
        choices={
            "at once: the rows are handed out twice": "No: each row is on the new list once. The old holders only "
            "believe that theirs is still their own.",
            "when one of them is freed or goes on, in a row that somebody else has by then": "Yes: it puts a row on "
            "the list that is not its own, or writes over the newcomer's tokens.",
            "never: an engine that clears its pool has stopped": "No: it is called in order to go on. "
            "Requests that came before it may still be there, and name their rows.",
        },
    ),
)
