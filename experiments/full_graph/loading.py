"""``--loading``: what trainers read of a layout, and their private memory beside what ``--dry-run`` says.

Every row is a run of its own, of real trainers with the launcher of every run; each trainer looks at its own memory
(:mod:`experiments.full_graph.probe`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.full_graph.probe import probed
from experiments.shared.datasets import dealt_layout, store_of
from experiments.shared.results import printed
from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays, write_store
from gsplit.engine.whole.fitting import chosen_of
from gsplit.engine.whole.plan_table import plan_of_run, priced_plans
from gsplit.launch.resolve import resolve
from gsplit.launch.start import launch
from gsplit.runs.folder import held_run
from gsplit.supply.tickets import Position

DATASETS = ("amazon_computers", "synthetic:products?scale=0.05")
TRAINERS = (1, 2, 4)
GRIDS = {2: ((1, 1, 2), (1, 2, 1)), 4: ((2, 1, 2), (1, 2, 2))}
"""Grids of so many trainers beside 1d's: of the columns, of 1.5d, of 2d, of 3d."""
ROTATED = {2: (2, 1, 1), 4: (2, 2, 1)}
HIDDEN, LAYERS, EPOCHS = 128, 3, 2
QUICK_VERTICES, QUICK_WIDTH = 120_000, 500
MIB = 1 << 20


def plans_of(trainers: int, *, every: bool) -> Iterator[dict[str, Any]]:
    """Flags of the plans that are measured, of every kind or of those that differ most."""
    yield {"algorithm": "shared"}
    if trainers > 1:
        yield from ({"algorithm": algorithm} for algorithm in ("1d", "1d-sparse")[: 1 + every])
        yield from ({"grid": grid} for grid in GRIDS[trainers][: 1 + every])
        if every:
            yield {"grid": (1, 1, trainers), "graph": "move"}
            yield {"algorithm": "1d-sparse", "exchange": "auto"}
        yield {"algorithm": "rotate", "grid": ROTATED[trainers]}


def measure(data: Path, work: Path, *, quick: bool, seed: int = 0, only: Collection[str] = ()) -> dict[str, Any]:
    """The tables of ``--loading``: ``runs`` and ``settings``.

    Args:
        data: the folder of the real graphs.
        work: keeps stores and layouts.
        quick: two trainers and one graph, with features of 229 MiB.
        seed: of graphs and partitions.
        only: the algorithms to measure; by default all.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for dataset in ("wide",) if quick else DATASETS:
            store = _wide(Path(temporary)) if quick else store_of(dataset, data=data, work=work, seed=seed)
            for trainers in (2,) if quick else TRAINERS:
                layout = dealt_layout(store, Path(temporary) if quick else work, trainers, seed)
                for flags in plans_of(trainers, every=quick):
                    if only and flags.get("algorithm") not in only:
                        continue
                    out = Path(temporary) / f"run-{len(rows)}"
                    settings = {"hidden": 32, "num_layers": 2} if quick else {"hidden": HIDDEN, "num_layers": LAYERS}
                    config = TrainConfig(
                        layout=layout,
                        out=out,
                        strategy="full",
                        model="gcn",
                        device="cpu",
                        gpus=trainers,
                        threads=1,
                        epochs=EPOCHS,
                        dropout=0.5,
                        **settings,  # type: ignore[arg-type]
                        **flags,
                    )
                    rows.append(printed({"graph": dataset.removeprefix("synthetic:"), **row_of(config)}))
    about = {"model": "gcn", "epochs": EPOCHS, "seed": seed, "quick": quick, **settings}
    return {"runs": rows, "settings": [about]}


def row_of(config: TrainConfig) -> dict[str, Any]:
    """One run: what the trainer read, held and took that did so most, and what was said of it."""
    run = resolve(config)
    price = chosen_of(priced_plans(run), plan_of_run(run))
    with held_run(run.config.out):
        seen = launch(run, probed, Position())["trainers"]
    covers = " --exchange auto" * run.partial_sums
    peak = max(one["peak_bytes"] for one in seen)
    files = sum(path.stat().st_size for path in run.layout.glob("*.npy"))
    return {
        "trainers": run.trainers,
        "plan": price.flags.removeprefix("--algorithm ").removeprefix("--").replace(" --grid", "") + covers,
        "layout_mib": files / MIB,
        "read_mib": max(one["read_bytes"] for one in seen) / MIB,
        "stays_mib": max(one["held_bytes"] for one in seen) / MIB,
        "beyond_mib": max(one["beyond_bytes"] for one in seen) / MIB,
        "edges": sum(one["edges"] for one in seen),
        "bytes_an_edge": sum(one["edge_bytes"] for one in seen) / sum(one["edges"] for one in seen),
        "process_mib": max(one["started_bytes"] for one in seen) / MIB,
        "peak_mib": peak / MIB,
        "said_mib": price.private_bytes / MIB,
        "peak_over_said": peak / price.private_bytes,
    }


def _wide(folder: Path) -> Path:
    """A store whose features are many times what loading may take for itself."""
    random = np.random.default_rng(0)
    n, degree = QUICK_VERTICES, 20
    order = random.permutation(n)
    graph = GraphArrays(
        indptr=np.arange(n + 1) * degree,
        indices=random.integers(0, n, n * degree).astype(np.int32),
        features=random.standard_normal((n, QUICK_WIDTH), np.float32),
        labels=random.integers(0, 4, n),
        edge_weight=None,
        train_idx=np.sort(order[: n // 2]),
        valid_idx=np.empty(0, np.int64),
        test_idx=np.sort(order[n // 2 :]),
        num_classes=4,
    )
    write_store(folder / "wide", graph, name="wide", source="synthetic")
    return folder / "wide"
