"""``ids.arrow``: what the vertices of a store or a layout are called (docs/formats.md, "Ids").

Row v belongs to the vertex with the global id v. A column is int64 where all its ids are written as whole numbers of
64 bits are, else ``large_string``. The file is mapped: an id is read when it is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.npy import sha256_of_file
from gsplit.errors import InputError

FILE = "ids.arrow"
SEPARATOR = "\x1f"
"""Separator of the columns of an id where it is one text."""
SHOWN = 60
"""Characters of an id in a message."""
MOST_BYTES, MOST_TIMES = 1 << 30, 16
"""Largest size of an array of ids, in bytes, or times the characters of the ids."""


def import_pyarrow(what: str) -> ModuleType:
    """The module ``pyarrow``; InputError where it is not installed."""
    try:
        import pyarrow.compute
    except ImportError:
        raise InputError(f"{what} need pyarrow: pip install 'gsplit[tables]'") from None
    return pyarrow


def shown(parts: Sequence[Any]) -> str:
    """An id of one column or several, as messages show it."""
    quoted = ", ".join(str(part) if isinstance(part, int) else repr(str(part)[:SHOWN]) for part in parts)
    return quoted if len(parts) == 1 else f"({quoted})"


def write_ids(path: Path, names: Sequence[str], pieces: Iterable[Any]) -> dict[str, Any]:
    """Write ``ids.arrow``, texts in pieces (``large_string``); what a description says of it."""
    import pyarrow as pa

    texts = path.with_name(f"{path.name}.texts")
    whole = [True] * len(names)
    schema = pa.schema([(name, pa.large_string()) for name in names])
    with pa.OSFile(str(texts), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for piece in pieces:
            columns = ids_in_columns(piece, len(names))
            whole = [was and whole_numbers(column) is not None for was, column in zip(whole, columns, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    if any(whole):
        types = [pa.int64() if each else pa.large_string() for each in whole]
        schema = pa.schema(list(zip(names, types, strict=True)))
        with (
            pa.memory_map(str(texts)) as source,
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_file(file, schema) as writer,
        ):
            batches = pa.ipc.open_file(source)
            for at in range(batches.num_record_batches):
                writer.write_batch(batches.get_batch(at).cast(schema))
        texts.unlink()
    else:
        texts.rename(path)
    return {"columns": list(names), "bytes": path.stat().st_size, "sha256": sha256_of_file(path)}


def as_array(ids: Sequence[Any] | NDArray[np.int64], what: str, instead: str) -> NDArray[Any]:
    """Ids of one column as an array [n], of int64 or of texts, for a file.

    Args:
        what: what messages call the file.
        instead: what to do where the array would be far larger than the ids.

    Raises:
        InputError: where it would be: each text of an array takes as much as the longest.
    """
    if not len(ids) or not isinstance(ids[0], str):
        return np.array(ids, np.int64)
    longest, characters = max(map(len, ids)), sum(map(len, ids))
    if (size := 4 * longest * len(ids)) > max(MOST_BYTES, MOST_TIMES * characters):
        raise InputError(
            f"{what}: an array of the ids takes {size:,} bytes, as the longest has {longest:,} characters; {instead}"
        )
    return np.array(ids)


def ids_in_columns(ids: Any, count: int) -> list[Any]:
    """Ids that are one text each, ``large_string`` [n], as so many columns."""
    if count == 1:
        return [ids]
    import pyarrow.compute as pc

    split = pc.split_pattern(ids, SEPARATOR)
    return [pc.list_element(split, at) for at in range(count)]


def whole_numbers(column: Any) -> Any:
    """A column of texts as int64, or None where one is not written as a whole number of 64 bits is."""
    import pyarrow as pa

    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return whole if whole.cast(column.type).equals(column) else None


class KeptIds:
    """Ids of vertices, from the file of an open store or layout.

    Raises:
        InputError: where the file is missing, or is not what the description says.
    """

    def __init__(self, folder: Path, described: Any, num_vertices: int) -> None:
        self._pyarrow = import_pyarrow(f"the ids of {folder}")
        self.path = path = folder / FILE
        names, size = (described.get(key) if isinstance(described, dict) else None for key in ("columns", "bytes"))
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            names = None
        if names is None or not isinstance(size, int):
            raise InputError(f"{folder}: the description is damaged where it says what vertices are called")
        self.names, self._described = tuple(names), described
        if not path.is_file():
            raise InputError(f"{path} is missing")
        if path.stat().st_size != size:
            raise InputError(f"{path} is truncated or changed: {path.stat().st_size} bytes, {size} expected")
        pa = self._pyarrow
        try:
            self._table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            self._table.validate(full=True)  # or an offset that is damaged reaches memory of others
            there = tuple(self._table.column_names)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is damaged: {' '.join(str(error).split())}") from None
        known = all(column.type in (pa.int64(), pa.large_string()) for column in self._table.columns)
        full = all(column.null_count == 0 for column in self._table.columns)
        if there != self.names or len(self._table) != num_vertices or not (known and full):
            raise InputError(f"{path} is damaged: it does not hold the ids of {num_vertices} vertices")

    def of(self, vertices: NDArray[np.int64]) -> list[list[Any]]:
        """Ids of vertices [n], a list of n texts or whole numbers for each column."""
        rows = self._pyarrow.array(vertices)
        return [column.take(rows).to_pylist() for column in self._table.columns]

    @property
    def whole(self) -> bool:
        """True where all columns are whole numbers."""
        return all(column.type == self._pyarrow.int64() for column in self._table.columns)

    def columns(self) -> list[tuple[str, NDArray[np.int64] | list[str]]]:
        """The name of each column, and its N ids: an array of whole numbers, or a list of texts."""
        each = zip(self.names, self._table.columns, strict=True)
        return [(name, of.to_numpy() if of.type == self._pyarrow.int64() else of.to_pylist()) for name, of in each]

    def pieces(self, at_once: int) -> Iterator[list[Any]]:
        """Ids by vertex, at most so many at a time: arrays of pyarrow, ``large_string``, one for each column."""
        for begin in range(0, len(self._table), at_once):
            piece = self._table.slice(begin, at_once).combine_chunks()
            yield [self._pyarrow.concat_arrays(column.chunks).cast("large_string") for column in piece.columns]

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return shown([column[vertex].as_py() for column in self._table.columns])

    def write(self, path: Path) -> dict[str, Any]:
        """Copy the ids; what the description of the folder says of them."""
        copy_ids(self.path.parent, path.parent)
        return dict(self._described)

    def find(self, ids: Sequence[Any], where: str) -> NDArray[np.int64]:
        """The vertices, int64 [n], of ids [n]: texts or numbers, or a sequence of them where an id has columns.

        Raises:
            InputError: naming ``where`` and the first id that there is not.
        """
        pa, width = self._pyarrow, len(self.names)
        asked = list(ids) if width > 1 else [(value,) for value in ids]
        if any(not isinstance(value, (tuple, list)) or len(value) != width for value in asked):
            raise InputError(f"{where}: an id has the columns {', '.join(self.names)}")
        columns = list(zip(*asked, strict=True)) or [()] * width
        wanted = joined([pa.array([str(value) for value in column], pa.large_string()) for column in columns])
        known = joined([column.combine_chunks().cast(pa.large_string()) for column in self._table.columns])
        found = pa.compute.index_in(wanted, value_set=known)
        if found.null_count:
            at = found.is_null().to_numpy(zero_copy_only=False).argmax()
            raise InputError(f"{where}: {shown(asked[at])} is the id of no vertex")
        return found.to_numpy().astype(np.int64)


def joined(columns: Sequence[Any]) -> Any:
    """Ids of several columns as one text each, ``large_string`` [n]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    separator = pa.scalar(SEPARATOR, pa.large_string())
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, separator)


def copy_ids(source: Path, folder: Path) -> None:
    """Copy the ids of a store into another folder.

    Raises:
        InputError: where they are missing.
    """
    try:
        shutil.copyfile(source / FILE, folder / FILE)
    except FileNotFoundError:
        raise InputError(f"{source / FILE} is missing") from None


def verify_ids(folder: Path, described: Any) -> None:
    """Read the ids once and compare their SHA-256.

    Raises:
        InputError: where it differs.
    """
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"{path} is missing")
    if not isinstance(described, dict) or sha256_of_file(path) != described.get("sha256"):
        raise InputError(f"{path} is damaged: its SHA-256 is not the one in the description")
