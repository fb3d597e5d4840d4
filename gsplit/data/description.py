"""The JSON description of a folder of ``.npy`` arrays, and the arrays as they are described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gsplit.data.npy import DAMAGE, map_array, sha256_of_file
from gsplit.errors import InputError
from gsplit.files import read_json

OTHERS = {
    "graph.json": "a graph store: make a layout of it with gsplit partition",
    "config.json": "a run: give its layout, or go on with --resume",
    "layout.json": "a layout",
}
"""What a folder is that has a file of another kind, for messages."""


def read_description(folder: Path, file_name: str, format_name: str, newest: int) -> dict[str, Any]:
    """The JSON description of a folder, of a version up to the newest that this release reads.

    InputError where it is missing, damaged, of another format or version.
    """
    path = folder / file_name
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder" + (", it is a file" if folder.exists() else ": no such path"))
    if not path.is_file():
        is_one = next((f"; it is {what}" for name, what in OTHERS.items() if (folder / name).is_file()), "")
        raise InputError(f"{folder} is no {format_name}: it has no {file_name}{is_one}")
    try:
        description = read_json(path)
        found, found_version = description["format"], description["version"]
        arrays = description["arrays"]
        if not isinstance(arrays, dict) or not isinstance(description["checksum"], str):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is damaged: no valid description of a {format_name}") from None
    if found != format_name or found_version not in range(1, newest + 1):
        versions = " or ".join(str(version) for version in range(1, newest + 1))
        raise InputError(
            f"{path} says {found!r} version {found_version!r}; this release reads {format_name!r} version {versions}"
        )
    return description


def open_array(
    folder: Path, name: str, description: dict[str, Any], dtypes: tuple[str, ...], shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """Read-only map of ``name``.npy, checked against its description, the dtypes allowed and the shape.

    ``None`` in ``shape`` admits any size.

    Raises:
        InputError: where the file is missing, truncated or of another dtype or shape.
    """
    path = folder / f"{name}.npy"
    entry = _entry(folder, name, description)
    try:
        size_bytes = path.stat().st_size
        if size_bytes != entry["bytes"]:
            raise InputError(f"{path} is truncated or changed: {size_bytes} bytes, {entry['bytes']} expected")
        array = map_array(path)
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{path} is not a readable .npy file: {error}") from None
    if str(array.dtype) != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise InputError(
            f"{path} is damaged or changed: {array.dtype} of shape {array.shape}, "
            f"described as {entry['dtype']} of shape {tuple(entry['shape'])}"
        )
    array.setflags(write=False)
    if str(array.dtype) not in dtypes:
        raise InputError(f"{path} has dtype {array.dtype}; expected {' or '.join(dtypes)}")
    fits = len(shape) == array.ndim and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(f"{path} has shape {array.shape}; expected ({wanted})")
    return array


def _entry(folder: Path, name: str, description: dict[str, Any]) -> dict[str, Any]:
    """Return what the description says of one array."""
    entry = description["arrays"].get(name)
    if entry is None:
        raise InputError(f"{folder}: the description lists no array {name!r}")
    types = {"dtype": str, "shape": list, "bytes": int, "sha256": str}
    if not isinstance(entry, dict) or any(not isinstance(entry.get(key), kind) for key, kind in types.items()):
        raise InputError(f"{folder}: the description is damaged where it lists the array {name!r}")
    return entry


def verify_checksums(folder: Path, description: dict[str, Any]) -> None:
    """Read every array once, and raise InputError for the first whose SHA-256 differs."""
    for name in description["arrays"]:
        entry = _entry(folder, name, description)
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise InputError(f"{path} is missing")
        if sha256_of_file(path) != entry["sha256"]:
            raise InputError(f"{path} is damaged: its SHA-256 is not the one in the description")
