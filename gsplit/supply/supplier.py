"""The process that supplies the trainers of a host where no launcher does: it starts the samplers. Imports no torch.

The first trainer of a host starts it, as a fresh Python, and hands its peers the ends of their pipes. It dies with
that trainer, and the samplers die with it.

    first trainer ── Supplied once ──► supplier
    supplier      ── the trainers' ends, or Failed; Failed where it fails later ──► first trainer
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import traceback
from multiprocessing.connection import wait

from gsplit.cli import log_to_stderr
from gsplit.errors import InputError, ProcessDied, refused_by_host
from gsplit.host import die_with_parent, held_back
from gsplit.hosts import handing
from gsplit.processes.child import GRACE_S
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.sampler_process import Failed
from gsplit.supply.supplied import Supplied

START = "import sys; sys.path[:] = {path}; from gsplit.supply.supplier import main; main{arguments}"
"""The program of the process; ``arguments`` is the tuple that ``main`` is called with."""


class Supplier:
    """The process, for the trainer that starts it.

    Args:
        supplied: what it supplies the trainers of this host with.

    Raises:
        InputError, ProcessDied: where that cannot be.
    """

    def __init__(self, supplied: Supplied) -> None:
        self._line, theirs = socket.socketpair()
        with theirs, held_back():
            code = START.format(path=repr(sys.path), arguments=repr((os.getpid(), theirs.fileno())))
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self.ends: list[TrainerEnd] = []
        """The end of each trainer of this host."""
        try:
            handing.send(self._line, supplied)
            self.ends = handing.receive(self._line)
        except (EOFError, OSError):
            raise ProcessDied(f"the supplier ended with exit code {self._process.wait(GRACE_S)}") from None
        if isinstance(self.ends, Failed):
            raise _raised(self.ends)

    def failure(self) -> Exception | None:
        """What the supplier failed of, where it has just done so; None where it lives."""
        if not wait([self._line], GRACE_S):
            return None
        try:
            return _raised(handing.receive(self._line))
        except (EOFError, OSError):
            return ProcessDied(f"the supplier of mini-batches (pid {self._process.pid}) has ended without a word")

    def end(self) -> None:
        """End it, and its samplers with it; the trainers have ended."""
        self._line.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(parent: int, line: int) -> None:
    """Live as a supplier until the trainer that started this process closes its socket."""
    die_with_parent(parent)
    log_to_stderr()
    trainer = socket.socket(fileno=line)
    try:
        _serve(trainer)
    except EOFError:
        return
    except BaseException as error:
        words = str(error) if isinstance(error, (InputError, ProcessDied)) else refused_by_host(error)
        bad_input = not isinstance(error, ProcessDied) and words is not None
        with contextlib.suppress(OSError):
            handing.send(trainer, Failed(reason=words or traceback.format_exc(), bad_input=bad_input))


def _serve(trainer: socket.socket) -> None:
    supplied: Supplied = handing.receive(trainer)
    supply = supplied.supply()
    try:
        handing.send(trainer, supply.ends)
        supply.close_ends()
        while True:
            for file in wait([trainer, *supply.files()]):
                if file is trainer:
                    return  # it says nothing more
                supply.ready(file)  # type: ignore[arg-type]
    finally:
        supply.end()


def _raised(failed: Failed) -> Exception:
    return InputError(failed.reason) if failed.bad_input else ProcessDied(failed.reason)
