"""A training configuration as it is decided: what runs, is saved with the run, and leaves nothing open."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsplit.config.features import CacheName
from gsplit.config.links import TaskName
from gsplit.config.model import PrecisionName
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Placed(TrainConfig):
    """A configuration of which it is known where it trains and with what; an engine decides the rest."""

    layout: Path
    """The layout, by its real path."""
    gpus: int
    """Number of trainers."""
    num_layers: int
    """Layers of the model."""
    dropout: float
    """Share of hidden values that is dropped."""
    precision: PrecisionName
    """The precision, by its first name."""
    task: TaskName
    """What is learned."""
    hosts: int = 1
    """Number of hosts that the trainers are on, as many on each."""

    @property
    def trainers_here(self) -> int:
        """Number of trainers on each host."""
        return self.gpus // self.hosts

    @classmethod
    def of(
        cls,
        asked: TrainConfig,
        trainers: int,
        device: str,
        task: TaskName = "vertices",
        hosts: int = 1,
        *,
        typed: bool = False,
    ) -> Placed:
        """Return what is known before an engine decides: trainers, devices, layers, precision, task and the like."""
        known = {"gpus": trainers, "device": device, "num_layers": asked.layers, "dropout": asked.share_dropped}
        known |= {"input_projection": typed if asked.input_projection is None else asked.input_projection}
        known |= {"precision": asked.precision or "32", "task": task, "hosts": hosts}
        return cls(**(vars(asked) | known))

    def values(self, unused: Collection[str] = ()) -> dict[str, Any]:
        """The fields by name, with the number of hosts only where there are several."""
        values = super().values(unused)
        if self.hosts == 1:
            del values["hosts"]
        return values

    def resolved(
        self, *, split_group: int, samplers: int, cache: CacheName, cache_size: str | None = None, **decided: Any
    ) -> Resolved:
        """The configuration with what an engine decides.

        Args:
            split_group: trainers that split a micro-batch between them, a divisor of ``gpus``.
            samplers: number of sampler processes; 0 where trainers sample for themselves, or nothing is sampled.
            cache: kind of the caches.
            cache_size: size of each trainer's cache; None without one.
            decided: any other field.

        Raises:
            InputError: where a field holds what it may not.
        """
        decided |= {"split_group": split_group, "samplers": samplers, "cache": cache, "cache_size": cache_size}
        return Resolved(**(vars(self) | decided))


@dataclass(frozen=True, kw_only=True)
class Resolved(Placed):
    """A configuration with nothing left open.

    Numbers of trainers, threads and samplers, the device and the caches are those that are used, and nothing of the
    strategy is ``auto`` or None where it has an effect. None means none: ``out`` of what writes no run, ``slots``
    without samplers, ``grid`` of what has none.
    """

    split_group: int
    """Trainers that split a micro-batch between them."""
    samplers: int
    """Number of sampler processes; 0 where trainers sample for themselves."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cache == "auto":
            raise InputError(f"--strategy {self.strategy}: its resolve leaves the cache open")
        if self.gpus % self.split_group:
            raise InputError(
                f"--strategy {self.strategy}: its resolve makes groups of {self.split_group}, which do not divide "
                f"{self.gpus} trainers"
            )
