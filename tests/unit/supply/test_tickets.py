"""Tickets number what is left of a run."""

from __future__ import annotations

from gsplit.supply.tickets import Position, tickets


def left(*arguments):
    all_left = list(tickets(*arguments))
    assert [ticket.number for ticket in all_left] == list(range(len(all_left)))
    return [(ticket.epoch, ticket.batch) for ticket in all_left]


def test_a_new_run_has_all():
    assert left(2, 3, Position()) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_resumed_run_goes_on_in_its_epoch():
    assert left(3, 2, Position(epoch=1, batch=2)) == [(1, 2)]
    assert left(3, 2, Position(epoch=1, batch=3)) == []
    assert left(3, 3, Position(epoch=1, batch=0)) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]


def test_what_was_done_ahead_is_not_done_again():
    # Three are done: 0, 2 and 3.
    assert left(5, 2, Position(epoch=0, batch=3, ahead=(2, 3))) == [(0, 1), (0, 4), *((1, b) for b in range(5))]


def test_nothing_is_left_of_a_run_that_is_over():
    assert left(4, 2, Position(epoch=2)) == []
