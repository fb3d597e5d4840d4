"""The systems on several hosts: what each host starts, and what its epochs took."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from experiments.baselines.pyg_forms import DRAWN, GIVEN, forms
from experiments.baselines.workload import Order, Outcome, Setting
from experiments.compare.systems import read_engine, workload_flags
from experiments.hosts.config import HostsConfig
from experiments.hosts.host_init import INTERFACE
from experiments.hosts.namespaces import Hosts, Started, place_of
from experiments.shared import processes
from experiments.shared.processes import RunFailed
from experiments.shared.results import records
from gsplit.parallel.between_hosts import OF_MINI_BATCH, name_of
from gsplit.waiting import until

MEMORY = "kept"
"""A key of :data:`experiments.shared.processes.MEMORY`, the same for all."""
DGL_PORT = 30050
"""Of DistDGL's servers."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """What is trained on, as each system has it."""

    store: Path
    layout: Path
    parts: Path
    """The file that describes DistDGL's parts."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that ended well."""

    outcome: Outcome
    sent_bytes: int
    """By all hosts in all epochs and in starting, as their kernels count them."""
    wire_s: float
    """Seconds of a core that the wire took from the hosts."""
    between: dict[str, float] | None = None
    """Bytes between hosts in an epoch by purpose, as we count them; of others there is no such count."""


@dataclass(frozen=True)
class Process:
    """One process on a host."""

    host: int
    command: Sequence[str]
    environment: dict[str, str]
    awaited: bool = True
    """Whether the run lasts until it has ended."""


def missing(name: str) -> str | None:
    """Why a system cannot run here; None where it can."""
    package = {"distdgl": "dgl", "pyg": "torch_geometric", "pyg-loader": "torch_geometric"}.get(name)
    if package and importlib.util.find_spec(package) is None:
        return f"{package} is not installed"
    if name == "pyg-loader" and forms() == (GIVEN,):
        return "its loader samples by pyg-lib or torch-sparse, and neither is installed"
    return None


def setting_of(name: str, config: HostsConfig) -> Setting:
    """How a baseline draws its mini-batches."""
    if name == "distdgl":
        return Setting(workers=config.dgl_samplers)
    return Setting(form=DRAWN if name == "pyg" else forms()[-1])


def run(name: str, config: HostsConfig, graph: Graph, folder: Path) -> Ran:
    """Run a system once, on hosts of its own, in a folder that all of them see.

    Raises:
        RunFailed: where it does not end well, or its blocks are no samples.
    """
    hosts = Hosts(config.hosts, folder, config.delay_us, config.mbit, kept=[config.work.resolve()])
    try:
        wanted = processes_of(name, config, graph, folder, hosts)
        started = []
        for number, each in enumerate(wanted):
            with (folder / f"out-{number}").open("w") as out:
                started.append(hosts[each.host].start(each.command, each.environment, out))
        _wait([process for process, each in zip(started, wanted, strict=True) if each.awaited], config, folder)
        sent_bytes, wire_s = hosts.sent_bytes, hosts.wire_s
    finally:
        hosts.close()
    workload = config.workload(graph.store)
    outcome = read_engine(folder, workload) if is_ours(name) else Outcome.read(folder / "outcome.json")
    if outcome.fault:
        raise RunFailed(f"its blocks are corrupt: {outcome.fault}")
    between = counted_between(folder / "run") if is_ours(name) else None
    return Ran(outcome=outcome, sent_bytes=sent_bytes, wire_s=wire_s, between=between)


def counted_between(run: Path) -> dict[str, float]:
    """Means of the epochs of a run."""
    traffic = [record["traffic"] for record in records(run)]
    return {name: mean(each[name] for each in traffic) for name in map(name_of, OF_MINI_BATCH)}


def is_ours(name: str) -> bool:
    """Whether a system is this engine."""
    return name.startswith("gsplit")


def _wait(started: Sequence[Started], config: HostsConfig, folder: Path) -> None:
    """Wait until all have ended well."""

    def over() -> bool:
        codes = [process.poll() for process in started]
        return None not in codes or any(codes)

    in_time = until(over, config.limit_s)
    if not in_time or any(process.returncode for process in started):
        told = "\n".join(path.read_text(errors="replace")[-4000:] for path in sorted(folder.glob("out-*")))
        reason = "a process failed" if in_time else f"not done within {config.limit_s} s"
        raise RunFailed(reason, told)


def processes_of(name: str, config: HostsConfig, graph: Graph, folder: Path, hosts: Hosts) -> list[Process]:
    """What is started, on all hosts."""
    of_host = [range(at * config.trainers, (at + 1) * config.trainers) for at in range(config.hosts)]
    common = processes.environment(MEMORY, config.threads)
    if is_ours(name):
        del common["GLOO_SOCKET_IFNAME"]  # it finds the interface itself
        command = engine_command(config, graph, folder / "run", over=name == "gsplit-over")
        return [
            Process(at, command, common | place_of(hosts, rank, of_host))
            for at, ranks in enumerate(of_host)
            for rank in ranks
        ]
    common |= {"GLOO_SOCKET_IFNAME": INTERFACE}
    order = Order(
        system=name.removesuffix("-loader"), workload=config.workload(graph.store), setting=setting_of(name, config)
    )
    order.write(folder)
    command = [sys.executable, "-m", "experiments.hosts.one_trainer", str(folder)]
    servers: list[Process] = []
    if name == "distdgl":
        common |= _distdgl(config, graph, folder, hosts)
        servers = [
            Process(at, command, common | {"DGL_ROLE": "server", "DGL_SERVER_ID": str(at)}, awaited=False)
            for at in range(config.hosts)
        ]
    trainers = [
        Process(at, command, common | place_of(hosts, rank, of_host) | {"DGL_ROLE": "client"})
        for at, ranks in enumerate(of_host)
        for rank in ranks
    ]
    return [*servers, *trainers]


def _distdgl(config: HostsConfig, graph: Graph, folder: Path, hosts: Hosts) -> dict[str, str]:
    """What DGL's own launcher tells all processes."""
    addresses = folder / "addresses"
    addresses.write_text("".join(f"{host.address} {DGL_PORT}\n" for host in hosts.hosts))
    return {
        "DGL_IP_CONFIG": str(addresses),
        "DGL_CONF_PATH": str(graph.parts.resolve()),
        "DGL_DIST_MODE": "distributed",
        "DGL_GRAPH_FORMAT": "csc",
        "DGL_NUM_SERVER": "1",
        "DGL_NUM_SAMPLER": str(config.dgl_samplers),
        "DGL_NUM_CLIENT": str(config.world * (1 + config.dgl_samplers)),
    }


def engine_command(config: HostsConfig, graph: Graph, run: Path, *, over: bool) -> list[str]:
    """The command of each of our trainers."""
    flags = workload_flags(config.workload(graph.store)) | {"samplers": config.samplers, "evaluate": "none"}
    if over:
        flags["split_group"] = config.world
    words = processes.train_command(graph.layout, run, flags)
    at = words.index("gsplit")
    return [*words[:at], "gsplit.train", *words[at + 2 :]]


def write_parts(store: Path, file: Path, parts: int) -> None:
    """Make DistDGL's parts of a store, in a process that imports DGL."""
    command = [sys.executable, "-m", "experiments.hosts.distdgl", str(store), str(file), str(parts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed("DistDGL's parts cannot be made", done.stderr)
