"""Random graphs in random tables, and the store that NumPy and pandas make of them.

N vertices, E edges. A value is None where there is none, whatever word stands for it in the file.
"""

from __future__ import annotations

import bz2
import datetime
import gzip
import itertools
import lzma
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from support.libraries import HAS_VIEWS

GAPS, OTHER_GAPS = ("", "NA", "n/a", "NaN", "NULL", "None"), ("", "-", "Missing", "-999")
WORDS = ("a", "b b", "ü", 'q"uote', "x,y", "two\nlines", "semi;colon", "1", "07", "tab\tbed")
YES, NO = ("1", "true", "T", "yes", "Y"), ("0", "False", "f", "no", "N")
DELIMITERS = ",;\t| \x01"
"""Delimiters of texts: the last is written as two colons."""
WITHOUT_QUOTES = ",\t|\x01"
"""Delimiters that no field holds where quotes are characters like others."""
RULES = ("first", "drop", "sum", "mean", "max", "last", "count", "keep")
PACKED = (bytes, bytes, gzip.compress, bz2.compress, lzma.compress, *(pa.Codec(c).compress for c in ("zstd", "lz4")))
TIME_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S+00")
UTC = datetime.timezone.utc
WHOLE_TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.decimal128(20, 3))
FLOAT_TYPES = (pa.float32(), pa.float64())
VIEWS = pa.string_view() if HAS_VIEWS else pa.string()
TEXT_TYPES = (pa.string(), pa.large_string(), VIEWS, pa.dictionary(pa.int32(), pa.string()))
ZONES = (None, "UTC", "Asia/Kolkata")


@dataclass
class Column:
    """A column of a table: its values, texts for them, and a type of Parquet that holds them."""

    kind: str
    values: list[Any]
    texts: list[str]
    type: Any
    form: str = ""
    """What stands in parentheses behind the kind."""


@dataclass
class Table:
    """Rows of vertices, by number; those that are none of the graph's have numbers from N on."""

    rows: list[int]
    columns: dict[str, Column]
    side: int | None = None
    """0 or 1 where all rows are sources or destinations, with ids without the prefix."""


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
    ends: tuple[str, str] = ("src", "dst")
    """Names of the columns of an edge."""
    prefixes: tuple[str, str] = ("", "")
    """Text before the ids of sources and destinations, which the columns of these names lack."""
    alone: list[str] = field(default_factory=list)
    """Ids of a list of vertices without edges."""

    @property
    def num_vertices(self) -> int:
        """N."""
        return len(self.ids)


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
        n, named = 2 * int(self.random.integers(2, 6)), self.chance(0.5)
        self._are_named = named
        self._rules = self._rules_of_texts()
        of_quotes = ("v {}, {}", '"{}"') if self._quote != "none" else ('"{}"',)
        style = self.pick(("{}", "0{}", "ü{}", *of_quotes)) if named else "{}"
        if prefixes := ("u:", "item ") if named and self.chance(0.3) else ():
            ids = [prefixes[at % 2] + style.format(at // 2, at) for at in range(n)]
        else:
            ids = [style.format(at * 7 if named else at, at) for at in range(n)]
        edges = self._edges(n, apart=bool(prefixes))
        order = list(dict.fromkeys(v for edge in edges for v in edge))
        if named or self._steps:  # vertices are numbered as they appear
            number = {v: at for at, v in enumerate(order)}
            edges = [(number[u], number[v]) for u, v in edges]
            ids = [ids[v] for v in order] if named else ids
        weights = [float(self.random.integers(1, 64)) / 8 for _ in edges] if self.chance(0.5) else None
        labels, kind = self._labels(n)
        sets = {v: self.pick(("train", "valid", "test")) for v in labels if self.chance(0.8)}
        adds = not self._steps and self.chance(0.3)
        sides = [at % 2 for at in order] if prefixes else None
        features = [self._table(n, f"c{at}", sides) for at in range(self.random.integers(1, 3))]
        alone = [f"alone {at}" for at in range(2)] if named and not self._steps and self.chance(0.3) else []
        ids += alone
        strangers = self._strangers(n, len(ids) if named else n, features)
        if adds:
            ids += [f"stranger {at}" for at in range(strangers)] if named else map(str, range(n, n + strangers))
        options: dict[str, Any] = {
            "duplicates": self.pick([rule for rule in RULES if not (self._steps and rule == "mean")]),
            "self_loops": self.pick(("keep", "drop", "add")),
            "missing": "zero" if self._steps else self.pick(("zero", "mean")),
            "unknown": "add" if adds else "drop",
            "ids": "any" if named else "whole",
            "num_vertices": None if named or adds else n,
            "undirected": self.chance(0.4),
            "standardize": not self._steps and self.chance(0.5),
            **self._rules,
        }
        if self.chance(0.3):
            options["feature_dtype"] = "float64"
        if kind == "targets":
            options["task"] = "regression"
        if prefixes:
            options |= dict(zip(("source_prefix", "destination_prefix"), prefixes, strict=True))
        ends = self.pick((("src", "dst"), ("from", "to"), ("u", "v")))
        return Case(ids, named, edges, weights, features, labels, sets, options, ends, prefixes or ("", ""), alone)

    def _rules_of_texts(self) -> dict[str, Any]:
        """Flags of how texts are read; what is drawn is written so."""
        rules: dict[str, Any] = {}
        self._quote = self.pick(('"', '"', "'", "none"))
        if self._quote != '"':
            rules["quote"] = self._quote
        self._words = [word for word in WORDS if self._quote != "none" or not set(word) & set(",;\t\n|")]
        self._gaps: tuple[str, ...] = GAPS
        self._strips = self.chance(0.3)
        if self._strips:
            rules["strip"] = True
        if self.chance(0.3):
            rules["gaps"], self._gaps = OTHER_GAPS[1:], OTHER_GAPS
            self._words.append("NA")
        self.label_gaps: tuple[str, ...] = self._gaps
        if self.chance(0.3):
            rules["unlabelled"], self.label_gaps = ("unknown",), (*self._gaps, "Unknown")
        return rules

    def _edges(self, n: int, *, apart: bool) -> list[tuple[int, int]]:
        """Edges that each vertex has one of; of those that are told apart even ones are sources, odd ones not."""
        order = self.random.permutation(n)
        edges = [*itertools.pairwise(order), *self.random.integers(0, n, (2 * n, 2))]
        edges += [edges[at] for at in self.random.integers(0, len(edges), 3)]
        edges = [(int(u), int(v)) for u, v in edges]
        return [(u - u % 2, v - v % 2 + 1) for u, v in [*edges, *((v, v) for v in range(n))]] if apart else edges

    def _labels(self, n: int) -> tuple[dict[int, Any], str]:
        """Labels by vertex, and what they are."""
        kind = self.pick(("numbers", "names", "lists", "targets")) if not self._steps else "numbers"
        labels: dict[int, Any] = {0: 0, 1: 1}
        if kind in ("names", "lists"):
            labels = {0: "a", 1: "b b"} if kind == "names" else {0: ["a", "b"], 1: ["ü"]}
        names = [word for word in self._words if word in WORDS[:5]]
        for v in range(2, n):
            if self.chance(0.7):
                labels[v] = {
                    "numbers": int(self.random.integers(0, 4)),
                    "names": self.pick(names),
                    "lists": self.random.permutation(["a", "b", "ü"])[: self.random.integers(1, 4)].tolist(),
                    "targets": float(self.random.integers(-9, 9)) / 4,
                }[kind]
        return labels, kind

    def _strangers(self, n: int, begin: int, tables: list[Table]) -> int:
        """Number rows that are no vertex's from ``begin`` on as they appear, and return how many there are.

        Whole numbers are what they are called: of these the largest counts.
        """
        there = list(dict.fromkeys(v for table in tables for v in table.rows if v >= n))
        if not self._are_named:
            return max(there, default=n - 1) + 1 - n
        for table in tables:
            table.rows = [begin + there.index(v) if v >= n else v for v in table.rows]
        return len(there)

    def _table(self, n: int, prefix: str, sides: list[int] | None) -> Table:
        rows = [int(v) for v in self.random.permutation(n + 2) if v < 3 or self.chance(0.8)]
        side = None
        if sides and not self._steps and self.chance(0.5):
            side = int(self.random.integers(2))
            rows = [v for v in rows if v < n and sides[v] == side]
        kinds = [self.pick(("number", "number", "category", "code", "bool", "time", "skip")) for _ in range(3)]
        kinds += ["number"]  # one feature at least
        return Table(rows, {f"{prefix}{at}": self._column(kind, rows) for at, kind in enumerate(kinds)}, side)

    def _column(self, kind: str, rows: list[int]) -> Column:
        gaps = [v > 2 and self.chance(0.2) for v in rows]  # some values stay, so that there is a mean
        draw = getattr(self, f"_{'category' if kind in ('code', 'skip') else kind}")
        values, texts, type_, *form = draw(len(rows))
        if self._steps and kind in ("category", "code"):  # a step may have no category of its own
            first = [at for at, v in enumerate(rows) if v < 3]
            kept = [at if v < 3 else self.pick(first) for at, v in enumerate(rows)]
            values, texts = [values[at] for at in kept], [texts[at] for at in kept]
        values = [None if gap else value for value, gap in zip(values, gaps, strict=True)]
        texts = [self.pick(self._gaps) if gap else text for text, gap in zip(texts, gaps, strict=True)]
        return Column(kind, values, texts, type_, *form)

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
        values = [self.pick(self._words) for _ in range(n)]
        return values, [self.padded(value, 0.1) for value in values], self.pick(TEXT_TYPES)

    def padded(self, text: str, share: float = 0.3, *, always: bool = True) -> str:
        """A text, perhaps with spaces around it; of ids only where they are removed."""
        return (
            self.pick((" {}", "{} ", " {} ")).format(text) if self.chance(share * (always or self._strips)) else text
        )

    def _bool(self, n: int) -> tuple[list[Any], list[str], Any]:
        values = [self.chance(0.5) for _ in range(n)]
        return values, [self.pick(YES if value else NO) for value in values], self.pick((pa.bool_(), *TEXT_TYPES))

    def _time(self, n: int) -> tuple[Any, ...]:
        seconds = self.random.integers(-(10**9), 2 * 10**9, n)
        values = [datetime.datetime.fromtimestamp(0, UTC) + datetime.timedelta(seconds=int(s)) for s in seconds]
        if self.chance(0.3):
            values = [value.replace(hour=0, minute=0, second=0) for value in values]
            return values, [f"{value:%Y-%m-%d}" for value in values], self.pick((pa.date32(), *TEXT_TYPES))
        if self.chance(0.3):
            unit, factor = self.pick((("s", 1), ("ms", 1000), ("us", 10**6)))
            return values, [str(second * factor) for second in seconds.tolist()], self.pick(TEXT_TYPES), unit
        if self.chance(0.3):
            form = self.pick(("%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S"))
            return values, [value.strftime(form) for value in values], self.pick(TEXT_TYPES), form
        types = [pa.timestamp(self.pick(("s", "ms", "us", "ns")), self.pick(ZONES)), *TEXT_TYPES]
        return values, [value.strftime(self.pick(TIME_FORMS)) for value in values], self.pick(types)

    def write(self, path: Path, header: list[str], columns: list[Column]) -> Path:
        """Write columns as text or Parquet, somehow; the path with the suffix that it got."""
        if self.chance(0.5):
            return self._write_parquet(path.with_suffix(".parquet"), header, columns)
        marks = WITHOUT_QUOTES if self._quote == "none" else DELIMITERS[:-1]
        end, sep = self.pick(("\n", "\r\n")), self.pick(marks)
        frame = pd.DataFrame({name: column.texts for name, column in zip(header, columns, strict=True)}, dtype=str)
        quoting = 1 if sep == " " else self.pick((0, 1))  # between spaces nothing would be no field
        written = (
            {"quoting": 3, "quotechar": '"'}
            if self._quote == "none"
            else {"quoting": quoting, "quotechar": self._quote}
        )
        text = frame.to_csv(index=False, sep=sep, lineterminator=end, na_rep="", **written)
        if sep == ";" and self.chance(0.3):
            text = f"sep=;{end}{text}"
        elif self.chance(0.2):
            text = f"# made by hand{end}{end}{text}"
        data = text.replace("\x01", "::").encode(self.pick(("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32")))
        pack = self.pick(PACKED)
        path = path.with_suffix(".csv.gz" if pack is gzip.compress and self.chance(0.5) else ".csv")
        path.write_bytes(pack(data))
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

    def write_list(self, path: Path, ids: list[str]) -> Path:
        """Write ids, one a line."""
        mark = "" if self._quote == "none" else self._quote
        path.write_text("".join(f"{mark}{id_.replace(mark, 2 * mark) if mark else id_}{mark}\n" for id_ in ids))
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
