"""``python -m gsplit.partition report LAYOUT``: how good a layout is for a training, by sampling some of it.

What the graph alone tells (cut, balance of vertices, edges and targets) is in the layout's description already. Here
mini-batches are sampled and split as the training will, and counted: how even the splits are, how many of their edges
are local, and what share of the inputs a cache of each size would hold, for several orders of heat. The best order
there can be is the one by these very counts; no order that has to guess reaches it.

Legend: N vertices, P parts, I iterations (mini-batches), S cache sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.partition import ReportConfig, Training
from gsplit.data import Layout
from gsplit.data.layout import FILE
from gsplit.errors import InputError
from gsplit.partition.presample import check_training, mini_batches_of, presample
from gsplit.partition.quality import balance
from gsplit.partition.weights import heat
from gsplit.sampling.segment import Segment

CACHE_PERCENTS = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100)
"""Sizes of caches: percent of all feature rows, over all trainers together; each caches this share of its part."""
QUALITY = {
    "edge_cut",
    "local_edges",
    "balance_vertices",
    "balance_edges",
    "balance_train_targets",
    "vertices_per_part",
    "edges_per_part",
    "train_targets_per_part",
}
FAN_OUT, BATCH_SIZE = (20, 20, 20), 4096


def training_of(config: ReportConfig, layout: Layout) -> Training:
    """The training to sample: what the flags say, else what the layout was presampled with, else the defaults."""
    known = layout.description.get("presample") or {"fan_out": FAN_OUT, "batch_size": BATCH_SIZE}
    sampling = config.sampling or known.get("sampling", "neighbours")
    about = {field.name: known.get(field.name) for field in fields(Training)} if _is_of(known, sampling) else {}
    about |= {"fan_out": known["fan_out"], "batch_size": known["batch_size"], "sampling": sampling}
    about["task"] = known.get("task", "links" if layout.graph.is_for_links else "vertices")
    for name in ("fan_out", "batch_size", "task", "layer_sizes", "subgraph", "num_layers"):
        if getattr(config, name) is not None:
            about[name] = getattr(config, name)
    return Training(**{name: value for name, value in about.items() if value is not None})


def _is_of(known: Mapping[str, Any], sampling: str) -> bool:
    """Return whether what is known of a training is of this rule."""
    return bool(known.get("sampling", "neighbours") == sampling)


def edges_of(segments: Sequence[Segment]) -> list[int]:
    """Edges of each trainer's split, which it computes, over all layers: P numbers."""
    return [segment.num_edges for segment in segments]


def local_edges_of(segments: Sequence[Segment]) -> int:
    """Edges whose source is owned by the split of their destination, all splits and layers."""
    return sum(
        int((segment.indices(layer) < header.num_own_sources).sum())
        for segment in segments
        for layer, header in segment.layers.items()
    )


def edge_skew(edges: Sequence[int]) -> float:
    """Skew of the edges of the splits, (most - least) / mean (the paper, section 5.3); 0 where there are none."""
    mean = sum(edges) / len(edges)
    return (max(edges) - min(edges)) / mean if mean else 0.0


@dataclass(frozen=True, kw_only=True)
class SampledCounts:
    """Counts of the mini-batches that were sampled."""

    edges_IP: NDArray[np.int64]
    local_edges: int
    targets_P: NDArray[np.int64]
    inputs_P: NDArray[np.int64]
    loaded: NDArray[np.int64]
    """[N] mini-batches that have the vertex among their inputs."""


def sample(layout: Layout, training: Training, *, epochs: int, seed: int, threads: int) -> SampledCounts:
    """Sample and split whole epochs as a training with this seed would."""
    graph, parts = layout.graph, layout.parts
    edges_IP, local = [], 0
    targets_P, inputs_P = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    loaded = np.zeros(graph.num_vertices, np.int64)
    for sampler in mini_batches_of(layout, training, epochs=epochs, seed=seed, threads=threads, desc="sample"):
        segments = [sampler.segment(rank) for rank in range(parts)]
        edges_IP.append(edges_of(segments))
        local += local_edges_of(segments)
        targets_P += [len(segment.targets) for segment in segments]
        inputs_P += [len(segment.vertices) for segment in segments]
        for segment in segments:
            loaded[segment.vertices] += 1
    return SampledCounts(
        edges_IP=np.array(edges_IP), local_edges=local, targets_P=targets_P, inputs_P=inputs_P, loaded=loaded
    )


def measure(layout: Layout, training: Training, *, epochs: int, seed: int, threads: int) -> dict[str, Any]:
    """The report, as its JSON has it (docs/formats.md, "Report").

    Raises:
        InputError: for a layout without training vertices.
    """
    missing = QUALITY - layout.description["quality"].keys()
    if missing:
        raise InputError(f"{layout.path / FILE} is damaged: its quality has no {min(missing)}")
    check_training(training, layout.graph.num_vertices)
    counts = presample(
        layout.graph, training, epochs=epochs, seed=seed, threads=threads, global_ids=layout.permutation
    )
    sampled = sample(layout, training, epochs=epochs, seed=seed, threads=threads)
    orders = {
        "degree": heat(layout.graph, "degree", None),
        "presample": heat(layout.graph, "presample", counts),
        "optimal": sampled.loaded,
    }
    edges_P = sampled.edges_IP.sum(axis=0)
    n = layout.graph.num_vertices
    return {
        "layout": {
            "name": layout.name,
            "parts": layout.parts,
            "vertices": n,
            "edges": layout.graph.num_edges,
            "training_targets": len(layout.graph.train_idx),
            **{key: layout.description[key] for key in ("method", "weights", "hotness", "seed")},
        },
        "training": {**training.described(), "epochs": epochs, "seed": seed},
        "graph": layout.description["quality"],
        "sampled": {
            "iterations": len(sampled.edges_IP),
            "edges": int(edges_P.sum()),
            "local_edges": sampled.local_edges / int(edges_P.sum()) if edges_P.any() else 1.0,
            "edge_skew": float(np.mean([edge_skew(edges) for edges in sampled.edges_IP.tolist()])),
            "balance_edges": balance(edges_P),
            "balance_targets": balance(sampled.targets_P),
            "balance_inputs": balance(sampled.inputs_P),
            "edges_per_part": edges_P.tolist(),
            "inputs_per_iteration": int(sampled.inputs_P.sum()) / len(sampled.edges_IP),
            "reached": int((sampled.loaded > 0).sum()) / n,
        },
        "cache": {
            "percent": list(CACHE_PERCENTS),
            "hit_rate": {
                "this layout": hit_rates(sampled.loaded, layout.offsets, None),
                **{name: hit_rates(sampled.loaded, layout.offsets, values) for name, values in orders.items()},
            },
        },
    }


def hit_rates(loaded: NDArray[np.int64], offsets: NDArray[np.int64], values: NDArray[np.int64] | None) -> list[float]:
    """Share of the inputs that a cache of each size holds, which has the first rows of every part: S numbers.

    Args:
        loaded: [N] how often each vertex is an input.
        offsets: [P + 1] of the parts.
        values: [N] the heat that parts are ordered by; None: as they stand.
    """
    hits = np.zeros(len(CACHE_PERCENTS), np.int64)
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        own = loaded[begin:end]
        ordered = own if values is None else own[np.argsort(-values[begin:end], kind="stable")]
        before = np.concatenate([[0], np.cumsum(ordered)])
        hits += before[[round((end - begin) * percent / 100) for percent in CACHE_PERCENTS]]
    return (hits / max(1, int(loaded.sum()))).tolist()
