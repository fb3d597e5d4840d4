"""The diagnosis: what was found, what would keep training from working, and what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.device import accelerator
from gsplit.device.choice import choose_device, trainers_of
from gsplit.device.seen import Accelerator, reaches, seen
from gsplit.device.unusable import why_none, without_kernels
from gsplit.doctor.host_state import HostState, host_state
from gsplit.doctor.installed import Installed, installed
from gsplit.doctor.training_needs import TrainingNeeds, needs_of
from gsplit.engine.rows.shared import Shared
from gsplit.engine.whole.fitting import check_plan_fits
from gsplit.engine.whole.plan_table import plan_of_run
from gsplit.errors import InputError
from gsplit.features.room import floor_bytes
from gsplit.launch.resolve import resolve
from gsplit.parallel import no_loopback
from gsplit.units import binary

SMALL_SHARED_MEMORY = 1 << 30
"""Bytes of /dev/shm below which NCCL may not find room; containers have 64 MiB by default."""

PLANS = "gsplit train with the same flags and --dry-run shows what each plan of the whole graph takes"
"""Remark in place of the memory of a training on the whole graph."""
OF_A_PROCESS = 64
"""Files that the interpreter, its libraries, the layout and a driver have open."""
PIPES_OF_A_TRAINER = 6
"""Ends of pipes of a trainer while it starts: two for tickets, two for releases, its report and parcel."""
PIPES_OF_A_SAMPLER = 4
"""Ends of pipes of a sampler while it starts: two for commands, two for reports."""


@dataclass(frozen=True, kw_only=True)
class Peers:
    """A pair of accelerators."""

    index: int
    """Number of the one that reads."""
    peer: int
    """Number of the other."""
    reaches: bool | None
    """True where one reads the memory of the other; None where PyTorch cannot tell."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The whole answer of doctor; ``--json`` prints the fields (docs/formats.md)."""

    accelerators: list[Accelerator]
    """Accelerators that PyTorch finds."""
    peers: list[Peers]
    """Pairs of them."""
    host: HostState
    """Memory and limits of the host."""
    versions: list[Installed]
    """Programs and libraries."""
    training: TrainingNeeds | None
    """Memory that the training takes; None without a layout, with --strategy full, and where it is refused."""
    trainers: int
    """Trainers that limits are compared with: as asked for, one for each part or accelerator, or one."""
    open_files_needed: int | None
    """Files that a run of so many has open in one process; None where not even these could be opened."""
    problems: list[str]
    """Sentences: why training would not work, and what to do about it."""
    remarks: list[str]
    """Sentences that are worth knowing; training works all the same."""


def examine(config: TrainConfig) -> Diagnosis:
    """Look at the host, and at what a training would take of it.

    Args:
        config: what was asked for.

    Raises:
        InputError: for flags that contradict each other.
    """
    host, devices, versions = host_state(), seen(), list(installed())
    peers = _peers(devices)
    problems: list[str] = []
    trainers, training = len(devices) or 1, None
    samplers, slots = config.samplers or 0, config.slots or 0
    try:
        if config.layout is None:
            asked = trainers_of(config.gpus, trainers)
            choose_device(config.device, asked)
            trainers = asked
        else:
            run = resolve(config)
            trainers, samplers, slots = run.trainers, run.samplers, run.config.slots or 0
            if config.strategy == "full":
                check_plan_fits(run, open_layout(run.layout, trusted=True), plan_of_run(run))
            else:
                training = needs_of(run)
                problems += why_too_large(training, host, devices)
    except InputError as error:
        problems.append(str(error))
    unusable = without_kernels(devices[0].kind, trainers) if devices else why_none(accelerator.HOST)
    if unusable is not None and config.device != accelerator.HOST and not any(unusable in line for line in problems):
        problems.append(unusable)
    needed = most_open(trainers, samplers, slots)
    problems += _problems(host, versions, trainers, needed)
    return Diagnosis(
        accelerators=devices,
        peers=peers,
        host=host,
        versions=versions,
        training=training,
        trainers=trainers,
        open_files_needed=needed,
        problems=problems,
        remarks=[*_remarks(host, devices, peers), *([PLANS] if config.strategy == "full" else [])],
    )


def why_too_large(training: TrainingNeeds, host: HostState, devices: list[Accelerator]) -> Iterator[str]:
    """Yield why a training does not fit into the memory that is free, with what takes most of it."""
    if training.host_bytes > host.memory_available_bytes:
        most = max(training.host, key=lambda need: need.num_bytes)
        yield (
            f"the training takes {binary(training.host_bytes)} of the host's memory, and "
            f"{binary(host.memory_available_bytes)} are available; {most.what} take most, {binary(most.num_bytes)} "
            f"({most.about})"
        )
    for each in devices[: training.trainers] if training.device != accelerator.HOST else []:
        free = each.total_bytes if each.free_bytes is None else each.free_bytes
        left = free - floor_bytes(each.total_bytes)
        if training.accelerator_bytes > left:
            most = max(training.accelerator, key=lambda need: need.num_bytes)
            yield (
                f"a trainer takes {binary(training.accelerator_bytes)}, and {each.kind}:{each.index} has "
                f"{binary(left)} free for it; {most.what} take most, {binary(most.num_bytes)} ({most.about})"
            )
            return


def most_open(trainers: int, samplers: int, slots: int) -> int | None:
    """Return the number of files that the launcher, which has an end of every pipe, has open in a run at most.

    None where not even the common memory of two trainers may be opened.
    """
    try:
        one, two = _together(1), _together(2)  # each further trainer has as many; all may be more than can be opened
    except OSError:
        return None
    together = one + (trainers - 1) * (two - one)
    return OF_A_PROCESS + together + slots + PIPES_OF_A_TRAINER * trainers + PIPES_OF_A_SAMPLER * samplers


def _together(trainers: int) -> int:
    with closing(Shared.create(trainers)) as shared:
        return sum(1 for _ in shared.buffers())


def _peers(devices: list[Accelerator]) -> list[Peers]:
    return [
        Peers(index=one.index, peer=other.index, reaches=reaches(one.kind, one.index, other.index))
        for one in devices
        for other in devices
        if one.index != other.index
    ]


def _problems(host: HostState, versions: list[Installed], trainers: int, needed: int | None) -> Iterator[str]:
    for each in versions:
        if each.version is None and not each.optional:
            yield f"{each.name} is not installed; pip install {each.name}"
    if host.open_files is not None and (needed is None or needed > host.open_files):
        wanted = "more" if needed is None else f"some {needed:,}"
        yield (
            f"a process may have {host.open_files:,} files open, and a run of {trainers} trainers has {wanted}; "
            f"raise it with ulimit -n {max(1024, needed or 0)}"
        )
    try:
        why = no_loopback()
    except OSError as error:
        why = f"whether trainers can reach each other was not tried: {error.strerror}"
    if why is not None:
        yield why


def _remarks(host: HostState, devices: list[Accelerator], peers: list[Peers]) -> Iterator[str]:
    cores, shared = host.cores, host.shared_memory_bytes
    if cores.quota is not None and cores.quota < cores.allowed:
        yield (
            f"cgroups allow {cores.quota:g} cores' worth of time, and threads are dealt out for {cores.allowed} "
            "cores; --threads and --samplers say how many there are to be"
        )
    if cores.instruction_sets[:1] == ("basic",):
        yield "the CPU has neither AVX2 nor AVX-512, or another kind of instructions: sums over edges are slow"
    if not devices:
        return
    yield (
        "to ask what is free, doctor itself holds a context on each accelerator (620 MiB of an H100) until it ends: "
        "what is free was read beside it"
    )
    if host.memlock_bytes is not None:
        yield (
            f"a process may lock {binary(host.memlock_bytes)} of memory (ulimit -l): a driver that counts pinned "
            "memory against it pins no more, and copies from the rest wait; a warning says so"
        )
    if len(devices) > 1 and (shared is None or shared < SMALL_SHARED_MEMORY):
        size = "is not there" if shared is None else f"has {binary(shared)}"
        yield f"/dev/shm {size}, and NCCL wants some for devices that cannot reach each other (docker: --shm-size 1g)"
    if any(pair.reaches is False for pair in peers):
        yield "not all accelerators reach each other's memory: what they exchange goes through the host's"
