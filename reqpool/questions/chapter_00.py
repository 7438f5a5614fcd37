"""Chapter 00, where an engine keeps your tokens: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "cell_of_the_next_token": Prediction(
        "Request a has three tokens, in the slots 5, 2 and 7. One more token is decoded, and it gets slot 4. Which "
        "cell of the table changes?",
        why="The row says whose token it is, and a has row 1. The position says which of its tokens, counted from 0: "
        "the fourth is at position 3. The slot, 4, is what is written into the cell; it does not say where the cell "
        "is.",
        seen="One cell was written, in row 1 at position 3, and a's alloced length went from 3 to 4. Nothing else "
        "moved.",
    ),
}

QUIZ = (
    QuizQuestion(
        "What is in a cell of `req_to_token`?",
        right="the number of a slot of the KV cache",
        choices={
            "the id of a token": "No: token ids are words of the vocabulary. An engine keeps them with the request.",
            "the number of a slot of the KV cache": "Yes: the place where K and V of that token lie.",
            "K and V of the token": "No: they are large, and lie in the KV cache. The cell says where.",
        },
    ),
    QuizQuestion(
        "Which two zeros are there?",
        right="table row 0, the padding row, and KV slot 0, the dummy slot",
        choices={
            "row 0 and position 0, both padding": "No: position 0 is where the first token of every request stands.",
            "there is only one: row 0 is slot 0": "No, and this is the most common muddle. A row is a place for a "
            "request, a slot a place for one token's K and V. The cells of the padding row say slot 0: so both meet "
            "there, and are two things.",
            "table row 0, the padding row, and KV slot 0, the dummy slot": "Yes. The first is on the request axis, "
            "the second on the token axis.",
        },
    ),
    QuizQuestion(
        "Two rows name the same slot, though nothing was meant to be shared. What does a sum of free and held rows "
        "show?",
        right="nothing: it balances",
        choices={
            "nothing: it balances": "Yes: every row is free or held, exactly once. `pool.check()` passed one step "
            "before the text was wrong.",
            "one row too many": "No: both rows are held, exactly once each.",
            "one slot too few": "No: it counts rows, and a slot is not a row. SGLang's sum is of pages; it stayed "
            "balanced too, for another reason.",
        },
    ),
)
