"""Node and link property datasets of the Open Graph Benchmark, from the raw files as they are downloaded.

The layout is that of OGB's own loader, which is not needed: a folder for each dataset with

- ``raw/edge.csv.gz``, ``num-node-list.csv.gz``, ``node-label.csv.gz``, and perhaps ``num-edge-list.csv.gz`` and
  ``node-feat.csv.gz``; or, for the largest, ``raw/data.npz`` (``edge_index`` [2, E], ``num_nodes_list``,
  ``node_feat`` [N, D]) and ``raw/node-label.npz`` (``node_label`` [N, 1], NaN where unlabelled),
- ``split/NAME/{train,valid,test}.csv.gz``, or ``split/NAME/split_dict.pt``,
- for links, which have no labels, ``split/NAME/{train,valid,test}.pt``, each a dictionary: ``edge`` [M, 2], and of
  validation and test ``edge_neg`` [K, 2], which all pairs are compared with; or ``source_node`` [M], ``target_node``
  [M], and of validation and test ``target_node_neg`` [M, K].

Edges and features are read in pieces, so that memory does not have to hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.formats.number_tables import read_matrix
from gsplit.data.importers.formats.ogb_files import edge_chunks, single, text_edges, text_vertices, vertex_sets_in
from gsplit.data.importers.formats.ogb_types import load_ogb_folder
from gsplit.data.importers.formats.torch_files import dense_array, load_torch
from gsplit.data.importers.formats.zipped_arrays import ZippedArray, zipped_arrays
from gsplit.data.importers.source import EDGES_AT_ONCE, GraphSource, Rows
from gsplit.data.links.edge_sets import EDGE_SETS, Links, links_of_files
from gsplit.errors import InputError

NUMBERS_AT_ONCE = 1 << 22


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
"""The dataset of several types (:mod:`gsplit.data.importers.formats.ogb_types`)."""


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
        return replace(load_ogb_folder(folder, num_classes=about.num_classes), name=name)
    split = folder / "split" / about.split
    read = _binary if (folder / "raw" / "data.npz").is_file() else _text
    source = read(folder, about, None if about.num_classes is None else split)
    labels = source.labels
    if labels is not None and labels.ndim == 2 and labels.shape[1] != about.num_classes:
        raise InputError(f"{folder}: the labels have {labels.shape[1]} columns; {name} has {about.num_classes}")
    return replace(source, name=name, links=_links(split) if about.num_classes is None else None)


def _folder(name: str, root: Path) -> Path:
    own = name.replace("-", "_")
    for folder in (root / own, root / f"{own}_pyg", root / f"{own}_dgl", root / DATASETS[name].archive, root):
        if (folder / "raw").is_dir():
            return folder
    raise InputError(f"{name} is not in {root}: there is no {root / own / 'raw'}; download it with the ogb package")


def _text(folder: Path, about: Dataset, split: Path | None) -> GraphSource:
    """A dataset in ``.csv.gz``."""
    raw = folder / "raw"
    counts, labels = raw / "num-node-list.csv.gz", raw / "node-label.csv.gz"
    vertices = text_vertices(
        raw / "node-feat.csv.gz",
        None if about.num_classes is None else labels,
        split,
        single(read_matrix(counts, int, columns=1), counts),
        about.num_classes,
        name=folder.name,
        where=str(folder),
    )
    return replace(vertices, edges=text_edges(raw, both_ways=about.both_ways))


def _binary(folder: Path, about: Dataset, split: Path | None) -> GraphSource:
    """A dataset in ``.npz``."""
    path, label_path = folder / "raw" / "data.npz", folder / "raw" / "node-label.npz"
    data, label_data = zipped_arrays(path), zipped_arrays(label_path)
    n = single(_array(data, "num_nodes_list", path).read(), f"{path}: num_nodes_list")
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
    return GraphSource(
        name=folder.name,
        edges=edge_chunks(pairs, count, lambda i: f"{path.name}, edge_index[:, {i}]", both_ways=about.both_ways),
        num_vertices=n,
        features=None if node_feat is None else _zipped_rows(node_feat, n),
        labels=as_labels(node_label.read(), n, str(node_label)),
        num_classes=about.num_classes,
        vertex_sets={} if split is None else vertex_sets_in(split, n),
        where=str(folder),
        called={"labels": str(node_label)},
    )


def _zipped_rows(array: ZippedArray, n: int) -> Rows:
    if len(array.shape) != 2 or array.shape[0] != n or array.column_major:
        order = ", column by column" if array.column_major else ""
        raise InputError(f"{array} must be rows of shape ({n}, D), not of shape {array.shape}{order}")
    width = array.shape[1]

    def chunks() -> Iterator[NDArray[Any]]:
        for flat in array.flat(0, n * width, at_once=width * max(1, NUMBERS_AT_ONCE // max(1, width))):
            yield flat.reshape(-1, width)

    return Rows(shape=(n, width), dtype=array.dtype, chunks=chunks)


def _array(arrays: dict[str, ZippedArray], key: str, path: Path) -> ZippedArray:
    if key not in arrays:
        raise InputError(f"{path} has no array {key!r}; it has {printable_line(', '.join(sorted(arrays))) or 'none'}")
    return arrays[key]


def _links(folder: Path) -> Links:
    """The pairs of a split."""
    arrays: dict[str, NDArray[Any]] = {}
    for name in EDGE_SETS:
        path = folder / f"{name}.pt"
        given = load_torch(path)
        if not isinstance(given, dict) or not ("edge" in given or {"source_node", "target_node"} <= {*given}):
            raise InputError(f"{path} must hold a dict with edge, or with source_node and target_node")
        arrays[f"{name}_edges"] = _pairs(given, path)
        for key, what in (("edge_neg", "negatives"), ("target_node_neg", "candidates")):
            if key in given and name != "train":
                arrays[f"{name}_{what}"] = dense_array(given[key], f"{path}: {key}")
    links = links_of_files(arrays, str(folder))
    assert links is not None
    return links


def _pairs(given: dict[str, Any], path: Path) -> NDArray[Any]:
    if "edge" in given:
        return dense_array(given["edge"], f"{path}: edge")
    ends = [dense_array(given[key], f"{path}: {key}") for key in ("source_node", "target_node")]
    if ends[0].shape != ends[1].shape:
        raise InputError(f"{path} has source_node of shape {ends[0].shape}, but target_node of {ends[1].shape}")
    return np.stack(ends, axis=-1)
