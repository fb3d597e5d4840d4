"""Vectors that models give vertices, exactly or on sampled neighbourhoods, until somebody asks to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.exact import MAX_EDGES, ExactLevels, LevelRows
from gsplit.engine.evaluation.sampled_targets import SampledTargets
from gsplit.engine.evaluation.typed_exact import TypedExactLevels
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.host import SharedBuffer
from gsplit.parallel import Member, count_over_trainers
from gsplit.parallel.host_memory import complete
from gsplit.sampling.rule import FanOutOf


class Stopped(Exception):
    """The run was asked to stop, so that an evaluation left off. All trainers raise it, at the same place."""


def never() -> bool:
    """Return what an evaluation asks that nobody stops."""
    return False


class Vectors:
    """Computes vectors of the vertices of a layout by models; every trainer makes every call.

    An evaluation that is asked to stop skips the chunks that are left, on each trainer as soon as it sees that, and
    makes all its collectives; at the end the trainers agree whether anyone did, and then there is no score.

    Args:
        layout: whose vertices they are.
        member: this trainer.
        loader: of what belongs to segments.
        levels: two buffers that all trainers map.
        num_layers: of the models, L.
        precision: in which they are called.
        threads: that gather rows.
        max_edges: of a chunk of exact evaluation.
        fan_outs: neighbours of each layer L .. 1 that vectors are computed from; None: all, exactly.
        fan_out_of: relations that have others, by number.
        seed: of those draws.
        stops: whether somebody has asked to stop; looked at before each chunk.
        publish: called by all trainers before features are read, where these are trained.
    """

    def __init__(
        self,
        layout: Layout,
        member: Member,
        loader: SplitLoader | TypedSplitLoader,
        levels: tuple[SharedBuffer, SharedBuffer],
        *,
        num_layers: int,
        precision: Precision,
        threads: int,
        max_edges: int = MAX_EDGES,
        fan_outs: Sequence[int] | None = None,
        fan_out_of: FanOutOf = (),
        seed: int = 0,
        stops: Callable[[], bool] = never,
        publish: Callable[[], None] | None = None,
    ) -> None:
        self._publish = publish or (lambda: None)
        self._graph, self._layout, self._member = layout.graph, layout, member
        self._num_layers, self._threads = num_layers, threads
        self._stops, self._skipped = stops, False
        options: dict[str, Any] = {"precision": precision, "threads": threads, "max_edges": max_edges}
        options["goes_on"] = self._goes_on
        self._exact: ExactLevels | TypedExactLevels
        if isinstance(loader, TypedSplitLoader):
            self._exact = TypedExactLevels(layout, member, loader, levels, **options)
        else:
            self._exact = ExactLevels(layout, member, loader, levels, num_layers=num_layers, **options)
        draws: dict[str, Any] = {"fan_out_of": fan_out_of, "precision": precision, "seed": seed}
        self._sampled = (
            None if fan_outs is None else SampledTargets(member, loader, fan_outs, goes_on=self._goes_on, **draws)
        )

    def vectors(
        self, model: Any, own: NDArray[np.int64], level: int | None = None, type_: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Chunks of this trainer's vertices with their exact vectors; see :meth:`ExactLevels.vectors`.

        ``type_`` is the number of theirs where there are several; None: the target type.
        """
        self._publish()
        if isinstance(self._exact, TypedExactLevels):
            return self._exact.vectors(model, own, level, type_)
        return self._exact.vectors(model, own, level)

    def table(
        self,
        chunks: Iterator[tuple[NDArray[np.int64], Tensor]],
        mask: NDArray[np.bool_] | None,
        level: int,
        width: int,
        change: Callable[[NDArray[Any]], None],
    ) -> tuple[LevelRows, NDArray[Any], NDArray[np.int64]]:
        """Gather vectors of a level in memory that all trainers map; all make the call, and see it filled.

        Args:
            chunks: this trainer's vertices with their vectors [n, width].
            mask: bool [N] the vertices of all trainers' chunks; None: all N.
            level: of the vectors.
            width: of the vectors.
            change: called with vectors, which it may change in place, before they are stored.

        Returns:
            Where vertices have their rows, the rows, and this trainer's vertices whose vectors are not finite.
        """
        rows, none = LevelRows(mask, self._graph.num_vertices), np.empty(0, np.int64)
        not_finite, written = [none], [none]
        table = self._exact.shared(level, rows.num_rows, width)
        for chunk, vectors in chunks:
            values = np.ascontiguousarray(vectors.cpu().numpy(), table.dtype)
            not_finite.append(chunk[~np.isfinite(values).all(1)])
            change(values)
            written.append(rows.places(chunk))
            table[written[-1]] = values
        self._agree()
        complete(self._member, torch.from_numpy(table), partial(np.concatenate, written))
        return rows, table, np.concatenate(not_finite)

    def _last(self, model: Any, ids: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """This trainer's share of some layout ids [n] with their vectors of the last level [n, C], in pieces."""
        self._skipped = False
        self._publish()
        if self._sampled is not None:
            return self._sampled.logits(model, ids)
        return self._exact.vectors(model, self._exact.own(ids))

    def _goes_on(self, _: object = None) -> bool:
        """Return whether the next chunk is to be computed."""
        self._skipped = self._skipped or self._stops()
        return not self._skipped

    def _agree(self) -> None:
        """Wait for all trainers; where one has skipped a chunk all raise Stopped."""
        if any(count_over_trainers([self._skipped], self._member)):
            raise Stopped
