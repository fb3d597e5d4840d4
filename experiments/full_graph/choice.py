"""``--choice``: every plan timed, beside what is predicted for it and what ``--algorithm auto`` takes.

For each graph and number of trainers: prices as ``--dry-run`` has them, measured at the start; seconds of an epoch of
every plan that ``auto`` may take, by the trials of a run (:mod:`gsplit.train.plan_trials`), in rounds of which the
quickest counts, each there and back; and then the choice of a run that is long enough for trials, by trials of its
own. Regret is the time of a plan over that of the best of all, both as the rounds timed them. Layouts are METIS's, so
that plans which send what is needed alone have a cut to go by.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from experiments.full_graph.graphs import graph_of
from experiments.shared.datasets import PREFIX, store_of
from experiments.shared.results import printed
from gsplit.config.train import TrainConfig
from gsplit.data import write_store
from gsplit.engine.whole.fitting import fitting_plans
from gsplit.engine.whole.plan_table import prices_for
from gsplit.files import read_json
from gsplit.launch.resolve import resolve
from gsplit.partition import PartitionConfig, partition
from gsplit.runs.folder import PLANS, held_run
from gsplit.train.plan_trials import by_plan, seconds_of, with_plan_chosen

GRAPHS = ("cora", "coauthor_cs", "amazon_computers", "cnr2000", "synthetic:products?scale=0.02")
NOT_FITTED = ("citeseer",)
"""Graphs whose times no constant of the price was chosen by."""
TRAINERS = (2, 4)
HIDDEN, LAYERS, WIDTH, CLASSES = 64, 3, 64, 16
"""Widths of the layers, and of drawn features and labels of a graph without."""
EPOCHS = 10**7
"""A run of so many is long enough for trials, whatever the graph."""
ROUNDS = 5


def measure(data: Path, work: Path, *, quick: bool, seed: int = 0) -> dict[str, Any]:
    """The tables of ``--choice``: ``graphs``, ``timed`` and ``settings``.

    Args:
        data: the folder of the real graphs.
        work: keeps stores and layouts.
        quick: one small graph, two trainers and one round.
        seed: of drawn features, graphs and partitions.
    """
    graphs: list[dict[str, Any]] = []
    timed: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary, mock.patch.dict(os.environ, XDG_CACHE_HOME=temporary):
        folder = Path(temporary)
        for dataset in ("synthetic:tiny",) if quick else GRAPHS + NOT_FITTED:
            for trainers in TRAINERS[:1] if quick else TRAINERS:
                config = TrainConfig(
                    layout=layout_of(dataset, trainers, data, work, seed),
                    out=folder / f"run-{len(graphs)}",
                    strategy="full",
                    model="gcn",
                    device="cpu",
                    threads=1,
                    gpus=trainers,
                    num_layers=LAYERS,
                    hidden=HIDDEN,
                    epochs=EPOCHS,
                    evaluate="none",
                    seed=seed,
                )
                about = {"graph": dataset.removeprefix(PREFIX), "trainers": trainers}
                rows, found = of_run(config, rounds=1 if quick else ROUNDS)
                timed += [{**about, **row} for row in rows]
                graphs.append(printed({**about, **found}))
    settings = {"model": "gcn", "hidden": HIDDEN, "layers": LAYERS, "seed": seed, "quick": quick}
    return {"graphs": graphs, "timed": timed, "settings": [settings]}


def of_run(config: TrainConfig, *, rounds: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of all plans, and what became of the choice."""
    run = resolve(config)
    named = partial(by_plan, resolve, run.asked)
    priced = fitting_plans(run, prices_for(run))
    runs, timed = [named(price.plan) for price in priced], np.full(len(priced), np.inf)
    for number in range(rounds):  # turned round, so that no plan is always the first
        order = list(range(len(runs)))[:: -1 if number % 2 else 1]
        timed[order] = np.minimum(timed[order], seconds_of([runs[at] for at in order], time.monotonic()))
    with held_run(run.folder):
        with_plan_chosen(run, named)
        chosen = read_json(run.folder / PLANS)
    names = [str(price.plan) for price in priced]
    tried = {plan["plan"]: plan["measured_s"] for plan in chosen["plans"]}
    rows = [
        {"plan": name, "predicted_s": price.seconds, "measured_s": float(seconds), "tried_s": tried.get(name)}
        for name, price, seconds in zip(names, priced, timed, strict=True)
    ]
    found = {
        "plans": len(names),
        "chosen": chosen["chosen"],
        "best": names[int(timed.argmin())],
        "regret": float(timed[names.index(chosen["chosen"])] / timed.min()),
        "regret_without_trials": float(timed[0] / timed.min()),
        "spread": float(timed.max() / timed.min()),
        "rank_correlation": rank_correlation([price.seconds for price in priced], timed.tolist()),
    }
    return rows, found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, of at least two values on each side; equal ones count in their order."""
    one, other = (np.argsort(np.argsort(values, kind="stable")) for values in (first, second))
    n = len(one)
    return float(1 - 6 * ((one - other) ** 2).sum() / (n * (n * n - 1)))


def layout_of(dataset: str, parts: int, data: Path, work: Path, seed: int) -> Path:
    """The layout of a graph in METIS's parts, with drawn features and labels where it has none; made once."""
    path = work / f"choice-{dataset.replace(':', '-').replace('?', '-')}-{parts}-{seed}"
    if not path.exists():
        store = _drawn(dataset, data, work, seed) if dataset == "cnr2000" else store_of(dataset, data=data, work=work)
        partition(PartitionConfig(store=store, out=path, parts=parts, method="metis", seed=seed))
    return path


def _drawn(dataset: str, data: Path, work: Path, seed: int) -> Path:
    """The store of a graph that is nothing but edges, with drawn features, labels and training vertices."""
    path = work / f"{dataset}-drawn-{seed}" / "store"
    if not path.exists():
        graph, random = graph_of(dataset, data), np.random.default_rng(seed)
        n = graph.num_vertices
        drawn = replace(
            graph,
            features=random.standard_normal((n, WIDTH), np.float32),
            labels=random.integers(0, CLASSES, n),
            train_idx=np.sort(random.permutation(n)[: n // 10]),
            num_classes=CLASSES,
        )
        write_store(path, drawn, name=dataset, source=dataset)
    return path
