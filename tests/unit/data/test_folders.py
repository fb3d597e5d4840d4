"""Folders are whole or not there, and nothing is read from a damaged one without a word."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from itertools import product

import numpy as np
import pytest

from gsplit.data.folders import (
    SMALL_BYTES,
    check_free,
    open_array,
    read_description,
    verify_checksums,
    writing_folder,
)
from gsplit.errors import InputError

FORMAT, VERSION, FILE = "gsplit-graph", 1, "graph.json"
NUMBERS = np.arange(5)
FLOATS = np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2)


def write(folder, numbers=NUMBERS, **options):
    with writing_folder(folder, **options) as writer:
        writer.save("numbers", numbers)
        writer.save("floats", FLOATS)
        writer.describe(FILE, {"format": FORMAT, "version": VERSION})


def describe(folder):
    return read_description(folder, FILE, FORMAT, VERSION)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "folder")
    return tmp_path / "folder"


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


@pytest.mark.parametrize("repeats", [1, SMALL_BYTES])  # read at once, mapped
def test_arrays_come_back_and_cannot_be_written(tmp_path, repeats):
    write(tmp_path / "folder", np.tile(NUMBERS, repeats))
    numbers = open_array(tmp_path / "folder", "numbers", describe(tmp_path / "folder"), ("int64",), (None,))
    assert (numbers == np.tile(NUMBERS, repeats)).all()
    assert isinstance(numbers, np.memmap) == (repeats > 1)
    assert not numbers.flags.writeable


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), r"truncated or changed: 167 bytes, 168 expected"),
        (lambda file: file.write_bytes(b""), "truncated or changed: 0 bytes"),
        (lambda file: file.write_bytes(file.read_bytes() + b"x"), "truncated or changed: 169 bytes"),
        (lambda file: file.write_bytes(b"x" * 168), "not a readable .npy file"),
    ],
)
def test_damaged_files_are_named(folder, damage, message):
    damage(folder / "numbers.npy")
    with pytest.raises(InputError, match=rf"numbers\.npy.*{message}"):
        open_array(folder, "numbers", describe(folder), ("int64",), (None,))


@pytest.mark.parametrize(
    ("dtypes", "shape", "message"),
    [
        (("int32", "float32"), (5,), "has dtype int64; expected int32 or float32"),
        (("int64",), (5, None), r"has shape \(5,\); expected \(5, any\)"),
    ],
)
def test_other_dtypes_and_shapes_are_refused(folder, dtypes, shape, message):
    with pytest.raises(InputError, match=message):
        open_array(folder, "numbers", describe(folder), dtypes, shape)


def test_object_arrays_are_never_unpickled(folder):
    path = folder / "numbers.npy"
    np.save(path, np.array([{}, None]), allow_pickle=True)
    description = describe(folder)
    description["arrays"]["numbers"]["bytes"] = path.stat().st_size
    with pytest.raises(InputError, match=r"not a readable \.npy file"):
        open_array(folder, "numbers", description, ("object",), (None,))


def test_descriptions_that_do_not_fit_are_refused(folder):
    with pytest.raises(InputError, match="lists no array 'others'"):
        open_array(folder, "others", describe(folder), ("int64",), (5,))
    lacking = {"arrays": {"numbers": {}}}
    with pytest.raises(InputError, match="damaged"):
        open_array(folder, "numbers", lacking, ("int64",), (5,))
    with pytest.raises(InputError, match="damaged"):
        verify_checksums(folder, lacking)


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", "\0", '{"format": "", "version": 1, "arrays": []}'])
def test_a_damaged_description_is_refused(folder, text):
    (folder / FILE).write_text(text)
    with pytest.raises(InputError, match="is damaged"):
        describe(folder)


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "other"}])
def test_another_format_or_version_is_refused(folder, change):
    (folder / FILE).write_text(json.dumps({**describe(folder), **change}))
    with pytest.raises(InputError, match=r"says .* version .*; this release reads 'gsplit-graph' version 1"):
        describe(folder)


def damaged_copies(path, size_bytes, bits):
    """Flip one bit at a time of the first bytes of a file, and put it back at the end."""
    content = path.read_bytes()
    for position, bit in product(range(size_bytes), bits):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :])
        yield
    path.write_bytes(content)


def test_one_flipped_bit_is_found(folder):
    found = 0
    for _ in damaged_copies(folder / "numbers.npy", 168, bits=[3]):
        with pytest.raises(InputError, match=r"numbers\.npy is damaged"):
            verify_checksums(folder, describe(folder))
        found += 1
    assert found == 168
    verify_checksums(folder, describe(folder))


@pytest.mark.filterwarnings("ignore")  # of the parser of the header
def test_a_damaged_header_is_never_taken_for_another_array(folder):
    # Checksums are compared on demand only; without them too a file must not pass for a shorter array.
    odd = set()
    for _ in damaged_copies(folder / "floats.npy", 128, bits=[0, 1, 4]):
        try:
            array = open_array(folder, "floats", describe(folder), ("float32",), (None, None))
        except InputError:
            continue
        except Exception as error:
            odd.add(repr(error))
        else:
            odd |= set() if array.shape == FLOATS.shape else {f"shape {array.shape}"}
    assert odd == set()


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
