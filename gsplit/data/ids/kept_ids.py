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
"""What stands between the columns of an id where it is one text."""
SHOWN = 60
"""Characters of an id in a message."""


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
    import pyarrow.compute as pc

    from gsplit.data.ids.named_ids import whole_numbers

    texts = path.with_name(f"{path.name}.texts")
    whole = [True] * len(names)
    schema = pa.schema([(name, pa.large_string()) for name in names])
    with pa.OSFile(str(texts), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for piece in pieces:
            columns = [piece]
            if len(names) > 1:
                split = pc.split_pattern(piece, SEPARATOR)
                columns = [pc.list_element(split, at) for at in range(len(names))]
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


class KeptIds:
    """What vertices are called, from the file of an open store or layout.

    Raises:
        InputError: where the file is missing, or is not what the description says.
    """

    def __init__(self, folder: Path, described: Any, num_vertices: int) -> None:
        self._pyarrow = import_pyarrow(f"the ids of {folder}")
        self._path = path = folder / FILE
        try:
            self.names = tuple(str(name) for name in described["columns"])
            size = int(described["bytes"])
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{folder}: the description is damaged where it says what vertices are called") from None
        if not path.is_file():
            raise InputError(f"{path} is missing")
        if path.stat().st_size != size:
            raise InputError(f"{path} is truncated or changed: {path.stat().st_size} bytes, {size} expected")
        try:
            self._table = self._pyarrow.ipc.open_file(self._pyarrow.memory_map(str(path))).read_all()
        except (self._pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path} is damaged: {error}") from None
        if tuple(self._table.column_names) != self.names or len(self._table) != num_vertices:
            raise InputError(f"{path} is damaged: it does not hold the ids of {num_vertices} vertices")

    def of(self, vertices: NDArray[np.int64]) -> list[list[Any]]:
        """Ids of vertices [n], a list of n texts or whole numbers for each column."""
        rows = self._pyarrow.array(vertices)
        return [column.take(rows).to_pylist() for column in self._table.columns]

    def all(self) -> list[NDArray[Any]]:
        """Ids of all vertices, an array [N] of int64 or of texts for each column."""
        columns = [column.to_numpy() for column in self._table.columns]
        return [column if column.dtype == np.int64 else column.astype(str) for column in columns]

    def pieces(self, at_once: int) -> Iterator[list[Any]]:
        """Ids by vertex, at most so many at a time: arrays of pyarrow, ``large_string``, one for each column."""
        for begin in range(0, len(self._table), at_once):
            piece = self._table.slice(begin, at_once).combine_chunks()
            yield [self._pyarrow.concat_arrays(column.chunks).cast("large_string") for column in piece.columns]

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return shown([column[vertex].as_py() for column in self._table.columns])

    def find(self, ids: Sequence[Any], where: str) -> NDArray[np.int64]:
        """The vertices, int64 [n], of ids [n]: texts or numbers, or a sequence of them where an id has columns.

        Raises:
            InputError: naming ``where`` and the first id that there is not.
        """
        pa = self._pyarrow
        asked = list(ids)
        columns = [asked] if len(self.names) == 1 else list(zip(*asked, strict=True))
        if len(columns) != len(self.names):
            raise InputError(f"{where}: an id has the columns {', '.join(self.names)}")
        wanted = _one(pa, [pa.array([str(value) for value in column], pa.large_string()) for column in columns])
        known = _one(pa, [column.combine_chunks().cast(pa.large_string()) for column in self._table.columns])
        found = pa.compute.index_in(wanted, value_set=known)
        if found.null_count:
            at = found.is_null().to_numpy(zero_copy_only=False).argmax()
            raise InputError(f"{where}: {shown(wanted[at].as_py().split(SEPARATOR))} is the id of no vertex")
        return found.to_numpy().astype(np.int64)


def _one(pa: Any, columns: Sequence[Any]) -> Any:
    if len(columns) == 1:
        return columns[0]
    return pa.compute.binary_join_element_wise(*columns, pa.scalar(SEPARATOR, pa.large_string()))


def copy_ids(source: Path, folder: Path) -> None:
    """Copy the ids of a store into another folder."""
    shutil.copyfile(source / FILE, folder / FILE)


def verify_ids(folder: Path, described: Any) -> None:
    """Read the ids once and compare their SHA-256.

    Raises:
        InputError: where it differs.
    """
    if sha256_of_file(folder / FILE) != described.get("sha256"):
        raise InputError(f"{folder / FILE} is damaged: its SHA-256 is not the one in the description")
