"""The page: pictures and tables of one run, or of several beside each other, in one HTML file without addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gsplit.config.optimisation import ERRORS
from gsplit.pages.drawing import series
from gsplit.pages.rendering import mark, printable, render
from gsplit.report import pictures
from gsplit.report.recorded import Recorded
from gsplit.units import binary

NOT_SETTINGS = ("out", "resume", "overwrite")
"""Flags that say where a run is, and nothing of how it trains."""
WRITER = "gsplit.report"
MARK = mark(WRITER)
"""Mark of a page of ours, which may be replaced."""
NONE = "\N{EN DASH}"
LABELS = {"auroc": "AUROC", "ap": "average precision", "rmse": "RMSE", "mae": "MAE", "f1": "F1"}
"""Names of scores that are not their keys."""


def page(runs: Sequence[Recorded]) -> str:
    """The page of some runs.

    Raises:
        InputError: where Jinja or Matplotlib is not installed.
    """
    runs = [replace(run, name=printable(run.name)) for run in runs]
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    scored = [name for name in metrics if any(_scores(run, name) for run in runs)]
    return render(
        "gsplit.report",
        "page.html.j2",
        writer=WRITER,
        title=" · ".join(run.name for run in runs),
        runs=runs,
        colours=[series(index) for index in range(len(runs))],
        cards=[_card(run) for run in runs],
        overview=_overview(runs),
        learning=[
            pictures.curves(runs, "loss", "Loss"),
            *(pictures.curves(runs, name, _begun(score_label(name))) for name in scored),
        ],
        unscored=not scored,
        epochs=[_epochs(run, metrics) for run in runs],
        stages=pictures.stages(runs),
        stage_rows=_rows_of(runs, "stages", lambda seconds: f"{seconds:.3f} s"),
        traffic=pictures.traffic(runs),
        traffic_rows=_rows_of(runs, "traffic", lambda count: f"{count:,.0f}"),
        balance=[pictures.balance(run) for run in runs],
        balance_rows=[pictures.shares_of(run) for run in runs],
        caches=pictures.caches(runs),
        cache_rows=_cache_rows(runs),
        settings=_settings(runs),
    )


def score_label(metric: str) -> str:
    """A metric as people write it: ``macro_f1`` is macro-F1."""
    return "-".join(LABELS.get(word, word) for word in metric.split("_"))


def _begun(words: str) -> str:
    return words[:1].upper() + words[1:]


def _scores(run: Recorded, metric: str) -> list[Any]:
    keys = (f"valid_{metric}", f"train_{metric}")
    return [record[key] for record in run.epochs for key in keys if record.get(key) is not None]


def number(value: Any, digits: int = 4) -> str:
    """A score or a loss; a dash for none."""
    return NONE if value is None else f"{value:.{digits}f}"


def _card(run: Recorded) -> dict[str, str]:
    """Return what stands first: the test score, else the best score of validation, else the loss."""
    summary, last = run.summary or {}, run.epochs[-1]
    metric = run.metrics[0] if run.metrics else ""
    state = f"{len(run.epochs)} epochs" + ("" if run.summary else ", not ended")
    if summary.get(f"test_{metric}") is not None:
        return {"value": number(summary[f"test_{metric}"]), "of": f"test {score_label(metric)}", "state": state}
    validated = [*run.epochs, *(line for _, line in run.validations)]
    valid = [record[f"valid_{metric}"] for record in validated if record.get(f"valid_{metric}") is not None]
    if valid:
        best = min(valid) if metric in ERRORS else max(valid)
        return {"value": number(best), "of": f"best valid {score_label(metric)}", "state": state}
    return {"value": number(last.get("loss")), "of": "loss of the last epoch", "state": state}


def _overview(runs: Sequence[Recorded]) -> dict[str, list[str]]:
    """Rows of the first table, a value for each run."""
    rows: dict[str, list[str]] = {}
    for metric in dict.fromkeys(name for run in runs for name in run.metrics):
        for part in ("test", "valid"):
            values = [(run.summary or {}).get(f"{part}_{metric}") for run in runs]
            if any(value is not None for value in values):
                rows[f"{part} {score_label(metric)}"] = [number(value) for value in values]
    seconds = [sum(record["seconds"] for record in run.epochs) for run in runs]
    return {
        **rows,
        "model kept, of epoch": [str((run.summary or {}).get("model_epoch", NONE)) for run in runs],
        "loss of the last epoch": [number(run.epochs[-1].get("loss")) for run in runs],
        "epochs": [f"{len(run.epochs)}" + ("" if run.summary else " (not ended)") for run in runs],
        "seconds an epoch": [number(s / len(run.epochs), 3) for s, run in zip(seconds, runs, strict=True)],
        "seconds of training": [number(s, 2) for s in seconds],
        "strategy": [run.epochs[-1]["strategy"] for run in runs],
        "trainers": [str(run.epochs[-1]["trainers"]) for run in runs],
        "model": [str(run.settings.get("model", NONE)) for run in runs],
        "edge skew of a mini-batch": [number(run.edge_skew, 3) for run in runs],
        "rows from own caches": [_share(run, "cache_hits") for run in runs],
        "epochs counted below": [_span(run) for run in runs],
    }


def _span(run: Recorded) -> str:
    """The epochs that stages, traffic and balance are of: a run that went on in another way has two kinds."""
    counted = run.counted
    return f"{len(counted)} of {len(run.epochs)}" if len(counted) < len(run.epochs) else f"all {len(counted)}"


def _share(run: Recorded, key: str) -> str:
    traffic = run.mean_of("traffic")
    needed = sum(traffic.get(name, 0.0) for name in pictures.ROWS)
    return f"{100 * traffic.get(key, 0.0) / needed:.1f} %" if needed else NONE


def _epochs(run: Recorded, metrics: Sequence[str]) -> dict[str, Any]:
    """The table of every epoch."""
    keys = [f"{part}_{name}" for name in metrics for part in ("train", "valid")]
    keys = ["loss", *(key for key in keys if any(record.get(key) is not None for record in run.epochs))]
    head = [key.replace("_", " ") for key in keys]
    rows = [
        [str(record["epoch"]), *(number(record.get(key)) for key in keys), f"{record['seconds']:.3f}"]
        for record in run.epochs
    ]
    return {"head": ["epoch", *head, "seconds"], "rows": rows}


def _rows_of(runs: Sequence[Recorded], key: str, write: Any) -> dict[str, list[str]]:
    """Each number of an epoch, the mean, a value for each run; bytes also as people read them."""
    means = [run.mean_of(key) for run in runs]

    def cell(name: str, value: float | None) -> str:
        if value is None:
            return NONE
        return f"{binary(value)} ({write(value)})" if name.endswith("_bytes") else str(write(value))

    return {
        name.replace("_", " "): [cell(name, mean.get(name)) for mean in means]
        for name in dict.fromkeys(name for mean in means for name in mean)
    }


def _cache_rows(runs: Sequence[Recorded]) -> dict[str, list[str]]:
    rows = {f"from: {label}": [_share(run, key) for run in runs] for key, label in pictures.ROWS.items()}
    return {
        "cache": [str(run.epochs[-1].get("cache", NONE)) for run in runs],
        "rows kept by all trainers": [f"{run.epochs[-1].get('rows_cached', 0):,}" for run in runs],
        **rows,
    }


def _settings(runs: Sequence[Recorded]) -> dict[str, Mapping[str, list[str]]]:
    """Flags with their values: those that differ between the runs, then those that are the same."""
    names = dict.fromkeys(name for run in runs for name in run.settings if name not in NOT_SETTINGS)
    values = {"--" + printable(name).replace("_", "-"): [_value(run, name) for run in runs] for name in names}
    differ = {flag: of for flag, of in values.items() if len(set(of)) > 1}
    return {"differ": differ, "same": {flag: of for flag, of in values.items() if flag not in differ}}


def _value(run: Recorded, name: str) -> str:
    value = run.settings.get(name)
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return printable(str(value))
