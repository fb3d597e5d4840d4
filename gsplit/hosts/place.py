"""The place of a process that was started as one trainer of several, by what starts the same program many times.

| who | its variables |
|---|---|
| torchrun, and what sets the same | RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT |
| Slurm's srun | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_NODES |
| Open MPI's mpirun | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; with MASTER_ADDR and MASTER_PORT |

The first that is there wins. Ranks of a host follow one another, and each host has as many.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from gsplit.errors import InputError

FIRST_PORT, PORTS = 20000, 10000
"""Ports of the store of a Slurm job, by the job's number."""
JOBS = {"torchrun": "TORCHELASTIC_RUN_ID", "Slurm": "SLURM_JOB_ID"}
"""Variables with the name of the job."""
UNNAMED = "none"
"""The name that torchrun gives a job without --rdzv-id."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One trainer among all, before it has joined them."""

    rank: int
    """From 0 to ``world`` - 1."""
    world: int
    """Number of trainers."""
    local: int
    """Number of this trainer among those of its host, from 0."""
    here: int
    """Trainers of each host."""
    address: str
    """Name or address of the host of trainer 0's store."""
    port: int
    """Port of the store."""
    served: bool = False
    """Whether the starter has opened the store; otherwise trainer 0 does."""
    restarts: int = 0
    """How often all trainers were started again."""
    by: str = "torchrun"
    """Who started them."""
    error_file: str | None = None
    """File that torchrun reads the cause of a failure from."""
    jobs: Mapping[str, str] = field(default_factory=dict)
    """Numbers and names of the job, by who gave it them."""
    mistake: str | None = None
    """Why nobody can train at such places, which the others are to hear: their own may be as they should."""

    @property
    def host(self) -> int:
        """Number of this trainer's host, from 0."""
        return self.rank // self.here

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return self.world // self.here

    @property
    def name(self) -> str:
        """Name of this host, for messages."""
        return socket.gethostname()

    @property
    def interface_address(self) -> str:
        """The address of this host that the way to the store begins at.

        Raises:
            InputError: where the store's host has no address, or there is no way to it.
        """
        try:
            kind, *_, where = socket.getaddrinfo(self.address, self.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(kind, socket.SOCK_DGRAM) as way:
                way.connect(where)  # of UDP: nothing is sent
                return str(way.getsockname()[0])
        except OSError as error:
            raise InputError(
                f"there is no way to MASTER_ADDR {self.address}: {error.strerror or error}; give a name or an "
                "address that every host reaches"
            ) from None


def place_of(environ: Mapping[str, str] = os.environ) -> Place | None:
    """The place that the environment gives this process; None where it starts its trainers itself.

    Raises:
        InputError: for variables that do not say where trainer 0 is, or are no numbers.
    """
    names: tuple[str, ...]
    if {"RANK", "WORLD_SIZE"} <= set(environ):
        by, names = "torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    elif "SLURM_STEP_NUM_TASKS" in environ:  # not in a batch script, nor in a shell of salloc's
        by, names = "Slurm", ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES")
    elif "OMPI_COMM_WORLD_RANK" in environ:
        of_mpi = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
        by, names = "mpirun", tuple(f"OMPI_COMM_WORLD_{name}" for name in of_mpi)
    else:
        return None
    world = _number(environ, names[1])
    if world == 1 and "TORCHELASTIC_RUN_ID" not in environ:
        return None  # a notebook or a shell of theirs
    rank, local, here = (_number(environ, names[at]) for at in (0, 2, 3))
    if by == "Slurm":
        here = -(-world // max(1, here))
    mistake = None
    if here < 1 or world % here or rank >= world:
        mistake = (
            f"{names[1]} is {world} and this host has {here} of them: every host must have as many trainers; start "
            "as many processes on each"
        )
    elif rank % here != local or not _is_on(environ, by, rank // here):
        mistake = (
            f"{names[0]} {rank} is process {local} of its host, which has {here}: ranks of a host must follow one "
            "another, and every host must have as many; with srun use --distribution=block and --ntasks-per-node"
        )
    address, port = _store(environ, by)
    return Place(
        rank=rank,
        world=world,
        local=local,
        here=max(1, here),
        address=address,
        port=port,
        served=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        restarts=int(environ.get("TORCHELASTIC_RESTART_COUNT") or environ.get("SLURM_RESTART_COUNT") or 0),
        by=by,
        error_file=environ.get("TORCHELASTIC_ERROR_FILE"),
        jobs={by: environ[name] for by, name in JOBS.items() if environ.get(name, UNNAMED) != UNNAMED},
        mistake=mistake,
    )


def _is_on(environ: Mapping[str, str], by: str, host: int) -> bool:
    """Return whether the starter counts this host as ``host``, where it counts hosts."""
    said = environ.get({"torchrun": "GROUP_RANK", "Slurm": "SLURM_NODEID"}.get(by, ""))
    return said is None or said == str(host)


def _number(environ: Mapping[str, str], name: str) -> int:
    value = environ.get(name, "")
    if not value.isascii() or not value.isdigit():
        raise InputError(
            f"{name} is {value!r} in the environment, not a number: start all trainers by torchrun, srun or mpirun, "
            "or none, with gsplit train"
        )
    return int(value)


def _first(nodes: str) -> str:
    """The first of Slurm's list of hosts, such as ``node[03-05,9],login``."""
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", nodes).split(",")[0]


def _store(environ: Mapping[str, str], by: str) -> tuple[str, int]:
    """Address and port of the store; a Slurm job has its own, where none is given."""
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if by == "Slurm":
        address = address or _first(environ.get("SLURM_STEP_NODELIST", ""))
        port = port or str(FIRST_PORT + int(environ.get("SLURM_JOB_ID", 0)) % PORTS)
    if not address or not port:
        raise InputError(
            f"{by} has started this trainer, but MASTER_ADDR and MASTER_PORT do not say where trainer 0 is; set them "
            "to the name of its host and a free port, the same for all"
        )
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"MASTER_PORT is {port!r} in the environment, not a port")
    return address, int(port)
