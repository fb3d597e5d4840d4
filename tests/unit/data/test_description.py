"""What is read from a folder is as its description says, or refused by name."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from support.folders import FILE, FLOATS, NUMBERS, describe, write

from gsplit.data.description import open_array, verify_checksums
from gsplit.data.npy import SMALL_BYTES
from gsplit.errors import InputError


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
