"""How a training run is laid over the devices of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gsplit.config.fields import Checked, Range
from gsplit.errors import InputError

STRATEGIES = ("split", "data")
Device = Literal["auto", "cuda", "cpu"]
Exchange = Literal["rows", "auto"]
ExchangeDtype = Literal["model", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(Checked):
    """How many trainers there are, where they compute, and how a mini-batch is shared out."""

    gpus: Annotated[int | None, Range(1)] = None
    """Trainers, one a GPU (or a process on the CPU). By default one for each part of the layout."""
    device: Device = "auto"
    """auto takes GPUs where there are any."""
    threads: Annotated[int, Range(0)] = 0
    """CPU threads a trainer may use; 0 shares the cores out."""
    strategy: str = "split"
    """split: all trainers compute one mini-batch together, and nothing twice; data: each computes a micro-batch of
    its own, overlaps and all, as DGL and PyG do. Or package.module:Class, an engine of yours (CONTRIBUTING.md)."""
    split_group: Annotated[int | None, Range(1)] = None
    """Trainers that split a mini-batch between them, a divisor of --gpus; with several such groups each has a
    micro-batch of its own. By default all trainers are one group."""
    exchange: Exchange = "rows"
    """What travels between trainers before a layer: rows; or, by auto, for each pair of trainers rows or sums of them
    over the receiver's destinations, whichever are fewer, or a mix of both that is fewer still. sage and gcn take
    sums, other models rows."""
    exchange_dtype: ExchangeDtype = "model"
    """Type in which rows and gradients travel between trainers: model, that of --dtype; or bfloat16, with half the
    bytes of float32. Sums are taken in --dtype either way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy not in STRATEGIES and ":" not in self.strategy:
            raise InputError(
                f"--strategy must be one of {', '.join(STRATEGIES)}, or package.module:Class, not {self.strategy!r}"
            )
