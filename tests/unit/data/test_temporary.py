"""Temporary folders go with their objects, whatever ends these, and what a killed process left goes with the next."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import gsplit
from gsplit.data import open_store
from gsplit.data.memory.temporary import Temporary, temporary_of
from gsplit.errors import InputError


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_when_it_is_closed_or_nobody_holds_it(place):
    held, other = Temporary(), Temporary()
    (held.path / "sub").mkdir()
    (held.path / "sub" / "file").touch()
    assert set(os.listdir(place)) == {held.path.name, other.path.name}
    assert temporary_of(held.path / "sub" / "file") is held
    held.close()
    held.close()
    assert held.closed
    assert os.listdir(place) == [other.path.name]
    assert temporary_of(held.path) is None
    cycle = [other]
    cycle.append(cycle)
    del other, cycle
    gc.collect()
    assert os.listdir(place) == []


def test_a_forked_child_leaves_it_to_its_owner(place):
    held = Temporary()
    child = os.fork()
    if not child:
        held.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert held.path.is_dir()
    held.close()
    assert os.listdir(place) == []


ENDED = """
import os, signal, sys
import gsplit
from gsplit.data import open_store
from gsplit.data.memory.temporary import Temporary
held = Temporary()
open(held.path / "file", "w").close()
print(held.path.name, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code", "left"),
    [
        ("raise ValueError", 1, False),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, False),
        ("os.fork() or sys.exit(); os.wait(); assert held.path.is_dir(); sys.exit(3)", 3, False),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, True),
    ],
    ids=["an exception", "Ctrl-C", "a child that was forked", "SIGKILL"],
)
def test_it_goes_with_its_process_or_with_the_next(place, caplog, end, code, left):
    environment = {**os.environ, "TMPDIR": str(place)}
    words = [sys.executable, "-c", ENDED.format(end=end)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert os.listdir(place) == ([done.stdout.strip()] if left else [])
    caplog.set_level(logging.INFO)
    mine = Temporary()
    assert os.listdir(place) == [mine.path.name]
    assert ("which" in caplog.text or "killed" in caplog.text) == left
    mine.close()


def test_what_others_hold_stays(place):
    first = Temporary()
    second = Temporary()
    assert first.path.is_dir()
    first.close()
    second.close()


def test_where_nothing_can_be_written_one_line_says_so(place, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(place / "gone"))
    with pytest.raises(InputError, match=r"cannot write temporary files to .*gone: No such file .*; set TMPDIR"):
        Temporary()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(place / "gone")])
    with pytest.raises(InputError, match=r"No usable temporary directory .*; make room, or set TMPDIR"):
        Temporary()


def test_whoever_opens_it_again_keeps_it():
    store = gsplit.from_arrays([[0, 1], [1, 0]])
    again = open_store(store)
    folder = Path(store)
    del store
    gc.collect()
    assert folder.is_dir()
    assert Path(copy.deepcopy(again)) == folder
    assert pickle.loads(pickle.dumps(again.temporary)) is None  # another process keeps nothing
    again.close()
    assert not folder.exists()


def test_a_folder_that_somebody_else_removed_is_gone(caplog):
    with gsplit.from_arrays([[0, 1], [1, 0]]) as store:
        shutil.rmtree(store.temporary.path)
    assert not caplog.records


def test_folders_of_other_users_are_left(place, monkeypatch):
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    left = place / f".gsplit-{mine + 1}.abcd1234"
    left.mkdir()
    Temporary().close()
    assert left.is_dir()
