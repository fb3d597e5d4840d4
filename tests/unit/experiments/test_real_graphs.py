"""The real graphs are where an environment variable says."""

from __future__ import annotations

import pytest
from support.messages import line_with

from experiments.shared import real_graphs
from gsplit.errors import InputError


def test_a_variable_names_the_folder(monkeypatch, tmp_path):
    for variable in real_graphs.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable in reversed(real_graphs.VARIABLES):
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert real_graphs.folder() == tmp_path / variable  # the one before in the list counts more


def test_a_graph_that_is_missing_is_one_line(tmp_path):
    with pytest.raises(InputError, match=line_with("cora.npz, --data, GSPLIT_DATA")):
        real_graphs.path(tmp_path, "cora")
    (tmp_path / "cora.npz").touch()
    assert real_graphs.path(tmp_path, "cora") == tmp_path / "cora.npz"
