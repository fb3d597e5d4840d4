"""A first row that reads 0, 1, ... as pandas writes a header is refused where the edges say that it is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.messages import says

VALUES = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("flag", ["features", "labels"])
@pytest.mark.parametrize("loops", ["keep", "add"])
def test_a_row_more_than_vertices(made, refused, tmp_path, columns, flag, loops):
    values = pd.DataFrame(VALUES[:, :columns])
    values.to_csv(tmp_path / "t.csv", index=False)
    given = {flag: "t.csv", "self_loops": loops}
    says(refused(**given), "t.csv, 7, 6, --num-vertices 7")
    assert made(**given, num_vertices=7).num_vertices == 7
    values.to_csv(tmp_path / "t.csv", index=False, header=False)
    assert made(**given).num_vertices == 6


def test_a_first_row_that_counts_is_a_row(made):
    assert made({"y.csv": "0\n1\n0\n1\n1\n0\n"}, labels="y.csv").labels.tolist() == [0, 1, 0, 1, 1, 0]
