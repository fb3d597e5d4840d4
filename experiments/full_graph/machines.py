"""The machines of the papers, as the papers describe them: how fast a process of a group receives.

Where a ring of processes leaves a node, it shares the link with all others that leave it there: as many as its
members are ranks apart, or as there are GPUs at the link (CAGNET, sections V-B and VI-A; Plexus, equation 4.6).
Latency is left out, as by Plexus (section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from experiments.full_graph.words import WORD_BYTES, Grid, Model, Move


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Nodes of GPUs, joined by links."""

    gpus_of_node: int
    gpus_of_link: int
    """GPUs that share a link to other nodes."""
    within: float
    """Bytes a second between two GPUs of a node, each way."""
    between: float
    """Bytes a second of a link."""

    @property
    def one_gpu_a_node(self) -> Machine:
        """The same, with one GPU used of each node."""
        return replace(self, gpus_of_node=1, gpus_of_link=1)

    def rate(self, move: Move) -> float:
        """Bytes a second that a process of a group receives, while all groups of that kind move."""
        if move.size * move.stride <= self.gpus_of_node:
            return self.within
        return self.between / min(self.gpus_of_link, move.stride)

    def seconds(self, moves: Iterable[Move]) -> float:
        """Seconds of moves, one after the other."""
        return sum(WORD_BYTES * move.words / self.rate(move) for move in moves if move.size > 1)


SUMMIT = Machine(gpus_of_node=6, gpus_of_link=3, within=50e9, between=12.5e9)
"""CAGNET, section V-B: two sockets a node, each with three V100, NVLink between these, and half of the injection."""
PERLMUTTER = Machine(gpus_of_node=4, gpus_of_link=4, within=100e9, between=100e9)
"""Plexus, section 6.1: four A100 a node, four adapters of 25 GB/s. Within a node four NVLinks of 25 GB/s between any
two, which NERSC's description of Perlmutter has, not the paper."""

OF_SUMS = (7.8e-4, 7.8e-10, -2.6e-10)
"""Plexus, section 4.1: milliseconds of the terms of equation 4.4."""


def sums_by_plexus(model: Model, grid: Grid) -> float:
    """Seconds of an epoch's sparse products on G_x x G_y x G_z processes (Plexus, equation 4.4 and its coefficients).

    Equation 4.4 has the first layer; the axes turn as in its section 3.2. Nonzeros are those of a process.
    """
    x, y, z = grid
    milliseconds = 0.0
    for inputs, _ in model.layers:
        root = (model.nnz * inputs / (x * y * z)) ** 0.5
        penalties = (1.0, model.n / x * y / inputs, model.n / z * y / inputs)
        milliseconds += root * sum(c * penalty for c, penalty in zip(OF_SUMS, penalties, strict=True))
        x, y, z = z, x, y
    return milliseconds / 1000
