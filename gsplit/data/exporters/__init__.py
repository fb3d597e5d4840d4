"""From a graph store or a layout to the files of other systems: one ``.npz``, a ``Data`` of PyG, a file of DGL.

Edges are written in the order of the store, by destination, so that importing the file gives the same arrays.
N vertices, E edges.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.atomic_folder import NEW, OUTPUTS, publish, refuse_existing
from gsplit.data import layout, store
from gsplit.data.graph import VERTEX_SETS, GraphArrays, slots
from gsplit.data.ids.kept_ids import KeptIds, as_array
from gsplit.data.importers.formats.dgl import import_dgl
from gsplit.errors import InputError
from gsplit.files import check_form
from gsplit.host import ending_tidily

THEIR_NAMES = {"train": "train", "valid": "val", "test": "test"}
ENDINGS = {"pyg": (".pt", ".pth"), "dgl": (".bin",), "npz": (".npz",)}
"""Endings of the names of their files, where an ending names a form at all."""

logger = logging.getLogger(__name__)


def export(path: Path | str, to: str, out: Path | str, *, overwrite: bool = False) -> None:
    """Write the graph of a store, or of a layout in global ids, as one file.

    Args:
        path: the folder of the store or layout.
        to: ``pyg`` (a ``torch_geometric.data.Data``), ``dgl`` (a file of ``dgl.save_graphs``) or ``npz`` (the keys of
            docs/formats.md).
        out: the file.
        overwrite: replace the file if it is there.

    Raises:
        InputError: for another format, a folder that is neither, a library that is missing, ids whose arrays would
            be far larger than they are, or an ``out`` that exists or cannot be written.
    """
    path, out = Path(path), Path(out)
    if to not in WRITERS:
        raise InputError(f"cannot export to {to!r}; choose one of {', '.join(WRITERS)}")
    check_form(out, ENDINGS[to], f"a file of --to {to}")
    _check_free(out, overwrite=overwrite)
    graph, ids = _graph(path)
    with _writing_file(out, overwrite=overwrite) as temporary:
        WRITERS[to](graph, ids, temporary)


def _graph(path: Path) -> tuple[GraphArrays, KeptIds | None]:
    """The graph in global ids, and what its vertices are called."""
    if (path / layout.FILE).is_file():
        opened = layout.open_layout(path)
        return in_global_ids(opened), opened.ids()
    stored = store.open_store(path)
    return stored.graph, stored.ids()


def in_global_ids(opened: layout.Layout) -> GraphArrays:
    """The graph of a layout as its store had it, but with ascending vertex sets: a layout keeps no order of them."""
    graph, permutation, positions, indptr = opened.graph, opened.permutation, opened.positions, opened.store_indptr
    sets: dict[str, Any] = {f"{name}_idx": np.sort(permutation[graph.vertex_set(name)]) for name in VERTEX_SETS}
    place = slots(graph.indptr[:-1][positions], np.diff(indptr))  # of each edge of the store in the layout
    return replace(
        graph,
        indptr=indptr,
        indices=permutation[graph.indices[place]].astype(graph.indices.dtype),
        features=None if graph.features is None else graph.features[positions],
        labels=graph.labels[positions],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[place],
        **sets,
    )


def _check_free(out: Path, *, overwrite: bool) -> None:
    OUTPUTS.recover(out)
    if out.is_dir():
        raise InputError(f"{out} is a folder; name the file to write")
    refuse_existing(out, overwrite=overwrite)


@contextmanager
def _writing_file(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """A path to write to, which is renamed to ``out`` when the block ends without an exception."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with ending_tidily(), OUTPUTS.folder(out) as beside:
            yield beside / NEW
            _check_free(out, overwrite=overwrite)  # another process may have been faster
            publish(beside / NEW, out, overwrite=overwrite)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}") from None


def _write_npz(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save adjacency, ``x``, ``y``, ``edge_weight``, vertex sets, links, ``num_classes``, ``classes``, uncompressed.

    Ids are ``ids_COLUMN`` [N], whole numbers or texts, in the order of the columns.
    """
    arrays = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "x": graph.features,
        "y": graph.labels,
        "edge_weight": graph.edge_weight,
        **{f"{name}_idx": graph.vertex_set(name) for name in VERTEX_SETS},
        "num_classes": np.int64(graph.num_classes),
        "classes": None if graph.classes is None else np.array(graph.classes),
    }
    arrays |= {} if graph.links is None else dict(graph.links.arrays())
    for name, column in ids.columns() if ids is not None else ():
        arrays[f"ids_{name}"] = as_array(column, "an .npz", "export it --to pyg")
    with out.open("wb") as file:  # given a name, NumPy would add a suffix to it
        np.savez(file, **{key: array for key, array in arrays.items() if array is not None})


def _tensor(array: NDArray[Any]) -> Tensor:
    """Copy of an array in memory; the arrays of a store are read-only maps, which PyTorch does not know."""
    return torch.from_numpy(np.array(array))


def _coo(graph: GraphArrays) -> tuple[Tensor, Tensor]:
    """Source and destination of each edge, int64 [E], in the order of the store."""
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return torch.from_numpy(graph.indices.astype(np.int64)), torch.from_numpy(destination)


def _set_masks(graph: GraphArrays) -> dict[str, Tensor]:
    """Masks of the vertex sets, bool [N]: ``train_mask``, ``val_mask``, ``test_mask``."""
    masks = {}
    for name in VERTEX_SETS:
        mask = torch.zeros(graph.num_vertices, dtype=torch.bool)
        mask[_tensor(graph.vertex_set(name))] = True
        masks[f"{THEIR_NAMES[name]}_mask"] = mask
    return masks


def _unsorted_sets(graph: GraphArrays) -> dict[str, Tensor]:
    """Ids of the sets whose order a mask would lose: ``train_idx``, ``val_idx``, ``test_idx``."""
    unsorted = [name for name in VERTEX_SETS if (np.diff(graph.vertex_set(name)) < 0).any()]
    return {f"{THEIR_NAMES[name]}_idx": _tensor(graph.vertex_set(name)) for name in unsorted}


def _links(graph: GraphArrays) -> dict[str, Tensor]:
    """Links, with the names and shapes of their files."""
    return {} if graph.links is None else {name: _tensor(array) for name, array in graph.links.arrays()}


def _write_pyg(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save ``edge_index`` [2, E], ``x``, ``y``, ``edge_weight``, the masks, ``num_nodes``, ``num_classes``.

    Names of classes are ``class_names``, a list of texts. Ids are ``vertex_ids``, an int64 tensor [N] where they are
    whole numbers, else a list of N texts; of several columns, which ``vertex_id_columns`` names, a dictionary. Links
    are attributes with the names and shapes of their files.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise InputError(f"graphs of PyG need PyG ({error}): pip install 'gsplit[pyg]'") from None
    attributes: dict[str, Any] = {
        "edge_index": torch.stack(_coo(graph)),
        "y": _tensor(graph.labels),
        "x": None if graph.features is None else _tensor(graph.features),
        "edge_weight": None if graph.edge_weight is None else _tensor(graph.edge_weight),
        "class_names": None if graph.classes is None else list(graph.classes),
    }
    if ids is not None:
        columns = {name: of if isinstance(of, list) else _tensor(of) for name, of in ids.columns()}
        attributes["vertex_ids"] = columns if len(columns) > 1 else columns[ids.names[0]]
        attributes["vertex_id_columns"] = list(ids.names)
    data = Data(
        num_nodes=graph.num_vertices,
        num_classes=graph.num_classes,
        **{name: value for name, value in attributes.items() if value is not None},
        **_links(graph),
        **_set_masks(graph),
        **_unsorted_sets(graph),
    )
    torch.save(data, out)


def _write_dgl(graph: GraphArrays, ids: KeptIds | None, out: Path) -> None:
    """Save ``feat``, ``label`` and the masks of the vertices, ``w`` of the edges, and beside them ``num_classes``.

    Ids that are whole numbers are ``vertex_ids`` of the vertices, int64 [N], or [N, columns]. Links are tensors
    beside ``num_classes`` with the names and shapes of their files.
    """
    dgl = import_dgl()
    saved = dgl.graph(_coo(graph), num_nodes=graph.num_vertices)
    if graph.features is not None:
        saved.ndata["feat"] = _tensor(graph.features)
    saved.ndata["label"] = _tensor(graph.labels)
    saved.ndata.update(_set_masks(graph))
    if graph.edge_weight is not None:
        saved.edata["w"] = _tensor(graph.edge_weight)
    if graph.classes is not None:
        logger.warning("a file of DGL holds no texts: the names of the classes are left out")
    if ids is not None and ids.whole:
        saved.ndata["vertex_ids"] = _tensor(np.stack([of for _, of in ids.columns()], 1)).squeeze(1)
    elif ids is not None:
        logger.warning(
            "a file of DGL holds no texts: the ids of the vertices are left out; node v is row v of %s", ids.path
        )
    beside = {"num_classes": torch.tensor([graph.num_classes]), **_unsorted_sets(graph), **_links(graph)}
    dgl.save_graphs(str(out), [saved], beside)


WRITERS: dict[str, Callable[[GraphArrays, KeptIds | None, Path], None]] = {
    "pyg": _write_pyg,
    "dgl": _write_dgl,
    "npz": _write_npz,
}
