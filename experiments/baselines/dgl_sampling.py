"""DGL's NeighborSampler (1.1.3) on a graph of ours, and whether what it draws is a sample at all.

DGL offers four forms: ids of 64 or 32 bits, and a fused or an unfused kernel. One of them, 32 bits fused, returns
corrupt blocks from its second mini-batch on: it keeps a map of vertices between mini-batches and does not clean it. A
rate of such a form means nothing, so every form is checked by :func:`fault_of` before it is timed, on several
mini-batches that one sampler draws after each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to call DGL's sampler."""

    bits: int
    """Bits of an id: 32 or 64."""
    fused: bool

    @property
    def name(self) -> str:
        return f"int{self.bits} {'fused' if self.fused else 'unfused'}"

    def fits(self, num_vertices: int, num_edges: int) -> bool:
        """Whether the ids of vertices and edges have so many bits."""
        return max(num_vertices, num_edges) < 2 ** (self.bits - 1)


EDGES_AT_ONCE = 1 << 22
"""Checked in pieces, so that little memory is needed beside the blocks."""

DEFAULT = Form(bits=64, fused=True)
FORMS = (DEFAULT, Form(bits=32, fused=False), Form(bits=64, fused=False), Form(bits=32, fused=True))
QUICK_FORMS = tuple(form for form in FORMS if form.fused or form.bits == 32)
"""Without the unfused form on 64 bits, which does the work of that on 32 bits with twice the bytes."""


@dataclass(frozen=True, kw_only=True)
class DrawnBlock:
    """One of DGL's blocks as arrays: S sources, D destinations, K edges."""

    sources: NDArray[Any]
    """[S] vertices."""
    destinations: NDArray[Any]
    """[D] vertices."""
    edge_sources: NDArray[Any]
    """[K] rows of ``sources``."""
    edge_destinations: NDArray[Any]
    """[K] rows of ``destinations``."""
    edge_ids: NDArray[Any]
    """[K] positions in the ``indices`` of the graph."""


def dgl_graph(indptr: NDArray[np.int64], indices: NDArray[Any], bits: int) -> Any:
    """A DGLGraph in CSC with ids of 32 or 64 bits.

    Raises:
        InputError: where DGL cannot be imported.
    """
    dgl = _import_dgl()
    import torch

    dtype = _dtype(bits)
    # Copies by PyTorch, whose memory is what a user of DGL has; NumPy's may lie in huge pages.
    arrays = [torch.tensor(array, dtype=dtype) for array in (indptr, indices)]
    return dgl.graph(("csc", (*arrays, torch.empty(0, dtype=dtype))), num_nodes=len(indptr) - 1)


class DGLSampler:
    """A NeighborSampler and its graph.

    Args:
        graph: with ids of the form's bits.
        fan_outs: by hop, the first for the targets; DGL counts them from the input layer.
    """

    def __init__(self, graph: Any, form: Form, fan_outs: Sequence[int]) -> None:
        self._graph = graph
        self._dtype = _dtype(form.bits)
        self._sampler = _import_dgl().dataloading.NeighborSampler(list(reversed(fan_outs)), fused=form.fused)

    def tensor(self, targets: NDArray[np.int64]) -> Any:
        """Targets as :meth:`sample` takes them."""
        import torch

        return torch.tensor(targets, dtype=self._dtype)

    def sample(self, targets: Any) -> list[Any]:
        """DGL's blocks, that of the targets last."""
        return self._sampler.sample_blocks(self._graph, targets)[2]


def _import_dgl() -> Any:
    # Here and not above: this brings torch, which must not be there before the number of its threads is set.
    from gsplit.data.importers.formats.dgl import import_dgl

    return import_dgl()


def _dtype(bits: int) -> Any:
    import torch

    return torch.int32 if bits == 32 else torch.int64


def drawn(block: Any) -> DrawnBlock:
    """The arrays of one of DGL's blocks."""
    edge_sources, edge_destinations = block.edges()
    return DrawnBlock(
        sources=block.srcdata["_ID"].numpy(),
        destinations=block.dstdata["_ID"].numpy(),
        edge_sources=edge_sources.numpy(),
        edge_destinations=edge_destinations.numpy(),
        edge_ids=block.edata["_ID"].numpy(),
    )


def fault_of(
    blocks: Sequence[DrawnBlock],
    targets: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    fan_outs: Sequence[int],
) -> str | None:
    """What makes a mini-batch no sample of the neighbourhoods of its targets, in a few words; None for a good one.

    Args:
        blocks: that of the targets last, as DGL lists them.
        fan_outs: by hop, the first for the targets.
    """
    wanted: NDArray[Any] = targets
    for hop, (block, fan_out) in enumerate(zip(reversed(blocks), fan_outs, strict=True), start=1):
        if not np.array_equal(block.destinations, wanted):
            return f"hop {hop}: the destinations are not the {len(wanted)} vertices of the hop before"
        fault = _fault_of_block(block, indptr, indices, fan_out)
        if fault:
            return f"hop {hop}: {fault}"
        wanted = block.sources
    return None


def _fault_of_block(block: DrawnBlock, indptr: NDArray[np.int64], indices: NDArray[Any], fan_out: int) -> str | None:
    n, num_edges = len(indptr) - 1, len(indices)
    num_destinations = len(block.destinations)
    for ids, end, what in (
        (block.sources, n, "source ids"),
        (block.edge_ids, num_edges, "edge ids"),
        (block.edge_sources, len(block.sources), "source rows"),
        (block.edge_destinations, num_destinations, "destination rows"),
    ):
        outside = int(((ids < 0) | (ids >= end)).sum())
        if outside:
            return f"{outside} of {len(ids)} {what} are out of range"
    if not np.array_equal(block.sources[:num_destinations], block.destinations):
        return "the destinations are not the first sources"
    if _distinct(block.sources, n) != len(block.sources):
        return "a vertex is twice among the sources"
    strangers = sum(
        _strangers(block, slice(begin, begin + EDGES_AT_ONCE), indptr, indices)
        for begin in range(0, len(block.edge_ids), EDGES_AT_ONCE)
    )
    if strangers:
        return f"{strangers} of {len(block.edge_ids)} sources are no in-neighbours of their destination"
    if _distinct(block.edge_ids, num_edges) != len(block.edge_ids):
        return "a neighbour was drawn twice"
    degrees = indptr[block.destinations + 1] - indptr[block.destinations]
    expected = degrees if fan_out < 0 else np.minimum(degrees, fan_out)
    if not np.array_equal(np.bincount(block.edge_destinations, minlength=num_destinations), expected):
        return "a destination has other than min(degree, fan-out) neighbours"
    return None


def _strangers(block: DrawnBlock, piece: slice, indptr: NDArray[np.int64], indices: NDArray[Any]) -> int:
    """Edges of a piece that the graph has not, or not at the position they claim."""
    destinations = block.destinations[block.edge_destinations[piece]]
    ids = block.edge_ids[piece]
    in_row = (indptr[destinations] <= ids) & (ids < indptr[destinations + 1])
    return int((~in_row | (indices[ids] != block.sources[block.edge_sources[piece]])).sum())


def _distinct(ids: NDArray[Any], end: int) -> int:
    """How many different ids below ``end``; a mark for each, which takes a fraction of the time of sorting."""
    marks = np.zeros(end, bool)
    marks[ids] = True
    return int(np.count_nonzero(marks))
