"""Importing ids of any kind beside whole numbers: seconds, in pairs, and memory at the peak.

    python -m experiments.micro.importing_ids
    python -m experiments.micro.importing_ids --vertices 1000000 --pairs 1 --json importing_ids.json

One random graph stands in two edge lists, once by whole numbers and once by texts of 21 characters in no order; each
vertex is in it. A pair imports both, in turns which comes first, each in a process of its own. The import by texts
should take at most 4 times the seconds of its pair's other, and 2 GB of memory.

``--json`` writes ``settings`` (``vertices``, ``edges``, ``pairs``, ``seed``), ``file_bytes`` (``whole``, ``any``) and
``pairs``: for each of ``whole`` and ``any`` its ``seconds``, ``processor_seconds`` and ``peak_bytes`` (resident
memory of the process, touched pages of mapped files included; null where the system does not tell), and ``ratio``, of
the seconds.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, Seed
from experiments.shared.results import printed
from experiments.shared.rounds import in_turn
from gsplit import cli
from gsplit.data.api import import_graph
from gsplit.partition.stages import Stages

ROWS_AT_ONCE = 1 << 18
ODD = 0x9E3779B97F4A7C15
"""Times an odd number is a bijection of the numbers of 64 bits: each vertex has another text."""
STAGE = "import"

Ids = Literal["whole", "any"]
KINDS: tuple[Ids, Ids] = ("whole", "any")


@dataclass(frozen=True, kw_only=True)
class ImportingConfig(Flags):
    """What ids of any kind cost beside whole numbers: time and memory of an import."""

    vertices: Positive = 10_000_000
    """Vertices of the graph, which has as many edges."""
    pairs: Positive = 3
    """Pairs of imports."""
    seed: Seed = 0
    """Seed of the graph."""
    work: Path = Path("work")
    """Folder of the edge lists and stores, for as long as it takes: some 150 bytes a vertex."""


def measure(config: ImportingConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    config.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=config.work) as name:
        folder = Path(name)
        write_edges(folder, config.vertices, config.seed)
        file_bytes = {ids: edges_of(folder, ids).stat().st_size for ids in KINDS}
        pairs = []
        for number in range(config.pairs):
            taken = {ids: run(folder, ids) for ids in in_turn(KINDS, number)}
            whole, named = taken["whole"], taken["any"]
            pairs.append(printed({"whole": whole, "any": named, "ratio": named["seconds"] / whole["seconds"]}))
    settings = {"vertices": config.vertices, "edges": config.vertices, "pairs": config.pairs, "seed": config.seed}
    return {"settings": settings, "file_bytes": file_bytes, "pairs": pairs}


def edges_of(folder: Path, ids: Ids) -> Path:
    """The edge list by these ids."""
    return folder / f"{ids}.csv"


def write_edges(folder: Path, vertices: int, seed: int) -> None:
    """Write one graph twice; the destinations are all vertices once, in random order, the sources random."""
    rng = np.random.default_rng(seed)
    destinations = rng.permutation(vertices)
    with edges_of(folder, "whole").open("w") as whole, edges_of(folder, "any").open("w") as named:
        for file in (whole, named):
            file.write("src,dst\n")
        for begin in range(0, vertices, ROWS_AT_ONCE):
            piece = destinations[begin : begin + ROWS_AT_ONCE]
            sources = rng.integers(vertices, size=len(piece))
            rows = list(zip(sources.tolist(), piece.tolist(), strict=True))
            whole.writelines(f"{source},{destination}\n" for source, destination in rows)
            named.writelines(f"{text_of(source)},{text_of(destination)}\n" for source, destination in rows)


def text_of(vertex: int) -> str:
    """What a vertex is called: 21 characters."""
    return f"user-{vertex * ODD & 0xFFFFFFFFFFFFFFFF:016x}"


def run(folder: Path, ids: Ids) -> dict[str, Any]:
    """One import, in a process of its own: memory that a library kept would count for the next."""
    with tempfile.TemporaryDirectory(dir=folder) as out, multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (edges_of(folder, ids), Path(out) / "store", ids))


def measured(edges: Path, out: Path, ids: Ids) -> dict[str, Any]:
    """What ``--json`` says of an import."""
    stages = Stages(own_peaks=True)
    begin_s = time.process_time()
    with stages.stage(STAGE):
        import_graph(edges, out, ids=ids)
    taken = stages.taken[STAGE]
    return {
        "seconds": taken.seconds,
        "processor_seconds": round(time.process_time() - begin_s, 3),
        "peak_bytes": taken.peak_bytes,
    }


command = Experiment("micro.importing_ids", ImportingConfig, measure)

if __name__ == "__main__":
    cli.main(command)
