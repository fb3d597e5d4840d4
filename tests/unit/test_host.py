"""Ctrl-C while another library computes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from support.graphs import random_graph

from gsplit import cli
from gsplit.errors import InputError
from gsplit.host import ending_tidily, interruptible, raise_again
from gsplit.partition.methods import metis
from gsplit.partition.problem import Problem

CHILD = """
from gsplit.host import interruptible
with interruptible():
    print("begun", flush=True)
    sum(range(10**13))  # C code that never asks for signals
"""


def test_ctrl_c_ends_a_call_that_does_not_look_for_it():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"begun\n"
        child.send_signal(signal.SIGINT)
        assert (child.wait(timeout=30), child.stderr.read()) == (130, b"interrupted\n")


METIS = """
import numpy as np
from gsplit import _core
from gsplit.partition.methods import metis
random = np.random.default_rng(0)
indptr, indices = _core.csc_from_edges(*random.integers(0, 10**5, (2, 10**6)), 10**5, True)
print("begun", flush=True)
metis.part_graph(4, indptr, indices, None, None, seed=0, imbalance=0.03)
print("done", flush=True)
"""


@pytest.mark.parametrize("delay_s", [0.1, 0.4, 0.8])
def test_metis_does_not_keep_sigterm_for_itself(delay_s):
    # It has a handler of its own, which jumps out of where it is: to a traceback, or to a process that hangs.
    with subprocess.Popen([sys.executable, "-c", METIS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"begun\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=delay_s)
        child.terminate()
        assert (child.wait(timeout=30), child.stderr.read()) == (143, b"terminated\n")
        assert child.stdout.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_handler_comes_back(number):
    before = signal.getsignal(number)
    came = []
    signal.signal(number, lambda *_: came.append(number))
    try:
        with interruptible():
            pass
        signal.raise_signal(number)
    finally:
        signal.signal(number, before)
    assert came == [number]


def test_ctrl_c_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_leave_signals_alone():
    seen = []

    def work():
        with interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_a_second_sigterm_waits_for_nobody():
    """The first one is being answered: what it has begun to take back is taken back."""
    taken_back = []

    def work():
        with ending_tidily():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                taken_back.append(True)

    with pytest.raises(SystemExit) as end:
        work()
    assert (end.value.code, taken_back) == (143, [True])
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


class Drops:
    """Its finaliser gets a signal, whose exception Python drops there."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


class DropsTwice(Drops):
    """The next finaliser gets it as well."""

    def __del__(self):
        self.next = Drops(self.number)
        signal.raise_signal(self.number)


@pytest.mark.parametrize("kind", [Drops, DropsTwice])
@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_that_comes_in_a_finaliser_is_not_lost(monkeypatch, kind, number, raised):
    monkeypatch.setattr(sys, "unraisablehook", raise_again)

    def work():
        kind(number)
        threading.Event().wait(10)  # which the signal ends

    with pytest.raises(raised), ending_tidily():
        work()


def test_other_exceptions_that_python_drops_are_printed_as_ever(monkeypatch, capfd):
    class Fails:
        def __del__(self):
            raise ValueError("of a finaliser")

    monkeypatch.setattr(sys, "unraisablehook", raise_again)
    Fails()
    assert "ValueError: of a finaliser" in capfd.readouterr().err


@pytest.mark.parametrize("error", [InputError("a page needs Matplotlib"), ImportError("of compiled code")])
def test_an_error_that_a_signal_became_is_the_signal(capsys, error):
    def command(_):
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit:
            raise error from None

    with pytest.raises(SystemExit) as end:
        cli.main(command)
    assert (end.value.code, capsys.readouterr().err) == (143, "terminated\n")


def test_an_error_after_another_command_was_ended_is_an_error(capsys):
    for deed, code in ((lambda _: signal.raise_signal(signal.SIGTERM), 143), (complains, 2)):
        with pytest.raises(SystemExit) as end:
            cli.main(deed)
        assert end.value.code == code
    assert capsys.readouterr().err == "terminated\nerror: told so\n"


def complains(_):
    raise InputError("told so")


@pytest.mark.parametrize(
    ("printed", "end"), [("Caught an unknown exception!", SystemExit), ("weights are negative", RuntimeError)]
)
def test_metis_that_takes_sigterm_for_an_error_is_ended(monkeypatch, printed, end):
    def part_graph(*_, **__):
        raise RuntimeError(printed)

    monkeypatch.setattr("pymetis.part_graph", part_graph)
    problem = Problem(graph=random_graph(20, 3, seed=1), parts=2)
    with pytest.raises(end, match="143" if end is SystemExit else printed):
        metis.assign(problem)
