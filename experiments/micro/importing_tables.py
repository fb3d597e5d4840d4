"""Importing tables of features: seconds in turns with another release, and memory at the peak.

    python -m experiments.micro.importing_tables
    python -m experiments.micro.importing_tables --rows 1000000 --pairs 5 --beside ../older/.venv/bin/python

Each table is text of 20 columns, a row for each vertex of a ring, with a gap in one of 50 values. ``numbers`` has
numbers alone, which are filled with means and standardised; ``kinds`` has numbers, categories, codes, truth values
and times; ``joined`` has numbers whose rows are in no order and matched by texts. Imports run in processes of their
own.

``--json`` writes ``settings`` (``rows``, ``pairs``, ``seed``, ``beside``: whether there was another release) and
``imports``, for each ``table`` its ``file_bytes``, ``feature_bytes``, ``processor_seconds`` (the median),
``peak_bytes`` (the most of all imports: resident memory of the process, touched pages of mapped files included) and,
beside another release, ``ratio``, ``ratio_min`` and ``ratio_max``, of the processor seconds of the pairs, this over
the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, Seed, names_of
from experiments.shared.results import printed
from experiments.shared.rounds import in_turn, ratios, spread
from gsplit import cli
from gsplit.errors import InputError

COLUMNS = 20
ROWS_AT_ONCE = 1 << 17
GAPS = 0.02
"""Share of the values that are not there."""
ODD = 0x9E3779B97F4A7C15
"""Times an odd number is a bijection of the numbers of 64 bits: each vertex has another text."""
FLAGS: dict[str, dict[str, Any]] = {
    "numbers": {"missing": "mean", "standardize": True},
    "kinds": {
        "missing": "mean",
        "columns": [
            f"{kind}_{at}:{kind}"
            for kind, count in {"category": 4, "code": 4, "bool": 2, "time": 2}.items()
            for at in range(count)
        ],
    },
    "joined": {"missing": "mean", "ids": "any"},
}
"""The flags that each table is imported with."""
IMPORT = """
import json, re, sys, time
from gsplit.data.api import import_graph
edges, features, out, flags = sys.argv[1:]
begin_s = time.process_time()
made = import_graph(edges, out, features=[features], **json.loads(flags))
seconds = time.process_time() - begin_s
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
size = made.description["arrays"]["features"]["bytes"]
print(json.dumps({"seconds": seconds, "peak_bytes": peak, "feature_bytes": size}))
"""
"""One import, also by a release that has other modules than this."""


@dataclass(frozen=True, kw_only=True)
class ImportingConfig(Flags):
    """What tables of features cost: time and memory of an import."""

    rows: Positive = 10_000_000
    """Rows of each table, and vertices."""
    tables: Annotated[tuple[str, ...], names_of(FLAGS, "table")] = tuple(FLAGS)
    """Tables to import."""
    pairs: Positive = 3
    """Imports of each table, or pairs of imports."""
    beside: Path | None = None
    """A Python in which another release of GSplit is installed, to be measured in turns."""
    seed: Seed = 0
    """Seed of the tables."""
    work: Path = Path("work")
    """Folder of the tables and stores, for as long as it takes: some 400 bytes a row."""


def measure(config: ImportingConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    if config.beside is not None and not config.beside.is_file():
        raise InputError(f"--beside {config.beside}: no such file; give the Python of another environment")
    config.work.mkdir(parents=True, exist_ok=True)
    imports = []
    for table in config.tables:
        with tempfile.TemporaryDirectory(dir=config.work.resolve()) as name:
            imports.append({"table": table, **_measured(Path(name), table, config)})
    settings = {"rows": config.rows, "pairs": config.pairs, "seed": config.seed, "beside": config.beside is not None}
    return {"settings": settings, "imports": imports}


def _measured(folder: Path, table: str, config: ImportingConfig) -> dict[str, Any]:
    """What ``--json`` says of a table."""
    edges, features = write_tables(folder, table, config.rows, config.seed)
    taken: list[tuple[Path, list[dict[str, Any]]]] = [(Path(sys.executable), [])]
    if config.beside is not None:
        taken.append((config.beside, []))
    for number in range(config.pairs):
        for python, imports in in_turn(taken, number):
            imports.append(run(python, edges, features, FLAGS[table]))
    ours, *others = [imports for _, imports in taken]
    seconds = [each["seconds"] for each in ours]
    found = {
        "file_bytes": features.stat().st_size,
        "feature_bytes": ours[0]["feature_bytes"],
        "processor_seconds": median(seconds),
        "peak_bytes": max(each["peak_bytes"] for each in ours),
    }
    for other in others:
        found |= spread(ratios(seconds, [each["seconds"] for each in other]))
    return printed(found)


def run(python: Path, edges: Path, features: Path, flags: dict[str, Any]) -> dict[str, Any]:
    """One import, in a process of its own: memory that a library kept would count for the next."""
    with tempfile.TemporaryDirectory(dir=features.parent) as out:
        words = [str(edges), str(features), f"{out}/store", json.dumps(flags)]
        ended = subprocess.run([python, "-c", IMPORT, *words], capture_output=True, text=True, cwd=out)
    if ended.returncode:
        raise InputError(f"{python} could not import {features}: {ended.stderr.strip().splitlines()[-1]}")
    return json.loads(ended.stdout)


def write_tables(folder: Path, table: str, rows: int, seed: int) -> tuple[Path, Path]:
    """Write a ring of vertices, and the table of their features; the two files."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(seed)
    named = table == "joined"
    call = texts_of if named else np.asarray
    edges, features = folder / "edges.csv", folder / f"{table}.csv"
    order = rng.permutation(rows) if named else np.arange(rows)
    pieces = {
        edges: lambda at: {"src": call(at), "dst": call((at + 1) % rows)},
        features: lambda at: {"id": call(order[at]), **columns_of(table, len(at), rng)},
    }
    for path, piece in pieces.items():
        writer = None
        for begin in range(0, rows, ROWS_AT_ONCE):
            part = pa.table(piece(np.arange(begin, min(begin + ROWS_AT_ONCE, rows))))
            writer = writer or pyarrow.csv.CSVWriter(path, part.schema)
            writer.write(part)
        assert writer is not None
        writer.close()
    return edges, features


def texts_of(vertices: NDArray[np.int64]) -> list[str]:
    """What vertices are called: 21 characters."""
    return [f"user-{vertex * ODD & 0xFFFFFFFFFFFFFFFF:016x}" for vertex in vertices.tolist()]


def columns_of(table: str, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of some rows, arrays of pyarrow by their names."""
    import pyarrow as pa

    kinds = {"category": 4, "code": 4, "bool": 2, "time": 2} if table == "kinds" else {}
    columns = {
        f"{kind}_{at}": VALUES[kind](rng, rows)
        for kind, count in {"number": COLUMNS - sum(kinds.values()), **kinds}.items()
        for at in range(count)
    }
    return {name: pa.array(values, mask=rng.random(rows) < GAPS) for name, values in columns.items()}


VALUES: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "number": lambda rng, rows: np.round(rng.normal(size=rows), 6),
    "category": lambda rng, rows: np.array(list("abcde"))[rng.integers(5, size=rows)],
    "code": lambda rng, rows: np.char.mod("w%03d", rng.integers(1000, size=rows)),
    "bool": lambda rng, rows: rng.random(rows) < 0.5,
    "time": lambda rng, rows: np.datetime64("2024-01-01T00:00:00") + rng.integers(10**8, size=rows),
}
"""Values of a column, by its kind."""

command = Experiment("micro.importing_tables", ImportingConfig, measure)

if __name__ == "__main__":
    cli.main(command)
