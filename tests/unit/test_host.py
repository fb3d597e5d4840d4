"""Ctrl-C while another library computes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from gsplit.host import interruptible

CHILD = """
from gsplit.host import interruptible
with interruptible():
    print("begun", flush=True)
    sum(range(10**13))  # C code that never asks for signals
"""


def test_ctrl_c_ends_a_call_that_does_not_look_for_it():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"begun\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == -signal.SIGINT


def test_the_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == before


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
