"""Every mistake of a user is one line that names it, exit code 2, and nothing written."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from support.messages import says

from gsplit.data import open_store, write_store
from gsplit.data.importers.formats.npz import load_npz
from gsplit.partition import PartitionConfig, partition

TRAIN = ("train", "layout", "--out", "new")
FULL = (*TRAIN, "--strategy", "full")
GCN = (*FULL, "--model", "gcn", "--algorithm", "rotate")
PARTITION = ("partition", "store", "--out", "new")
IMPORT = ("data", "import", "synthetic:tiny", "--out", "new")
NPZ = ("data", "import", "graph.npz", "--out", "new/folder")
RESUME = ("train", "layout", "--resume", "run")
PREDICT = ("predict", "run", "layout", "--out", "new.npy")
# 0 --> 1 --> 2
GRAPH = {
    "indptr": np.array([0, 0, 1, 2]),
    "indices": np.array([0, 1]),
    "x": np.ones((3, 2)),
    "y": np.array([0, 1, 0]),
    "train_idx": np.array([0, 1]),
}

FLAGS = [
    (("data",), "import, export, info"),
    (("data", "improt"), "improt, import, export, info"),
    (("data", "import", "nowhere.npz", "--out", "new"), "nowhere.npz"),
    (("data", "import", "synthetic:vast", "--out", "new"), "vast"),
    (("data", "import", "synthetic:tiny"), "--out"),
    (("data", "import", "synthetic:tiny", "--out", "store"), "store, --out, --overwrite"),
    (("data", "import", "synthetic:tiny", "--out", "store/graph.json/new"), "store/graph.json"),
    ((*IMPORT, "--sede", "1"), "--sede, --seed"),
    ((*IMPORT, "--seed", "one"), "--seed, one"),
    ((*IMPORT, "--seed", "-1"), "--seed, -1"),
    ((*IMPORT, "--feature-dtype", "int8"), "int8, --feature-dtype"),
    (("data", "info", "nowhere"), "nowhere"),
    (("data", "info", "run"), "run, graph.json"),
    (("data", "info", "layout", "--store-dir", "other"), "layout, other, gsplit partition"),
    (("partition", "nowhere", "--out", "new"), "nowhere"),
    (("partition", "layout", "--out", "new"), "layout, graph.json"),
    (("partition", "store", "--out", "layout"), "layout, --out, --overwrite"),
    (("partition", "store", "--out", "store", "--overwrite"), "--out store"),
    (("partition", "store", "--out", "ids.npy/new"), "ids.npy, Not a directory"),
    ((*PARTITION, "--parts", "1001"), "--parts, 1001, 1000"),
    ((*PARTITION, "--parts", "0"), "--parts, 1, 0"),
    ((*PARTITION, "--parts", "two"), "--parts, two"),
    ((*PARTITION, "--partz", "2"), "--partz, --parts"),
    ((*PARTITION, "--method", "kahip"), "--method, auto, metis, kahip"),
    ((*PARTITION, "--method", "random", "--seed", "-1"), "--seed, -1"),
    ((*PARTITION, "--fan-out", "0"), "--fan-out, 1, -1, 0"),
    ((*PARTITION, "--weights", "presample", "--batch-size", "0"), "--batch-size, 1, 0"),
    ((*PARTITION, "--weights", "presample", "--presample-epochs", "0"), "--presample-epochs, 1"),
    ((*PARTITION, "--threads", "-1"), "--threads, 0, -1"),
    ((*PARTITION, "--threads", "257"), "--threads, 256, 257"),
    ((*PARTITION, "--seed", str(2**63)), "--seed, 9223372036854775807"),
    ((*PARTITION, "--weights", "presample", "--fan-out", str(2**63)), "--fan-out, 2147483647"),
    ((*PARTITION, "--imbalance", "-0.1"), "--imbalance, 0, 1, 0.03, -0.1"),
    ((*PARTITION, "--hotness", "weight"), "weight, --hotness"),
    (("partition", "nowhere", "--out", "new", "--dry-run"), "nowhere"),
    (("partition", "recipe.toml"), "recipe.toml"),
    (("train",), "layout-other, layout"),
    (("partition", "store"), "error: missing: --out PATH, --help"),
    (("train", "layout"), "--out"),
    (("train", "store", "--out", "new"), "store, layout.json, gsplit partition"),
    (("train", "layout", "--out", "run"), "run, --out, --overwrite, --resume"),
    (("train", "layout", "--out", "layout", "--overwrite"), "layout, --overwrite"),
    (("train", "layout", "--out", "run/config.json", "--overwrite"), "run/config.json, --overwrite"),
    ((*TRAIN, "--frobnicate"), "--frobnicate"),
    ((*TRAIN, "--hiden", "8"), "--hiden, --hidden"),
    ((*TRAIN, "--fanout", "5,10"), "--fanout, --fan-out, 10,5"),
    ((*TRAIN, "--num_workers=4"), "--num-workers, --samplers"),
    ((*TRAIN, "--num-nodes", "2"), "--num-nodes, --gpus"),
    ((*TRAIN, "--nproc-per-node=2"), "--nproc-per-node, --gpus"),
    ((*TRAIN, "--optimizer", "lion"), "lion, --optimizer, adamw"),
    ((*TRAIN, "--clip-grad-norm", "0"), "--clip-grad-norm, 0, 0.0"),
    ((*TRAIN, "--class-weights", "1,2"), "--class-weights, 2, 4"),
    ((*TRAIN, "--pos-weight", "3"), "--pos-weight, 3"),
    ((*TRAIN, "--metrics", "acc"), "--metrics, acc, accuracy, macro-f1"),
    ((*TRAIN, "--early-stop", "3", "--evaluate", "none"), "--early-stop, 3, --evaluate none"),
    ((*TRAIN, "--init-from", "store"), "store, model.json"),
    ((*TRAIN, "--hidden", "8.5"), "--hidden, 8.5"),
    ((*TRAIN, "--model", "transformer"), "transformer, --model, sage, gat, gcn, package.module:Class"),
    ((*TRAIN, "--model", "nowhere:Net"), "--model nowhere:Net, nowhere, PYTHONPATH"),
    ((*TRAIN, "--model", "mine.py:Net"), "--model mine.py:Net, --model mine:Net"),
    ((*TRAIN, "--model", "math:sqrt"), "--model math:sqrt, sqrt, torch.nn.Module"),
    ((*TRAIN, "--model", "os:system"), "--model os:system, system, torch.nn.Module"),
    ((*TRAIN, "--model", "torch.nn:Nothing"), "--model torch.nn:Nothing, Nothing"),
    ((*TRAIN, "--model", ":Net"), "--model :Net, package.module:Class"),
    ((*TRAIN, "--model", "torch.nn:Linear"), "Linear, PyG, DGL, forward(blocks, x)"),
    ((*TRAIN, "--model", "torch.nn:Conv2d"), "Conv2d, kernel_size, --model-args kernel_size=VALUE"),
    ((*TRAIN, "--model", "torch.nn:Linear", "--model-args", "bais=1"), "Linear, bais, bias"),
    ((*TRAIN, "--model", "torch.nn:Linear", "--model-args", "bias"), "--model-args, bias, NAME=VALUE,NAME=VALUE"),
    ((*TRAIN, "--model", "torch_geometric.nn:GCN", "--model-args", "aggr=max"), "convs.0, GCNConv, aggr='max', add"),
    ((*TRAIN, "--model", "torch_geometric.nn:GAT", "--model-args", "heads=3"), "heads=3, 256"),
    ((*TRAIN, "--model", "gat", "--heads", "3"), "--heads, 3, --hidden, 256"),
    ((*TRAIN, "--model", "gcn", "--normalization", "left"), "left, --normalization"),
    ((*TRAIN, "--attention-dropout", "1"), "--attention-dropout, 0, 1.0"),
    ((*TRAIN, "--fan-out", "3,3", "--num-layers", "3"), "--fan-out, 2, --num-layers, 3"),
    ((*TRAIN, "--fan-out", "3,0"), "--fan-out, 1, -1, 0"),
    ((*TRAIN, "--fan-out", "a,b"), "--fan-out, a"),
    ((*TRAIN, "--fan-out"), "--fan-out"),
    ((*TRAIN, "--batch-size", "0"), "--batch-size, 1, 0"),
    ((*TRAIN, "--lr", "-0.1"), "--lr, 0, -0.1"),
    ((*TRAIN, "--lr", "nan"), "--lr, 0, nan"),
    ((*TRAIN, "--lr", "inf"), "--lr, 1e+30, inf"),
    ((*TRAIN, "--weight-decay", "nan"), "--weight-decay, 0, nan"),
    ((*TRAIN, "--dropout", "1.5"), "--dropout, 0, 1, 1.5"),
    ((*TRAIN, "--gpus", "3"), "layout, 2, --parts 3"),
    ((*TRAIN, "--strategy", "model"), "--strategy, split, data, full, package.module:Class, model"),
    ((*TRAIN, "--strategy", "data", "--split-group", "2"), "--split-group, 2"),
    ((*TRAIN, "--gpus", "4", "--split-group", "3"), "--split-group, 3, 4, 1, 2"),
    ((*TRAIN, "--split-group", "0"), "--split-group, 1, 0"),
    ((*TRAIN, "--cache-size", "0"), "--cache-size, 0, --cache none"),
    ((*TRAIN, "--cache-size", "0%"), "--cache-size, 0 %, 100 %, 0%"),
    ((*TRAIN, "--cache-size", "lots"), "--cache-size, lots, 4GiB, 10%"),
    ((*TRAIN, "--cache-size", "500TiB"), "--cache-size, 500.0 TiB, cpu, # GiB, auto"),
    ((*TRAIN, "--cache-size", "3B"), "--cache-size, 3 B, 128 B, --cache none"),
    ((*TRAIN, "--cache", "most"), "most, --cache, partitioned"),
    ((*TRAIN, "--evaluate", "none", "--save-predictions", "classes"), "--save-predictions classes, --evaluate none"),
    ((*TRAIN, "--evaluate", "sampled", "--validate-fan-out", "3"), "--validate-fan-out, 1, 3"),
    ((*TRAIN, "--validate-fan-out", "3,0,3"), "--validate-fan-out, 1, -1, 0"),
    ((*TRAIN, "--validate-vertices", "0"), "--validate-vertices, 1, 0"),
    ((*TRAIN, "--validate-every-batches", "-1"), "--validate-every-batches, 0, -1"),
    ((*TRAIN, "--evaluate", "quickly"), "quickly, --evaluate, sampled"),
    ((*TRAIN, "--dry-run"), "--dry-run, --strategy full"),
    ((*FULL, "--fan-out", "5,5"), "--fan-out, 5,5, --strategy full, --num-layers"),
    ((*FULL, "--fan-out", "-1,-1", "--num-layers", "4"), "--fan-out, 2, --num-layers, 4"),
    ((*FULL, "--dry-run", "--check-model"), "--dry-run, --check-model"),
    ((*FULL, "--train-features", "100000000000000"), "sage, 100,000,000,000,000, 256"),
    ((*TRAIN, "--hidden", "100000000000000"), "100,000,000,000,000, memory"),
    ((*FULL, "--batch-size", "100"), "--batch-size, 100"),
    ((*FULL, "--split-group", "2"), "--split-group, 2"),
    ((*FULL, "--split-group", "1"), "--split-group, 1"),
    ((*FULL, "--algorithm", "4d"), "4d, --algorithm"),
    ((*FULL, "--grid", "2,2,2"), "2,2,2, 8, 2, 1,1,2, 1,2,1, 2,1,1"),
    ((*FULL, "--grid", "2,1"), "--grid, 1, 2,1"),
    ((*FULL, "--grid", "0,1,2"), "--grid, 0,1,2"),
    ((*FULL, "--grid", "1,1,2", "--algorithm", "1.5d"), "1,1,2, --algorithm 1.5d"),
    ((*FULL, "--algorithm", "1.5d", "--replication", "3"), "--replication, 3, 1, 2"),
    ((*FULL, "--replication", "2"), "--replication, 2, --algorithm 1.5d"),
    ((*FULL, "--gpus", "5", "--algorithm", "2d"), "2d, 5, 1d"),
    ((*FULL, "--gpus", "3", "--algorithm", "1d-sparse"), "layout, 2, --parts 3"),
    ((*FULL, "--model", "gat", "--algorithm", "columns"), "--grid 1,1,2, --out-heads 1"),
    ((*FULL, "--num-layers", "300"), "--num-layers, 300, --strategy full, 250"),
    ((*FULL, "--algorithm", "rotate"), "--algorithm rotate, --model gcn, --algorithm"),
    ((*GCN, "--norm", "batch"), "rotate, --norm batch, none or rms"),
    ((*GCN, "--norm", "layer"), "rotate, --norm layer, none or rms"),
    ((*GCN, "--grid", "2,2,1"), "2,2,1, 4, 2, 1,1,2, 1,2,1, 2,1,1"),
    ((*GCN, "--row-blocks", "0"), "--row-blocks, 1, 0"),
    ((*TRAIN, "--train-features", "4"), "--train-features, 4"),
    ((*FULL, "--train-features", "0"), "--train-features, 1, 0"),
    ((*FULL, "--train-features", "4", "--normalize-features"), "--normalize-features"),
    ((*FULL, "--train-features", "4", "--feature-dtype", "float16"), "--feature-dtype, float16"),
    ((*FULL, "--train-features", "4", "--check-model"), "--check-model"),
    ((*TRAIN, "--cache", "replicated"), "--cache replicated, --strategy data"),
    ((*TRAIN, "--strategy", "data", "--cache-size", "10%"), "partitioned, --cache replicated"),
    ((*TRAIN, "--strategy", "data", "--gpus", "3", "--cache", "partitioned"), "layout, 2, --parts 3"),
    ((*TRAIN, "--loader", "zero-copy"), "--loader zero-copy, --device, cpu"),
    ((*TRAIN, "--feature-dtype", "int8"), "int8, --feature-dtype"),
    ((*TRAIN, "--device", "gpu"), "--device gpu, auto, cpu"),
    ((*TRAIN, "--device", "cpu:0"), "--device cpu:0, --device cpu, --gpus"),
    ((*PREDICT, "--device", "gpu"), "--device gpu, auto, cpu"),
    ((*TRAIN, "--device", "xpu"), "--device xpu, --device cpu"),
    (("train", "layout", "--resume"), "--resume"),
    (("train", "layout", "--resume", "store"), "store, config.json"),
    (("train", "layout", "--resume", "nowhere"), "nowhere, config.json"),
    ((*RESUME, "--hidden", "8"), "hidden, 4, 8"),
    ((*RESUME, "--fan-out", "3,3,3"), "num_layers, 2, 3"),
    ((*RESUME, "--out", "new"), "--resume run, --out new"),
    (("train", "layout-other", "--resume", "run"), "layout-other"),
    (("predict",), "RUN, LAYOUT"),
    (("predict", "run", "layout"), "--out"),
    (("predict", "nowhere", "layout", "--out", "new.npy"), "nowhere, config.json"),
    (("predict", "run", "store", "--out", "new.npy"), "store, layout.json, gsplit partition"),
    (("predict", "run", "layout", "--out", "ids.npy"), "ids.npy, --overwrite"),
    (("predict", "run", "layout", "--out", "new.txt"), "--out new.txt, .npy, .npz, .csv"),
    ((*PREDICT, "--vertices", "ids.npy"), "ids.npy, 3, 1000, 0 .. 999"),
    ((*PREDICT, "--vertices", "tset"), "tset, --vertices, all, train, valid, test"),
    ((*PREDICT, "--waht", "logits"), "--waht, --what"),
    ((*PREDICT, "--what", "embeddings", "--layer", "3"), "--layer, 3, 2"),
    ((*PREDICT, "--fan-out", "5"), "--fan-out, 1, 2"),
    ((*PREDICT, "--device", "xpu"), "--device xpu, --device cpu"),
]


@pytest.mark.parametrize(("words", "message"), FLAGS, ids=[" ".join(words) for words, _ in FLAGS])
def test_flags_and_paths(refused, words, message):
    says(refused(*words), message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": np.array([0, 3])}, "indices[1], 3, 0, 2"),
        ({"y": np.array([0, np.nan, 1])}, "vertex 1"),
        ({"y": np.array([[0, 1], [0, np.nan], [1, 1]])}, "vertex 1"),
        ({"train_idx": np.array([0, 0])}, "train_idx"),
        ({"x": np.full((3, 2), np.nan)}, "vertex 0, NaN"),
        ({"y": np.array(1)}, "y"),
    ],
)
def test_archives(refused, place, changes, message):
    np.savez(place / "graph.npz", **{**GRAPH, **changes})
    says(refused(*NPZ), message)


@pytest.mark.parametrize("content", [b"", b"0 1\n1 2\n", b"PK\3\4"])
def test_files_that_are_no_archive(refused, place, content):
    (place / "graph.npz").write_bytes(content)
    says(refused(*NPZ), "graph.npz, .npz")


@pytest.mark.parametrize("words", [IMPORT, PARTITION, TRAIN], ids=lambda words: words[0])
def test_overwrite_removes_nothing_of_the_user(refused, place, words):
    (place / "new").mkdir()
    (place / "new" / "thesis.tex").write_text("years of work")
    says(refused(*words, "--overwrite"), "new, --overwrite")


def cut(file):
    file.write_bytes(file.read_bytes()[:-100])


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def edit(**changes):
    return lambda file: file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("file", "damage", "words", "message"),
    [
        ("store/features.npy", cut, PARTITION, "features.npy"),
        ("store/labels.npy", lambda f: f.unlink(), PARTITION, "labels.npy"),
        ("store/features.npy", flip, ("data", "info", "store", "--verify"), "features.npy, SHA-256"),
        ("store/graph.json", edit(version=9), PARTITION, "graph.json, 9, gsplit-graph, 1, 2"),
        ("layout/features.npy", cut, TRAIN, "features.npy"),
        ("layout/permutation.npy", cut, TRAIN, "permutation.npy"),
        ("layout/layout.json", cut, TRAIN, "layout.json"),
        ("layout/layout.json", edit(offsets=[0, 10]), TRAIN, "layout.json, offsets, 0, 1000"),
        ("layout/layout.json", edit(version=99), TRAIN, "layout.json, 99, gsplit-layout, 1"),
        ("layout/layout.json", edit(num_vertices=999), TRAIN, "indptr.npy, (1001, 1000"),
        ("layout/layout.json", edit(quality=None), ("data", "info", "layout"), "layout.json"),
        ("run/config.json", cut, RESUME, "config.json"),
        ("run/config.json", edit(hidden="wide"), RESUME, "config.json"),
        ("run/config.json", edit(colour="red"), RESUME, "config.json, colour"),
        ("run/checkpoint.json", lambda f: f.unlink(), RESUME, "checkpoint.json"),
        ("run/checkpoint.json", cut, RESUME, "checkpoint.json"),
        ("run/checkpoint.json", edit(version=3), RESUME, "checkpoint.json, 3, 2"),
        ("run/checkpoint.json", edit(signature=None), RESUME, "checkpoint.json"),
        ("run/checkpoint-*.pt", flip, RESUME, "checkpoint-*.pt, SHA-256"),
        ("run/checkpoint-*.pt", cut, RESUME, "checkpoint-*.pt, SHA-256"),
        ("run/checkpoint-*.pt", lambda f: f.unlink(), RESUME, "checkpoint-*.pt, No such file or directory"),
    ],
)
def test_damaged_folders(refused, place, file, damage, words, message):
    (path,) = place.glob(file)
    damage(path)
    says(refused(*words), message)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("train_idx", "--split 0.6,0.2,0.2, --split-file FILE, --train FILE"),
        ("x", "layout-lacking, --strategy full --train-features 64"),
    ],
)
def test_graphs_without_what_training_needs(refused, place, key, message):
    np.savez(place / "graph.npz", **{name: array for name, array in GRAPH.items() if name != key})
    write_store(place / "lacking", load_npz(place / "graph.npz"), name="lacking", source="test")
    partition(PartitionConfig(store=place / "lacking", out=place / "layout-lacking", parts=2))
    says(refused("train", "layout-lacking", "--out", "new"), message)


@pytest.mark.parametrize(
    "words",
    [
        ("train", "loop", "--out", "new"),
        ("train", "loop/layout", "--out", "new"),
        ("train", "layout", "--out", "loop/new"),
        ("train", "layout", "--resume", "loop"),
        ("doctor", "loop"),
        ("partition", "loop", "--out", "new"),
        ("partition", "store", "--out", "loop/new"),
        ("partition", "report", "loop"),
        ("predict", "run", "loop", "--out", "new.npy"),
        ("predict", "loop", "layout", "--out", "new.npy"),
        ("data", "info", "loop"),
        ("data", "export", "store", "--to", "npz", "--out", "loop/new.npz"),
        ("train", "layout", "--out", "new", "--init-from", "loop"),
    ],
)
def test_links_in_a_loop_lead_nowhere(refused, tmp_path_factory, words):
    links = tmp_path_factory.mktemp("links")  # apart from what is looked at afterwards
    (links / "loop").symlink_to("back")
    (links / "back").symlink_to("loop")
    line = refused(*(str(links / word) if word.startswith("loop") else word for word in words))
    assert "loop" in line
    assert not re.search("damaged|Errno", line)


PROCESSES = [
    ((*IMPORT, "--sede", "1"), {}, "--sede, --seed"),
    ((*IMPORT, "--sede", "1"), {"PYTHONIOENCODING": "ascii"}, "error: --sede is no flag, --seed"),
    ((*NPZ, "--feature-dtype", "float16"), {}, "vertex 0, NaN"),
    ((*PARTITION, "--parts", "1001"), {}, "--parts, 1001, 1000"),
    (("partition", "layout", "--out", "new"), {}, "layout, graph.json"),
    (("train", "store", "--out", "new"), {}, "store, layout.json, gsplit partition"),
    ((*TRAIN, "--hiden", "8"), {}, "--hiden, --hidden"),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("words", "environment", "message"), PROCESSES)
def test_in_a_process_of_its_own(refused_process, place, words, environment, message):
    # Values that float16 cannot hold: numpy warns of them, and that must not become a second line.
    np.savez(place / "graph.npz", **{**GRAPH, "x": np.full((3, 2), 1e30)})
    says(refused_process(*words, **environment), message)
    assert open_store(place / "store").graph.num_vertices == 1000
