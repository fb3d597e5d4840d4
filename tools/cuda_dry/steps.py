"""A training step of every strategy and loader, without values."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gsplit.config.train import TrainConfig
from gsplit.engine.rows.shared import Shared
from gsplit.engine.step import backward
from gsplit.launch.resolve import resolve
from gsplit.train.loop import ready
from tools.cuda_dry.fakes import pretending

NOT_GIVEN = object()
COMMON: dict[str, Any] = {
    **{"fan_out": (5, 5), "batch_size": 64, "hidden": 16, "epochs": 1},
    **{"samplers": 0, "prefetch": 0, "threads": 1},
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A configuration whose first step is run."""

    name: str
    flags: dict[str, Any] = field(default_factory=dict)
    world: int = 2
    """Number of trainers, of which the first makes the step."""


HALF = {"cache_size": "30%"}
LAYERS = {"num_layers": 2, "fan_out": NOT_GIVEN}
NO_BATCHES = {**LAYERS, "batch_size": NOT_GIVEN}
CASES = (
    Case(name="one trainer", world=1),
    *(Case(name=f"split, {loader}", flags={"loader": loader, "cache": "none"}) for loader in ("gather", "zero-copy")),
    *(
        Case(name=f"split, cached, {loader}", flags={"loader": loader, "cache": "partitioned", **HALF})
        for loader in ("gather", "zero-copy")
    ),
    Case(name="data", flags={"strategy": "data", "cache": "none"}),
    Case(name="data, replicated", flags={"strategy": "data", "cache": "replicated", **HALF}),
    Case(name="data, caches of peers", flags={"strategy": "data", "cache": "partitioned", **HALF}),
    Case(name="full", flags={"strategy": "full", **NO_BATCHES}),
    Case(name="GAT", flags={"model": "gat", "heads": 2, "norm": "batch", "residual": True}),
    Case(name="GCN", flags={"model": "gcn", "norm": "layer", "dropout": 0.0}),
    Case(name="PyG", flags={"model": "torch_geometric.nn:GraphSAGE"}),
    Case(name="bfloat16 rows", flags={"feature_dtype": "bfloat16", "cache": "none"}),
    Case(name="bfloat16 in exchanges", flags={"exchange_dtype": "bfloat16"}),
    Case(name="sums in exchanges", flags={"exchange": "auto"}),
    Case(name="float64, accumulated and clipped", flags={"dtype": "float64", "accumulate": 2, "clip_grad_norm": 1.0}),
    Case(name="LADIES", flags={"sampling": "ladies", "layer_sizes": (64, 64), **LAYERS}),
    Case(name="clusters", flags={"sampling": "clusters", "clusters": 2, **NO_BATCHES}),
)
"""What differs from two trainers that split mini-batches for GraphSAGE."""


def step(case: Case, kind: str, layout: Path, out: Path, used: set[str]) -> str:
    """Run the first training step of a case, and check where its results lie; what was computed.

    Args:
        case: to run.
        kind: type of the device.
        layout: of as many parts as there are trainers.
        out: a folder for the run; nothing is written there.
        used: operators of the device that were used are added.
    """
    flags = {**COMMON, "layout": layout, "out": out, "gpus": case.world, "device": kind, **case.flags}
    config = TrainConfig(**{name: value for name, value in flags.items() if value is not NOT_GIVEN})
    with pretending(kind, case.world, used) as member, closing(Shared.create(case.world)) as shared:
        run = resolve(config)
        trainer = ready(member, run, shared)
        batches = 0
        for mini_batch in trainer.feed:
            logits, loss, weight, counted = trainer.task.forward(trainer.model, mini_batch, precision=run.precision)
            reduced, _ = backward(trainer.steps, loss, weight, counted)
            trainer.steps.end(0, batches, counted)
            there: list[Tensor] = [*mini_batch.tensors(), logits, loss, reduced, *trainer.model.state_dict().values()]
            there += [parameter.grad for parameter in trainer.parameters if parameter.grad is not None]
            wrong = [tensor for tensor in there if tensor.device != member.device and tensor.dim()]
            assert not wrong, f"not on {member.device}: {wrong}"
            assert logits.shape[0] == len(mini_batch.labels)
            assert logits.dtype == loss.dtype == run.dtype
            batches += 1
            if batches == 2:
                break
        trainer.close()
    return f"{batches} steps, logits {list(logits.shape)} {logits.dtype}"
