"""From a graph store to a layout: count, partition, measure, relabel and write.

:func:`partition` is the whole way; :func:`dry_run` says what it would take.
"""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.links import TaskName
from gsplit.config.partition import PARTS, PartitionConfig
from gsplit.config.rules import Not, useless
from gsplit.data import GraphStore, open_store
from gsplit.data.folders import check_free
from gsplit.data.graph import GraphArrays
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError
from gsplit.files import real_path
from gsplit.partition import methods, quality, relabel
from gsplit.partition.estimate import estimate_of
from gsplit.partition.even_types import even_types
from gsplit.partition.methods.deal import DEALS, MOST_JUDGED
from gsplit.partition.methods.kept_parts import FALL, MANY_PLACED, KeptParts, read_kept
from gsplit.partition.methods.own import read_parts
from gsplit.partition.presample import Counts, check_targets, check_training, presample
from gsplit.partition.problem import Problem, problem_size
from gsplit.partition.stages import Stages
from gsplit.partition.weights import edge_weights, heat, vertex_weights

NOT_CUT = (*methods.ABLATIONS, "deal", "file", "keep")
"""Methods that look for no cut."""
CUTS_WITH_PRESAMPLE = 4
"""Cuts that are made with ``--weights presample`` where ``--cuts`` says nothing."""

logger = logging.getLogger(__name__)


def partition(config: PartitionConfig, stages: Stages | None = None) -> dict[str, Any]:
    """Make the layout that ``config`` asks for: count, partition, relabel and write.

    Returns its quality (:func:`gsplit.partition.quality.quality_of`).

    Args:
        stages: takes down what each stage took.

    Raises:
        InputError: for a store that cannot be read, more parts than vertices, an ``out`` that exists, a partitioner
            that is not installed or does not fit in memory, a file of parts that does not fit the store, no training
            vertices to sample for, too small a disk.
    """
    source, given, parts, kept = _open(config)
    config = replace(config, parts=parts)
    _warn_of_what_is_useless(config, source.graph)
    estimate_of(source.graph).check_disk(config.out)
    graph, begins = _joint(source.graph)
    threads = _threads(config)
    stages = stages or Stages()
    counts = None
    if config.presamples:
        config = replace(config, task=_task(config, source.graph))
        with stages.stage("presample"):
            counts = presample(
                source.graph, config.training, epochs=config.presample_epochs, seed=config.seed, threads=threads
            )
    edge_weight = edge_weights(source.graph, config.weights, counts)
    method = methods.choose_method(config.asked_method, problem_size(graph, edge_weight))
    problem = Problem(
        graph=graph,
        parts=parts,
        vertex_weight=vertex_weights(graph, config.weights, counts),
        edge_weight=edge_weight,
        # What targets cost is in the weights already where they were presampled.
        targets=None if config.weights == "presample" else graph.train_idx,
        imbalance=config.imbalance,
        cuts=_cuts(config, method),
        type_begins=begins,
        given=given,
        seed=config.seed,
        threads=threads,
    )
    with stages.stage(f"partition by {method}"):
        assignment = methods.assign(method, problem)
    if begins is not None:
        with stages.stage("even types"):
            assignment = even_types(problem, assignment, config.even_types, source.graph.schema.type_names)
    by_type = _by_type(assignment, begins)
    with stages.stage("measure"):
        measured = quality.quality_of(source.graph, by_type, parts)
    about = {
        "method": method,
        **({} if config.part_file is None else {"file": config.part_file.name}),
        "weights": config.weights,
        "hotness": config.ordered_by,
        "imbalance": config.imbalance,
        **({} if begins is None else {"even_types": config.even_types}),
        "cuts": problem.cuts,
        "presample": None if counts is None else _about_counts(config, counts),
        "seed": config.seed,
        "quality": measured,
        **({} if kept is None else {"kept": kept.described(graph, assignment)}),
        "stages": {name: asdict(taken) for name, taken in stages.taken.items()},
    }
    if kept is not None:
        _warn_of_age(kept, graph.num_vertices, measured["local_edges"])
    hot = _by_type(heat(graph, config.ordered_by, counts), begins)
    orders = [relabel.layout_order(part, own) for part, own in zip(by_type, hot, strict=True)]
    del problem, edge_weight, counts, graph
    with stages.stage("relabel"):
        relabel.write_layout(config.out, source, by_type, orders, parts, about, overwrite=config.overwrite)
    return measured


def _joint(graph: GraphArrays) -> tuple[GraphArrays, NDArray[np.int64] | None]:
    """The graph to be cut, and where its types begin: of several types all their vertices and edges in one."""
    if not isinstance(graph, TypedGraph):
        return graph, None
    return graph.joint(), np.cumsum([0, *(each.num_vertices for each in graph.schema.types)])


def _by_type(values: NDArray[Any], begins: NDArray[np.int64] | None) -> list[NDArray[Any]]:
    """The values [N] of all vertices, by type."""
    return [values] if begins is None else np.split(values, begins[1:-1])


def dry_run(config: PartitionConfig) -> list[str]:
    """Return what :func:`partition` would take, in lines to print; it refuses what that would refuse at once."""
    source, _, parts, _ = _open(config)
    config, (graph, _) = replace(config, parts=parts), _joint(source.graph)
    _warn_of_what_is_useless(config, source.graph)
    size = problem_size(graph, None, edge_weights=config.weights == "presample")
    method = config.asked_method
    method = methods.choose_method("auto", size) if method == "auto" else method
    cuts = _cuts(config, method)
    by = method if cuts == 1 else f"{method}, the best of {cuts} cuts"
    lines = [f"{config.store} into {parts} parts by {by}, weights {config.weights}: nothing is written"]
    lines += estimate_of(source.graph, methods.PARTITIONERS[method], size).lines(config.out)
    try:
        methods.choose_method(method, size)
    except InputError as error:
        lines.append(f"it does not fit: {error}")
    if config.weights == "presample":
        lines.append("edges of vertices that are never computed are left out, so partitioning may take far less")
    return lines


def _open(config: PartitionConfig) -> tuple[GraphStore, NDArray[np.int32] | None, int, KeptParts | None]:
    """The store, the part of each vertex where these are given, the number of parts, and the layout that is kept."""
    training, out, store = config.training, real_path(config.out), real_path(config.store)
    if out == store or out in store.parents:
        raise InputError(f"--out {config.out} is or holds the graph store itself; choose another folder")
    check_free(config.out, overwrite=config.overwrite)
    methods.check_partitioner(config.method)
    source = open_store(config.store, typed=True)
    vertices = sum(each.num_vertices for each in source.graph.schema.types)
    if isinstance(source.graph, TypedGraph):
        _refuse_of_one_type(config)
    given, parts, kept = None, config.parts or PARTS, None
    if config.keep:
        if config.part_file:
            raise InputError(f"--method {config.method} and --keep both say where vertices go; drop one of them")
        kept = read_kept(config.keep, source, config.parts)
        given, parts = kept.part, kept.layout.parts
    elif config.part_file:
        given, parts = read_parts(config.part_file, vertices, config.parts)
    elif parts > vertices:
        raise InputError(f"--parts {parts} is more than the {vertices} vertices of {config.store}")
    if config.presamples:
        check_targets(source.graph, replace(training, task=_task(config, source.graph)))
        check_training(training, source.graph)
    return source, given, parts, kept


def _refuse_of_one_type(config: PartitionConfig) -> None:
    """Raise InputError for what graphs of several types cannot have."""
    for flag, asked in (
        (f"--keep {config.keep}", config.keep is not None),
        (f"--method {config.method}", config.part_file is not None),
        ("--task links", config.task == "links"),
        (f"--sampling {config.sampling}", config.presamples and config.sampling != "neighbours"),
    ):
        if asked:
            raise InputError(f"{config.store} has several types, and {flag} is for graphs of one; drop it")


def _warn_of_what_is_useless(config: PartitionConfig, graph: GraphArrays) -> None:
    for _, line in useless(config, _facts(config, graph)):
        logger.warning(line)


def _facts(config: PartitionConfig, graph: GraphArrays) -> dict[str, Any]:
    """Return what the rules of flags go by (:mod:`gsplit.config.rules`)."""
    by_method = Not(f"with --method {config.method}")
    cut = config.part_file is None and config.method not in NOT_CUT
    one = config.part_file is not None or config.method in methods.ABLATIONS
    several: bool | Not = not one or by_method
    if config.method == "deal" and (config.parts or PARTS) > MOST_JUDGED:
        several = Not(f"where parts are more than {MOST_JUDGED}, which are dealt out once")
    return {
        **vars(config),
        "presampling": config.presamples or Not("where nothing is presampled; see --weights and --hotness"),
        "weighed_parts": bool(config.keep)
        or (config.method != "random" and not (config.part_file and config.weights == "degree"))
        or by_method,
        "balanced_cut": bool(config.keep) or cut or by_method,
        "several_types": isinstance(graph, TypedGraph) or Not("where vertices are of one type"),
        "several_cuts": Not(f"with --keep {config.keep}") if config.keep else several,
    }


def _warn_of_age(kept: KeptParts, vertices: int, local_edges: float) -> None:
    """Say where a new cut may be better; by how much only cutting can tell."""
    placed = vertices - kept.cut_vertices
    reasons = []
    if local_edges < kept.cut_local_edges - FALL:
        was = f"{kept.cut_local_edges:.4f} when parts were last cut"
        reasons.append(f"local edges are {local_edges:.4f}, and were {was}")
    if placed > MANY_PLACED * vertices:
        reasons.append(f"{placed:,} of {vertices:,} vertices were placed since parts were last cut")
    if reasons:
        logger.warning("%s: a new cut, without --keep, may do better", "; ".join(reasons))


def _cuts(config: PartitionConfig, method: str) -> int:
    """Return how many cuts are made, of which the best is kept."""
    if config.parts == 1 or method in (*methods.ABLATIONS, "file", "keep"):
        return 1
    if method == "deal" and (config.parts or PARTS) > MOST_JUDGED:
        return 1
    if config.cuts:
        return config.cuts
    if method == "deal":
        return DEALS
    return CUTS_WITH_PRESAMPLE if config.weights == "presample" else 1


def _threads(config: PartitionConfig) -> int:
    cores = len(os.sched_getaffinity(0))
    if config.threads > cores:
        logger.warning(
            "--threads %d is more than the %d cores there are, so %d are used", config.threads, cores, cores
        )
    return min(config.threads or cores, cores)


def _task(config: PartitionConfig, graph: GraphArrays) -> TaskName:
    return config.task or ("links" if graph.is_for_links else "vertices")


def _about_counts(config: PartitionConfig, counts: Counts) -> dict[str, Any]:
    return {
        **config.training.described(),
        "epochs": config.presample_epochs,
        "mini_batches": counts.mini_batches,
        "edges": int(counts.computed.sum()),
        "inputs": int(counts.loaded.sum()),
    }
