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
from gsplit.engine.minibatch import RowsLater
from gsplit.engine.own_ranges import own_range
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


def initial_rows(
    seed: int, global_ids: NDArray[np.int64], width: int, type_: int | None = None
) -> NDArray[np.float64]:
    """Rows [n, width] of some vertices before training, the same for every trainer that asks.

    Args:
        seed: of the run.
        global_ids: int64 [n] of the vertices.
        width: of a row.
        type_: the vertices' number in a schema of several; None: the graph has one type.
    """
    key = fold_key(seed, INITIAL_ROWS, *([] if type_ is None else [type_]))
    numbers = global_ids.astype(np.uint64)[:, None] * np.uint64(width) + np.arange(width, dtype=np.uint64)
    uniform = (hashed(key, numbers) >> np.uint64(11)) * 2.0**-53
    return (uniform * 2 - 1) * math.sqrt(3)


class TrainedRows:
    """A matrix of trained rows, of which each trainer owns some after each other; all trainers make every call.

    A host has the rows of others as they were when all had last published theirs.

    Args:
        run: with ``train_features``.
        member: of this trainer.
        buffer: memory for all rows, the same for all of a host.
        scratch: memory that is free whenever rows are gathered, the same for all of a host.
        global_ids: int64 [N] what each row is known by, whatever the layout and the number of trainers: 0 .. N - 1.
        begin, end: of the rows of this trainer.
        initial: gives some of them as they are before training.

    Raises:
        InputError: where the host has no room.
    """

    def __init__(
        self,
        run: Run,
        member: Member,
        buffer: SharedBuffer,
        scratch: SharedBuffer,
        *,
        global_ids: NDArray[np.int64],
        begin: int,
        end: int,
        initial: Callable[[slice], NDArray[np.float64]],
    ) -> None:
        width = run.config.train_features
        assert width is not None
        self._member, self._scratch, self._config = member, scratch, run.config
        self._global_ids, self._shape = global_ids, (len(global_ids), width)
        self._begin, self._end = begin, end
        dtype = torch.empty(0, dtype=run.dtype).numpy().dtype
        try:
            self.rows = self._shared(buffer, dtype)
            """[N, D] of all trainers, as they were published last."""
        except MemoryError as error:
            raise InputError(f"no memory for --train-features: {error}") from None
        for first in range(begin, end, max(1, PIECE_NUMBERS // width)):
            piece = slice(first, min(end, first + max(1, PIECE_NUMBERS // width)))
            self.rows[piece] = initial(piece)
        own = torch.from_numpy(self.rows[begin:end])
        self.own = nn.Parameter(own.to(member.device))
        """[V, D] the rows of this trainer's vertices; on the CPU the very memory that all map."""
        self.optimizer = optimizer_of(run.config, [self.own])
        """Updates the own rows."""
        member.barrier()

    def of_rows(self, rows: NDArray[np.int64], dtype: torch.dtype | None = None) -> RowsLater:
        """Some of the own rows, numbers int64 [n], as they are when a model is called; by default in their type."""
        at = torch.from_numpy(rows - self._begin).to(self._member.device)
        return RowsLater(matrix=self.own, at=at, dtype=dtype or self.own.dtype)

    def gathered(self) -> Tensor | None:
        """A copy of the rows of all trainers [N, D], by global id, on trainer 0; None on the others."""
        return self._gathered(self.own)

    def load(self, rows: Tensor | None) -> None:
        """Replace all rows by those that trainer 0 gives, as :meth:`gathered` gave them."""
        self._member.barrier()  # nobody reads them any more
        given = np.arange(0)
        if self._member.rank == 0:
            assert rows is not None
            given = np.arange(len(self.rows))
            self.rows[:] = rows.numpy()[self._global_ids]
        self._member.barrier()
        complete(self._member, torch.from_numpy(self.rows), lambda: given)
        if self.own.device.type != "cpu":
            with torch.no_grad():
                self.own.copy_(torch.from_numpy(self.rows[self._begin : self._end]))

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
            self.rows[self._begin : self._end] = self.own.detach().cpu().numpy()
            self._member.barrier()
        complete(self._member, torch.from_numpy(self.rows), self._own_ids)

    def _gathered(self, own: Tensor) -> Tensor | None:
        rows = self._shared(self._scratch, self.rows.dtype)
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


class TrainedFeatures(TrainedRows):
    """The trained features of a graph of one type, on one trainer.

    Args:
        run: with ``train_features``.
        layout: whose features, if it has any, are not read.
        member, buffer, scratch: see :class:`TrainedRows`.

    Raises:
        InputError: where the host has no room.
    """

    def __init__(self, run: Run, layout: Layout, member: Member, buffer: SharedBuffer, scratch: SharedBuffer) -> None:
        width, ids = run.config.train_features, layout.permutation
        assert width is not None
        begin, end = own_range(layout, member)
        super().__init__(
            run,
            member,
            buffer,
            scratch,
            global_ids=ids,
            begin=begin,
            end=end,
            initial=lambda rows: initial_rows(run.config.seed, ids[rows], width),
        )
        self.layout = replace(layout, graph=replace(layout.graph, features=self.rows))
        """The layout with the rows of all trainers as its features."""
