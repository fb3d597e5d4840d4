"""Processes are started, listened to and ended; shared buffers have no name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import numpy as np
import psutil
import pytest
from support.children import collects, fail_on_1, join_and_leave, leave, square, stay, write_into
from support.commands import assert_no_new_shared_memory, children_here, listening
from support.limits import largest_file
from support.messages import line_with

from gsplit.errors import InputError, ProcessDied
from gsplit.host import SharedBuffer
from gsplit.parallel import rendezvous
from gsplit.processes import start


def test_results_come_by_rank():
    assert start(square, 3, 10).join() == [100, 121, 144]


def test_a_child_that_ended_before_anybody_looked_is_heard():
    """Its exit code may be seen first, and says nothing of what it reported."""
    children = start(square, 2, 1)
    for child in children.members:
        child.process.join()
    assert [child.failed for child in children.members] == [False, False]
    assert children.join() == [1, 4]


def test_children_that_reported_and_do_not_leave_are_ended(monkeypatch):
    monkeypatch.setattr("gsplit.processes.children.EXIT_S", 0.5)
    others = children_here()
    assert start(stay, 2).join() == [0, 1]
    assert children_here() <= others


def test_trainers_leave_without_taking_their_group_down():
    """That may hang: in PyTorch 2.6 one thread of gloo's wanted Python's lock, which whoever waited for it held."""
    with rendezvous(2) as port:
        assert start(join_and_leave, 2, port).join() == [1.0, 1.0]


def test_garbage_is_looked_for_once_all_is_imported():
    ((at_work, kept),) = start(collects, 1).join()
    assert at_work
    assert kept > 10_000  # what imports left, which nobody looks through


SIGINT_BLOCKED = """
import signal
from gsplit.processes import start

def blocked(rank=0):
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

if __name__ == "__main__":
    print(start(blocked, 2).join(), blocked())
"""


def test_children_leave_ctrl_c_to_their_parent(tmp_path):
    # In a fresh process, because its first child is special: with it multiprocessing starts its resource tracker.
    (tmp_path / "script.py").write_text(SIGINT_BLOCKED)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[True, True] False\n", done.stderr


@pytest.fixture
def hurried(monkeypatch):
    """The other child sleeps for ever, and its last words are waited for."""
    monkeypatch.setattr("gsplit.processes.children.GRACE_S", 0.5)


@pytest.mark.usefixtures("hurried")
def test_the_users_mistake_stays_one():
    others = children_here()
    with pytest.raises(InputError, match=r"^told so$"):
        start(fail_on_1, 2, InputError).join()
    assert children_here() <= others


@pytest.mark.usefixtures("hurried")
def test_ours_has_its_traceback():
    with pytest.raises(ProcessDied, match=r"trainer 1 failed:\nTraceback (.|\n)*RuntimeError: told so"):
        start(fail_on_1, 2, RuntimeError).join()


@pytest.mark.usefixtures("hurried")
def test_no_memory_is_the_users_to_know_in_one_line():
    with pytest.raises(InputError, match=line_with("trainer 1, --gpus")):
        start(fail_on_1, 2, MemoryError).join()


def test_what_a_child_is_given_may_find_no_memory_either():
    with largest_file(1000), pytest.raises(InputError, match=line_with("File too large")):
        start(square, 2, bytes(5000))


NOBODY_WAITS = """
import sys, time
from gsplit.processes import start

def sleep(rank):
    time.sleep(600)

if __name__ == "__main__":
    start(sleep, 1)
    sys.exit(143)  # as of a signal that comes before anybody waits
"""


def test_children_that_nobody_waits_for_end_with_their_parent(tmp_path):
    (tmp_path / "script.py").write_text(NOBODY_WAITS)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 143


def test_a_silent_exit_is_a_failure():
    with pytest.raises(ProcessDied, match=line_with("exit code 7")):
        start(leave, 1).join()


def test_shared_buffer_is_seen_by_all_and_has_no_name():
    before = set(os.listdir("/dev/shm"))
    buffer = SharedBuffer("test")
    buffer.grow(48)
    mine = buffer.view((4, 3), np.float32)
    start(write_into, 2, buffer).join()
    assert mine.tolist() == [[1.0] * 3, [2.0] * 3, [0.0] * 3, [0.0] * 3]
    assert_no_new_shared_memory(before)
    buffer.close()


def test_shared_buffer_grows_keeps_and_refuses_more_than_there_is():
    buffer = SharedBuffer("test")
    buffer.grow(8)
    buffer.view((1,), np.int64)[0] = 42
    buffer.grow(800)
    assert buffer.view((100,), np.int64)[0] == 42
    assert buffer.view((0, 5), np.float32).shape == (0, 5)
    with pytest.raises(MemoryError, match="of shared memory are needed"):
        buffer.grow(1 << 60)
    buffer.close()


def test_the_rendezvous_listens_on_loopback_only():
    with rendezvous(2) as port:
        sockets = [each for each in listening(psutil.Process()) if each.laddr.port == port]
        assert {each.laddr.ip for each in sockets} == {"127.0.0.1"}
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
