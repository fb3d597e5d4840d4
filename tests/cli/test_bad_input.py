"""Every mistake of a user is one line that names it, exit code 2, and nothing written."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from gsplit.data import open_store, write_store
from gsplit.data.importers.npz import load_npz
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
    (("data",), "no command given; choose one of import, export, info"),
    (("data", "improt"), "unknown command 'improt'; choose one of import, export, info"),
    (("data", "import", "nowhere.npz", "--out", "new"), "nowhere.npz: no such file"),
    (("data", "import", "synthetic:vast", "--out", "new"), "unknown preset 'vast'"),
    (("data", "import", "synthetic:tiny"), "--out"),
    (("data", "import", "synthetic:tiny", "--out", "store"), "store exists already"),
    (("data", "import", "synthetic:tiny", "--out", "store/graph.json/new"), "cannot write to store/graph.json"),
    ((*IMPORT, "--sede", "1"), "--sede.*did you mean --seed"),
    ((*IMPORT, "--seed", "one"), "--seed.*'one'"),
    ((*IMPORT, "--seed", "-1"), "--seed.*-1"),
    ((*IMPORT, "--feature-dtype", "int8"), "'int8'.*--feature-dtype"),
    (("data", "info", "nowhere"), "nowhere is not a folder: no such path"),
    (("data", "info", "run"), "run is no gsplit-graph"),
    (("data", "info", "layout", "--store-dir", "other"), "layout was made from another store than other"),
    (("partition", "nowhere", "--out", "new"), "nowhere is not a folder: no such path"),
    (("partition", "layout", "--out", "new"), "layout is no gsplit-graph.*it is a layout"),
    (("partition", "store", "--out", "layout"), "layout exists already"),
    (("partition", "store", "--out", "store", "--overwrite"), "store is or holds the graph store itself"),
    (("partition", "store", "--out", "ids.npy/new"), "cannot write to ids.npy: Not a directory"),
    ((*PARTITION, "--parts", "1001"), "--parts 1001 is more than the 1000 vertices"),
    ((*PARTITION, "--parts", "0"), "--parts must be at least 1, not 0"),
    ((*PARTITION, "--parts", "two"), "--parts.*'two'"),
    ((*PARTITION, "--partz", "2"), "--partz.*did you mean --parts"),
    ((*PARTITION, "--method", "kahip"), "--method must be one of auto, metis, .*, or a file .*'kahip'"),
    ((*PARTITION, "--method", "random", "--seed", "-1"), "--seed.*-1"),
    ((*PARTITION, "--fan-out", "0"), "--fan-out takes numbers from 1 on, or -1"),
    ((*PARTITION, "--weights", "presample", "--batch-size", "0"), "--batch-size must be at least 1, not 0"),
    ((*PARTITION, "--weights", "presample", "--presample-epochs", "0"), "--presample-epochs must be at least 1"),
    ((*PARTITION, "--threads", "-1"), "--threads must be at least 0, not -1"),
    ((*PARTITION, "--threads", "257"), "--threads must be at most 256, not 257"),
    ((*PARTITION, "--seed", str(2**63)), "--seed must be at most 9223372036854775807"),
    ((*PARTITION, "--weights", "presample", "--fan-out", str(2**63)), "--fan-out takes numbers up to 2147483647"),
    ((*PARTITION, "--imbalance", "-0.1"), "--imbalance must be from 0 to 1, such as 0.03, not -0.1"),
    ((*PARTITION, "--hotness", "weight"), "'weight'.*--hotness"),
    (("partition", "nowhere", "--out", "new", "--dry-run"), "nowhere is not a folder: no such path"),
    (("partition", "recipe.toml"), "recipe.toml: no such recipe"),
    (("train",), "no layout given"),
    (("partition", "store"), r"^error: missing: --out PATH \(The layout folder to write\) \(see .*n --help\)$"),
    (("train", "layout"), "no --out given"),
    (("train", "store", "--out", "new"), "store is no gsplit-layout.*it is a graph store.*gsplit.partition"),
    (("train", "layout", "--out", "run"), "run exists already"),
    (("train", "layout", "--out", "layout", "--overwrite"), "layout is no run, so --overwrite does not remove it"),
    (("train", "layout", "--out", "run/config.json", "--overwrite"), "run/config.json is no run"),
    ((*TRAIN, "--frobnicate"), "--frobnicate"),
    ((*TRAIN, "--hiden", "8"), "--hiden.*did you mean --hidden"),
    ((*TRAIN, "--fanout", "5,10"), "--fanout is no flag of .*: DGL's lists .* inputs first.*say --fan-out 10,5 for"),
    ((*TRAIN, "--num_workers=4"), "--num-workers is no flag of .*: mini-batches are sampled for all.*say --samplers"),
    ((*TRAIN, "--num-nodes", "2"), "--num-nodes is no flag of .*: all trainers are on one host; say --gpus"),
    ((*TRAIN, "--nproc-per-node=2"), "--nproc-per-node is no flag of .*: it starts its trainers itself; say --gpus"),
    ((*TRAIN, "--optimizer", "lion"), "'lion'.*--optimizer.*adamw"),
    ((*TRAIN, "--clip-grad-norm", "0"), "--clip-grad-norm must be above 0 and finite, not 0"),
    ((*TRAIN, "--class-weights", "1,2"), "--class-weights has 2 numbers, but there are [0-9]+ classes"),
    ((*TRAIN, "--pos-weight", "3"), "--pos-weight 3 has no effect"),
    ((*TRAIN, "--metrics", "acc"), "--metrics: there is no 'acc'; there are accuracy, macro-f1"),
    ((*TRAIN, "--early-stop", "3", "--evaluate", "none"), "--early-stop 3 goes by the scores .*--evaluate none"),
    ((*TRAIN, "--init-from", "store"), "store has no model.json; nothing was saved there"),
    ((*TRAIN, "--hidden", "8.5"), "--hidden.*'8.5'"),
    ((*TRAIN, "--model", "transformer"), "'transformer' is no --model: it is one of sage, gat, gcn, or package"),
    ((*TRAIN, "--model", "nowhere:Net"), "--model nowhere:Net: there is no module 'nowhere' to import"),
    ((*TRAIN, "--model", "mine.py:Net"), "a module is named without .py: --model mine:Net"),
    ((*TRAIN, "--model", "math:sqrt"), "math has no class 'sqrt' that is a torch.nn.Module"),
    ((*TRAIN, "--model", "os:system"), "os has no class 'system' that is a torch.nn.Module"),
    ((*TRAIN, "--model", "torch.nn:Nothing"), "torch.nn has no class 'Nothing'"),
    ((*TRAIN, "--model", ":Net"), "--model :Net is no package.module:Class"),
    ((*TRAIN, "--model", "torch.nn:Linear"), "model Linear has no convolution of PyG or DGL and no forward.blocks"),
    (
        (*TRAIN, "--model", "torch.nn:Conv2d"),
        "Conv2d needs an argument 'kernel_size'.*--model-args kernel_size=VALUE",
    ),
    ((*TRAIN, "--model", "torch.nn:Linear", "--model-args", "bais=1"), "Linear takes no argument 'bais'"),
    ((*TRAIN, "--model", "torch.nn:Linear", "--model-args", "bias"), "'bias' is not of the form NAME=VALUE"),
    (
        (*TRAIN, "--model", "torch_geometric.nn:GCN", "--model-args", "aggr=max"),
        "convs.0 is a GCNConv, which cannot be split: with aggr='max' no block computes it; leave it 'add'",
    ),
    ((*TRAIN, "--model", "torch_geometric.nn:GAT", "--model-args", "heads=3"), r"GAT\(.*\) fails: .*divisible"),
    ((*TRAIN, "--model", "gat", "--heads", "3"), "--heads 3 does not divide --hidden 256"),
    ((*TRAIN, "--model", "gcn", "--normalization", "left"), "'left'.*--normalization"),
    ((*TRAIN, "--attention-dropout", "1"), "--attention-dropout must be in .0, 1., not 1"),
    ((*TRAIN, "--fan-out", "3,3", "--num-layers", "3"), "--fan-out has 2 numbers, but --num-layers is 3"),
    ((*TRAIN, "--fan-out", "3,0"), "--fan-out takes numbers from 1 on, or -1 for all neighbours, not 0"),
    ((*TRAIN, "--fan-out", "a,b"), "--fan-out.*'a'"),
    ((*TRAIN, "--fan-out"), "--fan-out needs a number"),
    ((*TRAIN, "--batch-size", "0"), "--batch-size must be at least 1, not 0"),
    ((*TRAIN, "--lr", "-0.1"), "--lr must be above 0 and finite, not -0.1"),
    ((*TRAIN, "--lr", "nan"), "--lr must be .*not nan"),
    ((*TRAIN, "--lr", "inf"), "--lr must be .*not inf"),
    ((*TRAIN, "--weight-decay", "nan"), "--weight-decay must be .*not nan"),
    ((*TRAIN, "--dropout", "1.5"), r"--dropout must be in \[0, 1\), not 1.5"),
    ((*TRAIN, "--gpus", "3"), "layout has 2 parts, which cannot be dealt out to 3 trainers.*--parts 3"),
    ((*TRAIN, "--strategy", "model"), "--strategy must be one of split, data, full, or package.*not 'model'"),
    ((*TRAIN, "--strategy", "data", "--split-group", "2"), "--split-group 2 has no effect"),
    ((*TRAIN, "--gpus", "4", "--split-group", "3"), "--split-group 3 does not divide the 4 trainers; use .* 1, 2, 4"),
    ((*TRAIN, "--split-group", "0"), "--split-group must be at least 1, not 0"),
    ((*TRAIN, "--cache-size", "0"), "--cache-size: a cache of 0 bytes holds nothing; use --cache none"),
    ((*TRAIN, "--cache-size", "0%"), "--cache-size: a share must be above 0 %"),
    ((*TRAIN, "--cache-size", "lots"), "--cache-size: 'lots' is no size such as 4GiB, no share such as 10%"),
    ((*TRAIN, "--cache-size", "500TiB"), "--cache-size 500.0 TiB: cpu has .* in all for a trainer; use a smaller"),
    ((*TRAIN, "--cache-size", "3B"), "--cache-size 3 B: that is less than a row of .* for each part"),
    ((*TRAIN, "--cache", "most"), "'most' for argument '--cache'"),
    ((*TRAIN, "--evaluate", "none", "--save-predictions", "classes"), "contradicts --evaluate none; drop one"),
    ((*TRAIN, "--evaluate", "sampled", "--validate-fan-out", "3"), "--validate-fan-out has 1 numbers, .* 3 layers"),
    ((*TRAIN, "--validate-fan-out", "3,0,3"), "--validate-fan-out takes numbers from 1 on, or -1 for all"),
    ((*TRAIN, "--validate-vertices", "0"), "--validate-vertices must be at least 1, not 0"),
    ((*TRAIN, "--validate-every-batches", "-1"), "--validate-every-batches must be at least 0, not -1"),
    ((*TRAIN, "--evaluate", "quickly"), "'quickly'.*--evaluate"),
    ((*TRAIN, "--dry-run"), "--dry-run shows the plans of --strategy full; add it, or drop --dry-run"),
    ((*FULL, "--fan-out", "5,5"), "--fan-out 5,5 contradicts --strategy full.*say --num-layers instead"),
    ((*FULL, "--fan-out", "-1,-1", "--num-layers", "4"), "--fan-out has 2 numbers, but --num-layers is 4"),
    ((*FULL, "--dry-run", "--check-model"), "--dry-run and --check-model each show something else.*drop one"),
    (
        (*FULL, "--train-features", "100000000000000"),
        "no sage of 100,000,000,000,000 features and hidden layers 256 wide",
    ),
    ((*TRAIN, "--hidden", "100000000000000"), "hidden layers 100,000,000,000,000 wide can be made: .*memory"),
    ((*FULL, "--batch-size", "100"), "--batch-size 100 has no effect"),
    ((*FULL, "--split-group", "2"), "--split-group 2 has no effect"),
    ((*FULL, "--split-group", "1"), "--split-group 1 has no effect"),
    ((*FULL, "--algorithm", "4d"), "'4d'.*--algorithm"),
    ((*FULL, "--grid", "2,2,2"), "2,2,2 is for 8 trainers, .* 2; .* 1,1,2, 1,2,1, 2,1,1"),
    ((*FULL, "--grid", "2,1"), r"--grid takes three numbers from 1 on \(rows, columns, features\).* not 2,1"),
    ((*FULL, "--grid", "0,1,2"), "--grid takes three numbers.*not 0,1,2"),
    ((*FULL, "--grid", "1,1,2", "--algorithm", "1.5d"), "1,1,2 is no grid of --algorithm 1.5d: it is columns"),
    ((*FULL, "--algorithm", "1.5d", "--replication", "3"), "--replication 3 does not divide.*use one of 1, 2"),
    ((*FULL, "--replication", "2"), "--replication 2 is of --algorithm 1.5d, not of shared; drop it"),
    ((*FULL, "--gpus", "5", "--algorithm", "2d"), "2d of 5 trainers, a prime number, would be 1d; use"),
    ((*FULL, "--gpus", "3", "--algorithm", "1d-sparse"), "layout has 2 for 3 trainers; make a layout.*--parts 3"),
    ((*FULL, "--model", "gat", "--algorithm", "columns"), "columns sums in parts, which the model gat is not"),
    ((*FULL, "--num-layers", "300"), "--num-layers is 300; --strategy full takes at most 250"),
    ((*FULL, "--algorithm", "rotate"), "--algorithm rotate trains --model gcn, not sage; use another --algorithm"),
    ((*GCN, "--norm", "batch"), "rotate .* takes no --norm batch"),
    ((*GCN, "--norm", "layer"), "rotate .* takes no --norm layer"),
    ((*GCN, "--residual"), "rotate .* takes no --residual"),
    ((*GCN, "--input-projection"), "rotate .* takes no --input-projection"),
    ((*GCN, "--grid", "2,2,1"), "2,2,1 is for 4 trainers, .* 2; .* 1,1,2, 1,2,1, 2,1,1"),
    ((*GCN, "--row-blocks", "0"), "--row-blocks must be at least 1, not 0"),
    ((*TRAIN, "--train-features", "4"), "--train-features 4 has no effect"),
    ((*FULL, "--train-features", "0"), "--train-features must be at least 1, not 0"),
    ((*FULL, "--train-features", "4", "--normalize-features"), "--normalize-features has no effect"),
    ((*FULL, "--train-features", "4", "--feature-dtype", "float16"), "--feature-dtype float16 has no effect"),
    ((*FULL, "--train-features", "4", "--check-model"), "--check-model has no effect"),
    ((*TRAIN, "--cache", "replicated"), "--cache replicated belongs to --strategy data"),
    ((*TRAIN, "--strategy", "data", "--cache-size", "10%"), "of which cache.*partitioned.*--cache replicated"),
    (
        (*TRAIN, "--strategy", "data", "--gpus", "3", "--cache", "partitioned"),
        "deals the parts .* out .*layout has 2 parts for 3 trainers; make a layout with --parts 3",
    ),
    ((*TRAIN, "--loader", "zero-copy"), "--loader zero-copy reads host memory from a GPU, and --device is cpu"),
    ((*TRAIN, "--feature-dtype", "int8"), "'int8' for argument '--feature-dtype'"),
    ((*TRAIN, "--device", "gpu"), "--device gpu: PyTorch has no such devices; use auto, cpu, "),
    ((*TRAIN, "--device", "cpu:0"), "--device cpu:0 names one device; name the type, --device cpu, and say how"),
    ((*PREDICT, "--device", "gpu"), "--device gpu: PyTorch has no such devices; use auto, cpu, "),
    ((*TRAIN, "--device", "xpu"), "PyTorch finds no GPU of that kind; use --device cpu"),
    (("train", "layout", "--resume"), "--resume"),
    (("train", "layout", "--resume", "store"), "store is no run: it has no config.json"),
    (("train", "layout", "--resume", "nowhere"), "nowhere is no run"),
    ((*RESUME, "--hidden", "8"), "another model: hidden is 4 there, 8 here"),
    ((*RESUME, "--fan-out", "3,3,3"), "another model: num_layers is 2 there, 3 here"),
    ((*RESUME, "--out", "new"), "--resume run goes on in that folder; drop --out new"),
    (("train", "layout-other", "--resume", "run"), "layout-other was made from another store"),
    (("predict",), r"missing: RUN \(The run.*\), LAYOUT \("),
    (("predict", "run", "layout"), "no --out given: name the file for the predictions"),
    (("predict", "nowhere", "layout", "--out", "new.npy"), "nowhere is no run: it has no config.json"),
    (("predict", "run", "store", "--out", "new.npy"), "store is no gsplit-layout.*it is a graph store"),
    (("predict", "run", "layout", "--out", "ids.npy"), "ids.npy exists already; .* add --overwrite"),
    (("predict", "run", "layout", "--out", "new.txt"), "--out new.txt must end in .npy, .npz or .csv"),
    ((*PREDICT, "--vertices", "ids.npy"), "ids.npy: vertex number 3 is 1000, outside the vertices 0 .. 999"),
    ((*PREDICT, "--vertices", "tset"), "tset: no such file; --vertices takes all, train, valid, test or a file"),
    ((*PREDICT, "--waht", "logits"), "--waht.*did you mean --what"),
    ((*PREDICT, "--what", "embeddings", "--layer", "3"), "--layer is 3, but the model has 2 layers"),
    ((*PREDICT, "--fan-out", "5"), "--fan-out has 1 numbers, but the model has 2 layers"),
    ((*PREDICT, "--device", "xpu"), "PyTorch finds no GPU of that kind; use --device cpu"),
]


@pytest.mark.parametrize(("words", "message"), FLAGS, ids=[" ".join(words) for words, _ in FLAGS])
def test_flags_and_paths(refused, words, message):
    assert re.search(message, refused(*words))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": np.array([0, 3])}, r"indices\[1\] is 3, outside the vertices 0 \.\. 2"),
        ({"y": np.array([0, np.nan, 1])}, "the train set has vertex 1, which has no label"),
        ({"y": np.array([[0, 1], [0, np.nan], [1, 1]])}, "the train set has vertex 1, which has no label"),
        ({"train_idx": np.array([0, 0])}, "train_idx lists a vertex twice"),
        ({"x": np.full((3, 2), np.nan)}, "features of vertex 0 hold NaN"),
        ({"y": np.array(1)}, "y must be numbers of shape"),
    ],
)
def test_archives(refused, place, changes, message):
    np.savez(place / "graph.npz", **{**GRAPH, **changes})
    assert re.search(message, refused(*NPZ))


@pytest.mark.parametrize("content", [b"", b"0 1\n1 2\n", b"PK\3\4"])
def test_files_that_are_no_archive(refused, place, content):
    (place / "graph.npz").write_bytes(content)
    assert "graph.npz is not a readable .npz" in refused(*NPZ)


@pytest.mark.parametrize("words", [IMPORT, PARTITION, TRAIN], ids=lambda words: words[0])
def test_overwrite_removes_nothing_of_the_user(refused, place, words):
    (place / "new").mkdir()
    (place / "new" / "thesis.tex").write_text("years of work")
    assert re.search("new .*--overwrite", refused(*words, "--overwrite"))


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
        ("store/features.npy", cut, PARTITION, "features.npy is truncated or changed"),
        ("store/labels.npy", lambda f: f.unlink(), PARTITION, "labels.npy is missing"),
        ("store/features.npy", flip, ("data", "info", "store", "--verify"), "features.npy is damaged: its SHA-256"),
        ("store/graph.json", edit(version=2), PARTITION, "version 2; this release reads 'gsplit-graph' version 1"),
        ("layout/features.npy", cut, TRAIN, "features.npy is truncated or changed"),
        ("layout/permutation.npy", cut, TRAIN, "permutation.npy is truncated or changed"),
        ("layout/layout.json", cut, TRAIN, "layout.json is damaged"),
        ("layout/layout.json", edit(offsets=[0, 10]), TRAIN, "offsets must ascend from 0 to 1000"),
        ("layout/layout.json", edit(version=99), TRAIN, "version 99; this release reads 'gsplit-layout' version 1"),
        ("layout/layout.json", edit(num_vertices=999), TRAIN, "has shape"),
        ("layout/layout.json", edit(quality=None), ("data", "info", "layout"), "layout.json is damaged"),
        ("run/config.json", cut, RESUME, "config.json is damaged"),
        ("run/config.json", edit(hidden="wide"), RESUME, "config.json is damaged"),
        ("run/config.json", edit(colour="red"), RESUME, "unknown keys: colour"),
        ("run/checkpoint.json", lambda f: f.unlink(), RESUME, "run has no checkpoint.json"),
        ("run/checkpoint.json", cut, RESUME, "checkpoint.json is damaged"),
        ("run/checkpoint.json", edit(version=3), RESUME, "version 3; this release reads version 2"),
        ("run/checkpoint.json", edit(signature=None), RESUME, "checkpoint.json is damaged"),
        ("run/checkpoint-*.pt", flip, RESUME, "checkpoint-.*is damaged: its SHA-256"),
        ("run/checkpoint-*.pt", cut, RESUME, "checkpoint-.*is damaged: its SHA-256"),
        ("run/checkpoint-*.pt", lambda f: f.unlink(), RESUME, "checkpoint-.*cannot be read"),
    ],
)
def test_damaged_folders(refused, place, file, damage, words, message):
    (path,) = place.glob(file)
    damage(path)
    assert re.search(message, refused(*words))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("train_idx", "an empty training set; import the graph with --split 0.6,0.2,0.2, --split-file"),
        ("x", "no features"),
    ],
)
def test_graphs_without_what_training_needs(refused, place, key, message):
    np.savez(place / "graph.npz", **{name: array for name, array in GRAPH.items() if name != key})
    write_store(place / "lacking", load_npz(place / "graph.npz"), name="lacking", source="test")
    partition(PartitionConfig(store=place / "lacking", out=place / "layout-lacking", parts=2))
    assert message in refused("train", "layout-lacking", "--out", "new")


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
    ((*IMPORT, "--sede", "1"), {}, "--sede.*did you mean --seed"),
    ((*IMPORT, "--sede", "1"), {"PYTHONIOENCODING": "ascii"}, "^error: Unrecognized.*--sede.*did you mean --seed"),
    ((*NPZ, "--feature-dtype", "float16"), {}, "features of vertex 0 hold NaN or infinity"),
    ((*PARTITION, "--parts", "1001"), {}, "--parts 1001 is more"),
    (("partition", "layout", "--out", "new"), {}, "it is a layout"),
    (("train", "store", "--out", "new"), {}, "it is a graph store"),
    ((*TRAIN, "--hiden", "8"), {}, "--hiden.*did you mean --hidden"),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("words", "environment", "message"), PROCESSES)
def test_in_a_process_of_its_own(refused_process, place, words, environment, message):
    # Values that float16 cannot hold: numpy warns of them, and that must not become a second line.
    np.savez(place / "graph.npz", **{**GRAPH, "x": np.full((3, 2), 1e30)})
    assert re.search(message, refused_process(*words, **environment))
    assert open_store(place / "store").graph.num_vertices == 1000
