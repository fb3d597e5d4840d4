"""What was in the place of a run, a store or a prediction is never lost, and nothing hidden stays beside it."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import nullcontext

import numpy as np
import pytest
from support.messages import line_with, says

from gsplit import atomic_folder
from gsplit.atomic_folder import LOCK, NEW, OUTPUTS, Beside, locked, publish
from gsplit.data.folders import check_free, writing_folder
from gsplit.errors import InputError
from gsplit.predict.output import check_out
from gsplit.runs import folder as run_folder
from gsplit.runs.folder import RUNS, held_run


def test_a_run_that_goes_on_sweeps_its_folder_of_our_temporary_files(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    others = {".notes.1", "config.json", ".config.json"}
    for name in (".summary.json.99", ".checkpoint-0123456789abcdef.pt.7", *others):
        (tmp_path / name).touch()
    with held_run(tmp_path, resumes=True):
        assert set(os.listdir(tmp_path)) == {LOCK, *others}
    for name in (".summary.json.99", ".checkpoint-0123456789abcdef.pt.7"):
        says(caplog.text, name)


KILLED = """
import os, signal, sys
from pathlib import Path
{work}
"""


def killed(work, *words):
    """Run a script until it kills itself."""
    script = KILLED.format(work=textwrap.dedent(work))
    done = subprocess.run([sys.executable, "-c", script, *map(str, words)], check=False)
    assert done.returncode == -signal.SIGKILL


def a_run(folder, *files):
    folder.mkdir()
    (folder / "config.json").write_text('{"fan_out": [2]}')
    for name in files:
        (folder / name).write_text(name)
    return folder


def fail_in(run, error=SystemExit, *, resumes=False, files=None):
    """A run that writes these files (name -> text) and fails."""
    with held_run(run, resumes=resumes, overwrite=True):
        if not resumes:
            assert os.listdir(run) == [LOCK]
        for name, text in (files or {}).items():
            (run / name).write_text(text)
        raise error


REPLACED = """
from gsplit.runs.folder import held_run
with held_run(Path(sys.argv[1]), overwrite=True) as run:
    for name in sys.argv[2:]:
        (run / name).write_text('{"fan_out": "new"}')
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("saved", "comes_back"),
    [
        ((), True),
        (("config.json",), True),
        (("config.json", ".model-0123456789abcdef.pt.99999", "checkpoint-0123456789abcdef.pt"), True),
        (("config.json", "metrics.jsonl"), False),
    ],
)
def test_a_run_whose_successor_was_killed_comes_back_unless_that_had_saved_something(
    tmp_path, caplog, saved, comes_back
):
    caplog.set_level(logging.INFO)
    run = a_run(tmp_path / "run", "summary.json")
    killed(REPLACED, run, *saved)
    assert len(os.listdir(tmp_path)) == 2  # the run, and what it was before
    assert not (run / "summary.json").exists()
    RUNS.recover(run)
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "summary.json").exists() == comes_back
    assert len([r for r in caplog.records if "was killed" in r.message]) == 1


def test_what_a_living_process_has_beside_its_place_is_left_alone(tmp_path):
    run = a_run(tmp_path / "run", "summary.json")
    with held_run(run, overwrite=True):
        before = sorted(os.listdir(tmp_path))
        RUNS.recover(run)
        assert sorted(os.listdir(tmp_path)) == before
        with pytest.raises(InputError, match=line_with(str(run))), locked(run):
            pass
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_run_that_fails_with_nothing_saved_gives_its_place_back(tmp_path, error):
    run = a_run(tmp_path / "run", "summary.json")
    for folder in (run, tmp_path / "new" / "run"):
        with pytest.raises(error):
            fail_in(folder, error)
        assert os.listdir(tmp_path) == ["run"]
        assert (run / "summary.json").exists()


def test_a_folder_that_cannot_be_made_gives_the_place_back(tmp_path, monkeypatch):
    run = a_run(tmp_path / "run", "summary.json")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gsplit.runs.folder.Path.mkdir", full)
    with (
        pytest.raises(InputError, match=line_with(str(run), os.strerror(errno.ENOSPC))),
        held_run(run, overwrite=True),
    ):
        pass
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "summary.json").exists()


BESIDE = """
from gsplit.atomic_folder import OUTPUTS
with OUTPUTS.folder(Path(sys.argv[1])) as folder:
    (folder / "values.npy").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_prediction_left_goes_with_the_next_one(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    out = tmp_path / "o.npy"
    killed(BESIDE, out)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".o.npy.")
    (tmp_path / ".o.npy.other").mkdir()  # not ours: it has no lock
    check_out(out, overwrite=False)
    assert os.listdir(tmp_path) == [".o.npy.other"]
    assert len([r for r in caplog.records if "was killed" in r.message]) == 1


def test_a_folder_beside_goes_when_the_block_ends(tmp_path):
    with OUTPUTS.folder(tmp_path / "out") as folder:
        (folder / "half").mkdir()
    assert os.listdir(tmp_path) == []


def signalling(monkeypatch, where, name):
    """Make a function end with Ctrl-C, once."""
    real, sent = getattr(where, name), []

    def call(*arguments, **named):
        result = real(*arguments, **named)
        if not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(where, name, call)


def test_a_signal_while_a_run_is_put_back_waits(tmp_path, monkeypatch):
    run = a_run(tmp_path / "run", "summary.json")
    monkeypatch.setattr(Beside, "roll_back", slowly(Beside.roll_back))
    with pytest.raises(KeyboardInterrupt):
        fail_in(run)
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "summary.json").exists()


def slowly(roll_back):
    def call(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return roll_back(*arguments)

    return call


@pytest.fixture(params=["the kernel exchanges", "the kernel refuses"])
def exchanges(request, monkeypatch):
    """Both ways of putting a result in place: by renameat2, and where that is refused."""
    if request.param == "the kernel refuses":
        monkeypatch.setattr(atomic_folder, "_renameat2", lambda *_: False)
    return request.param == "the kernel exchanges"


@pytest.mark.parametrize("what", ["run", "folder"])
def test_a_signal_between_moving_away_and_the_next_line_loses_nothing(tmp_path, monkeypatch, what):
    place = a_run(tmp_path / "place", "summary.json")
    if what == "folder":
        (place / "graph.json").touch()
        monkeypatch.setattr(atomic_folder, "_renameat2", lambda *_: False)
    signalling(monkeypatch, atomic_folder.Path, "rename")
    with pytest.raises(KeyboardInterrupt):
        fail_in(place) if what == "run" else write(place)
    assert os.listdir(tmp_path) == ["place"]
    assert (place / "summary.json").exists()


def write(place):
    with writing_folder(place, overwrite=True) as writer:
        writer.save("numbers", np.arange(3))


def test_what_cannot_be_put_back_is_kept_and_named(tmp_path, exchanges):
    run = a_run(tmp_path / "run", "summary.json")
    with pytest.raises(InputError, match=line_with("run, old")):
        fail_in(run, files={"notes.txt": "of another program"})
    assert (run / "notes.txt").exists()
    (kept,) = tmp_path.glob(".run.*/old")
    assert (kept / "summary.json").exists()


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": "{}", "thesis.txt": ""},
        {"config.json": "{}", "model.json": "{}"},
        {"config.json": '{"fan_out": [2]}', "notes.txt": ""},
        {"predictions.npy": ""},
    ],
)
def test_folders_of_others_are_not_replaced(tmp_path, files):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"exists already|is no run"), held_run(folder, overwrite=overwrite):
            pass
    assert set(os.listdir(folder)) == set(files)


def test_a_run_with_a_hidden_name_is_no_leftover(tmp_path):
    run = a_run(tmp_path / ".exp.baseline", "summary.json", LOCK)
    RUNS.recover(tmp_path / "exp")
    assert sorted(os.listdir(run)) == [LOCK, "config.json", "summary.json"]


def test_an_empty_folder_that_was_never_locked_is_swept(tmp_path):
    (tmp_path / ".exp.abcd1234").mkdir()
    RUNS.recover(tmp_path / "exp")
    assert os.listdir(tmp_path) == []


def test_a_folder_beside_that_cannot_be_locked_is_said(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(atomic_folder.fcntl, "flock", no_locks)
    with pytest.raises(InputError, match="cannot lock"), OUTPUTS.folder(tmp_path / "out"):
        pass
    monkeypatch.setattr(atomic_folder.os, "open", no_locks)
    with pytest.raises(InputError, match="cannot write to"), OUTPUTS.folder(tmp_path / "out"):
        pass
    assert list(tmp_path.glob("*/*")) == []


def test_other_commands_leave_alone_what_a_run_left(tmp_path):
    run = a_run(tmp_path / "run", "summary.json")
    killed(REPLACED, run)
    for refused in (lambda: check_free(run, overwrite=False), lambda: check_out(run, overwrite=False)):
        with pytest.raises(InputError):
            refused()
    RUNS.recover(run)
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "summary.json").exists()


def test_who_comes_second_leaves_the_run_of_the_first(tmp_path, monkeypatch):
    run = a_run(tmp_path / "run", LOCK)
    monkeypatch.setattr(run_folder, "_check_replaceable", lambda *_, **__: None)
    monkeypatch.setattr(run_folder.os.path, "lexists", lambda path: False)  # as it was a moment ago
    with (
        locked(run),
        pytest.raises(InputError, match=line_with(str(run), os.strerror(errno.EEXIST))),
        held_run(run, overwrite=False),
    ):
        pass
    assert sorted(os.listdir(run)) == [LOCK, "config.json"]


def test_a_lock_counts_only_where_it_was_looked_for(tmp_path):
    run = a_run(tmp_path / "run")
    descriptor = os.open(run / LOCK, os.O_RDWR | os.O_CREAT)
    (run / LOCK).rename(tmp_path / "elsewhere")
    assert not atomic_folder._is_at(descriptor, run / LOCK)
    os.close(descriptor)


def staged(out, text):
    """What is to become ``out``, in a folder beside it: a folder with one file, or a file."""
    new = out.parent / f".{out.name}.{text}" / NEW
    new.parent.mkdir()
    if out.suffix:
        new.write_text(text)
    else:
        new.mkdir()
        (new / "file").write_text(text)
    return new


def content(out):
    return (out if out.suffix else out / "file").read_text()


@pytest.mark.parametrize("name", ["folder", "file.txt"])
def test_of_two_writers_of_one_name_one_is_refused_or_replaced_whole(tmp_path, exchanges, name):
    out = tmp_path / name
    for writer in ("one", "two"):
        with pytest.raises(InputError, match=line_with("--out, --overwrite")) if writer == "two" else nullcontext():
            publish(staged(out, writer), out, overwrite=False)
    assert content(out) == "one"
    publish(staged(out, "three"), out, overwrite=True)
    assert content(out) == "three"


PUBLISHED = """
import shutil
import numpy as np
from gsplit import atomic_folder
from gsplit.data.folders import writing_folder
calls = []
def counting(call):
    def counted(*arguments, **options):
        if len(calls) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(call)
        return call(*arguments, **options)
    return counted
atomic_folder._renameat2 = counting(atomic_folder._renameat2) if sys.argv[3] == "True" else lambda *_: False
Path.rename = counting(Path.rename)
shutil.rmtree = counting(shutil.rmtree)
with writing_folder(Path(sys.argv[1]), overwrite=True) as writer:
    writer.save("new", np.arange(3))
    writer.describe("graph.json", {})
    calls.clear()
"""


@pytest.mark.parametrize(("by_kernel", "steps"), [(True, 2), (False, 4)])
def test_a_store_whose_writer_is_killed_at_any_step_is_the_old_one_or_the_new_one(tmp_path, by_kernel, steps):
    """Steps: exchange, remove; or OUT to OLD, NEW to OUT, OLD to be discarded, remove."""
    store, seen = tmp_path / "store", []
    for step in range(steps):
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        (store / "graph.json").write_text("old")
        killed(PUBLISHED, store, step, by_kernel)
        if by_kernel:
            assert (store / "graph.json").is_file()  # at all times
        OUTPUTS.recover(store)
        assert os.listdir(tmp_path) == ["store"]
        seen.append(sorted(os.listdir(store)))
    old, new = ["graph.json"], ["graph.json", "new.npy"]
    assert seen == ([old, new] if by_kernel else [old, old, new, new])


def test_a_place_is_found_through_links(tmp_path):
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    run = a_run(tmp_path / "far" / "run", "summary.json")
    with pytest.raises(SystemExit):
        fail_in(tmp_path / "link" / ".." / "run")
    assert sorted(os.listdir(tmp_path / "far")) == ["deep", "run"]
    assert (run / "summary.json").exists()


@pytest.mark.parametrize("resumed", [False, True])
def test_what_a_trainer_left_half_written_goes_with_the_run(tmp_path, resumed):
    run = tmp_path / "run"
    if resumed:
        a_run(run)
    with pytest.raises(SystemExit):
        fail_in(run, resumes=resumed, files={"model.json": "{}", ".checkpoint-0123456789abcdef.pt.4321": "half"})
    assert not list(run.glob(".checkpoint*"))
    assert (run / "model.json").exists()
