"""Epochs predicted for hosts that are not at hand, after the paper's figures 6 and 7: counts times rates.

    python -m experiments.model_host --host p3.8xlarge
    python -m experiments.model_host --host FILE.toml --dataset synthetic:papers?scale=0.05
    python -m experiments.model_host --host p3.8xlarge --hosts 2,4,8 --dataset synthetic:products?scale=0.25
    python -m experiments.model_host --host this --dataset synthetic:medium

Counts are exact: this project samples, splits and caches, on the layout of the dataset, and nothing is timed
(counts.py). Rates are those of data sheets, with shares that are assumed to be reached; every one is printed with its
source (rates.py). What is assumed of computing, of loading and of overlap is said in layers.py, model.py and
pipeline.py. So the figures are predictions, good for ratios at best.

``--host this`` measures the rates of this machine, predicts the epoch of trainers on its CPU, trains, and shows
prediction over measurement, stage by stage.

``--hosts`` counts and predicts GSplit over several hosts of one kind (several.py) in place of other strategies.

``--json`` is described in docs/formats.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from experiments.model_host.check import STRATEGIES, compared, measured_epoch
from experiments.model_host.counts import Strategy, count, strategies_of
from experiments.model_host.layers import Layer, layers_of
from experiments.model_host.measured import this_host
from experiments.model_host.model import predict
from experiments.model_host.rates import Host, open_host, with_card
from experiments.model_host.report import LABEL, count_row, prediction_row, rate_rows
from experiments.model_host.several import Work, host_rows
from experiments.shared.datasets import feature_row, open_or_make, width_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Percents, Positive, Seed, from_one_on
from experiments.shared.placements import Placements
from experiments.shared.results import about
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.config.train import TrainConfig
from gsplit.data import Layout
from gsplit.errors import InputError

THIS = "this"


@dataclass(frozen=True, kw_only=True)
class ModelHostConfig(Flags):
    """Predicted epochs of every strategy on a host."""

    host: str = "4x3090ti-pcie3"
    """4x3090ti-pcie3, p3.8xlarge (the paper's hosts), dgx-a100, hgx-h100; this, to measure, predict and train on the
    CPU of this machine; or a TOML file of the same form (experiments/model_host/hosts)."""
    dataset: str = "synthetic:products"
    """A layout folder with a part for each trainer, or synthetic:PRESET or synthetic:PRESET?scale=0.05, generated and
    partitioned once."""
    model: Literal["sage", "gat", "gcn"] = "sage"
    """The model of the run."""
    hidden: Positive = 16
    """Width of the hidden layers."""
    heads: Positive = 4
    """gat: heads of the hidden layers, which share the width."""
    fan_out: FanOut = (15, 10, 5)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    batch_size: Positive = 4096
    """Targets of a mini-batch over all trainers."""
    cache: Percents = (0, 10, 25)
    """Sizes of caches to compare: what each trainer holds, in percent of all feature rows."""
    hosts: Annotated[tuple[int, ...], from_one_on("--hosts", empty=True)] = ()
    """Numbers of hosts to predict GSplit over, such as 2,4,8, beside one; a layout folder has a part for each trainer
    of the most. Empty: the strategies on one host."""
    nic_gbit: Positive | None = None
    """--hosts: rate of each host's network card in Gbit/s, in place of that of the host's description."""
    gpus: Positive | None = None
    """Trainers of a host; by default all of its GPUs, and 2 on this one."""
    feature_width: Positive | None = None
    """Columns (float32) of a graph without features; those of the preset by default."""
    iterations: Positive | None = None
    """Mini-batches to count, at most an epoch, whose figures are then scaled. None: an epoch."""
    epochs: Annotated[int, Range(2)] = 4
    """Epochs to train with --host this; the first warms up."""
    seed: Seed = 0
    """Seed of the generator and of the draws."""
    quick: bool = False
    """Take a minute: a graph of 200k vertices, 4 mini-batches."""
    work: Path = Path("work/model_host")
    """Keeps the layouts of synthetic graphs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hosts and self.host == THIS:
            raise InputError(
                "--hosts takes a host that is described, not this one: its network card has no rate here"
            )
        if self.nic_gbit and not self.hosts:
            raise InputError("--nic-gbit is of several hosts, and there is no --hosts")
        if self.model == "gat" and self.hidden % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --hidden {self.hidden}, which the heads share")


QUICK = ModelHostConfig(dataset="synthetic:medium", iterations=4, epochs=2, quick=True)


def measure(config: ModelHostConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    host = None if config.host == THIS else open_host(config.host)
    trainers = config.gpus or (2 if host is None else int(host.gpus.rate))
    if host is not None and trainers > host.gpus.rate:
        raise InputError(f"--gpus {trainers}: {host.name} has {host.gpus.rate:.0f}")
    parts = trainers * max(config.hosts, default=1)
    layout, generator = open_or_make(
        config.dataset, seed=config.seed, work=config.work, parts=parts, features=host is None
    )
    if layout.parts != parts:
        raise InputError(f"{layout.path} has {layout.parts} parts, and {parts} trainers want one each; see --gpus")
    if config.hosts and host is not None:
        return {"dataset": about(layout, generator), **over_hosts(layout, config, host, trainers)}
    return {"dataset": about(layout, generator), **predicted(layout, config, host)}


def over_hosts(layout: Layout, config: ModelHostConfig, host: Host, trainers: int) -> dict[str, Any]:
    """All of ``--json`` but the dataset, with ``--hosts``."""
    host = with_card(host, config.nic_gbit)
    feature_width, row_bytes, layers = _shape(layout, config)
    work = Work(
        layout=layout,
        layers=layers,
        batch_size=config.batch_size,
        fan_out=config.fan_out,
        seed=config.seed,
        row_bytes=row_bytes,
        trainers=trainers,
        iterations=config.iterations,
    )
    return {
        "label": LABEL,
        "host": host.name,
        "settings": _settings(config, feature_width, row_bytes) | {"gpus": trainers},
        "rates": rate_rows(host),
        "hosts": host_rows(work, host, config.hosts, config.cache),
    }


def _shape(layout: Layout, config: ModelHostConfig) -> tuple[int, int, list[Layer]]:
    """Columns and bytes of a feature row, and the layers of the model."""
    feature_width, row_bytes = feature_row(layout, config.feature_width or width_of(config.dataset))
    level_widths = [feature_width, *[config.hidden] * (len(config.fan_out) - 1), layout.graph.num_classes]
    return feature_width, row_bytes, layers_of(config.model, level_widths, config.heads)


def _settings(config: ModelHostConfig, feature_width: int, row_bytes: int) -> dict[str, Any]:
    names = ("model", "hidden", "heads", "fan_out", "batch_size", "cache", "seed", "quick")
    return {**{key: getattr(config, key) for key in names}, "feature_width": feature_width, "row_bytes": row_bytes}


def predicted(layout: Layout, config: ModelHostConfig, host: Host | None) -> dict[str, Any]:
    """All of ``--json`` but the dataset; ``host`` None: this one."""
    trainers = layout.parts
    groups = [] if host is None else [group for group in range(2, trainers) if trainers % group == 0]
    placements = Placements(layout, config.batch_size, config.fan_out, config.seed, groups)
    plan = placements.plan
    if not plan.num_batches:
        raise InputError(f"{layout.path} has no training vertices")
    batches = range(plan.num_batches)[: config.iterations]
    all_targets = len(layout.graph.train_idx)
    epochs = min(len(batches) * config.batch_size, all_targets) / all_targets
    feature_width, row_bytes, layers = _shape(layout, config)
    left_out = []
    caches = config.cache if host else (0,)
    wanted = strategies_of(layout, placements, caches, len(config.fan_out), groups)
    if host is None:
        wanted = [strategy for strategy in wanted if strategy.name in STRATEGIES]
        widths = (layers[0].width_in, layers[0].width_out)
        host = this_host(placements, batches, trainers=trainers, widths=widths, feature_width=feature_width)
    if host.peer_read is None and any(strategy.reads_peers for strategy in wanted):
        wanted = [strategy for strategy in wanted if not strategy.reads_peers]
        left_out = [f"Quiver: devices of {host.name} do not read each other's memory (no peer_read)."]
    every = count(placements, wanted, batches)
    predictions = [predict(each, layers, host, row_bytes=row_bytes, epochs=epochs) for each in every]
    base = next(made for made, each in zip(predictions, every, strict=True) if each.strategy.name == "DGL")
    check: list[dict[str, Any]] = []
    if config.host == THIS:
        for each, made in zip(every, predictions, strict=True):
            name = each.strategy.name
            check += compared(name, made, measured_epoch(_run_of(layout, config, each.strategy, host)))
    return {
        "label": LABEL,
        "host": host.name,
        "settings": _settings(config, feature_width, row_bytes),
        "counted": {"iterations": len(batches), "iterations_per_epoch": plan.num_batches, "epochs": epochs},
        "rates": rate_rows(host),
        "counts": [count_row(each, layers, row_bytes, epochs) for each in every],
        "predictions": [prediction_row(each, made, base) for each, made in zip(every, predictions, strict=True)],
        "left_out": left_out,
        "check": check,
    }


def _run_of(layout: Layout, config: ModelHostConfig, strategy: Strategy, host: Host) -> TrainConfig:
    """The run that is predicted for this machine."""
    return TrainConfig(
        layout=layout.path,
        device="cpu",
        strategy=STRATEGIES[strategy.name],
        samplers=int(host.samplers.rate),
        model=config.model,
        hidden=config.hidden,
        heads=config.heads,
        fan_out=config.fan_out,
        batch_size=config.batch_size,
        dropout=0.0,
        epochs=config.epochs,
        validate_every=0,
        checkpoint_every=0,
        seed=config.seed,
    )


command = Experiment("model_host", ModelHostConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
