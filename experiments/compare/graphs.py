"""The graph of a comparison: its store, and a layout with a part for each trainer, each made once."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.compare.config import BenchConfig
from experiments.shared import real_graphs
from experiments.shared.datasets import PREFIX, store_of
from experiments.shared.results import about
from gsplit.data import GraphStore, open_layout, open_store
from gsplit.data.synthetic import choose
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """What systems train on."""

    store: Path
    layout: Path
    facts: dict[str, Any]
    """What the results say of it."""


def prepare(config: BenchConfig) -> Graph:
    """The store and the layout, made under ``config.work`` if need be.

    Raises:
        InputError: for a dataset that is none, or one that not all systems can be compared on.
    """
    config.make_folders()
    store, generator = _store(config)
    graph = store.graph
    if graph.features is None:
        raise InputError(f"{config.dataset} has no features to train on")
    if graph.multi_label:
        raise InputError(f"{config.dataset} has several labels a vertex; only one class a vertex is compared")
    for size in (size for sizes in config.batch_sizes.values() for size in sizes):
        if size > len(graph.train_idx):
            raise InputError(f"a batch size of {size} is more than the {len(graph.train_idx)} training vertices")
    layout = _layout(config, store)
    opened = open_layout(layout, trusted=True)
    facts = {
        **about(opened, generator),
        "features": graph.num_features,
        "classes": graph.num_classes,
        "valid_vertices": len(graph.valid_idx),
        "test_vertices": len(graph.test_idx),
        "partition": {
            key: opened.description[key] for key in ("method", "weights", "hotness", "imbalance", "cuts", "quality")
        },
    }
    return Graph(store=store.path, layout=layout, facts=facts)


def _store(config: BenchConfig) -> tuple[GraphStore, dict[str, Any] | None]:
    """The store, and ``preset``, ``version`` and ``seed`` of a synthetic graph."""
    dataset = config.dataset
    if Path(dataset).is_dir():
        return open_store(dataset), None
    real = real_graphs.folder() / f"{dataset}.npz"
    if not dataset.startswith(PREFIX) and real.is_file():
        return open_store(store_of(dataset, data=real.parent, work=config.work)), None
    preset = dataset.removeprefix(PREFIX)
    try:
        version = choose(preset).preset.version
    except InputError as error:
        raise InputError(
            f"--dataset {dataset} is no folder, not in the folder of real graphs (no {real}; GSPLIT_DATA names it), "
            f"and {error}"
        ) from None
    store = open_store(store_of(PREFIX + preset, data=real.parent, work=config.work, seed=config.seed))
    return store, {"preset": preset, "version": version, "seed": config.seed}


def _layout(config: BenchConfig, store: GraphStore) -> Path:
    """The layout in METIS's parts, or another method's; its name is a digest of all that it was made with."""
    asked = PartitionConfig(
        store=store.path, out=Path("layout"), parts=config.gpus, method=config.method, seed=config.seed
    )
    if config.weights is not None:
        asked = replace(asked, weights=config.weights)
    if asked.presamples:
        asked = replace(asked, fan_out=config.fan_out, batch_size=config.batch_size)
    made_with = {key: str(value) for key, value in asdict(asked).items() if key not in ("store", "out")}
    key = json.dumps([store.checksum, made_with], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    path = config.work / f"layout-{store.name}-{config.gpus}-{digest}"
    if not path.exists():
        logger.info("partitioning %s in %d once, into %s", store.name, config.gpus, path)
        partition(replace(asked, out=path))
    return path
