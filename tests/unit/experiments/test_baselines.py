"""DGL's and PyG's sides of the comparison: the same models as ours, on true samples; and whole small comparisons."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from support.blocks import unsplit
from support.commands import python
from support.devices import HIDDEN
from support.documents import undocumented
from support.graphs import lay_out, random_graph
from support.libraries import needs_dgl

from experiments.baselines import pyg_training
from experiments.baselines.data_parallel import Reducer, accuracies_of, train_epoch
from experiments.baselines.pyg_forms import DRAWN, GIVEN
from experiments.baselines.stored import write_arrays
from experiments.baselines.workload import STAGES, Setting
from experiments.compare.config import CompareConfig
from gsplit.data import write_store
from gsplit.engine.inputs import blocks_of
from gsplit.nn import GAT, GCN, SAGE

ROOT = Path(__file__).parent.parent.parent.parent
MODELS = ("sage", "gat", "gcn")
FULL = (-1, -1)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("baselines") / "store"
    write_store(path, random_graph(150, 9, seed=8), name="random", source="test")
    for bits in (32, 64):
        write_arrays(path, bits)
    return path


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A process group of this process alone, which DGL's loader and DDP ask for."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def workload_of(store, model="sage", fan_out=FULL, **changes):
    config = CompareConfig(model=model, hidden=8, heads=2, fan_out=fan_out, batch_size=20, gpus=1, dropout=0.0)
    return replace(config.workload(store), **changes)


def pyg_of(workload, form=GIVEN):
    return pyg_training.make(workload, Setting(form=form), 0)


def dgl_of(workload, form="int64 fused", workers=0):
    from experiments.baselines import dgl_training

    return dgl_training.make(workload, Setting(form=form, workers=workers), 0)


def ours_with_weights_of(baseline, workload):
    """Logits [N, C] of our model over all neighbours, with PyG's weights."""
    stored = baseline._stored
    sizes = (stored.num_features, 8, stored.num_classes)
    model = {
        "sage": lambda: SAGE(*sizes, num_layers=2),
        "gat": lambda: GAT(*sizes, num_layers=2, heads=2, loops=False),
        "gcn": lambda: GCN(*sizes, num_layers=2, normalization="mean", loops=False),
    }[workload.model]()
    names = {
        "sage": {
            "lin_self.weight": "lin_r.weight",
            "lin_self.bias": "lin_l.bias",
            "lin_neigh.weight": "lin_l.weight",
        },
        "gat": {"lin.weight": "lin.weight", "att_source": "att_src", "att_destination": "att_dst", "bias": "bias"},
        "gcn": {"lin.weight": "lin_l.weight", "bias": "lin_l.bias"},
    }[workload.model]
    theirs = baseline.model.state_dict()
    for name, parameter in model.named_parameters():
        _, layer, own = name.split(".", 2)
        parameter.data.copy_(theirs[f"convs.{layer}.{names[own]}"].view_as(parameter))
    segment = unsplit(stored, range(len(stored.indptr) - 1), FULL)
    x = stored.rows(torch.from_numpy(segment.vertices.copy()))
    with torch.no_grad():
        return model.eval()(blocks_of(segment, torch.device("cpu"), None), x)


def give_weights(dgl_net, pyg_net):
    """Copy PyG's weights into DGL's model."""
    for theirs, ours in zip(dgl_net.convs, pyg_net.convs, strict=True):
        if hasattr(theirs, "fc_self"):
            pairs = [
                (theirs.fc_self.weight, ours.lin_r.weight),
                (theirs.fc_self.bias, ours.lin_l.bias),
                (theirs.fc_neigh.weight, ours.lin_l.weight),
            ]
        elif hasattr(theirs, "attn_l"):
            pairs = [
                (theirs.fc.weight, ours.lin.weight),
                (theirs.attn_l, ours.att_src),
                (theirs.attn_r, ours.att_dst),
                (theirs.bias, ours.bias),
            ]
        else:
            pairs = [(theirs.weight, ours.lin_l.weight.T), (theirs.bias, ours.lin_l.bias)]
        for mine, given in pairs:
            mine.data.copy_(given.data.view_as(mine))


@pytest.mark.parametrize("model", MODELS)
def test_pyg_computes_the_same_model_as_we_do(model, store, monkeypatch):
    workload = workload_of(store, model)
    baseline = pyg_of(workload)
    monkeypatch.setattr(pyg_training, "EDGES_AT_ONCE", 100)  # several pieces
    baseline.model.eval()
    with torch.no_grad():
        logits = baseline.logits()
        torch.testing.assert_close(logits, ours_with_weights_of(baseline, workload), rtol=1e-4, atol=1e-5)
        batch = next(baseline.batches(0))
        loaded = baseline.load(batch)
        # With all neighbours a mini-batch says of its targets what the whole graph says.
        torch.testing.assert_close(
            baseline.model(*loaded.arguments), logits[batch[0][: batch[1]]], rtol=1e-4, atol=1e-5
        )
    assert loaded.input_rows == len(batch[0])
    assert loaded.labels.tolist() == baseline._stored.labels[batch[0][:20]].tolist()


@needs_dgl
@pytest.mark.parametrize("model", MODELS)
def test_dgl_computes_the_same_model_as_pyg(model, store, alone):
    workload = workload_of(store, model)
    theirs, given = dgl_of(workload), pyg_of(workload)
    give_weights(theirs.model, given.model)
    theirs.model.eval()
    given.model.eval()
    with torch.no_grad():
        logits = theirs.logits()
        torch.testing.assert_close(logits, given.logits(), rtol=1e-4, atol=1e-5)
        _, targets, _ = batch = next(theirs.batches(0))
        loaded = theirs.load(batch)
        torch.testing.assert_close(theirs.model(*loaded.arguments), logits[targets], rtol=1e-4, atol=1e-5)
    assert accuracies_of(theirs) == accuracies_of(given)
    assert loaded.input_bytes == loaded.input_rows * theirs._stored.num_features * 4


@needs_dgl
def test_forms_of_dgls_sampler_are_found_good_or_corrupt(store, alone):
    faults = {
        form: dgl_of(workload_of(store, fan_out=(4, 3)), form).fault()
        for form in ("int64 fused", "int64 unfused", "int32 unfused", "int32 fused")
    }
    assert [form for form, fault in faults.items() if fault] == ["int32 fused"]
    assert faults["int32 fused"].startswith("mini-batch ")
    assert pyg_of(workload_of(store, fan_out=(4, 3))).fault() is None


@needs_dgl
@pytest.mark.parametrize("precision", ["32", "bf16-mixed"])
def test_an_epoch_says_what_it_did(store, alone, precision):
    workload = workload_of(store, fan_out=(4, 3), precision=precision)
    for baseline in (dgl_of(workload), pyg_of(workload), pyg_of(workload, DRAWN), dgl_of(workload, workers=1)):
        model = torch.nn.parallel.DistributedDataParallel(baseline.model)
        before = [p.detach().clone() for p in model.parameters()]
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        epoch = train_epoch(baseline, model, optimizer, Reducer(model), 0, mixed=workload.mixed)
        assert all((p != old).any() for p, old in zip(model.parameters(), before, strict=True))
        batches = -(-len(baseline._stored.vertices("train")) // 20)
        assert epoch.reduced_bytes == batches * sum(p.nbytes for p in model.parameters())
        assert epoch.edges > epoch.input_rows > 0
        row_bytes = baseline._stored.num_features * (2 if precision == "bf16-mixed" else 4)
        assert epoch.loaded_bytes == epoch.input_rows * row_bytes
        assert set(epoch.stages) == set(STAGES)
        assert all(seconds >= 0 for seconds in epoch.stages.values())
        assert sum(epoch.stages.values()) <= epoch.seconds * 1.001
        sampled = "waiting" if baseline.ahead else "sampling"
        assert (epoch.stages[sampled] > 0) != baseline.outside


# 0 -> 2, 1 -> 2, 3 -> 2, 2 -> 0
INDPTR, INDICES = np.array([0, 1, 1, 4, 4]), np.array([2, 0, 1, 3])


@pytest.mark.parametrize(
    ("vertices", "sources", "destinations", "fault"),
    [
        ([2, 0, 1], [0, 1, 2], [2, 2, 0], None),
        ([2, 0, 1], [0, 1], [2, 2], None),
        ([2, 0, 0], [0], [2], "a vertex is twice"),
        ([2, 0, 1], [0, 2], [2, 1], "is no edge of the graph"),
        ([2, 0, 1], [0, 0], [2, 2], "a neighbour was drawn twice"),
        ([2, 0, 1, 3], [0, 1, 3], [2, 2, 2], "more than 2 neighbours"),
    ],
)
def test_subgraphs_of_pyg_are_checked(vertices, sources, destinations, fault):
    found = pyg_training.fault_of_subgraph(
        np.array(vertices), np.array(sources), np.array(destinations), INDPTR, INDICES, (2, 1)
    )
    assert (found is None) if fault is None else fault in found


@needs_dgl
def test_drawing_all_neighbours_dgl_evaluates_as_on_the_whole_graph(store):
    side = dgl_of(workload_of(store))
    with torch.no_grad():
        whole, drawn = side.logits(), side.sampled_logits("test")
    torch.testing.assert_close(drawn, whole[side.vertex_sets()["test"][0]])
    assert len(drawn) > 20  # more than a mini-batch


@needs_dgl
@pytest.mark.slow
def test_ways_of_evaluating_are_timed_beside_exact(store, tmp_path):
    layout, found = lay_out(random_graph(150, 9, seed=8), tmp_path, parts=2).path, tmp_path / "found.json"
    words = ("--rounds", "1", "--hidden", "8", "--json", str(found))
    python("-m", "experiments.compare.evaluation", str(store), str(layout), *words, cwd=ROOT, env=os.environ | HIDDEN)
    rows = json.loads(found.read_text())["evaluations"]
    assert [row["way"] for row in rows] == ["sampled", "dgl", "dgl, sampled", "pyg"]
    assert all(row["over"] == "exact" and row["ratio"] > 0 for row in rows)


def compared(folder, *words):
    words = ("-m", "experiments.compare", "--quick", "--pairs", "1", *words)
    done = python(*words, cwd=ROOT, env={**os.environ, **HIDDEN}, timeout=540)
    return done.stdout, json.loads((folder / "comparison.json").read_text())


@needs_dgl
@pytest.mark.slow
def test_gsplit_beside_dgl_with_two_trainers(tmp_path):
    words = ("--systems", "gsplit,dgl,torch-quiver", "--accuracy-epochs", "0")
    said, result = compared(
        tmp_path / "out", *words, "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")
    )
    tables = result["tables"]
    assert [row["system"] for row in tables["systems"]] == ["gsplit", "dgl"]
    ours, theirs = tables["systems"]
    for row in (ours, theirs):
        assert row["epoch_s"] >= row["computing_s"] > 0
        assert row["peak_pss_bytes"] > row["peak_rss_bytes"] > 50 << 20
    assert ours["edges"] < theirs["edges"]  # nothing is computed twice
    assert ours["exchanged_bytes"] > 0 == theirs["exchanged_bytes"]
    assert {(row["what"], row["system"], row["rounds"]) for row in tables["ratios"]} == {
        ("epoch", "dgl", 1),
        ("computing", "dgl", 1),
    }
    assert tables["search"] == []
    (left_out,) = tables["not_run"]
    assert left_out["system"] == "torch-quiver"
    assert "does not run here" in left_out["reason"]
    assert [run["phase"] for run in result["runs"]] == ["memory", "memory", "rounds", "rounds"]
    assert all(len(run["epochs"]) == 2 for run in result["runs"])
    assert "| dgl | " in said
    assert (tmp_path / "out" / "comparison.md").read_text() in said
    assert not list((tmp_path / "work").glob(".run-*"))
    keys = {*result, *(key for rows in tables.values() for row in rows for key in row), *tables}
    assert undocumented("Comparison", keys) == []


@needs_dgl
@pytest.mark.slow
def test_all_systems_with_search_accuracy_and_sweeps(tmp_path):
    words = ("--search-epochs", "1", "--accuracy-epochs", "3", "--sweep-pairs", "1", "--sweep-cache", "0,10")
    folders = ("--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"))
    _, result = compared(tmp_path / "out", *words, "--sweep-batch", "100", *folders)
    tables, systems = result["tables"], ["gsplit", "dgl", "pyg", "pagraph", "quiver"]
    assert [row["system"] for row in tables["systems"]] == systems
    assert [row["system"] for row in tables["search"] if row["chosen"]] == systems
    assert any("corrupt" in (row["reason"] or "") for row in tables["search"])
    assert [row["system"] for row in tables["accuracy"]] == [name for name in systems for _ in range(3)]
    assert all(0 < row["valid_accuracy"] <= 1 for row in tables["accuracy"])
    assert all(0 < row["test_accuracy"] <= 1 for row in tables["systems"])
    assert [(row["system"], row["cache_percent"]) for row in tables["by_cache"]] == [
        (name, percent) for percent in (0, 10) for name in ("gsplit", "pagraph", "quiver")
    ]
    assert [row["system"] for row in tables["by_batch"]] == systems
    keys = {*result, *(key for rows in tables.values() for row in rows for key in row), *tables}
    assert undocumented("Comparison", keys) == []
