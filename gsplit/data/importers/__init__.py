"""Sources that a graph store can be made from: edge lists, what other programs write (``formats``), synthetic graphs.

An importer is a function from a path to a :class:`~gsplit.data.importers.source.GraphSource`. Its module is imported
when it is used: some need libraries that are not installed everywhere.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path

from gsplit.data.importers.edge_list import EndColumns, load_edge_list
from gsplit.data.importers.keys import USUAL, Keys
from gsplit.data.importers.source import GraphSource, graph_source
from gsplit.data.importers.tables import databases
from gsplit.data.importers.tables.content import UNREADABLE, is_matrix_market, is_parquet, open_text, zipped_names
from gsplit.data.importers.tables.table_files import TableFile
from gsplit.errors import InputError

IMPORTERS = {
    "csv": "edge_list.load_edge_list",
    "parquet": "edge_list.load_edge_list",
    "numpy": "formats.numpy_arrays.load_numpy",
    "scipy": "formats.matrices.load_scipy",
    "mtx": "formats.matrices.load_matrix_market",
    "pyg": "formats.pyg.load_pyg",
    "dgl": "formats.dgl.load_dgl",
    "graphbolt": "formats.graphbolt.load_graphbolt",
    "ogb-types": "formats.ogb_types.load_ogb_folder",
    "store": "formats.graph_store.load_store",
}
"""Module and function for each kind of source that is a path."""
TABLES = ("csv", "parquet")
"""Kinds of edge lists, whose columns have names."""
KEYED = ("pyg", "dgl")
"""Kinds whose tensors have names of the user's."""
KINDS = (*IMPORTERS, "npz", "ogb", "synthetic", *databases.KINDS)
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".dat": "csv",
    ".data": "csv",
    ".edges": "csv",
    ".edgelist": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "numpy",
    ".mtx": "mtx",
    ".pt": "pyg",
    ".bin": "dgl",
}
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".lz4")
EXPECTED = (
    "expected .csv, .tsv, .txt, .parquet, .npz, .npy, .mtx, .pt (PyG), .bin (DGL), a folder, a database of DuckDB or "
    "SQLite, postgresql://..., ogb:NAME, synthetic:PRESET, or KIND:PATH with KIND one of " + ", ".join(IMPORTERS)
)


def load_source(
    source: str | TableFile,
    *,
    seed: int = 0,
    root: Path | None = None,
    regression: bool = False,
    keys: Keys = USUAL,
    ends: EndColumns = EndColumns(),  # noqa: B008 (a tuple)
) -> GraphSource:
    """Open ``KIND:PATH``, ``synthetic:PRESET``, ``ogb:NAME``, or a path whose kind its name or content tells.

    Args:
        source: what the user named, or a table of edges that was in no file.
        seed: of a synthetic graph.
        root: the folder of OGB's datasets.
        regression: whether labels are numbers to be predicted.
        keys: other names than the usual ones in a graph of PyG or DGL.
        ends: other columns than the usual ones in an edge list.

    Raises:
        InputError: for a source that does not exist, is damaged or of no known kind.
    """
    if isinstance(source, TableFile):
        return load_edge_list(source, ends)
    kind, rest = kind_of(source)
    if ends.given and kind not in TABLES:
        raise InputError(f"{ends.given} is for edge lists in text or Parquet, and {source} is none; drop it")
    if kind == "synthetic":
        from gsplit.data.synthetic import PRESETS, TYPED, choose

        choice = choose(rest, {**PRESETS, **TYPED})
        return graph_source(f"synthetic-{choice.label}", choice.generate(seed=seed), source)
    if kind == "ogb":
        from gsplit.data.importers.formats.ogb import load_ogb

        return load_ogb(rest, root or Path("dataset"))
    if kind == "npz":
        from gsplit.data.importers.formats.npz import load_npz_source

        return load_npz_source(Path(rest), regression=regression)
    module, _, function = IMPORTERS[kind].rpartition(".")
    load = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    if kind in TABLES:
        return load(Path(rest), ends)
    return load(Path(rest), keys) if kind in KEYED else load(Path(rest))


def edge_table(source: str | TableFile) -> Path | None:
    """The path of an edge list in text or Parquet; None for another source.

    Raises:
        InputError: for a source that does not exist or is of no known kind.
    """
    if isinstance(source, TableFile):
        return source
    kind, rest = kind_of(source)
    return Path(rest) if kind in TABLES else None


def check_of_kind(source: str, *, root: Path | None, keys: Keys) -> None:
    """Check that flags for some kinds of sources are given for those alone.

    Raises:
        InputError: for ``--root`` and for names of tensors where the source has none.
    """
    kind, _ = kind_of(source)
    if root is not None and kind != "ogb":
        raise InputError(f"--root is for ogb:NAME, and {source} is none")
    if keys.given and kind not in KEYED:
        raise InputError(f"{keys.given} is for graphs of PyG and DGL, and {source} is none; drop it")


def kind_of(source: str) -> tuple[str, str]:
    """The kind of a source, and its path or name.

    Raises:
        InputError: for a path that does not exist, or whose kind neither name nor content tells.
    """
    kind, _, rest = source.partition(":")
    return (kind, rest) if kind in KINDS and rest else (_kind_of(source), source)


def _kind_of(source: str) -> str:
    path = Path(source)
    if not path.exists():
        raise InputError(f"{source}: no such file or folder ({EXPECTED})")
    if path.suffix == ".npz":
        return "scipy" if "format.npy" in zipped_names(path) else "npz"
    if path.is_file() and is_matrix_market(path):
        return "mtx"
    if path.is_file() and is_parquet(path):
        return "parquet"
    if path.is_dir():
        if (path / "graph.json").is_file():
            return "store"
        if any((path / where).is_file() for where in ("metadata.yaml", "preprocessed/metadata.yaml")):
            return "graphbolt"
        if (path / "raw" / "num-node-dict.csv.gz").is_file():
            return "ogb-types"
        if any(path.glob("*.npy")):
            return "numpy"
        if any(path.glob("*.pt")) or any(path.glob("processed/*.pt")):
            return "pyg"
        raise InputError(f"{source}: a folder with neither .npy arrays nor metadata.yaml (GraphBolt) nor .pt (PyG)")
    suffix = Path(path.stem if path.suffix.lower() in PACKED_SUFFIXES else path.name).suffix.lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if (kind := databases.database_kind(path)) is not None:
        return kind
    if suffix in databases.SUFFIXES:
        raise InputError(f"{source} is damaged, or no database of DuckDB or SQLite")
    with suppress(*UNREADABLE):
        open_text(path).close()  # which says what it is where it is no text
    raise InputError(f"{source}: unknown kind of source; {EXPECTED}")
