"""Memory of each stage and disk that a layout takes, estimated before it is made."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gsplit.data.graph import GraphArrays
from gsplit.errors import InputError
from gsplit.limits import host_memory
from gsplit.partition.methods import Partitioner
from gsplit.partition.problem import Size
from gsplit.partition.relabel import BYTES_AT_ONCE, EDGES_AT_ONCE, memory_for_rows
from gsplit.units import binary

VERTEX_BYTES = 72
"""Bytes that a vertex takes: assignment, heat, both permutations and their sorting."""
PIECE_BYTES_PER_EDGE = 40
BASE_BYTES = 200 << 20
"""Bytes that the interpreter and its libraries take."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Bytes that making a layout takes; memory at the peak of the process, without pages of mapped files."""

    partition: int
    """Memory of the partitioner."""
    relabel: int
    """Memory of relabelling: it takes half of what is available where the features are larger than that."""
    layout: int
    """Disk, where the layout goes."""
    temporary: int
    """Disk, in the folder for temporary files, while KaMinPar reads the graph."""

    def lines(self, out: Path) -> list[str]:
        """Lines to print: what is needed, beside what there is."""
        available = binary(host_memory().available_bytes)
        rows = [
            f"memory to partition  {binary(self.partition):>10}   of {available} available",
            f"memory to relabel    {binary(self.relabel):>10}   of {available} available",
            f"disk for the layout  {binary(self.layout):>10}   of {binary(free_disk(out))} free at {_existing(out)}",
        ]
        if self.temporary:
            folder = Path(tempfile.gettempdir())
            free = binary(free_disk(folder))
            rows.append(f"disk for a while     {binary(self.temporary):>10}   of {free} free at {folder}")
        return rows

    def check_disk(self, out: Path) -> None:
        """Raise InputError where the layout will not fit on the disk."""
        free = free_disk(out)
        if self.layout > free:
            raise InputError(
                f"{out} needs {binary(self.layout)} of disk, {binary(free)} are free at {_existing(out)}; choose "
                "another --out"
            )


def estimate_of(graph: GraphArrays, partitioner: Partitioner | None = None, size: Size | None = None) -> Estimate:
    """Return what making a layout of ``graph`` takes.

    The partitioner's share is in it where that and the ``size`` of what it is given are known.
    """
    n = sum(each.num_vertices for each in graph.schema.types)
    edges = max((len(each.indices) for each in graph.adjacencies), default=0)
    arrays = [graph.labels, graph.train_idx, graph.valid_idx, graph.test_idx, *graph.features_by_type]
    for each in graph.adjacencies:
        arrays += [each.indptr, each.indices, each.edge_weight]
    links = 0
    if graph.links is not None:
        ways_back = 8 * (2 * n + 1)  # positions, store_indptr
        links = ways_back + sum(array.nbytes for _, array in graph.links.arrays())
    memory = temporary = 0
    if partitioner is not None and size is not None:
        memory = BASE_BYTES + partitioner.memory.of(size)
        if partitioner.through_file:
            itemsize = max(each.indices.itemsize for each in graph.adjacencies)
            temporary = 8 * n + size.adjacencies * itemsize * (2 if size.edge_weights else 1)
    largest = max((0 if rows is None else rows.nbytes for rows in graph.features_by_type), default=0)
    window = min(largest, 4 * BYTES_AT_ONCE)
    if largest > memory_for_rows():  # windows as large as they may be: the fewer, the less is read
        window += memory_for_rows()
    return Estimate(
        partition=memory,
        relabel=BASE_BYTES + VERTEX_BYTES * n + PIECE_BYTES_PER_EDGE * min(EDGES_AT_ONCE, edges) + window,
        layout=sum(array.nbytes for array in arrays if array is not None) + 8 * n + links,
        temporary=temporary,
    )


def free_disk(path: Path) -> int:
    """Free bytes on the disk where ``path`` is, or will be."""
    return shutil.disk_usage(_existing(path)).free


def _existing(path: Path) -> Path:
    """The innermost folder on the way to ``path`` that is there."""
    return next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
