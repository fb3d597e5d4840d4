"""The small benchmarks run and print a figure for each of their rows."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from experiments.micro import aggregation, convolutions, partial_sums, sampler_memory, sampling_rate, step
from gsplit.errors import InputError


@pytest.fixture
def one_thread():
    """The benchmarks set the number of threads; others have theirs back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_aggregation(capsys, tmp_path):
    out = tmp_path / "found.json"
    words = "--destinations=20 --sources=50 --degree=3 --widths=4,8 --threads=1,2 --repeats=1"
    aggregation.command([*words.split(), f"--json={out}"])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("width") and "embedding_bag" in line for line in lines) == 4
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


@pytest.mark.usefixtures("one_thread")
def test_step(layouts, capsys, tmp_path):
    out = tmp_path / "found.json"
    words = f"{layouts(2).path} --hidden 4 --fan-out 3,3 --targets 20 --steps 1 --json {out}"
    step.command(words.split())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["sums", "products", "activation", "the", "step"]
    rows = json.loads(out.read_text())
    assert all(row["over_floor"] > 0 for row in rows if row["stage"] != "the rest")


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
    assert floor["products"] == 2 * 6 * 8 * (5 + 5) + 3 * 8 * 2 * (2 + 5)
    assert floor["activation"] == 5 * 8 * 5


@pytest.mark.usefixtures("one_thread")
def test_convolutions(capsys):
    convolutions.command(["--destinations=20", "--sources=50", "--fan-out=3", "--width=8", "--repeats=1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["SAGEConv", "GATConv", "GCNConv"]


def test_sampling_rate(layouts, capsys):
    sampling_rate.command([str(layouts(2).path), "--fan-out", "3,3", "--batch-size", "50", "--batches", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("split / unsplit")
    assert len(lines) == 4


def test_partial_sums(layouts, capsys, tmp_path):
    out = tmp_path / "found.json"
    words = "--fan-out 3,3 --batch-size 50 --batches 2"
    partial_sums.command([*(str(layouts(parts).path) for parts in (2, 3)), *words.split(), "--json", str(out)])
    assert capsys.readouterr().out.count("rows and sums") == 4
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


def test_sampler_memory(layouts, capsys):
    sampler_memory.command([str(layouts(2).path), "--samplers", "1", "--fan-out", "3,3", "--batch-size", "50"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].split("|")[0].strip() == "1"


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (aggregation.command, "--widths 0", "--widths takes numbers from 1 on, not"),
        (step.command, "nowhere --hidden 0", "--hidden must be at least 1, not 0"),
        (convolutions.command, "--repeats 0", "--repeats must be at least 1, not 0"),
        (sampling_rate.command, "nowhere --batches 1", "--batches must be at least 2, not 1"),
        (partial_sums.command, "nowhere --batches 1", "--batches must be at least 2, not 1"),
        (sampler_memory.command, "nowhere --samplers 0", "--samplers takes numbers from 1 on"),
        (sampler_memory.command, "nowhere --sampler-memory some", "--sampler-memory: "),
    ],
)
def test_mistakes(command, words, message):
    with pytest.raises(InputError, match=message):
        command(words.split())
