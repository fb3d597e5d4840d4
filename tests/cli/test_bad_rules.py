"""Mistakes with --sampling and its flags: one line that names the flag, exit code 2, and nothing written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.messages import says

TRAIN = ("train", "layout", "--out", "new", "--device", "cpu")
LADIES = (*TRAIN, "--sampling", "ladies")
SIZES = ("--layer-sizes", "20,20")
UNIFORM = (*TRAIN, "--sampling", "uniform", "--num-layers", "2")
SAINT = (*TRAIN, "--sampling", "saint", "--num-layers", "2")
CLUSTERS = (*TRAIN, "--sampling", "clusters", "--num-layers", "2")

FLAGS = [
    ((*TRAIN, "--sampling", "labor"), "labor, --sampling, ladies"),
    (LADIES, "--sampling ladies, --layer-sizes"),
    ((*TRAIN, "--sampling", "fastgcn"), "--sampling fastgcn, --layer-sizes"),
    ((*LADIES, "--layer-sizes", "0,5"), "--layer-sizes, 1, 134217728, 0,5"),
    ((*LADIES, "--layer-sizes", "x"), "--layer-sizes, x"),
    ((*LADIES, *SIZES, "--num-layers", "3"), "--layer-sizes, 2, --num-layers, 3"),
    ((*LADIES, *SIZES, "--fan-out", "5,5"), "--fan-out, 5,5"),
    ((*TRAIN, *SIZES), "--layer-sizes, 20,20"),
    ((*TRAIN, "--estimate", "unbiased"), "--estimate unbiased"),
    ((*TRAIN, "--draw", "race"), "--draw race"),
    ((*TRAIN, "--importance", "counts"), "--importance counts"),
    ((*TRAIN, "--subgraph", "10%"), "--subgraph, 10%"),
    ((*TRAIN, "--fresh"), "--fresh, --sampling neighbours, uniform"),
    ((*LADIES, *SIZES, "--fresh"), "--fresh, --sampling ladies, uniform"),
    ((*TRAIN, "--clusters", "2"), "--clusters, 2"),
    ((*LADIES, *SIZES, "--subgraph", "10%"), "--subgraph, 10%"),
    ((*LADIES, *SIZES, "--estimate", "mean"), "mean, --estimate, unbiased"),
    ((*LADIES, *SIZES, "--estimate", "unbiased", "--model", "gat"), "--estimate unbiased, gat"),
    ((*LADIES, "--layer-sizes", "99999999999999999999,5"), "--layer-sizes, 134217728, 99999999999999999999,5"),
    ((*LADIES, *SIZES, "--model", "torch_geometric.nn:GAT"), "--sampling ladies, torch_geometric.nn:GAT"),
    ((*TRAIN, "--residual-after"), "--residual-after"),
    *(
        ((*TRAIN, "--bulk", bulk), f"--bulk, 4096, auto, {bulk}")
        for bulk in ("0", "-1", "all", "99999999999999999999")
    ),
    (UNIFORM, "--sampling uniform, --subgraph"),
    *(((*UNIFORM, "--subgraph", share), f"--subgraph, 0%, 100%, {share}") for share in ("0%", "101%", "x%")),
    *(((*UNIFORM, "--subgraph", number), f"--subgraph, 1, 10%, {number}") for number in ("0", "1.5", "ten")),
    ((*UNIFORM, "--subgraph", "1001"), "--subgraph, 1001, layout, 1000"),
    ((*UNIFORM, "--subgraph", "1"), "--subgraph, 1, 2"),
    ((*UNIFORM, "--subgraph", "10%", "--batch-size", "50"), "--batch-size, 50"),
    ((*UNIFORM, "--subgraph", "10%", "--importance", "counts"), "--importance counts"),
    (
        (*UNIFORM, "--subgraph", "10%", "--strategy", "data", "--cache", "replicated", "--cache-size", "10%"),
        "--cache replicated, --sampling uniform",
    ),
    ((*UNIFORM, "--subgraph", "1000", "--strategy", "data"), "--subgraph, 1000, 2, 500"),
    (SAINT, "--sampling saint, --subgraph"),
    ((*SAINT, "--subgraph", "10%", "--batch-size", "50"), "--batch-size, 50"),
    (
        (*SAINT, "--subgraph", "10%", "--model", "torch_geometric.nn:GAT"),
        "--sampling saint, torch_geometric.nn:GAT, --sampling neighbours",
    ),
    ((*SAINT, "--subgraph", "10%", "--estimate", "unbiased", "--model", "gat"), "--estimate unbiased, gat"),
    ((*SAINT, "--subgraph", "10%", "--fresh"), "--fresh, --sampling saint, uniform"),
    ((*CLUSTERS, "--clusters", "1", "--fresh"), "--fresh, --sampling clusters, uniform"),
    ((*UNIFORM, "--subgraph", "10%", "--fresh", "--grid", "2,1,1"), "--fresh, --grid 2,1,1"),
    ((*UNIFORM, "--fresh"), "--sampling uniform, --subgraph"),
    (CLUSTERS, "--sampling clusters, --clusters"),
    ((*CLUSTERS, "--clusters", "0"), "--clusters, 1, 0"),
    ((*CLUSTERS, "--clusters", "3"), "--clusters, 3, layout, 2, --parts"),
    ((*CLUSTERS, "--clusters", "2", "--strategy", "data"), "--clusters, 2, layout, --parts"),
    ((*CLUSTERS, "--clusters", "1", "--estimate", "unbiased"), "--estimate unbiased"),
    ((*LADIES, *SIZES, "--strategy", "full"), "--sampling ladies, --strategy full"),
]


@pytest.mark.parametrize(("words", "message"), FLAGS, ids=[" ".join(words[6:]) for words, _ in FLAGS])
def test_flags(refused, words, message):
    says(refused(*words), message)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda n: np.where(np.arange(n) == 5, -1, 1), "--sampling fastgcn, 1, negative"),
        (lambda n: np.zeros(n), "--sampling fastgcn, 0"),
    ],
)
def test_weights_that_no_chances_can_be_made_of(refused, place, weights, message):
    graph = random_graph(40, 5, seed=0, weighted=True)
    graph = replace(graph, edge_weight=weights(graph.num_edges).astype(np.float32))
    layout = lay_out(graph, place / "cut", parts=2)
    train = ("train", layout.path, "--out", "new", "--device", "cpu", "--model", "gcn")
    says(refused(*train, "--sampling", "fastgcn", "--layer-sizes", "5,5"), message)


def test_weights_that_no_ratio_can_be_made_of(refused, place):
    graph = random_graph(40, 5, seed=0, weighted=True)
    graph.edge_weight[5] = -1
    layout = lay_out(graph, place / "cut", parts=2)
    for rule in ("saint", "uniform"):
        words = ("--model", "gcn", "--sampling", rule, "--subgraph", "50%", "--num-layers", "2")
        printed = refused("train", layout.path, "--out", "new", "--device", "cpu", *words)
        says(printed, f"--sampling {rule} --estimate ratio, 1, negative")
