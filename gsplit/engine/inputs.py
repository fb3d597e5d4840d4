"""What a model computes from: the blocks and the input features of one split."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.minibatch import MiniBatch
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.features.estimates import Estimate
from gsplit.kernels import Edges, StoredRows, TwoWayEdges
from gsplit.models.prepared import Needs
from gsplit.nn import BatchComm, Block, PairBlock, Route
from gsplit.runs.log import level_name
from gsplit.sampling import Segment
from gsplit.supply.ring import Handle

NONE_OF_LAYERS: Mapping[int, Tensor] = MappingProxyType({})
"""What belongs to no layer."""
HOST = torch.device("cpu")


class Inputs(NamedTuple):
    """The arguments of a model's forward."""

    blocks: dict[int, Block]
    """Block of each layer, 1 .. L."""
    x: Tensor
    """[n_0, D] features of the own vertices of level 0."""


class SplitLoader:
    """Loads what belongs to a segment; training, evaluation, predictions and the check of models all use it.

    Args:
        layout: that segments are of.
        device: where the tensors shall be.
        features: loader of feature rows; nobody else may use it, for it counts what it loads.
        edges: loader of edge weights and degrees.
    """

    def __init__(self, layout: Layout, device: torch.device, features: FeatureLoader, edges: EdgeLoader) -> None:
        self.layout, self.device, self.features, self.edges = layout, device, features, edges

    @classmethod
    def from_host(
        cls,
        layout: Layout,
        needs: Needs,
        *,
        dtype: torch.dtype,
        row_dtype: torch.dtype | None = None,
        device: torch.device = HOST,
        estimate: Estimate = "ratio",
        rows: HostRows | None = None,
        normalize: bool = False,
        threads: int = 1,
    ) -> SplitLoader:
        """Make a loader of its own, without a cache.

        Args:
            layout: that segments are of, with features.
            needs: what the model wants of its blocks.
            dtype: of the model's parameters.
            row_dtype: of the features that it is given; None: the same.
            device: where the tensors shall be.
            estimate: what sums over edges with scales are made of.
            rows: of the host; None: as the layout stores them.
            normalize, threads: see :class:`gsplit.features.FeatureLoader`.
        """
        graph = layout.graph
        if rows is None:
            assert graph.features is not None
            rows = HostRows(graph.features)
        features = FeatureLoader(rows, device=device, dtype=row_dtype or dtype, normalize=normalize, threads=threads)
        edges = EdgeLoader(graph, device=device, dtype=dtype, estimate=estimate, **needs)
        return cls(layout, device, features, edges)

    def mini_batch(
        self,
        segment: Segment,
        comm: BatchComm,
        *,
        handle: Handle,
        x: Tensor | StoredRows,
        share_of_whole: float | None = None,
    ) -> MiniBatch:
        """Make this trainer's share of a mini-batch, all but its features loaded here.

        Args:
            segment: of this trainer.
            comm: of the mini-batch.
            handle: ticket of the mini-batch.
            x: [n_0, D] features of the own vertices of level 0, loaded by :attr:`features`.
            share_of_whole: see :class:`MiniBatch`; it counts where the rule draws targets.
        """
        data = accelerator.moved(segment.data, self.device)
        return MiniBatch(
            handle=handle,
            num_targets=segment.num_targets,
            comm=comm,
            blocks=self.blocks(segment, comm, data),
            pairs=None if segment.pairs is None else pair_block_of(segment, data, comm, self.pair_weights(segment)),
            x=x,
            labels=self.labels(segment),
            loaded=self.features.take_counters(),
            counts=segment_counts(segment),
            targets=segment.targets.copy(),  # the segment's memory is another mini-batch's soon
            target_weights=self.target_weights(segment),
            share_of_whole=share_of_whole if segment.has_drawn_targets else None,
            seconds={},
        )

    @property
    def weights(self) -> bool:
        """Whether segments must carry edge ids."""
        return self.edges.weights

    def inputs(self, segment: Segment, comm: BatchComm | None) -> Inputs:
        """Blocks and features of a split.

        Args:
            segment: of this trainer.
            comm: of the mini-batch; None where the segment is not split.
        """
        return Inputs(self.blocks(segment, comm), self.features.load(segment.vertices))

    def blocks(self, segment: Segment, comm: BatchComm | None, data: Tensor | None = None) -> dict[int, Block]:
        """The blocks alone, where the rows do not come from the features; ``data`` is the segment on the device."""
        loops = self._loops(segment)
        return blocks_of(segment, self.device, comm, **self.edges.load(segment), graph_loops=loops, data=data)

    def whole_blocks(self, segment: Segment) -> dict[int, Block]:
        """Blocks of all neighbours, not split, which answer out-degrees with those of the whole graph."""

        def out_degrees() -> Tensor:
            return self.edges.out_degrees(segment.vertices)

        return blocks_of(
            segment,
            self.device,
            None,
            **self.edges.load(segment),
            whole_out_degrees=out_degrees,
            graph_loops=self._loops(segment),
        )

    def _loops(self, segment: Segment) -> Callable[[], Tensor]:
        # A model asks in forward, when the slot that the segment came in may hold another one; the CPU has a copy.
        vertices = segment.vertices.copy() if accelerator.is_one(self.device) else segment.vertices
        return cache(lambda: self.edges.loops_of(vertices))

    def target_weights(self, segment: Segment) -> Tensor | None:
        """Load what each own target counts, [n_L] in the dtype of the model; None where the rule draws no targets."""
        scales = segment.target_scales()
        return None if scales is None else self.edges.tensor(scales.copy())

    def pair_weights(self, segment: Segment) -> Tensor | None:
        """Load what each pair that is scored here counts, [G] in the dtype of the model; None: 1."""
        links = self.layout.graph.links
        if links is None or links.train_weights is None:
            return None
        return self.edges.tensor(links.train_weights[segment.pair_rows])

    def labels(self, segment: Segment) -> Tensor:
        """Labels of the split's own targets: int64 [n_L], or [n_L, C] where each vertex may have several."""
        return accelerator.moved(self.layout.graph.labels[segment.targets], self.device)


def blocks_of(
    segment: Segment,
    device: torch.device,
    comm: BatchComm | None,
    *,
    edge_weights: dict[int, Tensor] | None = None,
    send_weights: Mapping[int, Tensor] = NONE_OF_LAYERS,
    drawn_weights: Mapping[int, Tensor] = NONE_OF_LAYERS,
    degrees: Tensor | None = None,
    edge_scales: Mapping[int, Tensor] = NONE_OF_LAYERS,
    whole_degrees: Mapping[int, Tensor] = NONE_OF_LAYERS,
    sums_all: Container[int] = (),
    whole_out_degrees: Callable[[], Tensor] | None = None,
    graph_loops: Callable[[], Tensor] | None = None,
    data: Tensor | None = None,
) -> dict[int, Block]:
    """The blocks of all layers, keyed 1 .. L. Copies the segment to the device in one piece.

    Args:
        segment: this trainer's; unsplit (one part) where ``comm`` is None.
        device: where the blocks shall be.
        comm: the communicator of the mini-batch.
        edge_weights: [edges] of each layer, on the device.
        send_weights: [own rows sent or summed] of the layers that send weighted sums, on the device.
        drawn_weights: [num_destinations] of the layers where others sum weighted in-edges, on the device.
        degrees: [num_own_sources of layer 1] degrees of the segment's vertices in the whole graph, on the device.
        edge_scales: [edges] of the layers whose sums are estimates, on the device.
        whole_degrees: [num_destinations] of the same layers, int32 numbers of all in-edges, on the device.
        sums_all: layers whose sums stand for all in-edges.
        whole_out_degrees: gives the out-degrees of the same vertices, for blocks with all neighbours.
        graph_loops: says which of the same vertices have an edge to themselves.
        data: the segment on the device, where it has been copied before.
    """
    assert comm is not None or segment.parts == 1
    view = _views(accelerator.moved(segment.data, device) if data is None else data)
    blocks: dict[int, Block] = {}
    for layer, header in segment.layers.items():
        route = None
        if comm is not None and segment.parts > 1:
            send_rows, sums = view(header.send_rows_at, header.num_send_rows, torch.int32), None
            if header.send_indptr_at:
                indptr = view(header.send_indptr_at, sum(header.send_counts) + 1, torch.int32)
                sums = TwoWayEdges(Edges(indptr=indptr, indices=send_rows), header.num_own_sources)
            route = Route(
                send_rows=send_rows,
                sums=sums,
                send_counts=header.send_counts,
                receive_counts=header.receive_counts,
                layer=layer,
                always_returns=layer > 1,
            )
        at = header.in_degrees_at
        in_degrees = view(at, header.num_destinations, torch.int32) if at else whole_degrees.get(layer)
        below = segment.layers.get(layer - 1)
        is_block_below = below is not None and below.indices_at == header.indices_at
        blocks[layer] = Block(
            num_destinations=header.num_destinations,
            num_own_sources=header.num_own_sources,
            indptr=view(header.indptr_at, header.num_destinations + 1, torch.int32),
            indices=view(header.indices_at, header.num_edges, torch.int32),
            num_own_edges=header.num_own_edges,
            edge_ids=view(header.edge_ids_at, header.num_edges, torch.int64) if segment.has_edge_ids else None,
            edge_weight=None if edge_weights is None else edge_weights[layer],
            degrees=None if degrees is None else degrees[: header.num_own_sources],
            whole_out_degrees=whole_out_degrees,
            graph_loops=graph_loops,
            route=route,
            comm=comm,
            send_weight=send_weights.get(layer),
            sampled_degrees=in_degrees,
            edge_scale=edge_scales.get(layer),
            drawn_weights=drawn_weights.get(layer),
            sums_all=layer in sums_all,
            same_edges=blocks[layer - 1].two_way if is_block_below else None,
        )
    return blocks


def pair_block_of(segment: Segment, data: Tensor, comm: BatchComm, weights: Tensor | None) -> PairBlock:
    """The pairs that a split scores, of a segment that lies on the device as ``data``."""
    header, view = segment.pairs, _views(data)
    assert header is not None
    groups, own, shared = header.num_groups, header.num_own_candidates, header.num_shared_candidates
    masked = None
    if header.masked_at:
        masked = view(header.masked_at, groups * (own + shared), torch.bool).view(groups, own + shared)
    route = None
    if segment.parts > 1:
        route = Route(
            send_rows=view(header.send_rows_at, sum(header.send_counts), torch.int32),
            send_counts=header.send_counts,
            receive_counts=header.receive_counts,
            layer=segment.num_layers + 1,
            always_returns=True,
        )
    return PairBlock(
        sources=view(header.sources_at, groups, torch.int32),
        destinations=view(header.destinations_at, groups, torch.int32),
        own=view(header.own_candidates_at, groups * own, torch.int32).view(groups, own),
        shared=view(header.shared_candidates_at, header.num_chunks * shared, torch.int32).view(
            header.num_chunks, shared
        ),
        chunk_groups=segment.chunk_groups.tolist(),
        own_at_source=header.own_at_source,
        shared_at_source=header.shared_at_source,
        masked=masked,
        own_log_q=_log_q(view, header.own_log_q_at, (groups, own)),
        shared_log_q=_log_q(view, header.shared_log_q_at, (header.num_chunks, shared)),
        rows=segment.pair_rows.copy(),  # the segment's memory is another mini-batch's soon
        groups_of_all=header.groups_of_all,
        negatives_of_all=header.negatives_of_all,
        turned=header.turned,
        num_apart=header.num_apart,
        weights=weights,
        route=route,
        comm=comm,
    )


def _log_q(view: Callable[[int, int, torch.dtype], Tensor], at: int, shape: tuple[int, ...]) -> Tensor | None:
    return view(at, math.prod(shape), torch.float32).view(shape) if at else None


def _views(data: Tensor) -> Callable[[int, int, torch.dtype], Tensor]:
    """A function that views ``count`` values of a type from a byte of ``data`` on."""

    def view(at: int, count: int, dtype: torch.dtype) -> Tensor:
        return data[at : at + count * dtype.itemsize].view(dtype)

    return view


def segment_counts(segment: Segment) -> dict[str, int]:
    """Count a split's edges, vertices of each level and bytes of the segment (docs/formats.md, "Run")."""
    return {
        "sampled_edges": segment.num_edges,
        "computed_edges": segment.num_computed_edges,
        "segment_bytes": segment.num_bytes,
        **_pair_counts(segment),
        **vertex_counts([sum(of_types) for of_types in zip(*segment.levels, strict=True)]),
    }


def vertex_counts(sizes: Sequence[int]) -> dict[str, int]:
    """Count vertices by the sizes of the levels 0 .. L."""
    return {"computed_vertices": sum(sizes[1:]), **{level_name(level): size for level, size in enumerate(sizes)}}


def _pair_counts(segment: Segment) -> dict[str, int]:
    """Count a split's pairs and candidates, and the rows that it sends for those of others; nothing without pairs."""
    header = segment.pairs
    if header is None:
        return {}
    beside = header.num_groups * (header.num_own_candidates + header.num_shared_candidates)
    return {
        "pairs": header.num_groups - header.num_apart,
        "candidates": beside + header.num_apart + header.num_left_out,
        "masked_candidates": int(segment.masked_candidates.sum()) + header.num_left_out,
        "score_rows": sum(header.send_counts),
    }
