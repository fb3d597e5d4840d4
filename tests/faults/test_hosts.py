"""Trainers on two hosts that are killed, asked to stop or given other layouts: all end, and say the same."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from support.commands import children_of
from support.forked import Popen
from support.graphs import lay_out, random_graph
from support.hosts import places
from support.messages import says
from support.waiting import wait_until

FLAGS = ("--fan-out", "3,3", "--hidden", "8", "--batch-size", "40", "--threads", "1", "--samplers", "1")
ENDLESS = (*FLAGS, "--epochs", "100000", "--evaluate", "none", "--log-every", "0")
ENDED_S = 60.0
"""Seconds that a crowded machine may take to end all; where it is idle it is two."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(300, 10, seed=3), tmp_path_factory.mktemp("layouts"), parts=2).path


class Trainers:
    """One process a trainer, on two hosts of loopback."""

    def __init__(self, folder, here, *arguments, layouts):
        self.folder = folder
        self.processes = []
        for rank, place in enumerate(places(2, here)):
            command = [sys.executable, "-m", "gsplit.train", str(layouts[rank // here]), *map(str, arguments)]
            place["TORCHELASTIC_ERROR_FILE"] = str(folder / f"error-{rank}")
            with (folder / f"out-{rank}").open("w") as out:
                self.processes.append(
                    Popen(command, env=place, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
                )

    def codes(self):
        """Exit codes, by rank, once all have ended."""
        wait_until(lambda: all(process.poll() is not None for process in self.processes), ENDED_S, self.told)
        return [process.returncode for process in self.processes]

    def told(self):
        """All that they have printed."""
        return "\n".join(map(self.said, range(len(self.processes))))

    def said(self, rank):
        return (self.folder / f"out-{rank}").read_text()

    def last_lines(self):
        """The last line on each host, by any of its trainers."""
        here = len(self.processes) // 2
        of_hosts = ("".join(map(self.said, range(host * here, (host + 1) * here))) for host in range(2))
        return [[line for line in text.splitlines() if line.startswith("error: ")] for text in of_hosts]

    def root_causes(self):
        """What torchrun would read, by rank."""
        files = [self.folder / f"error-{rank}" for rank in range(len(self.processes))]
        return [json.loads(file.read_text())["message"]["message"] if file.is_file() else None for file in files]

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def started(tmp_path, layout):
    all_of_them = []

    def start(here, *arguments, layouts=None):
        trainers = Trainers(tmp_path, here, *arguments, layouts=layouts or [layout, layout])
        all_of_them.append(trainers)
        return trainers

    yield start
    for trainers in all_of_them:
        trainers.end()


def trains(run):
    """Whether a run has written down mini-batches."""
    return (run / "metrics.jsonl").is_file() and (run / "metrics.jsonl").stat().st_size > 0


def test_a_trainer_that_is_killed_ends_all(started, tmp_path):
    run = tmp_path / "run"
    trainers = started(2, *ENDLESS, "--out", run)
    wait_until(lambda: trains(run), ENDED_S, trainers.told)
    helpers = [child for process in trainers.processes for child in children_of(process.pid)]
    assert len(helpers) >= 4  # a supplier and a sampler on each host
    killed = trainers.processes[3]
    killed.kill()
    assert trainers.codes() == [1, 1, 1, -signal.SIGKILL]
    for lines in trainers.last_lines():
        assert len(set(lines)) == 1  # one that its pulse has ended says it, too
        says(lines[0], f"{socket.gethostname()}, trainer 3, killed")
    assert [cause is not None and "trainer 3" in cause for cause in trainers.root_causes()] == [True] * 3 + [False]
    assert not psutil.wait_procs(helpers, 10.0)[1]


@pytest.mark.parametrize("here", [1, 2])
def test_a_supplier_that_is_killed_is_the_cause_on_both_hosts(started, tmp_path, here):
    run = tmp_path / "run"
    trainers = started(here, *ENDLESS, "--out", run)
    wait_until(lambda: trains(run), ENDED_S, trainers.told)
    (supplier,) = children_of(trainers.processes[0].pid, recursive=False)
    supplier.kill()
    assert trainers.codes() == [1] * 2 * here
    for lines in trainers.last_lines():
        assert len(set(lines)) == 1
        says(lines[0], f"trainer 0, supplier, pid {supplier.pid}, without a word")


def test_the_host_of_a_killed_store_speaks(started, tmp_path):
    run = tmp_path / "run"
    trainers = started(2, *ENDLESS, "--out", run)
    wait_until(lambda: trains(run), ENDED_S, trainers.told)
    trainers.processes[0].kill()
    assert trainers.codes() == [-signal.SIGKILL, 1, 1, 1]
    for lines in trainers.last_lines():
        assert len(set(lines)) == 1
        says(lines[0], "trainer 0")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_that_is_asked_to_stop_stops_all(started, tmp_path, number, code):
    run = tmp_path / "run"
    trainers = started(1, *ENDLESS, "--out", run)
    wait_until(lambda: trains(run), ENDED_S, trainers.told)
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
    wait_until(lambda: trains(run), ENDED_S, trainers.told)
    trainers.processes[1].send_signal(signal.SIGSTOP)
    start_s = time.monotonic()
    wait_until(lambda: trainers.processes[0].poll() is not None, ENDED_S, trainers.told)
    assert time.monotonic() - start_s > 1.5
    assert trainers.processes[0].returncode == 1
    says(trainers.last_lines()[0][0], "trainers 1 to 1, silent for")
    trainers.processes[1].send_signal(signal.SIGCONT)
    wait_until(lambda: trainers.processes[1].poll() is not None, ENDED_S, trainers.told)
    assert trainers.processes[1].returncode == 1
