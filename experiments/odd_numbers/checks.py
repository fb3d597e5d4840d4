"""What is recomputed of a case beside what its files say."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.odd_numbers import expected
from experiments.odd_numbers.draw import Case
from experiments.shared.results import records

LARGEST = {"float32": 1e36, "float64": 1e150}
"""From about there on, squares or sums may be infinite, and null is right as well."""
ROUNDING = 1e-5
"""What logits of training may differ by from those of evaluation, as a share of the largest of a vertex."""


@dataclass
class Outcome:
    """What became of a case."""

    end: str = "refused"
    why: str = ""
    """The line that refused it, or ended it."""
    problems: dict[str, str] = field(default_factory=dict)
    """One of PROBLEMS -> what was seen."""
    checked: dict[str, int] = field(default_factory=dict)
    """How many values were recomputed, by what they are."""

    def wrong(self, problem: str, what: str) -> None:
        """Note a problem; the first of its kind stays."""
        self.problems.setdefault(problem, what)

    def check(self, what: str) -> None:
        """Note that something was recomputed."""
        self.checked[what] = self.checked.get(what, 0) + 1


def check_json(outcome: Outcome, path: Path) -> None:
    """NaN and Infinity, which Python writes, are no JSON."""

    def refuse(token: str) -> None:
        raise ValueError(token)

    text = path.read_text()
    for line in text.splitlines() if path.suffix == ".jsonl" else [text]:
        try:
            json.loads(line, parse_constant=refuse)
        except ValueError as error:
            outcome.wrong("no JSON", f"{path.name}: {error}")


def check_store(case: Case, outcome: Outcome, store: Path) -> None:
    """Features, weights and labels are those that were given, finite, in the type of the store."""
    x = np.load(store / "features.npy")
    given = np.asarray(case.x, np.float64)
    wanted = expected.standardized(given, case.sets["train"]) if "--standardize" in case.importing else given
    missing = np.isnan(given)
    if missing.any() and "--missing" not in case.importing:
        outcome.wrong("wrong arrays", "features that are missing were neither refused nor filled in")
    if not np.isfinite(x).all():
        outcome.wrong("wrong arrays", "features of the store are not finite")
    known = ~missing & ~np.isnan(wanted)
    close = np.isclose(x, wanted.astype(x.dtype), rtol=2e-3 if x.dtype == np.float16 else 1e-4, atol=1e-5)
    exact = np.array_equal(x[known], given.astype(x.dtype)[known]) if wanted is given else True
    if not (close[known].all() and exact):
        outcome.wrong("wrong arrays", "features of the store are not those that were given")
    y = np.load(store / "labels.npy").astype(np.float64)
    labels = np.asarray(case.y, np.float64).reshape(y.shape)
    same = np.isclose(y, labels, rtol=1e-6, atol=1e-40) | (np.isnan(labels) & (np.isnan(y) | (y == -1)))
    if not same.all():
        outcome.wrong("wrong arrays", "labels of the store are not those that were given")
    if case.weight is not None:
        weight = np.load(store / "edge_weight.npy")
        if not np.isfinite(weight).all() or not np.array_equal(weight, case.weight.astype(np.float32)):
            outcome.wrong("wrong arrays", "weights of the store are not those that were given, or not finite")
    outcome.check("arrays")


def check_logits(case: Case, outcome: Outcome, folder: Path, logits: NDArray[np.float64]) -> None:
    """Against dense algebra, where a model is plain and nothing may be too large for its type."""
    import torch

    model = case.value("--model") or ""
    if model == "gat" or "--norm" in case.training or "--feature-dtype" in case.training:
        return
    dtype = case.value("--dtype") or "float32"
    description = json.loads((folder / "run" / "model.json").read_text())
    state = torch.load(folder / "run" / description["file"], weights_only=True)
    tensors = state.get("model", state)
    x = np.load(folder / "store" / "features.npy").astype(np.float64)
    if "--normalize-features" in case.training:
        x = x / np.where((sums := np.abs(x).sum(axis=1, keepdims=True)) > 0, sums, 1.0)
    weight = None if case.weight is None else case.weight.astype(np.float32).astype(np.float64)
    wanted, rounding = expected.dense_logits(
        model,
        {name: each.double().numpy() for name, each in tensors.items()},
        x,
        case.edges,
        weight,
        float(np.finfo(dtype).eps),
    )
    sure = np.isfinite(wanted).all() and float(rounding.max()) < 100 * np.finfo(dtype).eps * LARGEST[dtype]
    if not sure:
        return
    outcome.check("logits")
    off = np.abs(logits - wanted)
    if not (off <= rounding + np.finfo(dtype).tiny).all():
        outcome.wrong("wrong logits", f"off by {np.nanmax(off)}, where rounding is {np.nanmax(rounding)}")


def check_first_epoch(case: Case, outcome: Outcome, folder: Path, logits: Any, labels: Any) -> None:
    """The loss of an epoch that changed nothing, and what was said of its targets."""
    if not case.frozen:
        return
    record = records(folder / "run")[0]
    rows = case.sets["train"]
    flags: dict[str, Any] = {}
    for name in ("focal_gamma", "label_smoothing", "huber_delta"):
        if (text := case.value(f"--{name.replace('_', '-')}")) is not None:
            flags[name] = float(text)
    if (text := case.value("--loss")) is not None:
        flags["loss"] = text
    for word in case.training:
        if word.startswith(("--class-weights=", "--pos-weight=")):
            name, _, text = word.removeprefix("--").partition("=")
            flags[name.replace("-", "_")] = _weights(text, labels[rows], case, name)
    check_value(case, outcome, "loss", record["loss"], expected.loss(logits[rows], labels[rows], case.task, flags))
    for metric in (case.value("--metrics") or "").split(",") if "--metrics" in case.training else ():
        value = record[f"train_{metric.replace('-', '_')}"]
        if case.value("--norm") == "batch":  # whose statistics are others in training
            continue
        wanted = expected.score(metric, logits[rows], labels[rows], case.task)
        if value is not None and wanted is not None and case.task != "regression":  # sums in another order part ties
            least, most = expected.bounds(metric, logits[rows], labels[rows], case.task, ROUNDING)
            wanted = min(max(value, least), most)
        check_value(case, outcome, f"train {metric}", value, wanted)


def _weights(text: str, labels: NDArray[Any], case: Case, name: str) -> NDArray[np.float64]:
    if text != "balanced":
        numbers = np.array([float(number) for number in text.split(",")])
        return np.repeat(numbers, case.classes) if len(numbers) == 1 else numbers
    if name == "class-weights":
        counts = np.array([(labels == c).sum() for c in range(case.classes)])
        return np.where(counts > 0, len(labels) / (case.classes * np.maximum(counts, 1)), 0.0)
    have = (labels > 0.5).sum(axis=0)
    both = (have > 0) & (have < len(labels))
    return np.where(both, (len(labels) - have) / np.maximum(have, 1), 1.0)


def check_value(case: Case, outcome: Outcome, what: str, value: float | None, wanted: float | None) -> None:
    """A value of a run beside the recomputed one."""
    dtype = case.value("--dtype") or "float32"
    loss = what == "loss"
    if loss and case.value("--norm") == "batch":
        return
    sampled = "--evaluate" in case.training and not loss and not what.startswith("train")
    outcome.check("losses" if loss else "scores")
    problem = "wrong losses" if loss else "wrong scores"
    if value is None:
        if (
            sampled
            or wanted is None
            or not math.isfinite(wanted)
            or abs(wanted) > LARGEST[dtype if loss else "float64"]
        ):
            return
        outcome.wrong(problem, f"{what} is null, not {wanted}")
    elif not math.isfinite(value):
        outcome.wrong(problem, f"{what} is {value}")
    elif sampled:
        if value < 0 or (case.task != "regression" and value > 1):
            outcome.wrong(problem, f"{what} is {value}")
    elif wanted is None or not math.isfinite(wanted):
        outcome.wrong("scores of nothing finite", f"{what} is {value}, not null")
    elif not math.isclose(value, wanted, rel_tol=1e-3 if loss else 1e-5, abs_tol=1e-6):
        outcome.wrong(problem, f"{what} is {value}, not {wanted}")
