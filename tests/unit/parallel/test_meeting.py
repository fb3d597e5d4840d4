"""What trainers that were started one by one tell each other, and what they say of an end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.hosts import free_port
from support.messages import line_with, says

from gsplit.errors import InputError
from gsplit.hosts import Place
from gsplit.parallel import meeting as module
from gsplit.parallel.meeting import End, Failure, Meeting
from gsplit.waiting import until


def met(world, function):
    """What a function gives for the meeting of each trainer, all in threads of one process."""
    port = free_port()
    number = module._meetings[0] + 1
    opened = threading.Event()

    def live(rank):
        place = Place(rank=rank, world=world, local=0, here=1, address="127.0.0.1", port=port)
        if rank:
            opened.wait()
        meeting = Meeting(place)
        assert isinstance(meeting.store, module.dist.PrefixStore)
        meeting.store = module.dist.PrefixStore(str(number), meeting.store.underlying_store)
        opened.set()
        return function(meeting)

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(live, range(world)))


def test_all_hear_what_each_tells():
    assert met(3, lambda meeting: meeting.gather("x", 10 * meeting.place.rank)) == [[0, 10, 20]] * 3


def test_the_first_failure_is_everybody_s():
    def live(meeting):
        meeting.introduce()
        try:
            if meeting.place.rank == 1:
                raise InputError("--epochs is wrong")
            return meeting.hear("never")
        except (Failure, InputError) as error:
            end = meeting.end_of(error)
            return end.line, end.code, meeting.speaks()

    ends = met(2, live)
    assert ends[0] == ends[1]
    assert ends[0][1:] == (2, True)
    says(ends[0][0], f"{os.uname().nodename}, --epochs, wrong")


def test_a_broken_connection_is_laid_to_the_process_that_is_gone():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    def live(meeting):
        if meeting.place.rank == 1:
            meeting.tell("who/1", ("host2", gone.pid, 0, module.network()))
            return None
        meeting.introduce()
        return meeting.end_of(RuntimeError("Connection closed by peer")).line

    says(met(2, live)[0], "host2, trainer 1, killed")


def test_a_host_that_beats_is_not_blamed_for_waiting(monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    done = threading.Event()

    def live(meeting):
        meeting.introduce()
        if meeting.place.rank == 0:
            end = meeting.end_of(ValueError("of the model of this trainer")).line
            done.set()
            return end
        for count in range(10_000):
            meeting.store.set(module.PULSE.format(1), str(count))
            if done.wait(0.01):
                break
        return None

    says(met(2, live)[0], "trainer 0 failed, ValueError, of the model")


def test_loopback_is_refused_between_networks(monkeypatch):
    def live(meeting):
        meeting.tell("who/1", ("host2", 1, 0, ("another boot", 1)))
        meeting.introduce()

    port = free_port()
    place = Place(rank=0, world=2, local=0, here=1, address="127.0.0.1", port=port)
    with pytest.raises(InputError, match=line_with("MASTER_ADDR, 127.0.0.1, loopback, /etc/hosts")):
        live(Meeting(place))


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError("a"), 2), (KeyboardInterrupt(), 130), (SystemExit(143), 143), (ValueError("b"), 1)],
)
def test_exit_codes(error, code):
    place = Place(rank=3, world=4, local=1, here=2, address="127.0.0.1", port=1)
    end = End.of(error, place)
    assert end.code == code
    assert "\n" not in end.line
    says(end.line, os.uname().nodename)
    assert bool(end.trace) == (code == 1)


class OneMeeting:
    """The number of meetings of each of several processes that have one."""

    def __getitem__(self, _):
        return 1

    def __setitem__(self, *_):
        pass


def test_a_store_that_outlives_its_trainers_keeps_their_starts_apart(monkeypatch):
    """As torchrun's does, whose hosts count restarts each for itself: those that come later have counted none."""
    monkeypatch.setattr(module, "_meetings", OneMeeting())
    store = module.dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def come(rank, restarts=0):
        where = {"address": "127.0.0.1", "port": store.port, "served": True}
        return Meeting(Place(rank=rank, world=2, local=0, here=1, restarts=restarts, **where))

    def come_and_meet(restarts):
        meeting = come(1, restarts)
        meeting.introduce()
        return meeting

    def start(*restarts):
        first = come(0, restarts[0])
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(come_and_meet, restarts[1])
            first.introduce()
            return first, other.result()

    monkeypatch.setattr(module, "TIMEOUT", module.timedelta(seconds=0.1))
    with pytest.raises(InputError, match=line_with("trainer 0, did not come")):
        come(1)  # of a start whose trainer 0 never comes
    monkeypatch.undo()
    monkeypatch.setattr(module, "_meetings", OneMeeting())
    first, other = start(0, 0)
    first.tell("decided", "before")
    first.write(End(line="before", code=1), first.store)
    first.note_begun("run")
    again, other = start(0, 2)
    assert (again.restarts, other.restarts) == (2, 2)
    assert other.written(other.store) is None
    again.tell("decided", "now")
    assert other.hear("decided") == "now"
    assert again.was_begun("run") == again.place.name
    assert again.was_begun("another run") is None
    assert again.job() == first.job() != {}


class Gone:
    """A store whose host has ended."""

    def __getattr__(self, name):
        raise RuntimeError("Connection reset by peer")


@pytest.mark.parametrize("read", [True, False])
def test_what_was_read_before_the_store_went_is_the_last_word(read):
    """Of the second trainer of the store's host: the first has said it, before it ended."""

    def live(meeting):
        if meeting.place.rank == 0:
            return meeting.write(End(line="host2 has gone", code=1), meeting.store)
        meeting.place = replace(meeting.place, local=1, here=2)
        if read:
            until(lambda: meeting.written(meeting.store), 10.0)
        meeting.store = Gone()
        return meeting.end_of(RuntimeError("Connection closed by peer")).line, meeting.speaks()

    line, speaks = met(2, live)[1]
    assert (line == "host2 has gone", "trainer 0 at" in line, speaks) == (read, not read, not read)
