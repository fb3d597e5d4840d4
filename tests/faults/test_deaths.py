"""Law 5: whoever dies in the middle of an epoch, the run ends in seconds with the cause as its last word, or goes on
as if nothing had happened; no process is left, nothing in shared memory, no temporary file."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil
import pytest
import torch
from support.commands import FLAGS, FOR_EVER, LIMIT_S, OWN, WHOLE, assert_same_run, listening
from support.messages import says

HERE = f"{os.path.dirname(__file__)}:{os.path.dirname(os.path.dirname(__file__))}"


@pytest.mark.parametrize("beside", [(), pytest.param(("beside",), marks=pytest.mark.slow)], ids=["alone", "two runs"])
def test_a_sampler_that_is_killed_is_replaced_and_nothing_changes_here_or_in_a_run_beside(
    layout, tmp_path, train, undisturbed, beside
):
    run = tmp_path / "run"
    command = train(layout.path, "--out", run, *FLAGS)
    others = [train(layout.path, "--out", tmp_path / name, *FLAGS) for name in beside]
    for epoch, batch in ((0, 2), (0, 6), (1, 4)):
        command.wait_for_checkpoint(run, epoch, batch)
        processes = command.children
        command.samplers[0].kill()
    code, _, err = command.ends()
    assert code == 0, err
    assert err.count("SIGKILL") == 3
    assert "replaced" in err
    for other in others:
        code, _, err = other.ends()
        assert code == 0, err
        assert "SIGKILL" not in err
    command.assert_nothing_left(processes)
    for name in ("run", *beside):
        assert_same_run(tmp_path / name, undisturbed)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("who", "how"), [("leader", signal.SIGKILL), ("trainer", signal.SIGKILL), ("sampler", signal.SIGKILL)]
)
def test_a_process_that_dies_ends_the_run(layout, tmp_path, who, how, train):
    command = train(layout.path, "--out", tmp_path / "run", *FLAGS, *FOR_EVER, "--max-sampler-restarts", "0")
    command.wait_for_checkpoint(tmp_path / "run", 0, 2)
    processes = command.children
    assert (len(command.trainers), len(command.samplers)) == (2, 2)
    victim = {"leader": command.trainers[0], "trainer": command.trainers[1], "sampler": command.samplers[1]}[who]
    os.kill(victim.pid, how)
    code, _, err = command.ends(LIMIT_S)
    assert code == 1
    says(err.strip().splitlines()[-1], f"pid {victim.pid}, {how.name}")
    assert "Traceback" not in err
    command.assert_nothing_left(processes)


@pytest.mark.slow
def test_a_trainer_of_the_whole_graph_that_dies_ends_the_run(layout, tmp_path, train):
    """At any moment; :mod:`test_deaths_in_moves` has the middle of each move."""
    command = train(layout.path, "--out", tmp_path / "run", *WHOLE, *FOR_EVER)
    command.wait_for_checkpoint(tmp_path / "run", 2, 0)
    processes = command.children
    assert (len(command.trainers), len(command.samplers)) == (2, 0)
    victim = command.trainers[1]
    os.kill(victim.pid, signal.SIGKILL)
    code, _, err = command.ends(LIMIT_S)
    assert code == 1
    says(err.strip().splitlines()[-1], f"pid {victim.pid}, SIGKILL")
    command.assert_nothing_left(processes)


def test_without_its_launcher_nobody_lives(layout, tmp_path, train):
    command = train(layout.path, "--out", tmp_path / "run", *FLAGS, *FOR_EVER)
    command.wait_for_checkpoint(tmp_path / "run", 0, 2)
    processes = command.children
    sockets = [socket for process in processes for socket in listening(process)]
    assert sockets, "gloo's own sockets should be seen here"
    assert {socket.laddr.ip for socket in sockets} <= {"127.0.0.1", "::1"}  # nothing that others could reach
    deaf = [command.trainers[1], command.samplers[0]]  # they do not notice that a pipe or a connection ends
    for process in deaf:
        process.suspend()
    command.process.kill()
    try:
        command.process.wait(LIMIT_S)
        command.assert_nothing_left(processes)
    finally:
        for process in deaf:
            with suppress(psutil.NoSuchProcess):
                process.kill()


class FailsLater(torch.nn.Module):
    """A user's model with a mistake that only the leader makes, in its third mini-batch."""

    uses_edge_weight = False

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.linear = torch.nn.Linear(in_channels, out_channels)
        self.calls = 0

    def forward(self, blocks, x):
        import torch.distributed as dist

        self.calls += 1
        if self.calls == 3 and dist.get_rank() == 0:
            raise RuntimeError("the mistake in the user's model")
        for block in blocks.values():
            x = block.exchange(x)[: block.num_destinations]
        return self.linear(x)


def test_the_first_traceback_is_the_last_word(layout, tmp_path, train):
    """Whoever fails first: tests/unit/processes/test_cause.py."""
    flags = (*OWN, "--model", "test_deaths:FailsLater")
    command = train(layout.path, "--out", tmp_path / "run", *flags, python_path=HERE)
    processes = command.wait_until(lambda: len(command.trainers) == 2 and command.children)
    code, _, err = command.ends()
    assert code == 1
    assert "trainer 0 failed" in err
    assert err.count("Traceback") == 1
    assert err.strip().endswith("RuntimeError: the mistake in the user's model")
    command.assert_nothing_left(processes)


class OnlyWithEdges(torch.nn.Module):
    """A user's model whose exchange stands in a condition: with one target a mini-batch, it differs at once."""

    uses_edge_weight = False

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.linear = torch.nn.Linear(in_channels, out_channels)

    def forward(self, blocks, x):
        for block in blocks.values():
            if block.num_edges > 0:
                block.exchange(x)
            x = x[: block.num_destinations]
        return self.linear(x)


def test_trainers_that_do_not_exchange_alike_end_the_run(layout, tmp_path, train):
    flags = (*OWN, "--batch-size", "1", "--model", "test_deaths:OnlyWithEdges")
    command = train(layout.path, "--out", tmp_path / "run", *flags, python_path=HERE)
    processes = command.wait_until(lambda: len(command.trainers) == 2 and command.children)
    code, out, err = command.ends()
    assert code == 2, err
    says(err.strip().splitlines()[-1], "model, trainer #")
    assert "Traceback" not in out + err
    assert not (tmp_path / "run").exists()
    command.assert_nothing_left(processes)
