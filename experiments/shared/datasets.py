"""Graphs of experiments: layouts and stores, made if need be, and the vertex order of a layout's store."""

from __future__ import annotations

import logging
import mmap
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.shared import real_graphs
from experiments.shared.traffic import FLOAT32_BYTES
from gsplit.data import Layout, open_layout, open_store, write_store
from gsplit.data.importers.formats.npz import load_npz
from gsplit.data.synthetic import PRESETS, Calibrated, Choice, Preset, choose
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition
from gsplit.partition.relabel import places, reordered_indptr

PARTS = 4
PREFIX = "synthetic:"
FEATURE_WIDTH = 100
"""Number of features of ogbn-products."""
QUICK = Preset(
    num_vertices=300_000, edges_per_vertex=17.4, num_features=1, num_classes=16, train_share=0.1, valid_share=0.05
)  # 10.2 million directed edges

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A graph to sample from."""

    layout: Layout
    indptr: NDArray[np.int64]
    """[N + 1] in the store's order."""
    indices: NDArray[Any]
    """[E] in the store's order."""
    generator: dict[str, Any] | None
    """``preset`` (with its ``?scale=``), ``version`` and ``seed`` of a synthetic graph; None for a layout folder."""


def open_dataset(dataset: str, *, seed: int, work: Path) -> Dataset:
    """:func:`open_or_make`, with the store's order beside the layout's."""
    layout, generator = open_or_make(dataset, seed=seed, work=work)
    indptr, indices = store_order(layout)
    return Dataset(layout=layout, indptr=indptr, indices=indices, generator=generator)


def open_or_make(
    dataset: str, *, seed: int, work: Path, parts: int = PARTS, features: bool = False
) -> tuple[Layout, dict[str, Any] | None]:
    """Open the layout folder ``dataset``, or the layout of ``synthetic:PRESET``, made under ``work`` if need be.

    Args:
        dataset: a folder, or one of the presets of :mod:`gsplit.data.synthetic` or ``quick``, perhaps with ?scale=.
        seed: of the generator.
        work: holds the layouts, one for each preset, scale, version, seed and number of parts.
        parts: of a layout that is made; a folder has its own.
        features: whether a layout that is made has any.

    Returns:
        The layout, and its ``generator`` as in :class:`Dataset`.

    Raises:
        InputError: for a folder that is no layout, a preset or scale that is none, or a work folder that cannot be
            written.
    """
    if not dataset.startswith(PREFIX):
        return open_layout(dataset), None
    choice = choose(dataset.removeprefix(PREFIX), {**PRESETS, "quick": QUICK})
    version = choice.preset.version
    path = work / f"{choice.label}-v{version}-seed{seed}-{parts}{'-features' if features else ''}"
    if not path.exists():
        _make(path, choice, seed, dataset, parts, features)
    if isinstance(choice.preset, Calibrated):
        fan_out = ",".join(map(str, choice.preset.fan_out))
        logger.info(
            "%s is calibrated for --fan-out %s and a batch size of %d", dataset, fan_out, choice.preset.batch_size
        )
    return open_layout(path), {"preset": dataset.removeprefix(PREFIX), "version": version, "seed": seed}


def store_of(dataset: str, *, data: Path, work: Path, seed: int = 0, dtype: str = "float32") -> Path:
    """The graph store of a real graph, or of ``synthetic:PRESET``, made under ``work`` if need be.

    Args:
        dataset: the name of a real graph, or a preset of :mod:`gsplit.data.synthetic`, perhaps with ?scale=.
        data: the folder of the real graphs.
        work: holds the stores.
        seed: of the generator.
        dtype: of the features in the store.

    Raises:
        InputError: for a dataset that is none, or without features.
    """
    if dataset.startswith(PREFIX):
        choice = choose(dataset.removeprefix(PREFIX))
        name = f"synthetic-{choice.label}"
        path = work / f"{choice.label}-v{choice.preset.version}-seed{seed}" / "store"
    else:
        name, file, path = dataset, real_graphs.path(data, dataset), work / dataset / "store"
    if not path.exists():
        logger.info("making the graph store of %s once, in %s", dataset, path)
        graph = choice.generate(seed=seed) if dataset.startswith(PREFIX) else load_npz(file)
        if graph.features is None:
            raise InputError(f"{dataset} has no features to train on")
        write_store(path, graph.with_feature_dtype(dtype), name=name, source=dataset)
    return path


def dealt_layout(store: Path, work: Path, parts: int, seed: int) -> Path:
    """The layout of a store in so many dealt parts, made under ``work`` if need be."""
    path = work / f"dealt-{open_store(store).checksum[-12:]}-{parts}-{seed}"
    if not path.exists():
        partition(PartitionConfig(store=store, out=path, parts=parts, method="deal", seed=seed))
    return path


def width_of(dataset: str) -> int:
    """Columns of the features of a preset, also where they are not made; ``FEATURE_WIDTH`` of a folder's graph."""
    if not dataset.startswith(PREFIX):
        return FEATURE_WIDTH
    return choose(dataset.removeprefix(PREFIX), {**PRESETS, "quick": QUICK}).preset.num_features


def feature_row(layout: Layout, width: int) -> tuple[int, int]:
    """(columns, bytes as stored) of a feature row; ``width`` columns of float32 where the graph has none."""
    features = layout.graph.features
    if features is None:
        return width, width * FLOAT32_BYTES
    return features.shape[1], features.shape[1] * features.dtype.itemsize


def _make(path: Path, choice: Choice, seed: int, source: str, parts: int, features: bool) -> None:
    """The layout of a preset in METIS parts."""
    logger.info("generating and partitioning %s once, into %s; products takes minutes and 13 GB", source, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write to {path.parent}: {error.strerror}") from None
    with folder as temporary:
        store = Path(temporary) / "store"
        write_store_of(choice, seed, store, source, features=features)
        partition(PartitionConfig(store=store, out=path, parts=parts))


def write_store_of(choice: Choice, seed: int, store: Path, source: str, *, features: bool = False) -> None:
    """The graph store of a preset; most experiments read no features. ``source`` is what was asked for."""
    graph = choice.generate(seed=seed, features=features)
    write_store(store, graph, name=f"synthetic-{choice.label}", source=source)


def store_order(layout: Layout) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """``indptr`` and ``indices`` of the store that a layout was made from: neighbours kept their order."""
    graph, permutation = layout.graph, np.asarray(layout.permutation)
    layout_of_global = np.empty_like(permutation)
    layout_of_global[permutation] = np.arange(graph.num_vertices)
    indptr = _plain_copy(reordered_indptr(graph.indptr, layout_of_global))
    indices = _plain_copy(graph.indices)
    for first, last, place in places(graph.indptr, indptr, layout_of_global):
        indices[first:last] = permutation[graph.indices[place]]
    return indptr, indices


def _plain_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A copy in pages of the ordinary size, as mapped files and PyTorch's tensors have: NumPy asks for huge ones."""
    memory = mmap.mmap(-1, max(1, array.nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    copy = np.frombuffer(memory, array.dtype, count=array.size)
    copy[:] = array
    return copy
