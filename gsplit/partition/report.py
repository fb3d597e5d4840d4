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
from gsplit.data.graph import GraphArrays
from gsplit.data.layout import FILE
from gsplit.data.typed_graph import TypedGraph
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
    if config.fan_out is not None:
        about.pop("fan_out_of", None)
    for name in ("fan_out", "fan_out_of", "batch_size", "task", "layer_sizes", "subgraph", "num_layers"):
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
        header.num_own_edges for segment in segments for blocks in segment.blocks.values() for header in blocks
    )


def edge_skew(edges: Sequence[int]) -> float:
    """Skew of the edges of the splits, (most - least) / mean (the paper, section 5.3); 0 where there are none."""
    mean = sum(edges) / len(edges)
    return (max(edges) - min(edges)) / mean if mean else 0.0


@dataclass(frozen=True, kw_only=True)
class SampledCounts:
    """Counts of the mini-batches that were sampled. T types, R relations."""

    edges_IP: NDArray[np.int64]
    edges_R: NDArray[np.int64]
    local_edges_R: NDArray[np.int64]
    targets_P: NDArray[np.int64]
    inputs_TP: NDArray[np.int64]
    loaded: list[NDArray[np.int64]]
    """By type: [N_t] mini-batches that have the vertex among their inputs."""


def sample(layout: Layout, training: Training, *, epochs: int, seed: int, threads: int) -> SampledCounts:
    """Sample and split whole epochs as a training with this seed would."""
    graph, parts = layout.graph, layout.parts
    types, relations = graph.schema.types, len(graph.adjacencies)
    edges_IP = []
    edges_R, local_R = np.zeros(relations, np.int64), np.zeros(relations, np.int64)
    targets_P, inputs_TP = np.zeros(parts, np.int64), np.zeros((len(types), parts), np.int64)
    loaded = [np.zeros(each.num_vertices, np.int64) for each in types]
    for sampler in mini_batches_of(layout, training, epochs=epochs, seed=seed, threads=threads, desc="sample"):
        segments = [sampler.segment(rank) for rank in range(parts)]
        edges_IP.append(edges_of(segments))
        targets_P += [len(segment.targets) for segment in segments]
        for rank, segment in enumerate(segments):
            for blocks in segment.blocks.values():
                edges_R += [header.num_edges for header in blocks]
                local_R += [header.num_own_edges for header in blocks]
            for number, of_type in enumerate(loaded):
                vertices = segment.vertices_of(number)
                of_type[vertices] += 1
                inputs_TP[number, rank] += len(vertices)
    return SampledCounts(
        edges_IP=np.array(edges_IP),
        edges_R=edges_R,
        local_edges_R=local_R,
        targets_P=targets_P,
        inputs_TP=inputs_TP,
        loaded=loaded,
    )


def measure(layout: Layout, training: Training, *, epochs: int, seed: int, threads: int) -> dict[str, Any]:
    """The report, as its JSON has it (docs/formats.md, "Report").

    Raises:
        InputError: for a layout without training vertices.
    """
    missing = QUALITY - layout.description["quality"].keys()
    if missing:
        raise InputError(f"{layout.path / FILE} is damaged: its quality has no {min(missing)}")
    graph, types = layout.graph, layout.graph.schema.types
    typed = isinstance(graph, TypedGraph)
    if typed and training.sampling != "neighbours":
        raise InputError(f"{layout.path} has several types, and --sampling {training.sampling} is for graphs of one")
    n = sum(each.num_vertices for each in types)
    check_training(training, graph)
    counts = presample(graph, training, epochs=epochs, seed=seed, threads=threads, global_ids=layout.permutations)
    sampled = sample(layout, training, epochs=epochs, seed=seed, threads=threads)
    joint, loaded = graph.joint() if isinstance(graph, TypedGraph) else graph, np.concatenate(sampled.loaded)
    orders = {"degree": heat(joint, "degree", None), "presample": heat(joint, "presample", counts), "optimal": loaded}
    edges_P, inputs_P = sampled.edges_IP.sum(axis=0), sampled.inputs_TP.sum(axis=0)
    cells = np.concatenate([[0], np.cumsum([np.diff(offsets) for offsets in layout.offsets_by_type])])
    return {
        "layout": {
            "name": layout.name,
            "parts": layout.parts,
            "vertices": n,
            "edges": joint.num_edges,
            "training_targets": len(graph.train_idx),
            **{key: layout.description[key] for key in ("method", "weights", "hotness", "seed")},
        },
        "training": {**training.described(), "epochs": epochs, "seed": seed},
        "graph": layout.description["quality"],
        "sampled": {
            "iterations": len(sampled.edges_IP),
            "edges": int(edges_P.sum()),
            "local_edges": _share(sampled.local_edges_R.sum(), edges_P.sum()),
            "edge_skew": float(np.mean([edge_skew(edges) for edges in sampled.edges_IP.tolist()])),
            "balance_edges": balance(edges_P),
            "balance_targets": balance(sampled.targets_P),
            "balance_inputs": balance(inputs_P),
            "edges_per_part": edges_P.tolist(),
            "inputs_per_iteration": int(inputs_P.sum()) / len(sampled.edges_IP),
            "reached": int((loaded > 0).sum()) / n,
            **(_by_name(graph, sampled) if typed else {}),
        },
        "cache": {
            "percent": list(CACHE_PERCENTS),
            "hit_rate": {
                "this layout": hit_rates(loaded, cells, None),
                **{name: hit_rates(loaded, cells, values) for name, values in orders.items()},
            },
        },
    }


def _by_name(graph: GraphArrays, sampled: SampledCounts) -> dict[str, Any]:
    """What was sampled by type and relation."""
    iterations = len(sampled.edges_IP)
    types = zip(graph.schema.types, sampled.inputs_TP, sampled.loaded, strict=True)
    relations = zip(graph.schema.relations, sampled.edges_R, sampled.local_edges_R, strict=True)
    return {
        "types": {
            each.name: {
                "inputs_per_iteration": int(inputs_P.sum()) / iterations,
                "balance_inputs": balance(inputs_P),
                "reached": _share((loaded > 0).sum(), len(loaded)),
            }
            for each, inputs_P, loaded in types
        },
        "relations": {
            str(each): {"edges": int(edges), "local_edges": _share(local, edges)} for each, edges, local in relations
        },
    }


def _share(some: Any, of: Any) -> float:
    """A share; all where there is nothing."""
    return int(some) / int(of) if of else 1.0


def hit_rates(loaded: NDArray[np.int64], offsets: NDArray[np.int64], values: NDArray[np.int64] | None) -> list[float]:
    """Share of the inputs that a cache of each size holds, which has the first rows of every part: S numbers.

    Args:
        loaded: [N] how often each vertex is an input.
        offsets: [P + 1] of the parts; of several types [T P + 1] of all cells.
        values: [N] the heat that parts are ordered by; None: as they stand.
    """
    hits = np.zeros(len(CACHE_PERCENTS), np.int64)
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        own = loaded[begin:end]
        ordered = own if values is None else own[np.argsort(-values[begin:end], kind="stable")]
        before = np.concatenate([[0], np.cumsum(ordered)])
        hits += before[[round((end - begin) * percent / 100) for percent in CACHE_PERCENTS]]
    return (hits / max(1, int(loaded.sum()))).tolist()
