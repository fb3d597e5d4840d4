"""The layout: a graph relabelled by a partition, on disk (docs/formats.md, "Layout").

Part p owns the layout ids ``offsets[p] .. offsets[p + 1]``, hottest first. Written by gsplit.partition, read by
everything at run time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.description import open_array
from gsplit.data.graph import check_graph
from gsplit.data.opened import OpenFolder, open_folder
from gsplit.data.schema import Schema
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError

FORMAT = "gsplit-layout"
FILE = "layout.json"


@dataclass(frozen=True, kw_only=True, repr=False)
class Layout(OpenFolder):
    """An open layout. All ids are layout ids.

    Examples:
        >>> layout = gsplit.data.open_layout("layout")
        >>> layout.parts, sorted(layout.permutation.tolist()) == list(range(40))
        (2, True)
    """

    store_checksum: str
    offsets: NDArray[np.int64]
    """[P + 1] int64, from 0 to N: part p owns the layout ids ``offsets[p] .. offsets[p + 1]``."""
    permutation: NDArray[np.int64]
    """[N] int64: layout id -> global id."""
    stored_positions: NDArray[np.int64] | None = None
    """:attr:`positions` from a file, in the layout of a store with links."""
    stored_indptr: NDArray[np.int64] | None = None
    """:attr:`store_indptr` likewise."""

    @cached_property
    def offsets_by_type(self) -> tuple[NDArray[np.int64], ...]:
        """By number of the type: [P + 1] int64, from 0 to N_t, as :attr:`offsets` of one type."""
        return (self.offsets,)

    @cached_property
    def permutations(self) -> tuple[NDArray[np.int64], ...]:
        """By number of the type: [N_t] int64, layout id -> global id."""
        return (self.permutation,)

    @property
    def parts(self) -> int:
        """P."""
        return len(self.offsets_by_type[0]) - 1

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """[N] int64: global id -> layout id; mapped, or made at first use where there is no file."""
        return inverse(self.permutation) if self.stored_positions is None else self.stored_positions

    @cached_property
    def store_indptr(self) -> NDArray[np.int64]:
        """[N + 1] int64: the store's own indptr, by global ids; mapped, or made at first use."""
        return (
            reordered_indptr(self.graph.indptr, self.positions) if self.stored_indptr is None else self.stored_indptr
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class TypedLayout(Layout):
    """An open layout of several types, each with layout ids 0 .. N_t - 1 of its own.

    What only a layout of one type has, such as ``offsets``, raises :class:`~gsplit.errors.InputError`.

    Examples:
        >>> writes = {("author", "writes", "paper"): [[0, 1, 1, 0], [0, 0, 1, 2]]}
        >>> papers = gsplit.from_arrays({"paper": np.eye(4), "author": 2}, writes, labels={"paper": [0, 1, 0, 1]})
        >>> gsplit.partition(papers, parts=2).offsets_by_type
        (array([0, 2, 4]), array([0, 1, 2]))
    """

    graph: TypedGraph
    offsets_by_type: tuple[NDArray[np.int64], ...]
    permutations: tuple[NDArray[np.int64], ...]

    offsets: NDArray[np.int64] = field(init=False)
    permutation: NDArray[np.int64] = field(init=False)

    def __getattr__(self, name: str) -> Any:
        """Refuse what only a layout of one type has."""
        if name in ("offsets", "permutation"):
            raise InputError(f"a layout of several types has no {name}: each type has its own")
        raise AttributeError(name)


def inverse(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """New id of each old id, int64 [N], from the old id of each new one."""
    new_of_old = np.empty_like(order)
    new_of_old[order] = np.arange(len(order))
    return new_of_old


def reordered_indptr(indptr: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N + 1] indptr when the vertices stand in another order, which has the old id of each new one [N]."""
    return np.concatenate([[0], np.cumsum(np.diff(indptr)[order])]).astype(np.int64)


def first_parts(parts: int, trainers: int) -> NDArray[np.int64]:
    """Return which parts of a layout each trainer has, one after the other, as many as the others or one more.

    Args:
        parts: of the layout.
        trainers: at most as many.

    Returns:
        int64 [trainers + 1]: trainer t has the parts ``first[t] .. first[t + 1]``.

    Examples:
        >>> first_parts(4, 3).tolist()  # trainers 0 and 1 have a part each, trainer 2 has two
        [0, 1, 2, 4]
    """
    return np.arange(trainers + 1) * parts // trainers


def open_layout(
    path: str | os.PathLike[str], *, verify: bool = False, trusted: bool = False, typed: bool = False
) -> Layout:
    """Open and check a layout; arrays are mapped, not read into memory.

    Args:
        path: the folder.
        verify: also read every byte and compare checksums.
        trusted: skip the checks that read whole arrays; for a process whose parent has made them.
        typed: open one of several types, too, as a :class:`gsplit.data.TypedLayout`.

    Raises:
        InputError: where anything is missing, damaged or out of range, or there are several types and the caller
            takes but one.

    Examples:
        >>> gsplit.data.open_layout("layout").offsets.tolist()  # part 1 owns the layout ids 20 to 39
        [0, 20, 40]
    """
    path = Path(path)
    fields = open_folder(path, FILE, FORMAT, verify=verify, typed=typed)
    description, graph = fields["description"], fields["graph"]
    counts = [each.num_vertices for each in graph.schema.types]
    names = [f"permutation.{number}" if graph.typed else "permutation" for number in range(len(counts))]
    permutations = tuple(
        open_array(path, name, description, ("int64",), (n,)) for name, n in zip(names, counts, strict=True)
    )
    try:
        listed = description["offsets"] if graph.typed else [description["offsets"]]
        offsets = tuple(np.array(each, dtype=np.int64) for each in listed)
        store_checksum = str(description["store"]["checksum"])
        quality = description["quality"]
        for key in ("method", "weights", "seed", "hotness"):
            description[key]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path / FILE} is damaged: no valid offsets, store, quality or method") from None
    if len(offsets) != len(counts) or len({each.shape for each in offsets}) != 1:
        raise InputError(f"{path / FILE} is damaged: offsets must be of all {len(counts)} types and the same parts")
    for each, n in zip(offsets, counts, strict=True):
        ascending = each.ndim == 1 and len(each) >= 2 and bool((np.diff(each) >= 0).all())
        if not ascending or each[0] != 0 or each[-1] != n:
            raise InputError(f"{path / FILE} is damaged: offsets must ascend from 0 to {n}")
    if not _is_quality(quality, len(offsets[0]) - 1) or (graph.typed and not _is_of_all(quality, graph.schema)):
        raise InputError(f"{path / FILE} is damaged where it says how good the partition is")
    if not _is_presample(description.get("presample")):
        raise InputError(f"{path / FILE} is damaged where it says what was presampled")
    if not trusted:
        check_graph(graph, str(path))
        for name, permutation, n in zip(names, permutations, counts, strict=True):
            if len(permutation) and (permutation.min() < 0 or permutation.max() >= n):
                raise InputError(f"{path / name}.npy names a vertex outside 0 .. {n - 1}")
            if np.bincount(permutation, minlength=n).max(initial=1) > 1:
                raise InputError(f"{path / name}.npy names a vertex twice")
    fields["store_checksum"] = store_checksum
    if graph.typed:
        return TypedLayout(**fields, offsets_by_type=offsets, permutations=permutations)
    n = counts[0]
    positions = _stored(path, description, "positions", n)
    store_indptr = _stored(path, description, "store_indptr", n + 1)
    if not trusted:
        if positions is not None and not (positions == inverse(permutations[0])).all():
            raise InputError(f"{path / 'positions.npy'} does not lead back to permutation.npy")
        if store_indptr is not None and not (np.diff(store_indptr)[permutations[0]] == np.diff(graph.indptr)).all():
            raise InputError(f"{path / 'store_indptr.npy'} has other in-degrees than indptr.npy")
    return Layout(
        **fields,
        offsets=offsets[0],
        permutation=permutations[0],
        stored_positions=positions,
        stored_indptr=store_indptr,
    )


def _stored(path: Path, description: dict[str, Any], name: str, length: int) -> NDArray[np.int64] | None:
    """An array of a layout of a store with links; None in others."""
    return open_array(path, name, description, ("int64",), (length,)) if name in description["arrays"] else None


def _is_quality(quality: object, parts: int) -> bool:
    """Return whether these are numbers by name, and lists of a number for each part; also by type and relation."""
    if not isinstance(quality, dict):
        return False
    for key, value in quality.items():
        if key in ("types", "relations"):
            fine = isinstance(value, dict) and all(_is_quality(of, parts) for of in value.values())
        elif key.endswith("_per_part"):
            fine = isinstance(value, list) and len(value) == parts and all(map(_is_number, value))
        else:
            fine = _is_number(value)
        if not fine:
            return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _is_of_all(quality: dict[str, Any], schema: Schema) -> bool:
    """Return whether there are numbers of every type and every relation."""
    by_type, by_relation = quality.get("types", {}), quality.get("relations", {})
    return (
        by_type.keys() == {each.name for each in schema.types}
        and by_relation.keys() == set(map(str, schema.relations))
        and all(of.keys() >= {"balance_vertices", "vertices_per_part"} for of in by_type.values())
        and all(of.keys() >= {"edge_cut", "local_edges"} for of in by_relation.values())
    )


def _is_presample(presample: object) -> bool:
    """Return whether this is what was sampled, or None."""
    if not isinstance(presample, dict):
        return presample is None
    fan_outs = presample.get("fan_out_of", {})
    if not isinstance(fan_outs, dict):
        return False
    lists = [presample.get("fan_out"), *fan_outs.values()]
    return all(isinstance(each, list) and all(isinstance(count, int) for count in each) for each in lists) and (
        isinstance(presample.get("batch_size"), int)
    )
