"""Memory of sampler processes: the graph that all map, and what each has for itself.

python -m experiments.micro.sampler_memory LAYOUT [--samplers 1,2,4] [--negatives uniform:1]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import psutil

from experiments.links.redundancy import links_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, from_one_on
from experiments.shared.peak import Peak
from experiments.shared.slab_path import attend
from gsplit import cli
from gsplit.config.fields import Accepted
from gsplit.config.flags import Positional
from gsplit.data import open_layout
from gsplit.errors import InputError
from gsplit.sampling import Neighbours, Rule
from gsplit.sampling.links import TrainingPairs
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import Handle
from gsplit.supply.sampler_process import SamplerSpec
from gsplit.supply.tickets import Position, tickets
from gsplit.units import parse_bytes

GRAPH = ("indptr.npy", "indices.npy", "permutation.npy")


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(Flags):
    """Memory of sampler processes, after each has sampled some mini-batches."""

    layout: Annotated[Path, Positional]
    """The layout to sample from."""
    samplers: Annotated[tuple[int, ...], from_one_on("--samplers")] = (1, 2, 4)
    """Numbers of processes."""
    fan_out: FanOut = (20, 20, 20)
    """Neighbours drawn per hop."""
    batch_size: Positive = 4096
    """Targets of a mini-batch, or pairs."""
    negatives: str | None = None
    """Sample for links, all edges, which are compared with these; by default for labels of vertices."""
    sampler_memory: Annotated[str, Accepted(parse_bytes)] = "4GiB"
    """Memory of the maps of all samplers, as in training."""


def measure(config: MemoryConfig) -> dict[str, Any]:
    """Bytes of the files of the graph, and a row for each number of samplers."""
    path = config.layout.resolve()
    layout = open_layout(path)
    if not (len(layout.graph.train_idx) if config.negatives is None else TrainingPairs(layout, edges=True).number):
        raise InputError(f"{path} has nothing to train on to sample for")
    graph_bytes = sum((path / name).stat().st_size for name in GRAPH)
    return {
        "graph_bytes": graph_bytes,
        "samplers": [row_of(config, path, number, graph_bytes) for number in config.samplers],
    }


def row_of(config: MemoryConfig, path: Path, number: int, graph_bytes: int) -> dict[str, Any]:
    """What so many samplers hold: the graph, which they share, and the most that one has for itself."""
    layout = open_layout(path, trusted=True)
    rule: Rule = Neighbours(fan_out=config.fan_out)
    if config.negatives is not None:
        rule = links_of(config.negatives, config.fan_out)
    spec = SamplerSpec(
        layout=path,
        rule=rule,
        batch_size=config.batch_size,
        seed=0,
        edge_ids=False,
        memory=parse_bytes(config.sampler_memory),
        threads=1,
    )
    num_batches = rule.num_batches(layout, batch_size=config.batch_size)
    arrived: list[Handle] = []
    pool = SamplerPool(
        spec,
        tickets(num_batches, 1 + 3 * number // num_batches, Position()),
        samplers=number,
        slots=3 * number,
        readers=1,
        finished=arrived.extend,
        max_restarts=0,
    )
    try:
        with Peak([sampler.pid for sampler in pool.processes]) as peak:
            while len(arrived) < 3 * number:
                attend(pool)
        graph_files = {str(path / name) for name in GRAPH}
        graph, own = 0, []
        for sampler in pool.processes:
            maps = psutil.Process(sampler.pid).memory_maps(grouped=False)
            graph += sum(entry.pss for entry in maps if entry.path in graph_files)
            own.append(sum(entry.private_dirty for entry in maps if entry.path in ("[heap]", "[anon]")))
        return {
            "samplers": number,
            "mapped_bytes": graph,
            "of_the_files": graph / graph_bytes,
            "private_bytes": max(own),
            "peak_bytes": peak.num_bytes,
            "slot_bytes": pool.slots[0].num_bytes,
        }
    finally:
        pool.end()


command = Experiment("micro.sampler_memory", MemoryConfig, measure)

if __name__ == "__main__":
    cli.main(command)
