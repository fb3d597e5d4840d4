"""What blocks need of the graph beside the sampled structure: weights of the drawn edges, degrees of vertices."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import GraphArrays
from gsplit.data.graph import row_ranges, slots
from gsplit.device import accelerator
from gsplit.features.estimates import Estimate, edge_factors
from gsplit.sampling.segment import Segment

PIECE_EDGES = 1 << 24
"""Edges that are read at a time."""
PIECE_WEIGHTS = 1 << 18
"""Weights that are summed at a time."""


class EdgeData(TypedDict):
    """The named arguments of :func:`gsplit.engine.inputs.blocks_of`."""

    edge_weights: dict[int, Tensor] | None
    """[edges] weights of the edges of each layer's block, 1 of those from sums; None where the model uses none."""
    send_weights: dict[int, Tensor]
    """[own rows sent or summed] factors of the rows, for layers that send weighted sums."""
    drawn_weights: dict[int, Tensor]
    """[num_destinations] weights of all in-edges drawn, for layers where others sum some of them."""
    degrees: Tensor | None
    """[level_sizes[0]] degrees in the graph, without the edges that the mini-batch must not see, weighted where edges
    are; None where the model uses none."""
    edge_scales: dict[int, Tensor]
    """[edges] what each edge of a layer counts in sums and means that know no weights; of rules with scales."""
    whole_degrees: dict[int, Tensor]
    """[num_destinations] int32 numbers of in-edges in the whole graph, which such sums stand for."""
    sums_all: frozenset[int]
    """Layers whose sums stand for all in-edges in the whole graph, as far as models that take weights ask."""


class Estimated(NamedTuple):
    """The kept in-edges of some vertices, where their sums stand for those over all."""

    scales: NDArray[np.float64]
    """[edges] what each counts in sums and means that know no weights."""
    numbers: NDArray[np.int32]
    """[destinations] numbers of in-edges in the whole graph."""
    weights: NDArray[np.float64] | None = None
    """[edges] what each counts in weighted sums; None where there are none, or the model takes none."""
    whole_weights: NDArray[np.float64] | None = None
    """[destinations] weights of all in-edges in the whole graph."""


class EdgeLoader:
    """Looks edge data up in the mapped arrays of a graph; only what the model uses.

    Args:
        graph: of the layout.
        device: where the tensors shall be.
        dtype: in which the model computes.
        weights: carry edge weights, where the graph has any. The segments must carry edge ids then.
        degrees: carry the degrees of vertices.
        estimate: what sums over edges with scales are made of (:mod:`gsplit.features.estimates`).
    """

    def __init__(
        self,
        graph: GraphArrays,
        *,
        device: torch.device,
        dtype: torch.dtype,
        weights: bool,
        degrees: bool,
        estimate: Estimate = "ratio",
    ) -> None:
        self._graph, self._device, self._dtype = graph, device, dtype
        self._estimate, self._takes_weights = estimate, weights
        self.weights = weights and graph.edge_weight is not None
        self.degrees = degrees

    def load(self, segment: Segment) -> EdgeData:
        """The edge data of one split, on the device, in the type that the model computes in."""
        if segment.has_scales:
            return self._load_estimates(segment)
        weights: dict[int, Tensor] = {}
        send_weights: dict[int, Tensor] = {}
        drawn_weights: dict[int, Tensor] = {}
        for layer, header in segment.layers.items() if self.weights else ():
            ids = segment.edge_ids(layer)
            if ids is None:
                raise ValueError("the segment carries no edge ids, which the weights of its edges are found by")
            weights[layer] = self.tensor(self._weights_of(ids))
            send_ids = segment.send_ids(layer)
            if send_ids is not None:
                send_weights[layer] = self.tensor(self._weights_of(send_ids))
            if header.in_degrees_at:
                drawn_weights[layer] = self.tensor(self._drawn_weights_of(segment, layer, ids))
        return {
            "edge_weights": weights if self.weights else None,
            "send_weights": send_weights,
            "drawn_weights": drawn_weights,
            "degrees": self.tensor(self._degrees_seen(segment)) if self.degrees else None,
            "edge_scales": {},
            "whole_degrees": {},
            "sums_all": frozenset(layer for layer in weights if self.degrees and self._draws_all(segment, layer)),
        }

    def _draws_all(self, segment: Segment, layer: int) -> bool:
        destinations = segment.vertices[: segment.layers[layer].num_destinations]
        whole = (self._graph.indptr[destinations + 1] - self._graph.indptr[destinations]).sum()
        return bool(segment.in_degrees(layer).sum(dtype=np.int64) == whole - len(segment.excluded[0]))

    def _degrees_seen(self, segment: Segment) -> NDArray[np.float64]:
        """Degrees of a split's vertices in the graph without the edges that the mini-batch must not see."""
        degrees, (rows, ids) = self.host_degrees_of(segment.vertices), segment.excluded
        np.subtract.at(degrees, rows, self._weights_of(ids) if self.weights else 1)
        vertices = segment.vertices[rows]
        none = np.bincount(rows)[rows] == self._graph.indptr[vertices + 1] - self._graph.indptr[vertices]
        degrees[rows[none]] = 0  # differences of weights are rounded
        return degrees

    def _load_estimates(self, segment: Segment) -> EdgeData:
        """The edge data where edges have scales: sums over them are estimates of those over all in-edges.

        Blocks that share a layer share its data.
        """
        data: EdgeData = {
            "edge_weights": {} if self._takes_weights else None,
            "send_weights": {},
            "drawn_weights": {},
            "degrees": self.degrees_of(segment.vertices) if self.degrees else None,
            "edge_scales": {},
            "whole_degrees": {},
            "sums_all": frozenset(segment.layers),
        }
        for layer, header in segment.layers.items():
            below = segment.layers.get(layer - 1)
            if below is not None and below.indices_at == header.indices_at:
                for part in (data["edge_weights"], data["edge_scales"], data["whole_degrees"], data["drawn_weights"]):
                    if part is not None and layer - 1 in part:
                        part[layer] = part[layer - 1]
            else:
                self._load_estimate(segment, layer, data)
        return data

    def _load_estimate(self, segment: Segment, layer: int, data: EdgeData) -> None:
        scales = segment.scales(layer)
        assert scales is not None
        each = scales[segment.indices(layer)]
        rows = np.repeat(np.arange(segment.layers[layer].num_destinations), np.diff(segment.indptr(layer)))
        if segment.sure_loops:
            each[segment.indices(layer) == rows] = 1  # the first sources are the destinations
        destinations = segment.vertices[: segment.layers[layer].num_destinations]
        found = self.estimated(destinations, rows, each, segment.edge_ids(layer))
        data["edge_scales"][layer] = self.tensor(found.scales)
        data["whole_degrees"][layer] = accelerator.moved(found.numbers, self._device)
        if data["edge_weights"] is None:
            return
        if found.weights is None or found.whole_weights is None:
            data["edge_weights"][layer] = data["edge_scales"][layer]
            return
        data["edge_weights"][layer] = self.tensor(found.weights)
        data["drawn_weights"][layer] = self.tensor(found.whole_weights)

    def estimated(
        self,
        destinations: NDArray[np.int64],
        rows: NDArray[np.integer],
        scales: NDArray[np.float32],
        ids: NDArray[np.int64] | None,
    ) -> Estimated:
        """What the kept in-edges of some vertices count, for sums that stand for all.

        Args:
            destinations: [n] layout ids.
            rows: [edges] the destination of each kept edge, from 0 on; all kept edges of a destination are there.
            scales: [edges] of the sources.
            ids: [edges] positions in the layout; None where the model takes no weights.

        Raises:
            ValueError: without positions for a model that takes weights.
        """
        numbers = self._graph.indptr[destinations + 1] - self._graph.indptr[destinations]
        factors = edge_factors(scales, rows, numbers.astype(np.float64), None, self._estimate)
        found = Estimated(scales=factors, numbers=numbers.astype(np.int32))
        if not self.weights:
            return found
        if ids is None:
            raise ValueError("the segment carries no edge ids, which the weights of its edges are found by")
        weights, whole = self._weights_of(ids).astype(np.float64), self._weighted_degrees_of(destinations)
        weighted = weights * edge_factors(scales, rows, whole, weights, self._estimate)
        return found._replace(weights=weighted, whole_weights=whole)

    def degrees_of(self, vertices: NDArray[np.int64]) -> Tensor:
        """Degrees of vertices in the whole graph, [n] on the device; of weights where edges carry them.

        Args:
            vertices: int64 [n] layout ids.
        """
        return self.tensor(self.host_degrees_of(vertices))

    def host_degrees_of(self, vertices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what :meth:`degrees_of` gives, float64 [n], on the host."""
        if self.weights:
            return self._weighted_degrees_of(vertices)
        return (self._graph.indptr[vertices + 1] - self._graph.indptr[vertices]).astype(np.float64)

    def degrees_in(self, begin: int, end: int) -> Tensor:
        """Degrees of the vertices ``begin .. end``, as :meth:`degrees_of` gives them; no other edges are read."""
        if self.weights:
            return self.tensor(self.weighted_degrees(begin, end))
        return self.tensor(np.diff(self._graph.indptr[begin : end + 1]).astype(np.float64))

    def loops_of(self, vertices: NDArray[np.int64]) -> Tensor:
        """Return whether vertices have an edge to themselves in the whole graph, bool [n], on the device.

        Args:
            vertices: int64 [n] layout ids.
        """
        return accelerator.moved(self._loops[vertices], self._device)

    @cached_property
    def _loops(self) -> NDArray[np.bool_]:
        """Mask of vertices with an edge to themselves, bool [N]; made once, when a model asks, piece by piece."""
        indptr, found = self._graph.indptr, np.zeros(self._graph.num_vertices, np.bool_)
        for a, b in row_ranges(indptr, PIECE_EDGES):
            destinations = np.repeat(np.arange(a, b), np.diff(indptr[a : b + 1]))
            found[destinations[self._graph.indices[indptr[a] : indptr[b]] == destinations]] = True
        return found

    def _weights_of(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Weights of edges, 1 where the id is -1."""
        assert self._graph.edge_weight is not None
        found: NDArray[np.float32] = self._graph.edge_weight[ids]
        if (ids < 0).any():
            found[ids < 0] = 1
        return found

    def _drawn_weights_of(self, segment: Segment, layer: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums of the weights of all in-edges that were drawn, by any trainer, float64 [num_destinations]."""
        n = segment.layers[layer].num_destinations
        destinations = np.repeat(np.arange(n), np.diff(segment.indptr(layer)))[ids >= 0]
        moved_rows, moved_ids = segment.moved(layer)
        rows, drawn = np.concatenate([destinations, moved_rows]), np.concatenate([ids[ids >= 0], moved_ids])
        return np.bincount(rows, self._weights_of(drawn), minlength=n).astype(np.float64)

    def out_degrees(self, vertices: NDArray[np.int64]) -> Tensor:
        """Degrees of the out-edges of vertices in the whole graph, int64 [n], on the device.

        Args:
            vertices: int64 [n] layout ids.
        """
        return accelerator.moved(self._out_degrees[vertices], self._device)

    @cached_property
    def _out_degrees(self) -> NDArray[np.int64]:
        """Degrees of the out-edges of all vertices, int64 [N]; counted once, when a model asks, piece by piece."""
        n, indices = self._graph.num_vertices, self._graph.indices
        counts = np.zeros(n, np.int64)
        for begin in range(0, len(indices), PIECE_EDGES):
            counts += np.bincount(indices[begin : begin + PIECE_EDGES], minlength=n)
        return counts

    def _weighted_degrees_of(self, vertices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums of the weights of all in-edges of vertices, float64 [n]; of each they are read once in a run."""
        known = self._weighted_degree_N
        new = np.unique(vertices[np.isnan(known[vertices])])
        begins, counts = self._graph.indptr[new], self._graph.indptr[new + 1] - self._graph.indptr[new]
        ends = np.concatenate([[0], np.cumsum(counts)])
        for a, b in row_ranges(ends, PIECE_WEIGHTS):
            known[new[a:b]] = self._sums_over(slots(begins[a:b], counts[a:b]), ends[a : b + 1] - ends[a])
        return known[vertices]

    @cached_property
    def _weighted_degree_N(self) -> NDArray[np.float64]:
        """Those that are known, float64 [N]; NaN of others."""
        return np.full(self._graph.num_vertices, np.nan)

    def weighted_degrees(self, begin: int, end: int) -> NDArray[np.float64]:
        """Sums of the weights of the in-edges of the vertices ``begin .. end``, read piece by piece."""
        sums = np.zeros(end - begin)
        indptr = self._graph.indptr[begin : end + 1]
        for a, b in row_ranges(indptr, PIECE_WEIGHTS):
            sums[a:b] = self._sums_over(slice(indptr[a], indptr[b]), indptr[a : b + 1] - indptr[a])
        return sums

    def _sums_over(self, at: slice | NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums of weights, float64 [n]: of edges ``at``, those of vertex v from ``ends[v]`` to ``ends[v + 1]``."""
        assert self._graph.edge_weight is not None
        sums, some = np.zeros(len(ends) - 1), np.diff(ends) > 0  # reduceat has no empty sums
        if some.any():
            sums[some] = np.add.reduceat(self._graph.edge_weight[at], ends[:-1][some], dtype=np.float64)
        return sums

    def tensor(self, values: NDArray[np.floating]) -> Tensor:
        """Numbers of edges or vertices as the model computes with them: on its device, in its dtype."""
        return accelerator.moved(torch.from_numpy(np.ascontiguousarray(values)).to(self._dtype), self._device)
