"""Stores that are written here and now, into a folder of the user's or a temporary one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gsplit.data.folders import FolderWriter, writing_folder
from gsplit.data.memory.temporary import Temporary
from gsplit.data.store import GraphStore, open_store
from gsplit.errors import InputError
from gsplit.files import as_path


def kept_store(
    fill: Callable[[FolderWriter], None], where: str, out: str | os.PathLike[str] | None, overwrite: bool
) -> GraphStore:
    """The store that a function writes, in ``out`` or in a temporary folder."""
    if out is not None:
        folder = as_path(out, f"{where}: out", "a folder")
        with writing_folder(folder, overwrite=overwrite) as writer:
            fill(writer)
        return open_store(folder, typed=True)
    temporary = Temporary()
    try:
        with writing_folder(temporary.path / "graph") as writer:
            fill(writer)
        return replace(open_store(temporary.path / "graph", typed=True), temporary=temporary)
    except BaseException:
        temporary.close()  # not when the traceback goes, which notebooks keep
        raise


def check_name(name: Any, where: str) -> None:
    """Raise InputError for a name of a graph that is no line of text."""
    if not isinstance(name, str) or not name.isprintable():
        raise InputError(f"{where}: name must be a line of text, not {name!r}")
