"""The work of a run on the whole graph, in numbers: what memory and seconds of its plans are predicted from.

Legend: P trainers, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a run, in numbers."""

    sizes: NDArray[np.int64]
    """[P, L + 1] rows of each level."""
    by_owner: NDArray[np.int64]
    """[L, P, P] edges of each layer, by the owners of destination and source."""
    needed: Mapping[int, NDArray[np.int64]]
    """Rows that each trainer needs of each other, [P, P] by layer; by covers, rows and sums that it is sent."""
    spared: Mapping[int, NDArray[np.int64]]
    """By covers, edges that each other trainer sums over for one, less the sums, [P, P] by layer; else none."""
    near: NDArray[np.float64]
    """[places] rows out of which edges that are summed one after another read, as if by chance."""
    process_bytes: int
    """What a trainer has before it has anything of the graph."""
    own_vertices: NDArray[np.int64]
    """[P] vertices of each trainer, in levels or not."""
    own_edges: NDArray[np.int64]
    """[P] edges into these."""
    widths: tuple[int, ...]
    """[L + 1] widths of the levels."""
    itemsize: int
    """Bytes of a number: of features, weights, sums of features, norms."""
    row_itemsize: int
    """Bytes of a number of hidden rows and their gradients, on the host."""
    level_itemsize: int
    """Bytes of a number of the hidden levels of evaluation."""
    weights: bool
    """Whether edges have weights that the model takes."""
    attends: bool
    """Whether layers weigh edges by themselves."""
    covers: bool
    """Whether ``1d-sparse`` sends minimum covers of edges, of rows and sums, in the place of needed rows."""
    scales: bool
    """Whether rows are multiplied by factors before they are summed."""
    kept: bool
    """Whether the sums of the first layer are kept."""
    trained: bool
    """Whether features are trained."""
    between: int
    """Tensors beside its output that a hidden layer keeps for backward: of norms and skips."""
    heads: int
    """Heads of attention; 0 where there is none."""
    loops: bool
    """Whether attention has edges from vertices to themselves that the graph has not."""
    projected: tuple[int, ...]
    """[L] widths of the rows that attention sums; none where there is none."""
    keeps_rows: bool
    """Whether a layer multiplies its rows by weights beside its sums, or before them: not of a GCN."""
    drops: bool
    """Whether numbers of hidden rows are dropped."""
    drops_input: bool
    """Whether numbers of the features are dropped."""
    drops_shares: bool
    """Whether attention drops edges."""
    projection: int
    """Width that features are projected to before the first layer; 0 where they are not."""
    head: int
    """Width of the last layer, where its rows are projected to logits; 0 where they are these."""
    skips: bool
    """Whether rows skip layers."""
    norms: bool
    """Whether hidden rows are normalised."""
    norm: str
    """The normalisation of hidden rows, ``none`` where there is none."""
    by_norms: int
    """Tensors that a normalisation keeps for backward on a device."""
    recomputes: bool
    """Whether all layers but the last are computed again in backward, and keep their inputs alone."""
    in_slices: bool
    """Whether sums on grids are taken in slices of columns (:mod:`gsplit.nn.slices`)."""
    parameters: int
    """Number of weights."""
    evaluates: bool
    """Whether anything is evaluated."""

    @property
    def trainers(self) -> int:
        """P."""
        return len(self.sizes)

    @property
    def layers(self) -> int:
        """L."""
        return len(self.widths) - 1

    def inputs(self, layer: int) -> int:
        """Width of the rows that a layer is given."""
        return self.projection or self.widths[0] if layer == 1 else self.widths[layer - 1]

    def outputs(self, layer: int) -> int:
        """Width of the rows that a layer gives."""
        return self.head or self.widths[-1] if layer == self.layers else self.widths[layer]

    def moved_itemsize(self, layer: int) -> int:
        """Bytes of a number of the rows that a layer sums: of features, where it takes these as they are."""
        as_they_are = layer == 1 and not self.projection and self.summed(1) == self.widths[0]
        return self.itemsize if as_they_are else self.row_itemsize

    def summed(self, layer: int) -> int:
        """Width of the rows that a layer sums."""
        if self.projected:
            return self.projected[layer - 1]
        wide, narrow = self.widths[layer - 1], min(self.widths[layer - 1 : layer + 1])
        return self.widths[layer] if self.attends else wide if layer == 1 and self.kept else narrow
