"""Chapter 05, reset on reuse: what is asked."""

from reqpool.questions.written import Prediction, QuizQuestion

PREDICTIONS = {
    "where_b_writes": Prediction(
        "b has recited one letter; its four tokens are at positions 0 to 3 of row 1. Then the late write lands: the "
        "verified length of row 1 goes from 4 to 12. Now b's next token is given slot {given}, in the cell at "
        "position 4, and b's next step runs. From which cell does the step read the slot for K and V of this token?",
        why="A step starts at the verified length, and that is 12 by now. The cell at position 12 still says slot "
        "{slot}, from the time when the row was a's. Slot {given}, which b was given for this token, gets nothing.",
        seen="The sentence of this step says it: K and V of one token go to slot {slot}, and who holds that slot. "
        "The verified length of row 1 is 13 afterwards, where b has five tokens.",
    ),
    "who_recites_wrongly": Prediction(
        "The same run, to its end. Who recites wrongly after this late write?",
        choices={
            (): "nobody",
            ("b",): "b, the new owner of the row",
            ("c",): "c, a third request",
            ("b", "c"): "b and c",
        },
        why="Now the first tokens of b stand at positions 0 to 3 and the later ones from 12 on. b looks one period "
        "back from where its row says it is. The chain: {chain}.",
        seen="The player stands at its step 24, where the first wrong letter comes out: b says t instead of y. "
        "c is right to its end, although b wrote to a slot of c's: that one stands at c's position 12, and for its "
        "letters c reads the positions 0 to 11.",
    ),
    "reset_or_check": Prediction(
        "The late write lands right after b's `alloc`. Which of the two safeguards is enough when it is the only one?",
        choices={
            ("reset on reuse",): "reset on reuse alone",
            ("generation check",): "generation check alone",
            ("reset on reuse", "generation check"): "either alone is enough",
            (): "neither alone is enough",
        },
        why="The reset was at the alloc, and the alloc is over: it zeroed a length that was zero, and the write came "
        "after. The generation has moved, so the check sees that the row is somebody else's. A fence saves as well: "
        "then nothing comes late.",
        seen="This is the run with the reset alone, and the player stands at the late write, its step 15. In step 13 "
        "b got row 1; now the verified length of that row is 8; and in step 16, the next one, b's first forward step "
        "starts at position 8. The first wrong letter is c's, in step 53.",
    ),
}

QUIZ = (
    QuizQuestion(
        "When is reset on reuse not enough?",
        right="when the write can land after the row was handed out again",
        choices={
            "when the write can land while the row is free": "No: there it is just right. The next `alloc` zeroes "
            "what landed.",
            "when the late step has more than one token": "No: the size decides who is hurt and when. It does not "
            "decide whether the reset comes in time.",
            "when the write can land after the row was handed out again": "Yes. The reset happens at `alloc`; what "
            "comes later meets no further reset. It takes a generation check or a fence.",
        },
    ),
    QuizQuestion(
        "Only the generation check is on. A write of eight tokens lands between `free` and `alloc`, and then the row "
        "is handed out again. What happens?",
        right="the write passes, and the next owner starts at a wrong position",
        choices={
            "the write passes, and the next owner starts at a wrong position": "Yes. The count moves at `alloc`, so "
            "it was still the old one when the write landed. That is what the reset is for.",
            "the check drops the write, since its request is gone": "No: the check compares counts, and the count "
            "moves at `alloc`. Nobody had been handed the row yet.",
            "the write passes, and the `alloc` after it makes it good": "No: that would be the reset, which is off "
            "here. The length stays as the write left it.",
        },
    ),
    QuizQuestion(
        "Request c recites wrong letters, and every cell and length of c's row is right. What would you look for?",
        right="a stale cell of another row that says one of c's slots, and somebody who wrote there",
        choices={
            "a cell of c's row that was wrong for a moment and was mended before anybody looked": "No: nothing mends "
            "a cell of a row that is in use. What is wrong lies behind the table: K and V in the slots.",
            "a stale cell of another row that says one of c's slots, and somebody who wrote there": "Yes: a step "
            "that started too far on writes through stale cells, into whatever slots they say.",
            "a fault in the attention kernel, which reads other slots than the row says": "No: it read the slots "
            "that the row says. Something else lies in them.",
        },
    ),
)
