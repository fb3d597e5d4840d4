"""Labels in a file of their own, or in a column of a table: numbers, names of classes, lists of them.

N vertices, C classes.
"""

from __future__ import annotations

import ast
import logging
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.importers.arrays import as_labels, read_npy
from gsplit.data.importers.attached.matching import IDS
from gsplit.data.importers.attached.row_rules import RowRules
from gsplit.data.importers.attached.vertex_tables import VertexTable, placed
from gsplit.data.importers.checked import NotNumbersError, is_number, printable_line
from gsplit.data.importers.tables.column_kinds import columns_made, read_columns, respelt, times_in, usual_kind
from gsplit.data.importers.tables.gaps import USUAL, Gaps
from gsplit.data.importers.tables.table import is_numeric, open_table
from gsplit.data.importers.tables.text_tables import TextTable
from gsplit.data.labels.class_names import SHOWN
from gsplit.data.labels.vertex_sets import Times
from gsplit.errors import InputError

MEMBER = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+|None|null|nan|NaN""")
"""A class in a list as Python or JSON writes it: a text in quotes, a number, or none."""
LIST = re.compile(rf"""[\[(]\s*(?:(?:{MEMBER.pattern})\s*(?:,\s*(?:{MEMBER.pattern})\s*)*,?\s*)?[\])]""")
BRACKETS, QUOTED = re.compile(r"\[.*\]|\(.*\)", re.DOTALL), re.compile(r"[\[(]\s*['\"]")
"""What looks like a list, and what is meant to be one."""
FEW_CLASSES = 2
"""With no more than so many, one of which is a word, nothing is odd about it."""
MOST_LISTED = 1 << 16
"""Classes of lists at most: each is a column of labels."""

logger = logging.getLogger(__name__)


class Labels(NamedTuple):
    """Labels of a graph as they were read."""

    values: NDArray[Any]
    """[rows] or [rows, C] numbers, NaN for unlabelled, of numbers of names -1."""
    vertices: NDArray[np.int64] | None = None
    """[rows], the vertex of each row, or -1; None: rows are those of the vertices, in order."""
    classes: tuple[str, ...] | None = None
    """[C] names of the classes, where the file has names."""
    are_lists: bool = False
    """True where a row has a list of classes."""
    place: Callable[[int], str] | None = None
    """What messages call a row, counted from 0, of a table of numbers."""

    def placed_by_vertex(self, vertex: int) -> str:
        """What messages call the row of a vertex."""
        assert self.place is not None
        rows = [vertex] if self.vertices is None else np.flatnonzero(self.vertices == vertex)
        return self.place(int(rows[0])) if len(rows) else f"vertex {vertex}"


def labels_of(
    path: Path,
    columns: Sequence[str] | None,
    separator: str | None,
    rules: RowRules,
    gaps: Gaps = USUAL,
    known: tuple[str, ...] = (),
) -> Labels:
    """The labels in a file.

    Args:
        path: a ``.npy`` or a table.
        columns: names of the columns of a table that hold them; None: all but the ids.
        separator: what stands between the classes of a vertex; None: a vertex has one.
        rules: by which rows belong to vertices.
        gaps: words that stand for no label.
        known: names of the classes of a store that grows: they keep their numbers, and others follow, also digits.

    Raises:
        InputError: where the file is missing, damaged, or holds something else.
    """
    if path.suffix == ".npy":
        if separator is not None:
            raise InputError(f"--label-separator is for a column of a table, and {path} is an array; drop it")
        values = read_npy(path)
        if known and values.ndim == 1 and (values >= 0).any():
            raise InputError(
                f"{path} has numbers of classes, and those that there were have names, such as {known[0]!r}; give a "
                "table with names"
            )
        return Labels(values, rules.in_order(path, len(values) if values.ndim else 0))
    bars = columns is not None or rules.have_names or not _is_one_column(path, separator)
    table = VertexTable(path, "label", rules, take=columns, flag="--label-column", gaps=gaps, bars=bars)
    if separator is not None and len(table.values) != 1:
        raise InputError(
            f"{path} has {len(table.values)} columns of labels; --label-separator is for one, which "
            "--label-column names"
        )
    column = table.values[0]
    are_words = known or not table.is_numeric(column)
    if separator is not None or (len(table.values) == 1 and are_words):
        words = _words(table)
        if (lists := _lists_of(table, words)) is None and separator is not None:
            lists = [[part.strip() for part in word.split(separator)] if word else None for word in words]
        return _named(table, words, known) if lists is None else _of_lists(table, lists, known)
    try:
        names, kinds = zip(*((table.name(at), usual_kind(table.table, at)) for at in table.values), strict=True)
        made = columns_made(table.table, table.values, names, kinds)
        chunks = read_columns(table.table, table.values, made)
        labels = np.concatenate([np.empty((0, len(table.values)), np.float32), *chunks])
    except NotNumbersError as error:
        several = len(table.values) > 1
        hint = "; several columns of labels are numbers; --label-column names the one with the classes"
        raise InputError(f"{error}{hint if several else ''}") from None
    _say_unlabelled(table, int(np.isnan(labels).any(axis=1).sum()), len(labels))
    values = labels[:, 0] if len(table.values) == 1 else labels
    return Labels(values, table.vertices, place=table.table.place)


def _is_one_column(path: Path, separator: str | None) -> bool:
    """Return whether ``|`` or ``::`` stands in lists or names of classes, and not between the columns of a text."""
    table = open_table(path)
    if not (isinstance(table, TextTable) and table.has_bars) or any(name in IDS for name in table.names):
        return False
    return separator is not None or not all(is_numeric(table, column) for column in range(table.num_columns))


def _words(table: VertexTable) -> list[str]:
    words = [word.strip() for (texts,) in table.read_texts() for word in texts.to_pylist()]
    _say_unlabelled(table, words.count(""), len(words))
    return words


def _say_unlabelled(table: VertexTable, gaps: int, rows: int) -> None:
    if gaps:
        logger.info("%s: %s of %s rows have no label", table.table.path, f"{gaps:,}", f"{rows:,}")


def _named(table: VertexTable, words: list[str], known: tuple[str, ...]) -> Labels:
    """Class numbers [rows], -1 without a name, known names first, then in their order; and the names."""
    other = respelt(set(words), known)
    words = [other.get(word, word) for word in words]
    names = _names_after(table, known, {word for word in words if word})
    odd = [name for name in names if not is_number(name)]
    if len(odd) == 1 and len(names) > FEW_CLASSES and not known:
        logger.warning(
            "%s, %s: %r is no number, as all other classes are, and becomes a class%s",
            table.table.path,
            table.table.place(words.index(odd[0])),
            printable_line(odd[0]),
            _way_to_unlabel(odd[0]),
        )
    number = {name: at for at, name in enumerate(names)} | {"": -1}
    return Labels(np.array([number[word] for word in words], np.int64), table.vertices, names)


def _way_to_unlabel(word: str) -> str:
    """What a message adds about a word; nothing where the flag, which has commas between words, cannot say it."""
    if "," in word or word != printable_line(word):
        return ""
    return f"; --unlabelled {shlex.quote(word)} leaves its vertices without a label"


def _names_after(table: VertexTable, known: tuple[str, ...], found: set[str], what: str = "") -> tuple[str, ...]:
    """The names of classes that are known, and after them the others of a table, in their order."""
    new = sorted(found.difference(known))
    shown = f": {printable_line(', '.join(new[:SHOWN]))}" if known and new else ""
    logger.info(
        "%s: %s%s %sclasses by name, in the order of the names%s",
        table.table.path,
        what,
        f"{len(new):,}",
        "new " if known else "",
        shown,
    )
    return (*known, *new)


def _lists_of(table: VertexTable, words: Sequence[str]) -> list[list[str] | None] | None:
    """The classes of each row of a column of lists as data frames write them; None where it is no such column.

    Raises:
        InputError: naming the line of what is no such list among others.
    """
    there = {word: row for row, word in reversed(list(enumerate(words))) if word}
    if not there or not (all(map(BRACKETS.fullmatch, there)) or any(map(QUOTED.match, there))):
        return None
    lists: dict[str, list[str] | None] = {"": None}
    for word, row in there.items():
        if LIST.fullmatch(word) is None:
            raise InputError(
                f"{table.table.path}, {table.table.place(row)}: {printable_line(word)[:40]!r} is no list of classes "
                "such as ['a', 'b'], as other values of its column are"
            )
        members = MEMBER.findall(word)
        lists[word] = [_text(each) for each in members if each not in ("None", "null", "nan", "NaN")]
    return [lists[word] for word in words]


def _text(member: str) -> str:
    """The class that a member of a list names, which may be in quotes."""
    return str(ast.literal_eval(member)).strip() if member[0] in "'\"" else member


def _of_lists(table: VertexTable, lists: list[list[str] | None], known: tuple[str, ...]) -> Labels:
    """Labels [rows, C] of lists of classes, in which gaps count for nothing, and the names of the classes."""
    gaps = table.table.gaps
    lists = [None if parts is None else [part for part in parts if part not in gaps] for parts in lists]
    found = {part for parts in lists if parts for part in parts}
    if not found:
        raise InputError(f"{table.table.path} has no class in its column of labels")
    if len(found) > MOST_LISTED:
        raise InputError(f"{table.table.path} lists {len(found):,} classes; there may be {MOST_LISTED:,}")
    if not known and all(map(str.isdecimal, found)):
        longest = max(found, key=len)
        if len(longest.lstrip("0")) > len(str(MOST_LISTED)):
            raise InputError(f"{table.table.path} lists class {longest[:40]}; there may be {MOST_LISTED:,} classes")
        marks = _marked(lists, {name: int(name) for name in found}, table)
        return Labels(marks, table.vertices, are_lists=True)
    other = respelt(found, known)
    found -= other.keys()
    names = _names_after(table, known, found, "lists of ")
    number = {name: at for at, name in enumerate(names)}
    marks = _marked(lists, number | {word: number[name] for word, name in other.items()}, table)
    return Labels(marks, table.vertices, names, are_lists=True)


def _marked(lists: Sequence[Sequence[str] | None], number: dict[str, int], table: VertexTable) -> NDArray[np.float32]:
    """1 where a class is in a row's list and 0 where not, float32 [rows, C]; NaN for a row without one."""
    count = max(number.values()) + 1
    if count > MOST_LISTED:
        raise InputError(f"{table.table.path} lists class {count - 1}; there may be {MOST_LISTED:,} classes")
    marks = np.zeros((len(lists), count), np.float32)
    for row, parts in enumerate(lists):
        if parts is None:
            marks[row] = np.nan
        else:
            marks[row, [number[part] for part in parts]] = 1
    return marks


def times_of(path: Path, column: str, word: str | None, rules: RowRules, gaps: Gaps = USUAL) -> Times:
    """The times in a column of a table: days since 1970-01-01 UTC, or any numbers.

    Args:
        path: a table.
        column: the name of the column.
        word: its kind as ``--columns`` has it, a number or a time; None: numbers are numbers, and texts times.
        rules, gaps: as of :func:`labels_of`.

    Raises:
        InputError: naming the first line that holds something else.
    """
    table = VertexTable(path, "time", rules, take=(column,), flag="--split-by column", gaps=gaps)
    values, are_dates = times_in(table.table, table.values[0], column, word, "--split-by")
    return Times(
        values=placed(values, table.vertices, rules.num_vertices),
        are_dates=are_dates,
        called=f"{path}: {column}",
        vertices=table.vertices,
        old=rules.old,
    )


def longer_labels(labels: NDArray[Any], n: int) -> NDArray[Any]:
    """Labels [N0] or [N0, C] as a store has them, and after them what stands for none."""
    longer = np.full((n, *labels.shape[1:]), -1 if labels.ndim == 1 else np.nan, labels.dtype)
    longer[: len(labels)] = labels
    return longer


def replaced_labels(kept: GraphArrays, found: Labels, n: int, path: str, where: str) -> NDArray[Any]:
    """Labels [N] or [N, C]: those of a store, and in their place those of a file.

    Args:
        kept: the store, with labels.
        found: the labels of the file; their classes have the numbers of the store's.
        path: the file, for messages.
        where: the store, likewise.

    Raises:
        InputError: for labels of another kind than those of the store.
    """
    old, new = kept.labels, found.values
    if kept.regression and (found.classes is not None or found.are_lists):
        raise InputError(f"{path} holds classes, and the labels of {where} are numbers (--task regression)")
    if not found.are_lists:
        new = as_labels(new, len(new) if new.ndim else 0, path)
        new = new[:, None] if kept.regression and new.ndim == 1 else new
    if new.ndim != old.ndim or (new.ndim == 2 and not found.are_lists and new.shape[1] != old.shape[1]):
        kinds = [f"{labels.shape[1]} columns" if labels.ndim == 2 else "one class" for labels in (new, old)]
        raise InputError(f"{path} has labels of {kinds[0]} a vertex, and {where} of {kinds[1]}")
    if found.classes is not None and kept.classes is None:
        raise InputError(
            f"{path} has names of classes, such as {found.classes[0]!r}, and the classes of {where} have none"
        )
    if found.are_lists:
        count = max(old.shape[1], new.shape[1])
        old, new = _wider(old, count), _wider(new, count)
    labels = longer_labels(old.astype(np.result_type(old, new)), n)
    there = slice(None) if found.vertices is None else found.vertices >= 0
    labels[slice(None) if found.vertices is None else found.vertices[there]] = new[there]
    return labels


def _wider(labels: NDArray[Any], count: int) -> NDArray[Any]:
    """Labels of 0 and 1 [n, C] of ``count`` classes: 0 for those that follow, where a vertex has labels at all."""
    wider = np.zeros((len(labels), count), labels.dtype)
    wider[:, : labels.shape[1]] = labels
    wider[np.isnan(labels).any(axis=1)] = np.nan
    return wider
