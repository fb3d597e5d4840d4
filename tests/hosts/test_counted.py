"""Bytes between hosts as trainers count them, and as the kernel of each host does."""

from __future__ import annotations

import json

import pytest
import torch
from support.graphs import lay_out, random_graph
from support.hosts import TRAIN
from support.runs import records
from support.worlds import RUN_S

from experiments.model_host.layers import layers_of
from experiments.model_host.model import bytes_between
from experiments.model_host.several import HELD, OVER, Work, count
from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.parallel.between_hosts import BESIDE, EXCHANGE, OF_MINI_BATCH, REDUCE, Across, name_of

FLAGS = ("--hidden", "256", "--threads", "1", "--lr", "0.001", "--epochs", "3")
SAMPLED = ("--fan-out", "2,2,2", "--samplers", "1")
ON_A_GRID = ("--sampling", "uniform", "--subgraph", "100", "--num-layers", "3", "--grid", "3,1,2")
WHOLE = ("--strategy", "full", "--num-layers", "3")
NOT_EVALUATED = ("--evaluate", "none")
HEADERS = 14 + 20 + 32
"""Bytes of a frame that are Ethernet's, IP's and TCP's, with its timestamps."""
KINDS = {
    "gradients": (2, 1, (*SAMPLED, *NOT_EVALUATED)),
    "norms, evaluated": (2, 2, (*SAMPLED, "--norm", "batch")),
    "rows": (2, 2, (*SAMPLED, "--split-group", "4", *NOT_EVALUATED)),
    "three hosts": (3, 2, (*SAMPLED, "--metrics", "macro-f1")),
    "three hosts, rows": (3, 2, (*SAMPLED, "--split-group", "6", *NOT_EVALUATED)),
    "three hosts, norms": (3, 2, (*SAMPLED, "--norm", "batch", *NOT_EVALUATED)),
    "three hosts, a grid": (3, 2, (*ON_A_GRID, *NOT_EVALUATED)),
    "three hosts, the whole graph": (3, 2, (*WHOLE, *NOT_EVALUATED)),
}
SENDS_ROWS = {"--split-group", "--grid", "full"}


@pytest.mark.parametrize(
    "kind", ["gradients", *(pytest.param(kind, marks=pytest.mark.slow) for kind in list(KINDS)[1:])]
)
def test_counts_are_the_kernels_to_a_tenth(make_hosts, start, tmp_path, kind):
    number, here, flags = KINDS[kind]
    layout = lay_out(random_graph(300, 10, seed=3), tmp_path, parts=number * here).path
    hosts, run = make_hosts(number), tmp_path / "run"
    world = start(hosts, here, [*TRAIN, layout, "--out", run, *FLAGS, *flags])
    assert set(world.codes(RUN_S)) == {0}, world.told()
    summary = json.loads((run / "summary.json").read_text())
    counted = summary["between_hosts_bytes"]
    saved = torch.load(run / "model.pt")
    weights = 4 * sum(
        weight.numel() for name, weight in saved.items() if weight.is_floating_point() and "running" not in name
    )
    of_trainers = [Across([rank // here for rank in range(number * here)], rank) for rank in range(number * here)]
    begun = sum(each.broadcast(weights, 0) for each in of_trainers)
    sent = sum(host.sent_bytes() - HEADERS * host.sent_frames() for host in hosts.hosts)
    assert sum(counted.values()) < sent - begun < 1.1 * sum(counted.values())
    steps = len({(record["epoch"], record["batch"]) for record in records(run, "mini-batch")})
    # Beside the gradients of all parameters, the loss and the vote to stop are summed.
    assert counted["reduce"] == steps * 2 * (number - 1) * (weights + 4 * 2)
    assert (counted["exchange"] > 0) == bool(SENDS_ROWS & set(flags))
    assert (counted["norm"] > 0) == ("--norm" in flags)
    assert (counted["evaluation"] > 0) == ("none" not in flags)
    assert 0 < counted["count"] < 25_000 * number  # of a grid each move is a count, too
    if number == 2 and "--norm" not in flags:
        assert_predicted(run, layout, here, OVER if "--split-group" in flags else HELD)
    for name in map(name_of, (*OF_MINI_BATCH, *BESIDE)):
        assert all(name in record["traffic"] for record in records(run, "epoch"))


def assert_predicted(run, layout, here, way):
    """What the first epoch sent is what ``experiments.model_host --hosts`` counts without a run."""
    opened = open_layout(layout)
    sizes = [opened.graph.num_features, 256, 256, opened.graph.num_classes]
    work = Work(
        layout=opened,
        layers=layers_of("sage", sizes, 1),
        batch_size=TrainConfig.batch_size,
        fan_out=(2, 2, 2),
        seed=0,
        row_bytes=0,
        trainers=here,
        iterations=None,
    )
    ((counted,), _) = count(work, way, 2, (0,))
    first = [record["traffic"] for record in records(run, "mini-batch") if record["epoch"] == 1]
    sent = [sum(traffic[name_of(purpose)] for traffic in first) for purpose in (REDUCE, EXCHANGE)]
    assert tuple(sent) == bytes_between(counted, work.layers, 2)
