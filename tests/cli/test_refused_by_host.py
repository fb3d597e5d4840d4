"""What the host does not give: one line with what to do, exit code 2, and nothing written."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import socket
import sys
import threading

import psutil
import pytest
import torch.distributed as dist
from support.limits import open_files
from support.messages import says

from gsplit.errors import refused_by_host
from gsplit.parallel import join

TRAIN = ("train", "layout", "--out", "new", "--device", "cpu", "--fan-out", "3,3", "--threads", "1")
PREDICT = ("predict", "run", "layout", "--out", "new.npy", "--device", "cpu")
COMMANDS = {"train": TRAIN, "check": (*TRAIN[:2], "--check-model", *TRAIN[4:]), "predict": PREDICT}
HANGS_S = 60.0
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of unshare(2)."""


def raises(error):
    def fail(*_, **__):
        raise error

    return fail


@contextlib.contextmanager
def gives_up():
    """End this process, with where it is, after a time: what waits in a library looks for no signal."""
    faulthandler.dump_traceback_later(HANGS_S, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_loopback_that_is_down(refused, monkeypatch, command):
    monkeypatch.setattr(socket, "create_connection", raises(OSError(errno.ENETUNREACH, "Network is unreachable")))
    monkeypatch.setattr("gsplit.processes.children.Parcel", raises(AssertionError("no process is started")))
    stderr = refused(*COMMANDS[command])
    says(stderr, "Network is unreachable, ip link set lo up")


@pytest.mark.parametrize(
    ("error", "printed"),
    [
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), "Cannot assign requested address"),
        (TimeoutError("timed out"), "127.0.0.1, firewall"),
    ],
)
def test_other_ways_not_to_reach_oneself(monkeypatch, error, printed):
    monkeypatch.setattr(socket, "create_connection", raises(error))
    says(join.no_loopback(), printed)


def test_a_network_without_loopback():
    """A real one, where the system lets a thread have it."""
    found = []

    def work():
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) == 0:
            found.append(join.no_loopback())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not found:
        pytest.skip("needs the right to make a network namespace")
    says(found[0], "ip link set lo up")
    assert join.no_loopback() is None


def test_doctor_tells_it(refused, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", raises(OSError(errno.ENETUNREACH, "Network is unreachable")))
    says(refused("doctor", "layout", "--device", "cpu"), "ip link set lo up")


@pytest.mark.parametrize("more", [1, 10, 13, 20])
@pytest.mark.parametrize("command", COMMANDS)
def test_too_few_open_files(refused, command, more):
    """While the folder is made, with the folder made, with some of the memory, and with all of it."""
    words = COMMANDS[command]
    refused("predict", "run", "layout", "--out", "warm/up.npy")  # what is imported only now
    with open_files(more), gives_up():
        assert "open files" in refused(*words)


@pytest.mark.parametrize("more", range(6, 15))
def test_a_store_that_cannot_accept(more):
    """It would be connected to again and again, looking for no signal."""
    with open_files(more), gives_up(), pytest.raises(OSError, match="Too many open files"), join.rendezvous(2):
        pass


@pytest.mark.parametrize("command", ["partition", "data"])
def test_too_few_open_files_to_write_a_folder(refused, command):
    words = {"data": ["import", "synthetic:tiny"], "partition": ["store", "--parts", "2"]}[command]
    for more in (4, 8, 10):
        with open_files(more):
            assert "Too many open files" in refused(command, *words, "--out", "new")


@pytest.mark.parametrize(
    ("command", "where", "error", "printed"),
    [
        ("train", "subprocess.Popen", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (
            "train",
            "os.memfd_create",
            OSError(errno.ENOSYS, "Function not implemented"),
            "memfd_create, Function not implemented",
        ),
        ("predict", "os.memfd_create", PermissionError(errno.EPERM, "Operation not permitted"), "memfd_create"),
        (
            "predict",
            "multiprocessing.process.BaseProcess.start",
            OSError(errno.ENOMEM, "Cannot allocate"),
            "ulimit -v",
        ),
        ("check", "multiprocessing.process.BaseProcess.start", RuntimeError("can't start new thread"), "ulimit -u"),
        (
            "train",
            "torch.distributed.TCPStore",
            dist.DistStoreError("Failed to init uv loop"),
            "Failed to init uv loop",
        ),
    ],
)
def test_calls_that_fail_at_the_start(refused, monkeypatch, command, where, error, printed):
    monkeypatch.setattr(where, raises(error))
    says(refused(*COMMANDS[command]), printed)


@pytest.mark.parametrize("command", ["train", "predict", "partition"])
def test_without_proc(refused, monkeypatch, command):
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/meminfo")
    monkeypatch.setattr(psutil, "virtual_memory", raises(missing))
    words = COMMANDS.get(command, ("partition", "store", "--out", "new"))
    says(refused(*words), "/proc/meminfo, mount /proc")


def test_what_is_our_fault_keeps_its_traceback():
    for error in (FileNotFoundError(errno.ENOENT, "No such file", "x"), RuntimeError("shapes"), ValueError("x")):
        assert refused_by_host(error) is None
    says(refused_by_host(MemoryError()), "Cannot allocate memory, ulimit -v")
