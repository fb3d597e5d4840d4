"""Rows that trainers leave for each other in memory: what gloo's messages bring, and the same training."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.messages import line_with, says
from support.runs import all_equal, config_for, train_in_trainer
from support.waiting import wait_until

import gsplit._core as _core
from gsplit.parallel import collectives, count_over_trainers
from gsplit.parallel.collectives import all_gather, all_reduce, all_to_all, all_to_all_places, start_all_to_all
from gsplit.parallel.mailboxes import Mailboxes

SHAPES = [((), torch.int64), ((1,), torch.float32), ((5,), torch.float64), ((2, 3), torch.bfloat16)]


def fresh(member, group=None):
    group = tuple(range(member.world)) if group is None else group
    return Mailboxes.fresh(pool_module.SHARED.mail, member.rank, group, member.barrier)


def reached(mail, at, number, seconds):
    """Whether a number comes to stand at a place, within a limit."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        if _core.wait_for_number(mail._numbers, at, number, left_s):
            return True
    return False


def messages(member, rounds, seed):
    """Whether messages of random sizes, many of them empty, bring the same rows as gloo's; some trainers are late."""
    mail, random = fresh(member), np.random.default_rng(seed)
    late = np.random.default_rng(seed + 1 + member.rank)
    same = []
    for number in range(rounds):
        most = random.choice([1, 10, 3000 * (number + 1)])
        counts = random.integers(0, most, (member.world, member.world)) * (random.random((member.world,) * 2) < 0.6)
        shape, dtype = SHAPES[number % len(SHAPES)]
        send, receive = counts[member.rank].tolist(), counts[:, member.rank].tolist()
        sent = torch.randint(-100, 100, (sum(send), *shape)).to(dtype)
        ours, theirs = (torch.full((sum(receive), *shape), 111).to(dtype) for _ in range(2))
        if late.random() < 0.3:
            reached(mail, (member.rank + 1) % member.world * mail._width, mail._sent + 1, late.random() / 50)
        if number % 3 < 2:
            wait = start_all_to_all(ours, sent, receive, send, mail)
        else:  # in places of their own, some without numbers
            places = [[part[: len(part) // 3], part[len(part) // 3 :]] for part in ours.split(receive)]
            all_to_all_places(places, sent.view(-1), [n * math.prod(shape) for n in send], mail)
        all_to_all(theirs, sent.clone(), receive, send, member.group)
        sent.fill_(77)  # it was copied
        if number % 3 < 2:
            wait()
        same.append(torch.equal(ours, theirs) and len(ours) == sum(receive))
    return same


@pytest.mark.parametrize("world", [2, 3, 4])
def test_messages_are_those_of_gloo(pool, world):
    rounds = 30
    assert pool.run(world, messages, rounds, world) == [[True] * rounds] * world


def all_but_one(row):
    """Whether one trainer alone has not come yet."""
    return row.sum() == len(row) - 1


def waited(member):
    """Who had come to each barrier when this trainer went on, the last once all others had; and a count after it."""
    member, found = replace(member, mail=fresh(member)), []
    if member.rank == 0:
        pool_module.SHARED.levels[0].grow(8 * 3 * member.world * member.world)
    member.barrier()
    came = pool_module.SHARED.levels[0].view((3 * member.world, member.world), np.int64)
    came[:, member.rank] = 0
    collectives.barrier(member.group)  # by the group, which is no part of what is tested
    for turn, row in enumerate(came):
        if turn % member.world == member.rank:
            wait_until(partial(all_but_one, row), 30, partial("came: {}".format, row))
        row[member.rank] = 1
        member.barrier()
        found.append((row.tolist(), count_over_trainers([member.rank, True, 2**40], member)))
    return found


@pytest.mark.parametrize("world", [2, 4])
def test_nobody_goes_on_before_all_have_come_and_counts_are_sums(pool, world):
    for of_trainer in pool.run(world, waited):
        assert of_trainer == [([1] * world, [sum(range(world)), world, world * 2**40])] * (3 * world)


def sums(member, seed):
    """Largest difference of sums from gloo's, and the sums, of vectors of many lengths, the group's and less."""
    mail, random = fresh(member), torch.Generator().manual_seed(seed + member.rank)
    differences, found = [], []
    for length in (1, 2, 3, 5, 1000, 70_001):
        for dtype in (torch.float32, torch.float64):
            x = torch.randn(length, generator=random, dtype=dtype)
            wanted = x.clone()
            all_reduce(wanted, member.group)
            all_reduce(x, mail)
            differences.append((x - wanted).abs().max().item() / torch.finfo(dtype).eps)
            found.append(x)
    return max(differences), found


@pytest.mark.parametrize("world", [2, 3, 4])
def test_sums_are_those_of_gloo_and_the_same_bits_everywhere(pool, world):
    results = pool.run(world, sums, world)
    assert max(difference for difference, _ in results) < 20
    for _, found in results[1:]:
        assert all(map(torch.equal, results[0][1], found))


def gathered(member):
    """Whether tensors of all trainers are gloo's, of several shapes, one after the other."""
    mail, same = fresh(member), []
    for number, shape in enumerate([(3,), (0, 4), (1, 29), (), (500, 7), (2, 3)]):
        x = torch.randn(shape, dtype=torch.float64) + 100 * number + member.rank
        ours, theirs = all_gather(x, mail), all_gather(x, member.group)
        same.append(len(ours) == member.world and all(map(torch.equal, ours, theirs)))
    return same


@pytest.mark.parametrize("world", [2, 3, 4])
def test_tensors_of_all_are_those_of_gloo(pool, world):
    assert pool.run(world, gathered) == [[True] * 6] * world


def two_at_a_time(member):
    """A trainer may begin a second message before it waits for the first."""
    mail, found = fresh(member), []
    for number in range(6):
        outs = [torch.empty(member.world, 4) for _ in range(2)]
        sent = [torch.full((member.world, 4), 10.0 * number + 100 * second + member.rank) for second in range(2)]
        counts = [1] * member.world
        waits = [mail.start(out, rows, counts, counts) for out, rows in zip(outs, sent, strict=True)]
        if member.rank == number % member.world:
            # The others may be two messages ahead now; a third is begun where it is not held back.
            reached(mail, (member.rank + 1) % member.world * mail._width, 2 * number + 3, 0.02)
        for wait in waits:
            wait()
        found += [out[:, 0].tolist() for out in outs]
    return found


def test_two_messages_at_a_time(pool):
    wanted = [[10.0 * number + 100 * second + rank for rank in range(3)] for number in range(6) for second in (0, 1)]
    assert pool.run(3, two_at_a_time) == [wanted] * 3


def of_groups(member):
    """Groups of two among four trainers, each with messages of its own, and one group with more of them."""
    first = member.rank // 2 * 2
    mail, got = fresh(member, (first, first + 1)), []
    for number in range(3 + 4 * (first > 0)):
        out, sent = torch.empty(1, 2), torch.full((1, 2), float(10 * member.rank + number))
        peer = member.rank - first
        mail.start(out, sent, [peer, 1 - peer], [peer, 1 - peer])()
        got.append(out[0, 0].item())
    return got


def test_groups_do_not_hear_each_other(pool):
    peers, counts = (1, 0, 3, 2), (3, 3, 7, 7)
    wanted = [[10.0 * peer + number for number in range(n)] for peer, n in zip(peers, counts, strict=True)]
    assert pool.run(4, of_groups) == wanted


def numbers_that_begin_again(member):
    """Messages whose numbers pass 2^32."""
    mail, got = fresh(member), []
    mail._sent = 2**32 - 3
    numbers = mail._numbers.reshape(-1, mail._width)
    numbers[:, [0, 2, 3]] = 2**32 - 3
    member.barrier()
    for number in range(6):
        out = torch.empty(2)
        mail.start(out, torch.full((2,), float(number)), [1, 1], [1, 1])()
        got.append(out.tolist())
    return got


def test_numbers_may_begin_again(pool):
    assert pool.run(2, numbers_that_begin_again) == [[[float(n)] * 2 for n in range(6)]] * 2


def train_by_sockets(member, config):
    """As ``train_in_trainer``, with rows that go through gloo."""
    with mock.patch("gsplit.engine.sampled.maker.carrier_of", lambda parts: parts.member.along("split")):
        return train_in_trainer(member, config)


@pytest.mark.parametrize(("world", "changes"), [(2, {}), (3, {"exchange": "auto"}), (4, {"split_group": 2})], ids=str)
def test_training_is_that_of_sockets(pool, layouts, tmp_path, world, changes):
    path = layouts(changes.get("split_group", world)).path
    mail = pool.run(world, train_in_trainer, config_for(path, tmp_path / "mail", norm="batch", **changes))
    sockets = pool.run(world, train_by_sockets, config_for(path, tmp_path / "sockets", norm="batch", **changes))
    for one, other in zip(mail, sockets, strict=True):
        assert all_equal(one["after"], other["after"])
    assert mail[0]["summary"]["traffic"] == sockets[0]["summary"]["traffic"]


def left_alone(member):
    """What a trainer is told that waits for one that has let go of its mailboxes, after its last message has come."""
    mail = fresh(member)
    out, counts = torch.empty(2), [1, 1]
    wait = mail.start(out, torch.ones(2), counts, counts)
    if member.rank == 1:
        del mail
        wait()
        del wait
        return None
    assert reached(mail, mail._width + 1, mail._generation, 20)
    wait()
    with pytest.raises(RuntimeError) as told:
        mail.start(out, torch.ones(2), counts, counts)()
    return str(told.value)


def test_whoever_waits_for_one_that_has_left_is_told(pool):
    told, nothing = pool.run(2, left_alone)
    says(told, "trainer 1, trainer 0")
    assert nothing is None


def left_out_of_order(member):
    """As :func:`left_alone`, where mailboxes of before are collected after those that are waited for."""
    before, mail = fresh(member), fresh(member)
    out, counts = torch.empty(2), [1, 1]
    if member.rank == 1:
        numbers, at, left = mail._numbers, mail._width + 1, mail._generation
        del mail
        del before
        return int(numbers[at]) == left
    with pytest.raises(RuntimeError, match=line_with("trainer 1")):
        mail.start(out, torch.ones(2), counts, counts)()
    return True


def test_mailboxes_of_before_do_not_hide_that_a_trainer_has_left(pool):
    assert pool.run(2, left_out_of_order) == [True, True]
