"""Questions that are answered before they are explained.

    predict("rows_fifo", outcome=rows, reveal=trace)     asked before it is shown
    quiz("02")                                           the three questions at the end of a chapter

    chapter_00.py .. chapter_05.py   what is asked, and why the answer is what it is: plain data, for reading
    written.py                       what such a text consists of: Prediction, QuizQuestion
    question.py, answering.py        the widget, and the ways to answer it: choices, a cell, a row and a position

The texts know no outcome: a prediction's comes from the notebook's own run. Who writes a chapter of their own hands
over a `Prediction` or a list of `QuizQuestion` in place of a name.
"""

from reqpool.questions.asking import predict, quiz
from reqpool.questions.question import Question
from reqpool.questions.written import Prediction, QuizQuestion

__all__ = ["Prediction", "Question", "QuizQuestion", "predict", "quiz"]
