"""Loading runs beside computing on the GPU, as a trace shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import lay_out, random_graph

from experiments.micro.overlap import of_streams, of_threads, read_trace
from gsplit.config.train import TrainConfig
from gsplit.train.api import train

pytestmark = pytest.mark.gpu("a trace of what the device does is recorded, and speeds are compared")

HIDDEN_SHARE = 0.25
"""Of loading. Computing is made the longer part, so nearly all could be; who waits for whom hides none."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """200,000 vertices, of which almost none is evaluated."""
    graph = random_graph(200_000, 8, seed=3, features=64)
    graph = replace(graph, valid_idx=graph.valid_idx[:0], test_idx=graph.test_idx[:50])
    return lay_out(graph, tmp_path_factory.mktemp("overlap"), parts=1)


def traced(layout, out, **changes):
    """The events of a run; wide layers and few edges, so that computing takes longer than sampling and loading."""
    settings = {
        "device": "cuda",
        "fan_out": (4, 4, 2),
        "batch_size": 8192,
        "hidden": 2048,
        "epochs": 2,
        "dropout": 0.0,
        "cache": "none",
        "prefetch": 1,
        "samplers": 4,
        "profile": True,
        "validate_every": 0,
        "checkpoint_every": 0,
    }
    train(layout.path, TrainConfig(out=out, **{**settings, **changes}))
    return read_trace(out / "trace.json")


@pytest.mark.parametrize(
    ("loader", "moves"), [("gather", "HtoD"), ("zero-copy", "_read_rows")], ids=["gather", "zero-copy"]
)
def test_rows_are_loaded_while_the_gpu_computes(layout, tmp_path, loader, moves):
    events = traced(layout, tmp_path / "run", loader=loader)
    on_host, on_gpu, rows = of_threads(events, 0), of_streams(events, 0), of_streams(events, 0, moves)
    assert on_host.hidden_us > 0
    assert on_gpu is not None
    assert rows is not None
    assert rows.loading_us > 0, f"no {moves} on the feed's stream"
    # With one stream for both, or one that waits for the other, nothing would be.
    assert rows.hidden_share > HIDDEN_SHARE, (on_host, on_gpu, rows)
    assert on_gpu.hidden_share > HIDDEN_SHARE, (on_host, on_gpu, rows)
