"""What runs beside each other: the base, the base with a change, and PyG itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from experiments.ablation.config import PYG, AblationConfig
from experiments.baselines.pyg_forms import GIVEN
from experiments.baselines.workload import Setting
from experiments.compare.graphs import Graph
from experiments.compare.systems import Contender, System, baseline_command, read_baseline, read_engine
from experiments.shared.processes import train_command
from gsplit import cli
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError

BASE = "base"
NOT_CHANGED = ("out", "overwrite", "resume", "layout", "device")
"""Flags that say where a run is, and not what it is."""


def flags_of(config: AblationConfig, change: str) -> dict[str, str | None]:
    """Flags of the base with a change: values by flag, None for a flag alone.

    Raises:
        InputError: for a change of what is no part of a training.
    """
    base: dict[str, object] = {
        "device": "cpu",
        "model": config.model,
        "hidden": config.hidden,
        "fan-out": ",".join(map(str, config.fan_out)),
        "batch-size": config.batch_size,
        "gpus": config.gpus,
        "threads": config.trainer_threads,
        "samplers": config.samplers,
        "epochs": config.epochs,
        "dropout": config.dropout,
        "seed": config.seed,
        "evaluate": "none",
        "checkpoint-every": 0,
    }
    if config.model == "gat":
        base["heads"] = config.heads
    flags: dict[str, str | None] = {name: str(value) for name, value in base.items()}
    for word in change.split():
        name, has_value, value = word.partition("=")
        name = name.replace("_", "-")
        if name in NOT_CHANGED:
            raise InputError(f"--changes {change!r}: {name} says where a run is; it cannot be changed")
        flags[name] = value if has_value else None
    whole = flags.get("strategy") == "full"
    if whole or flags.get("sampling") == "uniform":  # neither draws neighbours
        flags["num-layers"] = str(len(config.fan_out))
        for name in ("fan-out", "batch-size", *(("samplers",) if whole else ())):
            del flags[name]
    return flags


def changed_of(base: str, change: str) -> str:
    """A change behind that of its base."""
    return " ".join(part for part in (base, "" if change == BASE else change) if part)


def words_of(flags: dict[str, str | None]) -> list[str]:
    """The flags as a command line has them."""
    return [word for name, value in flags.items() for word in (f"--{name}", value) if word is not None]


def asked_of(config: AblationConfig, change: str) -> TrainConfig:
    """What a run is asked for.

    Raises:
        InputError: for flags that ``gsplit train`` does not take.
    """
    try:
        return cli.parse(TrainConfig, words_of(flags_of(config, change)), prog="gsplit train")
    except InputError as error:
        raise InputError(f"--changes {change!r}: {error}") from None


def contender_of(config: AblationConfig, graph: Graph, change: str, base: str = "") -> Contender:
    """The training with a change, behind that of its base; PyG's own for :data:`~experiments.ablation.config.PYG`."""
    workload = config.workload(graph.store)
    if change == PYG:
        system = System(
            name="pyg", label="PyG's step on our blocks", choices={}, command=baseline_command, read=read_baseline
        )
        alone = replace(workload, trainers=1, threads=config.gpus * config.trainer_threads)
        return Contender(system=system, workload=alone, setting=Setting(memory="kept", form=GIVEN))
    changed = changed_of(base, change)
    asked, flags = asked_of(config, changed), flags_of(config, changed)

    def command(_: Contender, graph: Graph, folder: Path) -> list[str]:
        return train_command(graph.layout, folder / "run", flags)

    return Contender(
        system=System(name=change.replace("/", "_"), label="GSplit", choices={}, command=command, read=read_engine),
        workload=replace(workload, threads=asked.threads, epochs=asked.epochs, batch_size=asked.batch_size),
        setting=Setting(workers=asked.samplers or 0),
    )
