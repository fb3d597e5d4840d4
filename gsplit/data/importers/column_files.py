"""Kinds of columns in a file of their own, or in a dictionary, where names may have commas and colons."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gsplit.data.importers.column_kinds import parse_columns
from gsplit.errors import InputError
from gsplit.toml import tomllib

SUFFIX = ".toml"


def words_of_columns(columns: Any) -> Any:
    """Words NAME:KIND of what ``--columns`` was given.

    Args:
        columns: such words and paths of TOML files, one path, or a dictionary of kinds by name; what is nothing of
            this is returned as it is, for whoever checks it.

    Raises:
        InputError: for a file that cannot be read, or that holds anything but kinds of columns.
    """
    if isinstance(columns, Mapping):
        return _words(columns, "columns")
    if _is_file(columns):
        columns = (columns,)
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        return columns
    words: list[Any] = []
    for word in columns:
        words += _read(Path(word)) if _is_file(word) else [word]
    return words


def _is_file(word: Any) -> bool:
    return isinstance(word, os.PathLike) or (isinstance(word, str) and word.lower().endswith(SUFFIX))


def _read(path: Path) -> list[str]:
    try:
        kinds = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InputError(f"--columns {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--columns {path} is not a readable TOML file: {error}") from None
    return _words(kinds, str(path))


def _words(kinds: Mapping[Any, Any], where: str) -> list[str]:
    """Words NAME:KIND of kinds by name; ``where`` is for messages."""
    words = []
    for name, kind in kinds.items():
        if isinstance(kind, Mapping):
            raise InputError(f"--columns {where}: {name} is a table; write a name with a dot in quotes")
        if not isinstance(name, str) or not isinstance(kind, str):
            raise InputError(f"--columns {where}: the kind of {name!r} is a text such as number, not {kind!r}")
        words.append(f"{name}:{kind}")
    try:
        parse_columns(words)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return words
