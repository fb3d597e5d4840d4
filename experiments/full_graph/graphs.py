"""The graphs of the experiments on whole-graph training: real ones, and a lattice like a network of roads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gsplit._core as _core
from experiments.shared import real_graphs
from gsplit.data import GraphArrays
from gsplit.data.importers.formats.npz import load_npz

REAL = ("cora", "citeseer", "coauthor_cs", "amazon_computers", "cnr2000")
LATTICE = "lattice"
ROADS = 0.53
"""Share of the edges of a lattice that leaves 2.12 a vertex, in and out, as europe_osm has (Plexus, table 4)."""
SIDE = 1000
QUICK_SIDE = 100


def lattice(side: int, *, kept: float = ROADS, seed: int = 0) -> GraphArrays:
    """A square lattice of side * side vertices, numbered by rows, with edges in both directions; nothing but edges.

    Args:
        side: vertices of a row.
        kept: share of the edges that are kept, drawn at random.
        seed: of the draws.
    """
    ids = np.arange(side * side).reshape(side, side)
    first = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    second = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    drawn = np.random.default_rng(seed).random(len(first)) < kept
    indptr, indices = _core.csc_from_edges(first[drawn], second[drawn], side * side, True)
    nobody = np.empty(0, np.int64)
    return GraphArrays(
        indptr=indptr,
        indices=indices,
        features=None,
        labels=np.zeros(side * side, np.int64),
        edge_weight=None,
        train_idx=nobody,
        valid_idx=nobody,
        test_idx=nobody,
        num_classes=1,
    )


def graph_of(name: str, data: Path, *, side: int = SIDE) -> GraphArrays:
    """A real graph of the folder ``data``, or the lattice.

    Raises:
        InputError: where the folder does not have it.
    """
    return lattice(side) if name == LATTICE else load_npz(real_graphs.path(data, name))
