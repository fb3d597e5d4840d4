"""Samplers, thin fronts of the C++ core: each draws one mini-batch and splits it.

:class:`CoreSampler` is what all have in common, :class:`TypedSampler` samples neighbours by relation,
:class:`MiniBatchSampler` is that on a graph of one type and one relation; csrc/sampler.hpp opens with how it is done.
Samplers of other rules, which know no types, stand beside their rules.

Legend: T types, R relations, L hops, P parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data import Layout
from gsplit.sampling.segment import Segment

if TYPE_CHECKING:
    from gsplit.sampling.links.plan import Pairs

NO_LIMIT = 2**62
"""Edges that no mini-batch has."""
NO_BOUND = -1
"""The core's word for maps of any size."""


@dataclass(frozen=True, kw_only=True)
class TypeInParts:
    """The vertices of a type as a sampler needs them: which part owns which."""

    offsets: Sequence[int] | NDArray[np.int64]
    """int64 [P + 1]; part p owns the ids offsets[p] .. offsets[p + 1] of the type. ``[0, N]`` does not split."""
    global_ids: NDArray[np.int64] | None = None
    """int64 [N] layout id -> global id; None where they are the same."""
    name: str = ""
    """What messages call the type."""


@dataclass(frozen=True, kw_only=True)
class RelationEdges:
    """The edges of a relation, by destination."""

    indptr: NDArray[np.int64]
    """int64 [N of the destination type + 1], CSC."""
    indices: NDArray[Any]
    """int32 or int64 [E], in-neighbours: ids of the source type."""
    source: int = 0
    """The number of the source type."""
    destination: int = 0
    """The number of the destination type."""
    name: str = ""
    """What messages call the relation."""


class CoreSampler:
    """Splits mini-batches of a graph over the parts, and holds the last one.

    Not to be called from several threads at once: the row maps belong to the current mini-batch. The GIL is released.

    Args:
        relations: [R] the edges; where any has int64 ids, int32 ones of others are copied.
        types: [T] the vertices.
        seed: of the run.
        edge_ids: let segments carry the positions of the drawn edges in the ``indices`` of their relation.
        memory: bytes that the maps from vertex to row may take with an entry for every vertex (4 bytes a vertex,
            8 where there are several parts). Where they would take more, hash maps take their place, as large as
            the mini-batches need (11 to 22 bytes for each of their vertices). None: no bound. The samples are the
            same.
        threads: that work on one mini-batch. The samples are the same.
        partial_sums: of each pair of splits, let one send sums over its rows in the place of rows where these are
            fewer (csrc/cover.hpp). The samples are the same; blocks have other edges. For one type and one relation.

    Raises:
        ValueError: for offsets that do not ascend from 0 to N, arrays that do not fit the types, a negative
            ``memory`` or ``threads`` below 1.
    """

    def __init__(
        self,
        relations: Sequence[RelationEdges],
        types: Sequence[TypeInParts],
        *,
        seed: int,
        edge_ids: bool = False,
        memory: int | None = None,
        threads: int = 1,
        partial_sums: bool = False,
    ) -> None:
        if memory is not None and memory < 0:
            raise ValueError(f"memory must be at least 0 bytes, not {memory}")
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        narrow = all(relation.indices.dtype == np.int32 for relation in relations)
        index = np.int32 if narrow else np.int64
        none = np.empty(0, np.int64)
        self._core = (_core.Sampler32 if narrow else _core.Sampler64)(
            [
                (each.name, each.source, each.destination, each.indptr, each.indices.astype(index, copy=False))
                for each in relations
            ],
            [
                (each.name, none if each.global_ids is None else each.global_ids, [int(o) for o in each.offsets])
                for each in types
            ],
            NO_BOUND if memory is None else memory,
            threads,
            partial_sums,
        )
        self.parts = len(types[0].offsets) - 1
        """P, the number of splits."""
        self._seed = seed % 2**64
        self._edge_ids = edge_ids

    def number_by_id(self) -> None:
        """Number the vertices that a hop meets by their ids from now on, not by first appearance; before sampling.

        Whoever reads their features then goes through memory in one direction.
        """
        self._core.number_by_id()

    def exclude(self, destinations: NDArray[np.int64], sources: NDArray[np.int64]) -> None:
        """Have the next ``sample()``, and that alone, draw no edge ``sources[i] -> destinations[i]``, at any hop.

        Every copy of such an edge is left out; its reverse is where it is listed, too. The fan-out is drawn from the
        other in-edges, uniformly, and vertices without excluded in-edges draw as ever. Of several calls the last
        counts.

        Args:
            destinations, sources: int64 [X] layout ids, in any order, also repeated.

        Raises:
            ValueError: for ids that are out of range, and for a rule other than neighbour sampling.
        """
        self._core.exclude(np.ascontiguousarray(destinations, np.int64), np.ascontiguousarray(sources, np.int64))

    @property
    def excluded_edges(self) -> int:
        """Edges of the graph that the last mini-batch was not to draw, each counted once."""
        return self._core.excluded_edges

    def segment_bytes(self, rank: int) -> int:
        """Room that split ``rank`` of the last mini-batch takes."""
        return self._core.segment_bytes(rank)

    def write_segment(self, rank: int, out: NDArray[np.uint8]) -> None:
        """Write split ``rank`` of the last mini-batch to ``out``, uint8 [at least ``segment_bytes``]."""
        self._core.write_segment(rank, out)

    def segment(self, rank: int) -> Segment:
        """Split ``rank`` of the last mini-batch, in memory of its own."""
        data = np.empty(self.segment_bytes(rank), np.uint8)
        self.write_segment(rank, data)
        return Segment(data)


class SetSampler(CoreSampler, ABC):
    """Keeps every in-edge from a set of sources, of a hop or of the whole mini-batch: what rules but neighbours do.

    Args:
        layout: to sample from.
        offsets: int64 [P + 1]; split p owns the layout ids ``offsets[p] .. offsets[p + 1]``.
        options: of :class:`CoreSampler`.
    """

    def __init__(self, layout: Layout, offsets: Sequence[int] | NDArray[np.int64], **options: Any) -> None:
        edges = RelationEdges(indptr=layout.graph.indptr, indices=layout.graph.indices)
        super().__init__([edges], [TypeInParts(offsets=offsets, global_ids=layout.permutation)], **options)

    def exclude(self, destinations: NDArray[np.int64], sources: NDArray[np.int64]) -> None:
        """Refuse: every in-edge from the set is kept.

        Raises:
            ValueError: always.
        """
        raise ValueError("edges can be excluded from neighbour sampling alone, not from sets of sources")

    def sample(
        self,
        targets: NDArray[np.int64],
        *,
        epoch: int,
        batch: int,
        micro: int = 0,
        num_targets: int | None = None,
        others: NDArray[np.int64] | None = None,
    ) -> bool:
        """Sample a mini-batch, always; it stays until the next call.

        Args:
            targets: int64 [T] distinct layout ids.
            epoch, batch, micro: with seed, hop and global id, all that the draws depend on (law 1).
            num_targets: of all micro-batches of the mini-batch, for the header of the segments; by default T.
            others: int64 distinct layout ids of what else is in the mini-batch from the start; None: nothing.

        Raises:
            ValueError: for vertices that are out of range or given twice, and for too many rows or destinations.
        """
        number = len(targets) if num_targets is None else num_targets
        start = targets if others is None else np.concatenate([targets, others])
        self._keep(np.ascontiguousarray(start, np.int64), len(targets), (epoch, batch, micro, number))
        return True

    @abstractmethod
    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        """Have the core sample from ``start``, of which the first ``targets`` are targets.

        ``about`` is the mini-batch: epoch, batch, micro-batch, number of targets of all micro-batches.
        """


class TypedSampler(CoreSampler):
    """Draws neighbours: each destination keeps a fixed number of its in-edges of each relation.

    Args:
        relations, types, options: see :class:`CoreSampler`.
        fan_outs: [L][R] neighbours drawn per hop and relation, the first hop for the targets; -1 takes all, 0 none.
            At each hop one relation has another than 0.
        target_type: the number of the type whose vertices mini-batches start from.

    Raises:
        ValueError: as :class:`CoreSampler` does, and for fan-outs that are not one for each hop and relation.
    """

    def __init__(
        self,
        relations: Sequence[RelationEdges],
        types: Sequence[TypeInParts],
        *,
        fan_outs: Sequence[Sequence[int]],
        target_type: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(relations, types, **options)
        for hop, of_hop in enumerate(fan_outs, start=1):
            if len(of_hop) != len(relations):
                raise ValueError(f"hop {hop} has {len(of_hop)} fan-outs, and there are {len(relations)} relations")
        self._fan_outs = np.array(fan_outs, np.int64).ravel()
        self._target_type = target_type

    def sample(
        self,
        targets: NDArray[np.int64],
        *,
        epoch: int,
        batch: int,
        micro: int = 0,
        num_targets: int | None = None,
        others: NDArray[np.int64] | None = None,
        max_edges: int = NO_LIMIT,
        target_type: int | None = None,
    ) -> bool:
        """Sample a mini-batch; it stays until the next call.

        Returns False, and there is no mini-batch, where it would have more than ``max_edges`` edges.

        Args:
            targets: int64 [number] distinct layout ids of the target type.
            epoch, batch, micro: with seed, hop, relation and global id, all that the draws depend on (law 1).
            num_targets: of all micro-batches of the mini-batch, for the header of segments; by default of this one.
            others: None; nothing starts beside the targets.
            max_edges: that the mini-batch may have over all hops and splits.
            target_type: another type of the targets, by number.

        Raises:
            ValueError: for targets that are out of range or given twice, or rows beyond 32 bits.
            MemoryError: where there is none.

        After an error there is no mini-batch; the next call samples as if the failed one had not been.
        """
        assert others is None
        return self._core.sample(
            np.ascontiguousarray(targets, np.int64),
            self._target_type if target_type is None else target_type,
            self._fan_outs,
            self._seed,
            epoch,
            batch,
            micro,
            len(targets) if num_targets is None else num_targets,
            self._edge_ids,
            max_edges,
        )


class MiniBatchSampler(TypedSampler):
    """Draws neighbours on a graph of one type and one relation; it can exclude edges, and carry pairs.

    Args:
        indptr: int64 [N + 1], CSC.
        indices: int32 or int64 [E], in-neighbours.
        offsets: int64 [P + 1]; part p owns the ids offsets[p] .. offsets[p + 1]. ``[0, N]`` does not split.
        fan_outs: neighbours drawn per hop, the first for the targets; -1 takes all.
        global_ids: int64 [N] layout id -> global id; None where they are the same.
        options: see :class:`CoreSampler`.

    Raises:
        ValueError: as :class:`CoreSampler` does.
    """

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[Any],
        offsets: Sequence[int] | NDArray[np.int64],
        *,
        fan_outs: Sequence[int],
        global_ids: NDArray[np.int64] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            [RelationEdges(indptr=indptr, indices=indices)],
            [TypeInParts(offsets=offsets, global_ids=global_ids)],
            fan_outs=[[fan_out] for fan_out in fan_outs],
            **options,
        )

    def put_pairs(self, pairs: Pairs, *, groups_of_all: int, negatives_of_all: int) -> None:
        """Let the segments of the last mini-batch carry pairs of its targets, each at its scorer.

        Args:
            pairs: of the micro-batch that was sampled.
            groups_of_all: pairs of all micro-batches of the mini-batch.
            negatives_of_all: candidates of those that are not masked.
        """
        none = np.empty(0, np.uint8)
        self._core.put_pairs(
            pairs.targets,
            pairs.sources,
            pairs.destinations,
            pairs.own.ravel(),
            pairs.shared.ravel(),
            pairs.masked.view(np.uint8).ravel() if pairs.masked.any() else none,
            pairs.rows,
            pairs.own_log_q.ravel(),
            pairs.shared_log_q.ravel(),
            pairs.chunk,
            pairs.own_at_source,
            pairs.shared_at_source,
            groups_of_all,
            negatives_of_all,
            pairs.turned,
            pairs.apart,
        )


def typed_sampler_of(layout: Layout, offsets: NDArray[np.int64] | None = None, **options: Any) -> TypedSampler:
    """A sampler of the graph of a layout of several types, whose draws go by global id (law 1).

    Args:
        layout: to sample from.
        offsets: [T, P + 1] which layout ids of each type each split owns; None does not split.
        options: ``fan_outs``, ``seed`` and others of :class:`TypedSampler`; the targets are of the layout's type, or
            of another ``target_type``.
    """
    graph, schema = layout.graph, layout.graph.schema
    if offsets is None:
        offsets = np.array([[0, each.num_vertices] for each in schema.types])
    relations = []
    for number, (relation, edges) in enumerate(zip(schema.relations, graph.adjacencies, strict=True)):
        source, destination = schema.ends(number)
        relations.append(
            RelationEdges(
                indptr=edges.indptr, indices=edges.indices, source=source, destination=destination, name=str(relation)
            )
        )
    types = [
        TypeInParts(offsets=of_type, global_ids=permutation, name=each.name)
        for of_type, permutation, each in zip(offsets, layout.permutations, schema.types, strict=True)
    ]
    return TypedSampler(relations, types, **{"target_type": graph.target, **options})


def sampler_of(
    layout: Layout, offsets: Sequence[int] | NDArray[np.int64] | None = None, **options: Any
) -> MiniBatchSampler:
    """A sampler of a layout's graph of one type, whose draws go by global id (law 1).

    Args:
        layout: to sample from.
        offsets: which layout ids each split owns; None does not split.
        options: ``fan_outs``, ``seed`` and others of :class:`MiniBatchSampler`.
    """
    graph = layout.graph
    whole = [0, graph.num_vertices] if offsets is None else offsets
    return MiniBatchSampler(graph.indptr, graph.indices, whole, global_ids=layout.permutation, **options)
