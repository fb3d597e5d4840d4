"""Uniform subgraphs beside DGL's and PyG's, one thread, in turn; and what two layers on one set are off by.

OMP_NUM_THREADS=1 python -m experiments.rules.subgraphs LAYOUT [--bias] [--quick] [--json FILE]

Times are of a subgraph of a share of the vertices, the mean over some of an epoch's, one after the other as a sampler
makes them. *choosing* is the epoch's shuffle, shared out to its sets.
``--bias``: a set that serves all layers counts the way back v - u - v too often (ScaleGNN's estimate is unbiased for
one layer); beside the closed form of the expectation of two linear layers stands the mean over drawn sets, and that
over sets drawn for each layer (``--fresh``), with the standard errors by which it is off: of the sums of all outputs
times their vertices' inputs, in which ways back add up, the largest over the columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, identity
from scipy.stats import norm as normal

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.results import about
from experiments.shared.rounds import in_turn, ratios, seconds_of, spread
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.data import Layout, open_layout
from gsplit.errors import InputError
from gsplit.sampling import Fresh, Uniform
from gsplit.sampling.subgraphs import SetPlan, set_size

SHARES = ("5%", "10%", "25%")
TOGETHER = 8
"""Subgraphs that are timed together, or as many as an epoch has: one may take less than a clock is good for."""
WIDTH = 16
"""Width of the vectors of ``--bias``."""


@dataclass(frozen=True, kw_only=True)
class SubgraphsConfig(Flags):
    """Subgraphs a second, and the bias of two layers."""

    layouts: Annotated[tuple[Path, ...], Positional]
    """The layouts to sample from."""
    bias: bool = False
    """Measure what two linear layers are off by, not times."""
    rounds: Positive = 9
    """Times: rounds, of which the first is not counted."""
    draws: Positive = 300
    """Bias: epochs of sets that are drawn."""
    quick: bool = False
    """Take seconds; figures say nothing."""


def measure(config: SubgraphsConfig) -> list[dict[str, Any]]:
    """The rows of each layout."""
    if not config.bias and torch.get_num_threads() != 1:
        raise InputError("times are of one thread: set OMP_NUM_THREADS=1 in the environment")
    found = []
    for path in config.layouts:
        layout = open_layout(path)
        if config.bias:
            rows = [bias(layout, share, 3 if config.quick else config.draws) for share in SHARES]
        else:
            rows = [row for share in SHARES for row in times(layout, share, 2 if config.quick else config.rounds)]
        found.append({"dataset": about(layout, None), "rows": rows})
    return found


def times(layout: Layout, share: str, rounds: int) -> list[dict[str, Any]]:
    """Times of each way over those of ours."""
    import dgl
    from torch_geometric.utils import subgraph

    graph = layout.graph
    rule = Uniform(subgraph=share, layers=2)
    sampler = rule.sampler(layout, np.array([0, graph.num_vertices]), seed=0)
    split = rule.sampler(layout, layout.offsets, seed=0)
    indptr, indices = (torch.from_numpy(np.array(array, np.int64)) for array in (graph.indptr, graph.indices))
    theirs = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64)))).formats(["csc"])
    rows = torch.arange(graph.num_vertices).repeat_interleave(indptr.diff())
    edge_index = torch.stack([indices, rows])
    room = np.empty(1 << 28, np.uint8)
    pieces = rule.pieces(layout)
    seconds: dict[str, list[float]] = {}
    plan = rule.plan(layout, batch_size=1, seed=0)
    for i in range(rounds):
        took = {"choosing": seconds_of(plan.sets, i, 0) / pieces}
        sets = [_halves(plan, i, batch) for batch in range(min(pieces, TOGETHER))]
        chosen = [torch.from_numpy(np.sort(np.concatenate(halves))) for halves in sets]

        def ours(which: Any, number: int, sets: Any = sets) -> None:
            targets, others = sets[number]
            which.sample(targets, others=others, epoch=0, batch=number)
            for rank in range(which.parts):
                which.write_segment(rank, room)

        def dgls(number: int, chosen: Any = chosen) -> None:
            dgl.node_subgraph(theirs, chosen[number])

        def pygs(number: int, chosen: Any = chosen) -> None:
            subgraph(chosen[number], edge_index, relabel_nodes=True, num_nodes=graph.num_vertices)

        ways: dict[str, Callable[[int], None]] = {
            "ours": functools.partial(ours, sampler),
            "ours, split": functools.partial(ours, split),
            "dgl": dgls,
            "pyg": pygs,
        }
        for name in in_turn(ways, i):
            took[name] = sum(seconds_of(ways[name], number) for number in range(len(sets)))
            took[name] /= len(sets)
        for name, each in took.items():
            seconds.setdefault(name, []).append(each)
    return [
        {"subgraph": share, "way": name, **spread(ratios(each[1:], seconds["ours"][1:]))}
        for name, each in seconds.items()
    ]


def _halves(plan: SetPlan, epoch: int, batch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training vertices and others of a set."""
    (targets,), (others,) = plan.micro_batches(epoch, batch), plan.others(epoch, batch)
    return targets, others


def bias(layout: Layout, share: str, draws: int) -> dict[str, Any]:
    """How far the expectation of two linear GCN layers is from the graph's, on one set and on fresh ones."""
    graph, n = layout.graph, layout.graph.num_vertices
    size = set_size(share, n)
    adjacency = csr_matrix((np.ones(graph.num_edges), graph.indices, graph.indptr), (n, n)) + identity(n)
    factor = diags(1 / np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel()))
    whole = (factor @ adjacency @ factor).tocsr()
    own = diags(whole.diagonal())
    off = (whole - own).tocsr()
    x = np.random.default_rng(0).standard_normal((n, WIDTH))
    truth = whole @ (whole @ x)
    p = (size - 1) / (n - 1)
    back = diags((off @ off).diagonal())
    both = (size - 2) * (n - 1) / ((n - 2) * (size - 1))
    closed = own @ own @ x + own @ off @ x + off @ own @ x + both * (off @ off - back) @ x + back @ x / p
    sums, met = np.zeros_like(x), np.zeros(n)
    plan = Uniform(subgraph=share, layers=2).plan(layout, batch_size=1, seed=0)
    for draw in range(draws):
        (some,) = plan.sets(draw, 0)
        inside = own.tocsr()[some][:, some] + off[some][:, some] * ((n - 1) / (len(some) - 1))
        sums[some] += inside @ (inside @ x[some])
        met[some] += 1
    seen = met > 0
    drawn = sums[seen] / met[seen, None]
    norm = np.linalg.norm
    fresh, errors = _on_fresh_sets(layout, share, draws, own, off, x, truth)
    return {
        "subgraph": share,
        "closed form": float(norm(closed - truth) / norm(truth)),
        "drawn": float(norm(drawn - truth[seen]) / norm(truth[seen])),
        "drawn - closed form": float(norm(drawn - closed[seen]) / norm(truth[seen])),
        "fresh": float(norm(fresh - truth) / norm(truth)),
        "fresh, standard errors": float(errors.max()),
        "bound": float(normal.isf(normal.sf(4) / WIDTH)),
    }


def _on_fresh_sets(
    layout: Layout, share: str, draws: int, own: Any, off: Any, x: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of two layers on sets of their own, [N, WIDTH], and the standard errors it is off by, [WIDTH]."""
    n = len(x)
    sampler = Fresh(subgraph=share, layers=2).sampler(layout, np.array([0, n]), seed=0)

    def layer(rows: NDArray[np.float64], some: NDArray[np.int64]) -> NDArray[np.float64]:
        kept = np.zeros_like(rows)
        kept[some] = rows[some] * (n / len(some))
        found: NDArray[np.float64] = own @ rows + off @ kept
        return found

    sums, off_by = np.zeros_like(x), np.zeros((draws, WIDTH))
    for draw in range(draws):
        last, first = sampler.sets(draw, 0, 0)
        found = layer(layer(x, first), last)
        sums += found
        off_by[draw] = (x * (found - truth)).sum(axis=0)
    error = off_by.std(axis=0, ddof=1) / np.sqrt(draws)
    return sums / draws, np.abs(off_by.mean(axis=0)) / error


command = Experiment("rules.subgraphs", SubgraphsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
