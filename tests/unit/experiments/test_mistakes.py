"""What an experiment says of flags that it cannot do with: one line, before anything is written."""

from __future__ import annotations

import importlib

import pytest
from support.messages import line_with

from gsplit.errors import InputError

LOADING = "--device cpu --rows 500 --width 3 --batch-size 20 --fan-out 4,3 --threads 2"
QUALITY = "--dataset synthetic:tiny --batch-sizes 100,300 --fan-out 4,3 --iterations 2"
REDUNDANCY = "--dataset synthetic:tiny --batch-size 150 --fan-out 4,3 --feature-width 32"
HOST = "--dataset synthetic:tiny"
MISTAKES = [
    ("differential.__main__", "--models 0", "--models, 1, 0"),
    ("faults.__main__", "", "--runs 100, --inputs 1000, --quick"),
    ("faults.__main__", "--runs -1", "--runs, 0, -1"),
    ("faults.__main__", "--runs 1 --seed -1", "--seed"),
    ("full_graph.__main__", "", "--words, --balance, --systems"),
    ("full_graph.__main__", "--words --balance", "--words, --balance, --systems"),
    ("full_graph.__main__", "--words --data .", "cora.npz"),
    ("full_graph.__main__", "--balance --json no/file.json", "--json no/file.json"),
    ("full_graph.__main__", "--systems --only dgl,nobody", "nobody"),
    ("full_graph.__main__", "--systems --only ,", "--only"),
    ("full_graph.__main__", "--systems --epochs 2", "--epochs, 3, 2"),
    ("full_graph.__main__", "--systems --accuracy", "--systems, --accuracy"),
    ("micro.aggregation", "--widths 0", "--widths, 1, 0"),
    ("micro.convolutions", "--repeats 0", "--repeats, 1, 0"),
    ("micro.importing_ids", "--json nowhere/i.json", "--json nowhere/i.json"),
    ("micro.importing_ids", "--vertices 0", "--vertices"),
    ("micro.importing_tables", "--tables colours", "colours, numbers, kinds, joined"),
    ("micro.importing_tables", "--beside nowhere", "--beside nowhere"),
    ("micro.loading", f"{LOADING} --rows 0", "--rows, 1, 0"),
    ("micro.loading", f"{LOADING} --batch-size 0", "--batch-size, 1, 0"),
    ("micro.loading", f"{LOADING} --threads -1", "--threads, 0, -1"),
    ("micro.loading", f"{LOADING} --fan-out 0", "--fan-out, 1, 0"),
    ("micro.loading", f"{LOADING} --json .", "--json ."),
    ("micro.partial_sums", "nowhere --batches 1", "--batches, 2, 1"),
    ("micro.sampler_memory", "nowhere --sampler-memory some", "--sampler-memory, some"),
    ("micro.sampler_memory", "nowhere --samplers 0", "--samplers, 1, 0"),
    ("micro.sampling_rate", "nowhere --batches 1", "--batches, 2, 1"),
    ("micro.step", "nowhere --hidden 0", "--hidden, 1, 0"),
    ("model_host.__main__", f"{HOST} --host dgx-a200", "--host dgx-a200, 4x3090ti-pcie3, dgx-a100"),
    ("model_host.__main__", f"{HOST} --gpus 8", "--gpus, 8, 4x RTX 3090 Ti, 4"),
    ("model_host.__main__", f"{HOST} --cache 0,101", "0, 100, 101]"),
    ("model_host.__main__", f"{HOST} --model gat --hidden 10", "--heads, 4, --hidden, 10"),
    ("model_host.__main__", f"{HOST} --epochs 1", "--epochs, 2, 1"),
    ("model_host.__main__", "--dataset nowhere", "nowhere"),
    ("model_host.__main__", f"{HOST} --json nowhere/out.json", "nowhere"),
    ("paper.accuracy", "--exchange-dtypes float8", "float8"),
    ("paper.redundancy", "--dataset nowhere", "nowhere"),
    ("paper.redundancy", "--dataset synthetic:vast", "vast, tiny"),
    ("paper.redundancy", f"{REDUNDANCY} --batch-size 0", "--batch-size, 1, 0"),
    ("paper.redundancy", f"{REDUNDANCY} --hidden 0", "--hidden, 1, 0"),
    ("paper.redundancy", f"{REDUNDANCY} --iterations 0", "--iterations, 1, 0"),
    ("paper.redundancy", f"{REDUNDANCY} --feature-width 0", "--feature-width, 1, 0"),
    ("paper.redundancy", f"{REDUNDANCY} --fan-out 3,0", "--fan-out, 1, -1, 0"),
    ("paper.redundancy", f"{REDUNDANCY} --caches 0,101", "0, 100"),
    ("paper.redundancy", f"{REDUNDANCY} --seed -1", "--seed, 0, -1"),
    ("paper.redundancy", f"{REDUNDANCY} --json no/out.json", "--json no/out.json"),
    ("paper.split_quality", "--dataset nowhere", "nowhere"),
    ("paper.split_quality", f"{QUALITY} --batch-sizes 0", "--batch-sizes, 1, 0"),
    ("paper.split_quality", f"{QUALITY} --fan-out 3,0", "--fan-out, 1, -1, 0"),
    ("paper.split_quality", f"{QUALITY} --iterations 0", "--iterations, 1, 0"),
    ("paper.split_quality", f"{QUALITY} --seed -1", "--seed, 0, -1"),
    ("paper.split_quality", f"{QUALITY} --json .", "--json ."),
    ("paper.weights", "synthetic:tinny", "tinny"),
    ("paper.weights", "nowhere", "nowhere"),
    ("paper.weights", "synthetic:tiny --batch-size 0", "--batch-size"),
    ("paper.weights", "synthetic:tiny --fan-out 0", "--fan-out, 1, 0"),
    ("paper.weights", "synthetic:tiny --json no/w.json", "--json no/w.json"),
]


@pytest.mark.parametrize(("experiment", "words", "message"), MISTAKES)
def test_mistakes(experiment, words, message, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # importing experiments.faults sets both
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"experiments.{experiment}")
    with pytest.raises(InputError, match=line_with(message)):
        module.command(words.split())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
