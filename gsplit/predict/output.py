"""The file of predictions (docs/formats.md, "Predictions"): .npy, .npz or .csv, whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit import atomic_folder
from gsplit.atomic_folder import OUTPUTS, refuse_existing
from gsplit.config.predict import OF_PAIRS
from gsplit.data.folders import DESCRIPTIONS
from gsplit.data.ids.kept_ids import KeptIds, as_array
from gsplit.engine.objectives.classification import NO_CLASS, NO_LABELS
from gsplit.errors import InputError
from gsplit.predict.csv_rows import called, csv_rows
from gsplit.predict.pair_output import pair_arrays, write_pairs_csv

KINDS = (".npy", ".npz", ".csv")
COLUMNS = {
    "classes": "class",
    "values": "value",
    "probabilities": "probability",
    "logits": "logit",
    "embeddings": "value",
}
VERTICES = "vertices.npy"
"""int64 [M] global ids, what was asked for; the parent writes it into a temporary folder."""
VALUES = "values.npy"
"""File of the trainers' results, in the same folder."""
FEATURES = "features.npy"
"""Features that were trained, [N, D] in the same folder: by layout id, or of several types as KeptRows takes them."""
ROWS_AT_ONCE = 1 << 14
LOGITS_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class NamesInOutput:
    """Names of the vertices and the classes of a graph."""

    ids: KeptIds | None = None
    """Ids of the user's own; None: vertices are called by their global ids."""
    classes: tuple[str, ...] | None = None
    """[C] names; None: classes are called by their numbers."""


NAMELESS = NamesInOutput()


def check_out(out: Path, *, overwrite: bool) -> None:
    """Refuse a name under which no file may be written.

    Raises:
        InputError: where it may not.
    """
    OUTPUTS.recover(out)
    if out.suffix not in KINDS:
        raise InputError(f"--out {out} must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if any((out.parent / name).is_file() for name in DESCRIPTIONS):
        raise InputError(f"--out {out} lies in a graph store or layout; choose another folder")
    if os.path.lexists(out):
        refuse_existing(out, overwrite=overwrite)
        if out.is_symlink() or not out.is_file():
            raise InputError(f"{out} is no plain file, so --overwrite does not replace it")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist; make it first")


@contextmanager
def temporary_folder(out: Path | None, vertices: NDArray[np.int64]) -> Iterator[Path]:
    """A folder with the vertices asked for, on the file system of ``out``; gone when the block ends, however.

    Raises:
        InputError: where it cannot be written.
    """
    made = tempfile.TemporaryDirectory if out is None else partial(OUTPUTS.folder, out)
    with made() as name:
        try:
            np.save(Path(name, VERTICES), vertices)
        except OSError as error:
            raise InputError(f"cannot write to {name}: {error.strerror}") from None
        yield Path(name)


def create_values(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """A writable map of a new ``.npy`` file with its place on the disk reserved.

    Raises:
        InputError: where there is too little room.
    """
    values = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    try:
        with path.open("r+b") as file:  # a full disk would end a writer of the map by SIGBUS
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        raise InputError(f"cannot write {values.nbytes:,} bytes to {path.parent}: {error.strerror}") from None
    return values


def missing_rows(values: NDArray[Any]) -> NDArray[np.int64]:
    """Rows of predictions that are missing, ascending: their vectors were not finite.

    Args:
        values: [M] classes, [M, C] labels, or [M, width] numbers, as the trainers wrote them.
    """
    found = [
        begin + np.flatnonzero(_is_missing(values[begin : begin + ROWS_AT_ONCE]))
        for begin in range(0, len(values), ROWS_AT_ONCE)
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.ndim == 1 and values.dtype.kind != "f":
        return values == NO_CLASS
    first = values.reshape(len(values), -1)[:, 0]
    return np.isnan(first) if first.dtype.kind == "f" else first == NO_LABELS


def write_predictions(
    out: Path,
    folder: Path,
    vertices: NDArray[np.int64],
    values: NDArray[Any],
    what: str,
    *,
    names: NamesInOutput = NAMELESS,
    overwrite: bool,
) -> None:
    """Give the trainers' values their form and their name.

    Args:
        out: the file; its suffix names the form.
        folder: on the same file system; holds ``values`` as ``values.npy``.
        vertices: int64 [M] global ids; of scores the pairs, [M, 2].
        values: [M] or [M, width], in the same order.
        what: as ``--what`` names it.
        names: of the vertices and of the classes.
        overwrite: replace a file that is there by now.

    Raises:
        InputError: where the disk is full, or another process was faster.
    """
    whole = folder / VALUES
    try:
        if out.suffix == ".npz":
            whole = folder / "whole.npz"
            if what in OF_PAIRS:
                arrays = pair_arrays(what, vertices, values, names.ids, str(out))
            else:
                arrays = _arrays(out, vertices, values, what, names)
            np.savez(whole, **arrays)
        elif out.suffix == ".csv":
            whole = folder / "whole.csv"
            if what in OF_PAIRS:
                write_pairs_csv(whole, what, vertices, values, names.ids)
            else:
                _write_csv(whole, vertices, values, what, names)
        check_out(out, overwrite=overwrite)
        atomic_folder.publish(whole, out, overwrite=overwrite)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from None


def _arrays(
    out: Path, vertices: NDArray[np.int64], values: NDArray[Any], what: str, names: NamesInOutput
) -> dict[str, Any]:
    """The arrays of a .npz."""
    arrays: dict[str, Any] = {"vertices": vertices, "values": values}
    if (ids := names.ids) is not None:
        columns = [as_array(column, str(out), "choose an --out of .csv") for column in ids.of(vertices)]
        arrays |= {f"ids_{name}": column for name, column in zip(ids.names, columns, strict=True)}
    if names.classes is not None and what not in ("values", "embeddings"):
        arrays["classes"] = np.array(names.classes)
    return arrays


def _write_csv(
    path: Path, vertices: NDArray[np.int64], values: NDArray[Any], what: str, names: NamesInOutput
) -> None:
    column, ids = COLUMNS[what], names.ids
    classes = names.classes if what not in ("values", "embeddings") else None
    number_of = range(values.shape[-1]) if classes is None else classes
    columns = [column] if values.ndim == 1 else [f"{column}_{each}" for each in number_of]
    words = None if classes is None or values.ndim > 1 else np.array(classes)
    with csv_rows(path, [*(("vertex",) if ids is None else ids.names), *columns]) as write:
        for begin in range(0, len(values), ROWS_AT_ONCE):
            asked = vertices[begin : begin + ROWS_AT_ONCE]
            # As text in NumPy: the shortest that reads back as the same number, also for float32.
            piece = values[begin : begin + ROWS_AT_ONCE]
            rows = (piece if words is None else words[piece]).reshape(len(asked), -1).astype(str)
            if (missing := _is_missing(piece)).any():
                rows[missing] = ""
            write(called(asked, ids), rows)


def make_probabilities(path: Path, *, several: bool) -> None:
    """Replace logits [M, C] in a ``.npy`` by probabilities, some rows at a time.

    Args:
        several: a vertex has any number of classes, so each has a probability of its own (sigmoid); otherwise those
            of a vertex have the sum 1 (softmax).
    """
    values = np.load(path, mmap_mode="r+")
    for begin in range(0, len(values), LOGITS_AT_ONCE):
        logits = torch.from_numpy(np.array(values[begin : begin + LOGITS_AT_ONCE]))
        values[begin : begin + len(logits)] = (logits.sigmoid() if several else logits.softmax(dim=1)).numpy()
    values.flush()
