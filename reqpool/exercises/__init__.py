"""Exercises: what is asked, and an examiner that answers with the smallest case in which an answer is wrong.

    guard       the learner's code runs here; limits: of instructions, memory and time
    values      what it returned, in plain Python
    search      the smallest sequence of operations that goes wrong
    exercise    Exercise, Case, Verdict, examine; the judges
    chapter_NN  the exercises A, B and C of a chapter
    own_pool    chapter 11: the learner's own pool, examined by the laws that guard ours
    catalogue   all of them, by name
    bank        wrong answers that people really give: every one must be rejected

How a learner meets all this is in `reqpool.examine`.
"""
