"""Named memory of processes that were killed is swept, and that of the living, and of other users, stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gsplit.device import left_behind
from gsplit.device.left_behind import list_named_memory, sweep

TESTS = Path(__file__).parents[2]
HOLDS = """
import sys, time
from pathlib import Path
from support.children import have_named_memory
have_named_memory(Path(sys.argv[1]))
print("there", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """holder(): a process with named memory in tmp_path."""
    processes = []

    def begin():
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, tmp_path],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(TESTS)},
        )
        processes.append(process)
        assert process.stdout.readline() == b"there\n"
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def names(folder):
    return sorted(re.split("[_-]", path.name)[0] for path in folder.iterdir())


def kill(process):
    process.kill()
    process.wait()


def test_what_killed_processes_left_is_swept_and_the_living_keep_theirs(holder, tmp_path):
    one, other = holder(), holder()
    sweep(tmp_path)
    assert names(tmp_path) == ["gsplit", "gsplit", "nccl", "nccl"]
    kill(one)
    (tmp_path / f"nccl-{one.pid}_2_0").touch()  # a living process elsewhere may have the same number
    (tmp_path / "nccl-1_1_0").touch()  # on nobody's list
    sweep(tmp_path)
    left = {f"nccl-{other.pid}_1_0", f"nccl-{one.pid}_2_0", "nccl-1_1_0"}
    assert {path.name for path in tmp_path.glob("nccl-*")} == left
    kill(other)
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == left - {f"nccl-{other.pid}_1_0"}


def test_memory_that_a_living_process_has_too_stays(holder, tmp_path):
    one, other = holder(), holder()
    (other_list,) = (path for path in tmp_path.glob("gsplit_*") if str(other.pid) in path.read_text())
    with other_list.open("a") as file:
        file.write(f"nccl-{one.pid}_1_0\n")
    kill(one)
    sweep(tmp_path)
    assert (tmp_path / f"nccl-{one.pid}_1_0").exists()


def test_another_user_s_are_not_touched(holder, tmp_path, monkeypatch):
    kill(holder())
    (there,) = tmp_path.glob("nccl-*")
    (listed,) = tmp_path.glob("gsplit_*")
    monkeypatch.setattr(os, "getuid", lambda: there.stat().st_uid + 1)
    sweep(tmp_path)
    assert there.exists()
    assert listed.exists()


def test_a_list_names_nothing_but_memory_of_nccl(tmp_path, monkeypatch):
    inside = tmp_path / "shm"
    inside.mkdir()
    (tmp_path / "nccl-1").touch()
    (inside / "mine").touch()
    (inside / "gsplit_0").write_text("../nccl-1\nmine\nnccl-gone\n\n\0\n")
    sweep(inside)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "shm", "nccl-1"]


def test_a_process_without_named_memory_has_no_list(tmp_path):
    list_named_memory(tmp_path)
    assert not list(tmp_path.iterdir())
    assert not left_behind._own
    sweep(tmp_path / "missing")
