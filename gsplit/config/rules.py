"""Rules that stand beside the fields of a configuration, and what follows from them.

A field's annotation says where it has an effect, what it changes, and where it must be given:

    momentum: Annotated[float, Range(0, below=1), Only(optimizer="sgd"), RESULTS] = 0.0
    slots: Annotated[int | None, Range(1, 1024), Only(strategy=SAMPLED), COST] = None

From that, and from nowhere else, come refusals and warnings of flags without effect (:func:`without_effect`), what a
run that goes on compares (:data:`RESULTS`, :class:`FixedInEpoch`) or forgets (:data:`NOT_RESUMED`), and what each
epoch records.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar, get_type_hints

from gsplit.config.fields import flag_of, metadata_of
from gsplit.errors import InputError

Rule = TypeVar("Rule")


class Mark(enum.Enum):
    """The meaning of a change of a field."""

    RESULTS = "what is learned depends on it: a run that goes on tells of a change, and each epoch records it"
    COST = "it is given for time or memory: where it has no effect, that is warned of and not refused"
    NOT_RESUMED = "a run that goes on does not take it over"


RESULTS, COST, NOT_RESUMED = Mark


class Not(str):
    """A fact that does not hold, in words that follow "has no effect"."""

    __slots__ = ()


class Only:
    """A field has an effect only where each of some others has one of these values.

    A name that is no field is a fact that is known once a run is resolved (:func:`gsplit.engine.facts.facts_of`):
    True, or :class:`Not` and why. Several rules of one field must all hold.

    Args:
        values: by name, one value or a tuple of several.
    """

    def __init__(self, **values: Any) -> None:
        self.values = {name: each if isinstance(each, tuple) else (each,) for name, each in values.items()}

    def broken(self, facts: Mapping[str, Any]) -> str | None:
        """Return where the field has no effect, in words; None where it has one, or where nothing is known of it."""
        for name, values in self.values.items():
            if name in facts and facts[name] not in values and not _is_users_own(name, facts[name]):
                fact = facts[name]
                return str(fact) if isinstance(fact, Not) else _in_words(name, fact, values)
        return None


class FixedInEpoch(Only):
    """A field decides which targets a mini-batch has: no run changes it in the middle of an epoch."""


ANYWHERE = Only()
NOTHING: Mapping[str, str] = {}


class AsksForNothing(NamedTuple):
    """A value beside the default that asks for nothing, and so is never without effect."""

    value: Any
    """The value, or a function that says of one whether it asks for nothing."""
    where: Only = ANYWHERE
    """Where it does so."""

    def by(self, value: Any, facts: Mapping[str, Any]) -> bool:
        """Return whether a value asks for nothing, where the facts are these."""
        found = bool(self.value(value)) if callable(self.value) else value == self.value
        return found and self.where.broken(facts) is None


class Needed(NamedTuple):
    """A field that must be given wherever it has an effect."""

    what: str
    """What it is, with an example."""


class Useless(NamedTuple):
    """A field that was given and has no effect."""

    name: str
    line: str
    """What is printed of it."""


@functools.cache
def rules_of(configuration: type) -> dict[str, tuple[Any, ...]]:
    """All that stands beside the kinds of a configuration's fields, by field."""
    rules: dict[str, list[Any]] = {}
    for base in reversed(configuration.__mro__):
        own = inspect.get_annotations(base)
        hints = get_type_hints(base, include_extras=True) if own else {}
        for name in own:
            rules.setdefault(name, []).extend(metadata_of(hints[name]))
    return {field.name: tuple(rules[field.name]) for field in fields(configuration)}


def rules_of_kind(configuration: type, name: str, kind: type[Rule]) -> list[Rule]:
    """The rules of one kind that a field has."""
    return [rule for rule in rules_of(configuration)[name] if type(rule) is kind]


def marked(configuration: type, mark: Mark) -> tuple[str, ...]:
    """Names of the fields with a mark."""
    return tuple(name for name, rules in rules_of(configuration).items() if mark in rules)


def without_effect(configuration: type, name: str, facts: Mapping[str, Any]) -> str | None:
    """Return where a field has no effect, in words that follow "has no effect"; None where it has one.

    Args:
        configuration: the class of the field.
        name: of the field.
        facts: values of other fields, and what else is known.
    """
    broken = (rule.broken(facts) for rule in rules_of_kind(configuration, name, Only))
    return next((where for where in broken if where is not None), None)


def useless(asked: Any, facts: Mapping[str, Any], elsewhere: Mapping[str, str] = NOTHING) -> Iterator[Useless]:
    """The fields of a configuration that were given and have no effect.

    Args:
        asked: the configuration.
        facts: values that fields have once all is decided, and what else is known then.
        elsewhere: where fields have no effect that no rule of theirs says, in such words, by field.
    """
    for field in fields(asked):
        name, value = field.name, getattr(asked, field.name)
        nothing = any(rule.by(value, facts) for rule in rules_of_kind(type(asked), name, AsksForNothing))
        where = without_effect(type(asked), name, facts) or elsewhere.get(name)
        if where is not None and value != field.default and not nothing:
            yield Useless(name, f"{given(name, value)} has no effect {where}")


def refuse_useless(asked: Any, facts: Mapping[str, Any]) -> None:
    """Refuse a field that was given and has no effect.

    Raises:
        InputError: for the first one.
    """
    for _, line in useless(asked, facts):
        raise InputError(f"{line}; drop it")


def check_needed(configuration: Any) -> None:
    """Refuse a configuration without a field that it cannot do without.

    Raises:
        InputError: for the first one.
    """
    cls, facts = type(configuration), vars(configuration)
    for name in facts:
        for needed in rules_of_kind(cls, name, Needed):
            if facts[name] is None and without_effect(cls, name, facts) is None:
                by = next(iter(rules_of_kind(cls, name, Only)[-1].values))
                raise InputError(f"{given(by, facts[by])} needs {flag_of(name)}, {needed.what}")


def given(name: str, value: Any) -> str:
    """A flag with its value, as a command line has it."""
    if isinstance(value, bool):
        return flag_of(name) if value else f"--no-{flag_of(name)[2:]}"
    return f"{flag_of(name)} {','.join(map(str, value)) if isinstance(value, tuple) else value}"


def _is_users_own(name: str, value: Any) -> bool:
    """Return whether an engine, a model or a decoder of the user's is named, of which nobody knows what it reads."""
    return name in ("strategy", "model", "score") and isinstance(value, str) and ":" in value


def _in_words(name: str, value: Any, values: tuple[Any, ...]) -> str:
    """Describe a value with which a field has no effect, and those with which it has one."""
    words = [each for each in values if isinstance(each, str)]
    if value is None and words:
        return f"without {flag_of(name)} {listed(words, 'or')}"
    only = f", only with {listed(words, 'and')}" if words else ""
    if name == "task":  # of the graph, as it was imported
        return f"where the task is {value}{only}"
    return (f"without {flag_of(name)}" if value is None or value is False else f"with {given(name, value)}") + only


def listed(words: Sequence[str], last: str) -> str:
    """List words with commas, and another word before the last one."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
