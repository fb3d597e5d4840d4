"""Trainers on hosts that are namespaces, each started as torchrun or srun would, or by torchrun itself."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.namespaces import PORT, Host, Hosts, Started
from support.waiting import wait_until

FLAGS = ("--fan-out", "3,3", "--hidden", "8", "--batch-size", "40", "--threads", "1", "--samplers", "1")
ENDLESS = (*FLAGS, "--epochs", "100000", "--evaluate", "none", "--log-every", "0")
TRAIN = (sys.executable, "-m", "gsplit.train")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
ENDED_S = 120.0
"""Seconds that a short run may take on a crowded machine."""
STARTED_S = 60.0
"""Seconds that a crowded machine may take until all train."""
COMMON = {"OMP_NUM_THREADS": "1", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}


class World:
    """``here`` trainers on each of some hosts.

    Args:
        hosts: that all are on.
        here: trainers of each host; or of each in turn.
        folder: for what they print.
        command: of every trainer; or of the trainers of each host in turn.
        environ: variables of all; by rank where it is a list.
    """

    def __init__(
        self,
        hosts: Hosts,
        here: int | Sequence[int],
        folder: Path,
        command: Sequence,
        environ: Mapping[str, str] | Sequence[Mapping[str, str]] = {},
    ) -> None:
        self.hosts, self.folder = hosts, folder
        numbers = [here] * len(hosts) if isinstance(here, int) else list(here)
        self.of_host = [range(sum(numbers[:at]), sum(numbers[: at + 1])) for at in range(len(numbers))]
        self.trainers: list[Started] = []
        commands = command if isinstance(command[0], (list, tuple)) else [command] * len(hosts)
        for at, ranks in enumerate(self.of_host):
            for rank in ranks:
                own = environ if isinstance(environ, Mapping) else environ[rank]
                place = {
                    **{"RANK": rank, "WORLD_SIZE": sum(numbers), "GROUP_RANK": at},
                    **{"LOCAL_RANK": rank - ranks.start, "LOCAL_WORLD_SIZE": len(ranks)},
                    **{"MASTER_ADDR": hosts[0].address, "MASTER_PORT": PORT},
                    "TORCHELASTIC_ERROR_FILE": folder / f"error-{rank}",
                    **own,
                }
                self.trainers.append(started(hosts[at], commands[at], place, folder / f"out-{rank}"))

    def train(self, run: Path) -> None:
        """Wait until mini-batches are written down."""
        file = run / "metrics.jsonl"
        wait_until(lambda: self.ended() or (file.is_file() and file.stat().st_size), STARTED_S, self.told)
        assert not self.ended(), self.told()

    def ended(self) -> bool:
        return any(trainer.poll() is not None for trainer in self.trainers)

    def codes(self, limit_s: float, since_s: float | None = None) -> list[int]:
        """Exit codes, by rank, once all have ended, which is to be within a limit."""
        since_s = time.monotonic() if since_s is None else since_s
        left_s = limit_s - (time.monotonic() - since_s)
        wait_until(lambda: all(trainer.poll() is not None for trainer in self.trainers), left_s, self.told)
        self.took_s = time.monotonic() - since_s
        return [trainer.returncode for trainer in self.trainers]

    def said(self, rank: int) -> str:
        return (self.folder / f"out-{rank}").read_text()

    def told(self) -> str:
        """All that they have printed."""
        return "\n".join(f"-- {rank}\n{self.said(rank)}" for rank in range(len(self.trainers)))

    def last_words(self) -> list[str]:
        """GSplit's last line on each host: one, which all of its trainers that say something agree on."""
        words = []
        for ranks in self.of_host:
            text = "".join(map(self.said, ranks))
            lines = {line for line in text.splitlines() if line.startswith("error: ")}
            assert len(lines) == 1, self.told()
            words += lines
        return words

    def root_causes(self) -> list[str | None]:
        """What torchrun would read, by rank."""
        files = [self.folder / f"error-{rank}" for rank in range(len(self.trainers))]
        return [json.loads(file.read_text())["message"]["message"] if file.is_file() else None for file in files]

    def end(self) -> None:
        for trainer in self.trainers:
            trainer.end()


def started(host: Host, command: Sequence, environ: Mapping[str, object], out: Path) -> Started:
    """A process of a host, with what it prints in a file."""
    with out.open("w") as file:
        variables = os.environ | COMMON | {name: str(value) for name, value in environ.items()}
        return host.start([*map(str, command)], variables, file)


def torchrun(hosts: Hosts, here: int, folder: Path, *arguments: object) -> list[Started]:
    """torchrun on each host."""
    return [
        started(
            host,
            [
                *(*TORCHRUN, "--nnodes", len(hosts), "--nproc-per-node", here, "--node-rank", host.number - 1),
                *("--master-addr", hosts[0].address, "--master-port", PORT, "-m", "gsplit.train", *arguments),
            ],
            {},
            folder / f"torchrun-{host.number}",
        )
        for host in hosts.hosts
    ]
