"""The systems: what each is, which settings it has, the command that runs it, and how its results are read."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.baselines.dgl_sampling import FORMS
from experiments.baselines.pyg_forms import GIVEN, TRIMMED, forms
from experiments.baselines.stored import write_arrays
from experiments.baselines.workload import STAGES, Epoch, Order, Outcome, Setting, Workload
from experiments.compare.graphs import Graph
from experiments.shared import processes
from experiments.shared.results import records

MEMORY = tuple(processes.MEMORY)
Command = Callable[["Contender", Graph, Path], list[str]]


@dataclass(frozen=True, kw_only=True)
class System:
    """One system."""

    name: str
    label: str
    """What it is, in a line."""
    choices: Mapping[str, Sequence[Any]]
    """Values of the fields of a setting, the default first."""
    command: Command
    read: Callable[[Path, Workload], Outcome]
    """The outcome of the run in a folder."""
    strategy: tuple[str, ...] = ()
    """Flags of ``gsplit train`` that make it this system."""
    has_cache: bool = False


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A system with what it trains, and how."""

    system: System
    workload: Workload
    setting: Setting
    cache: int = 0
    """Cache of each trainer, in percent of all feature rows."""
    sweep: Mapping[str, Any] = field(default_factory=dict)
    """What a sweep varies, with its value here."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that ended well."""

    outcome: Outcome
    used: processes.Used


def run(contender: Contender, graph: Graph, folder: Path, *, limit_s: float, watch: bool = False) -> Ran:
    """Run a contender once, in a folder of its own.

    Raises:
        processes.RunFailed: where it does not end well, or its blocks are no samples.
    """
    folder.mkdir(parents=True)
    workload, system = contender.workload, contender.system
    done = folder / "outcome.json"
    try:
        used = processes.run(
            system.command(contender, graph, folder),
            processes.environment(contender.setting.memory, workload.threads),
            folder,
            limit_s=limit_s,
            watched_until=(lambda: done.exists() or _epochs_logged(folder) >= workload.epochs) if watch else None,
        )
    except processes.RunFailed:
        if done.exists() and (fault := Outcome.read(done).fault):  # corrupt blocks may crash a process later
            raise processes.RunFailed(f"its blocks are corrupt: {fault}") from None
        raise
    outcome = system.read(folder, workload)
    if outcome.fault:
        raise processes.RunFailed(f"its blocks are corrupt: {outcome.fault}")
    return Ran(outcome=outcome, used=used)


def baseline_command(contender: Contender, graph: Graph, folder: Path) -> list[str]:
    """The command of DGL's or PyG's own training; its order is written into the folder."""
    name = base_of(contender.system.name)
    if name == "dgl":
        write_arrays(graph.store, 32 if "32" in contender.setting.form else 64)
    Order(system=name, workload=contender.workload, setting=contender.setting).write(folder)
    return [sys.executable, "-m", "experiments.baselines.data_parallel", str(folder)]


def read_baseline(folder: Path, _: Workload) -> Outcome:
    """What :func:`baseline_command` left."""
    return Outcome.read(folder / "outcome.json")


def workload_flags(workload: Workload) -> dict[str, Any]:
    """The flags by which this engine trains a workload on the CPU, but for where and how often."""
    return {
        "device": "cpu",
        "threads": workload.threads,
        "model": workload.model,
        "hidden": workload.hidden,
        "fan_out": ",".join(map(str, workload.fan_out)),
        "batch_size": workload.batch_size,
        "epochs": workload.epochs,
        "lr": workload.lr,
        "dropout": workload.dropout,
        "seed": workload.seed,
        "precision": workload.precision,
        "checkpoint_every": 0,
    }


def _engine_command(contender: Contender, graph: Graph, folder: Path) -> list[str]:
    workload, strategy = contender.workload, contender.system.strategy
    flags: dict[str, Any] = {
        "gpus": workload.trainers,
        "samplers": contender.setting.workers,
        "validate_every": workload.validate_every,
        **workload_flags(workload),
    }
    if workload.model == "gat":
        flags["heads"] = workload.heads
    if workload.model == "gcn":
        flags["normalization"] = "mean"
    if contender.cache:
        flags |= {"cache_size": f"{contender.cache}%"}
    if workload.model != "sage":
        flags["no_self_loops"] = None
    if not contender.cache and "--cache" in strategy:
        strategy = (*strategy[: strategy.index("--cache") + 1], "none")
    return [*processes.train_command(graph.layout, folder / "run", flags), *strategy]


def _epochs_logged(folder: Path) -> int:
    log = folder / "run" / "metrics.jsonl"
    return log.read_text().count('"kind": "epoch"') if log.exists() else 0


def read_engine(folder: Path, workload: Workload) -> Outcome:
    """What ``gsplit train --out FOLDER/run`` left."""
    summary = json.loads((folder / "run" / "summary.json").read_text())
    tested = summary["model_epoch"] if workload.validate_every else None
    return Outcome(epochs=[epoch_of(record, summary["test_accuracy"], tested) for record in records(folder / "run")])


def epoch_of(record: Mapping[str, Any], test_accuracy: float | None, tested: int | None) -> Epoch:
    """An epoch as ``metrics.jsonl`` has it; ``tested`` is the epoch whose model was tested."""
    stages, traffic = record["stages"], record["traffic"]
    own = {
        **dict.fromkeys(STAGES, 0.0),
        "computing": stages["forward"] + stages["backward"] + stages["step"],
        "reducing": stages["reduce"],
        "waiting": stages["wait"],
    }
    return Epoch(
        seconds=record["seconds"],
        stages=own,
        hidden={"sampling": stages["sample"], "loading": stages["load"]},
        edges=traffic["sampled_edges"],
        input_rows=traffic["level_0_vertices"],
        loaded_bytes=traffic["host_to_device_bytes"],
        exchanged_bytes=sum(
            traffic[name] for name in ("exchange_forward_bytes", "exchange_backward_bytes", "device_to_device_bytes")
        ),
        reduced_bytes=traffic["all_reduce_bytes"],
        loss=record["loss"],
        valid_accuracy=record["valid_accuracy"],
        test_accuracy=test_accuracy if record["epoch"] == tested else None,
    )


def missing(name: str) -> str | None:
    """Why a system cannot run here; None where it can."""
    name = base_of(name)
    if name == "dgl" and importlib.util.find_spec("dgl") is None:
        return "DGL is not installed; pip install '.[dgl]' (Python 3.10 or 3.11)"
    if name == "pyg" and importlib.util.find_spec("torch_geometric") is None:
        return "PyG is not installed; pip install '.[pyg]'"
    if name == "torch-quiver":
        code = "import quiver; print(quiver.__file__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said = (done.stderr.strip().splitlines() or ["it imports, but needs a GPU"])[-1]
        return f"real torch-quiver does not run here: {said}; `quiver` is its strategy on this engine"
    return None


def base_of(name: str) -> str:
    """The system's name without its precision."""
    return name.partition(":")[0]


def precision_of(name: str) -> str:
    """The precision of ``NAME:PRECISION``; without one float32."""
    return name.partition(":")[2] or "32"


def system_of(name: str) -> System:
    """A system that is not missing, by its name and, where that has one, its precision."""
    system = _system_of(base_of(name))
    if base_of(name) == name:
        return system
    return replace(system, name=name, label=f"{system.label}; {precision_of(name)}")


def _system_of(name: str) -> System:
    if name == "dgl":
        return System(
            name="dgl",
            label="DGL itself: DistributedDataParallel, NeighborSampler, DataLoader, dgl.nn",
            choices={"memory": MEMORY, "form": [form.name for form in FORMS], "workers": (0, 1, 2)},
            command=baseline_command,
            read=read_baseline,
        )
    if name == "pyg":
        given = forms() == (GIVEN,)
        return System(
            name="pyg",
            label=(
                "PyG's step on given blocks, without the time to sample them; its loader does not run here because "
                "neither pyg-lib nor torch-sparse is installed"
                if given
                else "PyG itself: DistributedDataParallel, NeighborLoader (sampling by "
                f"{'pyg-lib' if TRIMMED in forms() else 'torch-sparse'}), torch_geometric.nn"
            ),
            choices={"memory": MEMORY, "form": forms(), "workers": (0,) if given else (0, 1, 2)},
            command=baseline_command,
            read=read_baseline,
        )
    engine: dict[str, Any] = {"command": _engine_command, "read": read_engine, "has_cache": True}
    choices = {"memory": MEMORY, "workers": (1, 2)}
    strategy: tuple[str, ...] = ()
    if name == "pagraph":
        label = "strategy of this engine, after PaGraph: data parallelism, each trainer's own cache"
        strategy = ("--strategy", "data", "--cache", "replicated")
    elif name == "quiver":
        label = "strategy of this engine, after Quiver: data parallelism, a cache that trainers share"
        strategy = ("--strategy", "data", "--cache", "partitioned")
    else:
        label = "GSplit: split parallelism"
    return System(name=name, label=label, choices=choices, strategy=strategy, **engine)


def described(contender: Contender) -> dict[str, Any]:
    """A contender as results name it."""
    return {
        "system": contender.system.name,
        **asdict(contender.setting),
        "cache_percent": contender.cache,
        "batch_size": contender.workload.batch_size,
        **contender.sweep,
    }
