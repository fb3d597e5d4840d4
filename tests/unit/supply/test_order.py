"""The leader picks, the followers follow, and all stop at the same mini-batch."""

from __future__ import annotations

import threading
from multiprocessing import Pipe

import pytest

from gsplit.supply import order
from gsplit.supply.order import Follower, Leader, OwnOrder
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Position, tickets

ALL = list(tickets(3, 2, Position()))  # two epochs of three


class Led:
    """A leader with two followers."""

    def __init__(self, by="sequence", sampled=True):
        heard, self.tell = Pipe(duplex=False)
        pipes = [Pipe(duplex=False) for _ in range(2)]
        self.leader = Leader(iter(ALL), heard, [writer for _, writer in pipes], by=by, sampled=sampled)
        self.followers = [Follower(reader) for reader, _ in pipes]

    def finish(self, *numbers):
        for number in numbers:
            self.tell.send((Handle(ticket=ALL[number], slot=number),))

    def finish_bulk(self, *numbers):
        self.tell.send(tuple(Handle(ticket=ALL[number], slot=0, bulk=len(numbers)) for number in numbers))

    def next(self):
        handle = self.leader.next()
        assert [follower.next() for follower in self.followers] == [handle, handle]
        return None if handle is None else handle.ticket.number


def test_in_sequence_whatever_is_finished_first():
    led = Led()
    led.finish(2, 4, 0, 1, 5, 3)
    assert [led.next() for _ in range(7)] == [0, 1, 2, 3, 4, 5, None]


def test_when_ready_but_never_before_the_epoch_that_comes_first_is_over():
    led = Led("ready")
    led.finish(2, 4, 0, 1, 5, 3)
    assert [led.next() for _ in range(7)] == [2, 0, 1, 4, 5, 3, None]


@pytest.mark.parametrize(("by", "first"), [("sequence", [0, 1, 2]), ("ready", [2, 0, 1])])
def test_bulks_are_trained_one_mini_batch_after_the_other(by, first):
    led = Led(by)
    led.finish_bulk(2)
    led.finish_bulk(0, 1)
    assert [led.next() for _ in range(3)] == first
    led.finish_bulk(3, 4, 5)
    assert led.next() == 3
    led.tell.send(None)
    assert led.next() is None  # in the middle of a bulk


@pytest.mark.parametrize("by", ["sequence", "ready"])
def test_stop_comes_before_what_is_finished(by):
    led = Led(by)
    led.finish(0, 1)
    assert led.next() == 0
    led.tell.send(None)
    assert led.next() is None


def test_stop_reaches_a_leader_that_waits():
    led = Led()
    led.finish(1)
    led.tell.send(None)
    assert led.next() is None


def test_the_leader_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(order, "PATIENCE_S", 0.01)
    led = Led()
    led.finish(1)  # not the one whose turn it is
    with pytest.raises(RuntimeError, match="no mini-batch came within"):
        led.leader.next()


def test_the_others_wait_for_a_slow_leader(monkeypatch):
    monkeypatch.setattr(order, "PATIENCE_S", 0.01)
    led = Led()
    led.finish(0)
    late = threading.Timer(0.1, led.leader.next)
    late.start()
    assert led.followers[0].next().ticket.number == 0
    late.join()


def test_without_samplers_the_leader_waits_for_nobody():
    led = Led(sampled=False)
    assert [led.next() for _ in range(4)] == [0, 1, 2, 3]
    led.tell.send(None)
    assert led.next() is None


def test_handles_have_a_slot_only_with_samplers():
    led = Led(sampled=False)
    assert led.leader.next() == Handle(ticket=ALL[0], slot=None)
    led = Led()
    led.finish(0)
    assert led.leader.next() == Handle(ticket=ALL[0], slot=0)


def test_a_trainer_that_is_told_nothing_takes_all_tickets():
    own = OwnOrder(iter(ALL))
    assert [own.next().ticket for _ in ALL] == ALL
    assert own.next() is None
