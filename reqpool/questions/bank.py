"""All questions of the course: predictions by name, quizzes by chapter."""

from reqpool.questions import chapter_00, chapter_01, chapter_02, chapter_03, chapter_04, chapter_05, chapter_11

CHAPTERS = {
    "00": chapter_00,
    "01": chapter_01,
    "02": chapter_02,
    "03": chapter_03,
    "04": chapter_04,
    "05": chapter_05,
    "11": chapter_11,
}
PREDICTIONS = {name: one for chapter in CHAPTERS.values() for name, one in chapter.PREDICTIONS.items()}
QUIZZES = {number: chapter.QUIZ for number, chapter in CHAPTERS.items()}
