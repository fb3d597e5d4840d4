"""What a trained model says of each vertex is what a dense forward of its weights says, whatever the flags.

Every way to evaluate is compared: the logits of all vertices, the accuracies of the summary, the predictions that a
run saves, and ``gsplit.predict``, exact or sampled with all neighbours, of every level. All dropouts are on in
training, so that one that stays on afterwards is noticed.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.dense import Dense
from support.graphs import lay_out, random_graph
from support.predictions import InPool
from support.runs import config_for, trainer_of

import gsplit
from gsplit.train import loop
from gsplit.train.summary import finish

DROPOUTS = {"dropout": 0.5, "input_dropout": 0.4}
RUNS = {
    "sage": {},
    "sage-normalized": {"normalize_features": True},
    "sage-layer-norm": {"norm": "layer", "residual": True, "normalize_features": True},
    "sage-batch-norm": {"norm": "batch", "input_projection": True},
    "sage-narrow": {"hidden": 3, "residual": True, "input_projection": True, "norm": "batch"},
    "sage-bfloat16": {"feature_dtype": "bfloat16", "normalize_features": True},
    "sage-float16": {"feature_dtype": "float16"},
    "sage-float32": {"dtype": "float32", "norm": "batch", "residual": True},
    "gat": {"model": "gat", "heads": 2},
    "gat-slope": {"model": "gat", "negative_slope": 0.9, "out_heads": 3, "residual": True},
    "gat-all": {
        "model": "gat",
        "negative_slope": -0.5,
        "self_loops": False,
        "norm": "batch",
        "input_projection": True,
        "residual": True,
        "normalize_features": True,
        "heads": 8,
    },
    "gat-layer-norm": {"model": "gat", "heads": 1, "norm": "layer", "feature_dtype": "bfloat16"},
    "gcn": {"model": "gcn"},
    "gcn-no-loops": {"model": "gcn", "self_loops": False, "residual": True},
    "gcn-mean": {"model": "gcn", "normalization": "mean", "norm": "layer", "normalize_features": True},
    "gcn-mean-no-loops": {"model": "gcn", "normalization": "mean", "self_loops": False, "hidden": 3},
    "gcn-all": {"model": "gcn", "norm": "batch", "residual": True, "input_projection": True},
    "gcn-multi-label": {"model": "gcn", "norm": "batch"},
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """multi_label -> a graph with edge weights, double edges and vertices without neighbours, and its layout."""

    def make(multi_label):
        graph = random_graph(120, 6, seed=4, features=6, weighted=True, multi_label=multi_label)
        graph.features[[3, 17]] = 0  # rows that no division can normalise
        return graph, lay_out(graph, tmp_path_factory.mktemp("dense"), parts=2)

    return {multi_label: make(multi_label) for multi_label in (False, True)}


def train_and_evaluate(member, config):
    """Summary and logits of all vertices (trainer 0) with the best weights."""
    trainer = trainer_of(member, config)
    loop.train(trainer)
    trainer.model.train()  # whoever evaluates sees to it that nothing is dropped
    summary = finish(trainer)
    trainer.model.train()
    return summary, trainer.evaluator.all_logits(trainer.model)


def score(graph, logits, ids):
    """Accuracy, or micro-averaged F1."""
    labels = graph.labels[ids]
    if not graph.multi_label:
        return np.mean(logits[ids].argmax(axis=1) == labels)
    said, true = logits[ids] > 0, labels > 0.5
    return 2 * (said & true).sum() / (said.sum() + true.sum())


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", RUNS)
def test_every_evaluation_equals_a_dense_forward(pool, graphs, tmp_path, monkeypatch, name):
    multi_label = name.endswith("multi-label")
    graph, layout = graphs[multi_label]
    changes = {"dtype": "float64", "fan_out": (3, 3, 3), "lr": 0.05, **DROPOUTS, **RUNS[name]}
    if changes.get("model") == "gat":
        changes["attention_dropout"] = 0.5
    config = config_for(layout.path, tmp_path / "run", **changes, epochs=3, save_predictions="logits")
    config.out.mkdir()
    (config.out / "config.json").write_text(config.to_json())
    summary, logits = pool.run(2, train_and_evaluate, config)[0]
    levels = Dense(config, gsplit.load(config.out).state_dict(), graph).levels()
    close = {"rtol": 0, "atol": 1e-4 if config.precision != "64" else 1e-9}

    assert np.ptp(levels[3], axis=0).min() > 0.01  # vertices differ, so that there is something to get wrong
    np.testing.assert_allclose(logits, levels[3], **close)
    np.testing.assert_allclose(np.load(config.out / "predictions.npy"), levels[3], **close)
    for split in ("valid", "test"):
        measured = summary[f"{split}_{'f1' if multi_label else 'accuracy'}"]
        assert measured == pytest.approx(score(graph, levels[3], graph.vertex_set(split)), abs=1e-12)

    monkeypatch.setattr("gsplit.predict.api.start", InPool(pool))
    for fan_out in ((), (-1, -1, -1)):
        for layer in (1, 2, 3):
            values = gsplit.predict(
                config.out, layout.path, what="embeddings", layer=layer, fan_out=fan_out, batch_size=50, device="cpu"
            )
            np.testing.assert_allclose(values, levels[layer], **close)
    classes = gsplit.predict(config.out, layout.path, device="cpu")
    np.testing.assert_array_equal(classes, levels[3] > 0 if multi_label else levels[3].argmax(axis=1))
