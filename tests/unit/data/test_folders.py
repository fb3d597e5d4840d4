"""Folders are whole or not there."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from contextlib import ExitStack, nullcontext

import numpy as np
import pytest
from support.folders import FILE, FORMAT, NUMBERS, VERSION, describe, write

from gsplit.data.description import verify_checksums
from gsplit.data.folders import check_free, writing_folder
from gsplit.errors import InputError


def test_the_folder_appears_only_when_the_block_ends(tmp_path):
    out = tmp_path / "new" / "folder"
    with writing_folder(out) as writer:
        writer.save("numbers", NUMBERS)
        assert not out.exists()
    assert list(tmp_path.rglob("*")) == [out.parent, out, out / "numbers.npy"]


def fail_while_writing(out, error, **options):
    with writing_folder(out, **options) as writer:
        writer.save("numbers", NUMBERS + 1)
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_nothing(tmp_path, error):
    with pytest.raises(error):
        fail_while_writing(tmp_path / "folder", error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("7 requested and 3 written"), "cannot write to .*: No space left on device"),
        (OSError(errno.EFBIG, "what a library says of it"), "cannot write to .*: File too large"),
        (MemoryError("of 3\nbytes"), r"folder cannot be made: there is too little memory \(of 3 bytes\)$"),
        (MemoryError(), "folder cannot be made: there is too little memory$"),
    ],
)
def test_too_little_room_is_one_line(tmp_path, error, message):
    with pytest.raises(InputError, match=message):
        fail_while_writing(tmp_path / "folder", error)
    assert list(tmp_path.iterdir()) == []


def test_an_exception_leaves_the_folder_that_was_to_be_replaced(folder):
    with pytest.raises(RuntimeError):
        fail_while_writing(folder, RuntimeError, overwrite=True)
    assert list(folder.parent.iterdir()) == [folder]
    verify_checksums(folder, describe(folder))


def test_an_existing_folder_is_refused_and_untouched(folder):
    with pytest.raises(InputError, match="exists already"):
        write(folder, NUMBERS + 1)
    assert (np.load(folder / "numbers.npy") == NUMBERS).all()


def test_overwriting_replaces_all_of_it(folder):
    (folder / "stale.npy").write_bytes(b"of the folder before")
    write(folder, NUMBERS + 1, overwrite=True)
    assert sorted(p.name for p in folder.iterdir()) == ["floats.npy", FILE, "numbers.npy"]
    assert (np.load(folder / "numbers.npy") == NUMBERS + 1).all()
    assert list(folder.parent.iterdir()) == [folder]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write to .*file"):
        write(tmp_path / "file" / "folder")


@pytest.mark.parametrize("name", ["a" * 250, "a" * 300, "a" * 300 + "/b", "\N{GREEK SMALL LETTER PI}" * 125])
def test_a_name_that_is_too_long_is_refused_before_any_work(tmp_path, name):
    with pytest.raises(InputError, match=r"cannot write to .*: File name too long"):
        check_free(tmp_path / name, overwrite=False)
    check_free(tmp_path / ("a" * 245), overwrite=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_writer_replaces_what_a_faster_one_wrote_only_if_told_to(tmp_path, overwrite):
    with ExitStack() as slow:
        slow.enter_context(
            pytest.raises(InputError, match="folder exists already") if not overwrite else nullcontext()
        )
        writer = slow.enter_context(writing_folder(tmp_path / "folder", overwrite=overwrite))
        writer.save("numbers", NUMBERS + 1)
        writer.describe(FILE, {"format": FORMAT, "version": VERSION})
        write(tmp_path / "folder")
    assert (np.load(tmp_path / "folder" / "numbers.npy") == NUMBERS + overwrite).all()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_dangling_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="link"):
        write(tmp_path / "link")
    assert [p.name for p in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("shape", [(4, 3), (0, 3), (4, 0)])
def test_arrays_can_be_filled_in_place(tmp_path, shape):
    with writing_folder(tmp_path / "folder") as writer:
        writer.create("numbers", shape, np.int32)[...] = 7
    assert np.load(tmp_path / "folder" / "numbers.npy").tolist() == np.full(shape, 7).tolist()


WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from gsplit.data.folders import writing_folder
with writing_folder(Path(sys.argv[1])) as writer:
    writer.save("array", np.arange(10))
    print("begun", flush=True)
    sys.stdin.read()
"""


def begun_writer(out):
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"begun\n"
    return child


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_writer_that_is_told_to_end_leaves_nothing(tmp_path, number):
    with begun_writer(tmp_path / "new" / "folder") as child:
        child.send_signal(number)
        assert child.wait(timeout=30) != 0
    assert names(tmp_path) == []


def test_the_next_writer_sweeps_what_a_killed_one_left(tmp_path):
    out = tmp_path / "folder"
    with begun_writer(out) as child:
        child.kill()
    (left,) = names(tmp_path)
    assert left.startswith(".folder.")
    with begun_writer(out) as living:  # its folder is locked, and so stays
        (own,) = names(tmp_path)
        assert own != left
        with writing_folder(out) as writer:
            assert len(names(tmp_path)) == 2
            writer.describe("graph.json", {})
        assert names(tmp_path) == sorted([own, "folder"])
        living.kill()
