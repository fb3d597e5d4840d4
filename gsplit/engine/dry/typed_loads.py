"""What a dry run loads of a graph of several types: rows that are made, in the sizes of a split."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gsplit.data import Layout
from gsplit.engine.minibatch import MiniBatch, RowsLater
from gsplit.engine.run import Run
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.engine.typed.trained import Places
from gsplit.models.typed import trained_types, widths_of_types
from gsplit.nn import BatchComm
from gsplit.sampling import Segment
from gsplit.supply.ring import Handle


class TypedLoads:
    """Makes mini-batches of several types whose features are zeros, trained ones among them.

    Args:
        run, layout: of the training.
        device: where they shall be.
    """

    lie = False
    """Rows are copied."""

    def __init__(self, run: Run, layout: Layout, device: torch.device) -> None:
        config, graph = run.config, layout.graph
        self._device, self._rows, self._widths = device, run.precision.rows, widths_of_types(config, graph)
        self._loader = TypedSplitLoader(
            layout, device=device, dtype=run.dtype, row_dtype=run.precision.rows, weights=run.needs["weights"]
        )
        self._types = trained_types(config, graph)
        self.trained: nn.Parameter | None = None
        """Trained rows of the trainer that has most."""
        if self._types:
            shape = most_own_rows(run, layout, self._types), config.train_features or 0
            self.trained = nn.Parameter(torch.zeros(shape, dtype=run.dtype, device=device))

    def mini_batch(self, segment: Segment, comm: BatchComm, handle: Handle) -> MiniBatch:
        """The share of a split of a mini-batch."""
        xs = [self._features(t, len(segment.vertices_of(t))) for t in range(len(self._widths))]
        return self._loader.mini_batch(segment, comm, handle, xs)

    def _features(self, type_: int, count: int) -> Tensor | RowsLater:
        own = self.trained
        if own is None or type_ not in self._types:
            return torch.zeros(count, self._widths[type_], dtype=self._rows, device=self._device)
        at = torch.zeros(count, dtype=torch.int64, device=self._device)
        return RowsLater(matrix=own, at=at, dtype=self._rows)


def most_own_rows(run: Run, layout: Layout, types: Sequence[int]) -> int:
    """Trained rows of the trainer that has most, where some types have any."""
    places = Places(layout, types, run.trainers)
    ends = (places.of_trainer(rank) for rank in range(run.trainers))
    return max(end - begin for begin, end in ends)


def typed_loading(run: Run, layout: Layout, segment: Segment) -> int:
    """Bytes beside a mini-batch while its features come, type after type: rows as they are stored, not converted."""
    item = run.precision.rows.itemsize
    stored = (
        len(segment.vertices_of(t)) * rows.shape[1] * rows.itemsize
        for t, rows in enumerate(layout.graph.features_by_type)
        if rows is not None and rows.itemsize != item
    )
    return max(stored, default=0)


def typed_numbers(run: Run, layout: Layout) -> Callable[[Segment], int]:
    """Make what counts the numbers of all levels of a split."""
    of_types, widths = widths_of_types(run.config, layout.graph), run.new_model().level_widths
    assert isinstance(widths, list)

    def numbers(segment: Segment) -> int:
        features = sum(sizes[0] * width for sizes, width in zip(segment.levels, of_types, strict=True))
        hidden = zip(*(sizes[1:] for sizes in segment.levels), strict=True)
        return features + sum(sum(sizes) * width for sizes, width in zip(hidden, widths[1:], strict=True))

    return numbers
