"""The fastest setting of a system, by varying one choice after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.baselines.workload import Setting
from experiments.shared.processes import RunFailed


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A setting that was tried."""

    setting: Setting
    seconds: float | None
    """Median seconds of an epoch; None where it does not work."""
    reason: str | None = None
    """Why it does not work."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found."""

    best: Setting | None
    """The fastest setting; None where none works."""
    tried: list[Tried]
    """In the order in which they were tried."""


def search(choices: Mapping[str, Sequence[Any]], measure: Callable[[Setting], float]) -> Found:
    """Begin with the first value of each choice, then vary one after another and keep what is fastest.

    Where two are as fast the one tried first stays. While no setting has worked, the others are
    tried beside the defaults.

    Args:
        choices: values of the fields of a setting.
        measure: median seconds of an epoch; raises RunFailed for a setting that does not work.
    """
    current = Setting(**{name: values[0] for name, values in choices.items()})
    tried = [_tried(current, measure)]
    for name, values in choices.items():
        fastest = _fastest(tried)
        current = current if fastest is None else fastest.setting
        for value in values:
            setting = replace(current, **{name: value})
            if all(setting != one.setting for one in tried):
                tried.append(_tried(setting, measure))
    best = _fastest(tried)
    return Found(best=None if best is None else best.setting, tried=tried)


def _tried(setting: Setting, measure: Callable[[Setting], float]) -> Tried:
    try:
        return Tried(setting=setting, seconds=measure(setting))
    except RunFailed as error:
        return Tried(setting=setting, seconds=None, reason=str(error))


def _fastest(tried: Sequence[Tried]) -> Tried | None:
    working = [(one.seconds, number) for number, one in enumerate(tried) if one.seconds is not None]
    return tried[min(working)[1]] if working else None
