"""Random sets of tables: the store is what NumPy and pandas make of them, and three steps make what one does.

``GSPLIT_RANDOM_TABLES=1000:1500`` runs these seeds instead; a failure names its seed.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.random_tables import Column, Drawn, Table
from support.stores import assert_equal_graphs
from support.table_reference import adjacency, features_of, is_weighted, lacks_moments

import gsplit
from gsplit.errors import InputError

SEEDS = os.environ.get("GSPLIT_RANDOM_TABLES")
EACH_STEP = ("duplicates", "self_loops", "missing", "unknown", "undirected")
KEPT = ("quote", "strip", "gaps", "unlabelled")
"""Flags that a store keeps, and that may be said again."""
FIRST_STEP = ("ids", "feature_dtype", "source_prefix", "destination_prefix")


def seeds(count):
    return range(*map(int, SEEDS.split(":"))) if SEEDS else range(count)


class Files:
    """The files of a case in a folder."""

    def __init__(self, drawn, case, folder):
        self._drawn, self._case, self._folder, self._count = drawn, case, folder, 0
        there = len(case.ids)
        self._names = [*case.ids, *(f"stranger {at}" if case.named else str(there + at) for at in range(2))]

    def _write(self, header, columns):
        self._count += 1
        return self._drawn.write(self._folder / f"t{self._count}", header, columns)

    def _ids(self, vertices, side=None):
        texts = [self._names[v] for v in vertices]
        if side is not None:
            texts = [text.removeprefix(self._case.prefixes[side]) for text in texts]
        if self._case.named:
            return self._drawn.column_of("text", [self._drawn.padded(text, always=False) for text in texts])
        return self._drawn.column_of("whole", [int(text) for text in texts], texts)

    def edges(self, begin, end):
        case = self._case
        columns = [self._ids([edge[at] for edge in case.edges[begin:end]], at) for at in (0, 1)]
        header = list(case.ends)
        if case.weights is not None:
            weights = case.weights[begin:end]
            type_ = self._drawn.pick((pa.float32(), pa.float64(), pa.string()))
            header, columns = [*header, "weight"], [*columns, Column("number", weights, [*map(repr, weights)], type_)]
        return self._write(header, columns)

    def features(self, rows_of):
        """The tables of features, of the rows that ``rows_of(table)`` gives."""
        paths = []
        for table in self._case.features:
            rows = rows_of(table)
            columns = [
                Column(c.kind, [c.values[at] for _, at in rows], [c.texts[at] for _, at in rows], c.type)
                for c in table.columns.values()
            ]
            header = "id" if table.side is None else self._case.ends[table.side]
            paths.append(
                self._write([header, *table.columns], [self._ids([v for v, _ in rows], table.side), *columns])
            )
        return {"features": paths}

    def lists(self):
        """Lists of ids: vertices without edges, and perhaps the vertex sets."""
        case, found = self._case, {}
        if case.alone:
            found["vertices"] = case.alone
        if self._drawn.chance(0.3):
            for name in ("train", "valid", "test"):
                if ids := [case.ids[v] for v in sorted(case.sets) if case.sets[v] == name]:
                    found[name] = ids
        return {name: self._drawn.write_list(self._folder / f"{name}.txt", ids) for name, ids in found.items()}

    def labels_and_sets(self, vertices, *, sets=True):
        case, drawn, options = self._case, self._drawn, {}
        rows = [int(v) for v in drawn.random.permutation(vertices)]
        values = [case.labels.get(v) for v in rows]
        texts = [drawn.pick(drawn.label_gaps) if value is None else str(value) for value in values]
        type_ = drawn.pick((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())))
        lists = any(isinstance(value, list) for value in values)
        if lists and (drawn.chance(0.5) or case.options.get("quote") == "none"):
            options["label_separator"] = mark = drawn.pick("+/")
            texts = [text if value is None else mark.join(value) for value, text in zip(values, texts, strict=True)]
        elif any(isinstance(value, float) for value in values):
            type_ = drawn.pick((pa.float64(), pa.float32(), type_))
        elif not lists and all(isinstance(value, int | None) for value in values):
            type_ = drawn.pick((pa.int64(), pa.float64(), pa.int8(), type_))
        words = [case.sets.get(v) for v in rows]
        said = [drawn.pick(("", "none", "-")) if word is None else word for word in words]
        columns = [Column("text", values, texts, type_), Column("text", words, said, pa.string())]
        if not sets:
            return options | {"labels": self._write(["id", "y"], [self._ids(rows), columns[0]])}
        if drawn.chance(0.5):
            options |= {"labels": self._write(["id", "y", "set"], [self._ids(rows), *columns])}
            return options | {"label_column": "y", "split_column": "set"}
        options["labels"] = self._write(["id", "y"], [self._ids(rows), columns[0]])
        return options | {"split_file": self._write(["id", "set"], [self._ids(rows), columns[1]])}


def kinds_of(case, drawn):
    columns = {name: column for table in case.features for name, column in table.columns.items()}
    return {
        name: f"{column.kind}({column.form})" if column.form else column.kind
        for name, column in columns.items()
        if column.kind != "number" or drawn.chance(0.3)
    }


def imported(case, drawn, folder):
    files = Files(drawn, case, folder)
    rows = {id(table): list(zip(table.rows, range(len(table.rows)), strict=True)) for table in case.features}
    options = {**case.options, "columns": kinds_of(case, drawn)}
    options |= files.features(lambda table: rows[id(table)])
    options |= (lists := files.lists())
    options |= files.labels_and_sets(list(range(len(case.ids))), sets=not {"train", "valid", "test"} & {*lists})
    return gsplit.import_graph(files.edges(0, len(case.edges)), folder / "graph", **options)


def assert_as_expected(store, case):
    graph, wanted = store.graph, adjacency(case)
    n = len(case.ids)
    assert np.diff(graph.indptr).tolist() == [len(each) for each in wanted]
    assert graph.indices.tolist() == [u for each in wanted for u, _ in each]
    if not is_weighted(case):
        assert graph.edge_weight is None
    else:
        assert graph.edge_weight.tolist() == [np.float32(w) for each in wanted for _, w in each]
    features = features_of(case)
    assert graph.features.dtype == features.dtype
    # What is left of a value less the mean of its equals is some 1e-17 or nothing.
    ours, theirs = (np.where(np.abs(each) < 1e-9, 0, each) for each in (graph.features, features))
    if features.dtype == np.float32:
        np.testing.assert_array_equal(ours, theirs)
    else:  # sums of doubles are rounded
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    if case.named:
        assert [str(id_) for id_ in store.ids().columns()[0][1]] == case.ids
    kinds = {type(value) for value in case.labels.values()}
    if graph.regression:
        np.testing.assert_array_equal(graph.labels[:, 0], [case.labels.get(v, np.nan) for v in range(n)])
    elif kinds == {int}:
        assert graph.labels.tolist() == [case.labels.get(v, -1) for v in range(n)]
        assert graph.num_classes == max(case.labels.values()) + 1
    else:
        lists = {v: value if isinstance(value, list) else [value] for v, value in case.labels.items()}
        names = sorted({name for each in lists.values() for name in each})
        assert graph.classes == tuple(names)
        marks = np.array([[float(name in lists[v]) if v in lists else np.nan for name in names] for v in range(n)])
        if kinds == {str}:
            marks = np.where(np.isnan(marks[:, 0]), -1, np.nan_to_num(marks).argmax(axis=1))
        np.testing.assert_array_equal(graph.labels, marks)
    for name in ("train", "valid", "test"):
        in_set = [v for v in range(n) if case.sets.get(v) == name]
        assert getattr(graph, f"{name}_idx").tolist() == in_set


@pytest.mark.cases(24)
@pytest.mark.parametrize("seed", seeds(400))
def test_as_pandas(tmp_path, seed):
    drawn = Drawn(seed)
    case = drawn.case()
    if lacks_moments(case):
        with pytest.raises(InputError, match="no value of any"):
            imported(case, drawn, tmp_path)
        return
    assert_as_expected(imported(case, drawn, tmp_path), case)


@pytest.mark.cases(8)
@pytest.mark.parametrize("seed", seeds(100))
def test_three_steps_are_one(tmp_path, seed):
    drawn = Drawn(seed, steps=True)
    case = drawn.case()
    (tmp_path / "once").mkdir()
    once = imported(case, drawn, tmp_path / "once")
    assert_as_expected(once, case)
    files, grown = Files(drawn, case, tmp_path), None
    count, known = len(case.edges), 0
    for step, (begin, end) in enumerate(((0, count // 3), (count // 3, count // 2), (count // 2, count))):
        bound = 1 + max(max(edge) for edge in case.edges[:end])
        bound = max(bound, 3)
        new, known = list(range(known, bound)), bound
        options = {key: case.options[key] for key in EACH_STEP}
        if grown is None or drawn.chance(0.3):
            options |= {key: case.options[key] for key in KEPT if key in case.options}
        options["num_vertices"] = None if case.named else bound
        options |= files.features(lambda table, new=new, step=step: _rows(table, new, step, drawn))
        if any(v in case.labels for v in new):
            options |= files.labels_and_sets(new)
        else:
            options.pop("unlabelled", None)
        edges = files.edges(begin, end)
        if grown is None:
            options |= {key: case.options[key] for key in FIRST_STEP if key in case.options}
            grown = gsplit.import_graph(edges, tmp_path / "g0", columns=kinds_of(case, drawn), **options)
        else:
            grown = gsplit.import_graph(grown.path, tmp_path / f"g{step}", add=edges, **options)
    adds = case.options["undirected"] or case.options["self_loops"] == "add"  # edges that stand in another order then
    assert_equal_graphs(*(in_order(store.graph) if adds else store.graph for store in (grown, once)))
    assert grown.graph.classes == once.graph.classes


def in_order(graph):
    """The graph with the in-neighbours of each vertex in the order of their ids."""
    order = np.lexsort((graph.indices, np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))))
    weight = None if graph.edge_weight is None else graph.edge_weight[order]
    return replace(graph, indices=graph.indices[order], edge_weight=weight)


def _rows(table: Table, new, step, drawn):
    """Vertex and row of a step: new vertices, at first with the values of others, which the last step replaces."""
    own = [(v, at) for at, v in enumerate(table.rows) if v in new]
    if step == 0:
        of_three = [at for at, v in enumerate(table.rows) if v < 3]
        return [(v, drawn.pick(of_three) if v >= 3 else at) for v, at in own]
    if step == 2:
        own += [(v, at) for at, v in enumerate(table.rows) if v >= 3 and (v, at) not in own]
    return own
