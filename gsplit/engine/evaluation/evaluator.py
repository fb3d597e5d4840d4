"""What models score on vertices: the objective's own score from counts, metrics from logits that are gathered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data import Layout
from gsplit.engine.evaluation.vectors import Vectors
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.metrics import values_of
from gsplit.engine.objective import Objective
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.host import SharedBuffer
from gsplit.parallel import Member, count_over_trainers, sum_over_trainers
from gsplit.parallel.host_memory import complete
from gsplit.runs.log import finite


class Evaluator(Vectors):
    """Evaluates models on the vertices of a layout; every trainer makes every call.

    Args:
        layout: whose vertices they are.
        member: this trainer.
        loader: of what belongs to segments.
        objective: that says what is right.
        levels: two buffers that all trainers map.
        metrics: names of what is measured in the place of the objective's score.
        options: the other arguments of :class:`Vectors`.

    Raises:
        Stopped: by what gives scores or logits of all vertices, where somebody did.
    """

    def __init__(
        self,
        layout: Layout,
        member: Member,
        loader: SplitLoader | TypedSplitLoader,
        objective: Objective,
        levels: tuple[SharedBuffer, SharedBuffer],
        *,
        metrics: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(layout, member, loader, levels, **options)
        self._objective, self._metrics = objective, metrics

    def score(self, model: nn.Module, ids: NDArray[np.int64]) -> float:
        """Accuracy, F1 or RMSE of a model on layout ids, over all trainers by their counts.

        Not a number where a logit is not finite: such a row has a largest entry, too, and would be scored by it.
        """
        counts = np.zeros(self._objective.num_counts)
        for chunk, logits in self._last(model, ids):
            labels = torch.from_numpy(self._graph.labels[chunk])
            counts += self._objective.counts(logits.cpu(), labels) if logits.isfinite().all() else math.nan
        self._agree()
        return self._objective.score(sum_over_trainers(counts.tolist(), self._member))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores that :meth:`scores` gives, the one that decides first."""
        return tuple(self._metrics) or (self._objective.name,)

    def scores(self, model: nn.Module, ids: NDArray[np.int64]) -> dict[str, float | None]:
        """The metrics of a model on layout ids, over all trainers, by name; None where one is not defined."""
        if not self._metrics:
            return {self._objective.name: finite(self.score(model, ids))}
        gathered = self._exact.shared(self._num_layers, len(ids), self._graph.num_classes)
        order, written = np.argsort(ids), [np.empty(0, np.int64)]
        for chunk, logits in self._last(model, ids):
            written.append(order[np.searchsorted(ids, chunk, sorter=order)])
            gathered[written[-1]] = logits.cpu().numpy()
        self._agree()
        complete(self._member, torch.from_numpy(gathered), partial(np.concatenate, written))
        return self._measured(gathered, lambda: self._graph.labels[ids])

    def scores_of(self, outputs: Sequence[tuple[Tensor, Tensor]]) -> dict[str, float | None]:
        """The metrics of logits [n, C] and labels [n] or [n, C], piece by piece, of which each trainer has some.

        All trainers give as many pieces, at least one; what comes back is as :meth:`scores` has it.
        """
        counts = [0] * self._member.world
        counts[self._member.rank] = sum(len(logits) for logits, _ in outputs)
        sizes = count_over_trainers(counts, self._member)
        begin, total = sum(sizes[: self._member.rank]), sum(sizes)
        gathered = self._exact.shared(0, total, self._graph.num_classes)
        several = outputs[0][1].ndim == 2
        width = self._graph.num_classes if several else 1
        true = self._exact.shared(1, total, width)  # small numbers or float32, which either type holds
        own = np.arange(begin, begin + sizes[self._member.rank])
        for logits, labels in outputs:
            end = begin + len(logits)
            gathered[begin:end] = logits.cpu().numpy()
            true[begin:end] = labels.reshape(-1, width).cpu().numpy()
            begin = end
        for table in (gathered, true):
            complete(self._member, torch.from_numpy(table), lambda: own)
        return self._measured(gathered, lambda: true if several else true[:, 0])

    def _measured(self, gathered: NDArray[Any], labels: Callable[[], NDArray[Any]]) -> dict[str, float | None]:
        """Trainer 0 measures what all have written, and tells the others."""
        self._member.barrier()
        values = [0.0] * len(self._metrics)
        if self._member.rank == 0:
            values = values_of(self._metrics, gathered, labels())
        agreed = sum_over_trainers(values, self._member)
        return {name: finite(value) for name, value in zip(self._metrics, agreed, strict=True)}

    def all_logits(self, model: nn.Module) -> NDArray[Any] | None:
        """[N, C] of all vertices, in the order of global ids, on trainer 0; None on the others."""
        graph = self._graph
        n, width = graph.schema.types[graph.target].num_vertices, graph.num_classes
        gathered, written = self._exact.shared(self._num_layers, n, width), [np.empty(0, np.int64)]
        for chunk, logits in self._last(model, np.arange(n)):
            gathered[chunk] = logits.cpu().numpy()
            written.append(chunk)
        self._agree()
        complete(self._member, torch.from_numpy(gathered), partial(np.concatenate, written))
        result = None
        if self._member.rank == 0:
            result = np.empty_like(gathered)
            result[self._layout.permutations[graph.target]] = gathered
        self._member.barrier()
        return result
