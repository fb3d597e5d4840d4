"""SIGTERM and Ctrl-C while a run waits, or computes for long: it ends soon, with what was trained."""

from __future__ import annotations

import signal
import time

from support.commands import FLAGS

from gsplit.runs import checkpoint

SOON_S = 6.0
"""Two seconds, on a machine that others use as well."""
SLOW = """
import multiprocessing
import time
from gsplit.nn import SAGE

class Slow(SAGE):
    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, 8, out_channels, num_layers=4)

    def forward_layer(self, layer, block, x):
        if not self.training and multiprocessing.parent_process() is not None:  # not where models are looked at
            print("evaluating", flush=True)
            time.sleep(2)
        return super().forward_layer(layer, block, x)
"""


def ends_soon(command, number):
    """Send a signal; the code, output and errors of a command that ends soon, with all of its processes."""
    processes, begin_s = command.children, time.monotonic()
    command.process.send_signal(number)
    code, out, err = command.ends()
    assert time.monotonic() - begin_s < SOON_S
    assert "Traceback" not in err
    command.assert_nothing_left(processes)
    return code, out, err


def test_trainers_that_wait_for_one_that_never_comes(layout, tmp_path, train):
    command = train(layout.path, "--out", tmp_path / "run", *FLAGS)
    command.wait_until(lambda: len(command.trainers) == 2)
    command.trainers[1].suspend()
    code, out, err = ends_soon(command, signal.SIGTERM)
    assert (code, out, err.strip().splitlines()[-1]) == (143, "", "terminated")
    assert not (tmp_path / "run").exists()


def test_an_evaluation_that_takes_long(layout, tmp_path, train):
    """Of a slow model, eight seconds in four chunks: what was trained before is in a checkpoint."""
    (tmp_path / "slow.py").write_text(SLOW)
    flags = ["--device", "cpu", "--threads", "1", "--gpus", "1", "--samplers", "0", "--batch-size", "400"]
    command = train(
        *(layout.path, "--out", tmp_path / "run", "--model", "slow:Slow", "--fan-out", "3,3,3,3", *flags),
        *("--checkpoint-every", "0"),
        python_path=tmp_path,
    )
    assert command.process.stdout.readline() == "evaluating\n"
    code, out, _ = ends_soon(command, signal.SIGINT)
    assert code == 130
    assert "--resume" in out
    at = checkpoint.describe_state(tmp_path / "run", checkpoint.CHECKPOINT)
    assert (at["epoch"], at["batch"]) == (0, 1)
