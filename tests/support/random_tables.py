"""Random graphs in random tables, and the store that NumPy and pandas make of them.

N vertices, E edges. A value is None where there is none, whatever word stands for it in the file.
"""

from __future__ import annotations

import datetime
import gzip
import itertools
import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

GAPS = ("", "NA", "n/a", "NaN", "NULL", "None")
WORDS = ("a", "b b", "ü", 'q"uote', "x,y", "two\nlines", "semi;colon", "1", "07", "tab\tbed")
YES, NO = ("1", "true", "T", "yes", "Y"), ("0", "False", "f", "no", "N")
TIME_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S+00")
UTC = datetime.timezone.utc
WHOLE_TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.decimal128(20, 3))
FLOAT_TYPES = (pa.float32(), pa.float64())
TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
ZONES = (None, "UTC", "Asia/Kolkata")


@dataclass
class Column:
    """A column of a table: its values, texts for them, and a type of Parquet that holds them."""

    kind: str
    values: list[Any]
    texts: list[str]
    type: Any


@dataclass
class Table:
    """Rows of vertices, by number; those that are none of the graph's have numbers from N on."""

    rows: list[int]
    columns: dict[str, Column]


@dataclass
class Case:
    """A graph, the tables about it, and the options of its import."""

    ids: list[str]
    named: bool
    edges: list[tuple[int, int]]
    weights: list[float] | None
    features: list[Table]
    labels: dict[int, Any]
    """By vertex: a class by number or name, or a list of names."""
    sets: dict[int, str]
    options: dict[str, Any] = field(default_factory=dict)


class Drawn:
    """Random cases, and files of them.

    Args:
        seed: of all choices.
        steps: make cases that are the same when they are imported in steps.
    """

    def __init__(self, seed: int, *, steps: bool = False) -> None:
        self.random, self._steps = np.random.default_rng(seed), steps

    def chance(self, share: float) -> bool:
        """Return true in this share of the calls."""
        return bool(self.random.random() < share)

    def pick(self, values: Any) -> Any:
        """One of some values."""
        return values[self.random.integers(len(values))]

    def case(self) -> Case:
        """Draw a graph and its tables."""
        n, named = int(self.random.integers(4, 11)), self.chance(0.5)
        style = self.pick(("v {}, {}", "{}", '"{}"', "0{}", "ü{}")) if named else "{}"
        ids = [style.format(at * 7 if named else at, at) for at in range(n)]
        order = self.random.permutation(n)
        chain = [*itertools.pairwise(order), *self.random.integers(0, n, (2 * n, 2))]
        edges = [(int(u), int(v)) for u, v in chain]
        if named or self._steps:  # vertices are numbered as they appear
            number = {v: at for at, v in enumerate(dict.fromkeys(v for edge in edges for v in edge))}
            edges = [(number[u], number[v]) for u, v in edges]
        weights = [float(self.random.integers(1, 64)) / 8 for _ in edges] if self.chance(0.5) else None
        kind = self.pick(("numbers", "names", "lists")) if not self._steps else "numbers"
        labels: dict[int, Any] = {0: "a", 1: "b b"} if kind == "names" else {0: 0, 1: 1}
        if kind == "lists":
            labels = {0: ["a", "b"], 1: ["ü"]}
        for v in range(2, n):
            if self.chance(0.7):
                labels[v] = {
                    "numbers": int(self.random.integers(0, 4)),
                    "names": self.pick(WORDS[:5]),
                    "lists": self.random.permutation(["a", "b", "ü"])[: self.random.integers(1, 4)].tolist(),
                }[kind]
        sets = {v: self.pick(("train", "valid", "test")) for v in labels if self.chance(0.8)}
        features = [self._table(n, f"c{at}") for at in range(self.random.integers(1, 3))]
        options: dict[str, Any] = {
            "duplicates": self.pick(("drop", "keep")),
            "self_loops": self.pick(("keep", "drop") if self._steps else ("keep", "drop", "add")),
            "missing": "zero" if self._steps else self.pick(("zero", "mean")),
            "unknown": "drop",
            "ids": "any" if named else "whole",
            "num_vertices": None if named else n,
            "undirected": not self._steps and self.chance(0.5),
            "standardize": not self._steps and self.chance(0.5),
        }
        return Case(ids, named, edges, weights, features, labels, sets, options)

    def _table(self, n: int, prefix: str) -> Table:
        rows = [int(v) for v in self.random.permutation(n + 2) if v < 3 or self.chance(0.8)]
        kinds = [self.pick(("number", "number", "category", "code", "bool", "time", "skip")) for _ in range(3)]
        kinds += ["number"]  # one feature at least
        return Table(rows, {f"{prefix}{at}": self._column(kind, rows) for at, kind in enumerate(kinds)})

    def _column(self, kind: str, rows: list[int]) -> Column:
        gaps = [v > 2 and self.chance(0.2) for v in rows]  # some values stay, so that there is a mean
        draw = getattr(self, f"_{'category' if kind in ('code', 'skip') else kind}")
        values, texts, type_ = draw(len(rows))
        if self._steps and kind in ("category", "code"):  # a step may have no category of its own
            first = [at for at, v in enumerate(rows) if v < 3]
            kept = [at if v < 3 else self.pick(first) for at, v in enumerate(rows)]
            values, texts = [values[at] for at in kept], [texts[at] for at in kept]
        values = [None if gap else value for value, gap in zip(values, gaps, strict=True)]
        texts = [self.pick(GAPS) if gap else text for text, gap in zip(texts, gaps, strict=True)]
        return Column(kind, values, texts, type_)

    def _number(self, n: int) -> tuple[list[Any], list[str], Any]:
        style = self.random.integers(4)
        if style == 0:
            values = [float(value) for value in self.random.integers(0, 100, n)]
            return values, [str(int(value)) for value in values], self.pick((*WHOLE_TYPES, *FLOAT_TYPES, *TEXT_TYPES))
        if style == 1:
            values = [float(np.float32(value)) for value in self.random.normal(0, 10, n)]
            return values, [repr(value) for value in values], self.pick((*FLOAT_TYPES, *TEXT_TYPES))
        if style == 2:
            values = [float(value) for value in 4.5e6 + self.random.normal(0, 0.1, n)]
            return values, [repr(value) for value in values], self.pick((pa.float64(), *TEXT_TYPES))
        cents = [Decimal(int(value)) / 1000 for value in self.random.integers(-(10**9), 10**9, n)]
        types = (pa.float64(), pa.decimal128(20, 3), *TEXT_TYPES)
        return [float(value) for value in cents], [str(value) for value in cents], self.pick(types)

    def _category(self, n: int) -> tuple[list[Any], list[str], Any]:
        if self.chance(0.3):
            numbers = self.random.integers(0, 20, n) / self.pick((1, 2))
            values = [repr(float(value)) for value in numbers]
            return values, values, self.pick((pa.float64(), pa.float32(), *TEXT_TYPES))
        if self.chance(0.2):
            values = [str(value) for value in self.random.integers(0, 20, n)]
            return values, values, self.pick((pa.int8(), pa.uint64(), *TEXT_TYPES))
        values = [self.pick(WORDS) for _ in range(n)]
        return values, values, self.pick(TEXT_TYPES)

    def _bool(self, n: int) -> tuple[list[Any], list[str], Any]:
        values = [self.chance(0.5) for _ in range(n)]
        return values, [self.pick(YES if value else NO) for value in values], self.pick((pa.bool_(), *TEXT_TYPES))

    def _time(self, n: int) -> tuple[list[Any], list[str], Any]:
        seconds = self.random.integers(-(10**9), 2 * 10**9, n)
        values = [datetime.datetime.fromtimestamp(0, UTC) + datetime.timedelta(seconds=int(s)) for s in seconds]
        if self.chance(0.3):
            values = [value.replace(hour=0, minute=0, second=0) for value in values]
            return values, [f"{value:%Y-%m-%d}" for value in values], self.pick((pa.date32(), *TEXT_TYPES))
        types = [pa.timestamp(self.pick(("s", "ms", "us", "ns")), self.pick(ZONES)), *TEXT_TYPES]
        return values, [value.strftime(self.pick(TIME_FORMS)) for value in values], self.pick(types)

    def write(self, path: Path, header: list[str], columns: list[Column]) -> Path:
        """Write columns as text or Parquet, somehow; the path with the suffix that it got."""
        if self.chance(0.5):
            return self._write_parquet(path.with_suffix(".parquet"), header, columns)
        end, bom = self.pick(("\n", "\r\n")), self.pick(("", "\ufeff"))
        frame = pd.DataFrame({name: column.texts for name, column in zip(header, columns, strict=True)}, dtype=str)
        text = bom + frame.to_csv(
            index=False, sep=self.pick(",;\t"), lineterminator=end, quoting=self.pick((0, 1)), na_rep=""
        )
        zipped = self.chance(0.3)
        path = path.with_suffix(".csv.gz" if zipped else ".csv")
        path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
        return path

    def _write_parquet(self, path: Path, header: list[str], columns: list[Column]) -> Path:
        arrays = []
        for column in columns:
            type_ = column.type
            if type_ in TEXT_TYPES:
                texts = [None if text == "" and self.chance(0.5) else text for text in column.texts]
                arrays.append(pa.array(texts, pa.string()).cast(type_))
                continue
            arrays.append(_typed(column, type_))
        pq.write_table(pa.table(arrays, names=header), path)
        return path

    def column_of(self, kind: str, values: list[Any], texts: list[str] | None = None) -> Column:
        """A column of texts, or of whole numbers."""
        types = (pa.int64(), pa.float64(), pa.string()) if kind == "whole" else TEXT_TYPES
        return Column(kind, values, texts or [*map(str, values)], self.pick(types))


def _typed(column: Column, type_: Any) -> Any:
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        naive = [None if value is None else value.replace(tzinfo=None) for value in column.values]
        return pa.array(naive, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")).cast(type_)
    if pa.types.is_boolean(type_):
        return pa.array(column.values, type_)
    pairs = zip(column.values, column.texts, strict=True)
    values = [None if value is None else Decimal(text) for value, text in pairs]
    if pa.types.is_decimal(type_):
        return pa.array(values, type_)
    floats = pa.array([None if value is None else float(value) for value in values], pa.float64())
    if pa.types.is_float16(type_):
        half, gaps = np.array(floats.to_pylist(), np.float16), floats.is_null().to_numpy(zero_copy_only=False)
        return pa.array(half, mask=gaps)
    return floats.cast(type_)


def adjacency(case: Case) -> list[list[tuple[int, float]]]:
    """The in-neighbours of each vertex, with weights, in their order."""
    options, n = case.options, len(case.ids)
    weights = case.weights or [1.0] * len(case.edges)
    edges = [(u, v, w) for (u, v), w in zip(case.edges, weights, strict=True)]
    if options["self_loops"] == "drop":
        edges = [edge for edge in edges if edge[0] != edge[1]]
    if options["duplicates"] == "drop":
        edges = list({(u, v): (u, v, w) for u, v, w in reversed(edges)}.values())[::-1]
        first: dict[tuple[int, int], int] = {}
        for at, pair in enumerate(case.edges):
            first.setdefault(pair, at)
        edges.sort(key=lambda edge: first[edge[:2]])
    if options["undirected"]:
        there: dict[tuple[int, int], int] = {}
        for u, v, _ in edges:
            there[u, v] = there.get((u, v), 0) + 1
        met: dict[tuple[int, int], int] = {}
        for u, v, w in list(edges):
            met[u, v] = met.get((u, v), 0) + 1
            if u != v and met[u, v] > there.get((v, u), 0):
                edges.append((v, u, w))
    if options["self_loops"] == "add":
        looped = {u for u, v, _ in edges if u == v}
        edges += [(v, v, 1.0) for v in range(n) if v not in looped]
    return [[(u, w) for u, to, w in edges if to == v] for v in range(n)]


def features_of(case: Case) -> np.ndarray:
    """The features [N, D] as pandas makes them, in float32."""
    n, options = len(case.ids), case.options
    training = sorted(v for v, name in case.sets.items() if name == "train") or list(range(n))
    made = []
    for table in case.features:
        for column in table.columns.values():
            if column.kind != "skip":
                values = pd.Series(column.values, index=table.rows, dtype=object)
                made += _features(column, values, training, n, options)
    return np.stack(made, axis=1).astype(np.float32)


def _features(column: Column, values: pd.Series, training: list[int], n: int, options: dict) -> list[np.ndarray]:
    there = values.dropna()
    names = sorted(set(there)) if column.kind in ("category", "code") else []
    if column.kind == "category":
        each = [there.map(lambda value, name=name: float(value == name)) for name in names]
    elif column.kind == "code":
        each = [there.map(lambda value: names.index(value) + 1.0)]
    elif column.kind == "time":
        each = [there.map(lambda value: value.timestamp() / 86_400)]
    else:
        each = [there.map(float)]
    made = []
    for some in (series.astype(float).reindex(range(n)) for series in each):
        of_training = some.loc[training].dropna().tolist()
        mean = float(sum(map(Fraction, of_training)) / max(1, len(of_training)))
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in of_training) / max(1, len(of_training)))
        filled = some.fillna(mean if options["missing"] == "mean" and column.kind != "code" else 0.0).to_numpy()
        if options["standardize"] and column.kind in ("number", "time"):
            filled = (filled - mean) / (deviation if deviation > 1e-12 * abs(mean) else 1.0)
        made.append(filled)
    return made


def lacks_moments(case: Case) -> bool:
    """Return whether a mean is wanted of a column without a value among the training vertices."""
    training = {v for v, name in case.sets.items() if name == "train"} or set(range(len(case.ids)))
    options = case.options
    for table in case.features:
        for column in table.columns.values():
            takes = (options["missing"] == "mean" and column.kind not in ("code", "skip")) or (
                options["standardize"] and column.kind in ("number", "time")
            )
            there = {v for v, value in zip(table.rows, column.values, strict=True) if value is not None}
            if takes and not there & training:
                return True
    return False
