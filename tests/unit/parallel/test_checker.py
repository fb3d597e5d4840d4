"""The collective checker: the last to come sees who does what, in any order; nothing else is ever refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from support.messages import line_with, says

import gsplit._core as _core
from gsplit.errors import InputError
from gsplit.parallel.checker import MOST_WIDTH, ROUNDS, SLOTS, CollectiveChecker, Step

ROW = {"layer": 2, "width": 16, "dtype": torch.float32}


def boards(trainers, groups=None):
    words = np.zeros(CollectiveChecker.shape(trainers), np.uint64)
    groups = groups or [range(trainers)]
    return [CollectiveChecker(words, rank, next(g for g in groups if rank in g)) for rank in range(trainers)]


DIFFERENT = {
    "step": (Step.RETURN, ROW, "gradients, layer 2, 16 float32"),
    "layer": (Step.EXCHANGE, {**ROW, "layer": 1}, "layer 1, 16 float32"),
    "width": (Step.EXCHANGE, {**ROW, "width": 17}, "layer 2, 17 float32"),
    "type": (Step.EXCHANGE, {**ROW, "dtype": torch.float64}, "layer 2, 16 float64"),
    "sum": (Step.SUM, {"width": 5, "dtype": torch.float32}, "5 float32"),
    "reduction": (Step.REDUCE, {"width": 99, "dtype": torch.float32}, "99 float32"),
    "end": (Step.END, {}, "trainer 1"),
}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("what", DIFFERENT)
def test_the_second_of_two_that_differ_says_what_each_does(what, first):
    step, fields, deed = DIFFERENT[what]
    pair = boards(2)
    calls = [lambda: pair[0].enter(Step.EXCHANGE, **ROW), lambda: pair[1].enter(step, **fields)]
    calls[first]()
    with pytest.raises(InputError) as raised:
        calls[1 - first]()
    says(raised.value, "trainer 0, layer 2, 16 float32, trainer 1", deed, "block.exchange")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_who_differs_of_three_is_named_by_the_last_at_the_latest(order):
    three = boards(3)
    said = ""
    for rank in order:
        try:
            three[rank].enter(Step.EXCHANGE, **{**ROW, "width": 8 if rank == 1 else 16})
        except InputError as error:
            said = str(error)
    says(said, "trainer 1, layer 2, 8 float32")
    says(said, "trainers 0, 2, layer 2, 16 float32")


def test_trainers_that_agree_may_be_far_apart_and_go_on_for_ever():
    ahead, behind = boards(2)
    for i in range(3 * SLOTS):
        ahead.enter(Step.EXCHANGE, layer=1 + i % 3, width=i)
        if i >= SLOTS - 1:  # as far behind as a checker remembers
            j = i - SLOTS + 1
            behind.enter(Step.EXCHANGE, layer=1 + j % 3, width=j)
    with pytest.raises(InputError, match=line_with("2050")):
        behind.enter(Step.EXCHANGE, layer=3, width=2050)


def test_notes_of_another_round_are_not_compared():
    ahead, behind = boards(2)
    for _ in range(SLOTS + 1):
        ahead.enter(Step.EXCHANGE, layer=1)
    behind.enter(Step.EXCHANGE, layer=2)  # the other one's note of this number is gone
    with pytest.raises(InputError, match=line_with("trainer 0, layer 1")):
        behind.enter(Step.EXCHANGE, layer=2)


def test_the_number_of_the_round_begins_again():
    pair = boards(2)
    for checker in pair:
        checker._group.count = ROUNDS * SLOTS - 1
        checker.enter(Step.EXCHANGE, layer=1)
    pair[0].enter(Step.EXCHANGE, layer=1)
    with pytest.raises(InputError, match=line_with("layer 2")):
        pair[1].enter(Step.EXCHANGE, layer=2)


def test_split_groups_exchange_as_they_like_but_sum_together():
    four = boards(4, [(0, 1), (2, 3)])
    for rank in (2, 3):
        four[rank].enter(Step.EXCHANGE, **ROW)
    for checker in four:
        checker.enter(Step.SUM, width=5)
    for rank in (0, 1):
        four[rank].enter(Step.EXCHANGE, **ROW)
    for checker in four[:3]:
        checker.enter(Step.REDUCE, width=7)
    four[3]._group.peers = four[3]._group.peers[:0]  # its group would see it first
    with pytest.raises(InputError, match=line_with("trainers 0, 1, 7, trainer 3, 5")):
        four[3].enter(Step.SUM, width=5)


def test_nobody_hears_of_exchanges_in_other_groups():
    four = boards(4, [(0, 1), (2, 3)])
    four[0].enter(Step.EXCHANGE, **ROW)
    four[2].enter(Step.RETURN, **ROW)
    with pytest.raises(InputError, match=line_with("trainer 2, trainer 3")):
        four[3].enter(Step.EXCHANGE, **ROW)


def test_what_is_too_large_for_a_note_keeps_to_its_place():
    pair = boards(2)
    pair[0].enter(Step.EXCHANGE, layer=1000, width=10 * MOST_WIDTH, dtype=torch.complex128)
    with pytest.raises(InputError, match=line_with("trainer 1, layer 255, 2147483647 float32")):
        pair[1].enter(Step.EXCHANGE, layer=1000, width=MOST_WIDTH, dtype=torch.float32)


@pytest.mark.parametrize(("slot", "own", "peers"), [(4, 0, []), (-1, 0, []), (0, 2, []), (0, 0, [2]), (0, 0, [-1])])
def test_there_is_no_place_outside_the_board(slot, own, peers):
    with pytest.raises(ValueError, match="no such place"):
        _core.post(np.zeros((2, 4), np.uint64), slot, own, 1, np.array(peers, np.int64))
