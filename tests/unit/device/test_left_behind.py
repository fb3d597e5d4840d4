"""What NCCL left behind is removed, but nothing that may be in use, another user's, or of somebody else."""

from __future__ import annotations

import os
import time

import pytest

from gsplit.device.left_behind import ABANDONED_S, remove_abandoned


@pytest.fixture
def folder(tmp_path):
    """Files and a link as old as what is removed, and one that is younger."""
    old_s = time.time() - ABANDONED_S - 60
    for name in ("nccl-a1B2c3", "nccl-a1B2c3d", "mine", "target"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (old_s, old_s))
    (tmp_path / "nccl-link00").symlink_to(tmp_path / "target")
    (tmp_path / "nccl-young0").touch()
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_nobody_can_be_about_to_open_is_removed(folder):
    remove_abandoned(folder)
    assert names(folder) == ["mine", "nccl-a1B2c3d", "nccl-link00", "nccl-young0", "target"]
    remove_abandoned(folder / "missing")


def test_another_user_s_stay(folder, monkeypatch):
    before, user = names(folder), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    remove_abandoned(folder)
    assert names(folder) == before
