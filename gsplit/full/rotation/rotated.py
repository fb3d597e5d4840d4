"""Graph convolution with rotating layers: what each trainer computes of its planes, forward and backward.

    forward    H = A F, added up along the columns of A  |  Q = H W', added up along the features  |  F = sigma(Q + b)
    backward   dW = dQ' H, db  |  dH = dQ W, added up along the columns  |  dF = A' dH, added up along the rows

Factors of the vertices' degrees are multiplied to F and H. Weights are the same on all trainers, which each use a
block of them; a gradient that this trainer does not compute is zero, and the sum over all trainers, taken as ever, is
whole.

Before the first layer and after the last one rows travel between where they are at rest, all columns of a row on one
trainer, and the planes. The rows before the first layer are added up only where they are trained. Rows are projected
before and after all layers where they are at rest. Between layers rows may be normalised, and a layer's input added
(:mod:`gsplit.full.rotation.normalised`, :mod:`gsplit.full.rotation.skips`).

Legend: n own rows at rest, R rows of the block, D columns of all, D' of this trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsplit.full.moves import Moves, shares
from gsplit.full.operators import product
from gsplit.full.rotation.normalised import rms_normalised
from gsplit.full.rotation.planes import Planes, Roles, roles_of
from gsplit.full.rotation.skips import Relaid, Spread
from gsplit.full.shards import Shard
from gsplit.kernels import product_dtype
from gsplit.nn import Factors, LayeredModel
from gsplit.nn.rowwise.activation import activated
from gsplit.nn.rowwise.dense import mapped
from gsplit.parallel.checker import CollectiveChecker, Step


@dataclass(frozen=True, kw_only=True)
class RotatedLayer:
    """One layer on this trainer."""

    layer: int
    """The layer, 1 .. L."""
    pieces: Sequence[Shard]
    """Block of A, from the block of sources to that of destinations, with loops where the model has them, in blocks
    of rows that are summed and added up one after another."""
    turned: Sequence[Shard]
    """The same edges, a row for each source, likewise; in one block where skips are added to it."""
    by: Factors
    """Factors of the rows that are summed [sources], and of the sums [R]; loops are among the edges."""
    relaid: Relaid | None = None
    """How its input is laid out like its output; None where there are no skips."""

    @property
    def roles(self) -> Roles:
        """The roles of the axes."""
        return roles_of(self.layer)


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The meeting of rows at rest and planes: before the first layer and after the last."""

    own: Sequence[int]
    """[P] numbers of rows at rest before the first layer."""
    entering: Sequence[Sequence[int]]
    """Along z, and along y at each place there, the trainers whose rows make up the block of the first layer."""
    leaving: Tensor
    """Rows of the last block that the trainers along its columns want, one after another, int64."""
    wanted: Sequence[int]
    """Number of rows that each of them wants."""
    returning: Sequence[int]
    """Number of rows that gradients come back for from each group along the columns."""
    places: Tensor
    """Row of the last block that each of these belongs to, int64 [sum(returning)]."""
    num_rows: int
    """Number of rows of the last block."""

    @classmethod
    def of(cls, planes: Planes, layers: int, targets: Sequence[NDArray[np.int64]], device: torch.device) -> Ends:
        """Of planes.

        Args:
            planes: of this trainer.
            layers: number of them, L.
            targets: [P] vertices of each trainer whose rows it has at rest after the last layer.
            device: of this trainer.
        """
        grid, roles, at = planes.grid, roles_of(layers), planes.grid.coordinates(planes.rank)
        block = planes.block(layers, roles.rows)
        row_N = np.full(sum(planes.order(layers).sizes), -1, np.int64)
        row_N[block] = np.arange(len(block))
        along_columns = [targets[peer] for peer in planes.along(roles.columns)]
        returning = [
            np.concatenate([targets[peer] for peer in grid.group(sharer, roles.columns)])
            for sharer in planes.along(roles.features)
        ]

        def rows_of(vertices: list[NDArray[np.int64]]) -> Tensor:
            return torch.from_numpy(row_N[np.concatenate(vertices)]).to(device)

        return cls(
            own=planes.order(0).sizes,
            entering=[[grid.rank(x=at["x"], y=y, z=z) for y in range(grid.size("y"))] for z in range(grid.size("z"))],
            leaving=rows_of(along_columns),
            wanted=[len(some) for some in along_columns],
            returning=[len(some) for some in returning],
            places=rows_of(returning),
            num_rows=len(block),
        )


class Summed(NamedTuple):
    """What a layer makes of its input before its weights."""

    sums: Tensor
    """[R, D'] normalised sums."""
    skipped: Tensor | None
    """[n, D] the input's rows that are at rest here on their way to the output; None where there are no skips."""


@dataclass(frozen=True, kw_only=True)
class Rotated:
    """All layers on one trainer, and how to compute a model with them."""

    layers: Sequence[RotatedLayer]
    """[L] layers."""
    ends: Ends
    """Where rows come from and go to."""
    moves: Moves
    """Moves of this trainer along x, y and z."""
    checker: CollectiveChecker | None
    """The collective checker; None: trainers do not compare what they do."""

    def tensors(self) -> Iterator[Tensor]:
        """All that lies on the device beside the rows."""
        yield from (self.ends.leaving, self.ends.places)
        for layer in self.layers:
            for edges, weight in (*layer.pieces, *layer.turned):
                yield from (each for each in (edges.indptr, edges.indices, weight) if each is not None)
            yield from (each for each in (layer.by.sources, layer.by.sums) if each is not None)
            if layer.relaid is not None:
                yield from (layer.relaid.taken, layer.relaid.places, layer.relaid.own)

    def entered(self, x: Tensor) -> Tensor:
        """This trainer's block of the rows before the first layer, [sources, D'], for own rows x [n, D]."""
        block: Tensor = _Enter.apply(x, self)
        return block

    def aggregated(self, layer: int, block: Tensor, width: int) -> Summed:
        """Sum rows [sources, D'] of a layer 1 .. L whose inputs have ``width`` columns."""
        return Summed(*_Aggregate.apply(block, self, layer, width))

    def computed(self, model: LayeredModel, summed: Summed, key: Callable[[int, tuple[int, int]], int]) -> Tensor:
        """Logits of the own targets [n_L, C].

        Args:
            model: a :class:`gsplit.nn.GCN` without normalisation, or with RMSNorm.
            summed: of the first layer, as :meth:`aggregated` gives it.
            key: seed of what is dropped after a layer, of the layer and the place of the block; trainers that have
                the same block drop the same.
        """
        convs: Any = model.convs
        last = len(convs)
        block = self._finished(model, 1, summed, key)
        for layer in range(2, last + 1):
            summed = self.aggregated(layer, block, convs[layer - 1].lin.in_features)
            block = self._finished(model, layer, summed, key)
        rows: Tensor = _Leave.apply(block, self, convs[last - 1].lin.out_features)
        return rows if model.head is None else mapped(rows, model.head)

    def _finished(
        self, model: LayeredModel, layer: int, summed: Summed, key: Callable[[int, tuple[int, int]], int]
    ) -> Tensor:
        """Rows [R, D'] that a layer gives, with all that stands behind its product."""
        conv: Any = model.convs[layer - 1]
        relaid, roles, spread = self.layers[layer - 1].relaid, roles_of(layer), None
        if relaid is not None:
            assert summed.skipped is not None
            dtype = torch.promote_types(product_dtype(summed.sums), conv.bias.dtype)  # of what they are added to
            rows = mapped(summed.skipped, model.skips[layer - 1]).to(dtype)
            spread = Spread.of(rows, relaid, self.moves, roles)
        block: Tensor = _Project.apply(summed.sums, conv.lin.weight, conv.bias, self, layer)
        skip, ends = None, layer == len(self.layers) and model.head is None
        if spread is not None:
            skip = spread.laid_out(conv.lin.out_features)
            if ends or not model.residual_after:
                block, skip = block + skip, None
        if ends:
            return block
        norm = model.norms[layer - 1]
        if isinstance(norm, nn.RMSNorm):
            block = rms_normalised(block, norm, self.moves, roles, self.columns(len(norm.weight), roles.columns))
        place = (self.moves.sides[roles.rows].place, self.moves.sides[roles.columns].place)
        block = activated(block, model.activation, model.dropout, seed=key(layer, place))
        return block if skip is None else block + skip

    def enter(self, step: Step, layer: int, width: int, dtype: torch.dtype) -> None:
        """Tell the collective checker what comes next."""
        if self.checker is not None:
            self.checker.enter(step, layer=layer, width=width, dtype=dtype)

    def columns(self, width: int, axis: str) -> slice:
        """This trainer's columns of ``width`` along an axis."""
        side = self.moves.sides[axis]
        widths = shares(width, side.size)
        first = sum(widths[: side.place])
        return slice(first, first + widths[side.place])

    def of_block(self, weight: Tensor, roles: Roles) -> tuple[slice, slice]:
        """Return where this trainer's block of a weight [D_out, D_in] is."""
        return self.columns(weight.shape[0], roles.columns), self.columns(weight.shape[1], roles.features)

    def sizes_along_y(self, place: int) -> list[int]:
        """Numbers of rows at rest of the trainers along y, at a place along z."""
        return [self.ends.own[peer] for peer in self.ends.entering[place]]

    def sizes_along_z(self) -> list[int]:
        """Numbers of rows that the trainers along z bring to the block of the first layer."""
        return [sum(self.sizes_along_y(place)) for place in range(len(self.ends.entering))]


class _Enter(torch.autograd.Function):
    """Own rows to columns along y, gathered along z; backward reduce-scattered along z, and to rows along y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rotated: Rotated) -> Tensor:
        ctx.rotated, ctx.width = rotated, x.shape[1]
        rotated.enter(Step.EXCHANGE, 0, x.shape[1], x.dtype)
        moves = rotated.moves
        columns = moves.to_columns(x.detach(), rotated.sizes_along_y(moves.sides["z"].place), axis="y")
        return moves.gather(columns, rotated.sizes_along_z(), "z")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rotated, moves = ctx.rotated, ctx.rotated.moves
        rotated.enter(Step.RETURN, 0, ctx.width, grad.dtype)
        columns = moves.reduce_scatter(grad, rotated.sizes_along_z(), "z", "backward")
        sizes = rotated.sizes_along_y(moves.sides["z"].place)
        return moves.to_rows(columns, sizes, ctx.width, "backward", axis="y"), None


class _Aggregate(torch.autograd.Function):
    """``H = A F`` added up along the columns of A; backward ``A' dH``, along its rows but before the first layer.

    Beside it the rows of F that a skip takes go to rest, and come back to what is added up.
    """

    @staticmethod
    def forward(ctx: Any, block: Tensor, rotated: Rotated, number: int, width: int) -> tuple[Tensor, Tensor | None]:
        ctx.rotated, ctx.number, ctx.width = rotated, number, width
        layer, moves = rotated.layers[number - 1], rotated.moves
        rotated.enter(Step.EXCHANGE, number, width, block.dtype)
        rested = None
        if layer.relaid is not None:  # beside the sums
            rested = layer.relaid.start_rested(block.detach(), width, moves, layer.roles)
        rows = _scaled(block.detach(), layer.by.sources)
        blocks = (product(edges, [rows], weight) for edges, weight in layer.pieces)
        sums = _scaled(torch.cat(list(moves.all_reduced(blocks, layer.roles.columns))), layer.by.sums)
        return sums, None if rested is None else rested()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, of_skipped: Tensor | None) -> tuple[Tensor, None, None, None]:
        layer, rotated = ctx.rotated.layers[ctx.number - 1], ctx.rotated
        rotated.enter(Step.RETURN, ctx.number, ctx.width, grad.dtype)
        moves, add_back = rotated.moves, None
        if layer.relaid is not None and of_skipped is not None:
            add_back = layer.relaid.start_back(of_skipped, moves, layer.roles)
        of_sums = _scaled(grad, layer.by.sums)

        def made() -> Iterator[Tensor]:
            first = 0
            for edges, weight in layer.turned:
                rows = product(edges, [of_sums], weight)
                if layer.by.sources is not None:
                    rows.mul_(layer.by.sources[first : first + len(rows)].unsqueeze(1))
                if add_back is not None:
                    add_back(rows)
                first += len(rows)
                yield rows

        blocks = made()
        if ctx.number > 1:  # before the first layer they are added up where they go to rest
            blocks = moves.all_reduced(blocks, layer.roles.rows, "backward")
        summed = list(blocks)
        return summed[0] if len(summed) == 1 else torch.cat(summed), None, None, None


def _scaled(rows: Tensor, by: Tensor | None) -> Tensor:
    """``by_v rows_v``, in the wider of both types; the rows themselves for None."""
    return rows if by is None else rows * by.unsqueeze(1)


class _Project(torch.autograd.Function):
    """``Q = H W' + b`` added up along the features; backward ``dQ W``, along the columns."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, weight: Tensor, bias: Tensor, rotated: Rotated, number: int) -> Tensor:
        roles = roles_of(number)
        at = rotated.of_block(weight, roles)
        ctx.rotated, ctx.number, ctx.at = rotated, number, at
        ctx.save_for_backward(sums, weight)
        out = rotated.moves.all_reduce(sums.detach() @ weight.detach()[at].t(), roles.features)
        return out + bias.detach()[at[0]]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        sums, weight = ctx.saved_tensors
        moves, roles, at = ctx.rotated.moves, roles_of(ctx.number), ctx.at
        of_weight, of_bias = torch.zeros_like(weight), weight.new_zeros(weight.shape[0])
        scattered = gathered = None
        if ctx.needs_input_grad[0]:  # on their way while those of the weights are computed
            scattered = moves.start_all_reduce(grad @ weight[at], roles.columns, "backward")
        of_weight[at] = grad.t() @ sums
        if scattered is not None:
            gathered = scattered()
        if moves.sides[roles.features].place == 0:  # the others there have the same, which counts once
            of_bias[at[0]] = grad.sum(dim=0)
        return None if gathered is None else gathered(), of_weight, of_bias, None, None


class _Leave(torch.autograd.Function):
    """Targets of the last block to rows at rest, along its columns; backward to columns, gathered along the third."""

    @staticmethod
    def forward(ctx: Any, block: Tensor, rotated: Rotated, width: int) -> Tensor:
        ctx.rotated = rotated
        roles, ends = roles_of(len(rotated.layers)), rotated.ends
        rows = block.detach().index_select(0, ends.leaving)
        return rotated.moves.to_rows(rows, ends.wanted, width, axis=roles.columns)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rotated, moves, ends = ctx.rotated, ctx.rotated.moves, ctx.rotated.ends
        roles = roles_of(len(rotated.layers))
        columns = moves.to_columns(grad, ends.wanted, "backward", axis=roles.columns)
        rows = moves.gather(columns.contiguous(), ends.returning, roles.features, "backward")
        block = rows.new_zeros((ends.num_rows, rows.shape[1]))
        return block.index_copy_(0, ends.places, rows), None, None
