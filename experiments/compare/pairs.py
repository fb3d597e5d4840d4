"""Medians and ratios over rounds in which every system ran once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from experiments.baselines.workload import STAGES, Epoch, Outcome
from experiments.compare.systems import Ran
from experiments.shared.rounds import quiet_rounds, quiet_spread


@dataclass(frozen=True, kw_only=True)
class InRound:
    """One run of a round."""

    calibration_s: float
    """Seconds of the fixed loop just before."""
    ran: Ran


Round = dict[str, InRound]
"""The runs of a round, by contender, in the order in which they ran; one that failed is not in it."""


def seconds_of(epoch: Epoch) -> float:
    return epoch.seconds


def computing_of(epoch: Epoch) -> float:
    return epoch.stages["computing"]


COMPARED: dict[str, Callable[[Epoch], float]] = {"epoch": seconds_of, "computing": computing_of}
"""What ratios are taken of."""


def middle(outcome: Outcome, value: Callable[[Epoch], float]) -> float:
    """Median over the epochs of a run, without the first one where there are more."""
    return median(map(value, outcome.epochs[1:] or outcome.epochs))


def values_of(rounds: Sequence[Round], name: str, value: Callable[[Epoch], float]) -> list[float]:
    """What each round in which the contender ran gave."""
    return [middle(each[name].ran.outcome, value) for each in rounds if name in each]


def quiet(rounds: Sequence[Round]) -> list[bool]:
    """Whether each round was quiet."""
    return quiet_rounds([[one.calibration_s for one in each.values()] for each in rounds])


def ratio_row(rounds: Sequence[Round], theirs: str, ours: str, what: str) -> dict[str, Any] | None:
    """A contender's seconds over ours, round by round; None where no round has both."""
    value = COMPARED[what]
    pairs = [
        (middle(each[theirs].ran.outcome, value) / middle(each[ours].ran.outcome, value), is_quiet)
        for each, is_quiet in zip(rounds, quiet(rounds), strict=True)
        if {theirs, ours} <= set(each)
    ]
    if not pairs:
        return None
    inverse = median(1 / ratio for ratio, _ in pairs)
    return {"what": what, "system": theirs, "over": ours, "inverse": inverse, **quiet_spread(pairs)}


def noise_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """What the machine was like, round by round."""
    return [
        {
            "round": number,
            "quiet": is_quiet,
            "calibration_min_s": min(one.calibration_s for one in each.values()),
            "calibration_max_s": max(one.calibration_s for one in each.values()),
            "others_share": max(one.ran.used.others_share for one in each.values()),
            "order": list(each),
        }
        for number, (each, is_quiet) in enumerate(zip(rounds, quiet(rounds), strict=True))
        if each
    ]


def epoch_row(rounds: Sequence[Round], name: str) -> dict[str, Any]:
    """An epoch of a contender: medians over the rounds, counts of the last epoch of the last run."""
    times = values_of(rounds, name, seconds_of)
    last = [each[name].ran.outcome for each in rounds if name in each][-1].epochs[-1]

    def stage(kind: str, stage_name: str) -> float:
        return median(values_of(rounds, name, lambda epoch: getattr(epoch, kind)[stage_name]))

    return {
        "epoch_s": median(times),
        "epoch_min_s": min(times),
        "epoch_max_s": max(times),
        **{f"{stage_name}_s": stage("stages", stage_name) for stage_name in STAGES},
        **{f"hidden_{stage_name}_s": stage("hidden", stage_name) for stage_name in last.hidden},
        "edges": last.edges,
        "input_rows": last.input_rows,
        "loaded_bytes": last.loaded_bytes,
        "exchanged_bytes": last.exchanged_bytes,
        "reduced_bytes": last.reduced_bytes,
        "rounds": len(times),
    }


def accuracy_rows(name: str, outcome: Outcome, epoch_s: float) -> list[dict[str, Any]]:
    """Accuracy by epoch, and by second at the median speed of the rounds."""
    return [
        {
            "system": name,
            "epoch": number,
            "seconds": number * epoch_s,
            "loss": epoch.loss,
            "valid_accuracy": epoch.valid_accuracy,
            "test_accuracy": epoch.test_accuracy,
        }
        for number, epoch in enumerate(outcome.epochs, start=1)
    ]


def best_of(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The epoch that is best by validation, the first of equals; None where nothing was validated."""
    validated = [row for row in rows if row["valid_accuracy"] is not None]
    return max(validated, key=lambda row: (row["valid_accuracy"], -row["epoch"])) if validated else None
