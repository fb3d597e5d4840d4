"""What a child is given to work on, in a file without a name.

multiprocessing writes it into a pipe, whose reading end it holds open itself meanwhile. A pipe takes 64 KiB: with
more, as with a model, a child that died before it read would leave the parent writing for ever.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any

from gsplit.errors import InputError
from gsplit.host import memory_file


class Parcel:
    """The work of a child: pickled into memory of its own as it starts, unpickled by :meth:`Sent.open`.

    Args:
        content: anything that multiprocessing could send.
    """

    def __init__(self, content: Any) -> None:
        self._content = content
        self._fd: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        self.close()
        self._fd = memory_file("gsplit-parcel")
        try:
            with open(self._fd, "wb", closefd=False) as file:
                reduction.ForkingPickler(file).dump(self._content)  # pipes and files in it are noted for this child
        except OSError as error:  # a limit of the container's, say
            raise InputError(f"no memory for what a trainer is given: {error.strerror}") from None
        return Sent, (reduction.DupFd(self._fd),)

    def close(self) -> None:
        """Let go of the memory, once the child is started: it has it by then."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Sent:
    """A parcel as the child receives it."""

    def __init__(self, fd: Any) -> None:
        self._fd = fd

    def open(self) -> Any:
        """The content. It can be taken out once."""
        with open(self._fd.detach(), "rb") as file:
            file.seek(0)
            return reduction.ForkingPickler.loads(file.read())
