"""How long others wait while a long prompt is prefilled: the steps of a schedule, and a clock for them.

    chunk 512, 8 requests run    | 512 + 8 | 512 + 8 | 512 + 8 | ...        tokens in a step
    the clock                    | 10.4 ms | 10.4 ms | 10.4 ms | ...        every running request gets a token a step
    one piece, not mixed         |          160 ms          | 6 ms |        no token for anybody for 160 ms

The clock is two numbers (`step_seconds`); attention, the reading of K and V and the host's work are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from reqpool.serving.counts import step_seconds


@dataclass(frozen=True)
class Step:
    """Tokens of one step: of the long prompt, and of the running requests, one each."""

    prefill: int
    decode: int

    @property
    def ms(self) -> float:
        return 1000 * step_seconds(self.prefill + self.decode)


def prefill_steps(prompt_len: int, chunk_size: int, num_running: int, mixed: bool = True) -> list[Step]:
    """The steps from the launch of a prompt's first chunk to the first step that decodes after its last.

    What `Scheduler` does with that chunk size and a budget that does not bind.

    >>> prefill_steps(10, 4, num_running=2)[:3]
    [Step(prefill=4, decode=2), Step(prefill=4, decode=2), Step(prefill=2, decode=2)]
    """
    chunks = [min(chunk_size, prompt_len - start) for start in range(0, prompt_len, chunk_size)]
    return [*(Step(n, num_running if mixed else 0) for n in chunks), Step(0, num_running + 1)]


def longest_wait(steps: list[Step]) -> float:
    """The longest time in ms between two tokens of a running request: it gets one in every step that decodes.

    >>> round(longest_wait(prefill_steps(8000, 500, 8))), round(longest_wait(prefill_steps(8000, 500, 8, mixed=False)))
    (10, 166)
    """
    waits, since = [], 0.0
    for step in steps:
        since += step.ms
        if step.decode:
            waits.append(since)
            since = 0.0
    return max(waits)


def time_to_first_token(steps: list[Step]) -> float:
    """In ms: the first letter of the long prompt comes with its last chunk.

    >>> [round(time_to_first_token(prefill_steps(8000, chunk, 8))) for chunk in (100, 500, 8000)]
    [480, 163, 160]
    """
    return sum(step.ms for step in steps[:-1])
