"""Trainers on hosts that are namespaces, each started as torchrun or srun would, or by torchrun itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from experiments.hosts.namespaces import PORT, Host, Hosts, Started, place_of, why_none
from support.hosts import Trainers

NEEDED = "GSPLIT_TEST_HOSTS"
"""Variable: where it is set, a machine that allows no such hosts fails what needs them; elsewhere it skips that."""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
RUN_S = 120.0
"""Seconds that a short run may take on a crowded machine."""
RESTARTED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""What docs/many-hosts.md has set where trainers are started again."""
COMMON = {"OMP_NUM_THREADS": "1", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}


def need_hosts() -> None:
    """Skip the test, or fail it, on a machine that allows no such hosts."""
    if (why := why_none()) is not None:
        (pytest.fail if os.environ.get(NEEDED) else pytest.skip)(why)


class World(Trainers):
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
        numbers = [here] * len(hosts) if isinstance(here, int) else list(here)
        super().__init__(folder, numbers)
        self.trainers: list[Started] = []
        commands = command if isinstance(command[0], (list, tuple)) else [command] * len(hosts)
        for at, ranks in enumerate(self.of_host):
            for rank in ranks:
                own = environ if isinstance(environ, Mapping) else environ[rank]
                place = place_of(hosts, rank, self.of_host) | {
                    "TORCHELASTIC_ERROR_FILE": self.error_file(rank),
                    **own,
                }
                self.trainers.append(started(hosts[at], commands[at], place, self.out_file(rank)))
        self.processes += self.trainers

    def end(self) -> None:
        for trainer in self.trainers:
            trainer.end()


def started(host: Host, command: Sequence, environ: Mapping[str, object], out: Path) -> Started:
    """A process of a host, with what it prints in a file."""
    with out.open("w") as file:
        variables = os.environ | COMMON | {name: str(value) for name, value in environ.items()}
        return host.start([*map(str, command)], variables, file)


def torchrun(hosts: Hosts, here: int, folder: Path, *arguments: object, restarts: int = 0) -> list[Started]:
    """torchrun on each host, which starts its trainers again so many times."""
    agents = []
    for host in hosts.hosts:
        how: tuple = ("--node-rank", host.number - 1, "--master-addr", hosts[0].address, "--master-port", PORT)
        if restarts:
            how = ("--max-restarts", restarts, "--rdzv-backend", "c10d", "--rdzv-id", "job")
            how += ("--rdzv-endpoint", f"{hosts[0].address}:{PORT}")
        command = [
            *TORCHRUN,
            "--nnodes",
            len(hosts),
            "--nproc-per-node",
            here,
            *how,
            "-m",
            "gsplit.train",
            *arguments,
        ]
        agents.append(started(host, command, RESTARTED if restarts else {}, folder / f"torchrun-{host.number}"))
    return agents
