"""The last cell of a chapter that is made into a page: what would each question open, whatever is answered?

Before a commitment a question tells the browser nothing of it, so a kernel has to be asked while there is one. Prints
JSON: by the question's model id its answers, each with its verdict, and the ids of the widgets that open below it.
"""

import gc
import itertools
import json

from reqpool.parts import prose
from reqpool.player import Player
from reqpool.questions import Question
from reqpool.questions.answering import Choices


def answers_of(answering):
    """(what the page calls it, the answer, its words): of words or of cells."""
    if isinstance(answering, Choices):
        return [(str(number), word, prose(word)) for number, (_, word) in enumerate(answering.options)]
    rows, positions = table_of(answering).first.table.shape
    return [(f"{row},{position}", (row, position), "") for row, position in itertools.product(range(rows), range(positions))]


def table_of(answering):
    player = getattr(answering, "player", None) or answering.children[0]
    return player.trace


def told(question):
    verdicts, below = [], []
    for key, answer, words in answers_of(question.answering):
        verdict, opened = question.opens(answer)
        verdicts.append({"key": key, "words": words, "verdict": verdict})
        below = below or opened  # the same for every answer
    asked = {"action": question.button.description, "answers": verdicts, "opened": [one.model_id for one in below]}
    if not isinstance(question.answering, Choices):
        asked["outcome"] = list(question.outcome)
        if not hasattr(question.answering, "player"):  # a framed player, which is a page of its own
            table = table_of(question.answering)
            asked["table"] = Player(table, step=len(table)).model_id
    return asked


print(json.dumps({one.model_id: told(one) for one in gc.get_objects() if type(one) is Question}))
