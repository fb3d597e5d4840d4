"""Whether exact evaluation fits into the memory that is free: asked before any process is started.

| what | bytes |
|---|---|
| levels | two buffers that all trainers map, for the hidden levels in turn: the rows that are needed of each |
| logits | of the vertices asked for, in the buffer whose turn it is, where metrics or predictions gather them |
| chunks | of each trainer: the edges, the rows of their sources, and what is computed of them |

Numbers of levels are in the type that models are given rows in, others in that of the parameters. A bound from above,
with all vertices in every level, is tried first; only where that does not fit are edges read.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.config.links import drawn_candidates
from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.candidates import (
    given_candidates,
    given_negatives,
    multiplications,
    ranked_rows,
    ranking_candidates,
)
from gsplit.engine.evaluation.exact import MAX_EDGES, MAX_ROW_BYTES
from gsplit.engine.evaluation.most_together import most_together
from gsplit.engine.evaluation.sampled_targets import validated
from gsplit.engine.evaluation.single_layers import single_layers_of
from gsplit.engine.evaluation.typed_memory import TypedLevels
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.run import Run
from gsplit.errors import InputError
from gsplit.full.levels import levels_of
from gsplit.limits import host_memory
from gsplit.nn import TypedLayeredModel
from gsplit.units import binary

logger = logging.getLogger(__name__)

TOLD_MULTIPLICATIONS = 10**12
"""So many are told before a run that ranks pairs by them."""
A_SECOND = 2 * 10**10
"""Multiplications of a thread, fewer than a core of today makes."""
ALL = "all neighbours"
NOTHING = "--evaluate none takes nothing"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Vertices that vectors are wanted of."""

    what: str
    """The vertices in words."""
    ids: NDArray[np.int64]
    """Layout ids, ascending."""
    copies: int
    """How often their vectors stand in memory, all together: 0 where they are used chunk by chunk."""


class Levels(Protocol):
    """The levels that vectors are computed from, one after the other."""

    widths: Sequence[int]
    """[l + 1] of the vectors of each level, up to that which is wanted."""

    def most(self) -> list[int]:
        """Rows of the levels below the last, [l], at most."""

    def needed(self, ids: NDArray[np.int64]) -> list[int]:
        """Rows of the same levels that vectors of some layout ids depend on."""

    def chunk_bytes(self, precision: Precision, trainers: int) -> int:
        """Bytes of the chunk that takes most, on the trainer that has most vertices and edges."""


class OfOneType:
    """The levels of a layout of one type.

    Args:
        layout: to compute on.
        widths: [l + 1] of the levels.
    """

    def __init__(self, layout: Layout, widths: Sequence[int]) -> None:
        self._layout, self.widths = layout, widths

    def most(self) -> list[int]:
        """All vertices, in each level."""
        return [self._layout.graph.num_vertices] * (len(self.widths) - 1)

    def needed(self, ids: NDArray[np.int64]) -> list[int]:
        """See :func:`rows_of_levels`."""
        return rows_of_levels(self._layout, ids, len(self.widths) - 1)

    def chunk_bytes(self, precision: Precision, trainers: int) -> int:
        """See :func:`chunk_bytes`."""
        return chunk_bytes(self._layout, self.widths, precision, trainers)


class NoLevels:
    """No level but the last, of so many columns: its chunks are as small as mini-batches."""

    def __init__(self, columns: int) -> None:
        self.widths: Sequence[int] = [0, columns]

    def most(self) -> list[int]:
        """None."""
        return [0]

    def needed(self, ids: NDArray[np.int64]) -> list[int]:
        """None."""
        return [0]

    def chunk_bytes(self, precision: Precision, trainers: int) -> int:
        """Nothing that counts."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The vertices and layers that a run evaluates."""

    asked: list[Asked]
    """Vertices, one set after the other."""
    levels: Levels
    """Where their vectors come from."""
    sampled: bool
    """Whether neighbours are sampled."""


def evaluated(run: Run, layout: Layout) -> Evaluated | None:
    """Return what a run evaluates; None where it does not, or by a model that is computed as a whole."""
    config, graph = run.config, layout.graph
    if config.evaluate == "none":
        return None
    exact = exact_levels(run, layout)
    if exact is None and config.evaluate == "exact":
        return None
    sampled = exact is None or config.evaluate == "sampled"
    levels = NoLevels(graph.num_classes) if exact is None or sampled else exact
    if config.task == "links":
        ranked = [_ranked(run, layout, name) for name in ("valid", "test") if name == "test" or config.validates]
        return Evaluated(asked=ranked, levels=levels, sampled=sampled)
    valid_idx = (
        validated(layout, config.validate_vertices, config.seed) if config.validates else np.empty(0, np.int64)
    )
    measured = int(config.metrics is not None)
    n = graph.schema.types[graph.target].num_vertices
    saved = np.arange(n if config.save_predictions != "no" else 0)
    asked = [
        Asked(what="the validation vertices", ids=valid_idx, copies=measured),
        Asked(what="the test vertices", ids=graph.test_idx, copies=measured),
        Asked(what="all vertices (--save-predictions)", ids=saved, copies=2),
    ]
    return Evaluated(asked=asked, levels=levels, sampled=sampled)


def exact_levels(run: Run, layout: Layout) -> Levels | None:
    """The levels of exact evaluation; None for a model that is computed as a whole."""
    model = run.new_model().to(run.dtype).eval()
    if isinstance(model, TypedLayeredModel):
        return TypedLevels(layout, model)
    loader = SplitLoader.from_host(layout, run.needs, dtype=run.dtype)
    layers = single_layers_of(model, loader, run.config.layers, warns=False)
    return None if layers is None else OfOneType(layout, layers.widths)


def _ranked(run: Run, layout: Layout, name: str) -> Asked:
    """What the pairs of a set need, at most: their vectors, which are gathered, and those of their candidates."""
    config, links, n = run.config, layout.graph.links, layout.graph.num_vertices
    pairs, candidates = ranked_pairs(run, layout, name)
    each = drawn_candidates(candidates)
    if candidates == "all" or each is not None:
        ids = np.arange(n if each is None else min(n, pairs * (each + 2)))
    else:
        assert links is not None
        of_set = links.edge_set(name)
        assert of_set is not None
        rows = ranked_rows(len(of_set), config.validate_vertices if name == "valid" else None, config.seed)
        arrays = of_set, given_candidates(links, name), given_negatives(links, name)
        of_pairs = [array if at == 2 else array[rows] for at, array in enumerate(arrays) if array is not None]
        ids = np.unique(layout.positions[np.concatenate([array.reshape(-1) for array in of_pairs])])
    return Asked(what=f"the {name} pairs and their candidates", ids=ids if pairs else ids[:0], copies=1)


def ranked_pairs(run: Run, layout: Layout, name: str) -> tuple[int, str]:
    """How many pairs of ``valid`` or ``test`` a run ranks, and among which candidates.

    Raises:
        InputError: for candidates that there are not.
    """
    config, links = run.config, layout.graph.links
    assert links is not None
    of_set = links.edge_set(name)
    pairs = 0 if of_set is None else len(of_set)
    if name == "valid" and config.validate_vertices is not None:
        pairs = min(pairs, config.validate_vertices)
    n, width = layout.graph.num_vertices, layout.graph.num_classes
    if not pairs:
        return 0, "all"
    asked = config.evaluate_negatives
    return pairs, ranking_candidates(asked, links, name, num_vertices=n, width=width, pairs=pairs)


def check_ranking(run: Run, layout: Layout) -> None:
    """Refuse candidates that there are not, and say what ranking takes where that is long.

    Raises:
        InputError: by the flag.
    """
    if run.config.evaluate == "none":
        return
    n, width = layout.graph.num_vertices, layout.graph.num_classes
    for name in ("valid", "test"):
        pairs, candidates = ranked_pairs(run, layout, name)
        number = multiplications(pairs, n, width)
        if candidates == "all" and number >= TOLD_MULTIPLICATIONS:
            seconds = number / (A_SECOND * run.trainers * max(1, run.config.threads))
            logger.info(
                "%d %s pairs are ranked among all %d vertices: %.1e multiplications, some %.0f s; "
                "--evaluate-negatives uniform:1000 takes fewer",
                *(pairs, name, n, number, seconds),
            )


def check_evaluation(run: Run, layout: Layout) -> None:
    """Refuse a run whose validation, test or predictions would not fit; models computed as a whole are not asked.

    Raises:
        InputError: with the memory that is wanting.
    """
    if run.config.task == "links":
        check_ranking(run, layout)
    found = evaluated(run, layout)
    if found is None:
        return
    check_evaluation_fits(
        found.levels,
        found.asked,
        precision=run.precision,
        trainers=run.config.trainers_here,
        instead="--evaluate none takes nothing"
        if found.sampled
        else "--evaluate sampled takes less, --evaluate none nothing",
        neighbours="sampled neighbours" if found.sampled else ALL,
    )


def bytes_at_most(run: Run, layout: Layout) -> int:
    """Bytes of the host that evaluation takes at most: with all vertices in every level, so that no edge is read.

    A model that is computed as a whole is left out.
    """
    found = evaluated(run, layout)
    if found is None:
        return 0
    levels, precision = found.levels, run.precision
    chunks = run.config.trainers_here * levels.chunk_bytes(precision, run.trainers)
    each = (taken_bytes(levels.most(), asked, levels.widths, precision) for asked in found.asked if len(asked.ids))
    return max((taken + chunks for taken in each), default=0)


def check_evaluation_fits(
    levels: Levels,
    asked: Iterable[Asked],
    *,
    precision: Precision,
    trainers: int,
    instead: str,
    neighbours: str = ALL,
) -> None:
    """Refuse what does not fit.

    Args:
        levels: that the vectors are computed from.
        asked: sets of vertices, one after the other.
        precision: in which models are called.
        trainers: P.
        instead: what to do, in words.
        neighbours: over which the vectors are, in words; where those are sampled chunks are as small as mini-batches.

    Raises:
        InputError: with the memory that it takes and what there is.
    """
    widths, last = levels.widths, len(levels.widths) - 1
    free = host_memory().available_bytes
    chunks = trainers * levels.chunk_bytes(precision, trainers)

    def taken(rows: Sequence[int], asked: Asked) -> int:
        return taken_bytes(rows, asked, widths, precision) + chunks

    for each in asked:
        if not len(each.ids) or taken(levels.most(), each) <= free:
            continue
        rows = levels.needed(each.ids)
        if (needed := taken(rows, each)) > free:
            most = max(range(1, last), key=lambda level: rows[level] * widths[level], default=0)
            hidden = f", {rows[most]:,} rows of {widths[most]} numbers of level {most} among them" if most else ""
            raise InputError(
                f"vectors of {each.what} over {neighbours} take {binary(needed)} of memory{hidden}, but "
                f"{binary(free)} are free; {instead}"
            )


def taken_bytes(rows: Sequence[int], asked: Asked, widths: Sequence[int], precision: Precision) -> int:
    """Bytes of the buffers for some vertices, and of the other copies of their vectors.

    Args:
        rows: of each level.
        asked: the vertices.
        widths: [last + 1] of the levels.
        precision: in which models are called.
    """
    gathered = len(asked.ids) if asked.copies else 0
    more = max(0, asked.copies - 1) * gathered * widths[-1] * precision.dtype.itemsize
    return sum(buffer_bytes(rows, widths, precision, gathered=gathered)) + more


def rows_of_levels(layout: Layout, ids: NDArray[np.int64], last: int) -> list[int]:
    """Vertices of each level 0 .. ``last`` that exact vectors of some layout ids depend on, [last + 1]."""
    n = layout.graph.num_vertices
    bounds = np.array([0, n])
    return [int(size) for size in levels_of(layout.graph, bounds, last, whole=False, targets=ids).sizes[0]]


def buffer_bytes(
    rows: Sequence[int], widths: Sequence[int], precision: Precision, *, gathered: int = 0
) -> tuple[int, int]:
    """Bytes of the two buffers that levels lie in, in turn: of the even ones, and of the odd ones.

    Args:
        rows: of each level, [last] or more.
        widths: [last + 1] of the levels.
        precision: in which models are called.
        gathered: vectors of the last level that are gathered.
    """
    last = len(widths) - 1
    sizes = {level: rows[level] * widths[level] * precision.rows.itemsize for level in range(1, last)}
    sizes[last] = gathered * widths[last] * precision.dtype.itemsize
    even, odd = (max((size for level, size in sizes.items() if level % 2 == turn), default=0) for turn in (0, 1))
    return even, odd


def chunk_bytes(layout: Layout, widths: Sequence[int], precision: Precision, trainers: int) -> int:
    """Bytes of a chunk of the layer that takes most, on the trainer that has most vertices and edges."""
    graph, bounds = layout.graph, bounds_of(layout, trainers)
    own_edges = int(np.diff(bounds + graph.indptr[bounds]).max())  # a loop for each vertex counts as one
    most, itemsize = 0, precision.dtype.itemsize
    for layer, (wide, out) in enumerate(itertools.pairwise(widths), start=1):
        of_row = itemsize if layer == 1 else precision.rows.itemsize
        row_bytes = wide * of_row
        bounded = graph.num_vertices * row_bytes > MAX_ROW_BYTES
        edges = min(own_edges, MAX_EDGES, MAX_ROW_BYTES // row_bytes if bounded else MAX_EDGES)
        sources, destinations = min(graph.num_vertices, edges), most_together(graph.indptr, bounds, edges)
        of_sources, of_sums = sources * (wide + min(wide, out)) * of_row, 3 * destinations * out * itemsize
        most = max(most, 16 * edges + of_sources + of_sums)
    return most
