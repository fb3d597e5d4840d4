"""Arrays that lie in memory, as a source: NumPy's, tensors on any device, and what NumPy makes an array of.

N vertices, E edges, D features, C classes.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.fields import Range, checked
from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import UNKNOWN, as_features, as_ids, as_vertex_set, as_weights
from gsplit.data.importers.source import NO_EDGES, EdgeChunks, GraphSource, array_edges
from gsplit.data.links.edge_sets import Links, links_of_files
from gsplit.errors import InputError

COUNT = Annotated[int | None, Range(1)]


def arrays_source(
    edge_index: Any,
    x: Any,
    y: Any,
    *,
    edge_weight: Any,
    vertex_sets: dict[str, Any],
    num_vertices: int | None,
    num_classes: int | None,
    name: str,
    where: str,
    links: dict[str, Any] | None = None,
) -> GraphSource:
    """Make a source of arrays; they are copied when a store is made of it, and not changed.

    Args:
        edge_index: integers [2, E], or a pair of [E]: sources and destinations.
        x: features [N, D] or [N], or None.
        y: labels [N] or [N, C], or None.
        edge_weight: [E], or None.
        vertex_sets: for each set a mask [N] of booleans or a list of ids, or None.
        num_vertices: where it is given.
        num_classes: number of classes; None: one more than the largest label.
        where: what messages call the graph.
        links: pairs [2, M] and candidates [m, K] by their argument of :func:`gsplit.from_arrays`.

    Raises:
        InputError: naming ``where`` and the array, for one that is none or does not fit the others.
    """
    source, destination = edges_of(edge_index, f"{where}: edge_index")
    vertices = vertices_of(
        x, y, vertex_sets=vertex_sets, num_vertices=num_vertices, num_classes=num_classes, name=name, where=where
    )
    return replace(
        vertices, edges=given_edges(source, destination, edge_weight, where), links=_given_links(links or {}, where)
    )


def given_edges(source: NDArray[Any], destination: NDArray[Any], edge_weight: Any, where: str) -> EdgeChunks:
    """The edges of arrays [E], with weights [E] or none."""
    what = f"{where}: edge_weight"
    weight = as_weights(given_array(edge_weight, what), len(source), what)
    return array_edges(source, destination, weight, place="edge {} of edge_index".format)


def vertices_of(
    x: Any,
    y: Any,
    *,
    vertex_sets: dict[str, Any],
    num_vertices: int | None,
    num_classes: int | None,
    name: str,
    where: str,
) -> GraphSource:
    """The vertices of arrays, as a graph without edges; arguments as of :func:`arrays_source`."""
    num_vertices = checked(f"{where}: num_vertices", num_vertices, COUNT)
    num_classes = checked(f"{where}: num_classes", num_classes, COUNT)
    arrays = {"x": given_array(x, f"{where}: x"), "y": given_array(y, f"{where}: y")}
    sets = {key: given_array(value, f"{where}: {key}") for key, value in vertex_sets.items()}
    n = _common_length(
        {**arrays, **{key: value for key, value in sets.items() if value is not None and value.dtype == np.bool_}},
        num_vertices,
        where,
    )
    features, labels = arrays["x"], arrays["y"]
    return GraphSource(
        name=name,
        edges=NO_EDGES,
        num_vertices=n,
        features=None if features is None else as_features(features, len(features), f"{where}: x"),
        labels=None if labels is None else as_labels(labels, len(labels), f"{where}: y"),
        num_classes=num_classes,
        vertex_sets={
            key: ids
            for key, value in sets.items()
            if value is not None and len(ids := _vertex_set(value, n, f"{where}: {key}"))
        },
        where=where,
        called={key: f"{where}: {called}" for key, called in (("features", "x"), ("labels", "y"))},
    )


def _given_links(given: dict[str, Any], where: str) -> Links | None:
    """Links of arrays, by their arguments of :func:`gsplit.from_arrays`; None where all are None."""
    arrays = {}
    for key, value in given.items():
        if value is not None:
            what, of_rows = f"{where}: {key}", key.endswith(("_candidates", "hard_negatives", "train_weights"))
            arrays[key] = given_array(value, what) if of_rows else np.stack(edges_of(value, what), axis=1)
    return links_of_files(arrays, where)


def given_array(value: Any, what: str) -> NDArray[Any] | None:
    """Return what was given as an array of numbers with at least one dimension; None stays None.

    Raises:
        InputError: naming ``what``, for what makes none.
    """
    if value is None:
        return None
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        from gsplit.data.importers.formats.torch_files import dense_array

        array = dense_array(value, what)
    else:
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as error:
            raise InputError(f"{what} is a {type(value).__name__} that makes no array: {error}") from None
    if np.ma.is_masked(value):
        raise InputError(f"{what} has masked values; fill them first, with .filled(...)")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} is a {type(value).__name__} of {array.dtype}; give an array or a tensor of numbers")
    if not array.ndim:
        raise InputError(f"{what} must be an array, not the single number {array}")
    return array


def edges_of(edge_index: Any, what: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Source and destination [E] of each edge."""
    if isinstance(edge_index, (tuple, list)) and len(edge_index) == 2:
        rows = [given_array(row, what) for row in edge_index]
    else:
        array = given_array(edge_index, what)
        if array is None:
            raise InputError(f"{what} is None; give the edges, as integers of shape (2, E)")
        if array.ndim != 2 or len(array) != 2:
            turned = "; turn it round with .T" if array.ndim == 2 and array.shape[1] == 2 else ""
            raise InputError(
                f"{what} must have the shape (2, E), sources and destinations, not {array.shape}{turned}"
            )
        rows = list(array)
    source, destination = rows
    if source is None or destination is None:
        raise InputError(f"{what} must be a pair of arrays, of sources and destinations, and one of them is None")
    for ids in (source, destination):
        if ids.dtype.kind not in "iu" and ids.size:
            raise InputError(f"{what} must hold whole numbers, not {ids.dtype}; convert it to int64")
    source, destination = as_ids(source, what), as_ids(destination, what)
    if len(source) != len(destination):
        raise InputError(f"{what} has {len(source)} sources, but {len(destination)} destinations")
    return source, destination


def _common_length(arrays: dict[str, NDArray[Any] | None], num_vertices: int | None, where: str) -> int | None:
    """Number of vertices that the arrays with a row for each have, or None where there is none of them."""
    lengths = {} if num_vertices is None else {"num_vertices": num_vertices}
    lengths |= {key: len(array) for key, array in arrays.items() if array is not None}
    for key, length in lengths.items():
        first, n = next(iter(lengths.items()))
        if length != n:
            says = f"num_vertices is {n}" if first == "num_vertices" else f"{first} has {n} rows"
            raise InputError(f"{where}: {says}, but {key} has {length}; give each vertex a row in both")
    return next(iter(lengths.values()), None)


def _vertex_set(values: NDArray[Any], n: int | None, what: str) -> NDArray[np.int64]:
    if values.dtype.kind == "f" and values.size:
        raise InputError(f"{what} must be a mask of booleans or a list of vertex ids, not {values.dtype}")
    mask = values.dtype == np.bool_
    if not mask and n is not None and len(values) == n > 2 and values.max() <= 1 and values.min() >= 0:
        raise InputError(f"{what} has a 0 or 1 for each vertex; give booleans where it is a mask (.astype(bool))")
    return as_vertex_set(values, len(values) if mask else UNKNOWN if n is None else n, what, mask=mask)
