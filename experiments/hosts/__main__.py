"""Seconds of an epoch over several hosts: GSplit beside DistDGL and PyG with PyTorch's DDP, in turn.

    python -m experiments.hosts
    python -m experiments.hosts --quick
    python -m experiments.hosts --systems gsplit,distdgl --trainers 2

Hosts are namespaces of this machine, each with an address, a name and memory, on a wire with a rate and a delay; they
share its cores, and the wire takes some of their time. All systems train GraphSAGE on the same targets, with the same
fan-outs, widths and batch size, by Adam; nothing is evaluated. Bytes are those that the kernels of all hosts have
sent, by epoch, with those of starting.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from experiments.baselines.workload import STAGES, Epoch
from experiments.hosts.config import OURS, QUICK, SYSTEMS, HostsConfig
from experiments.hosts.namespaces import why_none
from experiments.hosts.systems import Graph, Ran, missing, run, write_parts
from experiments.shared.datasets import store_of
from experiments.shared.experiment import Experiment
from experiments.shared.processes import RunFailed
from experiments.shared.results import printed, versions
from experiments.shared.rounds import calibrate, in_turn, quiet_rounds, quiet_spread, spread
from gsplit import cli
from gsplit.config.partition import PartitionConfig
from gsplit.data import open_store
from gsplit.errors import InputError
from gsplit.parallel.between_hosts import OF_MINI_BATCH, name_of
from gsplit.partition import partition

COUNTS = ("edges", "input_rows")


@dataclass(frozen=True, kw_only=True)
class InRound:
    """A system's run of a round."""

    ran: Ran
    calibration_s: float


Round = Mapping[str, InRound]


def measure(config: HostsConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    if why := why_none():
        raise InputError(f"there are no such hosts here: {why}")
    absent = {name: why for name in config.systems if (why := missing(name))}
    names = [name for name in config.systems if name not in absent]
    graph = prepared(config, "distdgl" in names)
    rounds = [_round(config, graph, in_turn(names, number)) for number in range(config.rounds)]
    stored = open_store(graph.store).graph
    settings = ("hosts", "trainers", "threads", "samplers", "dgl_samplers", "mbit", "delay_us", "fan_out", "hidden")
    return {
        "dataset": {"name": config.dataset, "vertices": stored.num_vertices, "edges": stored.num_edges},
        "settings": {**{key: getattr(config, key) for key in (*settings, "batch_size", "epochs", "seed", "quick")}},
        "versions": versions("torch", "dgl", "torch_geometric", "pyg_lib", "torch_sparse"),
        "runs": run_rows(rounds),
        "systems": system_rows(rounds),
        "ratios": ratio_rows(rounds),
        "absent": [{"system": name, "reason": why} for name, why in absent.items()],
    }


def prepared(config: HostsConfig, parts: bool) -> Graph:
    """The store, our layout and, if need be, DistDGL's parts, each made once."""
    store = store_of(config.dataset, data=config.data, work=config.work, seed=config.seed)
    num_train = len(open_store(store).graph.train_idx)
    if config.batch_size > num_train:
        raise InputError(f"--batch-size {config.batch_size} is more than the {num_train} training vertices")
    graph = Graph(
        store=store,
        layout=store.parent / f"layout-{config.world}",
        parts=store.parent / f"distdgl-{config.hosts}" / "graph.json",
    )
    if not graph.layout.exists():
        partition(PartitionConfig(store=store, out=graph.layout, parts=config.world))
    if parts and not graph.parts.exists():
        write_parts(store, graph.parts, config.hosts)
    return graph


def _round(config: HostsConfig, graph: Graph, names: Sequence[str]) -> Round:
    """Each system once."""
    found = {}
    for name in names:
        calibration_s = calibrate()
        folder = Path(tempfile.mkdtemp(prefix="gsplit-hosts-")).resolve()
        try:
            ran = run(name, config, graph, folder)
        except RunFailed as error:
            print(error.told, flush=True)
            raise RunFailed(f"{name}: {error}") from None
        finally:
            shutil.rmtree(folder)
        printed({"system": name, "epoch_s": seconds_of(ran), "calibration_s": calibration_s})
        found[name] = InRound(ran=ran, calibration_s=calibration_s)
    return found


def counted(ran: Ran) -> list[Epoch]:
    """Epochs but the first, which warms up."""
    return ran.outcome.epochs[1:]


def seconds_of(ran: Ran) -> float:
    """Median seconds of an epoch."""
    return median(epoch.seconds for epoch in counted(ran))


def drawing_aside_s(ran: Ran) -> float:
    """Median seconds of an epoch without those in which trainers sample."""
    return median(epoch.seconds - epoch.stages["sampling"] for epoch in counted(ran))


def run_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Every run."""
    return [
        {
            **{"round": number, "system": name, "calibration_s": each.calibration_s},
            **{"sent_bytes": each.ran.sent_bytes, "wire_s": each.ran.wire_s},
            "epochs": [vars(epoch) for epoch in each.ran.outcome.epochs],
        }
        for number, one in enumerate(rounds)
        for name, each in one.items()
    ]


def system_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """What each system took and did in an epoch: medians over the rounds."""
    rows = []
    for name in SYSTEMS:
        runs = [each[name].ran for each in rounds if name in each]
        if runs:
            epochs = [epoch for ran in runs for epoch in counted(ran)]
            rows.append(
                {
                    "system": name,
                    "what": SYSTEMS[name],
                    "epoch_s": median(map(seconds_of, runs)),
                    **{f"{stage}_s": median(epoch.stages[stage] for epoch in epochs) for stage in STAGES},
                    **{count: median(getattr(epoch, count) for epoch in epochs) for count in COUNTS},
                    "loss": median(ran.outcome.epochs[-1].loss or 0.0 for ran in runs),
                    "sent_bytes": median(ran.sent_bytes / len(ran.outcome.epochs) for ran in runs),
                    **{count: runs[0].between and runs[0].between[count] for count in map(name_of, OF_MINI_BATCH)},
                    "wire_s": median(ran.wire_s / len(ran.outcome.epochs) for ran in runs),
                }
            )
    return rows


def ratio_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Each system's seconds over ours, round by round."""
    quiet = quiet_rounds([[each.calibration_s for each in one.values()] for one in rounds])
    rows = []
    for name in SYSTEMS:
        if name == OURS or any(name not in each for each in rounds):
            continue
        ours = [seconds_of(each[OURS].ran) for each in rounds]
        theirs = [seconds_of(each[name].ran) / own for each, own in zip(rounds, ours, strict=True)]
        aside = [drawing_aside_s(each[name].ran) / own for each, own in zip(rounds, ours, strict=True)]
        pairs = list(zip(theirs, quiet, strict=True))
        rows.append({"system": name, **quiet_spread(pairs), **spread(aside, "ratio_without_sampling")})
    return rows


def shown(found: Mapping[str, Any]) -> dict[str, Any]:
    """All but the single runs."""
    return {name: value for name, value in found.items() if name != "runs"}


command = Experiment("hosts", HostsConfig, measure, quick=QUICK, shown=shown)

if __name__ == "__main__":
    cli.main(command)
