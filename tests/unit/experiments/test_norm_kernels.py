"""What experiments.kernels.norms counts of our kernels, beside what they are known to move."""

from __future__ import annotations

import json

import pytest

from experiments.kernels import norms

pytest.importorskip("triton")
pytestmark = pytest.mark.slow  # PyTorch's device without numbers takes seconds to import, as its compiler does


@pytest.mark.parametrize(
    ("name", "large", "forward", "backward"), [("rms", 2, 3, 3), ("layer", 2, 3, 3), ("batch", 4, 4, 5)]
)
def test_each_pass_reads_what_it_wants_and_writes_what_it_makes(name, large, forward, backward):
    """Rows, skip and result; rows, gradients and theirs; of a batch rows once more, and gradients in backward."""
    found = norms.ours(name, 100_000, 64).row(100_000 * 64 * 4)
    assert found["large"] == large
    assert forward <= found["forward_moved"] <= 1.05 * forward  # sums of columns, too
    assert backward <= found["backward_moved"] <= 1.05 * backward
    assert found["kept"] == 1
    assert name == "batch" or found["kernels"] == 3


def test_all_ways(tmp_path):
    out = tmp_path / "found.json"
    norms.command(["--rows=2000", "--widths=64", f"--json={out}"])
    rows = {(row["norm"], row["way"]): row for row in json.loads(out.read_text())}
    assert len(rows) == 9
    for name in norms.NORMS:
        by_way = {way: rows[name, way] for way in norms.WAYS}
        moved = {way: row["forward_moved"] + row["backward_moved"] for way, row in by_way.items()}
        assert moved["ours"] < moved["compile"] < moved["operations"]
