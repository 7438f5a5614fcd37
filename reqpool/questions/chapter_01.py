"""Chapter 01, the table: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "context_doubled": Prediction(
        "A table has 2,048 rows, and the padding row, for a context of 131,072 tokens. Now the context length is "
        "doubled. The table then takes ...",
        choices={2: "twice as much", 1: "as much as before: only live tokens cost", 4: "four times as much"},
        why="Every row is as wide as the longest request may ever be, and it is all there from the start: {small} "
        "become {large}, even if every request has ten tokens.",
        seen="The line is the memory of 2,048 rows at every context length: each doubling to the right is one "
        "doubling up. The blue mark stands at the doubled context, at {large}. Two more doublings, and it has passed "
        "the dashed line. (The diamonds are tables of real engines; the section Change it names them.)",
    ),
    "cells_of_a_reused_row": Prediction(
        "A request with five tokens ends, and its row goes to another one, which has two tokens so far. In how many "
        "cells of that row does a slot stand, that is, a number that is not zero?",
        choices={0: "in 0", 2: "in 2", 5: "in 5"},
        why="Nobody erases: two cells are live, and three are stale. They still name slots that may be another "
        "request's by now.",
        seen="Row 1 has the alloced length 2. Positions 0 and 1 are live; positions 2, 3 and 4 are hatched and "
        "struck through, and still say the slots 13, 6 and 7 of the request before.",
    ),
}

QUIZ = (
    QuizQuestion(
        "A pool for 8 requests and 64 tokens each: how many cells has its table?",
        right="576",
        choices={
            "512": "No: 8 × 64 forgets the padding row, table row 0.",
            "585": "No: that is 9 × 65, and no column is added. KV slot 0 is a number in a cell, not a column.",
            "576": "Yes, 9 × 64: eight rows for requests, and table row 0. At 4 bytes each that is 2.25 KiB.",
        },
    ),
    QuizQuestion(
        "A row has the alloced length 3, and position 5 of it holds slot 21. What is that cell?",
        right="stale",
        choices={
            "live": "No: the live cells are those at the positions 0, 1 and 2, below the length.",
            "stale": "Yes: not zero, and beyond the length. Slot 21 may be anybody's by now.",
            "a fault": "No: `free` leaves the cells as they are, on purpose. The length says that this one does not "
            "count.",
        },
    ),
    QuizQuestion(
        "Why is the table so large when all requests are short?",
        right="each row is as wide as the longest request may ever be",
        choices={
            "each row is as wide as the longest request may ever be": "Yes: (size + 1) rows × max_context_len "
            "positions, from the start.",
            "K and V are in it": "No: only the number of the slot is, 4 bytes a token. K and V are in the KV cache.",
            "stale cells are never given back": "No: a stale cell costs nothing more. It is there anyway, as every "
            "cell is from the start.",
        },
    ),
)
