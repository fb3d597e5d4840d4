"""A mini-batch on one trainer, loaded, whatever engine made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.features import LoadCounters
from gsplit.kernels import StoredRows
from gsplit.nn import BatchComm, Block, Neighbourhood, PairBlock, TypedBlock, TypedNeighbourhood
from gsplit.supply.ring import Handle


@dataclass(frozen=True, kw_only=True)
class RowsLater:
    """Rows of a matrix that changes: they are taken when they are asked for."""

    matrix: Tensor
    """[N, D], on the device."""
    at: Tensor
    """[n] int64 numbers of the rows, loaded onto it."""
    dtype: torch.dtype
    """Type that the rows are given in."""

    def __call__(self) -> Tensor:
        """The rows [n, D] as they are now."""
        return self.matrix.index_select(0, self.at).to(self.dtype)


@dataclass(frozen=True, kw_only=True)
class MiniBatch:
    """This trainer's share of a mini-batch: all that computing it takes."""

    handle: Handle
    """Ticket of the mini-batch, and where it was sampled."""
    num_targets: int
    """Number of targets of all trainers."""
    comm: BatchComm
    """What its collectives share."""
    blocks: Mapping[int, Neighbourhood] | Mapping[int, TypedNeighbourhood]
    """Block of each layer, 1 .. L."""
    x: Tensor | StoredRows | tuple[Tensor | RowsLater, ...]
    """[n_0, D] features of the inputs; stored rows only on the CPU, and for a model that reads them. Of several types
    those of each, [T][n_0, D]; where they are trained, what gives them when the model is called."""
    labels: Tensor
    """[n_L] or [n_L, C] labels of the own targets."""
    loaded: LoadCounters
    """What loading the features took."""
    counts: dict[str, int]
    """What the engine counts of it on this trainer: edges, vertices, bytes of the segment (docs/formats.md)."""
    counts_by_type: dict[str, dict[str, int]] = field(default_factory=dict)
    """What is counted of the vertices and rows of each type, by its name, in the order of the types; of one type
    nothing."""
    seconds: dict[str, float]
    """Seconds that it took to ``sample`` and to ``load``."""
    targets: NDArray[np.int64] | None = None
    """[n_L] layout ids of the own targets; None on the whole graph."""
    target_weights: Tensor | None = None
    """[n_L] what the loss of each own target counts; None: 1."""
    share_of_whole: float | None = None
    """How often this trainer counts all training vertices in what the sum of losses is divided by; None: the sum is
    divided by what the targets weigh."""

    pairs: PairBlock | None = None
    """The pairs that this trainer scores; None where labels are learned."""

    @property
    def counted(self) -> int:
        """Number of what a sum of losses is divided by: targets of all trainers, or their pairs and candidates."""
        return self.num_targets if self.pairs is None else self.pairs.groups_of_all + self.pairs.negatives_of_all

    @property
    def epoch(self) -> int:
        """Epoch that it belongs to, from 0."""
        return self.handle.ticket.epoch

    @property
    def batch(self) -> int:
        """Number of the mini-batch in its epoch, from 0."""
        return self.handle.ticket.batch

    def logits(self, model: nn.Module) -> Tensor:
        """Logits of the own targets [n_L, C], by a model of this trainer; all trainers make the call."""
        out: Tensor = model(self.blocks, self.features())
        return out

    def features(self) -> Tensor | StoredRows | list[Tensor]:
        """The features as a model takes them; those that are trained as they are now."""
        if isinstance(self.x, tuple):
            return [rows() if isinstance(rows, RowsLater) else rows for rows in self.x]
        return self.x

    def tensors(self) -> Iterator[Tensor]:
        """All that was loaded, one tensor of each piece of memory: those of a segment share theirs."""
        xs = self.x if isinstance(self.x, tuple) else (self.x,)
        rows = [x.at if isinstance(x, RowsLater) else x for x in xs]
        loaded: list[object] = [*rows, self.labels, self.target_weights]
        if self.pairs is not None:
            loaded += (getattr(self.pairs, field.name) for field in fields(self.pairs))
        for block in self.blocks.values():
            for each in block.blocks if isinstance(block, TypedBlock) else (block,):
                if isinstance(each, Block):
                    loaded += (getattr(each, field.name) for field in fields(each))
        yield from {x.untyped_storage().data_ptr(): x for x in loaded if isinstance(x, Tensor)}.values()
