"""The partitioners behind one interface, and which of them to take.

``metis`` and ``kaminpar`` find good cuts of graphs that fit in memory, ``streaming`` of graphs that do not; ``deal``
cuts nothing in particular but makes parts and blocks even; ``random`` and ``range`` are ablations: a perfect balance
with local edges of 1/P, and whatever locality the store's ids happen to have. ``file`` takes the parts
that the user has made (:mod:`gsplit.partition.methods.own`), ``keep`` those of a layout, and places what is new
(:mod:`gsplit.partition.methods.kept_parts`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError
from gsplit.limits import host_memory
from gsplit.partition.methods import deal, kaminpar, kept_parts, metis, streaming
from gsplit.partition.methods.streaming import stream
from gsplit.partition.problem import LEFT_OUT, Footprint, Problem, Size
from gsplit.units import binary

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Partitioner:
    """A way to solve a :class:`Problem`."""

    assign: Callable[[Problem], NDArray[np.int32]]
    """Function that gives each vertex a part, or ``LEFT_OUT``: int32 [N]."""
    memory: Footprint
    through_file: bool = False
    """True where the graph goes through a temporary file."""
    missing: Callable[[], str | None] = lambda: None
    """Function that says what to install, where the partitioner cannot be had yet; else None."""


def _streaming(problem: Problem) -> NDArray[np.int32]:
    """Partition by two-phase streaming, the only one that balances targets as well."""
    graph = problem.graph
    return stream(
        graph.indptr,
        graph.indices,
        problem.parts,
        seed=problem.seed,
        vertex_weight=problem.vertex_weight,
        edge_weight=problem.edge_weight,
        targets=problem.targets,
        imbalance=problem.imbalance,
        cuts=problem.cuts,
    )


def _given(problem: Problem) -> NDArray[np.int32]:
    """The parts that the problem comes with."""
    assert problem.given is not None
    return problem.given


def random(problem: Problem) -> NDArray[np.int32]:
    """Parts of equal size, drawn at random: int32 [N]."""
    n = problem.graph.num_vertices
    equal = np.arange(n) * problem.parts // n
    return np.random.Generator(np.random.PCG64(problem.seed)).permutation(equal).astype(np.int32)


def range_(problem: Problem) -> NDArray[np.int32]:
    """Parts of consecutive ids of each type, equal in weight: int32 [N]."""
    n, weight = problem.graph.num_vertices, problem.vertex_weight
    begins = [0, n] if problem.type_begins is None else problem.type_begins.tolist()
    found = np.empty(n, np.int32)
    for begin, end in itertools.pairwise(begins):
        own = None if weight is None else weight[begin:end]
        before = np.arange(end - begin) if own is None else np.cumsum(own) - own
        total = end - begin if own is None else own.sum()
        found[begin:end] = before * problem.parts // max(1, total)
    return found


ABLATIONS = ("random", "range")
"""Partitioners that look at no edge."""
LINEAR = Footprint(per_adjacency=0, per_weighted_adjacency=4, per_vertex=40)
PARTITIONERS: dict[str, Partitioner] = {
    "metis": Partitioner(assign=metis.assign, memory=metis.MEMORY),
    "kaminpar": Partitioner(
        assign=kaminpar.assign, memory=kaminpar.MEMORY, missing=kaminpar.missing, through_file=True
    ),
    "streaming": Partitioner(assign=_streaming, memory=streaming.MEMORY),
    "deal": Partitioner(assign=deal.assign, memory=deal.MEMORY),
    "random": Partitioner(assign=random, memory=LINEAR),
    "range": Partitioner(assign=range_, memory=LINEAR),
    "file": Partitioner(assign=_given, memory=LINEAR),
    "keep": Partitioner(assign=kept_parts.assign, memory=kept_parts.MEMORY),
}


def check_partitioner(method: str) -> None:
    """Raise InputError for a partitioner that is not there."""
    install = PARTITIONERS[method].missing() if method in PARTITIONERS else None
    if install:
        raise InputError(f"--method {method} is not installed; {install}, or choose another --method")


def choose_method(method: str, size: Size) -> str:
    """The partitioner that ``method`` stands for, where it is there and fits.

    ``auto`` takes the first of METIS, KaMinPar and streaming that does: METIS's answer is the same every time,
    KaMinPar needs the least memory of those that are good. With edge weights KaMinPar comes first: it finds better
    cuts of pre-sampled graphs (docs/results/weights.md).

    Raises:
        InputError: for one that wants more memory than is available.
    """
    available = host_memory().available_bytes
    if method == "auto":
        order = ("kaminpar", "metis") if size.edge_weights else ("metis", "kaminpar")
        fitting = [name for name in order if _fits(name, size, available)]
        chosen = fitting[0] if fitting else "streaming"
        logger.info("--method auto: %s, for about %s of memory", chosen, binary(PARTITIONERS[chosen].memory.of(size)))
        return chosen
    needed = PARTITIONERS[method].memory.of(size)
    if needed > available:
        raise InputError(
            f"--method {method} needs about {binary(needed)} of memory for {size.vertices:,} vertices and "
            f"{size.adjacencies:,} adjacencies, {binary(available)} are available; "
            f"--method {_smaller(size, available)}"
        )
    return method


def _fits(name: str, size: Size, available: int) -> bool:
    return PARTITIONERS[name].missing() is None and PARTITIONERS[name].memory.of(size) <= available


def _smaller(size: Size, available: int) -> str:
    """Return which method fits instead of one that does not, in words."""
    if PARTITIONERS["kaminpar"].memory.of(size) > available:
        return "streaming fits"
    install = PARTITIONERS["kaminpar"].missing()
    return "kaminpar fits" + (f" ({install})" if install else "")


def assign(name: str, problem: Problem) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N]; every vertex has one, and no part is empty. Needs parts <= vertices."""
    n, parts = problem.graph.num_vertices, problem.parts
    if parts == 1:
        return np.zeros(n, np.int32)
    assignment = PARTITIONERS[name].assign(problem)
    assert assignment.shape == (n,)
    assert assignment.min() >= LEFT_OUT
    assert assignment.max() < parts
    graph, left_out = problem.graph, assignment == LEFT_OUT
    if left_out.any():
        # Beside their neighbours, with parts that are even in vertices as far as those placed already let them.
        assignment = stream(
            graph.indptr, graph.indices, parts, seed=problem.seed, assignment=assignment, movable=left_out
        )
    return fill_empty_parts(assignment, parts, np.diff(problem.graph.indptr))


def fill_empty_parts(assignment: NDArray[np.int32], parts: int, degrees: NDArray[np.int64]) -> NDArray[np.int32]:
    """Give each empty part the vertex of lowest degree of the largest part. Needs parts <= vertices."""
    sizes = np.bincount(assignment, minlength=parts)
    for part in np.flatnonzero(sizes == 0):
        largest = int(np.argmax(sizes))
        candidates = np.flatnonzero(assignment == largest)
        assignment[candidates[np.argmin(degrees[candidates])]] = part
        sizes[largest] -= 1
        sizes[part] += 1
        logger.warning("part %d came out empty and was given one vertex of part %d", part, largest)
    return assignment
