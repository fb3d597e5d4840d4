"""A diagnosis as lines for a terminal, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from gsplit.device import accelerator
from gsplit.device.seen import Accelerator
from gsplit.doctor.diagnosis import Diagnosis
from gsplit.doctor.host_state import HostState
from gsplit.doctor.training_needs import Need, TrainingNeeds
from gsplit.units import binary

ANSWERS = {True: "yes", False: "no", None: "not known"}
"""Answers of those that may not know."""


def as_json(found: Diagnosis) -> str:
    """One JSON object, of the fields of the diagnosis."""
    return json.dumps(asdict(found), indent=2)


def lines(found: Diagnosis) -> Iterator[str]:
    """All lines of a diagnosis: what there is, section by section, and what is wrong at the end."""
    yield "accelerators"
    yield from _aligned(_accelerators(found)) if found.accelerators else ("  none: training computes on the CPU",)
    yield "host"
    yield from _aligned(_host(found.host, found))
    if found.training is not None:
        yield from _training(found.training, found)
    yield "versions"
    yield from _aligned((each.name, each.version or "not installed", each.purpose) for each in found.versions)
    yield "  of PyTorch, drivers and the system, python -m torch.utils.collect_env prints more"
    for remark in found.remarks:
        yield f"note: {remark}"
    for problem in found.problems:
        yield f"problem: {problem}"
    if not found.problems:
        yield "nothing found that would keep training from working"


def _accelerators(found: Diagnosis) -> Iterator[tuple[str, ...]]:
    for each in found.accelerators:
        yield f"{each.kind}:{each.index}", each.name, _memory(each), _reached(found, each)


def _memory(each: Accelerator) -> str:
    free = "how much is free is not known" if each.free_bytes is None else f"{binary(each.free_bytes)} free"
    return f"{binary(each.total_bytes)}, {free}"


def _reached(found: Diagnosis, each: Accelerator) -> str:
    answers = [f"{pair.peer} {ANSWERS[pair.reaches]}" for pair in found.peers if pair.index == each.index]
    return f"reads the memory of: {', '.join(answers)}" if answers else ""


def _host(host: HostState, found: Diagnosis) -> Iterator[tuple[str, ...]]:
    cores = host.cores
    yield "memory", f"{binary(host.memory_total_bytes)}, {binary(host.memory_available_bytes)} available", ""
    yield "memlock", _or(host.memlock_bytes, "unlimited"), "memory that may be locked, pinned for an accelerator too"
    shared = f"{_or(host.shared_memory_bytes, 'none')}, {_or(host.shared_memory_free_bytes, 'none')} free"
    yield "/dev/shm", shared, "for NCCL and caches of peers; GSplit's own memory needs none"
    files = "unlimited" if host.open_files is None else f"{host.open_files:,}"
    needed = "more" if found.open_files_needed is None else f"some {found.open_files_needed:,}"
    count = "one trainer" if found.trainers == 1 else f"{found.trainers} trainers"
    yield "open files", files, f"a run of {count} takes {needed}"
    number = "" if cores.number in (None, cores.allowed) else f" of {cores.number}"
    quota = "" if cores.quota is None else f", {cores.quota:g} by cgroups"
    sets = ", ".join(cores.instruction_sets)
    yield (
        "cores",
        f"{cores.allowed}{number}{quota}",
        f"{cores.threads} threads; kernels for {sets}, the first is taken",
    )


def _training(training: TrainingNeeds, found: Diagnosis) -> Iterator[str]:
    count = "one trainer" if training.trainers == 1 else f"{training.trainers} trainers"
    free = binary(found.host.memory_available_bytes)
    yield f"the training takes of the host, with {count} and {training.samplers} samplers"
    yield from _needs(training.host, training.host_bytes, f"of {free} available; the graph itself is mapped")
    if not training.accelerator:
        yield "what it takes of an accelerator is not known"
        return
    on_cpu = training.device == accelerator.HOST
    yield f"{'it would take' if on_cpu else 'it takes'} of an accelerator, for each trainer"
    about = "and what the allocator and the driver take"
    if not on_cpu and found.accelerators:
        least = min(each.total_bytes if each.free_bytes is None else each.free_bytes for each in found.accelerators)
        about = f"of {binary(least)} free; {about}"
    if training.cache_bytes is None and not on_cpu:
        about += "; the cache has the rest: --cache-size auto"
    yield from _needs(training.accelerator, training.accelerator_bytes, about)


def _needs(needs: Iterable[Need], together: int, about: str) -> Iterator[str]:
    rows = [(need.what, binary(need.num_bytes), need.about) for need in needs]
    yield from _aligned([*rows, ("all", binary(together), about)])


def _or(num_bytes: int | None, instead: str) -> str:
    return instead if num_bytes is None else binary(num_bytes)


def _aligned(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Rows of a table, indented, with columns as wide as their widest cell."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  " + "  ".join(map(str.ljust, row, widths)).rstrip()
