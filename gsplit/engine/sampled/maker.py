"""What makes the mini-batches of one trainer out of its segments; see :class:`gsplit.engine.feed.Maker`."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gsplit.engine.components import Components
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.run import Run
from gsplit.engine.sampled.sources import SegmentSource
from gsplit.kernels import StoredRows
from gsplit.kernels.stored_rows import Use
from gsplit.models.registry import OURS
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.parallel import SPLIT, Group
from gsplit.parallel.mailboxes import Mailboxes
from gsplit.parallel.member import mailboxes_of
from gsplit.sampling import Segment
from gsplit.supply.ring import Handle

Load = Callable[[Segment, BatchComm, Handle], MiniBatch]
"""Loads what belongs to a segment."""


class Splits:
    """Makes the mini-batches of one trainer out of its segments.

    Args:
        components: of the trainer.
        source: of its segments.
    """

    def __init__(self, components: Components, source: SegmentSource) -> None:
        self._source, self._member = source, components.member
        self._carrier, self._exchange_dtype = carrier_of(components), components.run.exchange_dtype
        typed = components.layout.graph.schema.is_typed
        self._load: Load = components.typed_loader().mini_batch if typed else OfOneType(components).mini_batch

    def make(self, handle: Handle) -> MiniBatch:
        """Copy this trainer's segment, and load what belongs to it."""
        segment, sample_s = self._source.segment(handle)
        start_s = time.perf_counter()
        member = self._member
        comm = BatchComm(
            self._carrier,
            ExchangeCounters(),
            member.device,
            everyone=member.group,
            checker=member.checker,
            exchange_dtype=self._exchange_dtype,
        )
        mini_batch = self._load(segment, comm, handle)
        mini_batch.seconds.update(sample=sample_s, load=time.perf_counter() - start_s)
        return mini_batch

    def release(self, handle: Handle) -> None:
        """Let go of the memory that the segment came in."""
        self._source.release(handle)


class OfOneType:
    """Loads mini-batches of a graph of one type: rows are copied, or left to the model to be read where they lie.

    Args:
        components: of the trainer.
    """

    def __init__(self, components: Components) -> None:
        self._loader, self._model = components.split_loader(), components.model
        self._share_of_whole = share_of_whole(components.run)
        in_memory = components.loading is not None and components.loading.in_memory
        self._mixed, ours = components.run.precision.autocast is not None, type(self._model) in OURS
        """Whether rows that are stored and copies of them may be rounded differently."""
        self._can_store = in_memory and self._loader.features.stores and (ours or not self._mixed)
        """Whether a model that reads rows where they lie may have them so."""
        self._first_use: Use | None = None
        """The use that the first mini-batch makes of them: where it copies them, the feed does so from then on."""

    def mini_batch(self, segment: Segment, comm: BatchComm, handle: Handle) -> MiniBatch:
        """This trainer's share of a mini-batch."""
        x = self._rows(segment.vertices)
        return self._loader.mini_batch(segment, comm, handle=handle, x=x, share_of_whole=self._share_of_whole)

    def _rows(self, vertices: NDArray[np.int64]) -> Tensor | StoredRows:
        """The features, copied unless the model, as it is now, reads them where they lie."""
        features = self._loader.features
        if self._first_use is not None and self._first_use.copied and not self._mixed:
            self._can_store = False
        if not (self._can_store and getattr(self._model, "reads_stored_rows", False)):
            return features.load(vertices)
        stored = features.stored(vertices)
        self._first_use = self._first_use or stored.use
        return stored


def share_of_whole(run: Run) -> float | None:
    """A trainer's share of the micro-batches, each of which stands for all training vertices; None: a ratio."""
    return None if run.config.estimate == "ratio" else run.strategy.micro_batches / run.trainers


def carrier_of(components: Components) -> Group | Mailboxes | None:
    """Choose how rows travel within a split group: on the CPU through memory, where all are on one host."""
    member = components.member
    group = member.along(SPLIT)
    assert member.grid is not None
    ranks = member.grid.group(member.rank, SPLIT)
    if member.device.type != "cpu" or group is None or not set(ranks) <= set(member.here):
        return group
    return mailboxes_of(member, components.shared.mail, ranks)
