"""Chapter 04, the padding row: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "load_that_hurts_nobody": Prediction(
        "A graph of four; the step writes a cell for every entry, as LightLLM's does. With how many live requests "
        "does nobody recite wrongly?",
        choices={(1,): "1", (2,): "2", (3,): "3", (4,): "4", (): "none of these"},
        why="A full batch has no dummy entry. So the fault comes and goes with the load: it is not there in a test "
        "whose batch happens to fit.",
        seen="The player stands after the first decode step: four requests in the graph of four. None of its steps, "
        "from the first to the last, is about dummy entries; and a, whose row is row 0, recites {recited} in the end. "
        "Row 0 alone does no harm: something has to point at it.",
    ),
    "cell_of_the_dummies": Prediction(
        "Two live requests in the graph of four: a is in row 0, b in row 1. The step writes the cell [row, seq_len - "
        "1] of every entry, and a dummy entry has row 0, length 2 and slot 0. Which cell of the table says another "
        "slot afterwards?",
        why="A dummy entry writes slot 0 to row 0, position 2 - 1. The two live entries write the cells at their own "
        "ends, which hold these slots already. So one cell changes, in the middle of request a. It is where a finds "
        "its y, and in the end a recites {recited}.",
        seen="Row 0, position 1 said slot 2, where K and V of a's y lie. Now it says slot 0, where those of the "
        "dummies lie. No length moved, and nobody has recited a wrong letter yet.",
    ),
}

QUIZ = (
    QuizQuestion(
        "A dummy entry carries row 0, length 1 and slot 0. Where do its K and V go?",
        right="to KV slot 0",
        choices={
            "to KV slot 0": "Yes: the dummy slot, which the allocator never hands out. The other zero, table row 0, "
            "is what it reads.",
            "to row 0, position 0 of the table": "No: a table holds slots, not K and V. Row 0 is read, and keeps its "
            "zeros.",
            "nowhere": "No: that would be slot -1, which vLLM's store kernels skip.",
        },
    ),
    QuizQuestion(
        "No padding row: request a is in row 0. The batch is [0, 1, 0, 0], and the step does `verified_lens[rows] += "
        "1`. By how much does a's length rise?",
        right="1",
        choices={
            "0": "No: row 0 is named, so its length rises.",
            "1": "Yes: torch's `+=` reads, adds and writes back, so a row named three times rises once. No damage, "
            "by luck.",
            "3": "No: that is `index_add_`, or a kernel with atomic adds. Then a's next step starts at the wrong "
            "position.",
        },
    ),
    QuizQuestion(
        "A pool with `size=8` and a padding row at row 0. How many entries must a buffer have that is indexed by row?",
        right="9",
        choices={
            "7": "No: there are eight usable rows, and the padding row besides.",
            "8": "No: that was pull 24439. The usable rows are 1 to 8, so row 8 exists, and lies behind the end of "
            "such a buffer.",
            "9": "Yes: for the rows 0 to 8.",
        },
    ),
)
