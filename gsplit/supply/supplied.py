"""What the trainers of a host are supplied with, decided: the process that supplies them makes it so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gsplit.sampling import SamplerSpec
from gsplit.supply.pipes import Supply
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Position, tickets


@dataclass(frozen=True, kw_only=True)
class Supplied:
    """The supply of some trainers, before a process is started; it can be pickled."""

    trainers: int
    """Number of trainers."""
    spec: SamplerSpec | None
    """How samplers sample; None where every trainer samples for itself."""
    num_batches: int
    """Mini-batches of an epoch."""
    epochs: int
    """Epochs of the run."""
    position: Position
    """Where the run stands."""
    samplers: int
    """Number of processes."""
    slots: int
    """Number of slots of the ring."""
    max_restarts: int
    """Samplers that may be replaced before the run is given up."""
    bulk: int | None
    """Mini-batches that are sampled together; None where memory shall say it."""

    def supply(self) -> Supply:
        """Start the samplers, and return what joins them to the trainers; it is to be ended by this process."""
        return Supply(self.trainers, None if self.spec is None else self._pool)

    def _pool(self, finished: Callable[[tuple[Handle, ...]], None]) -> SamplerPool:
        assert self.spec is not None
        return SamplerPool(
            self.spec,
            tickets(self.num_batches, self.epochs, self.position),
            samplers=self.samplers,
            slots=self.slots,
            readers=self.trainers,
            finished=finished,
            max_restarts=self.max_restarts,
            bulk=self.bulk,
            epoch=self.num_batches,
        )
