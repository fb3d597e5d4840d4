"""What an experiment says of flags that it cannot do with: one line, before anything is written."""

from __future__ import annotations

import importlib

import pytest

from gsplit.errors import InputError

LOADING = "--device cpu --rows 500 --width 3 --batch-size 20 --fan-out 4,3 --threads 2"
QUALITY = "--dataset synthetic:tiny --batch-sizes 100,300 --fan-out 4,3 --iterations 2"
REDUNDANCY = "--dataset synthetic:tiny --batch-size 150 --fan-out 4,3 --feature-width 32"
HOST = "--dataset synthetic:tiny"
MISTAKES = [
    ("differential.__main__", "--models 0", "--models must be at least 1, not 0"),
    ("faults.__main__", "", "nothing to do"),
    ("faults.__main__", "--runs -1", "--runs must be at least 0"),
    ("faults.__main__", "--runs 1 --seed -1", "--seed"),
    ("full_graph.__main__", "", "give one of"),
    ("full_graph.__main__", "--words --balance", "give one of"),
    ("full_graph.__main__", "--words --data .", r"no cora\.npz"),
    ("full_graph.__main__", "--balance --json no/file.json", "cannot write to no"),
    ("full_graph.__main__", "--systems --only dgl,nobody", "unknown system 'nobody'"),
    ("full_graph.__main__", "--systems --only ,", "takes names with commas"),
    ("full_graph.__main__", "--systems --epochs 2", "--epochs must be at least 3"),
    ("full_graph.__main__", "--systems --accuracy", "2 are given"),
    ("micro.aggregation", "--widths 0", "--widths takes numbers from 1 on, not"),
    ("micro.convolutions", "--repeats 0", "--repeats must be at least 1, not 0"),
    ("micro.importing_ids", "--json nowhere/i.json", r"--json nowhere/i.json: cannot write to nowhere"),
    ("micro.importing_ids", "--vertices 0", "--vertices"),
    ("micro.loading", f"{LOADING} --rows 0", "--rows must be at least 1, not 0"),
    ("micro.loading", f"{LOADING} --batch-size 0", "--batch-size must be at least 1, not 0"),
    ("micro.loading", f"{LOADING} --threads -1", "--threads must be at least 0, not -1"),
    ("micro.loading", f"{LOADING} --fan-out 0", "--fan-out takes numbers from 1 on"),
    ("micro.loading", f"{LOADING} --json .", "--json . is a folder"),
    ("micro.partial_sums", "nowhere --batches 1", "--batches must be at least 2, not 1"),
    ("micro.sampler_memory", "nowhere --sampler-memory some", "--sampler-memory: "),
    ("micro.sampler_memory", "nowhere --samplers 0", "--samplers takes numbers from 1 on"),
    ("micro.sampling_rate", "nowhere --batches 1", "--batches must be at least 2, not 1"),
    ("micro.step", "nowhere --hidden 0", "--hidden must be at least 1, not 0"),
    ("model_host.__main__", f"{HOST} --host dgx-a200", "--host dgx-a200: it is one of 4x3090ti-pcie3, dgx-a100"),
    ("model_host.__main__", f"{HOST} --gpus 8", "--gpus 8: 4x RTX 3090 Ti, PCIe 3.0 .* has 4"),
    ("model_host.__main__", f"{HOST} --cache 0,101", "percents from 0 to 100"),
    ("model_host.__main__", f"{HOST} --model gat --hidden 10", "--heads 4 does not divide --hidden 10"),
    ("model_host.__main__", f"{HOST} --epochs 1", "--epochs must be at least 2, not 1"),
    ("model_host.__main__", "--dataset nowhere", "nowhere is not a folder"),
    ("model_host.__main__", f"{HOST} --json nowhere/out.json", "cannot write to nowhere"),
    ("paper.accuracy", "--exchange-dtypes float8", "unknown type of the exchange 'float8'; choose from"),
    ("paper.redundancy", "--dataset nowhere", "nowhere is not a folder: no such path"),
    ("paper.redundancy", "--dataset synthetic:vast", "unknown preset 'vast'; choose one of tiny"),
    ("paper.redundancy", f"{REDUNDANCY} --batch-size 0", "--batch-size must be at least 1, not 0"),
    ("paper.redundancy", f"{REDUNDANCY} --hidden 0", "--hidden must be at least 1, not 0"),
    ("paper.redundancy", f"{REDUNDANCY} --iterations 0", "--iterations must be at least 1, not 0"),
    ("paper.redundancy", f"{REDUNDANCY} --feature-width 0", "--feature-width must be at least 1, not 0"),
    ("paper.redundancy", f"{REDUNDANCY} --fan-out 3,0", "--fan-out takes numbers from 1 on, or -1"),
    ("paper.redundancy", f"{REDUNDANCY} --caches 0,101", "sizes of caches are percents from 0 to 100"),
    ("paper.redundancy", f"{REDUNDANCY} --seed -1", "--seed must be at least 0, not -1"),
    ("paper.redundancy", f"{REDUNDANCY} --json no/out.json", "--json no/out.json: cannot write to no"),
    ("paper.split_quality", "--dataset nowhere", "nowhere is not a folder: no such path"),
    ("paper.split_quality", f"{QUALITY} --batch-sizes 0", "--batch-sizes takes numbers from 1 on"),
    ("paper.split_quality", f"{QUALITY} --fan-out 3,0", "--fan-out takes numbers from 1 on, or -1"),
    ("paper.split_quality", f"{QUALITY} --iterations 0", "--iterations must be at least 1, not 0"),
    ("paper.split_quality", f"{QUALITY} --seed -1", "--seed must be at least 0, not -1"),
    ("paper.split_quality", f"{QUALITY} --json .", "--json . is a folder"),
    ("paper.weights", "synthetic:tinny", "unknown preset 'tinny'"),
    ("paper.weights", "nowhere", "nowhere is not a folder"),
    ("paper.weights", "synthetic:tiny --batch-size 0", "--batch-size"),
    ("paper.weights", "synthetic:tiny --fan-out 0", "--fan-out takes numbers from 1 on"),
    ("paper.weights", "synthetic:tiny --json no/w.json", "--json no/w.json: cannot write to no"),
]


@pytest.mark.parametrize(("experiment", "words", "message"), MISTAKES)
def test_mistakes(experiment, words, message, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # importing experiments.faults sets both
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"experiments.{experiment}")
    with pytest.raises(InputError, match=message):
        module.command(words.split())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
