"""Repeated edges: each rule against pandas, from every kind of source, at once and in steps; what steps cannot do."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from support.libraries import needs_dgl
from support.messages import says
from torch_geometric.data import Data

import gsplit
from gsplit import import_graph
from gsplit.data import adjacency, open_store
from gsplit.errors import InputError

RULES = ("first", "sum", "mean", "max", "last", "count")
OLD_WORDS = {"drop": "first"}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch, tmp_path):
    """Several buckets, several pieces, and a folder of its own."""
    monkeypatch.setattr(adjacency, "BUCKET_EDGES", 40)
    monkeypatch.setattr(adjacency, "EDGES_AT_ONCE", 50)
    monkeypatch.chdir(tmp_path)


def edges_of(count: int, seed: int, n: int = 9) -> pd.DataFrame:
    """Edges between n vertices, most of them several times, with amounts that cancel."""
    random = np.random.default_rng(seed)
    ends = random.integers(0, n, (count, 2))
    ends[0] = n - 1  # there are n vertices
    amounts = np.where(random.random(count) < 0.2, 1e6, 0.01) * random.choice([-1, 1], count)
    return pd.DataFrame({"src": ends[:, 0], "dst": ends[:, 1], "weight": amounts + random.random(count)})


def combined(edges: pd.DataFrame, rule: str) -> pd.DataFrame:
    """One row for each edge that there is, in the order in which they first appear, as pandas says."""
    rule = OLD_WORDS.get(rule, rule)
    weights = edges if "weight" in edges else edges.assign(weight=1.0)
    return weights.groupby(["src", "dst"], sort=False)["weight"].agg(rule).reset_index()


def reversed_too(edges: pd.DataFrame) -> pd.DataFrame:
    """The edges, and after them the reverse of each that is lacking."""
    turned = edges.rename(columns={"src": "dst", "dst": "src"})[list(edges)]
    both = pd.concat([edges, turned[turned.src != turned.dst]])
    return both.drop_duplicates(["src", "dst"], keep="first")


def assert_is(graph, edges: pd.DataFrame) -> None:
    """The graph has these edges and weights, to the last bit of float32, neighbours in this order."""
    wanted = edges.sort_values("dst", kind="stable")
    assert graph.indices.tolist() == wanted.src.tolist()
    degrees = np.bincount(wanted.dst, minlength=graph.num_vertices)
    assert np.diff(graph.indptr).tolist() == degrees.tolist()
    assert graph.edge_weight.dtype == np.float32
    np.testing.assert_array_equal(graph.edge_weight, wanted.weight.to_numpy().astype(np.float32))


def written(edges: pd.DataFrame, suffix: str, name: str = "e") -> Path:
    path = Path(f"{name}.{suffix}")
    edges.to_parquet(path) if suffix == "parquet" else edges.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("rule", [*RULES, "drop"])
def test_a_rule_is_that_of_pandas(rule, suffix, caplog):
    edges = edges_of(300, seed=1)
    with caplog.at_level(logging.INFO):
        store = import_graph(written(edges, suffix), "out", duplicates=rule)
    wanted = combined(edges, rule)
    assert_is(store.graph, wanted)
    says(caplog.text, f"e.{suffix}, {300 - len(wanted)}, --duplicates")
    assert store.description["edges"]["repeated"] == 300 - len(wanted)
    named = import_graph(written(edges, suffix), "named", duplicates=rule, ids="any", id_order="sorted").graph
    assert_is(named, wanted)


@pytest.mark.parametrize("rule", RULES)
def test_without_weights_an_edge_counts_1(rule):
    edges = edges_of(200, seed=2)[["src", "dst"]]
    graph = import_graph(written(edges, "csv"), "out", duplicates=rule).graph
    wanted = combined(edges, rule)
    if rule in ("sum", "count"):
        assert_is(graph, wanted)
    else:
        assert graph.edge_weight is None
        assert graph.indices.tolist() == wanted.sort_values("dst", kind="stable").src.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_reverses_are_of_combined_edges_and_what_is_there_stays(rule):
    edges = edges_of(60, seed=3)
    graph = import_graph(written(edges, "csv"), "out", duplicates=rule, undirected=True).graph
    assert_is(graph, reversed_too(combined(edges, rule)))


@pytest.mark.parametrize("rule", RULES)
def test_loops_are_dropped_before_and_added_after(rule):
    edges = edges_of(100, seed=4)
    path = written(edges, "csv")
    dropped = import_graph(path, "dropped", duplicates=rule, self_loops="drop").graph
    assert_is(dropped, combined(edges[edges.src != edges.dst], rule))
    wanted = combined(edges, rule)
    lacking = sorted(set(range(9)) - set(wanted.src[wanted.src == wanted.dst]))
    loops = pd.DataFrame({"src": lacking, "dst": lacking, "weight": 1.0})
    added = import_graph(path, "added", duplicates=rule, self_loops="add").graph
    assert lacking
    assert_is(added, pd.concat([wanted, loops]))


def from_pyg(edges, weight, **options):
    return gsplit.from_pyg(Data(edge_index=torch.tensor(edges), edge_weight=torch.tensor(weight)), **options)


def from_dgl(edges, weight, **options):
    import dgl

    graph = dgl.graph(tuple(torch.tensor(edges)))
    graph.edata["w"] = torch.tensor(weight)
    return gsplit.from_dgl(graph, **options)


def from_arrays(edges, weight, **options):
    return gsplit.from_arrays(edges, edge_weight=weight, **options)


def from_numpy(edges, weight, **options):
    Path("arrays").mkdir()
    for name, array in (("src", edges[0]), ("dst", edges[1]), ("edge_weight", weight)):
        np.save(f"arrays/{name}.npy", array)
    return import_graph("arrays", "out", **options)


def from_matrix(edges, weight, **options):
    scipy.sparse.save_npz("m.npz", scipy.sparse.coo_array((weight, tuple(edges)), shape=(9, 9)))
    return import_graph("m.npz", "out", **options)


def from_npz(edges, weight, **options):
    order = np.argsort(edges[1], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(edges[1], minlength=9))])
    np.savez("g.npz", indptr=indptr, indices=edges[0][order], edge_weight=weight[order].astype(np.float32))
    return import_graph("npz:g.npz", "out", **options)


SOURCES = (from_pyg, pytest.param(from_dgl, marks=needs_dgl), from_arrays, from_numpy, from_matrix, from_npz)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rule", ["sum", "max"])
def test_every_kind_of_source_takes_a_rule(source, rule):
    edges = edges_of(100, seed=5)
    if source is from_npz:
        edges.weight = edges.weight.astype(np.float32).astype(float)
    store = source(edges[["src", "dst"]].to_numpy().T.copy(), edges.weight.to_numpy(), duplicates=rule)
    assert_is(store.graph, combined(edges, rule))


STEPS = [
    ("first", True),
    ("sum", True),
    ("sum", False),
    ("max", True),
    ("last", True),
    ("count", True),
    ("count", False),
    ("mean", False),
]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(("rule", "weighted"), STEPS)
def test_steps_are_the_same_as_all_at_once(rule, weighted, suffix):
    edges = edges_of(120, seed=6).assign(weight=lambda each: each.weight.round())  # sums that float32 holds
    edges.weight = edges.weight.clip(-1000, 1000)
    if not weighted:
        edges = edges[["src", "dst"]]
    once = import_graph(written(edges, suffix), "once", duplicates=rule)
    if weighted or rule in ("sum", "count"):
        assert_is(once.graph, combined(edges, rule))
    store = import_graph(written(edges[:50], suffix), "0", duplicates=rule)
    for step, rows in enumerate((edges[50:90], edges[90:]), 1):
        store = import_graph(store, str(step), add=written(rows, suffix, f"e{step}"), duplicates=rule)
    assert store.checksum == once.checksum
    assert store.description["edges"] == once.description["edges"]


PLAIN = "src,dst,weight\n0,1,2\n1,2,3\n"
TWICE = PLAIN + "0,1,5\n"
NEW = "src,dst,weight\n0,1,4\n"
# options of a store of edges, and of edges that are added; what the message says
NOT_IN_STEPS = {
    "a mean that was taken": (TWICE, {"duplicates": "mean"}, {"duplicates": "mean"}, "mean, 1"),
    "a sum after the first": (TWICE, {}, {"duplicates": "sum"}, "--duplicates first, sum"),
    "a count after a sum": (TWICE, {"duplicates": "sum"}, {"duplicates": "count"}, "--duplicates sum, count"),
    "the first after a sum": (TWICE, {"duplicates": "sum"}, {}, "--duplicates sum, first"),
    "a sum after a count": (PLAIN, {"duplicates": "count"}, {"duplicates": "sum"}, "--duplicates count, sum"),
    "refused after the first": (TWICE, {}, {"duplicates": "refuse"}, "--duplicates first, refuse"),
}


@pytest.mark.parametrize(("old", "made", "added", "parts"), NOT_IN_STEPS.values(), ids=NOT_IN_STEPS)
def test_what_steps_cannot_tell_is_refused(old, made, added, parts):
    Path("old.csv").write_text(old)
    Path("new.csv").write_text(NEW)
    import_graph("old.csv", "first", **made)
    with pytest.raises(InputError) as caught:
        import_graph("first", "second", add="new.csv", **added)
    says(caught.value, parts, "first", "without --add")
    assert not Path("second").exists()


def test_edges_that_were_kept_or_stood_once_can_be_combined_later():
    Path("new.csv").write_text(NEW)
    for name, text, made in (("kept", TWICE, {"duplicates": "keep"}), ("once", PLAIN, {"duplicates": "max"})):
        Path("old.csv").write_text(text)
        import_graph("old.csv", name, **made)
        for rule, weight in (("sum", 11 if name == "kept" else 6), ("count", 3 if name == "kept" else 2)):
            graph = import_graph(name, f"{name}-{rule}", add="new.csv", duplicates=rule).graph
            assert graph.edge_weight.tolist() == [weight, 3 if rule == "sum" else 1]


def test_a_store_that_does_not_say_what_became_of_its_edges():
    Path("new.csv").write_text("src,dst,weight\n0,1,4\n")
    graph = gsplit.from_arrays([[0], [1]], edge_weight=[2.0], duplicates="keep").graph
    gsplit.data.write_store("bare", graph, name="bare", source="test")
    assert import_graph("bare", "grown", add="new.csv").graph.edge_weight.tolist() == [2]
    with pytest.raises(InputError) as caught:
        import_graph("bare", "second", add="new.csv", duplicates="sum")
    says(caught.value, "bare, sum, without --add")


def test_a_copy_remembers_what_became_of_edges():
    Path("old.csv").write_text(TWICE)
    import_graph("old.csv", "first", duplicates="sum")
    copy = import_graph("first", "copy")
    assert copy.description["edges"] == open_store("first").description["edges"]
    kept = import_graph("old.csv", "kept", duplicates="keep")
    assert import_graph(kept, "summed", duplicates="sum").graph.edge_weight.tolist() == [7, 3]


def test_counts_of_a_store_are_not_counted_again():
    Path("old.csv").write_text(TWICE)
    counted = import_graph("old.csv", "counted", duplicates="count")
    assert counted.graph.edge_weight.max() == 2
    for rule in ("count", None):
        again = import_graph(counted, f"again-{rule}", duplicates=rule)
        assert again.graph.edge_weight.tolist() == counted.graph.edge_weight.tolist()
        assert again.description["edges"]["duplicates"] == "count"
    with pytest.raises(InputError) as caught:
        import_graph(counted, "summed", duplicates="sum")
    says(caught.value, "--duplicates count, sum, counted")


def test_edges_that_were_left_out_once_are_not_summed_later():
    Path("old.csv").write_text(TWICE)
    Path("new.csv").write_text(TWICE)
    import_graph("old.csv", "first")
    import_graph("first", "kept", add="new.csv", duplicates="keep")
    with pytest.raises(InputError) as caught:
        import_graph("kept", "summed", add="new.csv", duplicates="sum")
    says(caught.value, "--duplicates first, sum, kept")


def test_refused_edges_are_named_by_their_lines():
    rows = [*((f"a{at}", f"b{at}") for at in range(60)), ("x", "y"), ("a7", "b7"), ("x", "y")]
    named = pd.DataFrame(rows, columns=["src", "dst"])
    with pytest.raises(InputError) as caught:
        import_graph(written(named, "csv"), "out", duplicates="refuse", ids="any")
    says(caught.value, "e.csv, line 63, 'a7' -> 'b7', line 9, 1 more")
    whole = pd.DataFrame({"src": [0, 1, 0], "dst": [1, 2, 1]})
    with pytest.raises(InputError) as caught:
        import_graph(written(whole, "parquet"), "out", duplicates="refuse")
    says(caught.value, "e.parquet, row 2, 0 -> 1, row 0")
    import_graph(written(whole[:2], "csv"), "first", duplicates="refuse")
    with pytest.raises(InputError) as caught:
        import_graph("first", "second", add=written(whole[2:], "csv", "new"), duplicates="refuse")
    says(caught.value, "new.csv, line 2, 0 -> 1, edge 0")
    assert not Path("out").exists()
    assert not Path("second").exists()


def test_kept_edges_are_counted(caplog):
    Path("e.csv").write_text(TWICE)
    with caplog.at_level(logging.INFO):
        assert import_graph("e.csv", "out", duplicates="keep").graph.num_edges == 3
    says(caplog.text, "e.csv, 1, kept")


def test_a_sum_beyond_float32_is_refused():
    Path("e.csv").write_text("src,dst,weight\n0,1,3e38\n1,1,1\n0,1,3e38\n")
    with pytest.raises(InputError) as caught:
        import_graph("e.csv", "out", duplicates="sum")
    says(caught.value, "e.csv, 0 -> 1, float32")
    Path("e.csv").write_text("src,dst,weight\n0,1,1\n1,2,1e39\n")
    with pytest.raises(InputError) as caught:
        import_graph("e.csv", "out", duplicates="mean")
    says(caught.value, "e.csv, line 3, 1e+39, float32")


# Edges of a store, flags of both steps, edges that are added, and the rows of the graph.
@pytest.mark.parametrize(
    ("old", "flags", "new", "wanted"),
    [
        ([(0, 1, 2)], {"undirected": True}, [(1, 0, 5), (1, 2, 7)], [[(1, 5)], [(0, 2), (2, 7)], [(1, 7)]]),
        ([(0, 1, 2.5)], {"undirected": True}, [(2, 0, 1)], [[(2, 1), (1, 2.5)], [(0, 2.5)], [(0, 1)]]),
        ([(0, 1, 2)], {"self_loops": "add"}, [(1, 1, 5), (0, 0, 3)], [[(0, 3)], [(0, 2), (1, 5)]]),
        (
            [(0, 1, 2)],
            {"self_loops": "add", "duplicates": "keep"},
            [(1, 1, 5), (1, 1, 6)],
            [[(0, 1)], [(0, 2), (1, 5), (1, 6)]],
        ),
        ([(0, 1, 2)], {}, [(0, 1, 5)], [[], [(0, 2)]]),
        # both directions come as often as the more frequent one, and the weights are those that all at once have
        (
            [(0, 1, 2), (0, 1, 3)],
            {"undirected": True, "duplicates": "keep"},
            [(1, 0, 5), (1, 0, 6), (1, 0, 7)],
            [[(1, 5), (1, 6), (1, 7)], [(0, 2), (0, 3), (0, 7)]],
        ),
    ],
)
def test_an_edge_of_a_later_step_has_its_own_weight(old, flags, new, wanted):
    columns = ["src", "dst", "weight"]
    store = import_graph(written(pd.DataFrame(old, columns=columns), "csv"), "old", **flags)
    grown = import_graph(store, "grown", add=written(pd.DataFrame(new, columns=columns), "csv", "new"), **flags)
    neighbours = list(zip(grown.graph.indices.tolist(), grown.graph.edge_weight.tolist(), strict=True))
    bounds = grown.graph.indptr.tolist()
    assert [neighbours[begin:end] for begin, end in itertools.pairwise(bounds)] == wanted
    assert import_graph(grown, "copy").checksum == grown.checksum


FLAGS = ({"undirected": True}, {"self_loops": "add"}, {"undirected": True, "self_loops": "add"})


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("rule", ["first", "sum", "max", "last", "count"])
def test_steps_with_added_edges_are_the_same_as_all_at_once(rule, flags):
    edges = edges_of(60, seed=8).assign(weight=lambda each: each.weight.round().clip(-1000, 1000))
    wanted = combined(edges, rule)
    if "undirected" in flags:
        wanted = reversed_too(wanted)
    if "self_loops" in flags:
        lacking = sorted(set(range(9)) - set(wanted.src[wanted.src == wanted.dst]))
        wanted = pd.concat([wanted, pd.DataFrame({"src": lacking, "dst": lacking, "weight": 1.0})])
    store = import_graph(written(edges[:20], "csv"), "0", duplicates=rule, **flags)
    for step, rows in enumerate((edges[20:40], edges[40:]), 1):
        store = import_graph(store, str(step), add=written(rows, "csv", f"e{step}"), duplicates=rule, **flags)
    graph = store.graph
    ends = np.repeat(np.arange(9), np.diff(graph.indptr)).tolist()
    assert sorted(zip(graph.indices.tolist(), ends, graph.edge_weight.tolist(), strict=True)) == sorted(
        wanted[["src", "dst", "weight"]].itertuples(index=False, name=None)
    )
    assert import_graph(store, "copy").checksum == store.checksum
    once = import_graph(written(edges, "csv"), "once", duplicates=rule, **flags)
    assert store.description["edges"] == once.description["edges"]


def test_what_was_added_stays_where_the_next_step_adds_nothing():
    store = import_graph(written(edges_of(1, 0)[:0], "csv"), "none", num_vertices=3, self_loops="add")
    Path("new.csv").write_text("src,dst,weight\n0,1,2\n0,0,7\n")
    graph = import_graph(store, "grown", add="new.csv").graph
    assert graph.indices.tolist() == [0, 0, 1, 2]
    assert graph.edge_weight.tolist() == [7, 2, 1, 1]


def test_stores_that_do_not_say_which_edges_were_added():
    store = import_graph(written(edges_of(20, 1), "csv"), "old", undirected=True)
    entry = store.description["arrays"].pop("added_degrees")
    assert entry["shape"] == [9]
    Path("old/graph.json").write_text(json.dumps(store.description))
    Path("new.csv").write_text(NEW)
    with pytest.raises(InputError) as caught:
        import_graph("old", "grown", add="new.csv")
    says(caught.value, "old, reverse edges, earlier release, without --add")


def test_a_store_that_says_that_more_edges_were_added_than_there_are():
    import_graph(written(edges_of(20, 1), "csv"), "old", undirected=True)
    degrees = np.load("old/added_degrees.npy")
    np.save("old/added_degrees.npy", degrees + 100)
    with pytest.raises(InputError) as caught:
        import_graph("old", "copy")
    says(caught.value, "old/added_degrees.npy, damaged")
