"""Every flag of ``python -m gsplit.data`` (import, export, info) does something, or the tables say why not."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import duckdb
import numpy as np
import pytest
import torch
from support.flags import Row, Table, assert_complete, rows_of
from support.graphs import lay_out, random_graph
from torch_geometric.data import Data, HeteroData

from gsplit import cli
from gsplit.data import open_store, write_store
from gsplit.data.__main__ import command
from gsplit.errors import InputError

# 0 -> 1 == 1 -> 2, 2 -> 2: a double edge and a loop, and vertex 3 by its features alone
EDGES = "0,1\n1,2\n1,2\n2,2\n"


def write_files(folder: Path) -> None:
    (folder / "edges.csv").write_text(EDGES)
    (folder / "other.csv").write_text("0,1\n")
    (folder / "timed.csv").write_text("src,dst,time,other\n0,1,1,1\n1,2,2,1\n2,3,3,2\n")
    (folder / "held.csv").write_text("0,2\n")
    np.save(folder / "row.npy", np.array([[1, 0]]))
    np.save(folder / "features.npy", np.arange(8, dtype=np.float64).reshape(4, 2))
    np.save(folder / "labels.npy", np.array([0, 1, 1, 0]))
    np.save(folder / "many.npy", np.arange(20) % 2)
    np.save(folder / "numbers.npy", np.array([7]))
    for name, vertex in (("train", 0), ("valid", 1), ("test", 2)):
        np.save(folder / f"{name}.npy", np.array([vertex]))
    (folder / "users.csv").write_text("user,age\n3,10\n2,11\n1,12\n0,13\n")
    (folder / "people.csv").write_text(
        "id,age,land,joined,class,part\n3,10,de,2024-03-01,a;b,train\n2,,fr,2024-01-01,b,valid\n"
        "1,12,de,2024-02-01,a,train\n0,13,at,2024-01-15,b,test\n9,1,de,2024-01-01,a,none\n"
    )
    (folder / "numbers.csv").write_text("src,dst,other\n7,3,5\n3,0,0\n")
    (folder / "pairs.csv").write_text("src,dst\n7,3\n")
    (folder / "quoted.csv").write_text('src,dst\n"a", a\n')
    with duckdb.connect(str(folder / "tables.duckdb")) as tables:
        for name in ("numbers", "people"):
            tables.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{folder / name}.csv')")
    (folder / "sets.csv").write_text("train\ntrain\nvalid\ntest\n")
    x, y = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 1, 0])
    others = {"f": -x, "l": 1 - y, "m": y == 1}
    torch.save(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), x=x, y=y, **others), folder / "data.pt")


def graph_of(field: str):
    def see(out: Path):
        array = getattr(open_store(out).graph, field)
        return None if array is None else (str(array.dtype), array.tolist())

    return see


weights = graph_of("edge_weight")


def names(out: Path):
    store = open_store(out)
    return store.ids().of(np.arange(store.graph.num_vertices))


def links_of(field: str):
    def see(out: Path):
        links = open_store(out).graph.links
        array = None if links is None else getattr(links, field)
        return None if array is None else array.tolist()

    return see


def relations(out: Path) -> list[str]:
    return list(map(str, open_store(out, typed=True).graph.schema.relations))


def shape(out: Path) -> tuple[int, int]:
    graph = open_store(out).graph
    return graph.num_vertices, graph.num_edges


def ids(out: Path) -> list:
    kept = open_store(out).ids()
    return [] if kept is None else [list(values) for _, values in kept.columns()]


def arrays(out: Path) -> dict:
    with np.load(out) as file:
        return {name: file[name].tolist() for name in file}


def grown(out: Path) -> list[str]:
    return open_store(out).description.get("grown_from", [])


def a_store(place: Path) -> Path:
    """A store of the files, made once."""
    if not (place / "a-store").exists():
        command(["import", str(place / "edges.csv"), "--out", str(place / "a-store")])
    return place / "a-store"


def hetero(place: Path) -> Path:
    """A graph of PyG of two types."""
    data = HeteroData(a={"x": torch.eye(2), "y": torch.tensor([0, 1])}, b={"num_nodes": 1})
    data["b", "to", "a"].edge_index = torch.tensor([[0], [1]])
    torch.save(data, place / "hetero.pt")
    return place / "hetero.pt"


def file(name: str):
    return lambda place: place / name


LABELLED = {"labels": file("labels.npy")}
MANY = {"labels": file("many.npy")}
ANY = {"source": file("numbers.csv"), "ids": "any"}
ENDS = {"source_column": "src", "destination_column": "dst"}
OTHER_ENDS = {"source_column": "src", "destination_column": "other"}
OF_PYG = {"source": file("data.pt")}
OF_DATABASE = {"source": file("tables.duckdb"), "edges_query": "SELECT src, dst FROM numbers", "num_vertices": 10}
ZEROS = {"features_query": "SELECT id, 0 AS x FROM people", "missing": "zero"}
PEOPLE = {
    "features": file("people.csv"),
    "columns": ("land:skip", "joined:skip", "class:skip", "part:skip"),
    "missing": "zero",
    "unknown": "drop",
    "num_vertices": 4,
}
CLASSES = {**PEOPLE, "label_column": "class"}
IMPORT: Table = {
    "source": Row(value=file("other.csv"), see=shape),
    "out": Row(value=file("elsewhere"), see=lambda out: out.name == "elsewhere"),
    "reverse": Row(value=True, see=relations, base={"source": hetero}),
    "name": Row(value="another", see=lambda out: open_store(out).name),
    "root": "only for ogb:NAME, which wants OGB's folders; tests/unit/data/test_ogb.py reads them from a root",
    "overwrite": "where a store is in --out it is refused or replaced: test_overwrite_replaces, below",
    "add": Row(value=file("other.csv"), see=grown, base={"source": a_store}),
    "edges_query": Row(value="SELECT dst AS src, src AS dst FROM numbers", see=graph_of("indices"), base=OF_DATABASE),
    "features_query": Row(
        value="SELECT id, id AS x FROM people", see=graph_of("features"), base={**OF_DATABASE, **ZEROS}
    ),
    "labels_query": Row(value="SELECT id, land FROM people", see=graph_of("labels"), base=OF_DATABASE),
    "split_query": Row(
        value="SELECT id, part FROM people",
        see=graph_of("train_idx"),
        base={**OF_DATABASE, "labels_query": "SELECT id, land FROM people"},
    ),
    "features": Row(value=file("features.npy"), see=graph_of("features")),
    "id_column": Row(
        value="user", see=graph_of("features"), base={"features": file("users.csv"), "id_column": "none"}
    ),
    "columns": Row(
        value=("land:category", "joined:time", "class:skip", "part:skip"), see=graph_of("features"), base=PEOPLE
    ),
    "missing": Row(value="mean", see=graph_of("features"), base=PEOPLE),
    "unknown": "with refuse, the default, a row of nobody ends the import: test_rows_of_nobody, below",
    "vertices": Row(value=file("numbers.npy"), see=shape),
    "gaps": Row(value=("de",), see=graph_of("features"), base={**PEOPLE, "columns": ("*:skip", "land:code")}),
    "unlabelled": Row(value=("a;b",), see=graph_of("labels"), base={**PEOPLE, "label_column": "class"}),
    "standardize": Row(value=True, see=graph_of("features"), base=PEOPLE),
    "label_column": Row(value="class", see=graph_of("labels"), base={**PEOPLE, "label_column": "land"}),
    "label_separator": Row(value=";", see=graph_of("labels"), base=CLASSES),
    "split_column": Row(value="part", see=graph_of("train_idx"), base=CLASSES),
    "split_by": Row(
        value="id",
        see=graph_of("train_idx"),
        base={**CLASSES, "split_by": "age", "split": ("11", "13"), "columns": ("*:skip", "age:number")},
    ),
    "labels": Row(value=file("labels.npy"), see=graph_of("labels")),
    "train": Row(value=file("train.npy"), see=graph_of("train_idx"), base=LABELLED),
    "valid": Row(value=file("valid.npy"), see=graph_of("valid_idx"), base=LABELLED),
    "test": Row(value=file("test.npy"), see=graph_of("test_idx"), base=LABELLED),
    "split_file": Row(value=file("sets.csv"), see=graph_of("train_idx"), base=LABELLED),
    "ids": Row(value="any", see=shape, base={"source": file("numbers.csv")}),
    "id_order": Row(value="sorted", see=graph_of("indices"), base=ANY),
    "source_column": Row(value="other", see=graph_of("indices"), base={**ANY, **ENDS}),
    "destination_column": Row(value="other", see=graph_of("indices"), base={**ANY, **ENDS}),
    "source_prefix": Row(value="s:", see=ids, base={**ANY, **ENDS}),
    "destination_prefix": Row(value="d:", see=ids, base={**ANY, **ENDS}),
    "bipartite": Row(value=True, see=ids, base={**ANY, **ENDS}),
    "weight_column": Row(value="dst", see=weights, base={"source": file("numbers.csv"), **OTHER_ENDS}),
    "quote": Row(value="none", see=names, base={**ANY, "source": file("quoted.csv")}),
    "strip": Row(value=True, see=names, base={**ANY, "source": file("quoted.csv")}),
    "header": Row(value=False, see=shape, base={**ANY, "source": file("pairs.csv")}),
    "feature_key": Row(value="f", see=graph_of("features"), base=OF_PYG),
    "label_key": Row(value="l", see=graph_of("labels"), base=OF_PYG),
    "mask_key": Row(value="m", see=graph_of("train_idx"), base=OF_PYG),
    "undirected": Row(value=True, see=shape),
    "self_loops": Row(value="add", see=shape),
    "duplicates": Row(value="keep", see=shape),
    "split": Row(value=(0.5, 0.2, 0.2), see=graph_of("train_idx"), base=MANY),
    "stratify": Row(value=True, see=graph_of("train_idx"), base={**MANY, "split": (0.5, 0.2, 0.2)}),
    "seed": Row(value=1, see=graph_of("train_idx"), base={**MANY, "split": (0.5, 0.2, 0.2)}),
    "edge_split": Row(value=(0.5, 0.0, 0.5), see=shape, base={"source": file("pairs.csv"), "seed": 1}),
    "edge_time": Row(
        value="other",
        see=shape,
        base={"source": file("timed.csv"), "edge_time": "time", "edge_split": (2.0, 3.0), **ENDS},
    ),
    "message_edges": Row(value="train", see=shape, base={"train_edges": file("other.csv")}),
    "supervision": Row(value=0.5, see=links_of("train"), base={"seed": 1}),
    "leaks": "with refuse, the default, a leak ends the import: tests/unit/data/test_links.py",
    "train_edges": Row(value=file("other.csv"), see=links_of("train")),
    "valid_edges": Row(value=file("held.csv"), see=links_of("valid")),
    "test_edges": Row(value=file("held.csv"), see=links_of("test")),
    "valid_candidates": Row(
        value=file("row.npy"), see=links_of("valid_candidates"), base={"valid_edges": file("held.csv")}
    ),
    "test_candidates": Row(
        value=file("row.npy"), see=links_of("test_candidates"), base={"test_edges": file("held.csv")}
    ),
    "valid_negatives": Row(value=file("other.csv"), see=links_of("valid_negatives")),
    "test_negatives": Row(value=file("other.csv"), see=links_of("test_negatives")),
    "hard_negatives": Row(value=file("other.csv"), see=links_of("hard_negatives")),
    "num_vertices": Row(value=9, see=shape),
    "task": Row(value="regression", see=graph_of("labels"), base=LABELLED),
    "feature_dtype": Row(value="float16", see=graph_of("features"), base={"features": file("features.npy")}),
}


def words_of(flags: dict, *positional: str) -> list[str]:
    """Flags as they are typed."""
    words = [str(flags[name]) for name in positional]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if name in positional or value is False:
            words += ["--no-header"] * (name == "header")
            continue
        words.append(flag)
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return words


@pytest.fixture
def place(tmp_path):
    write_files(tmp_path)
    return tmp_path


def commands(monkeypatch) -> dict:
    """name -> function, as the command line has them."""
    found = {}
    with monkeypatch.context() as patch:
        patch.setattr(cli, "subcommand", lambda functions, *_, **__: found.update(functions))
        command([])
    return found


def imported(place: Path, number: int, **changes) -> Path:
    flags = {"source": place / "edges.csv", "out": place / f"store-{number}", **changes}
    command(["import", *words_of(flags, "source")])
    return flags["out"]


@pytest.mark.parametrize("flag", rows_of(IMPORT))
def test_the_flag_of_import_does_something(place, flag):
    row = IMPORT[flag]
    base, changed = row.values(flag, place)
    seen = row.see(imported(place, 0, **base))
    assert row.see(imported(place, 1, **base)) == seen  # or a difference would prove nothing
    assert row.see(imported(place, 2, **changed)) != seen


def test_rows_of_nobody(place):
    people = {name: value(place) if callable(value) else value for name, value in PEOPLE.items()}
    with pytest.raises(InputError, match=r"people\.csv, line 6: 9 is no id of the vertices 0 \.\. 3"):
        imported(place, 0, **{**people, "unknown": "refuse"})
    assert not (place / "store-0").exists()
    assert graph_of("features")(imported(place, 0, **people))[1] == [[13], [12], [0], [10]]


def test_keys_are_for_graphs_that_have_names_for_tensors(place):
    for key in ("feature_key", "label_key", "mask_key"):
        with pytest.raises(
            InputError, match=rf"--{key.replace('_', '-')} is for graphs of PyG and DGL, and .* is none"
        ):
            imported(place, 0, **{key: "f"})
    assert not (place / "store-0").exists()


def test_overwrite_replaces(place):
    before = shape(imported(place, 0))
    command(["export", str(place / "store-0"), "--to", "npz", "--out", str(place / "out.npz")])
    exported = (place / "out.npz").read_bytes()
    with pytest.raises(InputError, match="exists"):
        imported(place, 0, source=place / "other.csv")
    assert shape(place / "store-0") == before
    assert shape(imported(place, 0, source=place / "other.csv", overwrite=True)) != before
    again = ["export", str(place / "store-0"), "--to", "npz", "--out", str(place / "out.npz")]
    with pytest.raises(InputError, match="exists"):
        command(again)
    assert (place / "out.npz").read_bytes() == exported
    command([*again, "--overwrite"])
    assert (place / "out.npz").read_bytes() != exported


EXPORT: Table = {
    "path": Row(value=file("other"), see=arrays),
    "to": Row(value="pyg", see=lambda out: "data.pkl" in str(ZipFile(out).namelist())),
    "out": Row(value=file("elsewhere.npz"), see=lambda out: out.name == "elsewhere.npz"),
    "overwrite": "where a file is in --out it is refused or replaced: test_overwrite_replaces, above",
}


@pytest.mark.parametrize("flag", rows_of(EXPORT))
def test_the_flag_of_export_does_something(tmp_path, flag):
    for name, n in (("store", 30), ("other", 40)):
        write_store(tmp_path / name, random_graph(n, 3), name=name, source="test")

    def run(**changes):
        name = "graph.pt" if changes.get("to") == "pyg" else "graph.npz"
        flags = {"path": tmp_path / "store", "to": "npz", "out": tmp_path / name, "overwrite": True, **changes}
        command(["export", *words_of(flags, "path")])
        return flags["out"]

    row = EXPORT[flag]
    base, changed = row.values(flag, tmp_path)
    seen = row.see(run(**base))
    assert row.see(run(**base)) == seen
    assert row.see(run(**changed)) != seen


INFO: Table = {
    "path": Row(value=lambda place: place / "store", see=lambda printed: printed.split()[0]),
    "verify": Row(value=True, see=lambda printed: "verified" in printed),
    "store_dir": "it compares and says nothing where all is well: test_info_finds_damage_and_another_store, below",
    "html": Row(value=lambda place: place / "page.html", see=lambda printed: "page.html" in printed),
    "overwrite": "where a page is in --html it is refused or replaced: tests/unit/data/test_looking_page.py",
}


@pytest.fixture
def laid_out(tmp_path):
    opened = lay_out(random_graph(40, 4), tmp_path, parts=2)
    write_store(tmp_path / "other", random_graph(40, 4, seed=1), name="other", source="test")
    return opened.path


@pytest.mark.parametrize("flag", rows_of(INFO))
def test_the_flag_of_info_does_something(laid_out, capsys, flag):
    def run(**changes):
        capsys.readouterr()
        command(["info", *words_of({"path": laid_out, **changes}, "path")])
        return capsys.readouterr().out

    row = INFO[flag]
    base, changed = row.values(flag, laid_out.parent)
    assert row.see(run(**changed)) != row.see(run(**base))


def test_info_finds_damage_and_another_store(laid_out):
    command(["info", str(laid_out), "--store-dir", str(laid_out.parent / "store"), "--verify"])
    with pytest.raises(InputError, match="made from another store"):
        command(["info", str(laid_out), "--store-dir", str(laid_out.parent / "other")])
    features = laid_out / "features.npy"
    content = bytearray(features.read_bytes())
    content[-1] ^= 1
    features.write_bytes(content)
    command(["info", str(laid_out)])
    with pytest.raises(InputError, match="damaged"):
        command(["info", str(laid_out), "--verify"])


def test_the_tables_are_complete(monkeypatch):
    found = commands(monkeypatch)
    tables = {"import": IMPORT, "export": EXPORT, "info": INFO}
    assert found.keys() == tables.keys()
    for name, table in tables.items():
        assert_complete(table, found[name])


def test_info_says_where_a_graph_has_no_labels(tmp_path, laid_out, capsys):
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n")
    command(["import", str(tmp_path / "edges.csv"), "--out", str(tmp_path / "unlabelled")])
    capsys.readouterr()
    command(["info", str(tmp_path / "unlabelled")])
    assert "; no labels\n" in capsys.readouterr().out
    command(["info", str(laid_out)])
    assert "; multi-class labels\n" in capsys.readouterr().out
