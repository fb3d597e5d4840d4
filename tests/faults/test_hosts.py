"""Trainers on two hosts that are killed, asked to stop or given other layouts: all end, and say the same."""

from __future__ import annotations

import json
import signal
import socket
import time

import psutil
import pytest
from support.commands import children_of
from support.graphs import lay_out, random_graph
from support.hosts import ENDED_S, ENDLESS, FLAGS, TRAIN, on_loopback
from support.messages import says
from support.waiting import wait_until


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(300, 10, seed=3), tmp_path_factory.mktemp("layouts"), parts=2).path


@pytest.fixture
def started(tmp_path, layout):
    all_of_them = []

    def start(here, *arguments, layouts=None):
        commands = [[*TRAIN, path, *arguments] for path in layouts or [layout, layout]]
        all_of_them.append(on_loopback(tmp_path, commands, here))
        return all_of_them[-1]

    yield start
    for trainers in all_of_them:
        trainers.end()


def test_a_trainer_that_is_killed_ends_all(started, tmp_path):
    run = tmp_path / "run"
    trainers = started(2, *ENDLESS, "--out", run)
    trainers.train(run)
    helpers = [child for process in trainers.processes for child in children_of(process.pid)]
    assert len(helpers) >= 4  # a supplier and a sampler on each host
    killed = trainers.processes[3]
    killed.kill()
    assert trainers.codes() == [1, 1, 1, -signal.SIGKILL]
    for line in trainers.last_words():
        says(line, f"{socket.gethostname()}, trainer 3, killed")
    assert [cause is not None and "trainer 3" in cause for cause in trainers.root_causes()] == [True] * 3 + [False]
    assert not psutil.wait_procs(helpers, 10.0)[1]


@pytest.mark.parametrize("here", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_supplier_that_is_killed_is_the_cause_on_both_hosts(started, tmp_path, here):
    run = tmp_path / "run"
    trainers = started(here, *ENDLESS, "--out", run)
    trainers.train(run)
    (supplier,) = children_of(trainers.processes[0].pid, recursive=False)
    supplier.kill()
    assert trainers.codes() == [1] * 2 * here
    for line in trainers.last_words():
        says(line, f"trainer 0, supplier, pid {supplier.pid}, without a word")


def test_the_host_of_a_killed_store_speaks(started, tmp_path):
    run = tmp_path / "run"
    trainers = started(2, *ENDLESS, "--out", run)
    trainers.train(run)
    trainers.processes[0].kill()
    assert trainers.codes() == [-signal.SIGKILL, 1, 1, 1]
    for line in trainers.last_words():
        says(line, "trainer 0")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_that_is_asked_to_stop_stops_all(started, tmp_path, number, code):
    run = tmp_path / "run"
    trainers = started(1, *ENDLESS, "--out", run)
    trainers.train(run)
    trainers.processes[1].send_signal(number)
    assert trainers.codes() == [code, code]
    says(trainers.said(0), "stopped after, --resume")
    saved = json.loads((run / "checkpoint.json").read_text())
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert saved["epoch"] + bool(saved["batch"]) == last["epoch"]


def test_another_layout_on_one_host_is_refused(started, tmp_path, layout):
    other = lay_out(random_graph(300, 10, seed=4), tmp_path / "others", parts=2).path
    trainers = started(1, *FLAGS, "--out", tmp_path / "run", layouts=[layout, other])
    assert trainers.codes() == [2, 2]
    for lines in trainers.last_lines():
        assert len(lines) == 1
        says(lines[0], f"{socket.gethostname()}, {other.name}, another layout, trainer 0")
    assert not (tmp_path / "run").exists()


def test_a_host_that_hangs_is_silent(started, tmp_path):
    """As where a cable is cut: nothing breaks, and both sides wait."""
    run = tmp_path / "run"
    trainers = started(1, *ENDLESS, "--silence", "2", "--out", run)
    trainers.train(run)
    trainers.processes[1].send_signal(signal.SIGSTOP)
    start_s = time.monotonic()
    wait_until(lambda: trainers.processes[0].poll() is not None, ENDED_S, trainers.told)
    assert time.monotonic() - start_s > 1.5
    assert trainers.processes[0].returncode == 1
    says(trainers.last_lines()[0][0], "trainers 1 to 1, silent for")
    trainers.processes[1].send_signal(signal.SIGCONT)
    wait_until(lambda: trainers.processes[1].poll() is not None, ENDED_S, trainers.told)
    assert trainers.processes[1].returncode == 1
