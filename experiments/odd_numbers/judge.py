"""What becomes of a case: finite right values, null, or one line; everything else is counted as wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.odd_numbers import expected
from experiments.odd_numbers.checks import (
    Outcome,
    check_first_epoch,
    check_json,
    check_logits,
    check_store,
    check_value,
    records,
)
from experiments.odd_numbers.draw import Case
from experiments.odd_numbers.forked import LIMIT_S, Ended, run

ENDS = ("refused", "stopped", "scored", "null")
"""By import, partition or before training; in the course of it; with finite scores; with scores that are null."""
PROBLEMS = (
    *("tracebacks", "hangs", "bad messages", "no JSON", "partial outputs", "wrong arrays", "wrong logits"),
    *("wrong losses", "wrong scores", "scores of nothing finite", "weights not finite", "wrong predictions"),
)
ANSWERS = ("error: ", "warning: ", "info: ")


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
    epochs = records(folder)
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
