"""Fixtures of the tests of folders."""

from __future__ import annotations

import pytest
from support.folders import write


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "folder")
    return tmp_path / "folder"
