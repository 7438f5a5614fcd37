"""The last cell of a chapter that is made into a page: what would each question open, whatever is answered?

Before a commitment a question tells the browser nothing of it, so a kernel has to be asked while there is one. Prints
JSON: by the question's model id its answers, each with its verdict, and the ids of the widgets that open below it.
"""

import gc
import json

from reqpool.parts import prose
from reqpool.questions import Question
from reqpool.questions.answering import Choices


def answers_of(answering):
    """(what the page calls it, the answer, its words): of words or of cells."""
    if isinstance(answering, Choices):
        return [(str(number), word, prose(word)) for number, (_, word) in enumerate(answering.options)]
    rows, positions = answering.player.trace.first.table.shape
    return [(f"{row},{position}", (row, position), "") for row in range(rows) for position in range(positions)]


def told(question):
    verdicts, below = [], []
    for key, answer, words in answers_of(question.answering):
        verdict, opened = question.opens(answer)
        verdicts.append({"key": key, "words": words, "verdict": verdict})
        below = below or opened  # the same for every answer
    asked = {"action": question.button.description, "answers": verdicts, "opened": [one.model_id for one in below]}
    if not isinstance(question.answering, Choices):
        asked["cell"] = {"player": question.answering.player.model_id, "outcome": list(question.outcome)}
    return asked


print(json.dumps({one.model_id: told(one) for one in gc.get_objects() if type(one) is Question}))
