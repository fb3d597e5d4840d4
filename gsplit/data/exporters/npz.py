"""A graph as one ``.npz`` (docs/formats.md, "Importing an .npz")."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gsplit.data.graph import GraphArrays
from gsplit.data.ids.kept_ids import KeptIds, as_array


def write_npz(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save adjacency, ``x``, ``y``, ``edge_weight``, vertex sets, links, ``num_classes``, ``classes``, uncompressed.

    Ids are ``ids_COLUMN`` [N], whole numbers or texts, in the order of the columns.

    Raises:
        InputError: where arrays of the ids would be far larger than they are.
    """
    arrays = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "x": graph.features,
        "y": graph.labels,
        "edge_weight": graph.edge_weight,
        "train_idx": graph.train_idx,
        "valid_idx": graph.valid_idx,
        "test_idx": graph.test_idx,
        "num_classes": np.int64(graph.num_classes),
        "classes": None if graph.classes is None else np.array(graph.classes),
    }
    arrays |= {} if graph.links is None else dict(graph.links.arrays())
    for name, column in ids.columns() if ids is not None else ():
        arrays[f"ids_{name}"] = as_array(column, "an .npz", "export it --to pyg")
    with out.open("wb") as file:  # given a name, NumPy would add a suffix to it
        np.savez(file, **{key: array for key, array in arrays.items() if array is not None})
