"""What open graph stores and open layouts have in common: a graph in a folder, whose arrays are mapped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsplit.data.description import open_array, read_description, verify_checksums
from gsplit.data.graph import FEATURE_DTYPES, INDEX_DTYPES, VERTEX_SETS, Adjacency, GraphArrays, Labelled
from gsplit.data.ids.kept_ids import KeptIds, verify_ids
from gsplit.data.labels.class_names import names_described
from gsplit.data.links.edge_sets import open_links
from gsplit.data.memory.temporary import InFolder, Temporary, temporary_of
from gsplit.data.schema import Relation, Schema, VertexType
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError

VERSION = 3
"""Newest version of a description that is read."""
TYPED = 3
"""Version of the description of a graph of several types."""


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenFolder(InFolder):
    """A graph in an open folder; the arrays are mapped, and stay readable when the folder goes."""

    path: Path
    name: str
    checksum: str
    """SHA-256 over the checksums of all arrays."""
    description: dict[str, Any]
    graph: GraphArrays
    temporary: Temporary | None = None
    """The temporary folder that holds it and goes with it; None where it lies in a folder with a name."""

    def ids(self) -> KeptIds | None:
        """Return what the vertices are called, by global id, where the store was made with ids of any kind.

        Raises:
            InputError: where the file of ids is missing or damaged.
        """
        described = self.description.get("ids")
        return None if described is None else KeptIds(self.path, described, self.graph.num_vertices)

    def shown(self, vertex: int) -> str:
        """Return what messages call a vertex, by its global id."""
        ids = self.ids()
        return str(vertex) if ids is None else ids.shown(vertex)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """[C] names of the classes; None where they have numbers alone."""
        return self.graph.classes

    def __deepcopy__(self, _: object) -> OpenFolder:
        return self  # it cannot be changed

    def __repr__(self) -> str:
        where = "temporary" if self.temporary is not None else self.path
        return f"<{type(self).__name__} {self.name} ({where}): {self.graph.in_words}>"


def open_folder(path: Path, file_name: str, format_name: str, *, verify: bool, typed: bool) -> dict[str, Any]:
    """The fields of an :class:`OpenFolder`: dtypes and shapes of its arrays are checked, not their contents.

    Raises:
        InputError: where anything is missing or not as described, or there are several types and the caller takes
            but one.
    """
    description = read_description(path, file_name, format_name, VERSION)
    if verify:
        verify_checksums(path, description)
        if "ids" in description:
            verify_ids(path, description["ids"])
    graph = (_typed_graph if description["version"] == TYPED else _graph)(path, description)
    if graph.typed and not typed:
        names = ", ".join(graph.schema.type_names[:4])
        raise InputError(
            f"{path} has several types of vertices, or relations ({names}), which this does not take yet"
        )
    return {
        "path": path,
        "name": str(description.get("name", path.name)),
        "checksum": description["checksum"],
        "description": description,
        "graph": graph,
        "temporary": temporary_of(path),
    }


def _graph(folder: Path, description: dict[str, Any]) -> GraphArrays:
    listed = description["arrays"]
    try:
        n, e = int(description["num_vertices"]), int(description["num_edges"])
        int(description["num_classes"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder}: the description lacks the counts of vertices, edges or classes") from None
    return GraphArrays(
        **vars(_adjacency(folder, description, "", n, e, weighted="edge_weight" in listed)),
        features=open_array(folder, "features", description, FEATURE_DTYPES, (n, None))
        if "features" in listed
        else None,
        links=open_links(folder, description),
        **vars(_labelled(folder, description, "", n)),
    )


def _typed_graph(folder: Path, description: dict[str, Any]) -> TypedGraph:
    try:
        types, relations = description["types"], description["relations"]
        counts = [description["num_classes"]]
        counts += [each["vertices"] for each in types] + [each["edges"] for each in relations]
        counts += [0 if each["features"] is None else each["features"] for each in types]
        if any(type(count) is not int or count < 0 for count in counts):
            raise TypeError
        schema = Schema(
            tuple(VertexType(str(each["name"]), each["vertices"]) for each in types),
            tuple(Relation(*(str(each[key]) for key in ("source", "name", "destination"))) for each in relations),
        )
        target = schema.type_number(str(description["target"]))
        weighted = [each["weighted"] is True for each in relations]
    except (KeyError, TypeError):
        raise InputError(f"{folder}: the description is damaged where it lists types and relations") from None
    except InputError as error:
        raise InputError(f"{folder}: the description is damaged: {error}") from None
    sizes = [each.num_vertices for each in schema.types]
    return TypedGraph(
        schema=schema,
        target=target,
        adjacencies=tuple(
            _adjacency(
                folder, description, f".{number}", sizes[schema.ends(number)[1]], each["edges"], weighted=are_weighted
            )
            for number, (each, are_weighted) in enumerate(zip(relations, weighted, strict=True))
        ),
        features_by_type=tuple(
            None
            if each["features"] is None
            else open_array(folder, f"features.{number}", description, FEATURE_DTYPES, (n, each["features"]))
            for number, (each, n) in enumerate(zip(types, sizes, strict=True))
        ),
        **vars(_labelled(folder, description, f".{target}", sizes[target])),
    )


def _adjacency(
    folder: Path, description: dict[str, Any], suffix: str, n: int, edges: int, *, weighted: bool
) -> Adjacency:
    """The edges into n vertices; the names of the files of a relation have a suffix."""
    weight = open_array(folder, f"edge_weight{suffix}", description, ("float32",), (edges,)) if weighted else None
    return Adjacency(
        indptr=open_array(folder, f"indptr{suffix}", description, ("int64",), (n + 1,)),
        indices=open_array(folder, f"indices{suffix}", description, INDEX_DTYPES, (edges,)),
        edge_weight=weight,
    )


def _labelled(folder: Path, description: dict[str, Any], suffix: str, n: int) -> Labelled:
    """The labels and vertex sets of n vertices; the names of the files of a type have a suffix."""
    num_classes = int(description["num_classes"])
    regression = bool(description.get("regression"))  # stores of earlier releases do not say
    several = regression or description.get("multi_label")
    dtype, shape = ("float32", (n, num_classes)) if several else ("int64", (n,))
    return Labelled(
        labels=open_array(folder, f"labels{suffix}", description, (dtype,), shape),
        num_classes=num_classes,
        regression=regression,
        classes=names_described(description, 0 if regression else num_classes, f"{folder}: the description"),
        **{
            f"{name}_idx": open_array(folder, f"{name}_idx{suffix}", description, ("int64",), (None,))
            for name in VERTEX_SETS
        },
    )
