"""LADIES by other means: DGL's primitives, as its examples use them, and products of SciPy's sparse matrices.

Each samples a mini-batch of L hops and returns, hop by hop, the sources that were drawn and the number of edges kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Hops = list[tuple[int, int]]
"""Sources drawn and edges kept, by hop."""


class DGLLadies:
    """LADIES of DGL's examples: in-subgraph, sums of squares, a draw, and the block of what was drawn.

    Args:
        indptr, indices: in-edges by destination.
        poisson: draw each source with a chance of its own, as DGL's ``PoissonLadiesSampler`` does; else a fixed
            number without replacement by ``torch.multinomial``.
    """

    def __init__(self, indptr: NDArray[np.int64], indices: NDArray[Any], *, poisson: bool) -> None:
        import dgl
        import torch

        self._dgl, self._torch, self._poisson = dgl, torch, poisson
        tensors = torch.from_numpy(np.array(indptr)), torch.from_numpy(np.array(indices, np.int64))
        self._graph = dgl.graph(("csc", (*tensors, torch.empty(0, dtype=torch.int64)))).formats(["csc"])
        degrees = self._graph.in_degrees().clamp(min=1).float()
        self._graph.edata["w"] = (1 / degrees).repeat_interleave(torch.diff(tensors[0]))
        torch.manual_seed(0)

    def sample(self, targets: NDArray[np.int64], sizes: tuple[int, ...]) -> Hops:
        """A mini-batch; see the module."""
        dgl, torch = self._dgl, self._torch
        seeds, hops = torch.from_numpy(targets), Hops()
        for size in sizes:
            inner = dgl.compact_graphs(dgl.in_subgraph(self._graph, seeds), seeds)
            weight = self._graph.edata["w"][inner.edata[dgl.EID]]
            mass = dgl.ops.copy_e_sum(dgl.reverse(inner), weight**2)
            number = min(size, int((mass > 0).sum()))
            if self._poisson:
                share = (mass / mass.sum() * number).clamp(max=1)
                drawn = torch.nonzero(torch.rand(len(share)) < share, as_tuple=True)[0]
                chance = share[drawn]
            else:
                drawn = torch.multinomial(mass, number, replacement=False)
                chance = mass[drawn]
            wanted = torch.zeros(inner.num_nodes(), dtype=torch.bool)
            wanted[drawn] = True
            sources, _ = inner.edges()
            kept = dgl.edge_subgraph(inner, torch.nonzero(wanted[sources], as_tuple=True)[0], relabel_nodes=False)
            scale = torch.zeros(inner.num_nodes())
            scale[drawn] = 1 / chance
            edge_weight = dgl.ops.u_mul_e(kept, scale, weight[kept.edata[dgl.EID]])
            total = dgl.ops.copy_e_sum(kept, edge_weight)
            kept.edata["weight"] = dgl.ops.e_div_v(kept, edge_weight, total)
            names, places = inner.ndata[dgl.NID].sort()
            block = dgl.to_block(kept, places[torch.searchsorted(names, seeds)])
            seeds = inner.ndata[dgl.NID][block.srcdata[dgl.NID]]
            hops.append((len(drawn), block.num_edges()))
        return hops


class SciPyLadies:
    """LADIES as matrices, k mini-batches at once (Tripathy, Yelick, Buluc, MLSys 2024, sections 4 and 4.2).

    ``P = Q A`` with the squares in A, a draw by inverse transform sampling in each row, then the rows of the
    destinations and the columns of what was drawn, by products with selections.
    """

    def __init__(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> None:
        self._n = n = len(indptr) - 1
        degrees = np.maximum(np.diff(indptr), 1)
        values = np.repeat((1 / degrees).astype(np.float32), np.diff(indptr))
        indices = np.asarray(indices, np.int32)
        self._a = csr_matrix((values, indices, np.asarray(indptr, np.int32)), (n, n))
        self._squares = csr_matrix((values**2, indices, np.asarray(indptr, np.int32)), (n, n))
        self._random = np.random.default_rng(0)

    def sample(self, batches: list[NDArray[np.int64]], sizes: tuple[int, ...]) -> list[Hops]:
        """Mini-batches; see the module."""
        levels, hops = list(batches), [Hops() for _ in batches]
        for size in sizes:
            counts = np.array([len(level) for level in levels])
            ends = np.concatenate([[0], np.cumsum(counts)])
            all_of_level = np.concatenate(levels)
            q = csr_matrix((np.ones(len(all_of_level), np.float32), all_of_level, ends), (len(levels), self._n))
            masses = q @ self._squares
            rows = csr_matrix(
                (np.ones(len(all_of_level), np.float32), all_of_level, np.arange(len(all_of_level) + 1)),
                (len(all_of_level), self._n),
            )
            extracted = rows @ self._a
            for i, level in enumerate(levels):
                row = slice(masses.indptr[i], masses.indptr[i + 1])
                drawn = masses.indices[row][self._drawn(masses.data[row], size)]
                columns = csr_matrix(
                    (np.ones(len(drawn), np.float32), (drawn, np.arange(len(drawn)))), (self._n, len(drawn))
                )
                block = extracted[ends[i] : ends[i + 1]] @ columns
                hops[i].append((len(drawn), block.nnz))
                levels[i] = np.union1d(level, drawn)
        return hops

    def _drawn(self, masses: NDArray[np.float32], size: int) -> NDArray[np.int64]:
        if len(masses) <= size:
            return np.arange(len(masses))
        ends = np.cumsum(masses.astype(np.float64))
        hit = np.zeros(len(masses), bool)
        while (missing := size - int(hit.sum())) > 0:
            hit[
                np.searchsorted(ends, self._random.random(missing) * ends[-1], side="right").clip(0, len(ends) - 1)
            ] = True
        return np.flatnonzero(hit)
