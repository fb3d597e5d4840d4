"""The pictures of a page: what runs learned, and what their epochs and trainers took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsplit.pages.drawing import Picture, colour, drawing, grouped, series, stacked
from gsplit.report.recorded import Recorded
from gsplit.runs.log import AHEAD_STAGES, MAIN_STAGES
from gsplit.units import UNITS, binary

POINTS = 400
"""Mini-batches' losses that are drawn at most; of more, means."""
BYTES = {
    "host_to_device_bytes": "features from the host",
    "device_to_device_bytes": "features from others' caches",
    "segment_bytes": "structure of the splits",
    "exchange_forward_bytes": "exchanged, forward",
    "exchange_backward_bytes": "exchanged, backward",
    "all_reduce_bytes": "gradients of weights",
    "between_hosts_reduce_bytes": "between hosts: gradients",
    "between_hosts_exchange_bytes": "between hosts: rows",
    "between_hosts_norm_bytes": "between hosts: sums of norms",
    "between_hosts_evaluation_bytes": "between hosts: evaluation",
    "between_hosts_count_bytes": "between hosts: counts",
}
"""Labels of what is moved, by the names of ``traffic``."""
ROWS = {"cache_hits": "own cache", "peer_rows": "another trainer's cache", "host_rows": "host"}
"""Labels of the sources of feature rows, by the names of ``traffic``."""


def curves(runs: Sequence[Recorded], what: str, label: str) -> Picture:
    """Loss, or a score, of each run by epoch and by time.

    Args:
        runs: in the order of their colours.
        what: ``loss``, or the name of a metric: its values in training are dashed.
        label: of the picture.
    """
    keys = {"loss": "-"} if what == "loss" else {f"valid_{what}": "-", f"train_{what}": "--"}
    with drawing(9.6, 3.1, 2) as ((by_epoch, by_time), svg):
        for index, run in enumerate(runs):
            look: dict[str, Any]
            ends, now = [], 0.0
            for record in run.epochs:
                now += record["seconds"]
                ends.append(now)
            if what == "loss":
                places = _thinned(run.losses)
                look = {"color": colour(series(index)), "alpha": 0.35, "linewidth": 1}
                by_epoch.plot(*_lists(places), **look)
            for key, line in keys.items():
                scored = zip(run.epochs, ends, strict=True)
                known = [(record["epoch"], end, record[key]) for record, end in scored if record.get(key) is not None]
                look = {"color": colour(series(index)), "linestyle": line, "marker": "." if len(known) < 40 else ""}
                within = [(place, float(of[key])) for place, of in run.validations if of.get(key) is not None]
                ended = [(float(place), value) for place, _, value in known]
                by_epoch.plot(*_lists(sorted(within + ended)), **look, gid=f"{key}-by-epoch-{index}")
                timed = [(end, value) for _, end, value in known]
                by_time.plot(*_lists(timed), **look, gid=f"{key}-by-time-{index}")
        if what == "loss" and any(run.losses for run in runs):
            by_epoch.set_ylim(*_limits(runs))
        by_epoch.set(xlabel="epoch", title=f"{label} by epoch")
        by_epoch.locator_params(axis="x", integer=True)
        by_time.set(xlabel="seconds of training, without validation", title=f"{label} by time")
    note = "Thin: mini-batches." if what == "loss" else ""
    if any(record.get(f"train_{what}") is not None for run in runs for record in run.epochs):
        note = "Dashed: on the mini-batches, in training. Solid: of the validation vertices."
    return Picture(title=label, svg=svg[0], note=note)


def _lists(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _thinned(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return no more points than can be told apart, each the mean of some."""
    size = -(-len(places) // POINTS) or 1
    parts = [places[begin : begin + size] for begin in range(0, len(places), size)]
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]


def _limits(runs: Sequence[Recorded]) -> tuple[float, float]:
    """Choose what the axis of losses shows: all epochs, and all but the highest fiftieth of the mini-batches."""
    epochs = [record["loss"] for run in runs for record in run.epochs if record.get("loss") is not None]
    batches = sorted(y for run in runs for _, y in run.losses)
    least, most = min([*epochs, batches[0]]), max([*epochs, batches[int(0.98 * (len(batches) - 1))]])
    room = 0.05 * (most - least) or 0.5
    return least - room, most + room


def stages(runs: Sequence[Recorded]) -> list[Picture]:
    """Return what an epoch's time goes into: on trainers, and ahead of them."""
    rows = {run.name: run.mean_of("stages") for run in runs}
    if len(runs) == 1 and len(runs[0].shares) > 1:
        epochs = len(runs[0].counted)
        shares = {f"trainer {rank}": share.stages for rank, share in enumerate(runs[0].shares)}
        rows = {"mean": rows[runs[0].name]} | {
            name: {stage: seconds / epochs for stage, seconds in of.items()} for name, of in shares.items()
        }
    return [
        stacked(
            {name: {stage: of.get(stage, 0.0) for stage in these} for name, of in rows.items()},
            title,
            "seconds an epoch",
            lambda seconds: f"{seconds:.3g} s",
        )
        for these, title in ((MAIN_STAGES, "A trainer's time"), (AHEAD_STAGES, "Ahead of it, at the same time"))
    ]


def traffic(runs: Sequence[Recorded]) -> Picture | None:
    """Bytes that move in an epoch, by what they are; None where none do."""
    means = [run.mean_of("traffic") for run in runs]
    moved = {label: [mean.get(key, 0.0) for mean in means] for key, label in BYTES.items()}
    moved = {label: values for label, values in moved.items() if any(values)}
    if not moved:
        return None
    most = max(max(values) for values in moved.values())
    power = max(power for power in range(len(UNITS)) if 1024**power <= max(1, most))
    return grouped(
        {label: [value / 1024**power for value in values] for label, values in moved.items()},
        {run.name: series(index) for index, run in enumerate(runs)},
        "Bytes an epoch, all trainers",
        UNITS[power],
        lambda value: binary(value * 1024**power),
    )


def balance(run: Recorded) -> Picture | None:
    """Draw how even the trainers' shares are; None where lines of mini-batches are missing, or of one trainer."""
    if len(run.shares) < 2:
        return None
    counts = shares_of(run)
    groups = {name: [value * len(values) / sum(values) for value in values] for name, values in counts.items()}
    trainers = {f"trainer {rank}": series(rank + 1, "s") for rank in range(len(run.shares))}
    title = f"Shares of the trainers: {run.name}"
    return grouped(groups, trainers, title, "share, the mean is 1", lambda share: f"{share:.3f}", mark=1)


def shares_of(run: Recorded) -> dict[str, list[float]]:
    """Return what trainers were given, by trainer, over the epochs counted; without what none had."""
    top = max((name for name in run.epochs[-1]["traffic"] if name.startswith("level_")), key=_level, default="")
    keys = {
        top: "targets",
        "computed_edges": "edges computed",
        "computed_vertices": "vectors computed",
        "level_0_vertices": "feature rows needed",
        "host_rows": "feature rows from the host",
    }
    found = {label: [share.traffic.get(key, 0.0) for share in run.shares] for key, label in keys.items()}
    return {label: values for label, values in found.items() if sum(values)}


def _level(name: str) -> int:
    digits = name.removeprefix("level_").removesuffix("_vertices")
    return int(digits) if digits.isdecimal() and len(digits) < 5 else -1


def caches(runs: Sequence[Recorded]) -> Picture:
    """Return where the feature rows of an epoch come from."""
    rows = {}
    for run in runs:
        means = run.mean_of("traffic")
        rows[run.name] = {label: means.get(key, 0.0) for key, label in ROWS.items()}
    return stacked(rows, "Feature rows needed in an epoch", "rows", lambda count: f"{count:,.0f}", first=1)
