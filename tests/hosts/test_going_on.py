"""Hosts that are killed, and the job that comes back: with as many the same bits, with others as good a model."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest
from support.graphs import lay_out
from support.hosts import FLAGS, TRAIN
from support.waiting import wait_until
from support.worlds import RUN_S, torchrun

from experiments.hosts.namespaces import children_of
from experiments.shared import real_graphs
from experiments.shared.same_run import counted, same
from gsplit.data.importers.formats.npz import load_npz
from gsplit.runs import checkpoint, starts

GOES_ON = ("--continue", "--checkpoint-every-batches", "1", "--log-every", "0")
ON_CORA = ("--fan-out", "10,10", "--hidden", "64", "--lr", "0.003", "--dropout", "0.5", "--batch-size", "64")
LAST_IS_KEPT = ("--epochs", "15", "--validate-every", "0")
"""Or the best model might be one of before a host was killed."""
SEEDS = 5


def is_at(run, epoch):
    """Whether the run has come into the epoch after so many."""
    try:
        about = checkpoint.describe_state(run, checkpoint.CHECKPOINT)
    except Exception:
        return False
    return (about["epoch"], about["batch"]) > (epoch, 0)


def ended_in(world, run, epoch, host):
    """Kill a host once a run has so many epochs, and wait until those of the others have ended."""
    wait_until(lambda: is_at(run, epoch) or world.ended(), RUN_S, world.told)
    host.kill()
    assert set(world.codes()) == {1, -signal.SIGKILL}, world.told()


def assert_same_bits(*runs):
    states = [checkpoint.load_state(run, checkpoint.CHECKPOINT) for run in runs]
    assert all(same(states[0][part], states[1][part]) for part in ("model", "optimizer", "best"))
    assert counted(runs[0]) == counted(runs[1])


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_as_many_hosts_come_to_the_same_bits(make_hosts, start, layout, tmp_path, lost):
    """A host is killed once an epoch is saved."""
    hosts, runs = make_hosts(2), [tmp_path / "whole", tmp_path / "run"]
    flags = (*FLAGS, "--batch-size", "10", "--dropout", "0.3", "--epochs", "6", *GOES_ON)
    command = {run: [*TRAIN, layout, "--out", run, *flags] for run in runs}
    whole = start(hosts, 2, command[runs[0]])
    assert set(whole.codes(RUN_S)) == {0}, whole.told()
    ended_in(start(hosts, 2, command[runs[1]]), runs[1], 1, hosts[lost])
    again = start(hosts, 2, command[runs[1]])
    assert set(again.codes(RUN_S)) == {0}, again.told()
    assert_same_bits(*runs)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_what_torchrun_starts_again_comes_to_the_same_bits(make_hosts, layout, tmp_path, lost):
    """A trainer is killed in the second epoch, and its command line says nothing of going on."""
    hosts, runs = make_hosts(2), [tmp_path / "whole", tmp_path / "run"]
    flags = (*FLAGS, "--batch-size", "10", "--dropout", "0.3", "--epochs", "6", *GOES_ON[1:])
    for run in runs:
        agents = torchrun(hosts, 2, tmp_path, layout, "--out", run, *flags, restarts=2)
        printed = [tmp_path / f"torchrun-{host.number}" for host in hosts.hosts]

        def told(printed=printed):
            return "".join(file.read_text() for file in printed)

        try:
            if run == runs[1]:
                wait_until(lambda: is_at(runs[1], 1), RUN_S, told)
                os.kill(children_of(agents[lost].own_pid)[1], signal.SIGKILL)
            assert [agent.wait(RUN_S) for agent in agents] == [0, 0], told()
        finally:
            for agent in agents:
                agent.end()
    assert [starts.last(run)["number"] for run in runs] == [1, 2]
    assert_same_bits(*runs)


@pytest.mark.slow
def test_fewer_and_more_hosts_come_to_as_good_a_model(make_hosts, start, tmp_path, real_data):
    """Three hosts, two of them for some epochs, and three again; for several seeds."""
    hosts = make_hosts(3)
    layout = lay_out(load_npz(real_graphs.path(real_data, "cora")), tmp_path, parts=3).path
    found = np.zeros((SEEDS, 2))
    for seed in range(SEEDS):
        runs = [tmp_path / f"whole-{seed}", tmp_path / f"run-{seed}"]
        for at, run in enumerate(runs):
            command = [*TRAIN, layout, "--out", run, *ON_CORA, *LAST_IS_KEPT, "--seed", seed, *GOES_ON]
            if at == 1:
                ended_in(start(hosts, 1, command), run, 1, hosts[2])
                ended_in(start(hosts.hosts[:2], 1, command), run, 7, hosts[1])
            world = start(hosts, 1, command)
            assert set(world.codes(RUN_S)) == {0}, world.told()
            found[seed, at] = json.loads((run / "summary.json").read_text())["test_accuracy"]
    error = found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    print("test accuracy, undisturbed, and with fewer and more:", found, "means:", found.mean(axis=0), error)
    assert abs(np.diff(found.mean(axis=0))[0]) < 3 * np.hypot(*error) + 0.005
