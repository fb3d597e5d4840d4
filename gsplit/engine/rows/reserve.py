"""What training takes of a GPU beside a cache: estimated from above, before anything is sampled.

A trainer's share of a mini-batch follows from batch size, fan-outs and the graph: a level has the vertices of the one
above and those that its draws hit. Draws that hit vertices evenly hit the most, and those of real graphs, with their
hubs, fewer. From the share follow the tensors of a training step:

| what | bytes |
|---|---|
| model | 5 of each parameter: itself, its gradient, two of Adam, its place in the all-reduce |
| loaded ahead | features and segment, for each mini-batch that is loaded, prefetched or computed |
| activations | rows of each level that layers keep for backward, and as much again for their gradients |
| edges | what attention keeps of each, and the indices that backward sorts |

How much PyTorch's allocator, NCCL and the kernels' workspaces take on top only a GPU shows; the least that is
reserved in any case (:mod:`gsplit.features.room`) stands for them.

Legend: L layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from gsplit.config.sampling import DRAWN_SETS, LAYERWISE
from gsplit.config.train import TrainConfig
from gsplit.data import Layout
from gsplit.engine.feed import MOST_BEGUN
from gsplit.sampling.subgraphs import set_size

UNEVEN = 1.25
"""The largest split over the mean."""
COPIES_OF_PARAMETERS = 5
KEPT_OF_SOURCES = 2
"""Tensors as large as a layer's sources: what was exchanged, and itself projected."""
KEPT_OF_DESTINATIONS = 6
"""Tensors as large as a layer's output: aggregate, sum, residual, norm, activation, dropout."""
KEPT_OF_AN_EDGE = 8
"""Numbers: attention of so many heads."""
INDEX_BYTES_OF_AN_EDGE = 24
"""Source and destination as int64, and the order that they are sorted in."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """The largest split of a mini-batch, estimated."""

    rows: tuple[float, ...]
    """[L + 1] own vertices of each level."""
    sources: tuple[float, ...]
    """[L + 1] rows that each layer reads, own and received; entry 0 is unused."""
    edges: tuple[float, ...]
    """[L + 1] of each layer; entry 0 is unused."""


def share_of(num_vertices: int, num_edges: int, targets: int, fan_out: Sequence[int], trainers: int) -> Share:
    """The largest split of a mini-batch, or a micro-batch, that so many trainers split.

    Args:
        num_vertices, num_edges: of the graph.
        targets: of the micro-batch.
        fan_out: the first for the targets; -1 counts all edges.
        trainers: that split it.
    """
    n = max(1, num_vertices)
    levels = [float(min(targets, n))]
    drawn: list[float] = []
    for neighbours in fan_out:
        edges = num_edges if neighbours < 0 else min(num_edges, levels[0] * neighbours)
        drawn.insert(0, float(edges))
        levels.insert(0, levels[0] + (n - levels[0]) * -math.expm1(-edges / n))
    share = min(1.0, UNEVEN / trainers)
    rows = tuple(size * share for size in levels)
    edges_of = (0.0, *(edges * share for edges in drawn))
    layers = range(1, len(levels))
    sources = (0.0, *(min(levels[layer - 1], rows[layer - 1] + edges_of[layer]) for layer in layers))
    return Share(rows=rows, sources=sources, edges=edges_of)


def share_of_rule(config: TrainConfig, layout: Layout, targets: int, trainers: int) -> Share:
    """The largest split of a mini-batch by a rule that draws sources, not neighbours.

    Args:
        config: of the run.
        layout: to sample from.
        targets: of the micro-batch.
        trainers: that split it.

    Sources are drawn by importance, so those drawn have more edges than most: the edges kept are taken to be as many
    as all vertices of a level would have at the mean degree, or all pairs, whichever is fewer.
    """
    n, edges = max(1, layout.graph.num_vertices), layout.graph.num_edges
    degree = edges / n
    if config.layer_sizes is not None and config.sampling in LAYERWISE:
        levels = [float(min(targets, n))]
        for size in config.layer_sizes:
            levels.insert(0, min(float(n), levels[0] + size))
        sizes = (0, *reversed(config.layer_sizes))
        kept = [0.0, *(levels[layer] * min(degree, sizes[layer]) for layer in range(1, len(levels)))]
    else:
        whole = float(n * min(1.0, (config.clusters or 0) / layout.parts))
        if config.subgraph is not None and config.sampling in DRAWN_SETS:
            whole = float(set_size(config.subgraph, n))
        levels = [whole] * (config.layers + 1)
        inside = degree * whole / n if config.sampling == "uniform" else degree  # the others keep more
        kept = [0.0, *[whole * inside] * config.layers]
    share = min(1.0, UNEVEN / trainers)
    rows = tuple(level * share for level in levels)
    edges_of = tuple(each * share for each in kept)
    sources = (0.0, *(min(levels[k - 1], rows[k - 1] + edges_of[k]) for k in range(1, len(levels))))
    return Share(rows=rows, sources=sources, edges=edges_of)


def working_bytes(share: Share, widths: Sequence[int], itemsize: int, parameter_bytes: int, prefetch: int) -> int:
    """What a trainer takes of its device for the model and its mini-batches.

    Args:
        share: of a mini-batch.
        widths: [L + 1] of the vectors of each level.
        itemsize: of the type that the model computes in, in bytes.
        parameter_bytes: of the model.
        prefetch: mini-batches loaded ahead.
    """
    layers = range(1, len(widths))
    indices = sum(share.edges[layer] + share.rows[layer] + share.sources[layer] for layer in layers)
    loaded = share.rows[0] * (widths[0] * itemsize + 8) + 4 * indices
    kept = sum(
        KEPT_OF_SOURCES * share.sources[layer] * widths[layer - 1]
        + share.rows[layer] * (widths[layer - 1] + KEPT_OF_DESTINATIONS * widths[layer])
        + KEPT_OF_AN_EDGE * share.edges[layer]
        for layer in layers
    )
    return int(
        COPIES_OF_PARAMETERS * parameter_bytes
        + (prefetch + 1 + MOST_BEGUN) * loaded
        + 2 * kept * itemsize
        + INDEX_BYTES_OF_AN_EDGE * sum(share.edges)
    )


def widths_of(model: nn.Module, num_features: int, layers: int) -> list[int]:
    """[L + 1] of a model; of one that does not say, as wide as the widest of its weights everywhere."""
    widths = getattr(model, "level_widths", None)
    if widths is not None:
        return [int(width) for width in widths]
    widest = max((max(p.shape) for p in model.parameters() if p.dim() > 1), default=num_features)
    return [num_features, *[int(widest)] * layers]


def reserve_of(config: TrainConfig, layout: Layout, model: nn.Module, *, groups: int, trainers: int) -> int:
    """Bytes of a run: see :func:`working_bytes`; with ``--metrics`` also an epoch's logits of training vertices.

    Args:
        config: of the run.
        layout: with features.
        model: on any device, in the type that it computes in.
        groups: that a mini-batch is cut into micro-batches for.
        trainers: of a group.
    """
    graph = layout.graph
    targets = -(-min(config.batch_size, len(graph.train_idx)) // groups)
    if config.sampling == "neighbours" or config.strategy == "full":
        share = share_of(graph.num_vertices, graph.num_edges, targets, config.fan_out, trainers)
    else:
        share = share_of_rule(config, layout, targets, trainers)
    parameters = list(model.parameters())
    itemsize = max((p.itemsize for p in parameters), default=4)
    said = 0
    if config.metrics is not None:
        # Sets that are drawn may have a training vertex several times an epoch, which throws a dart for each vertex.
        logits = graph.num_vertices if config.sampling == "saint" else len(graph.train_idx)
        own = min(1.0, UNEVEN / (groups * trainers)) * logits
        of_labels = 4 * graph.num_classes if graph.task != "classes" else 8
        said = int(own * (graph.num_classes * itemsize + of_labels))
    return said + working_bytes(
        share,
        widths_of(model, graph.num_features, config.layers),
        itemsize,
        sum(p.nbytes for p in parameters),
        config.prefetch,
    )
