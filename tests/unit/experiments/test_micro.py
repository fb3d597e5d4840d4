"""The small benchmarks run and print a figure for each of their rows."""

from __future__ import annotations

import pytest
import torch

from experiments.micro import aggregation, convolutions, sampler_memory, sampling_rate
from gsplit.errors import InputError


@pytest.fixture
def one_thread():
    """The benchmarks set the number of threads; others have theirs back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_aggregation(capsys):
    aggregation.command(["--destinations=20", "--sources=50", "--degree=3", "--widths=4,8", "--repeats=1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert all("ms" in line for line in lines)


@pytest.mark.usefixtures("one_thread")
def test_convolutions(capsys):
    pytest.importorskip("torch_geometric")
    convolutions.command(["--destinations=20", "--sources=50", "--fan-out=3", "--width=8", "--repeats=1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["SAGEConv", "GATConv", "GCNConv"]


def test_sampling_rate(layouts, capsys):
    sampling_rate.command([str(layouts(2).path), "--fan-out", "3,3", "--batch-size", "50", "--batches", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("split / unsplit")
    assert len(lines) == 4


def test_sampler_memory(layouts, capsys):
    sampler_memory.command([str(layouts(2).path), "--samplers", "1", "--fan-out", "3,3", "--batch-size", "50"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].split("|")[0].strip() == "1"


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (aggregation.command, "--widths 0", "--widths takes numbers from 1 on, not"),
        (convolutions.command, "--repeats 0", "--repeats must be at least 1, not 0"),
        (sampling_rate.command, "nowhere --batches 1", "--batches must be at least 2, not 1"),
        (sampler_memory.command, "nowhere --samplers 0", "--samplers takes numbers from 1 on"),
        (sampler_memory.command, "nowhere --sampler-memory some", "--sampler-memory: "),
    ],
)
def test_mistakes(command, words, message):
    with pytest.raises(InputError, match=message):
        command(words.split())
