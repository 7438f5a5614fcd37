"""A one-layer attention model with hand-set weights that continues a text by repeating it: xyz -> xyzxyzxyz...

    token at position p     K = one-hot(p)      V = one-hot(letter)
    letter at position p    Q = one-hot(p - period)      period = length of the prompt
    softmax(Q K / T) picks the V at position p - period: the letter to recite

Nothing is trained or downloaded, the attention is a real softmax over K and V that really lie in the cache and are
found through `req_to_token`, and one wrong cell makes a wrong letter: where no key is at the wanted position, an
attention sink (a logit at half the sharpness, whose value is the dummy letter) outweighs all others, and the model says
"·". The same letters on CPU and GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqpool.kv import KVCache

DUMMY = "·"  # what dummy entries say; no prompt may hold it
LETTERS = DUMMY + "abcdefghijklmnopqrstuvwxyz"
TOKENS = {letter: token for token, letter in enumerate(LETTERS)}
SHARPNESS = 50.0  # of the softmax: the position asked for outweighs all others by e^50


class Recite:
    """The model and its cache.

    Args:
        num_slots: usable KV slots.
        max_context_len: positions a request can have.
    """

    def __init__(self, num_slots: int, max_context_len: int, device: torch.device | str = "cpu") -> None:
        self.width = max(max_context_len, len(LETTERS))
        self.cache = KVCache(num_slots, head_dim=self.width, device=device)
        self.device = self.cache.k.device
        self.places = torch.arange(self.width, device=self.device)
        # Where two letters weigh the same, the earlier one is said: on every device.
        self.bias = -1e-3 * torch.arange(len(LETTERS), device=self.device)

    def check_prompt(self, prompt: str, rid: str) -> None:
        """Refuse a prompt with a letter that the model does not know, or with the dummies' own."""
        odd = sorted(set(prompt) - set(LETTERS[1:]))
        if odd:
            raise ValueError(
                f"the prompt of request {rid!r} holds {odd[0]!r}: the reciting model knows the letters {LETTERS[1:]}"
            )

    def tokens(self, text: str) -> Tensor:
        """Letters as token ids [len(text)]; a damaged text may hold the dummy letter."""
        return torch.tensor([TOKENS[letter] for letter in text], dtype=torch.int64, device=self.device)

    def write(self, slots: Tensor, positions: Tensor, tokens: Tensor) -> None:
        """K and V of tokens [n] at positions [n] go to slots [n]; at slot -1 nothing is stored, as by vLLM's kernel."""
        # A position beyond the last place has no key at all: a runaway length must not crash the lesson.
        k, v = (self._one_hot(numbers)[:, None] for numbers in (positions, tokens))  # [n, 1 head, width]
        skipped, slots = (slots < 0)[:, None, None], slots.clamp(min=0)
        k, v = (torch.where(skipped, old, new) for old, new in zip(self.cache.read(0, slots), (k, v), strict=True))
        self.cache.write(0, slots, k, v)

    def _one_hot(self, numbers: Tensor) -> Tensor:
        return (numbers[:, None] == self.places).to(self.cache.k.dtype)

    def attend(self, wanted: Tensor, slots: Tensor, mask: Tensor) -> Tensor:
        """The letter that each entry finds at its wanted position; the dummy letter where no key is there.

        Args:
            wanted: positions [B] to look for, int64.
            slots: [B, L] what each entry may read; mask: [B, L] which of them count. Slot -1 counts nowhere.
        Returns:
            token ids [B].
        """
        k, v = (kv.squeeze(-2) for kv in self.cache.read(0, slots))  # [B, L, width]
        scores = SHARPNESS * torch.einsum("bd,bld->bl", self._one_hot(wanted), k)
        scores = scores.masked_fill(~mask | (slots < 0), float("-inf"))
        sink = scores.new_full((len(scores), 1), SHARPNESS / 2)
        weights = torch.softmax(torch.cat([sink, scores], dim=1), dim=-1)
        letters = torch.einsum("bl,bld->bd", weights[:, 1:], v)[:, : len(LETTERS)]
        letters[:, TOKENS[DUMMY]] += weights[:, 0]
        return torch.argmax(letters + self.bias, dim=-1)
