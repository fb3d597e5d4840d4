"""A graph as a file of ``dgl.save_graphs``."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch

from gsplit.data.exporters.tensors import coo, set_masks, tensor, unsorted_sets
from gsplit.data.graph import GraphArrays
from gsplit.data.ids.kept_ids import KeptIds
from gsplit.data.importers.dgl import import_dgl

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
