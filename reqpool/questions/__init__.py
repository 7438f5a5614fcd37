"""Questions that are answered before they are explained.

predict(...)     a committed answer unlocks the reveal; prediction and outcome stand side by side
quiz([...])      questions, with every answer explained
"""

from reqpool.questions.asking import predict, quiz
from reqpool.questions.question import Question

__all__ = ["Question", "predict", "quiz"]
