"""Descriptors that processes of one host hand each other."""

from __future__ import annotations

import multiprocessing
import os
import resource
import secrets
import socket
import threading

import numpy as np
import pytest
from support.messages import line_with

from gsplit.errors import InputError
from gsplit.host import SharedBuffer
from gsplit.hosts import handing


def test_buffers_and_pipes_are_the_same_on_the_other_side():
    buffers = [SharedBuffer("test") for _ in range(handing.AT_A_TIME + 3)]
    for number, buffer in enumerate(buffers):
        buffer.grow(8)
        buffer.view((1,), np.int64)[0] = number
    reader, writer = multiprocessing.Pipe(duplex=False)
    here, there = socket.socketpair()
    sender = threading.Thread(target=handing.send, args=(here, {"of": buffers, "pipe": reader, "name": "x" * 10**6}))
    sender.start()
    received = handing.receive(there)
    sender.join()
    assert received["name"] == "x" * 10**6
    assert [int(buffer.view((1,), np.int64)[0]) for buffer in received["of"]] == list(range(len(buffers)))
    received["of"][1].view((1,), np.int64)[0] = 100
    assert buffers[1].view((1,), np.int64)[0] == 100
    writer.send("heard")
    assert received["pipe"].recv() == "heard"
    assert (received["pipe"].readable, received["pipe"].writable) == (True, False)
    assert not any(os.get_inheritable(buffer.fileno()) for buffer in received["of"])
    for each in (*buffers, *received["of"], received["pipe"], reader, writer, here, there):
        each.close()


def test_one_that_ends_is_noticed():
    here, there = socket.socketpair()
    here.sendall(b"half")
    here.close()
    with there, pytest.raises(EOFError):
        handing.receive(there)


def test_processes_find_each_other_by_name():
    name = f"gsplit-test-{secrets.token_hex(4)}"
    looks = []
    with handing.listening(name) as listener:
        caller = threading.Timer(2 * handing.LOOK_S, lambda: callers.append(handing.connected(name)))
        callers: list[socket.socket] = []
        caller.start()
        with handing.accepted(listener, lambda: looks.append(1)) as accepted:
            caller.join()
            handing.send(callers[0], "hello")
            assert handing.receive(accepted) == "hello"
        callers[0].close()
    assert looks
    with pytest.raises(InputError, match=line_with("host, one torchrun")):
        handing.connected(name)


def test_other_users_are_turned_away(monkeypatch):
    name = f"gsplit-test-{secrets.token_hex(4)}"
    with handing.listening(name):
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(InputError, match=line_with("user, 0" if os.geteuid() == 0 else "user")):
            handing.connected(name)


def test_too_few_open_files_are_an_error_and_no_wait():
    buffers = [SharedBuffer("test") for _ in range(5)]
    here, there = socket.socketpair()
    handing.send(here, buffers)
    before = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    spare = [os.dup(0) for _ in range(highest)]  # no number below the highest is free
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare) + 3, hard))
        with pytest.raises(OSError, match="open files"):
            handing.receive(there)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)
    assert len(os.listdir("/proc/self/fd")) == before
    for buffer in buffers:
        buffer.close()
    here.close()
    there.close()
