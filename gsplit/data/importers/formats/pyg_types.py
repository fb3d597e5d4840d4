"""Graphs of several types of PyG: a ``HeteroData``, in memory or in a file.

Each type of vertices has the attributes that a graph of one type has for its vertices, each relation those for its
edges (:mod:`gsplit.data.importers.formats.pyg`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.formats.pyg_attributes import attributes_of, edges_of, unpacked
from gsplit.data.importers.keys import SET_KEYS, Keys
from gsplit.data.importers.source import TypedSource, array_edges
from gsplit.data.schema import Relation
from gsplit.errors import InputError

KEPT = {
    *("x", "y", "num_nodes", "num_classes", "class_names", "vertex_ids", "vertex_id_columns"),
    *("edge_index", "adj_t", "edge_weight", "edge_attr"),
    *(key for keys in SET_KEYS.values() for key in keys),
}
"""Attributes that are read."""
Stores = Mapping[Any, dict[str, Any]]
"""The attributes of each type, by its name, and of each relation, by its three names."""

logger = logging.getLogger(__name__)


def typed_stores(loaded: Any, where: str) -> Stores | None:
    """The attributes of a ``HeteroData``, or of what an InMemoryDataset has written of one; None of other objects.

    Raises:
        InputError: for several graphs, or a damaged one.
    """
    from torch_geometric.data import HeteroData

    if (
        isinstance(loaded, (tuple, list))
        and len(loaded) == 3
        and all(isinstance(each, HeteroData) for each in loaded)
    ):
        raise InputError(f"{where} holds several HeteroData; give one, and no links (RandomLinkSplit)")
    graph, kind = unpacked(loaded, where)
    if kind is not HeteroData:
        return None
    if not isinstance(graph, dict) or not all(isinstance(each, dict) for each in graph.values()):
        raise InputError(f"{where} is damaged: its HeteroData has no valid content")
    stores = {key: each for key, each in graph.items() if key != "_global_store"}
    for key in stores:
        names = key if isinstance(key, tuple) and len(key) == 3 else (key,)
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"{where} is damaged: {printable_line(repr(key))[:60]} is no type and no relation")
    return stores


def typed_source(stores: Stores, *, name: str, where: str, keys: Keys) -> TypedSource:
    """The graph of several types that has these attributes.

    Raises:
        InputError: naming ``where`` and the type or relation, for tensors that are missing or do not fit each other.
    """
    edges = {
        Relation(*key): edges_of(each, f"{where}: relation {Relation(*key)}", square=False)
        for key, each in stores.items()
        if isinstance(key, tuple) and _has_edges(each, f"{where}: relation {Relation(*key)}")
    }
    vertices = {key: each for key, each in stores.items() if isinstance(key, str)}
    for relation in edges:  # PyG knows a type without attributes by its relations alone
        for each in (relation.source, relation.destination):
            if each not in vertices:
                raise InputError(
                    f"{where}: relation {relation}: there is no type {each!r}; give it features, or num_nodes"
                )
    keys.check_some(vertices.values(), where)
    _say_what_is_left(stores, keys, where)

    def largest(of: str) -> int:
        """Return the largest id of a type in all relations."""
        ids: list[NDArray[Any]] = []
        for relation, (source, destination, *_) in edges.items():
            ids += [source] * (relation.source == of) + [destination] * (relation.destination == of)
        return max((int(each.max(initial=-1)) for each in ids), default=-1)

    return TypedSource(
        name=name,
        where=where,
        types={
            of: attributes_of(
                each, None, partial(largest, of), name=name, where=f"{where}: type {of}", keys=keys.among(each)
            )
            for of, each in vertices.items()
        },
        relations={
            relation: array_edges(source, destination, weight)
            for relation, (source, destination, weight, _) in edges.items()
        },
    )


def _has_edges(each: dict[str, Any], where: str) -> bool:
    if "edge_index" in each or "adj_t" in each:
        return True
    raise InputError(f"{where} has neither edge_index nor adj_t")


def _say_what_is_left(stores: Stores, keys: Keys, where: str) -> None:
    """Warn of tensors that no store of a graph has."""
    asked = {each.strip() for names in vars(keys).values() for each in (names or "").split(",")}
    for key, each in stores.items():
        of = f"type {key}" if isinstance(key, str) else f"relation {Relation(*key)}"
        for name, value in each.items():
            if isinstance(value, (torch.Tensor, np.ndarray)) and name not in KEPT | asked:
                logger.warning(
                    "%s: %s: %s of shape %s is not kept", where, of, printable_line(str(name)), tuple(value.shape)
                )
