"""Random damage to arrays: ``.npy``, ``.npz`` and what ``torch.save`` writes (:mod:`experiments.faults.damage`)."""

from __future__ import annotations

import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.faults.texts import Hostile

DTYPES = ("f8", "f4", "f2", "i8", "i4", "i1", "u8", "u1", "?", "c16", "U5", "S3", "M8[s]", ">i8", ">f4", "V3", "g")
NUMBERS = (float("nan"), float("inf"), -1, 10**6, 2**31, 2**62, -(2**63), 1e38, 0.5)
HEADERS = (
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
    "{'descr': '<i8', 'fortran_order': 'no', 'shape': 3, }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': [('a', '<i8'), ('b', '|O')], 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), 'more': 1, }",
    "{'descr': '<q8', 'fortran_order': False, 'shape': (True,), }",
    "{'descr': '<i8', 'fortran_order': True, 'shape': (2.5,), }",
    "__import__('pathlib').Path('canary').touch()",
    "{'descr': __import__('pathlib').Path('canary').touch(), 'fortran_order': False, 'shape': (3,), }",
    "(" * 5000,
    "9" * 5000,
    "\x00",
    "",
)
"""What a header of a ``.npy``, a Python literal, is replaced by."""


def header_of(path: Path) -> dict[str, Any]:
    """``dtype`` and ``shape`` as a description lists them; nothing where the file has no sound header."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        return {"dtype": str(array.dtype), "shape": list(array.shape)}
    except Exception:  # damaged in any way
        return {}


def other_values(array: NDArray[Any], random: Random) -> tuple[NDArray[Any], str]:
    """One kind of change to an array that stays an array."""
    array = np.atleast_1d(array)
    how = random.choice(("dtype", "dtype", "shape", "number", "number", "length", "order", "byte order", "backwards"))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if how == "dtype":
            dtype = random.choice(DTYPES)
            try:
                return array.astype(dtype), f"as {dtype}"
            except (TypeError, ValueError):
                return np.zeros(array.shape, dtype), f"zeros of {dtype}"
        if how == "shape":
            forms = [
                array[None],
                array[..., None],
                array.reshape(-1)[:1].reshape(()),
                array.T,
                array[:0],
                array[None, None],
            ]
            chosen = random.choice(forms)
            return chosen, f"of shape {chosen.shape}"
        if how == "length":
            chosen = random.choice((array[:-1], array[1:], np.concatenate([array, array]), array[:1]))
            return chosen, f"of shape {chosen.shape}"
        if how == "number":
            number, count = random.choice(NUMBERS), random.choice((1, 1, array.size))
            changed = array.copy()
            places = random.sample(range(array.size), min(count, array.size))
            changed.reshape(-1)[places] = np.array(number).astype(array.dtype)
            return changed, f"{len(places)} of them {number}"
        if how == "order":
            return np.asfortranarray(array), "in column order"
        if how == "byte order":
            return array.astype(array.dtype.newbyteorder()), "with swapped bytes"
        return array[::-1].copy(), "backwards"


def npy_values(path: Path, random: Random) -> str:
    changed, said = other_values(np.load(path), random)
    np.save(path, changed)
    return said


def npy_header(path: Path, random: Random) -> str:
    content, header = path.read_bytes(), random.choice(HEADERS)
    path.write_bytes(_with_header(content, header, random))
    return f"the header {header[:60]!r}"


def _with_header(content: bytes, header: str, random: Random) -> bytes:
    version = random.choice((1, 1, 2, 3, 9))
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content[128:]


def _hostile_npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Hostile(), None], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def npy_hostile(path: Path, random: Random) -> str:
    path.write_bytes(_hostile_npy())
    return "an array of objects, hostile"


def npy_archive(path: Path, random: Random) -> str:
    buffer = io.BytesIO()
    np.savez(buffer, **{path.stem: np.load(path)})
    path.write_bytes(buffer.getvalue())
    return "an archive of the array"


def npz_member(path: Path, random: Random) -> str:
    """Something done to one array of the archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(sorted(members))
    array = np.load(io.BytesIO(members[name]))
    how = random.choice(
        ("values", "values", "values", "header", "hostile", "gone", "renamed", "noise", "twice", "outside")
    )
    said = how
    if how == "values":
        buffer = io.BytesIO()
        changed, said = other_values(array, random)
        np.save(buffer, changed)
        members[name] = buffer.getvalue()
    elif how == "header":
        members[name] = _with_header(members[name], said := random.choice(HEADERS), random)
    elif how == "hostile":
        members[name] = _hostile_npy()
    elif how == "gone":
        del members[name]
    elif how == "renamed":
        members[random.choice(("other.npy", "a\nb.npy", "\x1b[31m.npy", "x", ".npy"))] = members.pop(name)
    elif how == "noise":
        members[name] = random.randbytes(200)
    elif how == "outside":
        members[random.choice(("../canary", "/tmp/../canary.npy"))] = members[name]
    with zipfile.ZipFile(path, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        if how == "twice":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                archive.writestr(name, _hostile_npy())
    return f"{name}: {said[:60]!r}"


def npz_flags(path: Path, random: Random) -> str:
    """The central directory says encrypted, or another size or method, in each entry."""
    content, what = (
        bytearray(path.read_bytes()),
        random.choice(("encrypted", "method", "size", "packed size", "offset")),
    )
    at = content.find(b"PK\x01\x02")
    while at >= 0:
        begin, by = {
            "encrypted": (8, b"\x01"),
            "method": (10, b"\x63"),
            "size": (24, b"\xff\xff\xff\x7f"),
            "packed size": (20, b"\xff\xff\xff\x7f"),
            "offset": (42, b"\xff\xff\xff\x00"),
        }[what]
        content[at + begin : at + begin + len(by)] = by
        at = content.find(b"PK\x01\x02", at + 1)
    path.write_bytes(content)
    return f"an archive with another {what}"


def npz_bomb(path: Path, random: Random) -> str:
    """Arrays that are a thousand times larger than they are packed."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1 << 21, np.int64))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, buffer.getvalue())
    return "arrays of 16 MiB of zeros, packed"


def pt_values(path: Path, random: Random) -> str:
    """One tensor or number, wherever it lies, is another, or gone."""
    import torch

    state = torch.load(path, weights_only=False)  # our own, before it is damaged
    if isinstance(state, torch.Tensor):
        torch.save(_other(state, random), path)
        return "another tensor"
    # A graph of several types has a store for each type and relation.
    holder = state if isinstance(state, dict) else random.choice([store for store in state.stores if store.keys()])
    trail = []
    while True:
        at = random.choice(list(holder.keys()))
        trail.append(str(at))
        if not isinstance(holder[at], dict) or not holder[at]:
            break
        holder = holder[at]
    if random.random() < 0.2:
        del holder[at]
    else:
        holder[at] = _other(holder[at], random)
    torch.save(state, path)
    return f"another {'.'.join(trail)}"


def _other(value: Any, random: Random) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and random.random() < 0.8:
        array, _ = other_values(value.numpy(), random)
        kept = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and array.dtype.isnative
        return torch.from_numpy(np.ascontiguousarray(array)) if kept else torch.zeros(3, dtype=torch.complex64)
    tensors = [
        torch.zeros(0),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(3, dtype=torch.bfloat16),
        torch.zeros(3, requires_grad=True),
        torch.zeros(1).expand(10**6),
    ]
    return random.choice([None, -1, 10**30, float("nan"), "x\n", [], {}, {"a": [1]}, *tensors])


def pt_hostile(path: Path, random: Random) -> str:
    import torch

    legacy = random.random() < 0.5
    torch.save({"edge_index": Hostile()}, path, _use_new_zipfile_serialization=not legacy)
    return f"a hostile pickle{' of the old form' if legacy else ''}"


def pt_other(path: Path, random: Random) -> str:
    import torch

    thing = random.choice((None, 3, "text", [], [1], {}, {1: 2}, (1, 2), (1, 2, 3), {"edge_index": None}, {"x": 1}))
    torch.save(thing, path)
    return f"a saved {thing!r}"


def pt_opcodes(path: Path, random: Random) -> str:
    """Bytes changed in the pickle inside, with checksums of the archive that fit."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith("data.pkl"))
    content = bytearray(members[name])
    for _ in range(random.choice((1, 2, 5))):
        content[random.randrange(len(content))] = random.choice((random.randrange(256), *pickle.STOP, *pickle.MARK))
    members[name] = bytes(content)
    with zipfile.ZipFile(path, "w") as archive:
        for member, packed in members.items():
            archive.writestr(member, packed)
    return "other opcodes in its pickle"


DAMAGES: dict[str, tuple[Callable[[Path, Random], str], ...]] = {
    ".npy": (npy_values, npy_values, npy_values, npy_header, npy_hostile, npy_archive),
    ".npz": (npz_member, npz_member, npz_member, npz_flags, npz_bomb),
    ".pt": (pt_values, pt_values, pt_values, pt_hostile, pt_other, pt_opcodes),
}
