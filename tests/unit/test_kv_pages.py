"""Pages and shared owners of the slot allocator, beside lists and dicts that say the same slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from reqpool.kv import TokenToKVPoolAllocator

FORMS = st.sampled_from([list, tuple, torch.tensor, lambda slots: torch.tensor(slots, dtype=torch.int32)])


def in_form(form: Callable[[list[int]], Any], slots: list[int]) -> Any:
    return form(slots) if slots else []  # an empty tensor is one of floats


# ---- beside a slow model -----------------------------------------------------------------------------------------


class SlowPages:
    """The same promises, a slot at a time: how many owners each slot has, and which pages are free, in what order."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.free_pages = list(range(1, num_pages + 1))
        self.owners = {slot: 0 for page in self.free_pages for slot in self.slots_of(page)}

    def slots_of(self, page: int) -> list[int]:
        return [page * self.page_size + offset for offset in range(self.page_size)]

    @property
    def owned(self) -> list[int]:
        return [slot for slot in self.owners if self.owners[slot] > 0]

    @property
    def not_owned(self) -> list[int]:
        return [slot for slot in self.owners if self.owners[slot] == 0]

    def alloc(self, n: int, after: int | None) -> list[int] | None:
        found: list[int] = []
        if after is not None:
            slot = after + 1
            while slot in self.slots_of(after // self.page_size) and self.owners[slot] == 0 and len(found) < n:
                found.append(slot)
                slot += 1
        pages = list(self.free_pages)
        while len(found) < n:
            if not pages:
                return None
            found += self.slots_of(pages.pop(0))
        self.free_pages = pages
        for slot in found[:n]:
            self.owners[slot] += 1
        return found[:n]

    def free(self, slots: list[int]) -> None:
        for slot in slots:
            self.owners[slot] -= 1
        for slot in slots:
            page = slot // self.page_size
            if page not in self.free_pages and all(self.owners[other] == 0 for other in self.slots_of(page)):
                self.free_pages.append(page)


class PageMachine(RuleBasedStateMachine):
    @initialize(page_size=st.sampled_from([1, 2, 4]), num_pages=st.integers(1, 4))
    def begin(self, page_size: int, num_pages: int) -> None:
        self.page_size, self.num_pages = page_size, num_pages
        self.slots = TokenToKVPoolAllocator(num_pages * page_size, page_size)
        self.model = SlowPages(num_pages, page_size)

    def some(self, data: st.DataObject, of: list[int]) -> list[int]:
        return data.draw(st.permutations(of))[: data.draw(st.integers(0, len(of)))]

    @rule(n=st.integers(0, 9))
    def alloc(self, n: int) -> None:
        self.compare(n, None)

    @rule(n=st.integers(0, 9), data=st.data())
    def go_on(self, n: int, data: st.DataObject) -> None:
        if self.model.owned:
            self.compare(n, data.draw(st.sampled_from(self.model.owned)))

    def compare(self, n: int, after: int | None) -> None:
        got, wanted = self.slots.alloc(n, after=after), self.model.alloc(n, after)
        if wanted is None:
            assert got is None
            return
        assert got is not None and got.dtype == torch.int64 and got.tolist() == wanted
        got += 100  # the caller's tensor is the caller's

    @rule(data=st.data(), form=FORMS)
    def share(self, data: st.DataObject, form: Any) -> None:
        some = self.some(data, self.model.owned)
        self.slots.share(in_form(form, some))
        for slot in some:
            self.model.owners[slot] += 1

    @rule(data=st.data(), form=FORMS)
    def free(self, data: st.DataObject, form: Any) -> None:
        some = self.some(data, self.model.owned)
        self.slots.free(in_form(form, some))
        self.model.free(some)

    @rule(data=st.data())
    def free_what_is_taken(self, data: st.DataObject) -> None:
        some = data.draw(st.lists(st.integers(-2, (self.num_pages + 1) * self.page_size + 2), max_size=8))
        wanted = sorted(set(some) & set(self.model.owned))
        assert self.slots.free_what_is_taken(torch.tensor(some, dtype=torch.int32)) == len(wanted)
        self.model.free(wanted)

    @rule(data=st.data(), call=st.sampled_from(["free", "share", "alloc"]))
    def a_slot_without_an_owner_is_refused_and_nothing_changes(self, data: st.DataObject, call: str) -> None:
        beyond = (self.num_pages + 1) * self.page_size
        slot = data.draw(st.sampled_from([*range(-1, self.page_size), *self.model.not_owned, beyond]))
        some = [slot, *self.some(data, self.model.owned)]
        with pytest.raises(ValueError, match=f"slot {slot}:" if slot >= 0 or call == "alloc" else "-1"):
            if call == "alloc":
                self.slots.alloc(99, after=slot)  # never right comes before not now
            else:
                getattr(self.slots, call)(data.draw(st.permutations(some)))

    @rule(data=st.data(), call=st.sampled_from(["free", "share"]))
    def a_slot_named_twice_is_refused_and_nothing_changes(self, data: st.DataObject, call: str) -> None:
        if self.model.owned:
            slot = data.draw(st.sampled_from(self.model.owned))
            with pytest.raises(ValueError, match=f"{call}: a slot is named twice"):
                getattr(self.slots, call)([slot, *self.model.owned])

    @rule()
    def clear(self) -> None:
        self.slots.clear()
        self.model = SlowPages(self.num_pages, self.page_size)

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "slots"):
            self.slots.check()
            assert self.slots.available_size() == len(self.model.free_pages) * self.page_size

    def teardown(self) -> None:
        """All owners let go, one round after the other; then the pages come in the order of the model."""
        if hasattr(self, "slots"):
            while owned := self.model.owned:
                self.slots.free(owned)
                self.model.free(owned)
                self.adds_up()
            self.compare(self.num_pages * self.page_size, None)


def test_the_allocator_is_the_slow_model() -> None:
    steps = settings(max_examples=120, stateful_step_count=25, deadline=None, derandomize=True)
    run_state_machine_as_test(PageMachine, settings=steps)


# ---- what a request relies on ------------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=50)
@given(
    page_size=st.sampled_from([1, 2, 4]), parts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=9)
)
def test_a_request_that_goes_on_lies_in_its_pages_without_gaps(page_size: int, parts: list[tuple[int, int]]) -> None:
    """Three requests grow by turns. Position i stands at place i % page_size of a page that is nobody else's."""
    slots = TokenToKVPoolAllocator(size=64, page_size=page_size)
    reqs: list[list[int]] = [[], [], []]
    for who, n in parts:
        req = reqs[who]
        req += slots.alloc(n, after=req[-1] if req else None).tolist()
    pages = [page for req in reqs for page in {slot // page_size for slot in req}]
    assert len(pages) == len(set(pages)) == sum(-(-len(req) // page_size) for req in reqs)
    for req in reqs:
        assert [slot % page_size for slot in req] == [position % page_size for position in range(len(req))]
    assert slots.available_size() == 64 - page_size * len(pages)
    for req in reqs:
        slots.free(req)
    assert slots.available_size() == 64


def test_the_reserved_slots_are_enough_when_no_page_is_free() -> None:
    slots = TokenToKVPoolAllocator(size=4, page_size=4)
    first = slots.alloc(2)
    assert slots.available_size() == 0
    assert slots.alloc(3, after=first[-1]) is None
    assert slots.alloc(2, after=first[-1]).tolist() == [6, 7]
    assert slots.alloc(0, after=7).tolist() == [] and slots.alloc(1, after=7) is None


def test_slots_freed_behind_the_last_one_are_reserved_and_come_again() -> None:
    """A request takes back what it drafted: the page stays its own."""
    slots = TokenToKVPoolAllocator(size=8, page_size=4)
    slots.alloc(4)
    slots.free([6, 7])
    assert slots.available_size() == 4
    assert slots.alloc(3, after=5).tolist() == [6, 7, 8]


def test_a_page_goes_to_the_end_of_the_list_when_its_last_slot_goes() -> None:
    slots = TokenToKVPoolAllocator(size=6, page_size=2)
    slots.alloc(4)
    for freed, available in (([4], 2), ([3], 2), ([5], 4), ([2], 6)):
        slots.free(freed)
        assert slots.available_size() == available
    assert slots.alloc(6).tolist() == [6, 7, 4, 5, 2, 3]


# ---- shared prefixes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("form", [torch.int32, torch.int64])
def test_a_shared_prefix_lives_as_long_as_either_request(order: tuple[int, int], form: torch.dtype) -> None:
    slots = TokenToKVPoolAllocator(size=12, page_size=2)
    prefix = slots.alloc(4).to(form)
    slots.share(prefix)
    reqs = [torch.cat([prefix, slots.alloc(3, after=prefix[-1]).to(form)]) for _ in range(2)]
    assert [req.tolist() for req in reqs] == [[2, 3, 4, 5, 6, 7, 8], [2, 3, 4, 5, 10, 11, 12]]
    assert slots.available_size() == 0
    slots.free(reqs[order[0]])
    assert slots.available_size() == 4
    assert slots.alloc(4).tolist() == ([6, 7, 8, 9], [10, 11, 12, 13])[order[0]]  # the prefix is not among them
    slots.free(reqs[order[1]])
    assert slots.available_size() == 8
    slots.check()


def test_of_two_whose_prefix_ends_within_a_page_the_first_to_go_on_gets_its_rest() -> None:
    slots = TokenToKVPoolAllocator(size=8, page_size=4)
    prefix = slots.alloc(2)
    slots.share(prefix)
    assert slots.alloc(1, after=5).tolist() == [6]
    assert slots.alloc(1, after=5).tolist() == [8]
    slots.free([4, 5, 6])  # the first is done, and the prefix is held for the second
    assert slots.available_size() == 0
    slots.free([4, 5, 8])
    assert slots.available_size() == 8


def test_as_many_frees_as_owners() -> None:
    slots = TokenToKVPoolAllocator(size=2)
    slots.alloc(1)
    slots.share([1])
    slots.share([1])
    for available in (1, 1, 2):
        slots.free([1])
        assert slots.available_size() == available
    with pytest.raises(ValueError, match="free of slot 1: it is free already"):
        slots.free([1])


def test_clear_forgets_every_owner() -> None:
    slots = TokenToKVPoolAllocator(size=2)
    slots.share(slots.alloc(2))
    slots.clear()
    slots.free(slots.alloc(2))
    assert slots.available_size() == 2


# ---- what is never right -----------------------------------------------------------------------------------------


def test_a_size_of_no_whole_pages_is_refused() -> None:
    with pytest.raises(ValueError, match="size must be a multiple of page_size = 4, got 10"):
        TokenToKVPoolAllocator(10, page_size=4)
    with pytest.raises(ValueError, match="page_size must be at least 1, got 0"):
        TokenToKVPoolAllocator(4, page_size=0)
    with pytest.raises(TypeError, match="page_size must be an integer, got True"):
        TokenToKVPoolAllocator(4, page_size=True)


@pytest.mark.parametrize("call", ["free", "share"])
@pytest.mark.parametrize(
    ("page_size", "slot", "said"),
    [
        (1, 0, "it is the dummy slot"),
        (1, 5, r"wanted 1\.\.4"),
        (1, 4, "it is free already"),
        (2, 1, "it is in the dummy page"),
        (2, 6, r"wanted 2\.\.5"),
        (2, 3, "it is reserved, and nobody owns it"),
        (2, 4, "it is free already"),
    ],
)
def test_a_refused_slot_is_named_with_what_it_is(call: str, page_size: int, slot: int, said: str) -> None:
    slots = TokenToKVPoolAllocator(4, page_size)
    slots.alloc(1)
    with pytest.raises(ValueError, match=f"^{call} of slot {slot}: {said}$"):
        getattr(slots, call)([slot])
    with pytest.raises(ValueError, match=f"^alloc after slot {slot}: {said}$"):
        slots.alloc(1, after=slot)


@pytest.mark.parametrize("after", [1.0, True, "1", torch.tensor([1, 2])])
def test_what_a_request_goes_on_from_is_one_integer(after: Any) -> None:
    slots = TokenToKVPoolAllocator(4)
    slots.alloc(2)
    with pytest.raises(TypeError, match="after must be an integer"):
        slots.alloc(1, after=after)
    assert slots.available_size() == 2


@pytest.mark.parametrize("slots", [torch.tensor([1.0]), torch.tensor([[1]]), [1.5], 1, [True]])
def test_what_is_no_list_of_slots_is_not_shared(slots: Any) -> None:
    allocator = TokenToKVPoolAllocator(3)
    allocator.alloc(3)
    with pytest.raises((TypeError, ValueError), match="slots"):
        allocator.share(slots)
    allocator.free([1, 2, 3])
    assert allocator.available_size() == 3


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda slots: slots._taken.__setitem__(4, False), "2 pages free .* 1 held"),  # a lost page
        (lambda slots: slots._taken.__setitem__(6, True), "2 pages free .* 3 held"),  # free and held
        (lambda slots: slots._taken.__setitem__(1, True), "2 pages free .* 3 held"),  # the dummy page
        (lambda slots: slots._more_owners.__setitem__(2, 2), "2 more owners, wanted 1"),
        (lambda slots: slots._more_owners.__setitem__(3, 1), "1 more owners, wanted 1"),  # of a reserved slot
        (lambda slots: slots._more_owners.__setitem__(4, -1), "1 more owners, wanted 1"),
    ],
)
def test_check_finds_what_does_not_add_up(tamper: Callable[[Any], None], said: str) -> None:
    slots = TokenToKVPoolAllocator(8, page_size=2)
    slots.alloc(1)
    slots.alloc(1)
    slots.share([2])
    slots.check()
    tamper(slots)
    with pytest.raises(RuntimeError, match=f"slots do not add up: .*{said}"):
        slots.check()
