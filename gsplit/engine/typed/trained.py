"""Trained features of several types: rows of one matrix, for the types that have no features of their own.

The matrix has the rows of trainer 0, type after type, then those of trainer 1, ..., so that the rows that a trainer
owns lie together, whatever the types.

Legend: T types, P trainers, N rows of all trained types, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import Layout, first_parts
from gsplit.device import accelerator
from gsplit.engine.minibatch import RowsLater
from gsplit.engine.rows.trained import TrainedRows, initial_rows
from gsplit.engine.run import Run
from gsplit.host import SharedBuffer
from gsplit.models.typed import trained_types
from gsplit.parallel import Member


class TypedTrainedRows(TrainedRows):
    """The trained features of a run on a graph of several types, on one trainer; all trainers make one, together.

    Args:
        run: with ``train_features``.
        layout: of several types.
        types: numbers of the types whose features are trained.
        member: of this trainer.
        buffer, scratch: see :class:`gsplit.engine.rows.trained.TrainedRows`.

    Raises:
        InputError: where the host has no room.
    """

    def __init__(
        self,
        run: Run,
        layout: Layout,
        types: Sequence[int],
        member: Member,
        buffer: SharedBuffer,
        scratch: SharedBuffer,
    ) -> None:
        width, seed = run.config.train_features, run.config.seed
        assert width is not None
        self._places = places = Places(layout, types, member.world)
        begin, end = places.of_trainer(member.rank)

        def initial(rows: slice) -> NDArray[np.float64]:
            types_of, ids = places.vertices(rows)
            found = np.empty((len(ids), width))
            for type_ in types:
                of_type = types_of == type_
                found[of_type] = initial_rows(seed, ids[of_type], width, type_)
            return found

        super().__init__(
            run, member, buffer, scratch, global_ids=places.joint_ids(), begin=begin, end=end, initial=initial
        )

    def of_vertices(self, type_: int, vertices: NDArray[np.int64], dtype: torch.dtype) -> RowsLater | None:
        """The rows of own vertices of a type, int64 [n], as they are when a model is called.

        None for a type whose features are not trained.
        """
        if type_ not in self._places.types:
            return None
        return self.of_rows(self._places.rows(type_, vertices), dtype)

    def published(self, type_: int, vertices: NDArray[np.int64]) -> Tensor | None:
        """The rows [n, D] of any vertices of a type, as they were published last; None for a type without."""
        if type_ not in self._places.types:
            return None
        return torch.from_numpy(self.rows[self._places.rows(type_, vertices)])


class KeptRows:
    """Trained features as a run has kept them, by vertices of a layout of its graph.

    Args:
        layout: of several types.
        types: numbers of the types whose features are trained.
        rows: [N, D] in the order of :meth:`Places.joint_ids`: type after type, of each by global id.
    """

    def __init__(self, layout: Layout, types: Sequence[int], rows: NDArray[Any]) -> None:
        sizes = [len(layout.permutations[type_]) for type_ in types]
        ends = np.cumsum(sizes)
        self._rows = {type_: rows[end - size : end] for type_, size, end in zip(types, sizes, ends, strict=True)}
        self._permutations = layout.permutations

    def published(self, type_: int, vertices: NDArray[np.int64]) -> Tensor | None:
        """The rows [n, D] of some vertices of a type, layout ids int64 [n]; None for a type without."""
        if type_ not in self._rows:
            return None
        return torch.from_numpy(self._rows[type_][self._permutations[type_][vertices]])


class Places:
    """Where the vertices of trained types have their rows.

    Args:
        layout: of several types.
        types: numbers of the types that are trained.
        trainers: P.
    """

    def __init__(self, layout: Layout, types: Sequence[int], trainers: int) -> None:
        self.types = tuple(types)
        self._layout, self._trainers = layout, trainers
        firsts = first_parts(layout.parts, trainers)
        bounds = [layout.offsets_by_type[type_][firsts] for type_ in types]
        self._bounds = dict(zip(types, bounds, strict=True))
        """[P + 1] by type: which layout ids each trainer owns."""
        counts = np.diff(np.stack(bounds), axis=1).T  # [P, trained types]
        begins = np.concatenate([[0], np.cumsum(counts)])
        self._begins = begins
        """Where the rows of each trainer's vertices of a type begin, trainer after trainer."""
        of_trainer = begins[:-1].reshape(counts.shape)
        self._shifts = {type_: of_trainer[:, at] - bounds[at][:-1] for at, type_ in enumerate(types)}
        """[P] by type: row of a vertex less its layout id."""

    def rows(self, type_: int, vertices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of some vertices of a type, layout ids int64 [n]."""
        owner = np.searchsorted(self._bounds[type_], vertices, side="right") - 1
        return vertices + self._shifts[type_][owner]

    def of_trainer(self, rank: int) -> tuple[int, int]:
        """Begin and end of the rows that a trainer owns."""
        begins = self._begins[:: len(self.types)]
        return int(begins[rank]), int(begins[rank + 1])

    def vertices(self, rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The type and the global id of the vertex of each of some rows."""
        at = np.arange(rows.start, rows.stop)
        block = np.searchsorted(self._begins, at, side="right") - 1
        types, ids = np.asarray(self.types)[block % len(self.types)], np.empty(len(at), np.int64)
        for type_ in self.types:
            mine = types == type_
            layout_ids = at[mine] - self._shifts[type_][block[mine] // len(self.types)]
            ids[mine] = self._layout.permutations[type_][layout_ids]
        return types, ids

    def joint_ids(self) -> NDArray[np.int64]:
        """[N] of each row the global id of its vertex, behind those of the trained types before its own."""
        sizes = [len(self._layout.permutations[type_]) for type_ in self.types]
        before = np.zeros(max(self.types) + 1, np.int64)
        before[list(self.types)] = np.cumsum([0, *sizes[:-1]])
        types, ids = self.vertices(slice(0, sum(sizes)))
        return ids + before[types]


def trained_bytes(run: Run, layout: Layout) -> int:
    """Bytes of the host for trained features of several types: of all rows, where they are gathered and published.

    Beside them each trainer has its own, on its device.
    """
    types = trained_types(run.config, layout.graph)
    rows = sum(layout.graph.schema.types[each].num_vertices for each in types)
    copies = 1 if run.config.device == accelerator.HOST else 2  # on the CPU they are published where they are
    return copies * rows * (run.config.train_features or 0) * run.dtype.itemsize
