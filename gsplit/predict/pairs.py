"""Predictions of pairs: scores of those asked for, and the neighbours of vertices, those that score best with each.

The trainers compute the vectors of all vertices that are needed into memory that all map, each those that it owns.
Then each scores a share: pairs, or all candidates of some vertices, of which it keeps the best so far. Which vertex
comes first of those that score the same is decided by global ids, so results do not depend on the trainers.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from gsplit.data import Layout
from gsplit.data.ids.kept_ids import KeptIds
from gsplit.data.ids.prefixes import NONE
from gsplit.data.importers.attached.link_files import read_pairs
from gsplit.engine.evaluation.candidates import known_entries, known_of, rounds
from gsplit.engine.evaluation.exact import LevelRows
from gsplit.engine.evaluation.ranking import Known, Lists, Scores, pieces, prepare, scores_of
from gsplit.engine.evaluation.vectors import Vectors
from gsplit.errors import InputError
from gsplit.nn.decoders import Decoder
from gsplit.parallel import Member
from gsplit.predict.output import VALUES, create_values
from gsplit.predict.vertices import Request

TOP_K = 10
"""Neighbours of a vertex where nobody says how many."""
SOURCES = "sources.npy"
"""int64 [M] global ids whose neighbours are wanted, in the folder of a prediction; of scores there are none."""
NOT_FINITE = "not-finite-{rank}.npy"
"""int64 global ids of a trainer's vertices whose vectors are not finite, in the same folder."""


@dataclass(frozen=True, kw_only=True)
class PairSpec:
    """What trainers predict of pairs."""

    pickled_decoder: bytes
    width: int
    """Columns of the vectors that are scored."""
    top_k: int | None
    """Neighbours of each vertex; None: scores of pairs."""
    drops_known: bool
    """Leave out neighbours that training knew."""


def asked_pairs(which: str | Path | ArrayLike, layout: Layout) -> NDArray[np.int64]:
    """int64 [M, 2] global ids of pairs.

    Args:
        which: the path of a file, or the pairs themselves.
        layout: of the graph they are in.

    Raises:
        InputError: for a file that cannot be read, ids that are none of the graph, or no pair at all.
    """
    named, n = layout.ids(), layout.graph.num_vertices
    if isinstance(which, str | Path):
        where, ids = str(which), None if named is None else _LayoutIds(named, str(which), n)
        pairs = read_pairs(Path(which), None if Path(which).suffix == ".npy" else ids)
    else:
        where, given = "pairs", np.asarray(which)
        if given.dtype.kind in "UTO" and named is not None and given.ndim > 1 and given.shape[1] == 2:
            return np.stack([named.find(given[:, end].tolist(), where) for end in (0, 1)], axis=1)
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
            raise InputError(f"{where} must be whole numbers of shape (M, 2), not {given.dtype} of {given.shape}")
        pairs = given.astype(np.int64)
    if not len(pairs):
        raise InputError(f"{where} asks for no pair")
    outside = ((pairs < 0) | (pairs >= n)).any(axis=1)
    if outside.any():
        at = int(np.argmax(outside))
        raise InputError(
            f"{where}: pair number {at + 1} is {pairs[at, 0]}, {pairs[at, 1]}, outside the vertices 0 .. {n - 1}"
        )
    return pairs


class _LayoutIds:
    """The ids of a layout, for a file of pairs."""

    prefixes = NONE

    def __init__(self, kept: KeptIds, where: str, num_vertices: int) -> None:
        self.names, self.num_vertices = kept.names, num_vertices
        self._kept, self._where = kept, where

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; refuses one that there is not."""
        texts = [column.to_pylist() for column in columns]
        return self._kept.find(texts[0] if len(texts) == 1 else list(zip(*texts, strict=True)), self._where)

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return self._kept.shown(vertex)


def neighbours_dtype(dtype: Any) -> np.dtype[Any]:
    """Type of a neighbour: its global id, -1 for none, and its score, NaN for none."""
    return np.dtype([("neighbour", np.int64), ("score", dtype)])


def not_finite(folder: Path, world: int) -> NDArray[np.int64]:
    """Global ids of all trainers' vertices whose vectors are not finite, ascending."""
    return np.sort(np.concatenate([np.load(folder / NOT_FINITE.format(rank=rank)) for rank in range(world)]))


def write_share(
    member: Member,
    spec: PairSpec,
    folder: Path,
    vectors: Vectors,
    chunks: Iterator[tuple[NDArray[np.int64], Tensor]],
    request: Request,
    layout: Layout,
    *,
    level: int,
    threads: int,
) -> None:
    """Score this trainer's share and write it into ``values.npy``; all trainers make the call.

    Args:
        member: this trainer.
        spec: what is predicted.
        folder: of the prediction.
        vectors: that gathers the chunks.
        chunks: vectors of this trainer's vertices.
        request: the ends of the pairs, [2 M]; or vertices and then candidates.
        layout: whose vertices they are.
        level: of the vectors.
        threads: that count.
    """
    mask = np.zeros(layout.graph.num_vertices, np.bool_)
    mask[request.ids] = True
    decoder: Decoder = pickle.loads(spec.pickled_decoder).to(member.device).eval()
    rows, table, odd = vectors.table(chunks, mask, level, spec.width, partial(prepare, decoder))
    np.save(folder / NOT_FINITE.format(rank=member.rank), layout.permutation[odd])
    scores = scores_of(decoder, table, threads=threads, device=member.device)
    if spec.top_k is None:
        u, v = rows.places(request.ids).reshape(-1, 2).T
        begin, end = _share(len(u), member)
        values = _created(folder, (len(u),), table.dtype, member)
        values[begin:end] = scores.pairs(u[begin:end], v[begin:end])
    else:
        num_sources = len(np.load(folder / SOURCES, mmap_mode="r"))
        sources, candidates = np.split(request.ids, [num_sources])
        begin, end = _share(num_sources, member)
        own = np.argsort(sources, kind="stable")[begin:end]
        values = _created(folder, (num_sources, spec.top_k), neighbours_dtype(table.dtype), member)
        among = _Among(scores, rows, mask, candidates, layout)
        for places, known in _known(spec, layout, sources, own):
            for piece in pieces(known.lengths(sources[places]) + spec.top_k):
                at = places[piece]
                left_out = known.lists(sources[at], sources[at])
                values["neighbour"][at], values["score"][at] = among.best(sources[at], spec.top_k, left_out)
    values.flush()
    member.barrier()


def _share(number: int, member: Member) -> tuple[int, int]:
    """Begin and end of a trainer's run of so many things."""
    return number * member.rank // member.world, number * (member.rank + 1) // member.world


def _created(folder: Path, shape: tuple[int, ...], dtype: Any, member: Member) -> Any:
    """The file of the results, which trainer 0 makes, as a map."""
    if member.rank == 0:
        create_values(folder / VALUES, shape, dtype)
    member.barrier()
    return np.load(folder / VALUES, mmap_mode="r+")


def _known(
    spec: PairSpec, layout: Layout, sources: NDArray[np.int64], own: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Known]]:
    """Places of own sources, so many at a time that what is known of them is bounded, and what is left out."""
    links = layout.graph.links
    pairs = [] if links is None or links.train is None else [links.train]
    if not spec.drops_known:
        yield own, Known.nothing(layout.graph.num_vertices)
        return
    for part in rounds(sources[own], known_entries(layout, pairs)):
        yield own[part], known_of(layout, sources[own[part]], pairs)


class _Among:
    """Finds the best of some candidates."""

    def __init__(
        self, scores: Scores, rows: LevelRows, mask: NDArray[np.bool_], candidates: NDArray[np.int64], layout: Layout
    ) -> None:
        self._scores, self._rows, self._mask = scores, rows, mask
        self._candidates = rows.places(np.unique(candidates))
        self._global_ids = layout.permutation[np.flatnonzero(mask)]

    def best(self, sources: NDArray[np.int64], k: int, left_out: Lists) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Global ids [n, k] of the best candidates, -1 for none, and their scores."""
        keeps = self._mask[left_out.rows]
        indptr = np.concatenate([[0], np.cumsum(keeps)])[left_out.indptr]
        lists = Lists(indptr, self._rows.places(left_out.rows[keeps]))
        found, scores = self._scores.best(self._rows.places(sources), k, self._candidates, lists, self._global_ids)
        return np.where(found < 0, -1, self._global_ids[found]), scores
