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
COMPARE = "--dataset tiny --batch-size 100 --fan-out 3,2"
SAMPLING = "--dataset synthetic:tiny --batch-sizes 32,100 --fan-out 4,3 --rounds 2"
MISTAKES = [
    ("ablation.__main__", "--studies exchang", "exchang, exchange, threads, cache, batch, models"),
    ("ablation.__main__", "--studies", "study, change"),
    ("ablation.__main__", "--changes order=redy", "--changes, order=redy, --order"),
    ("ablation.__main__", "--changes out=there", "out"),
    ("ablation.__main__", "--model gat --studies models", "GraphSAGE, --model gat"),
    ("ablation.__main__", "--dataset nowhere", "--dataset nowhere"),
    ("ablation.__main__", "--out file", "file"),
    ("compare.__main__", f"{COMPARE} --systems gsplit,dlg", "dlg, gsplit, dgl, pyg, pagraph, quiver"),
    ("compare.__main__", f"{COMPARE} --systems gsplit,gsplit", "--systems"),
    ("compare.__main__", f"{COMPARE} --systems ,", "--systems"),
    ("compare.__main__", f"{COMPARE} --dataset nowhere", "--dataset nowhere, nowhere.npz, GSPLIT_DATA"),
    ("compare.__main__", f"{COMPARE} --dataset products?scale=2", "synthetic:products"),
    ("compare.__main__", f"{COMPARE} --model gin", "gin"),
    ("compare.__main__", f"{COMPARE} --model gat --hidden 10", "--heads, 4, --hidden, 10"),
    ("compare.__main__", f"{COMPARE} --batch-size 101", "--batch-size, 101, --gpus, 2"),
    ("compare.__main__", f"{COMPARE} --sweep-batch 64,65", "--sweep-batch, 65"),
    ("compare.__main__", f"{COMPARE} --sweep-cache 0,101", "--sweep-cache, 0, 100"),
    ("compare.__main__", f"{COMPARE} --epochs 1", "--epochs, 2, 1"),
    ("compare.__main__", f"{COMPARE} --pairs 0", "--pairs, 1, 0"),
    ("compare.__main__", f"{COMPARE} --batch-size 502", "502, 500"),
    ("compare.__main__", f"{COMPARE} --sweep-batch 600", "600, 500"),
    ("compare.__main__", f"{COMPARE} --work file/work", "file/work"),
    ("compare.__main__", f"{COMPARE} --out file", "file"),
    ("compare.__main__", f"{COMPARE} --parirs 3", "--parirs, --pairs"),
    ("compare.evaluation", "nowhere nowhere --rounds 0", "--rounds, 1, 0"),
    ("compare.evaluation", "nowhere nowhere", "nowhere"),
    ("differential.__main__", "--models 0", "--models, 1, 0"),
    ("faults.__main__", "", "--runs 100, --inputs 1000, --quick"),
    ("faults.__main__", "--runs -1", "--runs, 0, -1"),
    ("faults.__main__", "--runs 1 --seed -1", "--seed"),
    ("full_graph.__main__", "", "--words, --balance, --systems"),
    ("full_graph.__main__", "--words --balance", "--words, --balance, --systems"),
    ("full_graph.__main__", "--words --data .", "cora.npz"),
    ("full_graph.__main__", "--balance --json no/file.json", "--json no/file.json"),
    ("full_graph.__main__", "--systems --only dgl,nobody", "nobody"),
    ("full_graph.__main__", "--systems --only ,", "system, dgl"),
    ("full_graph.__main__", "--systems --epochs 2", "--epochs, 3, 2"),
    ("full_graph.__main__", "--systems --accuracy", "--systems, --accuracy"),
    ("hosts.__main__", "--systems gsplit,dgl", "dgl, gsplit, gsplit-over, distdgl, pyg, pyg-loader"),
    ("hosts.__main__", "--systems distdgl", "--systems, gsplit"),
    ("hosts.__main__", "--systems gsplit,gsplit", "--systems"),
    ("hosts.__main__", "--hosts 1", "--hosts, 2, 1"),
    ("hosts.__main__", "--batch-size 7", "--batch-size, 7, 2"),
    ("hosts.__main__", "--epochs 1", "--epochs, 2, 1"),
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
    ("micro.step_memory", "nowhere --precisions 64", "64, 32, bf16-mixed"),
    ("model_host.__main__", f"{HOST} --host dgx-a200", "--host dgx-a200, 4x3090ti-pcie3, dgx-a100"),
    ("model_host.__main__", f"{HOST} --gpus 8", "--gpus, 8, 4x RTX 3090 Ti, 4"),
    ("model_host.__main__", f"{HOST} --cache 0,101", "0, 100, 101]"),
    ("model_host.__main__", f"{HOST} --model gat --hidden 10", "--heads, 4, --hidden, 10"),
    ("model_host.__main__", f"{HOST} --hosts 2,0", "--hosts, 1, 0"),
    ("model_host.__main__", f"{HOST} --hosts 2 --host this", "--hosts"),
    ("model_host.__main__", f"{HOST} --nic-gbit 10", "--nic-gbit, --hosts"),
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
    ("paper.sampling", "--dataset nowhere", "nowhere"),
    ("paper.sampling", "--dataset .", "., layout.json"),
    ("paper.sampling", "--dataset synthetic:vast", "vast, tiny"),
    ("paper.sampling", f"{SAMPLING} --batch-sizes 501", "--batch-sizes, 501, 500"),
    ("paper.sampling", f"{SAMPLING} --batch-sizes 3", "--batch-sizes, 3, 4"),
    ("paper.sampling", f"{SAMPLING} --batch-sizes 0", "--batch-sizes, 1, 0"),
    ("paper.sampling", f"{SAMPLING} --fan-out 3,0", "--fan-out, 1, -1, 0"),
    ("paper.sampling", f"{SAMPLING} --rounds 0", "--rounds, 1, 0"),
    ("paper.sampling", f"{SAMPLING} --seed -1", "--seed, 0, -1"),
    ("paper.sampling", f"{SAMPLING} --json nowhere/out.json", "--json nowhere/out.json"),
    ("paper.sampling", f"{SAMPLING} --json .", "--json ."),
    ("paper.sampling", f"{SAMPLING} --work file/work", "file/work"),
    ("paper.sampling", f"{SAMPLING} --quikc", "--quikc, --quick"),
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
    ("rules.precisions", "--models gin", "gin, sage, gcn, gat"),
    ("rules.precisions", "--ways ,", "way, neighbours, uniform, whole-graph"),
    ("rules.precisions", "--data .", "cora.npz"),
    ("rules.reach", "--datasets pubmed", "pubmed, cora, citeseer"),
    ("rules.reach", "--ways dgl", "way, dgl, neighbours, pyg-saint, dgl-whole-graph"),
    ("rules.reach", "--others --model gat", "--model gat"),
    ("rules.reach", "--limit 0", "--limit"),
    ("rules.reach", "--datasets cora --data .", "cora.npz"),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Where data sets are made that a mistake is measured by."""
    return tmp_path_factory.mktemp("work")


@pytest.mark.parametrize(("experiment", "words", "message"), MISTAKES)
def test_mistakes(experiment, words, message, work, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # importing experiments.faults sets both
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    module = importlib.import_module(f"experiments.{experiment}")
    more = ["--work", str(work)] if "--work" not in words and hasattr(module.command.flags, "work") else []
    with pytest.raises(InputError, match=line_with(message)):
        module.command([*words.split(), *more])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["file"]
