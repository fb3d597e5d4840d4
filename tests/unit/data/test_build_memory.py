"""Graphs that are larger than the memory that building a store of them takes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

PEAK = """
import sys
from pathlib import Path
import numpy as np
from gsplit.data import adjacency
from gsplit.data.build_options import BuildOptions
from gsplit.data.folders import writing_folder
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.data.typed_build import fill_any_store

adjacency.BUCKET_EDGES = 1 << 17
def chunks():
    random = np.random.default_rng(0)
    for _ in range(int(sys.argv[2])):
        source, destination = random.integers(0, 10_000, (2, 1 << 16))
        yield EdgeChunk(source=source, destination=destination, weight=np.ones(1 << 16, np.float32))

source = GraphSource(name="x", edges=EdgeChunks(chunks=chunks, weighted=True), num_vertices=None)
with writing_folder(Path(sys.argv[1])) as writer:
    fill_any_store(writer, source, BuildOptions(duplicates="keep"), name="x", described_as="x")
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_peak_memory_does_not_grow_with_the_edges(tmp_path):
    small, large = (
        int(subprocess.check_output([sys.executable, "-c", PEAK, str(tmp_path / str(n)), str(n)])) / 1024
        for n in (4, 100)
    )
    # 6.3 million more edges of 12 bytes are 75 MB in memory in any form; the difference was below 5 MB.
    assert (tmp_path / "100" / "indices.npy").stat().st_size > 25e6
    assert large - small < 25, (small, large)


@pytest.mark.slow
def test_fifty_million_lines_in_two_gigabytes(tmp_path):
    import pyarrow
    import pyarrow.csv as pyarrow_csv

    random = np.random.default_rng(0)
    with (tmp_path / "edges.csv").open("wb") as file:
        for _ in range(10):
            source, destination = random.integers(0, 2_000_000, (2, 5_000_000))
            table = pyarrow.table({"src": source, "dst": destination})
            pyarrow_csv.write_csv(table, file, pyarrow_csv.WriteOptions(include_header=False))
    code = (
        "from gsplit.data.__main__ import command; import sys; command(sys.argv[1:]); "
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    words = ["import", str(tmp_path / "edges.csv"), "--out", str(tmp_path / "store")]
    printed = subprocess.check_output([sys.executable, "-c", code, *words], text=True)
    assert "2,000,000 vertices, 49,99" in printed  # some are duplicates
    assert int(printed.split()[-1]) < 2 << 20
