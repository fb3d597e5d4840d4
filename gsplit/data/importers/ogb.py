"""Node and link property datasets of the Open Graph Benchmark, from the raw files as they are downloaded.

The layout is that of OGB's own loader, which is not needed: a folder for each dataset with

- ``raw/edge.csv.gz``, ``num-node-list.csv.gz``, ``node-label.csv.gz``, and perhaps ``num-edge-list.csv.gz`` and
  ``node-feat.csv.gz``; or, for the largest, ``raw/data.npz`` (``edge_index`` [2, E], ``num_nodes_list``,
  ``node_feat`` [N, D]) and ``raw/node-label.npz`` (``node_label`` [N, 1], NaN where unlabelled),
- ``split/NAME/{train,valid,test}.csv.gz``, or ``split/NAME/split_dict.pt``; for links, which have no labels,
  ``split/NAME/{train,valid,test}.pt`` (:mod:`gsplit.data.importers.ogb_links`).

Edges and features are read in pieces, so that memory does not have to hold them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import as_vertex_set, printable_line
from gsplit.data.importers.number_tables import chunks_of, open_columns, read_matrix, table_edges
from gsplit.data.importers.ogb_links import links_of_split
from gsplit.data.importers.source import EDGES_AT_ONCE, EdgeChunk, EdgeChunks, GraphSource, Rows
from gsplit.data.importers.torch_files import dense_array, load_torch
from gsplit.data.npy import DAMAGED_ARCHIVE
from gsplit.errors import InputError

BYTES_AT_ONCE = 1 << 26


@dataclass(frozen=True, kw_only=True)
class ZippedArray:
    """One array of an archive, known by its header."""

    path: Path
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    column_major: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.key}"

    def read(self) -> NDArray[Any]:
        """Read the whole array.

        Raises:
            InputError: where the archive is damaged.
        """
        flat = np.concatenate([np.empty(0, self.dtype), *self.flat(0, int(np.prod(self.shape)))])
        return flat.reshape(self.shape, order="F" if self.column_major else "C")

    def flat(self, begin: int, count: int, *, at_once: int | None = None) -> Iterator[NDArray[Any]]:
        """Read ``count`` numbers from ``begin`` on, as they are stored, in pieces of ``at_once`` and a rest.

        Raises:
            InputError: where the archive is damaged or ends too soon.
        """
        at_once = at_once or max(1, BYTES_AT_ONCE // self.dtype.itemsize)
        with reading(self.path, self.key), _member(self.path, self.key) as file:
            _header(file)
            file.seek(begin * self.dtype.itemsize, 1)
            end = begin + count
            while begin < end:
                wanted = min(at_once, end - begin)
                content = file.read(wanted * self.dtype.itemsize)
                if len(content) < wanted * self.dtype.itemsize:
                    missing = f"{end - begin} of {np.prod(self.shape)} numbers are missing"
                    raise InputError(f"{self} ends too soon: {missing}")
                begin += wanted
                yield np.frombuffer(content, self.dtype)


def zipped_arrays(path: Path) -> dict[str, ZippedArray]:
    """The arrays of an archive by their keys; only headers are read.

    Raises:
        InputError: where the file is missing, no archive, or holds anything but plain arrays.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing")
    with reading(path, "the archive"), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
    arrays = {}
    for name in names:
        key = name.removesuffix(".npy")
        with reading(path, key), _member(path, key) as file:
            shape, column_major, dtype = _header(file)
        if dtype.kind not in "biuf":
            raise InputError(f"{path}: {printable_line(key)} holds {dtype}, not numbers")
        arrays[key] = ZippedArray(path=path, key=key, shape=shape, dtype=dtype, column_major=column_major)
    return arrays


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn the exceptions of a damaged archive into an InputError that names the file and ``what``."""
    try:
        yield
    except InputError:
        raise
    except DAMAGED_ARCHIVE as error:
        raise InputError(f"{path}: {printable_line(f'{what} is damaged or not of an .npz: {error}')}") from None


@contextmanager
def _member(path: Path, key: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as file:
        yield file


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


NUMBERS_AT_ONCE = 1 << 22
SET_FILES = ("train", "valid", "test")
Pairs = Callable[[], Iterator[tuple[NDArray[Any], NDArray[Any]]]]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Row of OGB's table of datasets, as far as it matters here."""

    num_classes: int | None
    """Number of classes; columns of the labels where a vertex has several (multi-label); None for links."""
    split: str
    both_ways: bool
    """True where the files hold each edge once, and its inverse belongs to the graph as well."""
    archive: str
    """Name of the folder in the download."""


DATASETS = {
    "ogbn-products": Dataset(num_classes=47, split="sales_ranking", both_ways=True, archive="products"),
    "ogbn-arxiv": Dataset(num_classes=40, split="time", both_ways=False, archive="arxiv"),
    "ogbn-proteins": Dataset(num_classes=112, split="species", both_ways=True, archive="proteins"),
    "ogbn-papers100M": Dataset(num_classes=172, split="time", both_ways=False, archive="papers100M-bin"),
    "ogbn-mag": Dataset(num_classes=349, split="time", both_ways=False, archive="mag"),
    "ogbl-collab": Dataset(num_classes=None, split="time", both_ways=True, archive="collab"),
    "ogbl-ddi": Dataset(num_classes=None, split="target", both_ways=True, archive="ddi"),
    "ogbl-ppa": Dataset(num_classes=None, split="throughput", both_ways=True, archive="ppassoc"),
    "ogbl-citation2": Dataset(num_classes=None, split="time", both_ways=False, archive="citation-v2"),
}


TYPED = "ogbn-mag"
"""The dataset of several types (:mod:`gsplit.data.importers.ogb_types`)."""


def load_ogb(name: str, root: Path) -> GraphSource:
    """Read dataset ``name``, which lies in ``root`` (or is ``root``).

    Raises:
        InputError: for names that are not known, files that are missing or damaged, and numbers that do not fit
            each other; what is wrong far down in edges or features, when those are read.
    """
    if name in ("ogbl-biokg", "ogbl-wikikg2"):
        raise InputError(f"{name} is of links of several types, which cannot be imported; ogbn-mag can")
    if name not in DATASETS:
        raise InputError(f"no dataset is called {name!r}; choose one of {', '.join(DATASETS)}")
    about = DATASETS[name]
    folder = _folder(name, root)
    if name == TYPED:
        from gsplit.data.importers import ogb_types  # which needs this module

        return replace(ogb_types.load_ogb_folder(folder, num_classes=about.num_classes), name=name)
    read = _binary if (folder / "raw" / "data.npz").is_file() else _text
    n, edges, features, labels, what = read(folder / "raw", about)
    split = folder / "split" / about.split
    if labels is not None and labels.ndim == 2 and labels.shape[1] != about.num_classes:
        raise InputError(f"{folder}: the labels have {labels.shape[1]} columns; {name} has {about.num_classes}")
    return GraphSource(
        name=name,
        edges=edges,
        num_vertices=n,
        features=features,
        labels=labels,
        num_classes=about.num_classes,
        vertex_sets={} if about.num_classes is None else vertex_sets_in(split, n),
        links=links_of_split(split) if about.num_classes is None else None,
        where=str(folder),
        called={"labels": what},
    )


def _folder(name: str, root: Path) -> Path:
    own = name.replace("-", "_")
    for folder in (root / own, root / f"{own}_pyg", root / f"{own}_dgl", root / DATASETS[name].archive, root):
        if (folder / "raw").is_dir():
            return folder
    raise InputError(f"{name} is not in {root}: there is no {root / own / 'raw'}; download it with the ogb package")


def _text(raw: Path, about: Dataset) -> tuple[int, EdgeChunks, Rows | None, NDArray[Any] | None, str]:
    """Number of vertices, edges, features, labels and what messages call those, of a dataset in ``.csv.gz``."""
    features, labels, counts = (raw / f"{name}.csv.gz" for name in ("node-feat", "node-label", "num-node-list"))
    n = _single(read_matrix(counts, int, columns=1), counts)
    return (
        n,
        text_edges(raw, both_ways=about.both_ways),
        text_rows(features, n) if features.is_file() else None,
        None if about.num_classes is None else as_labels(read_matrix(labels, float), n, f"{labels}: the table"),
        f"{labels}: the table",
    )


def text_edges(folder: Path, *, both_ways: bool = False) -> EdgeChunks:
    """The edges of ``edge.csv.gz`` in a folder, as many as ``num-edge-list.csv.gz`` says, where that is there.

    Raises:
        InputError: as :func:`load_ogb`.
    """
    edge, edge_counts = folder / "edge.csv.gz", folder / "num-edge-list.csv.gz"
    count = _single(read_matrix(edge_counts, int, columns=1), edge_counts) if edge_counts.is_file() else None
    table = table_edges(edge)

    def pairs() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        done = 0
        for chunk in table.chunks():
            done += len(chunk.source)
            yield chunk.source, chunk.destination
        if count is not None and done != count:
            raise InputError(f"{edge} has {done} edges; {edge_counts.name} says {count}")

    return _edges(pairs, count, table.place, both_ways=both_ways)


def _binary(raw: Path, about: Dataset) -> tuple[int, EdgeChunks, Rows | None, NDArray[Any], str]:
    """Number of vertices, edges, features, labels and what messages call those, of a dataset in ``.npz``."""
    path, label_path = raw / "data.npz", raw / "node-label.npz"
    data, label_data = zipped_arrays(path), zipped_arrays(label_path)
    n = _single(_array(data, "num_nodes_list", path).read(), f"{path}: num_nodes_list")
    edge_index = _array(data, "edge_index", path)
    if len(edge_index.shape) != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind != "i":
        raise InputError(f"{edge_index} must be integers of shape (2, E), not {edge_index.dtype} {edge_index.shape}")
    count = edge_index.shape[1]

    def pairs() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        if edge_index.column_major:
            for flat in edge_index.flat(0, 2 * count, at_once=2 * EDGES_AT_ONCE):
                yield flat[0::2], flat[1::2]
        else:  # all sources, then all destinations: two readers of the same array
            sources = edge_index.flat(0, count, at_once=EDGES_AT_ONCE)
            yield from zip(sources, edge_index.flat(count, count, at_once=EDGES_AT_ONCE), strict=True)

    node_label, node_feat = _array(label_data, "node_label", label_path), data.get("node_feat")
    return (
        n,
        _edges(pairs, count, lambda i: f"{path.name}, edge_index[:, {i}]", both_ways=about.both_ways),
        None if node_feat is None else _zipped_rows(node_feat, n),
        as_labels(node_label.read(), n, str(node_label)),
        str(node_label),
    )


def _edges(pairs: Pairs, count: int | None, place: Callable[[int], str], *, both_ways: bool) -> EdgeChunks:
    each = 2 if both_ways else 1

    def chunks() -> Iterator[EdgeChunk]:
        for source, destination in pairs():
            if both_ways:  # each edge, then its inverse, as OGB orders them
                source, destination = (
                    np.stack(pair, axis=1).reshape(-1) for pair in ((source, destination), (destination, source))
                )
            yield EdgeChunk(source=source, destination=destination)

    return EdgeChunks(chunks=chunks, count=None if count is None else each * count, place=lambda i: place(i // each))


def text_rows(path: Path, n: int) -> Rows:
    """The features of the ``n`` vertices in a table."""
    table = open_columns(path, None)

    def chunks() -> Iterator[NDArray[Any]]:
        done = 0
        for chunk in chunks_of(table, np.float64):
            done += len(chunk)
            if done > n:
                raise InputError(f"{path} has more than {n} rows; the graph has {n} vertices")
            yield chunk
        if done != n:
            raise InputError(f"{path} has {done} rows; the graph has {n} vertices")

    return Rows(shape=(n, table.num_columns), dtype=np.dtype(np.float32), chunks=chunks)


def _zipped_rows(array: ZippedArray, n: int) -> Rows:
    if len(array.shape) != 2 or array.shape[0] != n or array.column_major:
        order = ", column by column" if array.column_major else ""
        raise InputError(f"{array} must be rows of shape ({n}, D), not of shape {array.shape}{order}")
    width = array.shape[1]

    def chunks() -> Iterator[NDArray[Any]]:
        for flat in array.flat(0, n * width, at_once=width * max(1, NUMBERS_AT_ONCE // max(1, width))):
            yield flat.reshape(-1, width)

    return Rows(shape=(n, width), dtype=array.dtype, chunks=chunks)


def vertex_sets_in(folder: Path, n: int) -> dict[str, NDArray[np.int64]]:
    """The vertex sets of a folder of a split, of ``n`` vertices; empty ones are left out."""
    together = folder / "split_dict.pt"
    if together.is_file():
        lists = load_torch(together)
        if not isinstance(lists, dict) or any(name not in lists for name in SET_FILES):
            raise InputError(f"{together} must hold a dict of {', '.join(SET_FILES)}")
        what = {name: f"{together}: {name}" for name in SET_FILES}
        vertex_sets = {
            name: as_vertex_set(dense_array(lists[name], what[name]), n, what[name], mask=False) for name in what
        }
    else:
        paths = {name: folder / f"{name}.csv.gz" for name in SET_FILES}
        vertex_sets = {
            name: as_vertex_set(read_matrix(path, int, columns=1), n, str(path), mask=False)
            for name, path in paths.items()
        }
    return {name: ids for name, ids in vertex_sets.items() if len(ids)}


def _array(arrays: dict[str, ZippedArray], key: str, path: Path) -> ZippedArray:
    if key not in arrays:
        raise InputError(f"{path} has no array {key!r}; it has {printable_line(', '.join(sorted(arrays))) or 'none'}")
    return arrays[key]


def _single(values: NDArray[Any], what: object) -> int:
    """The one count in a list with an entry for each graph."""
    if values.size != 1 or values.dtype.kind not in "iu" or values.item() < 1:
        raise InputError(f"{what} must hold one count of 1 or more, not {values.reshape(-1)[:5].tolist()}")
    return int(values.item())
