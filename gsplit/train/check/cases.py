"""The mini-batches that ``--check-model`` looks at, and how each is split between two trainers.

The first mini-batch of the run; one without targets, or without pairs to score, for each of the two trainers; and one
in which a trainer has neither targets nor edges, but, where the graph has such a place, rows that the other needs. In
the first one rows cross between the trainers, or the comparison would show nothing: where none do at the layout's own
boundary, the cut is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.errors import InputError
from gsplit.sampling import EpochPlan, MiniBatchSampler, Segment, sampler_of
from gsplit.sampling.links import Links, Pairs
from gsplit.sampling.micro_batches import sample_pairs

FEW = 64
"""Targets at most of the mini-batches that are chosen for what they lack."""
MAX_SAMPLES = 8
"""Samples that are drawn to find an edge between two vertices."""
Start: TypeAlias = NDArray[np.int64] | Pairs
"""What a mini-batch starts with: layout ids of targets, or pairs."""
S = TypeVar("S", NDArray[np.int64], Pairs)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The draws of the mini-batches: as in the run that is to come."""

    layout: Layout
    fan_out: tuple[int, ...]
    batch_size: int
    seed: int
    partial_sums: bool = False
    links: Links | None = None
    """The rule of a run on links."""

    def sample(self, targets: Start, batch: int, cut: list[int], *, edge_ids: bool = False) -> MiniBatchSampler:
        """A mini-batch of epoch 0, split at the layout ids ``cut``."""
        bounds = [0, *cut, self.layout.graph.num_vertices]
        sampler = sampler_of(
            self.layout,
            bounds,
            fan_outs=self.fan_out,
            seed=self.seed,
            edge_ids=edge_ids,
            partial_sums=self.partial_sums,
        )
        if isinstance(targets, Pairs):
            sample_pairs(sampler, [targets], 0, batch, 0)
        else:
            sampler.sample(targets, epoch=0, batch=batch)
        return sampler


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mini-batch, and where it is cut in two."""

    name: str
    targets: Start
    batch: int
    """Number of the mini-batch, which decides what is drawn."""
    cut: int
    """Trainer 0 owns the layout ids below it, trainer 1 the others."""
    rows: int
    """Rows that cross between the trainers, over all layers."""
    ordinary: bool = False
    """Whether it is as most mini-batches of a run are."""


def chosen_cases(draws: Draws, model_name: str) -> list[Case]:
    """The mini-batches to compare on, the ordinary one first.

    Raises:
        InputError: where rows cannot cross: no target has an edge from another vertex.
    """
    if draws.links is not None:
        return _of_pairs(draws, draws.links, model_name)
    layout, graph = draws.layout, draws.layout.graph
    plan = EpochPlan(graph.train_idx, layout.permutation, draws.batch_size, draws.seed)
    batch, targets = next(plan.batches(0))
    cut = _middle(layout)
    rows = _crossing(draws, targets, batch, cut)
    if not rows:
        targets, batch, cut = _crossed(draws, targets, model_name)
        rows = _crossing(draws, targets, batch, cut)
    cases = [Case(name="an ordinary mini-batch", targets=targets, batch=batch, cut=cut, rows=rows, ordinary=True)]
    few = [
        (f"a mini-batch without targets of trainer {other}", _targets_of(layout, targets, owner, cut), cut)
        for owner, other in ((0, 1), (1, 0))
    ]
    few.append(_without_edges(draws, (targets[:count] for count in (8, 1)), batch))
    for name, own, at in few:
        if len(own):
            rows = _crossing(draws, own, batch, at)
            cases.append(Case(name=name, targets=own, batch=batch, cut=at, rows=rows))
    return cases


def _of_pairs(draws: Draws, links: Links, model_name: str) -> list[Case]:
    """The mini-batches of pairs, the ordinary one first."""
    plan = links.plan(draws.layout, batch_size=draws.batch_size, seed=draws.seed)
    for batch in range(MAX_SAMPLES):
        pairs = plan.pairs(0, batch % plan.num_batches)[0]
        cuts = _middle(draws.layout), _edge_cut(_whole(draws, pairs, batch))
        cut = next((at for at in cuts if at and _crossing(draws, pairs, batch, at)), None)
        if cut is not None:
            break
    else:
        raise _nothing_shown(model_name, "no vertex of the first pairs")

    def first(number: int) -> Pairs:
        plan = links.plan(draws.layout, batch_size=min(number, draws.batch_size), seed=draws.seed)
        some = (plan.pairs(0, batch)[0] for batch in range(min(MAX_SAMPLES, plan.num_batches)))
        return next((each for each in some if len(each.rows)), pairs)

    few = first(FEW)
    scorers = few.targets[few.destinations if few.apart else few.sources]
    cases = [
        ("an ordinary mini-batch", pairs, cut),
        ("a mini-batch without pairs of trainer 0", few, int(scorers.min())),
        ("a mini-batch without pairs of trainer 1", few, int(scorers.max()) + 1),
        _without_edges(draws, map(first, (8, 1)), batch),
    ]
    return [
        Case(
            name=name,
            targets=start,
            batch=batch,
            cut=at,
            rows=_crossing(draws, start, batch, at),
            ordinary=number == 0,
        )
        for number, (name, start, at) in enumerate(cases)
    ]


def _middle(layout: Layout) -> int:
    """Where the layout has a boundary of parts, or else half of the vertices."""
    return int(layout.offsets[layout.parts // 2]) if layout.parts > 1 else layout.graph.num_vertices // 2


def _nothing_shown(model_name: str, who: str) -> InputError:
    return InputError(
        f"it could not be shown whether the model {model_name} can be split: no row crosses between two trainers, as "
        f"{who} has an edge from another vertex"
    )


def _whole(draws: Draws, targets: Start, batch: int) -> Segment:
    return draws.sample(targets, batch, []).segment(0)


def _crossing(draws: Draws, targets: Start, batch: int, cut: int) -> int:
    """Rows that the layers of trainers on both sides of the cut receive from each other."""
    sampler = draws.sample(targets, batch, [cut])
    return sum(sum(layer.receive_counts) for rank in (0, 1) for layer in sampler.segment(rank).layers.values())


def _crossed(draws: Draws, targets: NDArray[np.int64], model_name: str) -> tuple[NDArray[np.int64], int, int]:
    """Targets, the number of their mini-batch, and a cut that one of the drawn edges crosses."""
    graph = draws.layout.graph
    for batch in range(MAX_SAMPLES):
        if (cut := _edge_cut(_whole(draws, targets, batch))) is not None:
            return targets, batch, cut
        if batch == 0:  # no edge within the first mini-batch: take targets that have some
            train = np.asarray(graph.train_idx)
            targets = train[graph.indptr[train + 1] > graph.indptr[train]][:FEW]
            if not len(targets):
                break
    raise _nothing_shown(model_name, "no training vertex")


def _edge_cut(segment: Segment) -> int | None:
    """A cut that one of the drawn edges crosses."""
    for layer in range(segment.num_layers, 0, -1):
        sources = segment.vertices[segment.indices(layer)]
        destinations = np.repeat(segment.vertices[: segment.level_sizes[layer]], np.diff(segment.indptr(layer)))
        higher = np.maximum(sources, destinations)[sources != destinations]
        if len(higher):
            return int(np.sort(higher)[len(higher) // 2])
    return None


def _targets_of(layout: Layout, targets: NDArray[np.int64], owner: int, cut: int) -> NDArray[np.int64]:
    """Some that one of the trainers owns: of the mini-batch, or else of the training set."""
    for candidates in (targets, np.asarray(layout.graph.train_idx)):
        own = candidates[(candidates >= cut) == bool(owner)]
        if len(own):
            break
    return own[:FEW]


def _without_edges(draws: Draws, few: Iterator[S], batch: int) -> tuple[str, S, int]:
    """Name, targets and cut: beyond the cut lies no vertex that is computed, but perhaps rows that are needed.

    Args:
        draws: of the run.
        few: targets or pairs, and then fewer.
        batch: number of the mini-batch.
    """
    for targets in few:
        segment = _whole(draws, targets, batch)
        computed = segment.vertices[: segment.level_sizes[1]]
        below, above = int(computed.min()), int(computed.max()) + 1
        needed = [int((segment.vertices < below).sum()), int((segment.vertices >= above).sum())]
        if any(needed):
            break
    idle = int(needed[1] >= needed[0])
    name = f"a mini-batch without edges and targets of trainer {idle}"
    return name, targets, (below, above)[idle]
