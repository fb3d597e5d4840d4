"""Who samples what, into which slot: no slot is given twice, nothing is lost, nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsplit.supply.dispatch import Dispatcher
from gsplit.supply.tickets import Position, tickets


def dispatcher(total=5, slots=2, readers=1, bulk=1, epochs=1):
    return Dispatcher(tickets(total, epochs, Position()), slots=slots, readers=readers, bulk=bulk)


def test_tickets_go_out_in_order_until_the_slots_are_taken():
    subject = dispatcher()
    first, second = subject.next_for(0), subject.next_for(1)
    assert (first.tickets[0].batch, second.tickets[0].batch) == (0, 1)
    assert first.slot != second.slot
    assert subject.next_for(2) is None
    assert not subject.done


def test_a_bulk_has_mini_batches_of_one_epoch():
    subject = dispatcher(total=5, slots=4, bulk=3, epochs=2)
    handed = [subject.next_for(sampler).tickets for sampler in range(4)]
    assert [[(ticket.epoch, ticket.batch) for ticket in some] for some in handed] == [
        *([(0, 0), (0, 1), (0, 2)], [(0, 3), (0, 4)]),
        *([(1, 0), (1, 1), (1, 2)], [(1, 3), (1, 4)]),
    ]
    assert subject.next_for(4) is None


def test_a_slot_is_free_when_the_last_reader_has_let_go():
    subject = dispatcher(slots=1, readers=3)
    slot = subject.next_for(0).slot
    subject.finished(0)
    for _ in range(2):
        subject.released(slot)
        assert subject.next_for(0) is None
    subject.released(slot)
    assert subject.next_for(0).tickets[0].batch == 1


def test_what_a_dead_sampler_was_at_goes_first_and_keeps_its_slot():
    subject = dispatcher(slots=3)
    assignments = [subject.next_for(sampler) for sampler in range(3)]
    subject.lost(2)
    subject.lost(1)
    assert [subject.next_for(1), subject.next_for(2)] == assignments[1:]


def test_an_idle_sampler_may_die():
    subject = dispatcher()
    subject.lost(0)
    assert subject.next_for(0).tickets[0].batch == 0


def test_a_sampler_has_one_assignment_at_a_time():
    subject = dispatcher()
    subject.next_for(0)
    with pytest.raises(AssertionError):
        subject.next_for(0)


@given(
    slots=st.integers(1, 4),
    samplers=st.integers(1, 4),
    readers=st.integers(1, 3),
    total=st.integers(0, 12),
    bulk=st.integers(1, 4),
    choices=st.data(),
)
def test_in_any_interleaving_everything_is_read_once_in_sequence(slots, samplers, readers, total, bulk, choices):
    subject = dispatcher(total, slots, readers, bulk)
    busy: dict[int, Any] = {}
    finished: dict[int, Any] = {}  # first ticket -> assignment, not read yet
    reading: list[int] = []  # slots, once for each reader that has not let go
    trained = []
    for step in range(1000):
        for sampler in range(samplers):
            if sampler not in busy and (assignment := subject.next_for(sampler)):
                taken = [held.slot for held in (*busy.values(), *finished.values())] + reading
                assert assignment.slot not in taken
                busy[sampler] = assignment
        if len(trained) in finished:  # in sequence: the next one, or none
            read = finished.pop(len(trained))
            reading += [read.slot] * readers
            trained += [ticket.number for ticket in read.tickets]
        actions = [("finish", s) for s in busy] + [("release", slot) for slot in set(reading)]
        if step < 500:  # samplers do not die for ever
            actions += [("die", s) for s in busy]
        if not actions:
            break
        action, which = choices.draw(st.sampled_from(actions))
        if action == "finish":
            assignment = busy.pop(which)
            finished[assignment.tickets[0].number] = assignment
            subject.finished(which)
        elif action == "die":
            del busy[which]
            subject.lost(which)
        else:
            reading.remove(which)
            subject.released(which)
    assert trained == list(range(total))
    assert subject.done
