"""From memory to predictions: the numbers that files give, in one cell, and nothing is left behind."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from support.commands import python
from support.graphs import random_graph
from support.libraries import needs_dgl
from support.messages import line_with
from support.runs import all_equal
from torch_geometric.data import Data

import gsplit
from gsplit.data.__main__ import command
from gsplit.data.importers.formats import dgl as dgl_importer
from gsplit.errors import InputError, ProcessDied
from gsplit.partition import PartitionConfig
from gsplit.partition.make import partition as partition_here

pytestmark = pytest.mark.usefixtures("temporary")
ROOT = Path(__file__).parents[2]
N = 60
GRAPH = random_graph(N, 6, seed=2)
EDGES = np.stack([GRAPH.indices.astype(np.int64), np.repeat(np.arange(N), np.diff(GRAPH.indptr))])
SETS = {"train": GRAPH.train_idx, "val": GRAPH.valid_idx, "test": GRAPH.test_idx}
MASKS = {f"{name}_mask": np.isin(np.arange(N), ids) for name, ids in SETS.items()}
SETTINGS = {"fan_out": (3, 3), "hidden": 8, "batch_size": 20, "epochs": 2, "lr": 0.01, "device": "cpu", "threads": 1}


def as_data():
    attributes = {"edge_index": EDGES, "x": GRAPH.features, "y": GRAPH.labels, **MASKS}
    return Data(**{key: torch.tensor(array) for key, array in attributes.items()})


def as_dgl():
    graph = dgl_importer.import_dgl().graph(tuple(torch.tensor(EDGES)), num_nodes=N)
    for key, array in {"feat": GRAPH.features, "label": GRAPH.labels, **MASKS}.items():
        graph.ndata[key] = torch.tensor(array)
    return graph


def saved_arrays(folder):
    (folder / "arrays").mkdir()
    for key, array in {"edge_index": EDGES, "x": GRAPH.features, "y": GRAPH.labels, **MASKS}.items():
        np.save(folder / "arrays" / f"{key}.npy", array)
    return folder / "arrays"


def saved_pyg(folder):
    torch.save(as_data(), folder / "data.pt")
    return folder / "data.pt"


def saved_dgl(folder):
    dgl_importer.import_dgl().save_graphs(str(folder / "graph.bin"), [as_dgl()])
    return folder / "graph.bin"


def from_arrays():
    sets = {"train": SETS["train"], "valid": SETS["val"], "test": SETS["test"]}
    return gsplit.from_arrays(EDGES, GRAPH.features, torch.tensor(GRAPH.labels), **sets)


@pytest.mark.parametrize(
    ("file", "take"),
    [
        pytest.param(saved_arrays, from_arrays, id="arrays"),
        pytest.param(saved_pyg, lambda: gsplit.from_pyg(as_data()), id="pyg"),
        pytest.param(saved_dgl, lambda: gsplit.from_dgl(as_dgl()), id="dgl", marks=needs_dgl),
    ],
)
def test_training_is_bit_equal_to_that_of_files(file, take, tmp_path, monkeypatch, in_pool):
    monkeypatch.setattr(dgl_importer, "_probe", lambda path: None)  # takes seconds
    store, layout, run = (tmp_path / name for name in ("store", "layout", "run"))
    command(["import", str(file(tmp_path)), "--out", str(store)])
    partition_here(PartitionConfig(store=store, out=layout, parts=2))
    with in_pool(), gsplit.partition(take(), parts=2) as in_memory:
        of_files = gsplit.train(str(layout), gsplit.TrainConfig(out=run, **SETTINGS))
        expected = gsplit.predict(str(run), str(layout), what="logits", device="cpu")
        with gsplit.train(in_memory, gsplit.TrainConfig(**SETTINGS)) as trained:
            found = gsplit.predict(trained, in_memory, what="logits", device="cpu")
            assert all_equal(gsplit.load(trained).state_dict(), gsplit.load(run).state_dict())
    assert (trained["loss"], trained["valid_accuracy"]) == (of_files["loss"], of_files["valid_accuracy"])
    assert isinstance(found, np.ndarray)
    assert found.shape == (N, 3)
    np.testing.assert_array_equal(found, expected)  # and it stays when the folders are gone


@pytest.mark.parametrize("page", ["README.md", "docs/guides/commands.md"])
def test_the_cell_of_a_page(page, in_pool, capsys):
    (cell,) = [
        text
        for text in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        if "gsplit.from_pyg(data)" in text
    ]
    made = {"data": as_data(), "__name__": "__main__"}
    with in_pool():
        exec(textwrap.dedent(cell), made)
    assert 0 <= float(capsys.readouterr().out.split()[-1]) <= 1
    assert made["classes"].shape == (N,)
    made.clear()


def test_a_run_that_fails_leaves_nothing(in_pool, temporary):
    with gsplit.partition(as_data(), parts=2, method="range") as layout:
        there = os.listdir(temporary)
        assert len(there) == 1
        for changes, message in (({"epochs": -1}, "--epochs"), ({"save_predictions": "values"}, "classes")):
            with pytest.raises(InputError, match=line_with(message)) as caught:
                gsplit.train(layout, gsplit.TrainConfig(**{**SETTINGS, **changes}))
            assert (os.listdir(temporary), caught.tb is None) == (there, False)  # while there is a traceback
        with pytest.raises(InputError, match=line_with("--out")):
            gsplit.train(str(layout.path), gsplit.TrainConfig(**SETTINGS))
        with in_pool(), pytest.raises(KeyboardInterrupt):
            gsplit.train(layout, gsplit.TrainConfig(**SETTINGS), loss=interrupted)
        assert os.listdir(temporary) == there


def interrupted(logits, labels):
    raise KeyboardInterrupt


def test_ctrl_c_while_a_graph_is_partitioned_ends_that_process_alone(temporary, monkeypatch):
    """METIS looks for no signals; what waits for its process gets Ctrl-C, as in a notebook, and tidies up."""
    started = "import os, signal; os.kill({parent}, signal.SIGINT); signal.pause()"
    monkeypatch.setattr("gsplit.partition.interface.api.START", started)
    with from_arrays() as graph:
        there = os.listdir(temporary)
        with pytest.raises(KeyboardInterrupt):
            gsplit.partition(graph, parts=2)
        assert os.listdir(temporary) == there
        commands = [" ".join(child.cmdline()) for child in psutil.Process().children()]
        assert not any("signal.pause" in words for words in commands)
    monkeypatch.setattr("gsplit.partition.interface.api.START", "import os, signal; os.kill(os.getpid(), 9)")
    with from_arrays() as graph, pytest.raises(ProcessDied, match=line_with("partitioning, pid #, SIGKILL")):
        gsplit.partition(graph, parts=2)


def test_a_run_without_a_name_goes_on_and_keeps_its_layout(in_pool, temporary):
    with in_pool():
        layout = gsplit.partition(as_data(), parts=2, method="range")
        run = gsplit.train(layout, gsplit.TrainConfig(**SETTINGS))
        del layout
        assert len(os.listdir(temporary)) == 2
        run = gsplit.train(config=gsplit.TrainConfig.resuming(run, epochs=3))
        assert (run["epochs"], len(os.listdir(temporary))) == (3, 2)
        assert np.array_equal(*(gsplit.predict(run, run.layout, device="cpu") for _ in range(2)))
        table = gsplit.train(run.layout, gsplit.TrainConfig(strategy="full", dry_run=True, device="cpu"))
        with pytest.raises(InputError, match=line_with("plans")):
            gsplit.load(table)
    del run, table


SCRIPT = """
import numpy as np
import gsplit

if __name__ == "__main__":
    random = np.random.default_rng(0)
    edges, x = random.integers(0, 50, (2, 400)), random.standard_normal((50, 4))
    graph = gsplit.from_arrays(edges, x, np.arange(50) % 3, train=np.arange(30), valid=np.arange(30, 50))
    layout = gsplit.partition(graph, parts=2)
    run = gsplit.train(layout, gsplit.TrainConfig(fan_out=(3, 3), hidden=4, epochs=1, device="cpu", threads=1))
    print(run["epochs"])
    raise RuntimeError("after all")
"""


def test_a_script_that_ends_with_an_exception_leaves_nothing(temporary, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = python(tmp_path / "script.py", env=environment, code=1)
    assert done.stdout.splitlines()[-1] == "1", done.stderr
    assert done.stderr.endswith("RuntimeError: after all\n")
