"""What a configuration's fields may hold, stated once with each field and checked by one checker.

A configuration is a frozen dataclass that derives from :class:`Checked`. The annotation of a field says all there is
to know of it: its kind, the choices of a ``Literal``, a :class:`Range`, or a function that must accept it
(:class:`Accepted`):

    slots: Annotated[int | None, Range(1, 1024)] = None
    cache_size: Annotated[str | None, Accepted(CacheSize.parse)] = None

What is checked comes from the command line (:mod:`gsplit.config.flags`), from Python or from a file. There a list
stands for what the command line takes with commas, and NumPy's and PyTorch's numbers and arrays for Python's.
"""

from __future__ import annotations

import functools
import math
import numbers
import os
import types
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gsplit.errors import InputError, one_line_errors


@dataclass(frozen=True)
class Range:
    """Numbers that a field, or each item of a tuple, may hold: least <= x <= most, above < x < below.

    Every field of a float has one, or a function that stands for it: else it would take NaN.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def complaint(self, value: float) -> str | None:
        """Return what a number must be and is not; None where it may be used."""
        inside = (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )
        if inside:
            return None
        if self.most is not None and value > self.most:
            return f"at most {self.most}"
        finite = self.below == math.inf
        if self.above is not None and self.below is not None and not finite:
            return f"in ({self.above}, {self.below})"
        if self.above is not None:
            return f"above {self.above}{' and finite' if finite else ''}"
        if finite and value == math.inf:
            return "finite"
        if self.below is not None and not finite:
            return f"in [{self.least}, {self.below})"
        return f"at least {self.least}"


MOST_FACTOR = 1e30
"""What float32 rows may be multiplied by: PyTorch refuses what is beyond float32, also where a flag and a part of the
optimizer's make it so together."""


@dataclass(frozen=True)
class Accepted:
    """A function that returns for a value that a field may hold, and raises ValueError for another."""

    function: Callable[[Any], object]


@dataclass(frozen=True)
class Canonical:
    """A function that makes one text of all that says the same, from Python or in words; it raises InputError."""

    function: Callable[[str, Any], str]
    """Takes the flag and the value."""


def flag_of(name: str) -> str:
    """The flag of a field: ``batch_size`` is ``--batch-size``, ``continue_`` ``--continue``."""
    return "--" + name.rstrip("_").replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Base of configurations: when one is made, every field is checked, and paths and lists get their type.

    Raises:
        InputError: for the first field that holds what it may not, by its flag.
    """

    def __post_init__(self) -> None:
        one_line_errors()
        for name, value in self.checked_fields(vars(self)).items():
            object.__setattr__(self, name, value)

    @classmethod
    def checked_fields(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of some fields, each of the kind of its field.

        Raises:
            InputError: for the first field that holds what it may not, by its flag.
        """
        configuration: Any = cls
        known = _annotations(configuration).items()
        return {name: checked(flag_of(name), values[name], kind) for name, kind in known if name in values}


def check_options(
    options: Iterable[str], *classes: Any, where: str, beside: Iterable[str] = (), without: Iterable[str] = ()
) -> None:
    """Check the names of arguments that become fields of dataclasses.

    Args:
        options: the names.
        classes: the dataclasses.
        where: the function that was called, for messages.
        beside: arguments of its own that a message names as well.
        without: fields that are no options.

    Raises:
        InputError: naming the first that is no such field, and those that there are.
    """
    known = [field.name for cls in classes for field in fields(cls) if field.name not in without]
    if unknown := sorted(set(options) - set(known)):
        raise InputError(f"{where} has no option {unknown[0]!r}; it has {', '.join([*beside, *known])}")


@functools.cache
def _annotations(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls)}


def checked(flag: str, value: Any, annotation: Any) -> Any:
    """A value of the kind that an annotation asks for.

    Args:
        flag: names the field in messages.
        value: a path may be a string, a tuple any sequence, and a text a sequence of what the command line takes with
            commas; numbers and arrays may be NumPy's or PyTorch's.
        annotation: ``bool``, ``int``, ``float``, ``str``, ``Path``, ``tuple[...]`` or ``Literal[...]``, perhaps with
            ``| None``, inside ``Annotated`` with :class:`Range`, :class:`Accepted` and :class:`Canonical`.

    Raises:
        InputError: where the value may not be used.
    """
    kind, optional = kind_of(annotation)
    if value is None and optional:
        return None
    rules = metadata_of(annotation)
    for rule in rules:
        value = rule.function(flag, value) if isinstance(rule, Canonical) else value
    value = of_kind(flag, value, kind)
    for rule in rules:
        for item in value if isinstance(value, tuple) and isinstance(rule, Range) else (value,):
            if isinstance(rule, Range) and (complaint := rule.complaint(item)) is not None:
                raise InputError(f"{flag} must be {complaint}, not {item}")
        if isinstance(rule, Accepted):
            _accept(flag, value, rule)
    return value


@functools.cache
def kind_of(annotation: Any) -> tuple[Any, bool]:
    """Return the kind in an annotation, without what stands beside it, and whether None may stand in its place."""
    arms = _arms(_unwrapped(annotation)[0])
    kind = next(arm for arm in arms if arm is not type(None))
    return _unwrapped(kind)[0], type(None) in arms


@functools.cache
def metadata_of(annotation: Any) -> tuple[Any, ...]:
    """Return what stands beside a kind in ``Annotated``, also where one of several kinds has it."""
    kind, rules = _unwrapped(annotation)
    return (*rules, *(rule for arm in _arms(kind) for rule in _unwrapped(arm)[1]))


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The annotation inside ``Annotated``, and what stands beside it."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    inner, *rules = get_args(annotation)
    return inner, tuple(rules)


def _arms(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy and PyTorch, which have other types and limits, as Python's; all else as it is."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, type) else value


def of_kind(flag: str, value: Any, kind: Any) -> Any:
    """Return a value as a kind; raise InputError, by the flag, where it is none."""
    if kind is Path:
        if not isinstance(value, (str, os.PathLike)):
            raise InputError(f"{flag} must be a path, not {value!r}")
        return value if isinstance(value, Path) else Path(value)
    value = _plain(value)
    if get_origin(kind) is Literal:
        if not isinstance(value, str) or value not in (choices := get_args(kind)):
            raise InputError(f"{flag} must be one of {', '.join(get_args(kind))}, not {value!r}")
        return next(choice for choice in choices if choice == value)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return tuple(of_kind(flag, each, item) for each in _listed(flag, value, item))
    if kind is str:
        return _text(flag, value)
    if kind is int:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise InputError(f"{flag} must be a whole number, not {value!r}")
        return int(value)
    if kind is float:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise InputError(f"{flag} must be a number, not {value!r}")
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if kind is bool and not isinstance(value, bool):
        raise InputError(f"{flag} must be true or false, not {value!r}")
    if len(arms := _arms(kind)) > 1:  # a number or a word, such as a date
        return of_kind(flag, value, float if isinstance(value, numbers.Real) and float in arms else str)
    return value


def _listed(flag: str, value: Any, item: Any) -> Iterable[Any]:
    """Return what a tuple is made of: nothing for None, one path for itself."""
    if value is None:
        return ()
    if item is Path and isinstance(value, (str, os.PathLike)):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping, Set)):  # a set has no order
        raise InputError(f"{flag} must be a list, not {value!r}")
    for each in (value := list(value)):
        if isinstance(each, bytes) or (
            isinstance(_plain(each), Iterable) and not isinstance(each, (str, os.PathLike))
        ):
            raise InputError(f"{flag} must be a list of single values, not of {each!r}")
    return value


def _text(flag: str, value: Any) -> str:
    """A text as the command line takes it, of a list with commas: ``("accuracy", "ap")`` is ``accuracy,ap``.

    Of a mapping it is NAME=VALUE,NAME=VALUE, and None, where the command line has nothing between commas, is nothing.
    """
    if isinstance(value, Mapping):
        value = [f"{name}={_plain(each)!r}" for name, each in value.items()]
    if isinstance(value, bytes):
        raise InputError(f"{flag} must be a text or a list, not {value!r}")
    if isinstance(value, Iterable) and not isinstance(value, (str, os.PathLike)):
        return ",".join("" if each is None else str(_plain(each)) for each in _listed(flag, value, str))
    return str(value)


def _accept(flag: str, value: Any, rule: Accepted) -> None:
    try:
        rule.function(value)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{flag}: {error}") from None
