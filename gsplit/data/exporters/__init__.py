"""From a graph store or a layout to the files of other systems.

Edges are written in the order of the store, by destination, so that importing the file gives the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gsplit.atomic_folder import NEW, OUTPUTS, publish, refuse_existing
from gsplit.data import layout, store
from gsplit.data.exporters.writers import write_dgl, write_npz, write_pyg
from gsplit.data.graph import GraphArrays
from gsplit.data.ids.kept_ids import KeptIds
from gsplit.errors import InputError
from gsplit.files import check_form
from gsplit.host import ending_tidily

WRITERS: dict[str, Callable[[GraphArrays, KeptIds | None, Path], None]] = {
    "pyg": write_pyg,
    "dgl": write_dgl,
    "npz": write_npz,
}
ENDINGS = {"pyg": (".pt", ".pth"), "dgl": (".bin",), "npz": (".npz",)}
"""Endings of the names of their files, where an ending names a form at all."""


def export(path: Path | str, to: str, out: Path | str, *, overwrite: bool = False) -> None:
    """Write the graph of a store, or of a layout in global ids, as one file.

    Args:
        path: the folder of the store or layout.
        to: ``pyg`` (a ``torch_geometric.data.Data``), ``dgl`` (a file of ``dgl.save_graphs``) or ``npz`` (the keys of
            docs/formats.md).
        out: the file.
        overwrite: replace the file if it is there.

    Raises:
        InputError: for another format, a folder that is neither, a library that is missing, or an ``out`` that exists
            or cannot be written.
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
    graph, permutation = opened.graph, opened.permutation
    layout_of_global = np.empty_like(permutation)
    layout_of_global[permutation] = np.arange(len(permutation))
    degrees = np.diff(graph.indptr)[layout_of_global]
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    # The place of edge e of vertex v in the layout: where v's row begins there, plus e - indptr[v].
    place = np.arange(len(graph.indices)) + np.repeat(graph.indptr[:-1][layout_of_global] - indptr[:-1], degrees)
    return GraphArrays(
        indptr=indptr,
        indices=permutation[graph.indices[place]].astype(graph.indices.dtype),
        features=None if graph.features is None else graph.features[layout_of_global],
        labels=graph.labels[layout_of_global],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[place],
        train_idx=np.sort(permutation[graph.train_idx]),
        valid_idx=np.sort(permutation[graph.valid_idx]),
        test_idx=np.sort(permutation[graph.test_idx]),
        num_classes=graph.num_classes,
        regression=graph.regression,
        classes=graph.classes,
        links=graph.links,
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
