"""A graph as a ``torch_geometric.data.Data``, as PyG's own datasets are laid out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gsplit.data.exporters.tensors import coo, set_masks, tensor, unsorted_sets
from gsplit.data.graph import GraphArrays
from gsplit.data.ids.kept_ids import KeptIds
from gsplit.errors import InputError


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
