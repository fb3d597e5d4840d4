"""Trainers that are started one by one, as torchrun and srun do: several hosts, on the loopback of this one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from support.forked import Popen
from support.waiting import wait_until

TRAIN = (sys.executable, "-m", "gsplit.train")
FLAGS = ("--fan-out", "3,3", "--hidden", "8", "--batch-size", "40", "--threads", "1", "--samplers", "1")
ENDLESS = (*FLAGS, "--epochs", "100000", "--evaluate", "none", "--log-every", "0")
ENDED_S = 60.0
"""Seconds that a crowded machine may take to end all; where it is idle it is two."""
STARTED_S = 60.0
"""Seconds that a crowded machine may take until all train."""

SCRIPT = """
import contextlib, json, os, sys
import gsplit

def open_memory():
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name.split()[0].removeprefix("/memfd:") for name in found if name.startswith("/memfd:")]

if __name__ == "__main__":
    for at, config in enumerate(json.load(open(sys.argv[1]))):
        summary = gsplit.train(config=gsplit.TrainConfig(**config))
        json.dump(summary, open(f"{sys.argv[2]}-{at}", "w"))
        json.dump(open_memory(), open(f"{sys.argv[2]}-{at}-memory", "w"))
"""
"""What each trainer runs: one training after the other, by ``gsplit.train``; and what memory is open after each."""


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def places(hosts: int, here: int) -> list[dict[str, str]]:
    """The environments of all trainers, by rank."""
    common = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    return [
        common
        | {"WORLD_SIZE": str(hosts * here), "LOCAL_WORLD_SIZE": str(here), "RANK": str(rank)}
        | {"LOCAL_RANK": str(rank % here), "GROUP_RANK": str(rank // here)}
        for rank in range(hosts * here)
    ]


def train_placed(folder: Path, hosts: int, here: int, configs: Sequence[dict]) -> list[list[dict]]:
    """Train by a script that each trainer runs; the summaries of each configuration, by rank."""
    folder.mkdir(parents=True)
    (folder / "script.py").write_text(SCRIPT)
    (folder / "configs.json").write_text(json.dumps(configs, default=str))
    trainers = [
        Popen(
            [sys.executable, str(folder / "script.py"), str(folder / "configs.json"), str(folder / f"rank-{rank}")],
            env=place,
            stdin=subprocess.DEVNULL,
            stdout=(folder / f"out-{rank}").open("w"),
            stderr=subprocess.STDOUT,
        )
        for rank, place in enumerate(places(hosts, here))
    ]
    codes = [trainer.wait(300) for trainer in trainers]
    assert not any(codes), "\n".join((folder / f"out-{rank}").read_text() for rank in range(len(codes)))
    return [
        [json.loads((folder / f"rank-{rank}-{at}").read_text()) for rank in range(len(codes))]
        for at in range(len(configs))
    ]


class Trainers:
    """Trainers of some hosts, each of which prints into a file of a folder.

    Args:
        folder: of ``out-RANK``, and of ``error-RANK``, which torchrun would read.
        numbers: of trainers, on each host.
    """

    def __init__(self, folder: Path, numbers: Sequence[int]) -> None:
        self.folder = folder
        self.of_host = [range(sum(numbers[:at]), sum(numbers[: at + 1])) for at in range(len(numbers))]
        self.processes: list[subprocess.Popen] = []

    def error_file(self, rank: int) -> Path:
        return self.folder / f"error-{rank}"

    def out_file(self, rank: int) -> Path:
        return self.folder / f"out-{rank}"

    def train(self, run: Path) -> None:
        """Wait until mini-batches are written down."""
        file = run / "metrics.jsonl"
        wait_until(lambda: self.ended() or (file.is_file() and file.stat().st_size), STARTED_S, self.told)
        assert not self.ended(), self.told()

    def ended(self) -> bool:
        """Whether any has."""
        return any(process.poll() is not None for process in self.processes)

    def codes(self, limit_s: float = ENDED_S, since_s: float | None = None) -> list[int]:
        """Exit codes, by rank, once all have ended, which is to be within a limit."""
        since_s = time.monotonic() if since_s is None else since_s
        left_s = limit_s - (time.monotonic() - since_s)
        wait_until(lambda: all(process.poll() is not None for process in self.processes), left_s, self.told)
        self.took_s = time.monotonic() - since_s
        return [process.returncode for process in self.processes]

    def said(self, rank: int) -> str:
        return self.out_file(rank).read_text()

    def told(self) -> str:
        """All that they have printed."""
        return "\n".join(f"-- {rank}\n{self.said(rank)}" for rank in range(len(self.processes)))

    def last_lines(self) -> list[list[str]]:
        """GSplit's last lines on each host, by any of its trainers."""
        texts = ("".join(map(self.said, ranks)) for ranks in self.of_host)
        return [[line for line in text.splitlines() if line.startswith("error: ")] for text in texts]

    def last_words(self) -> list[str]:
        """The last line on each host, which all of its trainers that say something agree on."""
        words = [set(lines) for lines in self.last_lines()]  # one that its pulse has ended says it, too
        assert all(len(lines) == 1 for lines in words), self.told()
        return [line for lines in words for line in lines]

    def root_causes(self) -> list[str | None]:
        """What torchrun would read, by rank."""
        files = map(self.error_file, range(len(self.processes)))
        return [json.loads(file.read_text())["message"]["message"] if file.is_file() else None for file in files]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def on_loopback(folder: Path, commands: Sequence[Sequence], here: int) -> Trainers:
    """Trainers on as many hosts as there are commands, each of the trainers of one."""
    trainers = Trainers(folder, [here] * len(commands))
    for rank, place in enumerate(places(len(commands), here)):
        place["TORCHELASTIC_ERROR_FILE"] = str(trainers.error_file(rank))
        with trainers.out_file(rank).open("w") as out:
            trainers.processes.append(
                Popen(
                    [*map(str, commands[rank // here])],
                    env=place,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )
    return trainers
