"""Squared errors of one layer's estimates: means over in-neighbours, by what each way to sample keeps of them.

The vectors are those of a layer of random weights with ReLU on the real features, the truth is their mean over all
in-neighbours of some training vertices. An error is the mean over the draws of the squared distance to it, over its
own square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.features.estimates import Estimate, edge_factors
from gsplit.sampling import EpochPlan, FastGCN, Ladies, Neighbours, Rule
from gsplit.sampling.layerwise import Importance
from gsplit.sampling.segment import Segment

WIDTH = 64
"""Width of the vectors."""
LARGE = (512, 2048)
SMALL = (512, 512)
"""Targets and sources drawn."""
FEW = {"cora": ((140, 256), (140, 128)), "citeseer": ((120, 256), (120, 128))}
"""The same for graphs with few training vertices."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What one draw keeps: edges by destination row, and the scale of each by its source."""

    rows: NDArray[np.int64]
    sources: NDArray[np.int64]
    scales: NDArray[np.float64]
    inputs: int


def squared_errors(layout: Layout, draws: int) -> list[dict[str, Any]]:
    """A row for each size and way: squared error, targets without a neighbour, sources."""
    graph = layout.graph
    h = one_layer(layout)
    rows: list[dict[str, Any]] = []
    for targets_wanted, size in FEW.get(layout.name, (LARGE, SMALL)):
        plan = EpochPlan(graph.train_idx, layout.permutation, targets_wanted, seed=0)
        targets = plan.batch(0, 0)
        numbers = (graph.indptr[targets + 1] - graph.indptr[targets]).astype(float)
        some = numbers > 0
        truth = np.stack(
            [h[graph.indices[a:b]].mean(0) if b > a else np.zeros(WIDTH) for a, b in spans(graph, targets)]
        )
        power = (truth**2).sum()
        for name, kept, estimate in ways(layout, targets, size):
            errors, lonely, inputs = [], [], []
            for draw in range(draws):
                found = kept(draw)
                factors = edge_factors(found.scales, found.rows, numbers, None, estimate) / numbers[found.rows]
                sums = np.zeros((len(targets), WIDTH))
                np.add.at(sums, found.rows, factors[:, None] * h[found.sources])
                errors.append(((sums - truth) ** 2).sum() / power)
                lonely.append(1 - len(np.unique(found.rows)) / some.sum())
                inputs.append(found.inputs)
            rows.append(
                {
                    "targets": len(targets),
                    "sources": size,
                    "way": name,
                    "error": float(np.mean(errors)),
                    "alone": float(np.mean(lonely)),
                    "inputs": float(np.mean(inputs)),
                }
            )
        reference = next(row["error"] for row in rows if row["way"] == "reference" and row["sources"] == size)
        for row in rows:
            if row["sources"] == size:
                row["over_reference"] = row["error"] / reference
    return rows


def one_layer(layout: Layout) -> NDArray[np.float64]:
    """[N, WIDTH] ReLU of the mean of the projected features over each vertex's in-neighbours."""
    graph = layout.graph
    assert graph.features is not None
    random = np.random.default_rng(0)
    x = np.asarray(graph.features, float) @ (random.standard_normal((graph.num_features, WIDTH)) / WIDTH**0.5)
    degrees = np.diff(graph.indptr)
    sums = np.zeros((graph.num_vertices, WIDTH))
    np.add.at(sums, np.repeat(np.arange(graph.num_vertices), degrees), x[graph.indices])
    return np.maximum(0.0, sums / np.maximum(degrees, 1)[:, None])


def spans(graph: Any, vertices: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where the in-edges of vertices begin and end."""
    return zip(graph.indptr[vertices].tolist(), graph.indptr[vertices + 1].tolist(), strict=True)


def ways(
    layout: Layout, targets: NDArray[np.int64], size: int
) -> Iterator[tuple[str, Callable[[int], Kept], Estimate]]:
    """Each way: its name, what a draw of it keeps, and what is made of that."""
    graph, n = layout.graph, layout.graph.num_vertices
    ours = Ladies(sizes=(size,))
    for estimate in ("ratio", "unbiased"):
        yield f"ours, {estimate}", _by_rule(layout, targets, ours), estimate
    yield "ours, race, ratio", _by_rule(layout, targets, Ladies(sizes=(size,), draw="race")), "ratio"
    yield "ours, norms, ratio", _by_rule(layout, targets, Ladies(sizes=(size,), importance="norms")), "ratio"
    masses = {"squares": np.zeros(n), "counts": np.zeros(n)}
    for a, b in spans(graph, targets):
        np.add.at(masses["squares"], graph.indices[a:b], 1 / max(1, b - a) ** 2)
        np.add.at(masses["counts"], graph.indices[a:b], 1.0)
    masses["counts"] **= 2
    named: tuple[tuple[str, Importance], ...] = (("reference", "squares"), ("text", "counts"))
    for name, importance in named:
        rule = Ladies(sizes=(size,), draw="race", importance=importance)
        yield name, _by_rule(layout, targets, rule, masses[importance]), "ratio"
    yield "uniform over the pool", _uniform_pool(layout, targets, size), "ratio"
    yield "fastgcn, unbiased", _by_rule(layout, targets, FastGCN(sizes=(size,))), "unbiased"
    yield "neighbours, 5", _by_rule(layout, targets, Neighbours(fan_out=(5,))), "ratio"


def _by_rule(
    layout: Layout, targets: NDArray[np.int64], rule: Rule, masses: NDArray[np.float64] | None = None
) -> Callable[[int], Kept]:
    """Draws by a rule; with ``masses`` a kept edge counts 1 / mass of its source, as the reference's code has it."""
    sampler = rule.sampler(layout, np.array([0, layout.graph.num_vertices]), seed=0)

    def kept(draw: int) -> Kept:
        sampler.sample(targets, epoch=0, batch=draw)
        return _kept(sampler.segment(0), masses)

    return kept


def _kept(segment: Segment, masses: NDArray[np.float64] | None) -> Kept:
    rows = np.repeat(np.arange(segment.layers[1].num_destinations), np.diff(segment.indptr(1)))
    sources = segment.vertices[segment.indices(1)]
    scales = segment.scales(1)
    each = np.ones(len(rows)) if scales is None else scales[segment.indices(1)].astype(float)
    if masses is not None:
        each = 1 / masses[sources]
    return Kept(rows=rows, sources=sources, scales=each, inputs=len(np.unique(sources)))


def _uniform_pool(layout: Layout, targets: NDArray[np.int64], size: int) -> Callable[[int], Kept]:
    """So many of the in-neighbours, each as likely."""
    graph, random = layout.graph, np.random.default_rng(0)
    sources = np.concatenate([graph.indices[a:b] for a, b in spans(graph, targets)]).astype(np.int64)
    rows = np.repeat(np.arange(len(targets)), graph.indptr[targets + 1] - graph.indptr[targets])
    pool = np.unique(sources)

    def kept(draw: int) -> Kept:
        chosen = np.zeros(graph.num_vertices, bool)
        chosen[random.permutation(pool)[:size]] = True
        inside = chosen[sources]
        return Kept(
            rows=rows[inside], sources=sources[inside], scales=np.ones(int(inside.sum())), inputs=min(size, len(pool))
        )

    return kept
