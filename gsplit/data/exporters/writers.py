"""A graph in the forms of others: one ``.npz``, a ``Data`` of PyG as its own datasets are laid out, a file of DGL.

N vertices, E edges.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.ids.kept_ids import KeptIds, as_array
from gsplit.data.importers.formats.dgl import import_dgl
from gsplit.errors import InputError


def write_npz(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save adjacency, ``x``, ``y``, ``edge_weight``, vertex sets, links, ``num_classes``, ``classes``, uncompressed.

    Ids are ``ids_COLUMN`` [N], whole numbers or texts, in the order of the columns; InputError where such arrays
    would be far larger than the ids are.
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


THEIR_NAMES = {"train": "train", "valid": "val", "test": "test"}


def tensor(array: NDArray[Any]) -> Tensor:
    """Copy of an array in memory; the arrays of a store are read-only maps, which PyTorch does not know."""
    return torch.from_numpy(np.array(array))


def coo(graph: GraphArrays) -> tuple[Tensor, Tensor]:
    """Source and destination of each edge, int64 [E], in the order of the store."""
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return torch.from_numpy(graph.indices.astype(np.int64)), torch.from_numpy(destination)


def set_masks(graph: GraphArrays) -> dict[str, Tensor]:
    """Masks of the vertex sets, bool [N]: ``train_mask``, ``val_mask``, ``test_mask``."""
    masks = {}
    for name in VERTEX_SETS:
        mask = torch.zeros(graph.num_vertices, dtype=torch.bool)
        mask[tensor(graph.vertex_set(name))] = True
        masks[f"{THEIR_NAMES[name]}_mask"] = mask
    return masks


def unsorted_sets(graph: GraphArrays) -> dict[str, Tensor]:
    """Ids of the sets whose order a mask would lose: ``train_idx``, ``val_idx``, ``test_idx``."""
    unsorted = [name for name in VERTEX_SETS if (np.diff(graph.vertex_set(name)) < 0).any()]
    return {f"{THEIR_NAMES[name]}_idx": tensor(graph.vertex_set(name)) for name in unsorted}


def write_pyg(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save ``edge_index`` [2, E], ``x``, ``y``, ``edge_weight``, the masks, ``num_nodes``, ``num_classes``.

    Names of classes are ``class_names``, a list of texts. Ids are ``vertex_ids``, an int64 tensor [N] where they are
    whole numbers, else a list of N texts; of several columns, which ``vertex_id_columns`` names, a dictionary. Links
    are attributes with the names and shapes of their files.

    Raises:
        InputError: where PyG is missing.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise InputError(f"graphs of PyG need PyG ({error}): pip install 'gsplit[pyg]'") from None
    attributes: dict[str, Any] = {"edge_index": torch.stack(coo(graph)), "y": tensor(graph.labels)}
    if graph.features is not None:
        attributes["x"] = tensor(graph.features)
    if graph.edge_weight is not None:
        attributes["edge_weight"] = tensor(graph.edge_weight)
    if graph.classes is not None:
        attributes["class_names"] = list(graph.classes)
    if ids is not None:
        columns = {name: of if isinstance(of, list) else tensor(of) for name, of in ids.columns()}
        attributes["vertex_ids"] = columns if len(columns) > 1 else columns[ids.names[0]]
        attributes["vertex_id_columns"] = list(ids.names)
    if graph.links is not None:
        attributes |= {name: tensor(array) for name, array in graph.links.arrays()}
    data = Data(
        num_nodes=graph.num_vertices,
        num_classes=graph.num_classes,
        **attributes,
        **set_masks(graph),
        **unsorted_sets(graph),
    )
    torch.save(data, out)


logger = logging.getLogger(__name__)


def write_dgl(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save ``feat``, ``label`` and the masks of the vertices, ``w`` of the edges, and beside them ``num_classes``.

    Ids that are whole numbers are ``vertex_ids`` of the vertices, int64 [N], or [N, columns]. Links are tensors
    beside ``num_classes`` with the names and shapes of their files.

    Raises:
        InputError: where DGL is missing.
    """
    dgl = import_dgl()
    saved = dgl.graph(coo(graph), num_nodes=graph.num_vertices)
    if graph.features is not None:
        saved.ndata["feat"] = tensor(graph.features)
    saved.ndata["label"] = tensor(graph.labels)
    saved.ndata.update(set_masks(graph))
    if graph.edge_weight is not None:
        saved.edata["w"] = tensor(graph.edge_weight)
    if graph.classes is not None:
        logger.warning("a file of DGL holds no texts: the names of the classes are left out")
    if ids is not None and ids.whole:
        saved.ndata["vertex_ids"] = tensor(np.stack([of for _, of in ids.columns()], 1)).squeeze(1)
    elif ids is not None:
        logger.warning(
            "a file of DGL holds no texts: the ids of the vertices are left out; node v is row v of %s", ids.path
        )
    beside = {"num_classes": torch.tensor([graph.num_classes]), **unsorted_sets(graph)}
    if graph.links is not None:
        beside |= {name: tensor(array) for name, array in graph.links.arrays()}
    dgl.save_graphs(str(out), [saved], beside)
