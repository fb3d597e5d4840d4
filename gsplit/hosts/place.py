"""The place of a process that was started as one trainer of several, by what starts the same program many times.

| who | its variables |
|---|---|
| torchrun, Ray Train | RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT |
| Open MPI's mpirun | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE |
| Slurm's srun | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_NODES |
| a PyTorchJob of Kubernetes, one process a pod | RANK, WORLD_SIZE, PET_NNODES, MASTER_ADDR, MASTER_PORT |

The first that is there wins: mpirun in a Slurm job starts its helpers as tasks of Slurm's, and trainers have their
variables, too. Ranks of a host follow one another, and each host has as many.
"""

from __future__ import annotations

import os
import re
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from gsplit.errors import InputError

FIRST_PORT, PORTS, A_STEP = 20000, 10000, 4099
"""Ports of the store where none is given, nor reserved by Slurm: by the numbers of a Slurm job and its step, or by
mpirun's name of its. Jobs whose numbers are 10,000 apart, on one host at a time, would meet."""
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
MPI = tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES")
"""Variables of each starter: rank, trainers, number on its host, trainers of the host (Slurm: hosts)."""
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
    step: str = ""
    """What tells this start of trainers from others that may use the same port."""
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
        InputError: for what is no place, such as a number that is none, and no way to the store.
    """
    if (starter := _starter(environ)) is None:
        return None
    by, names = starter
    world = _number(environ, names[1])
    if world == 1 and "TORCHELASTIC_RUN_ID" not in environ:
        return None  # a notebook or a shell of theirs
    rank, local, here = _numbers(environ, by, names, world)
    mistake = _mistake(environ, by, names, (rank, world, local, here))
    if mistake is not None:
        local, here = rank, world  # as of one host, of which one says it
    try:
        address, port = _store(environ, by, alone=here == world)
    except InputError as error:
        error.said = local > 0
        raise
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
        step=_step(environ, by),
        error_file=environ.get("TORCHELASTIC_ERROR_FILE"),
        jobs={by: environ[name] for by, name in JOBS.items() if environ.get(name, UNNAMED) != UNNAMED},
        mistake=mistake,
    )


def _starter(environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """Who has started this process as one of several, and its variables."""
    if set(TORCHRUN) <= set(environ):
        return "torchrun", TORCHRUN
    if MPI[0] in environ:
        return "mpirun", MPI
    if "SLURM_STEP_NUM_TASKS" in environ:  # not in a batch script, nor in a shell of salloc's
        return None if _in_terminal(environ) else ("Slurm", SLURM)
    if {"RANK", "WORLD_SIZE"} <= set(environ):
        return ("Kubernetes" if _is_pod(environ) else "torchrun"), TORCHRUN
    return None


def _in_terminal(environ: Mapping[str, str]) -> bool:
    """Return whether a shell of ``srun --pty`` has started this process: task 0 alone has the terminal.

    Raises:
        InputError: in other tasks of it.
    """
    if "SLURM_PTY_PORT" not in environ or environ.get("SLURM_TASK_PID") == str(os.getpid()):
        return False
    if environ.get("SLURM_PROCID") != "0":
        raise InputError(
            "srun --pty is for a shell, from which task 0 alone trains; start trainers by srun without it"
        )
    return True


def _is_pod(environ: Mapping[str, str]) -> bool:
    """Return whether this is the one process of a pod of a PyTorchJob, whose RANK is that of the pod."""
    return environ.get("PET_NNODES") == environ["WORLD_SIZE"]


def _numbers(environ: Mapping[str, str], by: str, names: tuple[str, ...], world: int) -> tuple[int, int, int]:
    """Rank, number on its host, and trainers of this host."""
    if by == "Kubernetes":
        return _number(environ, names[0]), 0, 1
    rank, local, here = (_number(environ, names[at]) for at in (0, 2, 3))
    if by == "Slurm":
        nodes, counts = here, _counts(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
        node = _number(environ, "SLURM_NODEID") if counts else 0
        here = counts[node] if node < len(counts) else -(-world // max(1, nodes))
    return rank, local, here


def _mistake(
    environ: Mapping[str, str], by: str, names: tuple[str, ...], numbers: tuple[int, int, int, int]
) -> str | None:
    """What is wrong with places that somebody has given; None where nothing is."""
    rank, world, local, here = numbers
    counts = _counts(environ.get("SLURM_STEP_TASKS_PER_NODE", "")) if by == "Slurm" else []
    if len(set(counts)) > 1:
        return (
            f"Slurm has started {', '.join(map(str, counts))} tasks on its hosts: every host must have as many "
            "trainers; use --ntasks-per-node"
        )
    if here < 1 or world % here or rank >= world:
        return (
            f"{names[1]} is {world} and this host has {here} of them: every host must have as many trainers; start "
            "as many processes on each"
        )
    dealt = environ.get("SLURM_DISTRIBUTION", "") if by == "Slurm" and 1 < here < world else ""
    if dealt.startswith(("cyclic", "plane")):
        return f"Slurm deals out tasks by {dealt}: ranks of a host must follow one another; use --distribution=block"
    if rank % here != local or not _is_on(environ, by, rank // here):
        how = {"Slurm": "use --distribution=block", "mpirun": "use mpirun --map-by slot"}.get(by, "use torchrun")
        return (
            f"{names[0]} {rank} is process {local} of its host, which has {here}: ranks of a host must follow one "
            f"another; {how}"
        )
    return None


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


def _counts(tasks: str) -> list[int]:
    """Tasks of each host by Slurm's words for them, such as ``4(x2),2``; none for other words."""
    counts: list[int] = []
    for part in tasks.split(","):
        if (found := re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)) is None:
            return []
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _step(environ: Mapping[str, str], by: str) -> str:
    """What the processes of one start have in common, and those of another have not."""
    if by == "Slurm":
        return f"{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
    if by == "mpirun":
        return environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid", "")
    return ""


def _first(nodes: str) -> str:
    """The first of Slurm's list of hosts, such as ``node[03-05,9],login``."""
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", nodes).split(",")[0]


def _store(environ: Mapping[str, str], by: str, *, alone: bool) -> tuple[str, int]:
    """Address and port of the store; a job of Slurm's, and one of mpirun's on one host, have their own by default.

    Args:
        environ: of this process.
        by: who has started it.
        alone: whether all trainers are on one host.
    """
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if by == "Slurm":
        address = address or _first(environ.get("SLURM_STEP_NODELIST", ""))
        number = int(environ.get("SLURM_JOB_ID", 0)) + A_STEP * int(environ.get("SLURM_STEP_ID", 0))
        reserved = re.match(
            r"\d+", environ.get("SLURM_STEP_RESV_PORTS", "")
        )  # by srun --resv-ports: nobody else has it
        port = port or (reserved[0] if reserved else str(FIRST_PORT + number % PORTS))
    elif by == "mpirun" and (step := _step(environ, by)):
        address = address or ("127.0.0.1" if alone else _first(environ.get("SLURM_JOB_NODELIST", "")))
        port = port or str(FIRST_PORT + zlib.crc32(step.encode()) % PORTS)
    if not address or not port:
        how = "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500" if by == "mpirun" else "the same for all"
        raise InputError(
            f"{by} has started this trainer, but MASTER_ADDR and MASTER_PORT do not say where trainer 0 is; set them "
            f"to the name of its host and a free port: {how}"
        )
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"MASTER_PORT is {port!r} in the environment, not a port")
    return address, int(port)
