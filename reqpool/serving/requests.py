"""A request as the serving loop knows it: what the pool needs, and what the learner wants to read."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from reqpool.pool import Req, _integer

STATES = ("waiting", "prefilling", "running", "retracted", "finished", "aborted")


def no_fact(kind: str, **facts: Any) -> None:
    """Where nobody listens."""


@dataclass(eq=False, repr=False)
class Request(Req):
    """Attributes beyond `Req`:

    prompt: its letters; the output continues it by repeating it.
    max_new_tokens: how many letters to recite.
    arrival: when it comes, in engine steps or seconds, as the driver counts.
    output: the letters so far.
    computed_len: tokens whose K and V are computed by a step that has been launched.
    state: one of STATES.

    >>> Request("a", prompt="xyz", max_new_tokens=5).expected
    'xyzxy'
    """

    prompt: str = ""
    max_new_tokens: int = 1
    arrival: float = 0
    output: str = ""
    computed_len: int = 0
    state: str = "waiting"

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):
            raise TypeError(f"the prompt of request {self.rid!r} must be a text, got {self.prompt!r}")
        if not isinstance(self.arrival, Real):
            raise TypeError(f"the arrival of request {self.rid!r} must be a number, got {self.arrival!r}")
        self.max_new_tokens = _integer(f"max_new_tokens of request {self.rid!r}", self.max_new_tokens)
        if self.max_new_tokens < 1:
            raise ValueError(f"request {self.rid!r}: max_new_tokens is {self.max_new_tokens}, wanted at least 1")
        if self.prompt_len < 1:
            raise ValueError(f"request {self.rid!r}: the prompt is empty, wanted at least one token")

    @property
    def prompt_len(self) -> int:
        return len(self.prompt)

    @property
    def output_len(self) -> int:
        return len(self.output)

    @property
    def total_len(self) -> int:
        """Tokens of prompt and output so far: what a resumed request prefills."""
        return self.prompt_len + self.output_len

    @property
    def text(self) -> str:
        return self.prompt + self.output

    @property
    def expected(self) -> str:
        """What it recites when everything is right: its prompt, again and again."""
        times = -(-self.max_new_tokens // self.prompt_len)
        return (self.prompt * times)[: self.max_new_tokens]

    def take(self, letter: str) -> None:
        """One more token has come out."""
        self.output += letter

    @property
    def fresh(self) -> bool:
        """Nothing has happened to it yet."""
        return self.state == "waiting" and self.req_pool_idx is None and not (self.output_len or self.computed_len)

    @property
    def ended(self) -> bool:
        return self.state in ("finished", "aborted")
