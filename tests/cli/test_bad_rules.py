"""Mistakes with --sampling and its flags: one line that names the flag, exit code 2, and nothing written."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph

TRAIN = ("train", "layout", "--out", "new", "--device", "cpu")
LADIES = (*TRAIN, "--sampling", "ladies")
SIZES = ("--layer-sizes", "20,20")
UNIFORM = (*TRAIN, "--sampling", "uniform", "--num-layers", "2")
SAINT = (*TRAIN, "--sampling", "saint", "--num-layers", "2")
CLUSTERS = (*TRAIN, "--sampling", "clusters", "--num-layers", "2")

FLAGS = [
    ((*TRAIN, "--sampling", "labor"), "'labor'.*--sampling.*ladies"),
    (LADIES, "--sampling ladies needs --layer-sizes"),
    ((*TRAIN, "--sampling", "fastgcn"), "--sampling fastgcn needs --layer-sizes"),
    ((*LADIES, "--layer-sizes", "0,5"), "--layer-sizes takes a number from 1 to .* for each hop.*not 0,5"),
    ((*LADIES, "--layer-sizes", "x"), "--layer-sizes.*'x'"),
    ((*LADIES, *SIZES, "--num-layers", "3"), "--layer-sizes has 2 numbers, but --num-layers is 3"),
    ((*LADIES, *SIZES, "--fan-out", "5,5"), "--fan-out 5,5 has no effect"),
    ((*TRAIN, *SIZES), "--layer-sizes 20,20 has no effect"),
    ((*TRAIN, "--estimate", "unbiased"), "--estimate unbiased has no effect"),
    ((*TRAIN, "--draw", "race"), "--draw race has no effect"),
    ((*TRAIN, "--importance", "counts"), "--importance counts has no effect"),
    ((*TRAIN, "--subgraph", "10%"), "--subgraph 10% has no effect"),
    ((*TRAIN, "--clusters", "2"), "--clusters 2 has no effect"),
    ((*LADIES, *SIZES, "--subgraph", "10%"), "--subgraph 10% has no effect"),
    ((*LADIES, *SIZES, "--estimate", "mean"), "'mean'.*--estimate.*unbiased"),
    ((*LADIES, *SIZES, "--estimate", "unbiased", "--model", "gat"), "--estimate unbiased is for sums.*model gat"),
    ((*LADIES, "--layer-sizes", "99999999999999999999,5"), "--layer-sizes takes a number from 1 to 134217728"),
    (
        (*LADIES, *SIZES, "--model", "torch_geometric.nn:GAT"),
        "--sampling ladies lets each edge.*torch_geometric.nn:GAT",
    ),
    ((*TRAIN, "--residual-after"), "--residual-after has no effect"),
    *(
        ((*TRAIN, "--bulk", bulk), f"--bulk takes a number of mini-batches from 1 to 4096, or auto, not {bulk}")
        for bulk in ("0", "-1", "all", "99999999999999999999")
    ),
    (UNIFORM, "--sampling uniform needs --subgraph"),
    *(
        ((*UNIFORM, "--subgraph", share), f"--subgraph takes a share of the vertices above 0%.*not {share}")
        for share in ("0%", "101%", "x%")
    ),
    *(
        ((*UNIFORM, "--subgraph", number), f"--subgraph takes a number of vertices from 1 on.*not {number}")
        for number in ("0", "1.5", "ten")
    ),
    ((*UNIFORM, "--subgraph", "1001"), "--subgraph is 1001, but .*layout has 1000 vertices"),
    ((*UNIFORM, "--subgraph", "1"), "--subgraph 1 has less than one .* it takes [0-9]+ or"),
    ((*UNIFORM, "--subgraph", "10%", "--batch-size", "50"), "--batch-size 50 has no effect"),
    ((*UNIFORM, "--subgraph", "10%", "--importance", "counts"), "--importance counts has no effect"),
    (
        (*UNIFORM, "--subgraph", "10%", "--strategy", "data", "--cache", "replicated", "--cache-size", "10%"),
        "--cache replicated gives each trainer training vertices of its own.*--sampling uniform",
    ),
    (
        (*UNIFORM, "--subgraph", "1000", "--strategy", "data"),
        "--subgraph 1000 makes 1 subgraphs .* 2 groups .* 500 or",
    ),
    (SAINT, "--sampling saint needs --subgraph"),
    ((*SAINT, "--subgraph", "10%", "--batch-size", "50"), "--batch-size 50 has no effect"),
    ((*SAINT, "--subgraph", "10%", "--model", "torch_geometric.nn:GAT"), "--sampling saint lets each edge count"),
    (
        (*SAINT, "--subgraph", "10%", "--estimate", "unbiased", "--model", "gat"),
        "--estimate unbiased is for sums.*model gat",
    ),
    (CLUSTERS, "--sampling clusters needs --clusters"),
    ((*CLUSTERS, "--clusters", "0"), "--clusters must be at least 1, not 0"),
    ((*CLUSTERS, "--clusters", "3"), "--clusters is 3, but .*layout has 2 parts; make a layout with more --parts"),
    (
        (*CLUSTERS, "--clusters", "2", "--strategy", "data"),
        "--clusters is 2 for each of 2 groups, but .*layout has 2 parts",
    ),
    ((*CLUSTERS, "--clusters", "1", "--estimate", "unbiased"), "--estimate unbiased has no effect"),
    ((*LADIES, *SIZES, "--strategy", "full"), "--sampling ladies has no effect"),
]


@pytest.mark.parametrize(("words", "message"), FLAGS, ids=[" ".join(words[6:]) for words, _ in FLAGS])
def test_flags(refused, words, message):
    assert re.search(message, refused(*words))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda n: np.where(np.arange(n) == 5, -1, 1), "--sampling fastgcn draws by the weights.*some are negative"),
        (lambda n: np.zeros(n), "--sampling fastgcn draws by the weights of edges, and all are 0"),
    ],
)
def test_weights_that_no_chances_can_be_made_of(refused, place, weights, message):
    graph = random_graph(40, 5, seed=0, weighted=True)
    graph = replace(graph, edge_weight=weights(graph.num_edges).astype(np.float32))
    layout = lay_out(graph, place / "cut", parts=2)
    train = ("train", layout.path, "--out", "new", "--device", "cpu", "--model", "gcn")
    assert re.search(message, refused(*train, "--sampling", "fastgcn", "--layer-sizes", "5,5"))


def test_weights_that_no_ratio_can_be_made_of(refused, place):
    graph = random_graph(40, 5, seed=0, weighted=True)
    graph.edge_weight[5] = -1
    layout = lay_out(graph, place / "cut", parts=2)
    for rule in ("saint", "uniform"):
        words = ("--model", "gcn", "--sampling", rule, "--subgraph", "50%", "--num-layers", "2")
        printed = refused("train", layout.path, "--out", "new", "--device", "cpu", *words)
        assert f"--sampling {rule} --estimate ratio divides by the weights of edges, and some are negative" in printed
