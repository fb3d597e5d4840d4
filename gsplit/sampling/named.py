"""The rules by the names that ``--sampling`` gives them, and the relations that ``--fan-out-of`` names."""

from __future__ import annotations

from collections.abc import Mapping

from gsplit.data.schema import Schema
from gsplit.errors import InputError
from gsplit.sampling.fresh import Fresh
from gsplit.sampling.layerwise import Draw, FastGCN, Ladies
from gsplit.sampling.masses import Importance
from gsplit.sampling.rule import FanOutOf, Neighbours, Rule
from gsplit.sampling.saint import Saint
from gsplit.sampling.subgraphs import Clusters, Uniform


def rule_named(
    name: str,
    *,
    fan_out: tuple[int, ...],
    fan_out_of: FanOutOf = (),
    layers: int,
    layer_sizes: tuple[int, ...] | None = None,
    importance: Importance = "squares",
    draw: Draw = "priority",
    subgraph: str | None = None,
    clusters: int | None = None,
    fresh: bool = False,
    scaled: bool = False,
) -> Rule:
    """A rule, made of what it takes of these.

    Args:
        name: ``neighbours``, ``ladies``, ``fastgcn``, ``uniform``, ``saint`` or ``clusters``.
        fan_out: of neighbours.
        fan_out_of: of neighbours, as :func:`fan_out_of_relations` returns it.
        layers: of uniform, saint and clusters.
        layer_sizes: of ladies and fastgcn.
        importance: of ladies, fastgcn and saint.
        draw: of ladies.
        subgraph: of uniform and saint.
        clusters: of clusters.
        fresh: of uniform, which draws another set for each layer then.
        scaled: of uniform, whose segments carry scales then.

    Raises:
        InputError: for another name, and where the rule lacks what it needs.
    """
    if name == "neighbours":
        return Neighbours(fan_out=fan_out, fan_out_of=fan_out_of)
    if name == "ladies" and layer_sizes:
        return Ladies(sizes=layer_sizes, importance=importance, draw=draw)
    if name == "fastgcn" and layer_sizes:
        return FastGCN(sizes=layer_sizes, importance=importance)
    if name == "uniform" and subgraph is not None:
        return (Fresh if fresh else Uniform)(subgraph=subgraph, layers=layers, scaled=scaled)
    if name == "saint" and subgraph is not None:
        return Saint(subgraph=subgraph, layers=layers, importance=importance)
    if name == "clusters" and clusters is not None:
        return Clusters(clusters=clusters, layers=layers)
    raise InputError(f"there is no rule {name!r} without what it needs: --layer-sizes, --subgraph or --clusters")


def fan_out_of_relations(
    named: Mapping[str, tuple[int, ...]], fan_out: tuple[int, ...], schema: Schema, target: int
) -> FanOutOf:
    """The fan-outs that relations have of their own, by number.

    Args:
        named: what ``--fan-out-of`` says, by the names of relations.
        fan_out: of the other relations, by hop.
        schema: of the graph.
        target: number of the type that mini-batches start from.

    Raises:
        InputError: on a graph of one relation; for one that is not there, is there twice or that no mini-batch comes
            to; for another number of hops; where a hop would draw nothing.
    """
    if not named:
        return ()
    if not schema.is_typed:
        names = ", ".join(named)
        raise InputError(f"--fan-out-of {names} has no effect on a graph of one relation; drop it and say --fan-out")
    found: dict[int, tuple[int, ...]] = {}
    for name, numbers in named.items():
        try:
            number = schema.relation_number(name)
        except InputError as error:
            raise InputError(f"--fan-out-of: {error}") from None
        if number in found:
            raise InputError(f"--fan-out-of has {schema.relations[number]} twice; say it once")
        if len(numbers) != len(fan_out):
            raise InputError(
                f"--fan-out-of {name} has {len(numbers)} numbers, but --fan-out has {len(fan_out)}; give one for each"
            )
        found[number] = numbers
    _check_reach(found, Neighbours(fan_out=fan_out, fan_out_of=tuple(found.items())), schema, target)
    return tuple(found.items())


def _check_reach(found: dict[int, tuple[int, ...]], rule: Neighbours, schema: Schema, target: int) -> None:
    """Refuse fan-outs of 0 wherever a hop could draw, and those of relations that no hop comes to."""
    names = list(map(str, schema.relations))
    reach = rule.reach(schema, target)
    for hop, relations in enumerate(reversed(reach.relations[1:]), start=1):
        if not relations:
            here = reach.types[len(rule.fan_out) - hop + 1]
            zeros = [names[each] for each in found if reach.ends[each][1] in here]
            raise InputError(
                f"--fan-out-of makes a fan-out of 0 everywhere: hop {hop} draws nothing by {' nor '.join(zeros)}; "
                "give one of them another number"
            )
    for number in found:
        if reach.ends[number][1] not in reach.types[1]:
            raise InputError(
                f"--fan-out-of {names[number]} has no effect: no hop draws for vertices of type "
                f"{schema.relations[number].destination}; drop it"
            )
