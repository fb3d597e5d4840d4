"""Datasets of GraphBolt: a folder with ``metadata.yaml``, as its OnDiskDataset takes it.

Read are ``graph`` (``nodes``, ``edges`` in ``csv`` or ``numpy``), of ``feature_data`` the vertices' ``feat`` and
``label`` and the edges' ``weight``, of the first of ``tasks`` ``num_classes`` and the sets, which give vertex sets
and labels, and of the task ``link_prediction`` the pairs. DGL is not needed, nor what GraphBolt makes of the folder
(``preprocessed``).

A set of pairs has ``seeds`` (in releases before 2.2 ``node_pairs``) [M, 2]. In validation and test, ``labels`` [M]
say which of them belong together (1) and which do not (0), and ``indexes`` [M] which are compared with each other;
or ``negative_dsts`` [M, K] are the candidates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels, read_npy
from gsplit.data.importers.checked import as_edge_index, as_features, as_vertex_set, as_weights, printable_line
from gsplit.data.importers.formats.number_tables import read_matrix, table_edges
from gsplit.data.importers.formats.torch_files import dense_array, load_torch
from gsplit.data.importers.source import EdgeChunks, GraphSource, array_edges
from gsplit.data.links.edge_sets import Links, file_of, links_of_files
from gsplit.errors import InputError

FILE = "metadata.yaml"
FEATURES = ("feat", "x", "features")
LABELS = ("label", "labels", "y")
WEIGHTS = ("weight", "w", "edge_weight")
SEEDS = ("seeds", "seed_nodes")
PAIRS = ("seeds", "node_pairs")
LINKS = "link_prediction"
"""Name of the task whose sets are pairs."""
SETS = {"train": "train_set", "valid": "validation_set", "test": "test_set"}


class Node:
    """A place in the description, which knows what messages should call it."""

    def __init__(self, value: Any, file: Path, trail: str = "") -> None:
        self.value, self.file, self.trail = value, file, trail

    def at(self, key: str) -> str:
        """The place of ``key``, as messages call it."""
        return f"{self.file}: {self.trail}{key}"

    def get(self, key: str, kind: type, *, default: Any = ...) -> Any:
        """The value of ``key``, which must be of ``kind``; where it is null or missing, ``default`` if given."""
        found = self.value.get(key) if isinstance(self.value, dict) else None
        if found is None and default is not ...:
            return default
        if found is None:
            raise InputError(f"{self.at(key)} is missing")
        if not isinstance(found, kind) or isinstance(found, bool):
            raise InputError(f"{self.at(key)} is of type {type(found).__name__}, not {kind.__name__}")
        return found

    def child(self, key: str) -> Node:
        """The mapping at ``key``."""
        return Node(self.get(key, dict), self.file, f"{self.trail}{key}.")

    def items(self, key: str) -> list[Node]:
        """The entries of a list; no entries where it is missing."""
        found = self.get(key, list, default=[])
        return [Node(item, self.file, f"{self.trail}{key}[{at}].") for at, item in enumerate(found)]

    def only(self, key: str) -> Node:
        """The one entry of a list, as homogeneous graphs have it."""
        found = self.items(key)
        if len(found) != 1:
            raise InputError(f"{self.at(key)} has {len(found)} entries; a homogeneous graph has one")
        return found[0].homogeneous()

    def homogeneous(self) -> Node:
        """This place, where it names no type of vertices or edges; InputError where it does."""
        if isinstance(self.value, dict) and self.value.get("type") is not None:
            raise InputError(f"{self.at('type')} is {self.value['type']!r}; only homogeneous graphs can be imported")
        return self

    def path(self) -> Path:
        """The file that ``path`` names, beside the description."""
        return self.file.parent / str(self.get("path", str))

    def array(self) -> NDArray[Any]:
        """The array in the file of an entry with ``format`` and ``path``."""
        form = self.get("format", str)
        if form == "numpy":
            return read_npy(self.path())
        if form == "torch":
            return dense_array(load_torch(self.path()), str(self.path()))
        raise InputError(f"{self.at('format')} is {form!r}; expected numpy or torch")


def load_graphbolt(path: Path) -> GraphSource:
    """Read the dataset in folder ``path``.

    Raises:
        InputError: where PyYAML is missing, for a description that is damaged, lacks keys or describes a
            heterogeneous graph, and for files that are missing, damaged or do not fit.
    """
    root = _description(path / FILE)
    if "graph" not in root.value and "graph_topology" in root.value:
        raise InputError(f"{root.file} describes a preprocessed dataset; import the folder it was made from")
    graph = root.child("graph")
    n = int(graph.only("nodes").get("num", int))
    if n < 1:
        raise InputError(f"{graph.at('nodes[0].num')} is {n}; a graph has vertices")
    features = _feature(root, "node", FEATURES)
    tasks = root.items("tasks")
    of_links = next((task for task in tasks if task.get("name", str, default="") == LINKS), None)
    of_vertices = next((task for task in tasks if task is not of_links), None)
    vertex_sets, labels = ({}, None) if of_vertices is None else _sets(of_vertices, n)
    whole = _feature(root, "node", LABELS)
    if whole is not None:
        labels = as_labels(whole.array(), n, str(whole.path()))
    return GraphSource(
        name=str(root.get("dataset_name", str, default=path.absolute().name)),
        edges=_edges(graph.only("edges"), _feature(root, "edge", WEIGHTS)),
        num_vertices=n,
        features=None if features is None else as_features(features.array(), n, str(features.path())),
        labels=labels,
        num_classes=None if of_vertices is None else of_vertices.get("num_classes", int, default=None),
        vertex_sets=vertex_sets,
        links=None if of_links is None else _links(of_links),
        where=str(path),
        called={} if whole is None else {"labels": str(whole.path())},
    )


def _description(file: Path) -> Node:
    try:
        import yaml
    except ImportError as error:
        raise InputError(f"datasets of GraphBolt need PyYAML ({error}): pip install 'gsplit[graphbolt]'") from None
    if not file.is_file():
        raise InputError(f"{file} is missing")
    try:
        value = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        cause = printable_line(str(getattr(error, "problem", None) or error))
        raise InputError(f"{file}{line} is not YAML: {cause}") from None
    if not isinstance(value, dict):
        raise InputError(f"{file} is no description of a dataset: it holds no keys")
    return Node(value, file)


def _feature(root: Node, domain: str, names: tuple[str, ...]) -> Node | None:
    """The entry of ``feature_data`` with the first of ``names``."""
    of_domain = [entry for entry in root.items("feature_data") if entry.get("domain", str) == domain]
    by_name = {entry.homogeneous().get("name", str): entry for entry in of_domain}
    return next((by_name[name] for name in names if name in by_name), None)


def _edges(entry: Node, weight_entry: Node | None) -> EdgeChunks:
    form, path = entry.get("format", str), entry.path()
    if form == "numpy":
        source, destination = as_edge_index(read_npy(path), str(path))
        weight = _weight(weight_entry, len(source))
        return array_edges(source, destination, weight, place=lambda i: f"{path.name}, column {i}")
    if form != "csv":
        raise InputError(f"{entry.at('format')} is {form!r}; expected csv or numpy")
    edges = table_edges(path)
    if weight_entry is None:
        return edges
    pairs = read_matrix(path, int, columns=2)
    return array_edges(pairs[:, 0], pairs[:, 1], _weight(weight_entry, len(pairs)), place=edges.place)


def _weight(entry: Node | None, count: int) -> NDArray[Any] | None:
    return None if entry is None else as_weights(entry.array(), count, str(entry.path()))


def _sets(task: Node, n: int) -> tuple[dict[str, NDArray[np.int64]], NDArray[Any] | None]:
    """The sets, and labels float64 [N] or [N, C], NaN for vertices of no set; None where no set has labels."""
    vertex_sets: dict[str, NDArray[np.int64]] = {}
    labels: NDArray[Any] | None = None
    for name, key in SETS.items():
        if not task.items(key):
            continue
        only = task.only(key)
        data = {entry.get("name", str): entry for entry in only.items("data")}
        seeds = next((data[seed] for seed in SEEDS if seed in data), None)
        if seeds is None:
            raise InputError(f"{only.at('data')} has no entry with the name seeds")
        ids = as_vertex_set(seeds.array(), n, str(seeds.path()), mask=False)
        if len(ids):
            vertex_sets[name] = ids
        if "labels" not in data:
            continue
        given = as_labels(data["labels"].array(), len(ids), str(data["labels"].path()))
        if labels is None:
            labels = np.full((n, *given.shape[1:]), np.nan)
        if labels.shape[1:] != given.shape[1:]:
            raise InputError(f"{data['labels'].path()} has labels of shape {given.shape}, unlike the sets before it")
        labels[ids] = given
    return vertex_sets, labels


def _links(task: Node) -> Links | None:
    """The links of the sets of a task; None where there are no pairs."""
    where, arrays = task.at(LINKS), dict[str, NDArray[Any]]()
    for name, key in SETS.items():
        if not task.items(key):
            continue
        data = {entry.get("name", str): entry.array() for entry in task.only(key).items("data")}
        pairs = next((data[key] for key in PAIRS if key in data), None)
        if pairs is None:
            raise InputError(f"{where}: the {name} set has no entry with the name seeds")
        if "labels" in data:
            if data["labels"].shape != pairs.shape[:1]:
                raise InputError(
                    f"{where}: the {name} set has {len(pairs)} pairs, but labels of shape {data['labels'].shape}"
                )
            positive = data["labels"] > 0
            others = {} if name == "train" or positive.all() else _others(pairs, positive, data.get("indexes"))
            arrays |= {f"{name}_{what}": array for what, array in others.items()}
            pairs = pairs[positive]
        elif "negative_dsts" in data and name != "train":
            arrays[f"{name}_candidates"] = data["negative_dsts"]
        arrays[file_of(name)] = pairs
    return links_of_files(arrays, where)


def _others(
    pairs: NDArray[Any], positive: NDArray[np.bool_], indexes: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """Pairs that do not belong together: candidates [m, K] where each of the others has K with its source."""
    own, other = np.flatnonzero(positive), np.flatnonzero(~positive)
    if indexes is not None and indexes.shape == positive.shape and len(other) % max(1, len(own)) == 0:
        order = other[np.argsort(indexes[other], kind="stable")].reshape(len(own), -1)
        query = np.argsort(np.argsort(indexes[own], kind="stable"), kind="stable")
        rows = order[query]
        same_query = (indexes[rows] == indexes[own][:, None]).all()
        if same_query and (pairs[rows, 0] == pairs[own][:, :1]).all():
            return {"candidates": pairs[rows, 1]}
    return {"negatives": pairs[other]}
