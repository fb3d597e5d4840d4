"""A run as its folder tells it: settings, epochs, what each trainer counted, the result.

Every value that is used is checked first, so that a damaged file ends in one line and not in half a page. Lines of
mini-batches, which are many, are summed up while they are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsplit.errors import InputError
from gsplit.files import read_json
from gsplit.runs.folder import CONFIG, RESOLVED
from gsplit.runs.log import METRICS, SUMMARY

LARGEST = 2**63
"""Numbers of a run are smaller; JSON holds any."""
NUMBER, COUNT, TEXT, TABLE = "a number", "a whole number from 0 on", "a text", "a table of numbers from 0 on"
EPOCH = {"epoch": COUNT, "seconds": NUMBER, "stages": TABLE, "traffic": TABLE, "trainers": COUNT, "strategy": TEXT}
"""Keys that the line of an epoch must have."""
MINI_BATCH = {"epoch": COUNT, "batch": COUNT, "trainer": COUNT, "stages": TABLE, "traffic": TABLE}
"""Keys that the line of a mini-batch must have."""
PLACES = ("trainers", "strategy", "split_group", "cache")
"""Flags that decide where rows and edges go; epochs that differ in it are not counted together."""


@dataclass
class Share:
    """Work of one trainer in some epochs."""

    stages: dict[str, float] = field(default_factory=dict)
    traffic: dict[str, float] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the line of a mini-batch."""
        for mine, more in ((self.stages, record["stages"]), (self.traffic, record["traffic"])):
            for name, value in more.items():
                mine[name] = mine.get(name, 0) + value


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A run that has trained an epoch at least."""

    path: Path
    name: str
    """Name on the page."""
    settings: dict[str, Any]
    """``resolved.json``, or ``config.json`` where that is missing: flags with their values."""
    epochs: list[dict[str, Any]]
    """The lines of epochs, in their order."""
    losses: list[tuple[float, float]]
    """The mini-batches: where each ended, in epochs, and its loss."""
    validations: list[tuple[float, dict[str, Any]]]
    """The validations in the middle of an epoch: where each was, in epochs, and its line."""
    shares: list[Share]
    """Work of each trainer in the epochs of :attr:`counted`; nothing where lines of mini-batches are missing."""
    edge_skew: float | None
    """Mean over mini-batches of (most - least) / mean of the edges that trainers computed (the paper, 5.3)."""
    summary: dict[str, Any] | None
    """``summary.json``; None of a run that has not ended."""

    @property
    def counted(self) -> list[dict[str, Any]]:
        """The last epochs that were trained in the same way, by trainers, strategy and cache."""
        return [record for record in self.epochs if _same_way(record, self.epochs[-1])]

    @property
    def metrics(self) -> list[str]:
        """Names of the scores, such as ``accuracy``; the first decided which model is kept."""
        named = (self.summary or {}).get("metrics")
        if isinstance(named, list) and named and all(isinstance(name, str) for name in named):
            return named
        keys = dict.fromkeys(key for record in self.epochs for key in record if key.startswith("valid_"))
        return [key.removeprefix("valid_") for key in keys]

    def mean_of(self, key: str) -> dict[str, float]:
        """Each number of ``stages`` or ``traffic`` in an epoch, the mean of those counted."""
        names = dict.fromkeys(name for record in self.counted for name in record[key])
        return {name: sum(record[key].get(name, 0) for record in self.counted) / len(self.counted) for name in names}


def read_run(path: Path) -> Recorded:
    """The run in a folder.

    Raises:
        InputError: where that is no run, is damaged, or has no epoch yet.
    """
    if not path.is_dir():
        raise InputError(f"{path} is not a folder" + (", it is a file" if path.exists() else ": no such path"))
    if not (path / CONFIG).is_file():
        raise InputError(f"{path} is no run: it has no {CONFIG}; name the folder that gsplit train wrote (--out)")
    asked = _table(path / CONFIG)
    decided = _table(path / RESOLVED) if (path / RESOLVED).is_file() else asked
    if "fan_out" not in asked or "fan_out" not in decided:
        raise InputError(f"{path} is no run: its {CONFIG} is none of gsplit train")
    summary = _table(path / SUMMARY) if (path / SUMMARY).is_file() else None
    _check_summary(summary or {}, path / SUMMARY)
    return _with_lines(path, decided, summary)


def _with_lines(path: Path, settings: dict[str, Any], summary: dict[str, Any] | None) -> Recorded:
    epochs: list[dict[str, Any]] = []
    validations: list[dict[str, Any]] = []
    losses: dict[int, dict[int, float]] = {}
    batches: dict[int, set[int]] = {}
    shares: dict[int, dict[int, Share]] = {}
    edges: dict[tuple[int, int], list[float]] = {}
    for where, record in _lines(path / METRICS, ended=summary is not None):
        if record.get("kind") == "epoch":
            _check(record, EPOCH, where)
            _check_scores(record, where)
            if record["epoch"] != len(epochs) + 1:
                raise InputError(f"{where} is damaged: epoch {record['epoch']} follows epoch {len(epochs)}")
            epochs.append(record)
        elif record.get("kind") == "mini-batch":
            _check(record, MINI_BATCH, where)
            epoch, batch = record["epoch"], record["batch"]
            batches.setdefault(epoch, set()).add(batch)
            if record.get("loss") is not None:
                _check(record, {"loss": NUMBER}, where)
                losses.setdefault(epoch, {})[batch] = record["loss"]
            shares.setdefault(epoch, {}).setdefault(record["trainer"], Share()).add(record)
            edges.setdefault((epoch, batch), []).append(record["traffic"].get("computed_edges", 0))
        elif record.get("kind") == "validation":
            _check(record, {"epoch": COUNT, "batch": COUNT}, where)
            _check_scores(record, where)
            validations.append(record)
        else:
            raise InputError(f"{where} is damaged: its kind is none of mini-batch, epoch, validation")
    if not epochs:
        raise InputError(f"{path} has no epoch yet: there is nothing to draw")
    places = [
        (epoch - 1 + (batch + 1) / (max(batches[epoch]) + 1), loss)
        for epoch, by_batch in losses.items()
        for batch, loss in by_batch.items()
        if epoch <= len(epochs)
    ]
    counted = {record["epoch"] for record in epochs if _same_way(record, epochs[-1])}
    trainers = epochs[-1]["trainers"]
    by_rank = [shares.get(epoch, {}) for epoch in counted]
    whole = all(len(known) == trainers == max(known, default=-1) + 1 for known in by_rank)
    skews = [_skew(of) for (epoch, _), of in edges.items() if epoch in counted and any(of)]
    return Recorded(
        path=path,
        name=path.resolve().name,
        settings=settings,
        epochs=epochs,
        losses=sorted(places),
        validations=[
            (each["epoch"] - 1 + each["batch"] / (max(batches[each["epoch"]]) + 1), each)
            for each in validations
            if each["epoch"] <= len(epochs) and each["epoch"] in batches
        ],
        shares=[_sum([shares[epoch][rank] for epoch in sorted(counted)]) for rank in range(trainers)]
        if whole
        else [],
        edge_skew=sum(skews) / len(skews) if whole and skews else None,
        summary=summary,
    )


def _same_way(record: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(record.get(key) == other.get(key) for key in PLACES)


def _skew(edges: list[float]) -> float:
    return (max(edges) - min(edges)) * len(edges) / sum(edges)


def _sum(shares: list[Share]) -> Share:
    total = Share()
    for share in shares:
        total.add(vars(share))
    return total


def _lines(path: Path, *, ended: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where each line is, and what it holds.

    A run that has not ended may be writing its last line, which is left out then.
    """
    if not path.is_file():
        raise InputError(f"{path.parent} has no epoch yet: there is nothing to draw (it has no {path.name})")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                where = f"{path}, line {number},"
                if not line.endswith(b"\n") and not ended:
                    return
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    raise InputError(f"{where} is damaged: it is no JSON") from None
                if not isinstance(record, dict):
                    raise InputError(f"{where} is damaged: it is no JSON object")
                yield where, record
    except OSError as error:
        raise InputError(f"{path} is not readable: {error.strerror}") from None


def _table(path: Path) -> dict[str, Any]:
    try:
        table = read_json(path)
    except OSError as error:
        raise InputError(f"{path} is not readable: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path} is damaged: it is no JSON") from None
    if not isinstance(table, dict):
        raise InputError(f"{path} is damaged: it is no JSON object")
    return table


def _check(record: Mapping[str, Any], kinds: Mapping[str, str], where: str) -> None:
    for key, kind in kinds.items():
        if not _is(record.get(key), kind):
            raise InputError(f"{where} is damaged: its {key} is not {kind}")


def _check_scores(record: Mapping[str, Any], where: str) -> None:
    """Return what may be null: loss and scores, where they are not finite, not defined, or were not asked for."""
    keys = [key for key in record if key in ("loss", "lr") or key.startswith(("valid_", "train_"))]
    _check(record, {key: NUMBER for key in keys if record[key] is not None}, where)
    _check(record, {"rows_cached": COUNT} if "rows_cached" in record else {}, where)
    if record.get("trainers", 1) < 1 or record["epoch"] < 1:
        raise InputError(f"{where} is damaged: trainers and epochs count from 1")


def _check_summary(summary: Mapping[str, Any], path: Path) -> None:
    keys = [key for key in summary if key.startswith(("test_", "valid_")) or key in ("loss", "best_epoch")]
    _check(summary, {key: NUMBER for key in keys if summary[key] is not None}, str(path))


def _is(value: Any, kind: str) -> bool:
    if kind == TEXT:
        return isinstance(value, str)
    if kind == TABLE:
        return isinstance(value, dict) and all(_is(number, NUMBER) and number >= 0 for number in value.values())
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value if isinstance(value, float) else 0) or abs(value) >= LARGEST:
        return False
    return kind == NUMBER or (isinstance(value, int) and value >= 0)
