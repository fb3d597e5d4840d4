"""Trained features: rows that are learned like weights, for graphs that have none. Each row is owned by one trainer.

A trainer owns the rows of its vertices, updates them by an optimizer of its own, like the one of the weights, and
keeps that one's state: nothing of them is reduced over the trainers. All rows lie in memory that all trainers map, so
that exact evaluation reads them as it reads the features of a graph; those of a GPU are copied there before it does.

A row begins with numbers that are drawn from the seed by its global id and column (law 1), uniformly, with mean 0 and
variance 1: neither the layout nor the number of trainers changes them.

Legend: N vertices, V own vertices, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data import GraphArrays, Layout
from gsplit.engine.evaluation import own_range
from gsplit.engine.run import Run
from gsplit.errors import InputError
from gsplit.host import SharedBuffer
from gsplit.optim import follow, optimizer_of
from gsplit.parallel import Member
from gsplit.parallel.host_memory import complete
from gsplit.sampling.plan import fold_key, hashed

INITIAL_ROWS = 0x524F5753  # keeps the keys of the rows apart from those of sampling, shuffling and dropout
PIECE_NUMBERS = 1 << 20
"""Numbers that are drawn at a time."""


def with_width(graph: GraphArrays, width: int) -> GraphArrays:
    """A graph with trained features, before there are any: float32 [N, width] of zeros, which take no memory."""
    return replace(graph, features=np.broadcast_to(np.float32(0), (graph.num_vertices, width)))


def initial_rows(seed: int, global_ids: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """Rows [n, width] of some vertices before training, the same for every trainer that asks."""
    key = fold_key(seed, INITIAL_ROWS)
    numbers = global_ids.astype(np.uint64)[:, None] * np.uint64(width) + np.arange(width, dtype=np.uint64)
    uniform = (hashed(key, numbers) >> np.uint64(11)) * 2.0**-53
    return (uniform * 2 - 1) * math.sqrt(3)


class TrainedFeatures:
    """The trained features of a run, on one trainer; all trainers make one, and every call, together.

    A host has the rows of others as they were when all had last published theirs.

    Args:
        run: with ``train_features``.
        layout: whose features, if it has any, are not read.
        member: of this trainer.
        buffer: memory for all rows, the same for all of a host.
        scratch: memory that is free whenever rows are gathered, the same for all of a host.

    Raises:
        InputError: where the host has no room.
    """

    def __init__(self, run: Run, layout: Layout, member: Member, buffer: SharedBuffer, scratch: SharedBuffer) -> None:
        assert run.config.train_features is not None
        self._member, self._scratch, self._config = member, scratch, run.config
        self._global_ids, self._shape = layout.permutation, (layout.graph.num_vertices, run.config.train_features)
        self._begin, self._end = own_range(layout, member)
        dtype = torch.empty(0, dtype=run.dtype).numpy().dtype
        try:
            self._rows = self._shared(buffer, dtype)
        except MemoryError as error:
            raise InputError(f"no memory for --train-features: {error}") from None
        width = self._shape[1]
        step = max(1, PIECE_NUMBERS // width)
        for first in range(self._begin, self._end, step):
            piece = slice(first, min(self._end, first + step))
            self._rows[piece] = initial_rows(run.config.seed, self._global_ids[piece], width)
        own = torch.from_numpy(self._rows[self._begin : self._end])
        self.own = nn.Parameter(own.to(member.device))
        """[V, D] the rows of this trainer's vertices, by layout id; on the CPU the very memory that all map."""
        self.optimizer = optimizer_of(run.config, [self.own])
        """Updates the own rows."""
        self.layout = replace(layout, graph=replace(layout.graph, features=self._rows))
        """The layout with the rows of all trainers as its features."""
        member.barrier()

    def of_vertices(self, vertices: NDArray[np.int64]) -> Callable[[], Tensor]:
        """Make a function that gives the rows [n, D] of own vertices, layout ids int64 [n], as they are then."""
        at = torch.from_numpy(vertices - self._begin).to(self._member.device)
        return lambda: self.own.index_select(0, at)

    def gathered(self) -> Tensor | None:
        """A copy of the rows of all trainers [N, D], by global id, on trainer 0; None on the others."""
        return self._gathered(self.own)

    def load(self, rows: Tensor | None) -> None:
        """Replace all rows by those that trainer 0 gives, as :meth:`gathered` gave them."""
        self._member.barrier()  # nobody reads them any more
        given = np.arange(0)
        if self._member.rank == 0:
            assert rows is not None
            given = np.arange(len(self._rows))
            self._rows[:] = rows.numpy()[self._global_ids]
        self._member.barrier()
        complete(self._member, torch.from_numpy(self._rows), lambda: given)
        if self.own.device.type != "cpu":
            with torch.no_grad():
                self.own.copy_(torch.from_numpy(self._rows[self._begin : self._end]))

    def state(self) -> dict[str, Any] | None:
        """Gather what a checkpoint remembers, on trainer 0: all rows and their optimizers' state, by global id."""
        rows = self.gathered()
        optimizer = {
            name: self._gathered(value) if value.shape == self.own.shape else value
            for name, value in self.optimizer.state.get(self.own, {}).items()
        }
        return None if rows is None else {"rows": rows, "optimizer": optimizer}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`state` gave; all trainers have it, however many there were then."""
        ids = torch.from_numpy(np.array(self._global_ids[self._begin : self._end]))
        with torch.no_grad():
            self.own.copy_(state["rows"][ids])
        if state["optimizer"]:
            whole = state["rows"].shape
            own = {name: value[ids] if value.shape == whole else value for name, value in state["optimizer"].items()}
            described = self.optimizer.state_dict()
            self.optimizer.load_state_dict({**described, "state": {0: own}})
        follow(self.optimizer, self._config)
        self._member.barrier()

    def publish(self) -> None:
        """Let all read everybody's rows in :attr:`layout`; on the CPU those of a host lie there anyway."""
        if self.own.device.type != "cpu":
            self._rows[self._begin : self._end] = self.own.detach().cpu().numpy()
            self._member.barrier()
        complete(self._member, torch.from_numpy(self._rows), self._own_ids)

    def _gathered(self, own: Tensor) -> Tensor | None:
        rows = self._shared(self._scratch, self._rows.dtype)
        rows[self._begin : self._end] = own.detach().cpu().numpy()
        self._member.barrier()
        complete(self._member, torch.from_numpy(rows), self._own_ids)
        gathered = None
        if self._member.rank == 0:
            by_global_id = np.empty_like(rows)
            by_global_id[self._global_ids] = rows
            gathered = torch.from_numpy(by_global_id)
        self._member.barrier()
        return gathered

    def _own_ids(self) -> NDArray[np.int64]:
        return np.arange(self._begin, self._end)

    def _shared(self, buffer: SharedBuffer, dtype: np.dtype[Any]) -> NDArray[Any]:
        if self._member.local == 0:
            buffer.grow(math.prod(self._shape) * dtype.itemsize)
        self._member.barrier()
        return buffer.view(self._shape, dtype)
