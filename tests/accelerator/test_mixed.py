"""Mixed precision on accelerators: no further from float64 than roundings of the CPU's run in the same precision."""

from __future__ import annotations

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.runs import InPool

from gsplit.config.train import TrainConfig
from gsplit.train.api import train

pytestmark = pytest.mark.accelerator

ROUNDED = 4
"""How much further: where our kernels round a sum of products once, PyTorch's operations round each product, the
neighbours' sum before it, and what comes after."""
CASES = {
    "sage": {"model": "sage"},
    "gat": {"model": "gat", "heads": 2, "norm": "layer", "residual": True},
    "gcn": {"model": "gcn", "norm": "layer"},
    "pyg": {"model": "torch_geometric.nn:GraphSAGE"},
    "whole graph": {"strategy": "full", "algorithm": "1d-sparse", "fan_out": (-1, -1), "batch_size": 512},
}


@pytest.mark.parametrize(
    ("case", "precision"), [*((case, "bf16-mixed") for case in CASES), ("sage", "16-mixed"), ("gat", "16-mixed")]
)
def test_logits_are_as_near_to_float64_as_the_cpu_s(kind, accelerator_pool, tmp_path, monkeypatch, case, precision):
    monkeypatch.setenv("GSPLIT_SHARE_GPU", "1")
    monkeypatch.setattr("gsplit.launch.start.start", InPool(accelerator_pool))
    layout = lay_out(random_graph(300, 10, seed=3), tmp_path, parts=2)
    logits = []
    for at, (device, asked) in enumerate((("cpu", "64"), ("cpu", precision), (kind, precision))):
        flags = {"fan_out": (4, 3), "batch_size": 60, **CASES[case]}
        config = TrainConfig(
            layout=layout.path,
            out=tmp_path / str(at),
            device=device,
            precision=asked,
            hidden=16,
            epochs=1,
            lr=0.01,
            dropout=0.0,
            samplers=0,
            save_predictions="logits",
            **flags,
        )
        train(config=config)
        logits.append(np.load(config.out / "predictions.npy").astype(np.float64))
    exact, *mixed = logits
    on_cpu, ours = (np.abs(each - exact).max() for each in mixed)
    assert 0 < ours <= ROUNDED * on_cpu, (ours, on_cpu)
