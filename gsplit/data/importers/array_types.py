"""Arrays that lie in memory, by type and relation, as a source of several types."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers import in_memory
from gsplit.data.importers.source import TypedSource
from gsplit.data.schema import Relation
from gsplit.errors import InputError


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
    return TypedSource(
        name=name,
        where=where,
        types={
            of: in_memory.vertices_of(
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
        relations={
            Relation(*each): in_memory.given_edges(
                *in_memory.edges_of(edge_index, f"{where}: relation {Relation(*each)}"),
                weights.get(each),
                f"{where}: relation {Relation(*each)}",
            )
            for each, edge_index in relations.items()
        },
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
