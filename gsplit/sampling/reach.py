"""Which types stand at which level of a mini-batch, and which relations in which layer: what a schema alone says.

Models have weights for these and no others, and what is at no level is neither loaded nor computed. It does not
depend on what was drawn, so all trainers agree, also those without a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reach:
    """The types of each level and the relations of each layer of mini-batches with targets of one type."""

    ends: tuple[tuple[int, int], ...]
    """[R] the source and destination type of each relation, by number."""
    target: int
    """The number of the targets' type."""
    types: tuple[tuple[int, ...], ...]
    """[L + 1] numbers of the types of each level, ascending; the last level has the target type alone."""
    relations: tuple[tuple[int, ...], ...]
    """[L + 1] numbers of the relations of each layer, ascending; those of layer 0 are none."""

    @property
    def num_layers(self) -> int:
        """L."""
        return len(self.types) - 1


def reach_of(ends: Sequence[tuple[int, int]], fan_outs: Sequence[Sequence[int]], target: int) -> Reach:
    """Return what mini-batches with these fan-outs can have.

    Args:
        ends: [R] the source and destination type of each relation, by number.
        fan_outs: [L][R] neighbours drawn per hop and relation, the first hop for the targets; 0 draws none.
        target: the number of the targets' type.

    Examples:
        >>> reach = reach_of([(1, 0), (0, 1)], [[5, 5], [5, 5]], target=0)
        >>> reach.types, reach.relations
        (((0, 1), (0, 1), (0,)), ((), (0, 1), (0,)))
    """
    types: list[tuple[int, ...]] = [(target,)]
    relations: list[tuple[int, ...]] = []
    for of_hop in fan_outs:
        drawn = tuple(r for r, (_, to) in enumerate(ends) if of_hop[r] != 0 and to in types[-1])
        relations.append(drawn)
        types.append(tuple(sorted({*types[-1], *(ends[r][0] for r in drawn)})))
    return Reach(tuple(ends), target, tuple(reversed(types)), ((), *reversed(relations)))


def within(reach: Reach, fan_outs: Sequence[Sequence[int]], level: int | None = None) -> list[list[int]]:
    """Fan-outs [hops][R] from a level downwards, 0 for the relations that its layers have no weights for.

    Args:
        reach: of the model.
        fan_outs: as :func:`reach_of` takes them, the first for vertices of the level.
        level: that mini-batches start from; None: the last.

    Examples:
        >>> within(reach_of([(1, 0), (0, 1)], [[5, 5], [5, 5]], target=0), [[3, 3], [3, 3]])
        [[3, 0], [3, 3]]
    """
    layers = reach.relations[1 : reach.num_layers + 1 if level is None else level + 1]
    return [
        [fan_out if r in drawn else 0 for r, fan_out in enumerate(of_hop)]
        for of_hop, drawn in zip(fan_outs, reversed(layers), strict=True)
    ]
