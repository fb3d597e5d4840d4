"""Training on links with accelerators: what is learned, and how pairs rank, are the CPU's."""

from __future__ import annotations

import pytest
from support.graphs import lay_out
from support.links import linked_graph
from support.runs import InPool

from gsplit.config.train import TrainConfig
from gsplit.runs import checkpoint
from gsplit.train.api import train

pytestmark = pytest.mark.accelerator

RECIPES = {
    "mlp, softmax": {
        "score": "mlp",
        "loss": "softmax",
        "negatives": "uniform:2,joint:6/25,in-batch",
        "corrupt": "both",
    },
    "cosine, margin": {"score": "cosine", "loss": "margin", "negatives": "hard:2", "corrupt": "source"},
    "dot, bce, data": {"model": "torch_geometric.nn:GraphSAGE", "strategy": "data"},
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_links_are_learned_as_on_the_cpu(kind, accelerator_pool, tmp_path, monkeypatch, recipe):
    monkeypatch.setenv("GSPLIT_SHARE_GPU", "1")
    layout = lay_out(linked_graph(given=True, hard=3), tmp_path, parts=2)
    found = []
    for device in ("cpu", kind):
        config = TrainConfig(
            layout=layout.path,
            out=tmp_path / device,
            device=device,
            task="links",
            metrics="mrr,auroc",
            fan_out=(4, 3),
            batch_size=60,
            hidden=8,
            epochs=2,
            dropout=0.0,
            dtype="float64",
            samplers=0,
            **RECIPES[recipe],
        )
        with monkeypatch.context() as patch:
            patch.setattr("gsplit.launch.start.start", InPool(accelerator_pool))
            summary = train(config=config)
        weights = checkpoint.load_state(tmp_path / device, checkpoint.MODEL)
        found.append((summary["test_mrr"], summary["test_auroc"], weights))
    (*scores, weights), (*same_scores, same) = found
    assert same_scores == pytest.approx(scores, abs=1e-9)
    assert weights.keys() == same.keys()
    for name, weight in weights.items():
        assert (weight.cpu() - same[name].cpu()).abs().max() <= 1e-9, name
