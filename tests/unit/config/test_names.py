"""Modules that a user names are found in the folder of the command, which hides no package."""

from __future__ import annotations

import sys

import pytest

from gsplit.config.names import object_named


@pytest.mark.parametrize("is_clone", [False, True])
def test_a_clone_s_package_hides_none(tmp_path, monkeypatch, is_clone):
    (tmp_path / "my_own_model.py").write_text("class Net: pass\n")
    if is_clone:
        (tmp_path / "gsplit").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert object_named("my_own_model:Net", "--model").__name__ == "Net"
    assert sys.path.index(str(tmp_path)) == (len(sys.path) - 1 if is_clone else 0)
    del sys.modules["my_own_model"]
