"""Kinds of columns of a table: each becomes a number, a column for each category, a code, a truth value, a time.

Values that are not there are NaN in every kind, so that one rule fills them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import FeatureColumn, Kind
from gsplit.data.importers.checked import NotNumbersError, printable_line
from gsplit.data.importers.tables.gaps import Gaps
from gsplit.data.importers.tables.table import Table, is_numeric, read_exactly
from gsplit.data.importers.tables.times import UNITS, check_form, days_of, form_of, wanted
from gsplit.errors import InputError

OTHERS = "*"
"""Name in ``--columns`` for all columns that it does not name."""
SKIP = "skip"
MOST_CATEGORIES = {"category": 1000, "code": 1 << 20}
"""Categories of a column at most: one column of features each, or one line of the description each."""
TRUE, FALSE = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")
KNOWN = "one of the categories that there were"
WANTED = {"bool": "true or false", "category": KNOWN, "code": KNOWN}
VALUES_AT_ONCE = 1 << 23
"""Features made at once; a column of a thousand categories is a thousand."""
EXACT = ("number", "time")
"""Kinds that stay doubles until they are filled and standardised; the others are small whole numbers."""
HINT = "say what a column holds by --columns, such as country:category joined:time when:time(%d.%m.%Y) note:skip"
WORD = re.compile(rf"(.*\S.*):({'|'.join((*get_args(Kind), SKIP))})(?:\(([^()]*)\))?", re.DOTALL)
"""Name, kind and form of a column, as ``--columns`` has them."""


def parse_columns(words: Sequence[str]) -> dict[str, str]:
    """The kind of each column by its name, in lower case, out of words such as ``age:number``.

    Raises:
        InputError: for other words, unknown kinds, and a column that is named twice.
    """
    found: dict[str, str] = {}
    for word in words:
        match = WORD.fullmatch(word) if isinstance(word, str) else None
        if match is None:
            kinds = ", ".join((*get_args(Kind), SKIP))
            raise InputError(f"--columns takes NAME:KIND with KIND one of {kinds}, not {word!r}")
        name = match[1].strip()
        kind = word[match.start(2) :]
        _check_form(f"--columns {word}", kind)
        if found.setdefault(name.lower(), kind) != kind:
            raise InputError(f"--columns calls {name} both {found[name.lower()]} and {kind}")
    return found


def usual_kind(table: Table, column: int) -> Kind:
    """The kind of a column of which nothing is said: ``bool`` where it begins with true or false, else numbers."""
    return "bool" if table.holds_truths(column) else "number"


def column_of_times(word: str, kinds: Mapping[str, str], flag: str = "--split-by") -> tuple[str, str | None]:
    """A column of times that a flag names, and its kind: what follows the name, or what ``--columns`` says.

    Args:
        word: NAME or NAME:KIND.
        kinds: as of :func:`parse_columns`.
        flag: what messages call the flag.

    Raises:
        InputError: for a kind that times cannot have.
    """
    match = WORD.fullmatch(word)
    if match is None:
        kind = kinds.get(word.strip().lower(), SKIP)
        return word.strip(), kind if split_kind(kind)[0] in EXACT else None
    kind = word[match.start(2) :]
    if split_kind(kind)[0] not in EXACT:
        raise InputError(f"{flag} {word}: the kind of such a column is {' or '.join(EXACT)}")
    _check_form(f"{flag} {word}", kind)
    return match[1].strip(), kind


def times_in(table: Table, column: int, name: str, word: str | None, flag: str) -> tuple[NDArray[np.float64], bool]:
    """The times in a column of a table, days since 1970-01-01 UTC or any numbers; and whether they are dates.

    Args:
        table: of some rows.
        column: its place.
        name: what messages call it.
        word: its kind, a number or a time; None: numbers are numbers, and texts times.
        flag: which asks for it.

    Raises:
        InputError: naming the first line that holds something else.
    """
    try:
        word = word or ("number" if is_numeric(table, column) else "time")
        (made,) = columns_made(table, [column], [name], [word])
        chunks = [np.empty(0), *(rows[:, 0] for rows in read_columns(table, [column], [made]))]
    except NotNumbersError as error:
        raise NotNumbersError(f"{error}; {flag} {printable_line(name)}:time(%d.%m.%Y) says another form") from None
    return np.concatenate(chunks), made.kind == "time"


def split_kind(word: str) -> tuple[Kind, str]:
    """The kind and the form in a word such as ``time(%d.%m.%Y)``; the form is empty where there is none."""
    kind, _, form = word.removesuffix(")").partition("(")
    return cast("Kind", kind), form


def _check_form(where: str, kind: str) -> None:
    """Check what stands in parentheses behind a kind, as it may behind ``time``; ``where`` is for messages."""
    if "(" not in kind:
        return
    name, form = split_kind(kind)
    if name != "time":
        raise InputError(f"{where}: {name} takes nothing in parentheses, as time alone does")
    try:
        check_form(form)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def columns_made(
    table: Table, columns: Sequence[int], names: Sequence[str], words: Sequence[str]
) -> tuple[FeatureColumn, ...]:
    """What becomes of columns; texts of categories, and times of which no form is said, are read for it.

    Args:
        columns: of the table.
        names: what each is called.
        words: the kind of each, as ``--columns`` has it.

    Raises:
        InputError: where one has more categories than it may, or none, and for numbers of which it is not clear what
            times they are.
    """
    kinds = [split_kind(word) for word in words]
    named = {
        column: (name, kind)
        for column, name, (kind, _) in zip(columns, names, kinds, strict=True)
        if kind in MOST_CATEGORIES
    }
    categories = _categories(table, named)
    made = []
    for column, name, (kind, form) in zip(columns, names, kinds, strict=True):
        if kind == "time":
            form = form or form_of(table, column, name)
        each = FeatureColumn(
            table=str(table.path), name=name, kind=kind, form=form, categories=categories.get(column, ())
        )
        made.append(each)
    return tuple(made)


def _categories(table: Table, named: Mapping[int, tuple[str, str]]) -> dict[int, tuple[str, ...]]:
    """The texts in some columns, in their order, read once.

    Args:
        named: name and kind of each column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = dict.fromkeys(named, pa.array([], pa.large_string()))
    for chunk in table.texts([*named]) if named else ():
        for texts, (column, (name, kind)) in zip(chunk, named.items(), strict=True):
            new = pc.unique(pc.utf8_trim_whitespace(texts))
            found[column] = pc.unique(pa.concat_arrays([found[column], new]))
            if len(found[column]) > MOST_CATEGORIES[kind]:
                found[column] = found[column].filter(pc.invert(table.gaps.marked(found[column])))
            if len(found[column]) > MOST_CATEGORIES[kind]:
                raise InputError(
                    f"{table.path}: column {printable_line(name)} has over {MOST_CATEGORIES[kind]:,} categories"
                    + (f"; --columns {printable_line(name)}:code makes one number of them" * (kind == "category"))
                )
    categories = {}
    for column, (name, _) in named.items():
        texts = found[column].filter(pc.invert(table.gaps.marked(found[column])))
        if not len(texts):
            name = printable_line(name)
            raise InputError(f"{table.path}: column {name} is empty; --columns {name}:skip drops it")
        categories[column] = tuple(sorted(texts.to_pylist()))
    return categories


def read_columns(
    table: Table, columns: Sequence[int], made: Sequence[FeatureColumn]
) -> Iterator[NDArray[np.floating[Any]]]:
    """The features of a table, [n, width] at a time, NaN where there is no value; float64 with numbers or times.

    Args:
        columns: of the table.
        made: what becomes of each.

    Raises:
        InputError: naming file, line and column of a value that is not of its kind.
    """
    width = sum(each.width for each in made)
    at_once = max(1, VALUES_AT_ONCE // max(1, width))
    begin = 0
    for chunk in read_exactly(table, columns, [np.float64 if _reads_numbers(each) else str for each in made]):
        for at in range(0, len(chunk[0]), at_once):
            yield _features(table, begin + at, [values[at : at + at_once] for values in chunk], made)
        begin += len(chunk[0])


def _reads_numbers(column: FeatureColumn) -> bool:
    """Return whether a column is read as numbers, and not as texts."""
    return column.kind == "number" or column.form in UNITS


def _features(
    table: Table, begin: int, values: Sequence[Any], made: Sequence[FeatureColumn]
) -> NDArray[np.floating[Any]]:
    """The features [n, width] of the rows from ``begin`` on, of their numbers or texts."""
    dtype: Any = np.float64 if any(each.kind in EXACT for each in made) else np.float32
    if any(values.dtype == np.longdouble for values, each in zip(values, made, strict=True) if _reads_numbers(each)):
        dtype = np.longdouble
    out = np.empty((len(values[0]), sum(each.width for each in made)), dtype)
    at = 0
    for column, each in zip(values, made, strict=True):
        encoded, bad = _ENCODERS[each.kind](column, each, table.gaps)
        if bad is not None:
            value = printable_line(str(column[bad]))[:40]
            kind = wanted(each.form) if each.kind == "time" else WANTED[each.kind]
            raise (NotNumbersError if each.kind == "time" else InputError)(
                f"{table.path}, {table.place(begin + bad)}: {value!r} is not {kind}, as column "
                f"{printable_line(each.name)} should be{_OTHERWISE.get(each.kind, '')}"
            )
        out[:, at : at + each.width] = encoded.reshape(len(out), -1)
        at += each.width
    return out


Encoded = tuple[NDArray[Any], "int | None"]


def _number(values: Any, _column: FeatureColumn, gaps: Gaps) -> Encoded:
    return gaps.without(values), None


def _time(values: Any, column: FeatureColumn, gaps: Gaps) -> Encoded:
    return days_of(gaps.without(values) if column.form in UNITS else gaps.cleared(values), column.form)


def _bool(texts: Any, _column: FeatureColumn, gaps: Gaps) -> Encoded:
    import pyarrow.compute as pc

    words, among = pc.utf8_lower(pc.utf8_trim_whitespace(texts)), (*TRUE, *FALSE)
    at, strange = _found(words, among, gaps)
    if any(word in gaps for word in among):
        at[gaps.marked(words).to_numpy(zero_copy_only=False)] = -1
    return np.where(at < 0, np.nan, at < len(TRUE)), int(strange[0]) if len(strange) else None


def _codes(texts: Any, column: FeatureColumn, gaps: Gaps) -> tuple[NDArray[np.int64], int | None]:
    """The number of each text's category, -1 where it is none; and the first that may not be there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.utf8_trim_whitespace(texts)
    codes, strange = _found(words, column.categories, gaps)
    if len(strange):
        others = words.take(pa.array(strange))
        known = respelt(pc.unique(others).to_pylist(), column.categories)
        number = {name: at for at, name in enumerate(column.categories)}
        codes[strange] = np.array([*map(number.get, known.values()), -1], np.int64)[_positions(others, tuple(known))]
        strange = strange[codes[strange] < 0]
    return codes, int(strange[0]) if column.reject_unknown and len(strange) else None


def _found(words: Any, among: tuple[str, ...], gaps: Gaps) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place of each text among others, -1 where it is not there; and the texts of these that are no gaps."""
    import pyarrow as pa

    at = _positions(words, among)
    absent = np.flatnonzero(at < 0)
    return at, absent[~gaps.marked(words.take(pa.array(absent))).to_numpy(zero_copy_only=False)]


def _positions(words: Any, among: tuple[str, ...]) -> NDArray[np.int64]:
    """The place of each text among others, -1 where it is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(words, pa.array(among, words.type)).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False).astype(np.int64))


def _code(texts: Any, column: FeatureColumn, gaps: Gaps) -> Encoded:
    codes, bad = _codes(texts, column, gaps)
    return np.where(codes < 0, np.nan, codes + 1.0), bad


def _category(texts: Any, column: FeatureColumn, gaps: Gaps) -> Encoded:
    codes, bad = _codes(texts, column, gaps)
    values = np.zeros((len(codes), column.width), np.float32)
    values[np.arange(len(codes)), codes] = 1
    values[codes < 0] = np.nan
    return values, bad


_OTHERWISE = dict.fromkeys(MOST_CATEGORIES, "; --missing zero or mean takes it as no value") | {"bool": f"; {HINT}"}
_ENCODERS: dict[str, Callable[[Any, FeatureColumn, Gaps], Encoded]] = {
    "number": _number,
    "category": _category,
    "code": _code,
    "bool": _bool,
    "time": _time,
}


WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?", re.ASCII)
"""A whole number without zeros before it, as 01 may be a name."""


def respelt(words: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """The known name of each word that is none, but is the same whole number as one of them alone.

    Examples:
        >>> from gsplit.data.importers.tables.column_kinds import respelt
        >>> respelt(["1", "2.0", "03", "4.5"], ["1.0", "2", "3", "4.50"])
        {'1': '1.0', '2.0': '2'}
    """
    digits = {name: found for name in known if (found := _digits(name)) is not None}
    count = Counter(digits.values())
    name_of = {found: name for name, found in digits.items() if count[found] == 1}
    names = set(known)
    return {
        word: name_of[found] for word in words if word not in names and (found := _digits(word)) in name_of and found
    }


def _digits(word: str) -> str | None:
    """The digits of a whole number, alike for 1 and 1.0; None for other texts."""
    match = WHOLE.fullmatch(word)
    return None if match is None else "0" if match[1] == "-0" else match[1]
