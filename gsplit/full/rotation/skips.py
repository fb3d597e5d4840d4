"""Skips where layers rotate: a layer's input, whose rows and columns lie on other axes, laid out like its output.

With R, K, F for the rows, the columns and the features of a layer, its input has rows cut along K and columns cut
along F, and is the same along R; its output has rows cut along R and columns along K, and is the same along F. A
trainer takes the rows of its input that are in its block of the output: with its peers along F it has all columns of
them. So

    forward    taken rows: to_rows (F)  |  projected, where widths differ  |  to_columns (K)  |  gather (F)
    backward   own rows of the gradient: to_rows (K)  |  projected  |  to_columns (F)  |  added to those of the sums

Each but the gather travels beside a product of the layer: ``to_rows (F)`` and its adjoint beside sums by A and A',
``to_columns (K)`` beside the product by the weights, and its adjoint beside both gradients of that.

Which of these rows each trainer has at rest goes by who owns a vertex on the level of the input: where levels have
one order, it is the owner. Gradients of the input are added up along R anyway.

Legend: n rows at rest, D columns, R rows of the output's block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsplit.full.moves import Moves
from gsplit.full.rotation.planes import Planes, Roles, roles_of


@dataclass(frozen=True, kw_only=True)
class Relaid:
    """How rows of a layer's input come to where its output is, on one trainer."""

    taken: Tensor
    """Rows of the input's block, those for each trainer along the features one after another, int64."""
    resting: Sequence[int]
    """[F] numbers of them, which are at rest on each trainer along the features."""
    spread: Sequence[int]
    """[K] numbers of rows at rest of each trainer along the columns."""
    gathered: Sequence[int]
    """[F] numbers of rows that each trainer along the features has when these are spread."""
    places: Tensor
    """[R] place of each row of the output's block among all that are gathered, int64."""
    own: Tensor
    """[gathered of this trainer] rows of the output's block that it brings, int64."""

    @classmethod
    def of(cls, planes: Planes, layer: int, device: torch.device) -> Relaid:
        """Of a layer, 1 .. L."""
        roles, grid = roles_of(layer), planes.grid
        at = grid.coordinates(planes.rank)
        before, block = planes.block(layer - 1, roles.columns), planes.block(layer, roles.rows)
        owner_N, place_N = planes.order(layer - 1).owner_N, planes.place_N(layer - 1)
        next_N = planes.order(layer).owner_N

        def along(axis: str) -> NDArray[np.int64]:
            return np.array([grid.coordinate(trainer, axis) for trainer in range(grid.world)])

        features, sizes = along(roles.features), (grid.size(roles.features), grid.size(roles.columns))
        there = np.flatnonzero(along(roles.rows)[next_N[before]] == at[roles.rows])
        resting = features[owner_N[before[there]]]
        f, k = features[owner_N[block]], along(roles.columns)[owner_N[block]]
        gathered, order = np.bincount(f, minlength=sizes[0]), np.lexsort((place_N[block], k, f))
        places, first = np.empty_like(order), int(gathered[: at[roles.features]].sum())
        places[order] = np.arange(len(order))

        def moved(rows: NDArray[np.int64]) -> Tensor:
            return torch.from_numpy(rows).to(device)

        return cls(
            taken=moved(there[np.argsort(resting, kind="stable")]),
            resting=np.bincount(resting, minlength=sizes[0]).tolist(),
            spread=np.bincount(k[f == at[roles.features]], minlength=sizes[1]).tolist(),
            gathered=gathered.tolist(),
            places=moved(places),
            own=moved(order[first : first + int(gathered[at[roles.features]])]),
        )

    def start_rested(self, block: Tensor, width: int, moves: Moves, roles: Roles) -> Callable[[], Tensor]:
        """Begin to bring rows of the input's block [.., D'] to rest, whose rows have ``width`` columns.

        What is returned waits for them, and gives [n, D].
        """
        return moves.start_to_rows(block.index_select(0, self.taken), self.resting, width, axis=roles.features)

    def start_back(self, grad: Tensor, moves: Moves, roles: Roles) -> Callable[[Tensor], None]:
        """Begin to bring gradients of rows at rest [n, D] to the input's block.

        What is returned waits for them, and adds them to those of the block [.., D'], in place.
        """
        columns = moves.start_to_columns(grad, self.resting, "backward", axis=roles.features)

        def add_back(rows: Tensor) -> None:
            rows.index_add_(0, self.taken, columns())

        return add_back


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Rows on their way to where a layer's output is."""

    begun: Tensor
    """Stands for them in autograd, [0]."""
    box: list[Callable[[], Tensor]]
    """Gives them; in backward the gradient of those that were given."""
    relaid: Relaid
    moves: Moves
    roles: Roles

    @classmethod
    def of(cls, rows: Tensor, relaid: Relaid, moves: Moves, roles: Roles) -> Spread:
        """Let rows at rest [n, D] set out to columns; in backward their gradient is waited for."""
        box: list[Callable[[], Tensor]] = []
        return cls(
            begun=_SetOut.apply(rows, relaid, moves, roles, box), box=box, relaid=relaid, moves=moves, roles=roles
        )

    def laid_out(self, width: int) -> Tensor:
        """Rows of the output's block [R, D'], which has ``width`` columns; in backward their gradient sets out."""
        block: Tensor = _LayOut.apply(self.begun, self.relaid, self.moves, self.roles, self.box, width)
        return block


class _SetOut(torch.autograd.Function):
    """Rows at rest set out to columns; backward waits for the gradients that :class:`_LayOut` sent."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, relaid: Relaid, moves: Moves, roles: Roles, box: list[Callable[[], Tensor]]
    ) -> Tensor:
        ctx.box = box
        box.append(moves.start_to_columns(rows.detach(), relaid.spread, axis=roles.columns))
        return rows.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None, None, None, None]:
        return ctx.box.pop()(), None, None, None, None


class _LayOut(torch.autograd.Function):
    """Columns that came are gathered; backward each trainer takes the gradient of what it brought, to rows."""

    @staticmethod
    def forward(
        ctx: Any,
        begun: Tensor,
        relaid: Relaid,
        moves: Moves,
        roles: Roles,
        box: list[Callable[[], Tensor]],
        width: int,
    ) -> Tensor:
        ctx.relaid, ctx.moves, ctx.roles, ctx.box, ctx.width = relaid, moves, roles, box, width
        columns = box.pop()().contiguous()
        return moves.gather(columns, relaid.gathered, roles.features).index_select(0, relaid.places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        relaid, own = ctx.relaid, grad.index_select(0, ctx.relaid.own)
        ctx.box.append(ctx.moves.start_to_rows(own, relaid.spread, ctx.width, "backward", axis=ctx.roles.columns))
        return grad.new_zeros(0), None, None, None, None, None
