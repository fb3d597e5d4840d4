"""Predictions inside the pool of trainers, and a slow reference for them."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch

from gsplit.device.precision import Precision
from gsplit.models import prepared
from gsplit.nn import Block
from gsplit.predict.compute import PredictSpec, predict_share
from gsplit.predict.output import VALUES, VERTICES
from support import pool as pool_module


def predict_in_trainer(member, fields):
    predict_share(member, PredictSpec(**fields, world=member.world, shared=pool_module.SHARED))


def predicted(pool, layout, model, asked, folder: Path, *, level=None, num_layers=3, dtype="float64", **changes):
    """What all trainers of a layout together write for the vertices asked for (global ids)."""
    folder.mkdir(exist_ok=True)
    np.save(folder / VERTICES, np.asarray(asked, np.int64))
    defaults = {
        "device_type": "cpu",
        "threads": 1,
        "port": 0,
        "classes": False,
        "precision": Precision(dtype=getattr(torch, dtype)),
        "multi_label": layout.graph.multi_label,
        "normalize_features": False,
        "fan_out": (),
        "batch_size": 40,
        "copied_dtype": None,
        "seed": 1,
    }
    model = copy.deepcopy(model).train()  # whoever predicts sees to it that nothing is dropped
    fields = {
        **defaults,
        "layout": layout.path,
        "folder": folder,
        "pickled_model": prepared.pickled(model),
        "num_layers": num_layers,
        "level": level or num_layers,
        **changes,
    }
    pool.run(layout.parts, predict_in_trainer, fields)
    return np.load(folder / VALUES)


class InPool:
    """In place of the processes that ``gsplit.predict`` starts, for ``monkeypatch``."""

    def __init__(self, pool):
        self._pool = pool

    def __call__(self, run, world, spec):
        self.world = world
        self.fields = {name: value for name, value in vars(spec).items() if name not in ("world", "shared")}
        return self

    def join(self):
        self._pool.run(self.world, predict_in_trainer, self.fields)


def whole_graph_vectors(graph, model, num_layers, dtype=torch.float64):
    """[N, width] of the levels 1 .. L, by a block of the whole graph, in the store's order."""
    n = graph.num_vertices
    block = Block(
        num_destinations=n,
        num_own_sources=n,
        indptr=torch.tensor(graph.indptr).int(),
        indices=torch.tensor(graph.indices).int(),
        edge_ids=None,
        edge_weight=None,
        degrees=None,
        route=None,
        comm=None,
    )
    x, levels = torch.tensor(graph.features).to(dtype), {}
    with torch.no_grad():
        for layer in range(1, num_layers + 1):
            x = model.to(dtype).eval().forward_layer(layer, block, x)
            levels[layer] = x.numpy()
    return levels
