"""Layouts of several types: every array in its place, cells even in each type, quality counted, refusals."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from support.typed_graphs import academic, edges_by_relation, random_typed_graph

import gsplit
from gsplit.config.partition import Training
from gsplit.data import TypedLayout, open_layout, open_store, write_store
from gsplit.data.__main__ import command as info
from gsplit.data.synthetic import TYPED, choose
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition
from gsplit.partition.__main__ import command as report
from gsplit.partition.even_types import even_types
from gsplit.partition.problem import Problem
from gsplit.partition.report import measure
from gsplit.sampling import EpochPlan, RelationEdges, TypedSampler, TypeInParts


def laid_out(folder, graph, parts, method="random", **options) -> TypedLayout:
    write_store(folder / "store", graph, name="g", source="test")
    partition(PartitionConfig(store=folder / "store", out=folder / "layout", parts=parts, method=method, **options))
    layout = open_layout(folder / "layout", verify=True, typed=True)
    assert isinstance(layout, TypedLayout)
    return layout


def parts_of(layout) -> list[np.ndarray]:
    """The part of each vertex by type, in global ids."""
    found = []
    for offsets, permutation in zip(layout.offsets_by_type, layout.permutations, strict=True):
        part = np.empty(len(permutation), np.int64)
        part[permutation] = np.repeat(np.arange(layout.parts), np.diff(offsets))
        found.append(part)
    return found


@pytest.mark.parametrize(
    ("seed", "types", "relations", "parts", "method"),
    [
        (0, 3, 4, 2, "metis"),
        (1, 5, 8, 3, "random"),
        (2, 2, 3, 4, "deal"),
        (3, 1, 2, 2, "range"),
        (4, 4, 5, 1, "metis"),
    ],
)
def test_a_layout_is_the_store_in_another_order(seed, types, relations, parts, method, tmp_path):
    graph = random_typed_graph(types, relations, seed=seed, weighted=seed % 2 == 0, empty_type=seed in (1, 2))
    layout = laid_out(tmp_path, graph, parts, method)
    new = layout.graph
    assert new.schema == graph.schema
    for t, order in enumerate(layout.permutations):
        assert sorted(order.tolist()) == list(range(graph.schema.types[t].num_vertices))
        if graph.features_by_type[t] is not None:
            np.testing.assert_array_equal(new.features_by_type[t], graph.features_by_type[t][order])
    target = layout.permutations[graph.target]
    np.testing.assert_array_equal(new.labels, graph.labels[target])
    for name in ("train", "valid", "test"):
        assert sorted(target[new.vertex_set(name)].tolist()) == sorted(graph.vertex_set(name).tolist())
    for r, (edges, own) in enumerate(zip(new.adjacencies, graph.adjacencies, strict=True)):
        source, to = (layout.permutations[each] for each in graph.schema.ends(r))
        for v in range(len(to)):  # neighbours keep the store's order
            here = slice(*edges.indptr[v : v + 2])
            there = slice(*own.indptr[to[v] : to[v] + 2])
            np.testing.assert_array_equal(source[edges.indices[here]], own.indices[there])
            if own.edge_weight is not None:
                np.testing.assert_array_equal(edges.edge_weight[here], own.edge_weight[there])


def test_vertices_of_a_cell_stand_by_heat_over_all_relations(tmp_path):
    graph = random_typed_graph(3, 6, seed=5)
    layout = laid_out(tmp_path, graph, 3)
    for t, (offsets, permutation) in enumerate(zip(layout.offsets_by_type, layout.permutations, strict=True)):
        out = np.zeros(len(permutation), np.int64)
        for r, each in enumerate(graph.adjacencies):
            if graph.schema.ends(r)[0] == t:
                out += np.bincount(each.indices, minlength=len(out))
        for begin, end in itertools.pairwise(offsets):
            assert (np.diff(out[permutation[begin:end]]) <= 0).all()


def test_quality_is_counted_by_type_and_relation(tmp_path):
    graph = random_typed_graph(3, 5, seed=6)
    layout = laid_out(tmp_path, graph, 3)
    part, quality = parts_of(layout), layout.description["quality"]
    cuts = {}
    for r, (name, edges) in enumerate(edges_by_relation(graph).items()):
        source, to = graph.schema.ends(r)
        cuts[name] = sum(part[source][u] != part[to][v] for u, v in edges)
        assert quality["relations"][name] == {
            "edge_cut": cuts[name],
            "local_edges": 1 - cuts[name] / len(edges) if edges else 1.0,
        }
    assert quality["edge_cut"] == sum(cuts.values())
    for each, own in zip(graph.schema.types, part, strict=True):
        assert quality["types"][each.name]["vertices_per_part"] == np.bincount(own, minlength=3).tolist()
    assert quality["vertices_per_part"] == np.bincount(np.concatenate(part), minlength=3).tolist()
    assert quality["train_targets_per_part"] == np.bincount(part[0][graph.train_idx], minlength=3).tolist()


@pytest.fixture(scope="module")
def mag():
    return choose("mag?scale=0.008", TYPED).generate(features=False)


def uneven(mag, parts):
    """The joint problem of a graph, and parts that are as even as one type alone lets them be."""
    begins = np.cumsum([0, *(each.num_vertices for each in mag.schema.types)])
    n = int(begins[-1])
    part = (np.arange(n) * parts // n).astype(np.int32)  # papers in the first parts, authors in the last
    return Problem(graph=mag.joint(), parts=parts, type_begins=begins), part


@pytest.mark.parametrize(("parts", "bound"), [(2, 1.2), (4, 1.2), (4, 1.0), (3, 1.05)])
def test_no_cell_is_above_the_bound(mag, parts, bound):
    problem, part = uneven(mag, parts)
    before = part.copy()
    made = even_types(problem, part, bound, mag.schema.type_names)
    np.testing.assert_array_equal(part, before)
    for each, begin, end in zip(
        mag.schema.types, problem.type_begins[:-1].tolist(), problem.type_begins[1:].tolist(), strict=True
    ):
        cells = np.bincount(made[begin:end], minlength=parts)
        if each.num_vertices < 100 * parts:
            np.testing.assert_array_equal(made[begin:end], part[begin:end])  # institutions
        else:
            assert cells.max() <= max(bound * cells.mean(), np.ceil(cells.mean()))


def test_vertices_that_lose_least_move():
    # t0: two cliques of 200 and 100 and 100 alone; parts 0, 1: a cell of 300 gives the lonely 100 away
    n = 400
    indptr = np.zeros(n + 1, np.int64)
    rows = [np.delete(np.arange(200), v) for v in range(200)]
    rows += [200 + np.delete(np.arange(100), v) for v in range(100)] + [np.empty(0, np.int64)] * 100
    indptr[1:] = np.cumsum([len(row) for row in rows])
    graph = random_typed_graph(1, 1).joint()
    graph = type(graph)(
        **{
            **vars(graph),
            "indptr": indptr,
            "indices": np.concatenate(rows).astype(np.int32),
            "labels": np.full(n, -1),
            **dict.fromkeys(("train_idx", "valid_idx", "test_idx"), np.empty(0, np.int64)),
        }
    )
    part = np.repeat([0, 1, 0], [200, 100, 100]).astype(np.int32)
    made = even_types(Problem(graph=graph, parts=2, type_begins=np.array([0, n])), part, 1.0, ["t"])
    assert made.tolist() == np.repeat([0, 1, 1], [200, 100, 100]).tolist()


def test_even_types_is_done_and_said(mag, tmp_path, caplog):
    layout = laid_out(tmp_path, mag, 4, "range", even_types=1.1)
    quality = layout.description["quality"]["types"]
    assert quality["author"]["balance_vertices"] <= 1.1
    assert layout.description["even_types"] == 1.1
    assert "even types" in layout.description["stages"]
    assert repr(layout).startswith("<TypedLayout g (")


def test_presampled_parts_are_even_and_ordered_by_how_often_rows_are_loaded(mag, tmp_path):
    layout = laid_out(
        tmp_path, mag, 2, "metis", weights="presample", fan_out=(4, 4), batch_size=500, presample_epochs=1, threads=1
    )
    about = layout.description
    assert about["presample"]["edges"] > 0
    assert all(
        about["quality"]["types"][name]["balance_vertices"] <= 1.2 for name in ("paper", "author", "field_of_study")
    )
    assert about["hotness"] == "presample"


def test_a_report_counts_by_type_and_relation(mag, tmp_path, capsys):
    layout = laid_out(tmp_path, mag, 3, "metis")
    training = Training(fan_out=(4, 3), batch_size=900)
    found = measure(layout, training, epochs=1, seed=2, threads=1)["sampled"]
    relations, ends = mag.schema.relations, [mag.schema.ends(number) for number in range(7)]
    sampler = TypedSampler(
        [
            RelationEdges(indptr=each.indptr, indices=each.indices, source=source, destination=to)
            for each, (source, to) in zip(layout.graph.adjacencies, ends, strict=True)
        ],
        [
            TypeInParts(offsets=[0, len(ids)], global_ids=ids)
            for ids in layout.permutations  # not split
        ],
        fan_outs=[[4] * 7, [3] * 7],
        seed=2,
    )
    plan = EpochPlan(layout.graph.train_idx, layout.permutations[0], 900, 2)
    part = [np.repeat(np.arange(3), np.diff(offsets)) for offsets in layout.offsets_by_type]
    edges, local, inputs, number = np.zeros(7, int), np.zeros(7, int), np.zeros((4, 3), int), 0
    for batch, targets in plan.batches(0):
        sampler.sample(targets, epoch=0, batch=batch)
        segment, number = sampler.segment(0), number + 1
        owner = [part[each][segment.vertices_of(each)] for each in range(4)]
        inputs += [np.bincount(of_type, minlength=3) for of_type in owner]
        for layer in (1, 2):
            for relation, (source, to) in enumerate(ends):
                degrees = np.diff(segment.indptr(layer, relation))
                edges[relation] += degrees.sum()
                rows = np.repeat(owner[to][: len(degrees)], degrees)
                local[relation] += (owner[source][segment.indices(layer, relation)] == rows).sum()
    assert found["iterations"] == number
    assert [found["relations"][str(each)]["edges"] for each in relations] == edges.tolist()
    assert edges[0] == 0  # institutions are three hops away
    shares = [1.0, *(local[1:] / edges[1:])]
    assert [found["relations"][str(each)]["local_edges"] for each in relations] == pytest.approx(shares)
    assert [of["inputs_per_iteration"] for of in found["types"].values()] == (inputs.sum(axis=1) / number).tolist()
    assert [of["balance_inputs"] for of in found["types"].values()] == pytest.approx(
        inputs.max(axis=1) / inputs.mean(axis=1)
    )
    assert found["local_edges"] == pytest.approx(local.sum() / edges.sum())
    report(["report", str(layout.path), "--out", str(tmp_path / "r"), "--fan-out", "2,2", "--batch-size", "1000"])
    printed = capsys.readouterr().out
    assert re.search(r"author +1\.\d{3} +1\.\d{3} +[\d,]+ +\d+\.\d %", printed)
    assert re.search(r"author__writes__paper +0\.\d{4} +0\.\d{4} +[\d,]+\n", printed)


def test_info_tells_types_and_relations(tmp_path, capsys):
    types, relations, beside = academic()
    store = gsplit.from_arrays(types, relations, **beside, out=tmp_path / "store")
    info(["info", str(store.path), "--verify"])
    printed = capsys.readouterr().out
    assert ", verified" in printed
    for line in (
        r"paper +4 +2 float32 +0",
        r"author +3 +2? ?3 float16 +1",
        r"place +2 +none +no path",
        r"author writes paper +3 +no +0\.8 +0\.5 +2 +2",
        r"author is at place +2 +no +1\.0 +1 +2 +1",
        r"! no path of relations leads from place to paper, which has the labels, so .* --reverse",
        r"labels: 2 classes, train/valid/test 2/0/1",
    ):
        assert re.search(line, printed), line
    partition(PartitionConfig(store=store.path, out=tmp_path / "layout", parts=2, method="range"))
    info(["info", str(tmp_path / "layout"), "--store-dir", str(store.path)])
    printed = capsys.readouterr().out
    assert re.search(r"paper +1\.000 +2, 2\n", printed)
    assert re.search(r"author__writes__paper +\d +\d\.\d{4}\n", printed)
    with pytest.raises(InputError, match="--html is for graphs of one type"):
        info(["info", str(store.path), "--html", str(tmp_path / "page.html")])


def test_from_python_a_hetero_graph_becomes_a_layout():
    store = gsplit.from_arrays(
        {"a": np.eye(8, dtype=np.float32), "b": 5},
        {("b", "to", "a"): [[0, 1, 2], [0, 1, 2]]},
        labels={"a": [0, 1] * 4},
        train=[0, 1],
    )
    with gsplit.partition(store, parts=2, method="random") as layout:
        assert layout.parts == 2
        assert len(layout.permutations[1]) == 5
        with pytest.raises(InputError, match="a layout of several types has no offsets"):
            layout.offsets.sum()


def test_what_takes_one_type_alone_refuses_a_layout_of_several(tmp_path):
    layout = laid_out(tmp_path, random_typed_graph(seed=8), 2)
    with pytest.raises(InputError, match=r"has several types of vertices, or relations \(t0, t1, t2\)"):
        gsplit.train(layout, gsplit.TrainConfig(epochs=1, model="gat", out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    for asked in (
        {"weights": "presample", "task": "links"},
        {"hotness": "presample", "sampling": "ladies", "layer_sizes": (5, 5)},
        {"method": str(tmp_path / "parts.npy")},
    ):
        with pytest.raises(InputError, match="has several types, and --"):
            partition(PartitionConfig(store=tmp_path / "store", out=tmp_path / "other", parts=2, **asked))
    assert not (tmp_path / "other").exists()


def test_damage_of_a_layout_is_found(tmp_path):
    laid_out(tmp_path, random_typed_graph(seed=9), 2)
    path = tmp_path / "layout" / "layout.json"
    whole = json.loads(path.read_text())
    for change in (
        {"offsets": whole["offsets"][:2]},
        {"offsets": [[0, 3], *whole["offsets"][1:]]},
        {"offsets": [whole["offsets"][0][::-1], *whole["offsets"][1:]]},
        {"quality": {**whole["quality"], "types": 3}},
        {"quality": {key: value for key, value in whole["quality"].items() if key != "types"}},
        {"quality": {**whole["quality"], "types": {key: {} for key in whole["quality"]["types"]}}},
        {"quality": {**whole["quality"], "relations": {"r": {"edge_cut": "x"}}}},
    ):
        path.write_text(json.dumps({**whole, **change}))
        with pytest.raises(InputError, match=r"layout\.json is damaged"):
            open_layout(tmp_path / "layout", typed=True)
    path.write_text(json.dumps(whole))
    permutation = np.load(tmp_path / "layout" / "permutation.1.npy")
    permutation[0] = permutation[1]
    np.save(tmp_path / "layout" / "permutation.1.npy", permutation)
    with pytest.raises(InputError, match=r"permutation\.1\.npy names a vertex twice"):
        open_layout(tmp_path / "layout", typed=True)
    assert open_store(tmp_path / "store", typed=True).graph.num_classes == 3
