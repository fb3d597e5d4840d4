"""From a source of several types to a graph store: what :mod:`gsplit.data.build` does, type by type.

The types are checked and written first, then the relations, one after the other, in bounded memory. A graph of one
type and one relation becomes a store of one type, as if it had never had a name for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from gsplit.config.fields import flag_of
from gsplit.data.adjacency import Cleaning, check_num_vertices, write_adjacency
from gsplit.data.build import (
    check_features,
    check_split,
    edges_by_rule,
    fill_store,
    labelled_of,
    remark,
    report,
    shown_by,
    write_features_of,
)
from gsplit.data.build_options import BuildOptions
from gsplit.data.folders import FolderWriter
from gsplit.data.graph import Adjacency, Labelled, check_vertex_sets
from gsplit.data.importers.source import EdgeChunks, GraphSource, TypedSource, reverse_edges
from gsplit.data.schema import Relation, Schema
from gsplit.data.store import FILE, FORMAT, describe, save_labelled
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError

REVERSE = "rev_"
"""What the name of a reverse relation begins with, as PyG's ``ToUndirected`` has it."""
OF_ONE_TYPE = ("undirected", "edge_split", "leaks", "message_edges", "supervision", "num_vertices")
"""Options that graphs of several types do not have."""


def fill_any_store(
    writer: FolderWriter, source: GraphSource, options: BuildOptions, *, name: str, described_as: str
) -> None:
    """Write a source of one type or of several into the folder of a new graph store.

    Args:
        described_as: what ``graph.json`` gives as the source.

    Raises:
        InputError: for a source that is no valid graph.
    """
    if isinstance(source, TypedSource) and not source.schema.is_typed:
        ((_, vertices),), ((_, edges),) = source.types.items(), source.relations.items()
        options = replace(options, reverse=False, undirected=options.undirected or options.reverse)
        source = replace(vertices, edges=edges)
    if isinstance(source, TypedSource):
        header = _filled(writer, source, options)
        writer.describe(FILE, {"format": FORMAT, **header, "name": name, "source": described_as})
    else:
        fill_store(writer, source, options, name=name, described_as=described_as)


def _filled(writer: FolderWriter, source: TypedSource, options: BuildOptions) -> dict[str, Any]:
    """Write the arrays of a source of several types; what the description says of them."""
    check_of_one_type(source.where, options, OF_ONE_TYPE)
    if options.reverse:
        source = replace(source, relations=_with_reverses(source.relations, source.where))
    schema = source.schema
    labelled = _labelled(source, options)
    target = schema.type_number(_target(source))
    if not schema.into(target):
        raise InputError(
            f"{source.where}: no relation leads to {_target(source)}, the type with the labels, so there is nothing "
            "to aggregate; give --reverse, or relations into it"
        )
    for number, (vertices, each) in enumerate(zip(source.types.values(), schema.types, strict=True)):
        check_num_vertices(each.num_vertices, f"{source.where}: type {each.name}")
        check_features(vertices, each.num_vertices)
        training = labelled.train_idx if number == target else np.empty(0, np.int64)
        write_features_of(writer.numbered(number), vertices, training, options)
    save_labelled(writer.numbered(target), labelled)
    adjacencies = [
        _write_relation(writer.numbered(number), source, schema, number, options)
        for number in range(len(schema.relations))
    ]
    graph = TypedGraph(
        schema=schema,
        target=target,
        adjacencies=tuple(adjacencies),
        features_by_type=tuple(
            None if each.features is None else writer.numbered(number).mapped("features")
            for number, each in enumerate(source.types.values())
        ),
        **vars(labelled),
    )
    of_target = source.types[schema.types[target].name]
    check_vertex_sets(graph, len(graph.labels), of_target.where, of_target.entry, shown_by(of_target))
    remark(graph, of_target.where)
    return describe(graph)


def _write_relation(
    writer: FolderWriter, source: TypedSource, schema: Schema, number: int, options: BuildOptions
) -> Adjacency:
    """Write the edges of one relation."""
    relation = schema.relations[number]
    from_type, to_type = (schema.types[each] for each in schema.ends(number))
    destinations = source.types[relation.destination]
    edges, rule = edges_by_rule(
        source.relations[relation], options.duplicates or ("keep" if destinations.as_is else "first")
    )
    cleaning = Cleaning(duplicates=rule)
    if relation.inside_one_type:
        cleaning = replace(cleaning, undirected=options.reverse, self_loops=options.self_loops)
    called = GraphSource(
        name=source.name, edges=edges, num_vertices=to_type.num_vertices, where=f"{source.where}: relation {relation}"
    )
    adjacency, tally = write_adjacency(writer, called, to_type.num_vertices, cleaning, (from_type, to_type))
    report(called, tally, cleaning)
    return adjacency


def check_of_one_type(where: str, given: Any, names: Iterable[str]) -> None:
    """Raise InputError, naming the source, for options that graphs of several types do not have, and are given."""
    usual = {field.name: field.default for field in fields(given)}
    for name in names:
        if getattr(given, name) != usual[name]:
            instead = "give --reverse" if name == "undirected" else "drop it"
            raise InputError(
                f"{where} has several types of vertices, or relations, and {flag_of(name)} is for graphs of one; "
                f"{instead}"
            )


def _with_reverses(relations: Mapping[Relation, EdgeChunks], where: str) -> dict[Relation, EdgeChunks]:
    """The relations, and after them the reverse of each that is between two types."""
    found = dict(relations)
    for relation, edges in relations.items():
        if relation.inside_one_type:
            continue
        reverse = Relation(relation.destination, REVERSE + relation.name, relation.source)
        if reverse in found:
            raise InputError(
                f"{where} has the relation {reverse} already; drop --reverse, or leave that relation out"
            )
        found[reverse] = reverse_edges(edges)
    return found


def _target(source: TypedSource) -> str:
    """The name of the type that has labels; InputError for none or several, or vertex sets of another type."""
    found = [name for name, each in source.types.items() if each.labels is not None]
    if not found:
        raise InputError(f"{source.where}: no type of vertices has labels; give one of them some, to be learned")
    if len(found) > 1:
        raise InputError(
            f"{source.where}: the types {' and '.join(found)} have labels, and one type can be learned; remove the "
            "labels of the others"
        )
    for name, each in source.types.items():
        if each.vertex_sets and name != found[0]:
            raise InputError(
                f"{source.where}: the type {name} has a {next(iter(each.vertex_sets))} set, but the labels are those "
                f"of {found[0]}; remove the set"
            )
    return found[0]


def _labelled(source: TypedSource, options: BuildOptions) -> Labelled:
    """Labels and vertex sets, those of the target."""
    target = _target(source)
    vertices = source.types[target]
    if not vertices.num_vertices:
        raise InputError(f"{source.where}: the type {target} has labels, but no vertices")
    check_split(vertices, options)
    return labelled_of(vertices, vertices.num_vertices, options)
