"""The offline stage and pages about runs from Python do what their commands do."""

from __future__ import annotations

import pytest
from support.messages import line_with

import gsplit
from gsplit.data import open_layout, open_store
from gsplit.data.__main__ import command as data
from gsplit.errors import InputError
from gsplit.partition.__main__ import command as partition


def test_a_store_and_a_layout_are_those_of_the_commands(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,2\n3,0\n")
    (tmp_path / "labels.csv").write_text("node,class\n3,1\n1,0\n0,1\n2,0\n")
    store = gsplit.import_graph(
        str(tmp_path / "edges.csv"),
        str(tmp_path / "python"),
        labels=str(tmp_path / "labels.csv"),
        id_column="node",
        undirected=True,
        split=(0.5, 0.25, 0.25),
        seed=3,
    )
    assert store.graph.labels.tolist() == [1, 0, 0, 1]
    flags = f"--labels {tmp_path}/labels.csv --id-column node --undirected --split 0.5,0.25,0.25 --seed 3"
    data(["import", f"{tmp_path}/edges.csv", "--out", f"{tmp_path}/command", *flags.split()])
    assert open_store(tmp_path / "python").checksum == open_store(tmp_path / "command").checksum
    layout = gsplit.partition(store, tmp_path / "layout", parts=2)
    assert layout.description["quality"]["vertices_per_part"] == [2, 2]
    partition([f"{tmp_path}/command", "--parts", "2", "--out", f"{tmp_path}/other"])
    assert layout.checksum == open_layout(tmp_path / "other").checksum


def test_options_that_there_are_not(tmp_path):
    with pytest.raises(InputError, match=line_with("gsplit.import_graph, undirect, undirected")):
        gsplit.import_graph("synthetic:tiny", tmp_path / "graph", undirect=True)
    with pytest.raises(InputError, match=line_with("gsplit.partition, part, parts")):
        gsplit.partition(tmp_path, tmp_path / "layout", part=2)
    assert not list(tmp_path.iterdir())


def test_a_page_needs_a_run(tmp_path):
    with pytest.raises(InputError, match=line_with("gsplit.train")):
        gsplit.report()
    with pytest.raises(InputError, match=line_with("config.json")):
        gsplit.report(tmp_path, out=tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda graph: gsplit.partition(graph, 4), "parts=, 4"),
        (lambda graph: gsplit.train(object()), "gsplit.train, gsplit.partition"),
        (lambda graph: gsplit.train(graph, {"epochs": 1}), "gsplit.TrainConfig, dict"),
        (lambda graph: gsplit.predict(None, graph), "gsplit.train, None"),
        (lambda graph: gsplit.predict("run", 5), "gsplit.partition, 5"),
        (lambda graph: gsplit.predict("run", graph, fanout=3), "gsplit.predict, fanout, out"),
        (lambda graph: gsplit.report(["run"]), "gsplit.report, gsplit.train"),
        (lambda graph: gsplit.TrainConfig(layout=graph, init_from=3), "--init-from, 3"),
    ],
)
def test_what_is_taken_for_something_else_is_one_line(call, message):
    with gsplit.from_arrays([[0, 1], [1, 0]]) as graph, pytest.raises(InputError, match=line_with(message)):
        call(graph)
