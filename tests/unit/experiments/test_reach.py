"""Ways to train to an accuracy: PyG's and DGL's own are what they say, and what is made of epochs and scores."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from support.documents import undocumented
from support.graphs import lay_out, random_graph
from support.libraries import HAS_DGL, needs_dgl

from experiments.baselines import pyg_ways, whole_graph
from experiments.baselines.data_parallel import Reducer, accuracies_of, train_epoch
from experiments.baselines.pyg_forms import LOADER
from experiments.baselines.pyg_training import PyGTraining
from experiments.baselines.stored import StoredGraph
from experiments.baselines.subgraphs import clusters_of, fault_of_induced
from experiments.baselines.workload import Epoch, Setting, Workload
from experiments.rules import reach
from experiments.rules.reach import ReachConfig, Trained, over, reached
from gsplit.data import open_layout
from gsplit.errors import InputError

SETS = 3
WAYS = [
    ("pyg", "clusters"),
    *([("pyg", "saint")] if find_spec("torch_sparse") else []),  # else its row says so, which is tested below
    *(pytest.param("dgl", form, marks=needs_dgl) for form in ("clusters", "saint")),
]


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """What is trained on a directed graph with double edges, in a layout of nine parts."""
    folder = tmp_path_factory.mktemp("reach")
    layout = lay_out(random_graph(150, 9, seed=8), folder, parts=9)
    sizes = {"hidden": 8, "heads": 1, "fan_out": (-1, -1), "batch_size": 20, "sets": SETS}
    return Workload(
        **sizes,
        store=str(folder / "store"),
        layout=str(layout.path),
        model="sage",
        epochs=2,
        trainers=1,
        threads=1,
        lr=0.01,
        dropout=0.5,
        input_dropout=0.2,
        normalize_features=True,
        seed=0,
    )


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A process group of this process alone, which DDP asks for."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def made(library, workload, form):
    if library == "pyg":
        return pyg_ways.make(workload, Setting(form=form), 0)
    from experiments.baselines import dgl_subgraphs

    return dgl_subgraphs.make(workload, Setting(form=form), 0)


def trained_for_an_epoch(baseline):
    model = torch.nn.parallel.DistributedDataParallel(baseline.model)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    epoch = train_epoch(baseline, model, optimizer, Reducer(model), 0, mixed=False)
    assert all((p != old).any() for p, old in zip(model.parameters(), before, strict=True))
    return epoch


@pytest.mark.parametrize(("library", "form"), WAYS)
def test_subgraphs_of_libraries_are_induced_and_train(library, form, workload, alone):
    baseline = made(library, workload, form)
    assert baseline.fault() is None
    stored = baseline._stored
    trains, met = set(stored.vertices("train").tolist()), []
    batches = list(baseline.batches(0))
    assert len(batches) == SETS
    for batch in batches:
        vertices = batch.n_id if library == "pyg" else batch.ndata["_ID"]
        loaded = baseline.load(batch)
        own = [v for v in vertices.tolist() if v in trains]
        assert loaded.labels.tolist() == stored.labels[own].tolist()
        assert len(baseline.model(*loaded.arguments)) == len(own) > 0
        assert loaded.input_rows == len(vertices)
        met += vertices.tolist()
    if form == "clusters":
        assert sorted(met) == list(range(150))
    else:
        assert 0.3 * 150 < len(met) <= 150
    epoch = trained_for_an_epoch(baseline)
    assert epoch.edges > 0
    assert set(accuracies_of(baseline)) == {"valid", "test"}


def test_clusters_are_the_parts_of_the_layout(workload):
    parts, number = clusters_of(Path(workload.layout))
    layout = open_layout(workload.layout)
    assert number == 9
    for part in range(9):
        own = layout.permutation[layout.offsets[part] : layout.offsets[part + 1]]
        assert np.flatnonzero(parts == part).tolist() == sorted(own.tolist())


# 0 -> 2, 1 -> 2, 3 -> 2, 2 -> 0
INDPTR, INDICES = np.array([0, 1, 1, 4, 4]), np.array([2, 0, 1, 3])


@pytest.mark.parametrize(
    ("vertices", "sources", "destinations", "fault"),
    [
        ([2, 0, 1], [0, 1, 2], [2, 2, 0], None),
        ([2, 0, 0], [0, 2], [2, 0], "a vertex is twice"),
        ([2, 0, 1], [0, 2], [2, 0], "are not those of the graph"),
        ([2, 0, 1], [0, 1, 2, 2], [2, 2, 0, 1], "are not those of the graph"),
        ([1, 3], [], [], None),
    ],
)
def test_induced_subgraphs_are_checked(vertices, sources, destinations, fault):
    found = fault_of_induced(
        np.array(vertices), np.array(sources, np.int64), np.array(destinations, np.int64), INDPTR, INDICES
    )
    assert (found is None) if fault is None else fault in found


@pytest.mark.parametrize("form", ["pyg-csr", pytest.param("dgl", marks=needs_dgl)])
def test_the_whole_graph_is_one_mini_batch(form, workload, alone):
    plain = Workload(**{**vars(workload), "dropout": 0.0, "input_dropout": 0.0})
    baseline = whole_graph.make(plain, Setting(form=form), 0)
    (batch,) = baseline.batches(0)
    loaded = baseline.load(batch)
    stored = StoredGraph(Path(workload.store), normalized=True)
    x = stored.all_rows()
    torch.testing.assert_close(x.abs().sum(1), torch.ones(150))
    with torch.no_grad():
        logits = baseline.model(*loaded.arguments)
        torch.testing.assert_close(logits, baseline.logits()[stored.vertices("train")])
        torch.testing.assert_close(logits, baseline.model(x)[stored.vertices("train")])
    assert trained_for_an_epoch(baseline).input_rows == 150


def test_pyg_evaluates_by_products_what_it_does_by_edges(workload):
    if find_spec("torch_sparse") or find_spec("pyg_lib"):
        baseline = pyg_ways.make(Workload(**{**vars(workload), "sets": 0}), Setting(form=LOADER), 0)
    else:
        baseline = made("pyg", workload, "clusters")
    baseline.model.eval()
    with torch.no_grad():
        by_edges = PyGTraining.logits(baseline)
        torch.testing.assert_close(baseline.logits(), by_edges, rtol=1e-4, atol=1e-5)


def test_runs_end_by_epochs_or_seconds(workload):
    counts = {"edges": 0, "input_rows": 0, "loaded_bytes": 0, "reduced_bytes": 0, "loss": 0.0, "stages": {}}
    epochs = [Epoch(seconds=2.0, **counts)] * 5
    limited = Workload(**{**vars(workload), "epochs": 5, "validate_every": 2, "limit_s": 5.0})
    assert [limited.ends_after(epochs[:n]) for n in range(5)] == [False, False, False, True, True]
    assert [limited.validates_after(epochs[:n]) for n in (1, 2, 3)] == [False, True, True]
    assert not workload.validates_after(epochs)


def test_a_target_is_reached_where_validation_says_so():
    epochs = [(1.0, 0.5), (2.0, None), (4.0, 0.9), (8.0, 0.95)]
    assert reached(epochs, 0.9) == (7.0, 3)
    assert reached(epochs, 0.5) == (1.0, 1)
    assert reached(epochs, 0.96) is None


def test_ratios_are_of_one_seed():
    times = {"a": [(2.0, 1), (9.0, 2), None], "b": [(1.0, 1), (3.0, 1), (1.0, 1)]}
    assert over(times, "a", "b") == 2.5
    assert over(times, "a", "c") is None


def test_ways_take_turns_and_rows_say_what_was_missing(real_data, tmp_path, monkeypatch):
    asked = []

    def ours(name, graph, config, work, *, epochs, validate_every, seed):
        asked.append((seed, name))
        return Trained(test=0.8 + 0.01 * seed, epochs=[(1.0 + seed, 0.7), (1.0, 0.9)], asked=2)

    def theirs(name, graph, config, work, *, epochs, validate_every, seed):
        asked.append((seed, name))
        if name == "dgl, saint" and seed:
            raise reach.RunFailed("exit code 1: error: no")
        return Trained(test=0.7, epochs=[(6.0, 0.8 if name == "dgl, whole graph" else 0.9)], asked=2)

    monkeypatch.setattr(reach, "ours", ours)
    monkeypatch.setattr(reach, "theirs", theirs)
    monkeypatch.setattr("experiments.rules.other_systems.find_spec", lambda name: name != "torch_sparse")
    words = "--datasets cora --ways neighbours pyg-saint dgl-saint dgl-clusters dgl-whole-graph"
    words += " --seeds 2 --target 0.9 --limit 5"
    file = tmp_path / "found.json"
    reach.command([*words.split(), "--data", str(real_data), "--json", str(file)])
    assert asked == [
        *((0, name) for name in ("neighbours", "dgl, saint", "dgl, clusters", "dgl, whole graph")),
        *((1, name) for name in ("dgl, saint", "dgl, clusters", "dgl, whole graph", "neighbours")),
    ]
    rows = {row["way"]: row for row in json.loads(file.read_text())["ways"]}
    assert undocumented("Ways to an accuracy", rows["neighbours"]) == []
    assert rows["neighbours"]["test"] == pytest.approx(0.805)
    assert rows["neighbours"]["time_over_whole_graph"] is None
    assert rows["dgl, clusters"]["time_over_neighbours"] == pytest.approx((6 / 2 + 6 / 3) / 2)
    assert rows["dgl, clusters"]["note"] == "ended after 5 s of training"
    assert rows["dgl, clusters"]["epochs_to_target"] == 1
    late = "ended after 5 s of training, 2.5 times our neighbours' to the target"
    assert (rows["dgl, whole graph"]["note"], rows["dgl, whole graph"]["reached"]) == (late, 0)
    assert rows["dgl, saint"]["note"] == "exit code 1: error: no"
    assert (rows["pyg, saint"]["test"], rows["pyg, saint"]["scores"]) == (None, [])
    assert "torch-sparse" in rows["pyg, saint"]["note"]


def test_others_are_added():
    assert len(ReachConfig(others=True).names) == len(reach.WAYS)
    assert ReachConfig(ways=("saint",), others=True).names[:2] == ["saint", "pyg, neighbours"]
    with pytest.raises(InputError, match="--model gat"):
        ReachConfig(model="gat", ways=("pyg-clusters",))


@pytest.mark.slow
def test_every_way_of_theirs_trains(real_data, tmp_path):
    file = tmp_path / "found.json"
    words = "--datasets cora --ways neighbours whole-graph --others --quick --trainers 2 --seeds 1"
    reach.command([*words.split(), "--data", str(real_data), "--json", str(file)])
    for row in json.loads(file.read_text())["ways"]:
        library, _, _ = row["way"].rpartition(", ")
        if row["test"] is None:
            assert "not installed" in row["note"]
            assert library == "pyg" or (library == "dgl" and not HAS_DGL)
        else:
            assert 0.1 < row["test"] < 0.9
