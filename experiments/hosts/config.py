"""The flags of the experiment on several hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from experiments.baselines.workload import Workload
from experiments.shared import real_graphs
from experiments.shared.experiment import Flags
from experiments.shared.flags import Count, FanOut, Positive, Seed, names_of
from gsplit.config.fields import Accepted, Range
from gsplit.errors import InputError

SYSTEMS = {
    "gsplit": "GSplit: each host splits its micro-batch between its trainers",
    "gsplit-over": "GSplit: one mini-batch is split over all hosts",
    "distdgl": "DistDGL 1.1.3: a server with a METIS part on each host, DistNodeDataLoader, DistributedDataParallel",
    "pyg": "PyG: the whole graph on each host, torch_geometric.nn on blocks of our sampler, DistributedDataParallel",
    "pyg-loader": "PyG: the same with its NeighborLoader, where pyg-lib or torch-sparse is installed",
}
"""Names, with what each is."""
OURS = "gsplit"
"""The system that the others are compared with."""


def _accept_systems(names: tuple[str, ...]) -> None:
    names_of(SYSTEMS, "system").function(names)
    if OURS not in names or len(set(names)) < len(names):
        raise InputError(f"--systems takes {OURS}, which others are compared with, and others, each once")


@dataclass(frozen=True, kw_only=True)
class HostsConfig(Flags):
    """Epochs of GSplit over several hosts beside those of DistDGL and of PyG with PyTorch's DDP."""

    systems: Annotated[tuple[str, ...], Accepted(_accept_systems)] = tuple(SYSTEMS)
    """Names with commas: gsplit, gsplit-over (one mini-batch split over all hosts), distdgl, pyg (on blocks of our
    sampler), pyg-loader."""
    dataset: str = "synthetic:products?scale=0.05"
    """A real graph, or synthetic:PRESET or synthetic:PRESET?scale=0.1, generated once."""
    hosts: Annotated[int, Range(2, 8)] = 2
    """Hosts, namespaces of this machine."""
    trainers: Positive = 1
    """Trainers of each host."""
    threads: Positive = 1
    """Threads of each trainer."""
    samplers: Count = 1
    """GSplit: sampler processes of each host; the others' trainers sample for themselves."""
    dgl_samplers: Count = 0
    """DistDGL: sampler processes of each trainer."""
    mbit: Positive = 1000
    """Rate of each host's wire, in Mbit/s."""
    delay_us: Count = 500
    """What the wire adds one way, in microseconds."""
    fan_out: FanOut = (15, 10, 5)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    hidden: Positive = 128
    """Width of the hidden layers of GraphSAGE."""
    batch_size: Positive = 1024
    """Targets of a mini-batch over all trainers."""
    epochs: Annotated[int, Range(2)] = 5
    """Epochs of a run, the first of which is not counted."""
    rounds: Positive = 3
    """Runs of each, in turn."""
    limit_s: Positive = 600
    """Seconds after which a run has failed."""
    seed: Seed = 0
    """Seed of the generator and of the draws."""
    quick: bool = False
    """Take a minute: the tiny graph, one round; figures say nothing."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""
    work: Path = Path("work/hosts")
    """Keeps stores, layouts and DistDGL's parts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.world:
            raise InputError(f"--batch-size {self.batch_size} cannot be shared out evenly over {self.world} trainers")

    @property
    def world(self) -> int:
        """Trainers of all hosts."""
        return self.hosts * self.trainers

    def workload(self, store: Path) -> Workload:
        """What all systems train."""
        return Workload(
            store=str(store.resolve()),
            model="sage",
            hidden=self.hidden,
            heads=1,
            fan_out=tuple(self.fan_out),
            batch_size=self.batch_size,
            epochs=self.epochs,
            trainers=self.world,
            threads=self.threads,
            lr=0.003,
            dropout=0.0,
            seed=self.seed,
            check=True,
        )


QUICK = HostsConfig(
    dataset="synthetic:tiny", fan_out=(4, 3), hidden=8, batch_size=100, epochs=2, rounds=1, delay_us=0, quick=True
)
