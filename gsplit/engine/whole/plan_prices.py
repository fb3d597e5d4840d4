"""What every plan of a run sends, holds and takes, counted on the graph, before anything is started."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gsplit.data import GraphArrays, Layout
from gsplit.engine.level_widths import widths_of
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.run import Run
from gsplit.engine.whole.private_memory import process_bytes
from gsplit.engine.whole.whole_batch import sums_features, sums_in_slices
from gsplit.engine.whole.work import Work
from gsplit.full import Levels
from gsplit.full.covers import covers_of
from gsplit.full.reading import edge_pieces, owners_of
from gsplit.full.routes import remote_sources
from gsplit.nn import GAT, GCN

PLACES, TOGETHER = 32, 1 << 16
"""Places of the graph that are looked at for what edges read one after another, and how many edges of each."""
KEPT_BY_NORMS = {"none": 0, "layer": 1}
"""Tensors that a normalisation keeps for backward on a device, where it is not 2."""


def work_of(run: Run, layout: Layout, levels: Levels, model: nn.Module) -> Work:
    """Return what a run computes, counted on the graph."""
    numbers = numbers_of(run, layout, model)
    layers = range(1, levels.num_layers + 1)
    covers = {layer: covers_of(layout.graph, levels, layer) for layer in layers if numbers.covers}
    return replace(
        numbers,
        sizes=levels.sizes,
        near=rows_near(layout.graph),
        by_owner=edges_by_owner(layout, levels),
        needed={
            layer: covers[layer].sent_PP if numbers.covers else needed_rows(layout.graph, levels, layer)
            for layer in layers
        },
        spared={layer: of_layer.spared_PP for layer, of_layer in covers.items()},
    )


def numbers_of(run: Run, layout: Layout, model: nn.Module) -> Work:
    """Return what a run computes, as far as it is known without a look at the edges; levels are empty."""
    graph, config, signature = layout.graph, run.config, run.signature
    bounds, trained = bounds_of(layout, run.trainers), config.train_features is not None
    exact = config.evaluate == "exact"
    attends = bool(getattr(model, "uses_source_rows", True))
    plain = signature.get("norm", "none") != "none" or type(model) is GAT  # for the most part in float32
    return Work(
        sizes=np.zeros((run.trainers, config.layers + 1), np.int64),
        by_owner=np.zeros((config.layers, run.trainers, run.trainers), np.int64),
        needed={},
        near=rows_near(graph),
        spared={},
        process_bytes=process_bytes(),
        own_vertices=np.diff(bounds),
        own_edges=np.diff(graph.indptr[bounds]),
        widths=tuple(widths_of(model, config.train_features or graph.num_features, config.layers)),
        itemsize=run.dtype.itemsize,
        level_itemsize=run.precision.rows.itemsize,
        row_itemsize=(run.dtype if plain else run.precision.products).itemsize,
        weights=graph.edge_weight is not None and run.needs["weights"],
        attends=attends,
        # What is asked for: by the plan that the run has so far it may have had no effect.
        covers=run.asked.exchange == "auto" and not attends,
        scales=type(model) is GCN and model.uses_degrees,
        kept=sums_features(model) and not trained,
        trained=trained,
        between=2 * (signature.get("norm", "none") != "none") + bool(signature.get("residual")),
        heads=max(signature.get("heads", 1), signature.get("out_heads", 1)) if type(model) is GAT else 0,
        loops=type(model) is GAT and model.loops,
        projected=tuple(int(conv.lin.out_features) for conv in model.convs) if type(model) is GAT else (),  # type: ignore[union-attr, arg-type]
        keeps_rows=type(model) is not GCN,
        drops=_share_of(model, "dropout") > 0 or bool(signature.get("residual_after")),
        drops_input=_share_of(model, "input_dropout") > 0,
        drops_shares=type(model) is GAT and _share_of(model.convs[0], "dropout") > 0,
        projection=_width_of(model, "projection", "out_features"),
        head=_width_of(model, "head", "in_features"),
        skips=bool(signature.get("residual")),
        norms=signature.get("norm", "none") != "none",
        norm=signature.get("norm", "none"),
        by_norms=KEPT_BY_NORMS.get(signature.get("norm", "none"), 2),
        recomputes=config.recompute,
        in_slices=sums_in_slices(config.recompute, model),
        parameters=sum(p.numel() for p in model.parameters()),
        evaluates=exact
        and bool(
            (config.validates and len(graph.valid_idx)) or len(graph.test_idx) or config.save_predictions != "no"
        ),
    )


def rows_near(graph: GraphArrays) -> NDArray[np.float64]:
    """The rows m out of which edges of a place read, [places]: by chance, E edges find ``m (1 - exp(-E / m))``."""
    if not (count := min(TOGETHER, len(graph.indices))):
        return np.ones(1)
    starts = np.unique(np.linspace(0, len(graph.indices) - count, PLACES).astype(np.int64))
    distinct = np.array([len(np.unique(graph.indices[start : start + count])) for start in starts], np.float64)
    low, high = np.minimum(1.0, distinct), np.full(len(starts), max(1.0, graph.num_vertices))
    for _ in range(40):  # halves, in the logarithm
        middle = np.sqrt(low * high)
        fewer = middle * -np.expm1(-count / middle) < distinct
        low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
    return high


def _width_of(model: nn.Module, part: str, name: str) -> int:
    """A width of a linear map that a model may have; 0 where it has none."""
    return int(getattr(getattr(model, part, None), name, 0))


def _share_of(model: nn.Module, part: str) -> float:
    """The share that a dropout drops, which a model may have."""
    return float(getattr(getattr(model, part, None), "p", 0))


def edges_by_owner(layout: Layout, levels: Levels) -> NDArray[np.int64]:
    """[L, P, P] edges of each layer, by the owners of destination and source."""
    graph, trainers = layout.graph, len(levels.sizes)
    counts = np.zeros((levels.num_layers, trainers, trainers), np.int64)
    for piece in edge_pieces(graph.indptr, 0, graph.num_vertices):
        owner = owners_of(levels.bounds, np.arange(piece.vertices.start, piece.vertices.stop))
        of_source = owners_of(levels.bounds, graph.indices[piece.edges])
        pair = np.repeat(owner, piece.counts) * trainers + of_source
        row = levels.row_N[piece.vertices]
        for layer in range(1, levels.num_layers + 1):
            there = np.repeat((row >= 0) & (row < levels.sizes[owner, layer]), piece.counts)
            counts[layer - 1] += np.bincount(pair[there], minlength=trainers**2).reshape(trainers, trainers)
    return counts


def needed_rows(graph: GraphArrays, levels: Levels, layer: int) -> NDArray[np.int64]:
    """[P, P] rows that each trainer needs of each other."""
    trainers = len(levels.sizes)
    of_trainers = (remote_sources(graph, levels, layer, rank) for rank in range(trainers))
    return np.stack([np.bincount(owners_of(levels.bounds, ids), minlength=trainers) for ids in of_trainers])
