"""What becomes of a case: finite right values, null, or one line; everything else is counted as wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.odd_numbers import expected
from experiments.odd_numbers.draw import Case
from experiments.odd_numbers.forked import LIMIT_S, Ended, run

ENDS = ("refused", "stopped", "scored", "null")
"""By import, partition or before training; in the course of it; with finite scores; with scores that are null."""
PROBLEMS = (
    *("tracebacks", "hangs", "bad messages", "no JSON", "partial outputs", "wrong arrays", "wrong logits"),
    *("wrong losses", "wrong scores", "scores of nothing finite", "weights not finite", "wrong predictions"),
)
LARGEST = {"float32": 1e36, "float64": 1e150}
"""From about there on, squares or sums may be infinite, and null is right as well."""
ROUNDING = 1e-5
"""What logits of training may differ by from those of evaluation, as a share of the largest of a vertex."""
ANSWERS = ("error: ", "warning: ", "info: ")


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


def judge(case: Case, folder: Path) -> Outcome:
    """Import, partition, train and predict in a folder that is there and empty."""
    outcome = Outcome()
    with np.errstate(all="ignore"):
        words = write(case, folder)
        if not command(outcome, folder, ["data", "import", *words, *case.importing, "--out", "store"], "store"):
            return outcome
        check_store(case, outcome, folder / "store")
        layout = ["partition", "store", "--parts", str(case.parts), "--method", "random", "--out", "layout"]
        if not command(outcome, folder, layout, "layout"):
            return outcome
        train = ["train", "layout", "--out", "run", "--gpus", str(case.gpus), *case.training]
        whole = command(outcome, folder, train, "run/summary.json")
        if not (folder / "run").exists():
            return outcome
        outcome.end = "scored" if whole else "stopped"
        check_run(outcome, folder / "run")
        predict_and_check(case, outcome, folder, whole=whole)
    return outcome


def write(case: Case, folder: Path) -> list[str]:
    """The files of a case; the words that import them."""
    lines = ["src,dst" + ("" if case.weight is None else ",weight")]
    for at, (source, destination) in enumerate(case.edges.T.tolist()):
        lines.append(f"{source},{destination}" + ("" if case.weight is None else f",{float(case.weight[at])!r}"))
    (folder / "edges.csv").write_text("\n".join(lines) + "\n")
    words = ["edges.csv", "--num-vertices", str(len(case.x))]
    for name, array in (("features", case.x), ("labels", case.y)):
        if case.tables:
            head = ",".join(f"c{column}" for column in range(1 if array.ndim == 1 else array.shape[1]))
            rows = [",".join(map(repr, np.atleast_1d(row).tolist())) for row in array]
            (folder / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
        else:
            np.save(folder / f"{name}.npy", array)
        words += [f"--{name}", f"{name}.{'csv' if case.tables else 'npy'}"]
    for name, ids in case.sets.items():
        if len(ids):
            np.save(folder / f"{name}.npy", ids)
            words += [f"--{name}", f"{name}.npy"]
    return words


def command(outcome: Outcome, folder: Path, words: Sequence[str], made: str) -> bool:
    """Run a command; False where it refused, as it should, in one line and with nothing of ``made`` left."""
    ended = run(words, folder, folder.parent / f"{folder.name}-{words[0]}")
    name = words[0]
    if ended.code is None:
        outcome.wrong("hangs", f"{name}: not over after {LIMIT_S:g} s")
    elif "Traceback" in ended.err or ended.code not in (0, 2):
        last = ended.err.rstrip().rpartition("\n")[2]
        outcome.wrong("tracebacks", f"{name} ended with {ended.code}: {last}")
    if hidden := [path for path in folder.rglob(".*") if path.name != ".lock"]:
        outcome.wrong("partial outputs", f"{name} left {hidden[0].relative_to(folder)}")
    for path in (*folder.rglob("*.json"), *folder.rglob("*.jsonl")):
        check_json(outcome, path)
    if ended.code == 0:
        return True
    outcome.why = _error_line(outcome, ended)
    if (folder / made).exists():
        outcome.wrong("partial outputs", f"{name} ended with {ended.code} and left {made}")
    return False


def _error_line(outcome: Outcome, ended: Ended) -> str:
    lines = ended.err.splitlines()
    errors = [line for line in lines if line.startswith(ANSWERS[0])]
    if not outcome.problems and (len(errors) != 1 or not all(line.startswith(ANSWERS) for line in lines)):
        outcome.wrong("bad messages", f"not one error in a line: {ended.err[:300]!r}")
    return errors[0].removeprefix(ANSWERS[0]) if errors else ""


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


def check_run(outcome: Outcome, folder: Path) -> None:
    """No weights that are not finite are kept or in a checkpoint; the best epoch has a score."""
    import torch

    for name in ("model", "checkpoint"):
        if not (folder / f"{name}.json").exists():
            continue
        description = json.loads((folder / f"{name}.json").read_text())
        state = torch.load(folder / description["file"], weights_only=True)
        tensors = state.get("model", state)
        if not all(bool(each.isfinite().all()) for each in tensors.values()):
            outcome.wrong("weights not finite", f"of {name}.json")
    epochs = [record for record in _records(folder) if record["kind"] == "epoch"]
    if not (folder / "summary.json").exists() or not epochs:
        return
    summary = json.loads((folder / "summary.json").read_text())
    first = re.sub("-", "_", summary["metrics"][0])
    scores = [record.get(f"valid_{first}") for record in epochs]
    finite = [score for score in scores if score is not None]
    best = None
    if finite:
        best = scores.index(min(finite) if first in ("rmse", "mae") else max(finite)) + 1
    if summary["best_epoch"] != best:
        outcome.wrong("wrong scores", f"best epoch {summary['best_epoch']}, but scores are {scores}")


def _records(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def predict_and_check(case: Case, outcome: Outcome, folder: Path, *, whole: bool) -> None:
    """Exact logits of all vertices, and what loss and scores they make."""
    if not (folder / "run" / "model.json").exists():
        return
    why = outcome.why
    words = ["predict", "run", "layout", "--device", "cpu", "--threads", "1"]
    of_run = ["--gpus", str(case.gpus)]
    if not command(outcome, folder, [*words, *of_run, "--what", "logits", "--allow-nan", "--out", "l.npy"], "l.npy"):
        outcome.wrong("wrong predictions", f"no logits: {outcome.why}")
        return
    logits = np.load(folder / "l.npy").astype(np.float64)
    check_predictions(case, outcome, folder, logits, words)
    outcome.why = why
    check_logits(case, outcome, folder, logits)
    if not whole:
        return
    summary = json.loads((folder / "run" / "summary.json").read_text())
    labels = np.load(folder / "store" / "labels.npy").astype(np.float64)
    values = []
    for name in ("valid", "test"):
        rows = case.sets[name]
        for metric in summary["metrics"]:
            values.append(summary[f"{name}_{metric.replace('-', '_')}"])
            wanted = expected.score(_metric(metric, case.task), logits[rows], labels[rows], case.task)
            check_value(case, outcome, f"{name} {metric}", values[-1], wanted)
    check_first_epoch(case, outcome, folder, logits, labels)
    outcome.end = "scored" if any(value is not None for value in values) else "null"


def _metric(key: str, task: str) -> str:
    return "micro-f1" if key == "f1" and task == "labels" else key.replace("_", "-")


def check_predictions(case: Case, outcome: Outcome, folder: Path, logits: Any, words: Sequence[str]) -> None:
    """By default vertices whose logits are not finite are refused, and what is written is what logits say."""
    finite = bool(np.isfinite(logits).all())
    if finite and case.number % 3:
        return
    written = command(outcome, folder, [*words, "--out", "p.npy"], "p.npy")
    if written != finite:
        outcome.wrong("wrong predictions", f"logits are {'' if finite else 'not '}finite, and p.npy is {written}")
    elif written:
        said = np.load(folder / "p.npy")
        wanted = {"classes": lambda: logits.argmax(axis=1), "labels": lambda: logits > 0}.get(
            case.task, lambda: logits
        )
        outcome.check("predictions")
        if not np.allclose(said, wanted(), rtol=1e-5, atol=0):
            outcome.wrong("wrong predictions", "they are not what the logits say")


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
        np.finfo(dtype).eps,
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
    record = next(record for record in _records(folder / "run") if record["kind"] == "epoch")
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
