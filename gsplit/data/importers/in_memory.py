"""Arrays that lie in memory, as a source of one type or of several: NumPy's, tensors on any device, and the like.

N vertices, E edges, D features, C classes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.fields import Range, checked
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import UNKNOWN, as_features, as_ids, as_vertex_set, as_weights
from gsplit.data.importers.source import NO_EDGES, EdgeChunks, GraphSource, TypedSource, array_edges
from gsplit.data.links.edge_sets import Links, links_of_files
from gsplit.data.schema import Relation
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
    edges = _given_edges(edge_index, edge_weight, where, f"{where}: edge_index")
    vertices = _vertices(
        x, y, vertex_sets=vertex_sets, num_vertices=num_vertices, num_classes=num_classes, name=name, where=where
    )
    return replace(vertices, edges=edges, links=_given_links(links or {}, where))


def typed_arrays_source(
    types: Mapping[str, Any],
    relations: Mapping[tuple[str, str, str], Any],
    labels: Any,
    *,
    edge_weight: Any,
    vertex_sets: Mapping[str, Any],
    num_classes: int | None,
    name: str,
    where: str,
) -> TypedSource:
    """Make a source of arrays by type and relation.

    Args:
        types: features [N_t, D_t], or the number of vertices, by the name of the type.
        relations: integers [2, E_r], or a pair of [E_r], by the relation: source type, name, destination type.
        labels: by type.
        edge_weight: [E_r] by relation, or None.
        vertex_sets: for each set a mask [N_t] or ids, by type or of the type that has labels; or None.
        num_classes: of the labels.
        name: of the graph.
        where: what messages call it.

    Raises:
        InputError: naming ``where`` and the type or relation, for what does not fit.
    """
    _check_names(types, relations, where)
    by_type: dict[str, Mapping[str, Any]] = {"labels": _by_type(labels, "labels", types, where)}
    target = next((of for of, each in by_type["labels"].items() if each is not None), None)
    for key in VERTEX_SETS:
        value = vertex_sets.get(key)
        whose = value if value is None or isinstance(value, Mapping) or target is None else {target: value}
        by_type[key] = _by_type(whose, key, types, where)
    weights = {} if edge_weight is None else edge_weight
    if not isinstance(weights, Mapping) or not weights.keys() <= relations.keys():
        raise InputError(f"{where}: edge_weight is by relation, such as {{('author', 'writes', 'paper'): weights}}")
    edges = {}
    for each, edge_index in relations.items():
        called = f"{where}: relation {Relation(*each)}"
        edges[Relation(*each)] = _given_edges(edge_index, weights.get(each), called, called)
    return TypedSource(
        name=name,
        where=where,
        types={
            of: _vertices(
                None if isinstance(each, Integral) else each,
                by_type["labels"].get(of),
                vertex_sets={key: by_type[key].get(of) for key in VERTEX_SETS},
                num_vertices=int(each) if isinstance(each, Integral) else None,
                num_classes=num_classes if of == target else None,
                name=name,
                where=f"{where}: type {of}",
            )
            for of, each in types.items()
        },
        relations=edges,
    )


def _check_names(types: Mapping[str, Any], relations: Any, where: str) -> None:
    for name, each in types.items():
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            raise InputError(f"{where}: a type is called by a text, such as 'paper', not {name!r}")
        if each is None or isinstance(each, bool):
            raise InputError(f"{where}: type {name}: give its features, or the number of its vertices, not {each!r}")
        if isinstance(each, Integral) and each < 1:
            raise InputError(
                f"{where}: type {name}: the number of vertices is {each}; a type without any has features of 0 rows"
            )
    if not isinstance(relations, Mapping):
        raise InputError(
            f"{where}: edges of several types are by relation, such as {{('author', 'writes', 'paper'): edge_index}}"
        )
    for each in relations:
        if not isinstance(each, tuple) or len(each) != 3 or not all(isinstance(name, str) for name in each):
            raise InputError(
                f"{where}: a relation is called by three texts, such as ('author', 'writes', 'paper'), not {each!r}"
            )


def _by_type(value: Any, key: str, types: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """What was given by type."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {key} of several types are by type, such as {{'paper': {key}}}")
    for name in value:
        if name not in types:
            raise InputError(f"{where}: {key} are of {name!r}, but the types are {', '.join(types)}")
    return value


def _given_edges(edge_index: Any, edge_weight: Any, where: str, what: str) -> EdgeChunks:
    """The edges of arrays, with weights [E] or none."""
    source, destination = edges_of(edge_index, what)
    what = f"{where}: edge_weight"
    weight = as_weights(given_array(edge_weight, what), len(source), what)
    return array_edges(source, destination, weight, place="edge {} of edge_index".format)


def _vertices(
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
