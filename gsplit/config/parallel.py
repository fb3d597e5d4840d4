"""How a training run is laid over the devices of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.flags import Takes
from gsplit.config.rules import COST, RESULTS, AsksForNothing, Only
from gsplit.errors import InputError

SAMPLED = ("split", "data")
"""Strategies of mini-batches that are sampled."""
STRATEGIES = (*SAMPLED, "full")
Algorithm = Literal["auto", "shared", "1d", "1d-sparse", "1.5d", "2d", "3d", "columns", "rotate"]
GraphMoves = Literal["stay", "move"]
Permutation = Literal["single", "double"]
Device = Annotated[str, Takes("{auto,cpu,cuda,xpu,...}")]
"""A type of device; whether there is such a one PyTorch knows (:func:`gsplit.device.accelerator.find`)."""
Exchange = Literal["rows", "auto"]
ExchangeDtype = Literal["model", "bfloat16"]


def _check_grid(grid: tuple[int, ...] | None) -> None:
    if grid is not None and (len(grid) != 3 or min(grid) < 1):
        given = ",".join(map(str, grid))
        raise InputError(f"--grid takes three numbers from 1 on (rows, columns, features): 2,2,1, not {given}")


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(Checked):
    """The trainers: how many, where they compute, and how they share a mini-batch."""

    gpus: Annotated[int | None, Range(1)] = None
    """Trainers, one a GPU (or a process on the CPU). By default one for each part of the layout."""
    device: Device = "auto"
    """auto takes GPUs where there are any, of whatever kind. cuda: NVIDIA's and AMD's; xpu: Intel's; or another type
    that is registered with PyTorch."""
    threads: Annotated[int, Range(0)] = 0
    """CPU threads a trainer may use; 0 shares the cores out."""
    strategy: Annotated[str, RESULTS] = "split"
    """split: all trainers compute one mini-batch together, and nothing twice; data: each computes a micro-batch of
    its own, overlaps and all, as DGL and PyG do; full: they compute the whole graph, without sampling, a step an
    epoch. Or package.module:Class, an engine of yours (CONTRIBUTING.md)."""
    algorithm: Annotated[Algorithm, Only(strategy=("full", "split")), Only(laid_out=True)] = "auto"
    """full: how rows come to where they are summed. shared: read where they lie, in the host's memory; 1d: all rows
    to all; 1d-sparse: only those that are needed; 1.5d, 2d, 3d: a grid of trainers, as CAGNET; columns: each trainer
    sums all rows, but some columns; rotate (gcn): a grid whose axes change roles from layer to layer, as Plexus.
    auto: shared on the CPU, 1d-sparse on GPUs; where the run is long, the quickest of the three plans that are
    predicted to be quickest, which are tried first; on several hosts what sends in the least time, by bytes between
    and within hosts. Never rotate. split, with --grid: 3d, which auto takes, or rotate (gcn), as ScaleGNN."""
    grid: Annotated[tuple[int, ...] | None, Accepted(_check_grid), Only(strategy=("full", "split"))] = None
    """full: trainers along the rows of the adjacency, its columns, and the features: R,K,F, with R*K*F of --gpus; for
    rotate along x, y and z. By default as even as --algorithm allows. split, with --sampling uniform, saint or
    clusters: the trainers of a split group, R*K*F of them, compute a subgraph on such a grid, as ScaleGNN."""
    graph: Annotated[
        GraphMoves, Only(strategy="full"), Only(algorithm=("2d", "3d", "columns")), Only(features_dealt=True), COST
    ] = "stay"
    """full, 2d, 3d, columns (sage, gcn): stay: a trainer holds all edges that it sums over, as the others along the
    features do; move: it holds a share of them, and they move in stages in each product, as in CAGNET: less memory
    for edges, which are sent in every layer, forward and backward."""
    permutation: Annotated[Permutation, Only(strategy="full"), Only(algorithm="rotate"), COST] = "double"
    """full, rotate: single: all levels have the vertices in the layout's order; double: every other one in an order
    of its own, drawn from --seed, which evens blocks out."""
    row_blocks: Annotated[int, Range(1), Only(strategy=("full", "split")), Only(algorithm="rotate"), COST] = 1
    """rotate: blocks of rows that a layer sums and adds up one after another, for less memory at a time."""
    recompute: Annotated[
        bool,
        Only(strategy="full"),
        Only(algorithm=("auto", "shared", "1d", "1d-sparse", "1.5d", "2d", "3d", "columns")),
        Only(layers_known=True),
        COST,
    ] = False
    """full: keep the inputs of layers for backward, with a bit a value for ReLU, and compute all but the last again
    there: less memory, for more time and for moving rows forward twice."""
    replication: Annotated[int | None, Range(1), Only(strategy="full")] = None
    """full, 1.5d: trainers that share the sums of a row, a divisor of --gpus. By default the least above 1."""
    timeout: Annotated[float, Range(above=0, most=24 * 60)] = 30.0
    """Minutes that trainers on GPUs wait for each other in an exchange: what takes longer hangs, and ends the run.
    Trainers on the CPU wait as long as the others live."""
    silence: Annotated[float, Range(above=0, most=24 * 3600)] = 10.0
    """Seconds without a sign of life after which another host, or the network to it, is taken for gone, and the run
    ends. On one host nothing goes by it."""
    split_group: Annotated[
        int | None, Range(1), Only(strategy="split"), AsksForNothing(1, Only(strategy="data")), RESULTS
    ] = None
    """Trainers that split a mini-batch between them, a divisor of --gpus; with several such groups each has a
    micro-batch of its own. By default all trainers are one group."""
    exchange: Annotated[Exchange, Only(sums_exchanged=True), COST, RESULTS] = "rows"
    """What travels between trainers before a layer: rows; or, by auto, for each pair of trainers rows or sums of them
    over the receiver's destinations, whichever are fewer, or a mix of both that is fewer still; with --algorithm
    1d-sparse the fewest that there can be. sage and gcn take sums, other models rows."""
    exchange_dtype: Annotated[
        ExchangeDtype, Only(rows_exchanged=True), Only(precision=(None, "32", "16-mixed", "64")), COST, RESULTS
    ] = "model"
    """Type in which rows and gradients travel between trainers: model, that of --precision; or bfloat16, with half
    the bytes of float32. Sums are taken in --precision either way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy not in STRATEGIES and ":" not in self.strategy:
            raise InputError(
                f"--strategy must be one of {', '.join(STRATEGIES)}, or package.module:Class, not {self.strategy!r}"
            )
