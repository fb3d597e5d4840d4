"""One training step of GraphSAGE on the CPU beside its floor, stage by stage.

    python -m experiments.micro.step LAYOUT --hidden 128

The targets of one trainer are sampled and not split, so nothing is exchanged; one thread. The floor of a stage is
what it has to move at the bandwidth at which this machine copies memory, or to multiply at the rate of a square
product:

- sums: a source row for each edge, indices, rows written; backward the transposed edges as well
- products: rows of destinations (or, where that is narrower, sources) times weights, forward, and backward once for
  the weights and, in all layers but the first, once for the rows
- activation, which is in the pass of products: read and written once forward; two read and one written backward

What is measured is the median over steps of one process; stages come from a profile of other steps. With
``--precision bf16-mixed`` a step in float32 goes before each, and ``times_as_fast`` says what that gained; the floor
stays float32's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import gsplit._core as _core
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, from_one_on
from experiments.shared.rounds import seconds_of
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.engine.inputs import blocks_of
from gsplit.errors import InputError
from gsplit.features import gather
from gsplit.host import keep_freed_memory
from gsplit.kernels import StoredRows
from gsplit.nn import SAGE
from gsplit.sampling import Segment, sampler_of

CPU = torch.device("cpu")
STAGES = {"sums": ("_NeighbourSum",), "products": ("_Multiplied", "_BothLinear", "_Activated")}
"""The autograd functions of each stage: activation and dropout are in the pass of most products."""


@dataclass(frozen=True, kw_only=True)
class StepConfig(Flags):
    """One training step of GraphSAGE beside its floor."""

    layout: Annotated[Path, Positional]
    """Folder of a layout."""
    hidden: Positive = 128
    """Width of the hidden layers."""
    fan_out: Annotated[tuple[int, ...], from_one_on("--fan-out")] = (15, 10, 5)
    """Neighbours at each hop."""
    precision: Literal["32", "bf16-mixed"] = "32"
    """As gsplit train --precision."""
    targets: Positive = 2048
    """Targets of the step."""
    steps: Positive = 9
    """Medians are of so many."""


def rates() -> tuple[float, float]:
    """Bytes a second that a copy reads and writes, and floating-point operations a second of a square product."""

    def best(work: Callable[[], Any]) -> float:
        return min(seconds_of(work) for _ in range(6))

    source, square = torch.ones(1 << 26), torch.ones(1024, 1024)
    to, out = torch.empty_like(source), torch.empty_like(square)
    copy_s = best(lambda: to.copy_(source))
    return 2 * source.nbytes / copy_s, 2 * 1024**3 / best(lambda: torch.mm(square, square, out=out))


def floor_of(segment: Segment, widths: list[int], bandwidth: float, flops: float) -> dict[str, float]:
    """Seconds of each stage at these rates; ``widths`` of all levels."""
    moved = {"sums": 0, "activation": 0}
    multiplied = 0
    for layer, header in segment.layers.items():
        w_in, w_out = widths[layer - 1], widths[layer]
        n, s, e = header.num_destinations, header.num_own_sources, header.num_edges
        narrows = w_in > w_out
        width, trained = min(w_in, w_out), layer > 1 or narrows
        moved["sums"] += 4 * (e * (width + 1) + n * (width + 1))
        if trained:
            moved["sums"] += 4 * (4 * e + 3 * s + e * (width + 2) + s * (width + 1))
        ways = 3 if layer > 1 else 2
        multiplied += ways * 2 * w_in * w_out * (n + (s if narrows else n))
        if layer < len(segment.layers):
            moved["activation"] += 4 * n * w_out * 5
    floor = {stage: count / bandwidth for stage, count in moved.items()}
    return {"sums": floor["sums"], "products": multiplied / flops + floor["activation"]}


def stage_seconds(step: Callable[[], Any], steps: int) -> dict[str, float]:
    """Mean seconds of each stage in a profile."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(steps):
            step()
    spent = {event.key: event.cpu_time_total / 1e6 / steps for event in profiled.key_averages()}
    return {
        stage: sum(spent.get(name + way, 0.0) for name in names for way in ("", "Backward"))
        for stage, names in STAGES.items()
    }


def measure(config: StepConfig) -> list[dict[str, Any]]:
    """A row for each stage, for what is none of them, and for the step."""
    torch.set_num_threads(1)
    layout = open_layout(config.layout)
    graph, features = layout.graph, layout.graph.features
    if features is None:
        raise InputError(f"{config.layout} has no features, so there is nothing to train on")
    if config.targets > len(graph.train_idx):
        raise InputError(f"--targets is {config.targets}, but there are {len(graph.train_idx)} training vertices")
    sampler = sampler_of(layout, fan_outs=list(config.fan_out), seed=0, edge_ids=False)
    model = SAGE(graph.num_features, config.hidden, graph.num_classes, num_layers=len(config.fan_out), dropout=0.5)
    if model.reads_stored_rows:
        sampler.number_by_id()
    chosen = np.random.default_rng(0).choice(graph.train_idx, config.targets, replace=False)
    sampler.sample(np.sort(chosen), epoch=0, batch=0)
    segment = sampler.segment(0)
    labels = torch.from_numpy(graph.labels[segment.targets])

    def rows_in(dtype: torch.dtype) -> Tensor | StoredRows:
        """The features as a trainer gives them: where they lie, if the model reads them there, or copied."""
        if not model.reads_stored_rows or dtype == torch.float64:
            return gather(features, segment.vertices, threads=1).to(dtype)
        table = torch.from_numpy(np.array(features, np.float32))
        return StoredRows(table=table.to(dtype) if _core.has_tiles() else table, ids=segment.vertices)

    def step_in(precision: Precision) -> Callable[[], Tensor]:
        given = rows_in(precision.rows)

        def step() -> Tensor:
            model.zero_grad(set_to_none=True)
            loss: Tensor = F.cross_entropy(precision.called(CPU, model, blocks_of(segment, CPU, None), given), labels)
            loss.backward()
            return loss

        return step

    plain, asked = (step_in(Precision.named(name)) for name in ("32", config.precision))
    for step in (plain, asked):
        step()
    bandwidth, flops = rates()
    taken = [(seconds_of(plain), seconds_of(asked)) for _ in range(config.steps)]
    whole = median(seconds for _, seconds in taken)
    before, spent = stage_seconds(plain, 3), stage_seconds(asked, 3)
    floor = floor_of(segment, list(model.level_widths), bandwidth, flops)
    about = {"hidden": config.hidden, "precision": config.precision}

    def row(stage: str, over_floor: float | None, share: float, faster: float | None) -> dict[str, Any]:
        times = None if faster is None or config.precision == "32" else round(faster, 2)
        return {**about, "stage": stage, "over_floor": over_floor, "share": round(share, 3), "times_as_fast": times}

    rows = [
        row(stage, round(spent[stage] / floor[stage], 2), spent[stage] / whole, before[stage] / spent[stage])
        for stage in STAGES
    ]
    rows.append(row("the rest", None, 1 - sum(spent.values()) / whole, None))
    faster = median(one / other for one, other in taken)
    return [*rows, row("step", round(whole / sum(floor.values()), 2), 1.0, faster)]


command = Experiment("micro.step", StepConfig, measure)

if __name__ == "__main__":
    keep_freed_memory()  # as trainers do
    cli.main(command)
