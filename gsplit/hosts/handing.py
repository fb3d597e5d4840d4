"""Memory and pipes for processes of this host that are no children of the one that has them, by a socket.

The socket has an abstract name, so nothing lies in the file system, and no other network namespace can connect; who
connects must be of the same user. What is sent is pickled, with the descriptors of its buffers and pipes beside it.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import socket
import struct
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from gsplit.errors import InputError
from gsplit.host import SharedBuffer

LOOK_S = 0.2
"""Seconds between two looks, while a connection is waited for, whether it is still to come."""
AT_A_TIME = 128
"""Descriptors in a message; the kernel takes 253 at most."""
HEADER = struct.Struct("=QI")
"""What comes first: the bytes of the pickle, and the number of descriptors."""
CREDENTIALS = struct.Struct("=iii")
"""What SO_PEERCRED gives: process, user, group."""


class _Pickler(pickle.Pickler):
    """Pickles buffers and pipes as places among the descriptors."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.descriptors: list[int] = []

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if isinstance(obj, SharedBuffer):
            about: tuple[Any, ...] = ("buffer",)
        elif isinstance(obj, Connection):
            about = ("pipe", obj.readable, obj.writable)
        else:
            return None
        self.descriptors.append(obj.fileno())
        return len(self.descriptors) - 1, *about


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, descriptors: list[int]) -> None:
        super().__init__(file)
        self._descriptors = descriptors

    def persistent_load(self, pid: Any) -> Any:
        at, kind, *ways = pid
        if kind == "buffer":
            return SharedBuffer("", self._descriptors[at])
        return Connection(self._descriptors[at], readable=ways[0], writable=ways[1])


def send(to: socket.socket, content: Any) -> None:
    """Send an object, with the buffers and pipes in it; these stay open here, too."""
    pickler = _Pickler(file := io.BytesIO())
    pickler.dump(content)
    body, descriptors = file.getvalue(), pickler.descriptors
    to.sendall(HEADER.pack(len(body), len(descriptors)))
    for first in range(0, len(descriptors), AT_A_TIME):
        socket.send_fds(to, [b"."], descriptors[first : first + AT_A_TIME])
    to.sendall(body)


def receive(source: socket.socket) -> Any:
    """Return what :func:`send` sent.

    Raises:
        EOFError: where the other has ended.
        OSError: where this process may not open as many files.
    """
    length, number = HEADER.unpack(_exactly(source, HEADER.size))
    descriptors: list[int] = []
    while len(descriptors) < number:
        data, more, flags, _ = socket.recv_fds(source, 1, AT_A_TIME)
        if not data:
            raise EOFError
        descriptors += more
        if flags & socket.MSG_CTRUNC:  # the others are lost
            for descriptor in descriptors:
                os.close(descriptor)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return _Unpickler(io.BytesIO(_exactly(source, length)), descriptors).load()


def _exactly(source: socket.socket, num_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < num_bytes:
        part = source.recv(num_bytes - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def listening(name: str) -> socket.socket:
    """A socket that processes of this host can connect to by this name."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen(socket.SOMAXCONN)
    return listener


def connected(name: str) -> socket.socket:
    """A connection to the process that listens by this name, of the same user.

    Raises:
        InputError: where nobody does, as where ranks that should be of one host are on several.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(f"\0{name}")
    except OSError as error:
        connection.close()
        raise InputError(
            f"the first trainer of this host does not answer ({error.strerror}): trainers that count as those of one "
            "host must be on one, in one network namespace; start all trainers of a host by one torchrun"
        ) from None
    _check_user(connection)
    return connection


def accepted(listener: socket.socket, look: Callable[[], None]) -> socket.socket:
    """The next connection of a process of the same user; others are closed.

    Args:
        listener: that they connect to.
        look: called again and again while nobody does; what it raises ends the wait.
    """
    while True:
        while not wait([listener], LOOK_S):
            look()
        connection, _ = listener.accept()
        try:
            _check_user(connection)
        except InputError:
            connection.close()
        else:
            return connection


def _check_user(connection: socket.socket) -> None:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    _, user, _ = CREDENTIALS.unpack(credentials)
    if user != os.getuid():
        connection.close()
        raise InputError(f"a process of user {user} is at the socket of this run's trainers; start it again")
