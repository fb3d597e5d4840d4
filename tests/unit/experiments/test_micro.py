"""The small benchmarks run and print a figure for each of their rows."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from experiments.micro import (
    aggregation,
    convolutions,
    partial_sums,
    sampler_memory,
    sampling_rate,
    step,
    step_memory,
)
from gsplit.errors import InputError


def test_aggregation(capsys, tmp_path):
    out = tmp_path / "found.json"
    words = "--destinations=20 --sources=50 --degree=3 --widths=4,8 --threads=1,2 --repeats=1"
    aggregation.command([*words.split(), f"--json={out}"])
    assert capsys.readouterr().out.count("embedding_bag forward") == 4  # as they come; the table names it in its head
    rows = json.loads(out.read_text())
    assert [(row["threads"], row["width"]) for row in rows] == [(1, 4), (1, 8), (2, 4), (2, 8)]
    assert all({"width", "threads", "embedding_bag", "bandwidth"} <= set(row) for row in rows)


def test_the_products_that_are_compared_agree():
    config = aggregation.AggregationConfig(destinations=30, sources=40, degree=4)
    block = aggregation.random_block(config)
    x = torch.randn(40, 9, requires_grad=True)
    results = {}
    for name, product in aggregation.products(block):
        out = product(x)
        results[name] = (out, *torch.autograd.grad(out.square().sum(), x))
    assert {"ours", "embedding_bag", "sparse"} <= set(results)
    for out, gradient in results.values():
        torch.testing.assert_close(out, results["ours"][0])
        torch.testing.assert_close(gradient, results["ours"][1])


def test_step(layouts, tmp_path):
    out = tmp_path / "found.json"
    words = f"{layouts(2).path} --hidden 4 --fan-out 3,3 --targets 20 --steps 1 --json {out}"
    step.command(words.split())
    rows = json.loads(out.read_text())
    assert [row["stage"] for row in rows] == ["sums", "products", "the rest", "step"]
    assert all(row["over_floor"] > 0 for row in rows if row["stage"] != "the rest")


@pytest.mark.slow  # what is counted is tested in processes of the pool (test_predicted_memory.py)
def test_step_memory(layouts, tmp_path):
    out = tmp_path / "found.json"
    step_memory.command(f"{layouts(2).path} --fan-out 3,3 --batch-size 60 --json {out}".split())
    rows = json.loads(out.read_text())
    assert [(row["precision"], row["trainers"]) for row in rows] == [("32", 2), ("bf16-mixed", 2)]
    assert [row["predicted_over_measured"] for row in rows] == pytest.approx([1, 1], abs=0.1)


def test_the_most_that_is_alive_is_found_in_a_trace():
    def event(at, num_bytes, name=step_memory.MEMORY):
        return {"name": name, "ts": at, "args": {"Bytes": num_bytes}}

    events = [event(3, 5), event(1, 8), event(2, -8), event(4, 7), event(5, -12), event(0, 99, "other")]
    assert step_memory.taken_of(events) == 12
    assert step_memory.taken_of([]) == 0


def test_the_floor_of_a_step_is_counted():
    """Two layers, 6 -> 8 -> 2: the first widens and trains no rows below it, the second narrows."""
    headers = {
        1: SimpleNamespace(num_destinations=5, num_own_sources=9, num_edges=20),
        2: SimpleNamespace(num_destinations=2, num_own_sources=5, num_edges=7),
    }
    floor = step.floor_of(SimpleNamespace(layers=headers), [6, 8, 2], bandwidth=4.0, flops=2.0)
    first = 20 * 7 + 5 * 7
    second = 7 * 3 + 2 * 3 + (4 * 7 + 3 * 5) + 7 * 4 + 5 * 3
    assert floor["sums"] == first + second
    assert floor["products"] == 2 * 6 * 8 * (5 + 5) + 3 * 8 * 2 * (2 + 5) + 5 * 8 * 5


def test_convolutions():
    words = ["--destinations=20", "--sources=50", "--fan-out=3", "--width=8", "--repeats=1"]
    rows = convolutions.measure(convolutions.command.parse(words))
    assert [row["key"] for row in rows] == ["sage", "gat", "gcn"]
    assert all(min(row["time_ratio"], row["pyg_mib"], row["our_mib"]) > 0 for row in rows)


def test_sampling_rate(layouts):
    words = [str(layouts(2).path), "--fan-out", "3,3", "--batch-size", "50", "--batches", "3"]
    rows = sampling_rate.measure(sampling_rate.command.parse(words))
    assert [row["way"] for row in rows] == ["unsplit", "split", "split and written"]
    assert rows[0]["ratio_min"] == rows[0]["ratio_max"] == 1
    assert rows[2]["edges_per_second"] < rows[1]["edges_per_second"]


def test_partial_sums(layouts, tmp_path):
    out = tmp_path / "found.json"
    words = "--fan-out 3,3 --batch-size 50 --batches 2"
    partial_sums.command([*(str(layouts(parts).path) for parts in (2, 3)), *words.split(), "--json", str(out)])
    found = json.loads(out.read_text())
    assert [graph["dataset"]["parts"] for graph in found] == [2, 3]
    for graph in found:
        assert graph["settings"]["batches"] == 2
        assert graph["rows_ratio"] < 1 < graph["edges_ratio"]
        assert graph["sampler_ratio"] > 0
        assert all(row["least"] <= row["auto"] <= row["rows"] for row in graph["layers"])


def test_partial_sums_of_one_part(layouts):
    with pytest.raises(InputError, match="has one part"):
        partial_sums.command([str(layouts(1).path)])


@pytest.mark.parametrize("of_pairs", [[], ["--negatives", "joint:4/7+near:1"]])
def test_sampler_memory(layouts, of_pairs):
    words = [str(layouts(2).path), "--samplers", "1", "--fan-out", "3,3", "--batch-size", "50", *of_pairs]
    (row,) = sampler_memory.measure(sampler_memory.command.parse(words))["samplers"]
    assert row["samplers"] == 1
    assert min(row["private_bytes"], row["slot_bytes"]) > 0
    assert row["peak_bytes"] > 2**20  # an interpreter at least
