"""The reciting model: exact when every cell is right, and wrong at exactly the letter whose cell is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from reqpool.pool import ReqToTokenPool
from reqpool.serving import DUMMY, LETTERS, Engine, Recite, Request


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine made these small tensors ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- the request -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "n", "wanted"),
    [("xyz", 1, "x"), ("xyz", 3, "xyz"), ("xyz", 7, "xyzxyzx"), ("a", 4, "aaaa"), ("abcdefgh", 2, "ab")],
)
def test_a_request_is_expected_to_go_on_where_its_prompt_began(prompt: str, n: int, wanted: str) -> None:
    assert Request("a", prompt=prompt, max_new_tokens=n).expected == wanted


@pytest.mark.parametrize("limit", [0, -1])
def test_an_output_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"'a': max_new_tokens is {limit}, wanted at least 1"):
        Request("a", prompt="xyz", max_new_tokens=limit)


@pytest.mark.parametrize("limit", [1.0, True, None, "3"])
def test_an_output_limit_is_an_integer(limit: object) -> None:
    with pytest.raises(TypeError, match="max_new_tokens of request 'a'"):
        Request("a", prompt="xyz", max_new_tokens=limit)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="'a': the prompt is empty"):
        Request("a", prompt="")


@pytest.mark.parametrize("prompt", [["x"], b"xyz", 3, None])
def test_a_prompt_is_a_text(prompt: object) -> None:
    with pytest.raises(TypeError, match="the prompt of request 'a' must be a text"):
        Request("a", prompt=prompt)


@pytest.mark.parametrize("arrival", ["3", None, [1]])
def test_an_arrival_is_a_number(arrival: object) -> None:
    with pytest.raises(TypeError, match="the arrival of request 'a' must be a number"):
        Request("a", prompt="xyz", arrival=arrival)


def test_requests_are_compared_by_identity_and_say_who_they_are() -> None:
    a, b = Request("a", prompt="xyz"), Request("a", prompt="xyz")
    assert a != b and a == a
    assert "rid='a'" in repr(a) and "pool_idx=None" in repr(a)


# ---- the attention, without an engine ----------------------------------------------------------------------------


def written(text: str, slots: list[int], width: int = 32) -> Recite:
    model = Recite(num_slots=max(slots), max_context_len=width)
    model.write(torch.tensor(slots), torch.arange(len(text)), model.tokens(text))
    return model


def ask(model: Recite, wanted: list[int], slots: list[list[int]], lens: list[int]) -> str:
    mask = torch.arange(len(slots[0])) < torch.tensor(lens)[:, None]
    return "".join(LETTERS[token] for token in model.attend(torch.tensor(wanted), torch.tensor(slots), mask).tolist())


def test_every_position_is_found_wherever_its_slot_lies() -> None:
    text, generator = "thequickbrownfoxjumpsoverthe", torch.Generator().manual_seed(1)
    slots = (torch.randperm(100, generator=generator)[: len(text)] + 1).tolist()
    model = written(text, slots)
    for order in (slots, slots[::-1]):  # the order in which the slots are read does not matter
        assert ask(model, list(range(len(text))), [order] * len(text), [len(text)] * len(text)) == text


def test_a_batch_reads_each_entry_up_to_its_own_length() -> None:
    model = written("abcdef", [6, 5, 4, 3, 2, 1])
    assert ask(model, [0, 1, 2], [[6, 5, 1], [6, 5, 4], [6, 5, 4]], [1, 2, 3]) == "abc"


def test_the_right_letter_outweighs_a_thousand_others() -> None:
    text = "b" + "a" * 999
    model = written(text, list(range(1, 1001)), width=1000)
    assert ask(model, [0], [list(range(1, 1001))], [1000]) == "b"


def test_an_entry_that_may_read_nothing_says_the_dummy_letter() -> None:
    assert ask(written("abc", [1, 2, 3]), [0], [[1, 2, 3]], [0]) == DUMMY


@pytest.mark.parametrize("text", ["aaaa", "aaab", "abcd"])
def test_where_no_key_is_at_the_wanted_position_it_is_the_dummy_letter(text: str) -> None:
    """However many of the others agree: a thousand of them weigh less than the sink."""
    model = written(text, [1, 2, 3, 4])
    assert ask(model, [4, -1, 99], [[1, 2, 3, 4] * 250] * 3, [1000] * 3) == 3 * DUMMY


def test_slot_minus_1_is_read_as_nothing_and_not_as_the_last_slot() -> None:
    model = written("abc", [1, 2, 3])  # 3 is the last slot
    assert ask(model, [0, 2], [[1, -1]] * 2, [2] * 2) == "a" + DUMMY


def test_slot_minus_1_stores_nothing() -> None:
    model = written("abc", [1, 2, 3])
    before = model.cache.k.clone(), model.cache.v.clone()
    model.write(torch.tensor([-1, 3]), torch.tensor([7, 2]), model.tokens("zd"))
    assert ask(model, [0, 1, 2], [[1, 2, 3]] * 3, [3] * 3) == "abd"
    for old, new in zip(before, (model.cache.k, model.cache.v), strict=True):
        assert torch.equal(old[:, :3], new[:, :3])


def test_a_position_beyond_the_last_place_has_no_key_and_crashes_nothing() -> None:
    model = Recite(num_slots=3, max_context_len=4)
    model.write(torch.tensor([1, 2]), torch.tensor([model.width, -1]), model.tokens("ab"))
    assert not model.cache.k.any()


@pytest.mark.parametrize("prompt", ["xYz", "x z", "x1", f"xy{DUMMY}", "é"])
def test_a_letter_that_the_model_does_not_know_is_named(prompt: str) -> None:
    engine = Engine(ReqToTokenPool(2, 16, device="cpu"), num_slots=16)
    odd = next(letter for letter in prompt if letter not in LETTERS[1:])
    with pytest.raises(ValueError, match=f"request 'a' holds '{odd}'"):
        engine.add(Request("a", prompt=prompt, max_new_tokens=2))
    assert engine.scheduler.idle
    a = engine.add(Request("a", prompt="xyz", max_new_tokens=2))  # the refused one did not use up the rid
    engine.run()
    assert a.output == "xy"


# ---- one wrong cell, one wrong letter ----------------------------------------------------------------------------

PERIOD, OUTPUT = 4, 12


def damaged(prompts: tuple[str, str], computed: int, position: int, slot_of: str, overlap: bool) -> Request:
    """Recite after cell [row, position] was replaced when `computed` tokens of "a" were known good."""
    pool = ReqToTokenPool(2, PERIOD + OUTPUT, device="cpu")
    engine = Engine(pool, num_slots=50, overlap=overlap, tolerant=True)  # its slots will not add up
    a, b = (
        engine.add(Request(rid, prompt=prompt, max_new_tokens=OUTPUT))
        for rid, prompt in zip("ab", prompts, strict=True)
    )
    while a.req_pool_idx is None or int(pool.verified_lens[a.req_pool_idx]) < computed:
        engine.step()
    row = pool.req_to_token[a.req_pool_idx]
    right = int(row[position])
    row[position] = {
        "the dummy slot": 0,
        "a slot that nobody has": 50,
        "the same position of another request": int(pool.req_to_token[b.req_pool_idx, position]),
        "another position of another request": int(pool.req_to_token[b.req_pool_idx, (position + 1) % computed]),
    }[slot_of]
    while len(a.output) < OUTPUT:
        engine.step()
    assert int(row[position]) != right
    return a


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("computed", [PERIOD, PERIOD + 1, 2 * PERIOD + 3])
@pytest.mark.parametrize(
    "slot_of",
    [
        "the dummy slot",
        "a slot that nobody has",
        "the same position of another request",
        "another position of another request",
    ],
)
def test_one_wrong_cell_makes_its_letter_wrong_and_none_before_it(slot_of: str, computed: int, overlap: bool) -> None:
    """The letter at position p + period reads cell p, so output letter p is the first that can be wrong, and is."""
    for position in range(computed - PERIOD + 1, computed):
        a = damaged(("wxyz", "abcd"), computed, position, slot_of, overlap)
        assert a.output[:position] == a.expected[:position]
        assert a.output[position] != a.expected[position]
        if slot_of == "the same position of another request":  # one reads whose letter it is
            assert a.output[position] == "abcd"[position % PERIOD]


@pytest.mark.parametrize(
    ("prompt", "position", "slot_of"), [("abc", 3, 0), ("aab", 1, None), ("aab", 1, 0), ("aaaa", 2, 3)]
)
def test_one_wrong_cell_makes_a_wrong_letter_although_the_letters_are_alike(
    prompt: str, position: int, slot_of: int | None
) -> None:
    """The cell says the slot of another position of the request, or the dummy slot: no key is where it is sought."""
    engine = Engine(ReqToTokenPool(1, 24, device="cpu"), num_slots=48, tolerant=True)
    a = engine.add(Request("a", prompt=prompt, max_new_tokens=9))
    while a.computed_len < max(len(prompt), position + 1):
        engine.step()
    row = engine.pool.req_to_token[1]
    row[position] = 0 if slot_of is None else row[slot_of]
    engine.run()
    assert a.output[position] == DUMMY and a.output[:position] == a.expected[:position]


def test_a_cell_that_was_read_already_harms_nothing() -> None:
    for position in range(PERIOD):
        a = damaged(("wxyz", "abcd"), 2 * PERIOD + 1, position, "the same position of another request", False)
        assert a.output == a.expected
