"""The rules by the names that ``--sampling`` gives them."""

from __future__ import annotations

from gsplit.errors import InputError
from gsplit.sampling.layerwise import Draw, FastGCN, Ladies
from gsplit.sampling.masses import Importance
from gsplit.sampling.rule import Neighbours, Rule
from gsplit.sampling.saint import Saint
from gsplit.sampling.subgraphs import Clusters, Uniform


def rule_named(
    name: str,
    *,
    fan_out: tuple[int, ...],
    layers: int,
    layer_sizes: tuple[int, ...] | None = None,
    importance: Importance = "squares",
    draw: Draw = "priority",
    subgraph: str | None = None,
    clusters: int | None = None,
    scaled: bool = False,
) -> Rule:
    """A rule, made of what it takes of these.

    Args:
        name: ``neighbours``, ``ladies``, ``fastgcn``, ``uniform``, ``saint`` or ``clusters``.
        fan_out: of neighbours.
        layers: of uniform, saint and clusters.
        layer_sizes: of ladies and fastgcn.
        importance: of ladies, fastgcn and saint.
        draw: of ladies.
        subgraph: of uniform and saint.
        clusters: of clusters.
        scaled: of uniform, whose segments carry scales then.

    Raises:
        InputError: for another name, and where the rule lacks what it needs.
    """
    if name == "neighbours":
        return Neighbours(fan_out=fan_out)
    if name == "ladies" and layer_sizes:
        return Ladies(sizes=layer_sizes, importance=importance, draw=draw)
    if name == "fastgcn" and layer_sizes:
        return FastGCN(sizes=layer_sizes, importance=importance)
    if name == "uniform" and subgraph is not None:
        return Uniform(subgraph=subgraph, layers=layers, scaled=scaled)
    if name == "saint" and subgraph is not None:
        return Saint(subgraph=subgraph, layers=layers, importance=importance)
    if name == "clusters" and clusters is not None:
        return Clusters(clusters=clusters, layers=layers)
    raise InputError(f"there is no rule {name!r} without what it needs: --layer-sizes, --subgraph or --clusters")
