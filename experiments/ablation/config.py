"""The flags of the ablation, and its studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from experiments.compare.config import BenchConfig
from experiments.shared.flags import Positive, names_of
from gsplit.config.sampling import Subgraph
from gsplit.errors import InputError

PYG = "PyG itself"
"""A change that is none of ours: PyG computes the same mini-batches."""
PYG_MODEL = "model=torch_geometric.nn:GraphSAGE"


@dataclass(frozen=True, kw_only=True)
class AblationConfig(BenchConfig):
    """Our own training with one thing changed at a time, beside the same training without the change."""

    studies: Annotated[
        tuple[str, ...],
        names_of(("exchange", "threads", "cache", "batch", "models", "optimisations"), "study", empty=True),
    ] = ("exchange", "threads")
    """Which of exchange, threads, cache, batch, models, optimisations; --studies alone leaves all out."""
    changes: tuple[str, ...] = ()
    """Changes of your own, a study called own: flags of gsplit train without dashes, as in "order=ready slots=4"."""
    samplers: Positive = 1
    """Sampler processes."""
    subgraph: Subgraph = "10%"
    """optimisations: vertices of a uniform subgraph."""
    out: Path = Path("work/ablation")
    """Folder for ablation.json and ablation.md; what it has of them is replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.all_changes():
            raise InputError("name a study or a change: --studies exchange, or --changes order=ready")
        if "models" in self.studies and self.model != "sage":
            raise InputError(f"the study models compares GraphSAGE, so drop --model {self.model}")

    def all_changes(self) -> dict[str, tuple[str, ...]]:
        """The changes of each study that was asked for."""
        found = {study: STUDIES[study](self) for study in self.studies if study in STUDIES}
        if "optimisations" in self.studies:
            found |= {f"optimisations, {way}": _optimisations(self, way) for way in WAYS}
        return {**found, **({"own": self.changes} if self.changes else {})}

    def base_of(self, study: str) -> str:
        """The change that makes the base of a study, in front of its own."""
        return WAYS.get(study.removeprefix("optimisations, "), "").format(subgraph=self.subgraph)


STUDIES: dict[str, Callable[[AblationConfig], tuple[str, ...]]] = {
    "exchange": lambda config: ("exchange-dtype=bfloat16", "exchange=auto", "exchange=auto exchange-dtype=bfloat16"),
    "threads": lambda config: (f"gpus=1 threads={config.gpus * config.trainer_threads}",),
    "cache": lambda config: tuple(f"cache-size={percent}%" for percent in (5, 10, 25, 50)),
    "batch": lambda config: tuple(
        f"batch-size={size}"
        for size in (config.batch_size // 4, config.batch_size // 2, 2 * config.batch_size, 4 * config.batch_size)
    ),
    "models": lambda config: (PYG_MODEL, PYG),
}
"""The changes of each study, but for optimisations."""

PREFETCH, WIRE, MIXED = "prefetch=1", "exchange-dtype=bfloat16", "precision=bf16-mixed"
"""Optimisations: loading ahead of computing; rows in bfloat16 on the wire; and in products and everywhere else."""

WAYS = {
    "split": "samplers=0 prefetch=0",
    "uniform": "sampling=uniform subgraph={subgraph} samplers=0 prefetch=0",
    "whole graph": "strategy=full algorithm=1d-sparse",
}
"""Ways of training, each with the flags that leave all optimisations out; ``samplers=0``: trainers sample in turn."""


def _optimisations(config: AblationConfig, way: str) -> tuple[str, ...]:
    """Each alone, and all together; in mixed precision rows are short on the wire anyway."""
    if way == "whole graph":  # one mini-batch, which is made once: nothing is sampled or loaded ahead
        return WIRE, MIXED
    ahead = f"samplers={config.samplers}"
    return ahead, PREFETCH, WIRE, MIXED, f"{ahead} {PREFETCH} {MIXED}"


QUICK = AblationConfig(
    quick=True,
    studies=("exchange", "threads", "models"),
    dataset="tiny",
    fan_out=(4, 3),
    batch_size=100,
    epochs=2,
    pairs=1,
    out=Path("work/ablation-quick"),
)
