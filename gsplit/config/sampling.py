"""The mini-batches of a training run: what is drawn, by whom, and in which order they are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from gsplit.cli import IntList, check_fan_out
from gsplit.config.fields import Accepted, Checked, Range
from gsplit.units import parse_bytes

Order = Literal["sequence", "ready"]
MAX_SLOTS = 1024


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Checked):
    """How mini-batches are sampled and handed to the trainers."""

    fan_out: Annotated[IntList, Accepted(check_fan_out), arg(aliases=("--num-neighbors",))] = (20, 20, 20)
    """Neighbours drawn per hop, with commas or spaces; the first is for the targets (as in PyG; DGL lists them
    the other way round). -1 takes all."""
    batch_size: Annotated[int, Range(1)] = 4096
    """Targets of one mini-batch over ALL trainers together (DGL and PyG count per GPU)."""
    samplers: Annotated[int | None, Range(0)] = None
    """Processes that sample and split mini-batches ahead of training. By default the cores that the trainers leave
    over, at least 1 and at most 2 for each trainer; 0 lets every trainer sample for itself, for debugging."""
    slots: Annotated[int | None, Range(1, MAX_SLOTS)] = None
    """Mini-batches that may be sampled, or being sampled, at a time, in shared memory. By default --samplers,
    --prefetch and 2 more."""
    order: Order = "sequence"
    """sequence trains mini-batches in the order of the epoch, so that results do not depend on --samplers; ready
    trains first what is finished first."""
    prefetch: Annotated[int, Range(0, 256)] = 1
    """Mini-batches that each trainer loads ahead of the one it computes."""
    sampler_memory: Annotated[str, Accepted(parse_bytes)] = "4GiB"
    """What each sampler's maps of vertices may take. Where maps of all vertices of the graph would take more (8 bytes
    a vertex), it has hash maps of the vertices of a mini-batch, which are slower."""
    sampler_threads: Annotated[int, Range(1, 256)] = 1
    """CPU threads a sampler may use; more samplers are better where there are enough mini-batches and memory."""
    max_sampler_restarts: Annotated[int, Range(0)] = 3
    """Samplers that may be replaced when something kills them, before the run is given up."""

    @property
    def layers(self) -> int:
        """Number of hops, which is the number of layers of the model."""
        return len(self.fan_out)
