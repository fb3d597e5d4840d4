"""The in-edges of one layer by relation, with the rows of their sources by type.

A model asks once a layer for the rows of all sources, and then each relation for sums over them: its block is one
that nobody splits, for received rows are there already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from gsplit.nn.block import Block
from gsplit.nn.exchange import BatchComm, Route
from gsplit.nn.typed_exchange import exchange_types


class TypedNeighbourhood(ABC):
    """The in-edges of one layer as a typed model sees them; all trainers make the same calls, also with no rows.

    Every type and every relation of the schema is there, perhaps without rows and edges.

    Examples:
        >>> sizes = {"num_own_sources": (3,), "num_destinations": (2,)}
        >>> typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
        >>> isinstance(typed, TypedNeighbourhood), typed.relation(0).sum(torch.ones(3, 1)).flatten().tolist()
        (True, [2.0, 1.0])
    """

    ends: tuple[tuple[int, int], ...]
    """[R] the source and destination type of each relation, by number."""
    num_own_sources: tuple[int, ...]
    """[T] numbers of own sources: the rows that a model gives."""
    num_destinations: tuple[int, ...]
    """[T] numbers of destinations: the rows that it makes. The first own sources of a type are its destinations."""
    comm: BatchComm | None
    """The communicator of the mini-batch; None: one process has all rows."""

    @property
    @abstractmethod
    def exchanges(self) -> bool:
        """True where rows travel, the same on all trainers; else one process has all."""

    @abstractmethod
    def exchange(self, xs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Rows of all sources by type: the own ones, xs [T][num_own_sources, width of the type], then others'.

        Raises:
            ValueError: for other numbers of rows.
        """

    @abstractmethod
    def relation(self, number: int) -> Block:
        """The in-edges of a relation, from all sources of its type, as :meth:`exchange` gives them; not split."""


@dataclass(frozen=True, kw_only=True)
class TypedBlock(TypedNeighbourhood):
    """One layer of one split of a typed mini-batch, as it was sampled.

    Examples:
        >>> sizes = {"num_own_sources": (3,), "num_destinations": (2,)}  # of one type; gsplit.nn.Block's example
        >>> typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
        >>> (sources,) = typed.exchange([torch.tensor([[1.0], [2.0], [4.0]])])
        >>> typed.relation(0).mean(sources)
        tensor([[3.],
                [1.]])
    """

    ends: tuple[tuple[int, int], ...]
    num_own_sources: tuple[int, ...]
    num_destinations: tuple[int, ...]
    blocks: tuple[Block, ...]
    """[R] edges of each relation: their own sources are all sources of the type, received ones too."""
    routes: tuple[Route, ...] | None
    """[T] which rows the exchange moves; None where the block is not split, and the exchange does nothing."""
    comm: BatchComm | None

    @property
    @override
    def exchanges(self) -> bool:
        return self.routes is not None

    @override
    def exchange(self, xs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        numbers = tuple(len(x) for x in xs)
        if numbers != self.num_own_sources:
            raise ValueError(f"the block has {self.num_own_sources} own source rows by type, x has {numbers}")
        if self.routes is None or self.comm is None:
            return tuple(xs)
        return exchange_types(xs, self.routes, self.comm)

    @override
    def relation(self, number: int) -> Block:
        return self.blocks[number]
