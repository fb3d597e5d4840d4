"""The paper's tables 1 and 2 on small graphs, against slow counts that share no code with what they check."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from support.documents import undocumented
from support.graphs import lay_out, random_graph
from support.messages import says
from support.reference import splits_of
from support.traffic import cut, dealt_from, hottest_set

from experiments.paper import redundancy
from experiments.paper.redundancy import RedundancyConfig, bar_of, counts_of
from gsplit.sampling import EpochPlan

TINY = ("--dataset", "synthetic:tiny", "--batch-size", "150", "--fan-out", "4,3", "--feature-width", "32")
HIDDEN = 7
OFFSETS = [[0, 301], [0, 100, 100, 301], [0, 20, 150, 151, 301]]
"""One part; three, one of them empty; four of very different sizes."""


@pytest.fixture(scope="module")
def layout_of_301(tmp_path_factory):
    """In one part; no percent of it is a whole number of rows."""
    return lay_out(random_graph(301, 10, seed=3), tmp_path_factory.mktemp("redundancy"), parts=1)


def slow_counts(layout, config):
    """(system, cache %) -> [hit, peer, host] rows; (layer, "rows" or "messages"); placement -> [edges, inputs]."""
    graph, offsets, parts = layout.graph, layout.offsets.tolist(), layout.parts
    n, hops = graph.num_vertices, len(config.fan_out)
    owner = {v: p for p in range(parts) for v in range(offsets[p], offsets[p + 1])}
    train = graph.train_idx.tolist()
    order = EpochPlan(graph.train_idx, layout.permutation, config.batch_size, config.seed).targets(0).tolist()
    shares = [set(share) for share in cut(train, parts)]
    dealt = dealt_from(shares, order)
    loads, exchanges, work = {}, Counter(), {}

    def sampled(targets, batch, micro=0, offsets=(0, n)):
        return splits_of(layout, targets, config.fan_out, offsets=offsets, seed=config.seed, batch=batch, micro=micro)

    def add(system, percent, rank, vertices, own, peers):
        row = loads.setdefault((system, percent), [0, 0, 0])
        for v in vertices:
            row[0 if v in own else 1 if v in peers else 2] += 1

    def add_work(placement, splits):
        row = work.setdefault(placement, [0, 0])
        row[0] += sum(len(drawn) for split in splits for rows in split.edges.values() for drawn in rows)
        row[1] += sum(len(split.vertices) for split in splits)

    for batch in range(ceil(len(order) / config.batch_size))[: config.iterations]:
        begin, end = (min(b * config.batch_size, len(order)) for b in (batch, batch + 1))
        splits = sampled(order[begin:end], batch, offsets=offsets)
        micros = [sampled(t, batch, g)[0] for g, t in enumerate(cut(order[begin:end], parts))]
        fixed = [sampled([v for share, v in dealt[begin:end] if share == g], batch, micro=g)[0] for g in range(parts)]
        for placement, made in (("splits", splits), ("micro-batches", micros), ("fixed shares", fixed)):
            add_work(placement, made)
        for split in splits:
            for layer, received in split.received.items():
                exchanges[layer, "rows"] += sum(map(len, received))
                exchanges[layer, "messages"] += sum(bool(rows) for rows in received)
        for rank in range(parts):
            add("DGL", 0, rank, micros[rank].vertices, (), ())
            for percent in config.caches:
                cached = [
                    set(range(a, a + min(b - a, ceil((b - a) * percent * parts / 100)))) for a, b in pairwise(offsets)
                ]
                everybody = set().union(*cached)
                add("Quiver", percent, rank, micros[rank].vertices, cached[rank], everybody)
                add("GSplit", percent, rank, splits[rank].vertices, cached[rank], everybody)
                own = hottest_set(graph, shares[rank], hops, ceil(n * percent / 100))
                add("PaGraph", percent, rank, fixed[rank].vertices, own, ())
                assert all(owner[v] == rank for v in splits[rank].vertices)
    return loads, exchanges, work


@pytest.mark.parametrize("offsets", OFFSETS, ids=lambda offsets: f"{len(offsets) - 1} parts")
@pytest.mark.parametrize(("batch_size", "iterations"), [(64, None), (2, 3), (1000, None)])
def test_counts_are_those_of_slow_ones(layout_of_301, offsets, batch_size, iterations):
    """150 targets: an uneven last mini-batch; fewer targets than trainers; all in one."""
    layout = replace(layout_of_301, offsets=np.array(offsets))
    config = RedundancyConfig(
        batch_size=batch_size, iterations=iterations, fan_out=(4, 3), hidden=HIDDEN, caches=(0, 3, 10, 25), seed=5
    )
    result = counts_of(layout, config)
    loads, exchanges, work = slow_counts(layout, config)
    assert {
        (row["system"], row["cache_percent"]): [row["hit_rows"], row["peer_rows"], row["host_rows"]]
        for row in result["traffic"]
    } == loads
    assert {(row["layer"], what): row[what] for row in result["exchanges"] for what in ("rows", "messages")} == {
        (layer, what): exchanges[layer, what] for layer in (1, 2) for what in ("rows", "messages")
    }
    assert {row["laying"]: [row["edges"], row["inputs"]] for row in result["work"]} == work
    counted = result["counted"]
    assert counted["targets"] == min(150, batch_size * (iterations or 150))
    assert counted["epochs"] == counted["targets"] / 150
    assert counted["iterations_per_epoch"] == ceil(150 / batch_size)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bytes(layouts, dtype):
    """Rows are loaded and cached as stored, and exchanged as float32; features need no gradient."""
    layout = layouts(4)
    layout = replace(layout, graph=layout.graph.with_feature_dtype(dtype))
    result = counts_of(layout, RedundancyConfig(batch_size=64, fan_out=(4, 3, 2), hidden=HIDDEN))
    row_bytes = 5 * np.dtype(dtype).itemsize
    assert (result["settings"]["feature_width"], result["settings"]["row_bytes"]) == (5, row_bytes)
    first, second, third = result["exchanges"]
    assert (first["forward_bytes"], first["backward_bytes"]) == (first["rows"] * 5 * 4, 0)
    # Layers of 5 -> 7, 7 -> 7 and 7 -> 3 columns: projecting makes the rows of the third narrower.
    for layer in (first, second):
        assert layer["projected_forward_bytes"] == layer["forward_bytes"]
        assert layer["projected_backward_bytes"] == layer["backward_bytes"]
    assert third["projected_forward_bytes"] == third["projected_backward_bytes"] == third["rows"] * 3 * 4
    for layer in (second, third):
        assert layer["forward_bytes"] == layer["backward_bytes"] == layer["rows"] * HIDDEN * 4 > 0
    for row in result["traffic"]:
        ways = [row["exchange_forward_bytes"], row["exchange_backward_bytes"]]
        if row["system"] == "GSplit":
            assert ways == [
                sum(layer[f"{way}_bytes"] for layer in result["exchanges"]) for way in ("forward", "backward")
            ]
        else:
            assert ways == [0, 0]
        assert row["host_bytes"] == row["host_rows"] * row_bytes
        assert row["peer_bytes"] == row["peer_rows"] * row_bytes
        assert row["total_bytes"] == row["host_bytes"] + row["peer_bytes"] + sum(ways)
        assert row["needed_rows"] == row["hit_rows"] + row["peer_rows"] + row["host_rows"]
        assert row["hit_rate"] == row["hit_rows"] / row["needed_rows"]


def traffic(*cells):
    return [{"system": system, "cache_percent": percent, "host_bytes": host} for system, percent, host in cells]


@pytest.mark.parametrize(
    ("rows", "missed"),
    [
        (traffic(("DGL", 0, 9), ("Quiver", 25, 0), ("PaGraph", 25, 1), ("GSplit", 25, 0)), []),
        (traffic(("Quiver", 10, 5), ("GSplit", 10, 5)), [("Quiver", 10)]),
        (
            traffic(("PaGraph", 10, 4), ("Quiver", 25, 0), ("GSplit", 10, 5), ("GSplit", 25, 1)),
            [("PaGraph", 10), ("Quiver", 25)],
        ),
        (traffic(("DGL", 0, 3), ("GSplit", 0, 2), ("GSplit", 25, 3)), [("DGL", 25)]),
    ],
)
def test_the_bar(rows, missed):
    bar = bar_of(rows)
    assert bar["met"] == (not missed)
    assert [(cell["system"], cell["cache_percent"]) for cell in bar["missed"]] == missed


def test_the_keys_are_those_documented(tmp_path, capsys):
    redundancy.command([*TINY, "--work", str(tmp_path), "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    assert list(result) == ["dataset", "settings", "counted", "traffic", "exchanges", "bar", "work", "paper"]
    keys = {*result, *result["dataset"], *result["dataset"]["generator"], *result["paper"], "system", "cache_percent"}
    keys |= {*result["settings"], *result["counted"], *result["bar"]}
    for rows in (*(result[name] for name in ("traffic", "exchanges", "work")), *result["paper"].values()):
        keys |= set(rows[0])
        assert all(set(row) == set(rows[0]) for row in rows)
    assert undocumented("Redundancy", keys) == []
    assert [(row["system"], row["cache_percent"]) for row in result["traffic"]] == [
        ("DGL", 0),
        *((system, percent) for system in ("PaGraph", "Quiver", "GSplit") for percent in (0, 10, 25)),
    ]
    assert result["bar"] == {"met": True, "missed": []}
    printed = capsys.readouterr().out
    assert "## traffic\n\n| system | cache_percent | needed_rows |" in printed
    assert "bar: met yes, missed" in printed
    assert "| products | 195,000,000 | 155,000,000 | 25.5 |" in printed


def test_a_part_of_an_epoch_is_counted(layouts, caplog):
    words = ["--dataset", str(layouts(4).path), "--batch-size", "50", "--iterations", "2", "--feature-width", "9"]
    counted = redundancy.measure(redundancy.command.parse(words))["counted"]
    assert (counted["iterations"], counted["iterations_per_epoch"], counted["epochs"]) == (2, 3, 2 / 3)
    says(caplog.text, "--feature-width, 9")
