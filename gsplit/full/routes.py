"""Routes of the whole graph: which rows go to which trainer before a layer, made once, for blocks that exchange rows.

With ``1d`` every row goes to every trainer, with ``1d-sparse`` and ``shared`` to those that need it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import GraphArrays
from gsplit.full.levels import Levels
from gsplit.full.reading import edge_pieces, owners_of
from gsplit.nn import Route
from gsplit.parallel import Member
from gsplit.parallel.collectives import all_gather, all_to_all


@dataclass(frozen=True, kw_only=True)
class PlacedRoute(Route):
    """A route whose rows can also be read where they lie, among all trainers'."""

    places: Tensor
    """Place of each received row among the rows of all trainers, int64 [received]."""
    sizes: tuple[int, ...]
    """[P] numbers of rows of all trainers."""
    received: tuple[tuple[int, ...], ...]
    """[P] ``receive_counts`` of all trainers."""


def remote_sources(graph: GraphArrays, levels: Levels, layer: int, rank: int) -> NDArray[np.int64]:
    """Layout ids of the sources of a layer that are other trainers', ascending.

    Args:
        graph: of a layout.
        levels: of all trainers.
        layer: 1 .. L.
        rank: the trainer whose destinations need them.
    """
    begin, end = int(levels.bounds[rank]), int(levels.bounds[rank + 1])
    wanted_N = np.zeros(graph.num_vertices, bool)
    for piece in edge_pieces(graph.indptr, begin, end):
        row = levels.row_N[piece.vertices]
        ours = (row >= 0) & (row < levels.sizes[rank, layer])
        wanted_N[graph.indices[piece.edges][np.repeat(ours, piece.counts)]] = True
    wanted_N[begin:end] = False
    return np.flatnonzero(wanted_N)


def all_other_rows(levels: Levels, layer: int, rank: int) -> NDArray[np.int64]:
    """Layout ids of all sources of a layer that are other trainers', by trainer, in the order of their rows."""
    own = [levels.vertices(p)[: levels.sizes[p, layer - 1]] for p in range(len(levels.sizes)) if p != rank]
    return np.concatenate([*own, np.empty(0, np.int64)])


def route_to(vertices: NDArray[np.int64], levels: Levels, layer: int, member: Member) -> PlacedRoute:
    """The route that brings a trainer the rows of some vertices, in their order; all trainers make the call.

    Args:
        vertices: layout ids, those of trainer 0 first, and so on.
        levels: of all trainers.
        layer: 1 .. L, before which rows travel.
        member: of this trainer.
    """
    owners = owners_of(levels.bounds, vertices)
    receive = np.bincount(owners, minlength=member.world)
    table = torch.stack(all_gather(torch.from_numpy(receive), member.group)).numpy()
    rows = torch.from_numpy(levels.row_N[vertices])
    send = table[:, member.rank]
    send_rows = rows.new_empty(int(send.sum()))
    all_to_all(send_rows, rows, send.tolist(), receive.tolist(), member.group)
    sizes = levels.sizes[:, layer - 1]
    firsts = np.cumsum(sizes) - sizes
    return PlacedRoute(
        send_rows=send_rows.to(member.device),
        send_counts=tuple(send.tolist()),
        receive_counts=tuple(receive.tolist()),
        layer=layer,
        always_returns=layer > 1,
        places=rows.long() + torch.from_numpy(firsts[owners]),
        sizes=tuple(sizes.tolist()),
        received=tuple(tuple(row) for row in table.tolist()),
    )
