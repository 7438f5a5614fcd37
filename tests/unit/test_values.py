"""What a learner's function returned: which answers count as the same."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch

from reqpool.exercises.values import difference, plain, same

LIKE_THE_LIST = [(1, 2), deque([1, 2]), range(1, 3), np.array([1, 2]), torch.tensor([1, 2]), [np.int32(1), 2]]
UNLIKE_THE_LIST = [[2, 1], [1], [1, 2, 3], [1.0, 2], [True, 2], {1, 2}, "12", None, iter([1, 2]), 1]


@pytest.mark.parametrize("answer", LIKE_THE_LIST, ids=repr)
def test_the_same_items_in_the_same_order_will_do_in_any_sequence(answer: object) -> None:
    assert same(plain(answer), [1, 2])


@pytest.mark.parametrize("answer", UNLIKE_THE_LIST, ids=repr)
def test_other_items_or_another_order_will_not(answer: object) -> None:
    assert not same(plain(answer), [1, 2])


@pytest.mark.parametrize("answer", [True, np.bool_(True), torch.tensor(True)], ids=repr)
def test_a_bool_is_a_bool_from_wherever_it_comes(answer: object) -> None:
    assert same(plain(answer), True)


@pytest.mark.parametrize("answer", [1, np.int64(1), "True", [True]], ids=repr)
def test_what_only_counts_as_true_is_told_so(answer: object) -> None:
    assert not same(plain(answer), True)
    assert "return a bool" in difference(plain(answer), True)


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        return True


def test_an_object_that_says_it_is_equal_to_everything_is_not() -> None:
    assert not same(plain(AlwaysEqual()), 3) and not same(plain([AlwaysEqual(), 2]), [1, 2])


def test_a_subclass_of_int_that_says_so_is_not() -> None:
    class Sly(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert not same(plain(Sly(5)), 3)
