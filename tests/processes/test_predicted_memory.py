"""Memory that a dry run predicts, beside the most that tensors took in the training itself.

Trainers of the pool compute on the CPU with the kernels that accelerators use, and count what is alive. A device has
the same tensors; what its kernels take while they compute nobody counts here.
"""

from __future__ import annotations

import pytest
from support.graphs import lay_out, random_graph
from support.models import PyGNet
from support.peaks import peak_in_trainer, predicted

from gsplit.config.train import TrainConfig

WITHIN = 0.15
"""What the issue of a prediction may be off by, relative to the peak."""
CASES = {
    "sage": {},
    "wide": {"hidden": 512, "dropout": 0.0},
    "narrow": {"hidden": 8, "fan_out": (25, 5)},
    "three layers": {"fan_out": (5, 5, 5), "norm": "layer", "residual": True},
    "small mini-batches": {"batch_size": 64, "optimizer": "sgd"},
    "gat": {"model": "gat", "heads": 8, "attention_dropout": 0.1},
    "gcn": {"model": "gcn", "norm": "batch", "accumulate": 3},
    "sums": {"exchange": "auto", "exchange_dtype": "bfloat16"},
    "ladies": {"sampling": "ladies", "layer_sizes": (512, 512)},
    "saint": {"sampling": "saint", "subgraph": "20%", "num_layers": 2},
    "data": {"strategy": "data", "class_weights": "balanced"},
}


@pytest.fixture(scope="module")
def large_layouts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    graph = random_graph(3000, 30, seed=3)
    return lambda parts: lay_out(graph, folder, parts=parts, method="deal")


def training(layout, out, **flags):
    """Loaded by the trainer itself, rows as a device gets them, and nothing but steps."""
    alone = {"prefetch": 0, "normalize_features": True, "evaluate": "none", "checkpoint_every": 0, "epochs": 1}
    drawn = {} if "sampling" in flags else {"fan_out": (10, 10)}
    given = {"batch_size": 512, "hidden": 128, "device": "cpu", **alone, **drawn, **flags}
    return TrainConfig(layout=layout.path, out=out, **given)


@pytest.mark.cases(8)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_training_takes_what_a_dry_run_says(pool, large_layouts, tmp_path, name, parts):
    config = training(large_layouts(parts), tmp_path / "run", **CASES[name])
    said = predicted(config, parts).peak(prefetch=0)
    assert said == pytest.approx(max(pool.run(parts, peak_in_trainer, config)), rel=WITHIN)


def pyg(name):
    convs = pytest.importorskip("torch_geometric.nn")
    make = {
        "SAGEConv": lambda i, o: convs.SAGEConv(i, o),
        "GATConv": lambda i, o: convs.GATConv(i, o, add_self_loops=False),
        "loops": lambda i, o: convs.GATv2Conv((i, i), o, add_self_loops=False),
        "GINConv": lambda i, o: convs.GINConv(convs.MLP([i, 16, o], norm=None)),
    }[name]
    return lambda features, classes: PyGNet([make(features, 8), make(8, classes)])


@pytest.mark.parametrize("name", ["SAGEConv", "GATConv", "GINConv"])
def test_models_of_pyg_take_what_a_dry_run_says(pool, large_layouts, tmp_path, name):
    layout = large_layouts(2)
    model = pyg(name)(layout.graph.num_features, layout.graph.num_classes)
    config = training(layout, tmp_path / "run")
    said = predicted(config, 2, model).peak(prefetch=0)
    assert said == pytest.approx(max(pool.run(2, peak_in_trainer, config, model)), rel=WITHIN)
