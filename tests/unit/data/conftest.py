"""Fixtures of the tests of data."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.folders import write as write_folder
from support.garbage import assert_holds

import gsplit
from gsplit.errors import InputError

RING = "src,dst\n" + "".join(f"{i},{(i + 1) % 6}\n" for i in range(6))
NAMED_RING = "src,dst\n" + "".join(f"v{i},v{(i + 1) % 6}\n" for i in range(6))


@pytest.fixture(params=["csv", "parquet"])
def table_file(request, tmp_path):
    """table_file(name, columns): a table of Arrow's in a file, once as text and once as Parquet."""

    def write(name, columns):
        path = tmp_path / f"{name}.{request.param}"
        made = pa.table(columns)
        pa.csv.write_csv(made, path) if request.param == "csv" else pa.parquet.write_table(made, path)
        return path

    return write


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "folder")
    return tmp_path / "folder"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """made(files, **options): the graph of a ring of six vertices, called 0 .. 5, or v0 .. v5 with ``ids="any"``."""
    monkeypatch.chdir(tmp_path)

    def run(files=None, **options):
        ring = NAMED_RING if options.get("ids") == "any" else RING
        for name, text in {"ring.csv": ring, **(files or {})}.items():
            (tmp_path / name).write_text(text)
        return gsplit.import_graph("ring.csv", "graph", overwrite=True, **options).graph

    return run


@pytest.fixture
def refused(made, tmp_path):
    """refused(files, **options): the line that such an import ends with; nothing is left."""

    def run(files=None, **options):
        before = {*(path.name for path in tmp_path.iterdir()), "ring.csv", *(files or {})}
        with pytest.raises(InputError) as caught:
            made(files, **options)
        line = str(caught.value)
        assert "\n" not in line
        del caught
        assert_holds(tmp_path, *before)
        return line

    return run
