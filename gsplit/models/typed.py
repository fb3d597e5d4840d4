"""Models of several types of vertices: what a signature says of the schema, for them to be built again.

Beside widths and options a signature has the schema as far as mini-batches reach it: numbers of types and relations
name the weights, so both must agree for weights to fit.
"""

from __future__ import annotations

from typing import Any

from gsplit.config.resolved import Placed
from gsplit.config.sampling import SamplingConfig, fan_outs_by_name
from gsplit.data import GraphArrays
from gsplit.sampling import Neighbours, Reach, reach_of
from gsplit.sampling.named import fan_out_of_relations
from gsplit.sampling.rule import FanOutOf


def own_fan_outs(config: SamplingConfig, graph: GraphArrays) -> FanOutOf:
    """The relations that have fan-outs of their own, by number.

    Raises:
        InputError: for what ``--fan-out-of`` says of relations that are not there.
    """
    named = fan_outs_by_name(config.fan_out_of)
    return fan_out_of_relations(named, config.fan_out, graph.schema, graph.target)


def reach_of_run(config: Placed, graph: GraphArrays) -> Reach:
    """The types of each level and the relations of each layer of the mini-batches that a run samples."""
    rule = Neighbours(fan_out=config.fan_out, fan_out_of=own_fan_outs(config, graph))
    return rule.reach(graph.schema, graph.target)


def widths_of_types(config: Placed, graph: GraphArrays) -> list[int]:
    """[T] the width of the features of each type, as a model is given them; 0 of those that have none."""
    trained = trained_types(config, graph)
    features = enumerate(graph.features_by_type)
    return [
        config.train_features or 0 if number in trained else 0 if rows is None else rows.shape[1]
        for number, rows in features
    ]


def trained_types(config: Placed, graph: GraphArrays) -> tuple[int, ...]:
    """Numbers of the types whose features are trained: those that mini-batches reach and that have none."""
    if config.train_features is None:
        return ()
    return tuple(t for t in reach_of_run(config, graph).types[0] if graph.features_by_type[t] is None)


def described(config: Placed, graph: GraphArrays) -> dict[str, Any]:
    """What a signature says of the schema: widths, types, relations, and which of these are drawn by hop."""
    schema, reach = graph.schema, reach_of_run(config, graph)
    return {
        "in_features": widths_of_types(config, graph),
        "types": list(schema.type_names),
        "relations": [[each.source, each.name, each.destination] for each in schema.relations],
        "target": schema.types[graph.target].name,
        "drawn": [list(of_layer) for of_layer in reversed(reach.relations[1:])],
    }


def is_of_types(signature: dict[str, Any]) -> bool:
    """Return whether a signature is of a model of several types."""
    return "types" in signature


def with_reach(arguments: dict[str, Any], signature: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a model of several types, for whose number of layers stands what mini-batches reach.

    Args:
        arguments: of a model of one type.
        signature: of the model, with what :func:`described` says.
    """
    number = {name: at for at, name in enumerate(signature["types"])}
    ends = [(number[source], number[to]) for source, _, to in signature["relations"]]
    fan_outs = [[int(r in drawn) for r in range(len(ends))] for drawn in signature["drawn"]]
    reach = reach_of(ends, fan_outs, number[signature["target"]])
    return {name: value for name, value in arguments.items() if name != "num_layers"} | {"reach": reach}
