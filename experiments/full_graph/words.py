"""Words that a process receives in an epoch of a whole-graph GCN: the papers' formulas beside ours.

A word is one number, 4 bytes. Sources: CAGNET (Tripathy et al., SC 2020), Plexus (Ranjan et al., SC 2025), and ours,
rows at rest on a grid R x K x F (docs/architecture.md). Formulas hold for even ranges. Those of CAGNET are given

- as *printed*, where a broadcast to g processes counts as the whole matrix and an all-reduce as its operand;
- *as moved*: of a matrix that g processes gather, a process receives (g-1)/g; a reduce-scatter is as much, an
  all-reduce is both. So the mean process receives what a library that broadcasts in a ring makes it receive.

Legend: n vertices, nnz nonzeros of the adjacency matrix, f_0 .. f_L widths, P processes. Layer l = 1 .. L multiplies
by the adjacency matrix and by a weight matrix f_(l-1) x f_l.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import NamedTuple

WORD_BYTES = 4
Grid = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A graph and the widths of a GCN on it."""

    name: str
    n: int
    nnz: int
    widths: tuple[int, ...]

    @property
    def layers(self) -> list[tuple[int, int]]:
        """(f_(l-1), f_l) of each layer."""
        return list(pairwise(self.widths))

    @property
    def weights(self) -> int:
        """Numbers of all weight matrices."""
        return sum(inputs * outputs for inputs, outputs in self.layers)


def gathered(size: float, group: int) -> float:
    """Words received when ``group`` processes gather a matrix of ``size``, or reduce-scatter one."""
    return size * (group - 1) / group


def all_reduced(size: float, group: int) -> float:
    """Words received in an all-reduce: a reduce-scatter and a gather (Plexus, equation 4.5)."""
    return 2 * gathered(size, group)


def factorisations(processes: int) -> Iterator[Grid]:
    """Every (a, b, c) with a * b * c = P."""
    divisors = [d for d in range(1, processes + 1) if processes % d == 0]
    yield from ((a, b, processes // a // b) for a in divisors for b in divisors if processes // a % b == 0)


class Move(NamedTuple):
    """What a process receives of the others of one group in an epoch."""

    words: float
    """Numbers of 4 bytes."""
    size: int
    """Processes of the group."""
    stride: int
    """How far apart they are, in ranks: 1 where they follow one another."""


def received(moves: Iterable[Move]) -> float:
    """Words of all moves."""
    return sum(move.words for move in moves)


def cagnet_1d(model: Model, processes: int, *, printed: bool = False) -> float:
    """CAGNET, section IV-A.5: n f_(l-1) forward, n f_l backward and f_(l-1) f_l for the weights, each layer."""
    if printed:
        return _rows(model) + model.weights
    return received(moves_of_1d(model, processes))


def moves_of_1d(model: Model, processes: int) -> list[Move]:
    """The moves of :func:`cagnet_1d`: rows, and gradients of weights."""
    return [
        Move(gathered(_rows(model), processes), processes, 1),
        Move(all_reduced(model.weights, processes), processes, 1),
    ]


def cagnet_15d(model: Model, processes: int, c: int, *, printed: bool = False) -> float:
    """CAGNET, section IV-B.5, of P/c x c processes: n f / c + n f c / P forward, and as much backward.

    A process column gathers its share n / c of the rows, of which P/c processes own all there is: P/c^2 of them the
    chunk that is gathered. A process row all-reduces n c / P rows. Where c * c does not divide P, some gather more.
    """
    if printed:
        return _rows(model) / c + _rows(model) * c / processes + model.weights
    return received(moves_of_15d(model, processes, c))


def moves_of_15d(model: Model, processes: int, c: int) -> list[Move]:
    """The moves of :func:`cagnet_15d`: rows, partial sums, gradients of weights; a process row has ranks in a row."""
    column = processes // c
    return [
        Move(gathered(_rows(model) / c, column), column, c),
        Move(all_reduced(_rows(model) * c / processes, c), c, 1),
        Move(all_reduced(model.weights, column), column, c),
    ]


def cagnet_2d(model: Model, processes: int, *, printed: bool = False) -> float:
    """CAGNET, section IV-C.5, of r x r processes: (8 n f + 2 nnz) / r + f^2 a layer; f is the mean of both widths.

    As moved, without the all-gathers of log_softmax: forward A and H for the first SUMMA, T for the second; backward
    A, G and A G; for the weights H and A G. Each is a broadcast along r processes, of 1 / r of a matrix.

    Raises:
        ValueError: where P is no square.
    """
    r = isqrt(processes)
    if r * r != processes:
        raise ValueError(f"{processes} processes are no square")
    if printed:
        dense = sum(4 * model.n * (inputs + outputs) for inputs, outputs in model.layers)
        return (dense + 2 * model.nnz * len(model.layers)) / r + model.weights
    return received(moves_of_2d(model, processes))


def moves_of_2d(model: Model, processes: int) -> list[Move]:
    """The moves of :func:`cagnet_2d`: A, T and A G along process rows, H and G along columns, then small matrices.

    For the weights H moves along rows and A G along columns.
    """
    r = isqrt(processes)
    return [*_of_summa(model, r, r), Move(gathered(model.weights, processes), processes, 1)]


def cagnet_3d(model: Model, processes: int, *, printed: bool = False) -> float:
    """CAGNET, section IV-D.5, of r x r x r processes: (12 n f + 2 nnz) / r^2 a layer; f is the mean of both widths.

    As moved, without the all-gathers of log_softmax: a product broadcasts A and H along r processes of a layer of the
    cube, 1 / r^2 of each, and reduce-scatters as much of the product along the fibre; then T W moves T the same way.

    Raises:
        ValueError: where P is no cube.
    """
    r = round(processes ** (1 / 3))
    if r**3 != processes:
        raise ValueError(f"{processes} processes are no cube")
    if printed:
        dense = sum(6 * model.n * (inputs + outputs) for inputs, outputs in model.layers)
        return (dense + 2 * model.nnz * len(model.layers)) / r**2 + model.weights
    return received(moves_of_3d(model, processes))


def moves_of_3d(model: Model, processes: int) -> list[Move]:
    """The moves of :func:`cagnet_3d`: those of 2D in a layer of the cube, and both products along its fibres."""
    r = round(processes ** (1 / 3))
    fibres = Move(gathered(2 * _rows(model) / r**2, r), r, r * r)
    return [*_of_summa(model, r, r * r), fibres, Move(gathered(model.weights, processes), processes, 1)]


def _rows(model: Model) -> float:
    """Words of the rows of all layers, forward and backward."""
    return sum(model.n * (inputs + outputs) for inputs, outputs in model.layers)


def _of_summa(model: Model, r: int, pieces: int) -> list[Move]:
    """Moves of A, T, A G and H along rows of r x r processes, and of H, G and A G along columns; each has a piece."""
    inputs, outputs = (model.n * sum(pair[i] for pair in model.layers) for i in (0, 1))
    in_rows = 2 * model.nnz * len(model.layers) + 2 * inputs + outputs
    in_columns = inputs + 2 * outputs
    return [Move(gathered(in_rows / pieces, r), r, 1), Move(gathered(in_columns / pieces, r), r, r)]


def plexus(model: Model, grid: Grid, *, train_features: bool = True) -> float:
    """Plexus, algorithms 1 and 2 with the rotation of section 3.2, on G_x x G_y x G_z processes.

    A layer all-reduces H over X and Q over Y forward, dH over X backward, and its weights are gathered twice and
    reduce-scattered once over Z. The inputs of the first layer are gathered and their gradients reduce-scattered over
    Z; later layers all-reduce dF over Z. From layer to layer (x, y, z) becomes (z, x, y).

    Args:
        model: the graph and the widths.
        grid: (G_x, G_y, G_z) of the first layer.
        train_features: whether the inputs have gradients, as in the paper.
    """
    return received(moves_of_plexus(model, grid, train_features=train_features))


def moves_of_plexus(model: Model, grid: Grid, *, train_features: bool = True) -> Iterator[Move]:
    """The moves of :func:`plexus`, of layer after layer; ranks follow one another along Y, then X, then Z."""
    x, y, z = grid
    along_x, along_y, along_z = (x, y), (y, 1), (z, x * y)
    for layer, (inputs, outputs) in enumerate(model.layers):
        (x, _), (y, _), (z, _) = along_x, along_y, along_z
        h, q = model.n * inputs / (z * y), model.n * outputs / (z * x)
        f = model.n * inputs / (x * y)
        first = layer == 0
        yield Move(all_reduced(h, x), *along_x)
        yield Move(all_reduced(q, y), *along_y)
        yield Move(3 * gathered(inputs * outputs / (y * x), z), *along_z)
        if first:
            yield Move(gathered(f, z), *along_z)
        if not first or train_features:
            yield Move(all_reduced(h, x), *along_x)
            yield Move(gathered(f, z) if first else all_reduced(f, z), *along_z)
        along_x, along_y, along_z = along_z, along_x, along_y


def product(n: float, width: int, grid: Grid) -> float:
    """Ours: one product of width w on R x K x F, n w [ 2(F-1)/(F P) + (R-1)/(R K F) + (K-1)/(K R F) ].

    Rows become columns and columns rows, F processes each time; R processes gather, K reduce-scatter. Backward is the
    same with R and K exchanged, and so as much.
    """
    r, k, f = grid
    rest = 2 * gathered(n * width / (r * k * f), f)
    return rest + gathered(n * width / (k * f), r) + gathered(n * width / (r * f), k)


def ours(model: Model, grid: Grid, *, first_sum_kept: bool = True, graph_moves: bool = False) -> float:
    """Ours: rows at rest on R x K x F, weights replicated and their gradients all-reduced once.

    A layer multiplies the narrower of its inputs and its outputs, forward and backward. The first sum is a constant:
    it is kept, or, where input dropout forbids that, its inputs are moved forward or its outputs both ways.

    Where the graph moves, a process holds 1/F of its block of A, nnz/P, and receives the indices of the rest in each
    product: nnz/(R K) (F-1)/F. Pointers, F - 1 of n/(R F) each, are left out, as in the papers' formulas.
    """
    r, k, f = grid
    words, edges = all_reduced(model.weights, r * k * f), gathered(model.nnz / (r * k), f) if graph_moves else 0.0
    for layer, (inputs, outputs) in enumerate(model.layers):
        if layer:
            words += 2 * (product(model.n, min(inputs, outputs), grid) + edges)
        elif not first_sum_kept:
            words += min(product(model.n, inputs, grid) + edges, 2 * (product(model.n, outputs, grid) + edges))
    return words


def best_c(model: Model, processes: int, *, printed: bool = False) -> tuple[float, int] | None:
    """Least words of 1.5D over its replications c > 1, and that c; None where there is none."""
    candidates = [c for c in range(2, processes + 1) if processes % (c * c) == 0]
    return min(((cagnet_15d(model, processes, c, printed=printed), c) for c in candidates), default=None)


def best_plexus(model: Model, processes: int) -> tuple[float, Grid]:
    """Least words of Plexus over all its grids, and that grid."""
    return min((plexus(model, grid), grid) for grid in factorisations(processes))


def best_ours(
    model: Model, processes: int, *, first_sum_kept: bool = True, graph_moves: bool = False
) -> tuple[float, Grid]:
    """Least words of ours over all grids whose F no product is narrower than, and that grid."""
    narrowest = min(model.widths)
    grids: Sequence[Grid] = [grid for grid in factorisations(processes) if grid[2] <= narrowest]
    flags = {"first_sum_kept": first_sum_kept, "graph_moves": graph_moves}
    return min((ours(model, grid, **flags), grid) for grid in grids)
