"""Stores and layouts to train on, each made once."""

from __future__ import annotations

from pathlib import Path

from experiments.shared import real_graphs
from experiments.shared.datasets import PREFIX
from gsplit.data import open_store, write_store
from gsplit.data.importers.npz import load_npz
from gsplit.data.synthetic import choose
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition


def store_of(dataset: str, data: Path, work: Path, seed: int) -> Path:
    """The graph store of a real graph of the folder ``data``, or of ``synthetic:PRESET``, with features in float32.

    Raises:
        InputError: for a dataset that is none, or without features.
    """
    if dataset.startswith(PREFIX):
        choice = choose(dataset.removeprefix(PREFIX))
        path = work / f"{choice.label}-v{choice.preset.version}-seed{seed}" / "store"
    else:
        file = real_graphs.path(data, dataset)
        path = work / dataset / "store"
    if not path.exists():
        graph = choice.generate(seed=seed) if dataset.startswith(PREFIX) else load_npz(file)
        if graph.features is None:
            raise InputError(f"{dataset} has no features to train on")
        write_store(path, graph.with_feature_dtype("float32"), name=dataset.replace(":", "-"), source=dataset)
    return path


def layout_of(store: Path, work: Path, parts: int, seed: int) -> Path:
    """The layout of a store in so many dealt parts."""
    path = work / f"dealt-{open_store(store).checksum[-12:]}-{parts}-{seed}"
    if not path.exists():
        partition(PartitionConfig(store=store, out=path, parts=parts, method="deal", seed=seed))
    return path
