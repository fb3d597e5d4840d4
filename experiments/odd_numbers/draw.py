"""A case for each number: a small graph, what is odd about its numbers, and the commands that are given it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

WAYS: tuple[tuple[str, int, str], ...] = (
    ("--strategy split", 2, ""),
    ("--strategy split --cache partitioned --cache-size 50%", 2, ""),
    ("--strategy split --exchange auto", 3, ""),
    ("--strategy data --cache none", 2, ""),
    ("--strategy data --cache replicated --cache-size 30%", 2, ""),
    ("--strategy data --cache partitioned --cache-size 50%", 2, ""),
    ("--strategy full --algorithm shared", 2, "whole"),
    ("--strategy full --algorithm 1d", 2, "whole"),
    ("--strategy full --algorithm 1d-sparse", 3, "whole"),
    ("--strategy full --algorithm 1.5d", 2, "whole sums"),
    ("--strategy full --algorithm 2d", 4, "whole sums"),
    ("--strategy full --algorithm 3d", 4, "whole sums"),
    ("--strategy full --algorithm columns", 2, "whole"),
    ("--strategy full --algorithm rotate", 2, "whole gcn"),
    ("--sampling ladies --layer-sizes 20,20", 2, "rule sums"),
    ("--sampling fastgcn --layer-sizes 20,20", 2, "rule sums"),
    ("--sampling uniform --subgraph 50% --num-layers 2", 2, "rule sums"),
    ("--sampling saint --subgraph 60% --num-layers 2", 2, "rule sums"),
    ("--sampling clusters --clusters 1 --num-layers 2", 2, "rule"),
)
"""Flags that say how training is laid out, trainers, and what else that asks for."""
HUGE, TINY = (1e30, -1e30, 3e38, 1e300), (1e-30, 1e-40, -1e-40, 5e-324, -0.0)
NOT_FINITE = (np.nan, np.inf, -np.inf)
NUMBERS = (*HUGE, *TINY, *NOT_FINITE, 65520.0)
METRICS = {
    "classes": ("accuracy", "macro-f1", "micro-f1", "auroc", "ap"),
    "labels": ("accuracy", "macro-f1", "micro-f1", "auroc", "ap"),
    "regression": ("rmse", "mae"),
}


@dataclass
class Case:
    """What is imported, partitioned and trained on, and how."""

    number: int
    seed: int
    task: str
    classes: int
    edges: NDArray[np.int64]
    """[2, E], each pair once, in the order of a store: by destination."""
    x: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    sets: dict[str, NDArray[np.int64]]
    tables: bool
    """Features and labels come as tables of text, not as arrays."""
    importing: list[str] = field(default_factory=list)
    training: list[str] = field(default_factory=list)
    gpus: int = 2
    parts: int = 2
    frozen: bool = False
    """The model that is kept is the one that training begins with, and the epoch's loss is that of all targets."""
    odd: list[str] = field(default_factory=list)
    """What is odd, in words."""

    def __str__(self) -> str:
        return (
            f"case {self.number} ({self.task}, {'; '.join(self.odd) or 'nothing odd'}): "
            f"import {' '.join(self.importing)} | train {' '.join(self.training)}"
        )

    def value(self, flag: str) -> str | None:
        """What a flag of training was given."""
        return self.training[self.training.index(flag) + 1] if flag in self.training else None


def draw(number: int, seed: int) -> Case:
    """The case of a number; the same for the same seed. Ways, tasks and oddities come in turn, all else by chance."""
    random = np.random.default_rng([seed, number])
    task = ("classes", "labels", "regression")[number % 3]
    n = int(random.integers(20, 60))
    classes = int(random.choice({"classes": (2, 3, 5), "labels": (2, 3), "regression": (1, 2)}[task]))
    pairs = np.unique(random.integers(n, size=(2, 4 * n)), axis=1)
    edges = pairs[:, np.lexsort((pairs[0], pairs[1]))]
    order = random.permutation(n)
    bounds = np.cumsum([0, n // 2, n // 4, n - n // 2 - n // 4])
    names = ("train", "valid", "test")
    sets = {name: np.sort(order[a:b]) for name, a, b in zip(names, bounds, bounds[1:], strict=False)}
    y: NDArray[Any] = random.integers(classes, size=n)
    if task == "labels":
        y = (random.random((n, classes)) < 0.4).astype(np.float64)
    elif task == "regression":
        y = random.standard_normal((n, classes))
    case = Case(
        number=number,
        seed=seed,
        task=task,
        classes=classes,
        edges=edges,
        x=random.standard_normal((n, 4)),
        y=y,
        weight=_between(random, edges.shape[1]) if random.random() < 0.5 else None,
        sets=sets,
        tables=bool(random.random() < 0.3),
    )
    case.importing += ["--task", "regression"] if task == "regression" else []
    _train(case, random)
    for what in random.permutation(len(ODDITIES))[: int(random.integers(1, 3))]:
        case.odd.append(ODDITIES[what](case, random))
    first = ODDITIES[number // 3 % len(ODDITIES)]
    case.odd.append(first(case, random))
    case.odd = [words for words in dict.fromkeys(case.odd) if words]
    return case


def _train(case: Case, random: np.random.Generator) -> None:
    way, case.gpus, asks = WAYS[case.number % len(WAYS)]
    case.parts = 4 if "--clusters" in way else case.gpus
    words = ["--device", "cpu", "--threads", "1", "--hidden", "4", "--seed", str(case.number), *way.split()]
    models = ["gcn"] if "gcn" in asks else ["sage", "gcn"] if "sums" in asks else ["sage", "gcn", "gat"]
    words += ["--model", model := str(random.choice(models))]
    words += ["--heads", "2"] if model == "gat" else []
    words += ["--dtype", "float64"] if random.random() < 0.3 else []
    words += ["--norm", str(random.choice(["layer", "rms", "batch"]))] if random.random() < 0.3 else []
    words += ["--normalize-features"] if random.random() < 0.2 else []
    words += ["--feature-dtype", str(random.choice(["float16", "bfloat16"]))] if random.random() < 0.1 else []
    if random.random() < 0.6:
        chosen = random.permutation(METRICS[case.task])[: int(random.integers(1, 4))]
        words += ["--metrics", ",".join(chosen)]
    if "rule" not in asks:
        case.frozen = bool(random.random() < 0.5)
        if "whole" not in asks:
            words += ["--samplers", "0", "--fan-out", "-1,-1" if case.frozen else "3,3"]
            words += ["--batch-size", "512" if case.frozen else "8"]
        else:
            words += ["--num-layers", "2"]
    else:
        words += ["--samplers", "0"]
    if case.frozen:
        words += ["--epochs", "1", "--optimizer", "sgd", "--lr", "1e-300", "--dropout", "0"]
        words += ["--stop-on-nan", "never"] if random.random() < 0.5 else []
    else:
        words += [
            "--epochs",
            "3",
            "--lr",
            str(random.choice([0.01, 1.0, 1e20, 1e30, 1e31], p=[0.55, 0.2, 0.1, 0.1, 0.05])),
        ]
        words += ["--stop-on-nan", str(random.choice(["epoch", "batch", "never"]))]
        words += ["--clip-grad-norm", "1"] if random.random() < 0.2 else []
        words += ["--evaluate", "sampled"] if random.random() < 0.15 else []
    case.training = words
    if case.task == "regression":
        words += ["--loss", loss := str(random.choice(("mse", "mae", "huber")))]
        words += ["--huber-delta", str(random.choice([1.0, 1e-30, 1e30]))] if loss == "huber" else []
    elif random.random() < 0.3:
        words += ["--focal-gamma", str(random.choice([0.5, 2.0, 100.0]))]


def _between(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Weights from 0.5 to 1.5."""
    return np.asarray(random.random(count) + 0.5)


def _some(random: np.random.Generator, array: NDArray[Any], values: tuple[float, ...]) -> str:
    """Put one of the values into one place, some, or all of an array; what was done."""
    value = values[int(random.integers(len(values)))]
    many = [1, max(1, array.size // 10), array.size][int(random.integers(3))]
    array.reshape(-1)[random.choice(array.size, many, replace=False)] = value
    return f"{many} of {array.size} {value}"


def features(case: Case, random: np.random.Generator) -> str:
    """NaN, infinite, huge, tiny."""
    case.x = case.x.astype(random.choice(["f4", "f8"]))
    with np.errstate(over="ignore"):
        return f"features: {_some(random, case.x, NUMBERS)}"


def finite_features(case: Case, random: np.random.Generator) -> str:
    """Huge and tiny."""
    return f"features: {_some(random, case.x, (*HUGE[:3], *TINY))}"


def constant_features(case: Case, random: np.random.Generator) -> str:
    """Columns, or all, of one value."""
    value = float(random.choice([0.0, -0.0, 1.0, 1e30, 1e-40, 0.1]))
    case.x[:, int(random.integers(4)) if random.random() < 0.5 else slice(None)] = value
    return f"constant features {value}"


def standardized(case: Case, random: np.random.Generator) -> str:
    """Standardised by the training vertices, some of them odd."""
    case.importing += ["--standardize"] if "--standardize" not in case.importing else []
    if random.random() < 0.5:
        if "--missing" not in case.importing:
            case.importing += ["--missing", str(random.choice(["mean", "zero"]))]
        case.x[int(random.integers(len(case.x))), 0] = np.nan
    return f"standardised; {finite_features(case, random)}"


def weights(case: Case, random: np.random.Generator) -> str:
    """NaN, infinite, huge, tiny, negative, of both signs."""
    case.weight = _between(random, case.edges.shape[1])
    return f"weights: {_some(random, case.weight, (*NUMBERS, 0.0, -1.0, -0.5))}"


def weights_that_cancel(case: Case, random: np.random.Generator) -> str:
    """Those of each vertex sum to zero, or to minus 1, with which a loop of weight 1 does."""
    case.weight = np.ones(case.edges.shape[1])
    total = float(random.choice([0.0, -1.0]))
    for vertex in range(len(case.x)):
        own = np.flatnonzero(case.edges[1] == vertex)
        if len(own) and random.random() < 0.5:
            case.weight[own] = 0.0
            case.weight[own[0]] = total
            if len(own) > 1:
                case.weight[own[:2]] = 2.0, total - 2.0
    return f"weights of vertices that sum to {total}"


def labels(case: Case, random: np.random.Generator) -> str:
    """NaN, infinite, huge, tiny; no whole numbers."""
    case.y = case.y.astype(np.float64)
    return f"labels: {_some(random, case.y, (*NUMBERS, -1.0, 2.5, 7.0))}"


def unknown_labels(case: Case, random: np.random.Generator) -> str:
    """One output, or all of a set, are not known."""
    if case.task != "regression":
        return ""
    where = str(random.choice(["train", "valid", "test", "output"]))
    if where == "output":
        case.y[:, 0] = np.nan
    else:
        case.y[case.sets[where]] = np.nan
    return f"labels of {where} unknown"


def one_class(case: Case, random: np.random.Generator) -> str:
    """All vertices, or all of a set, have one class, the same labels, or one number."""
    where = str(random.choice(["all", "train", "valid", "test"]))
    rows = slice(None) if where == "all" else case.sets[where]
    case.y[rows] = float(random.choice([0, 1])) if case.task != "classes" else int(random.integers(case.classes))
    return f"labels of {where} alike"


def empty_class(case: Case, random: np.random.Generator) -> str:
    """A class that no vertex has, or none to train on."""
    if case.task == "labels":
        case.y[:, 0] = 0.0
    elif case.task == "classes":
        rows = slice(None) if random.random() < 0.5 else case.sets["train"]
        case.y[rows] = np.where(case.y[rows] == 0, case.classes - 1, case.y[rows])
    else:
        return ""
    return "a class without vertices"


def small_sets(case: Case, random: np.random.Generator) -> str:
    """One vertex to train on, to validate or to test, or none to validate."""
    name = str(random.choice(["train", "valid", "test"]))
    count = int(random.integers(2)) if name != "train" else 1
    case.sets[name] = case.sets[name][:count]
    return f"{count} vertices in {name}"


def class_weights(case: Case, random: np.random.Generator) -> str:
    """Balanced, zero, huge, tiny, and those that are no weights."""
    flag = {"classes": "--class-weights", "labels": "--pos-weight"}.get(case.task)
    if flag is None or flag in case.training:
        return ""
    given = random.choice([0.0, 1.0, 1e30, 1e-30, 1e-320, 1e308, 3e38], case.classes)
    words = ",".join(map(str, given))
    words = str(random.choice([words, words, words, "balanced", "balanced", "nan", "1,inf", "-1,1", "0,0,0"]))
    case.training += [f"{flag}={words}"]
    return f"{flag} {words}"


def stored_in_halves(case: Case, random: np.random.Generator) -> str:
    """Features of a store in float16, some too large for it, some too small."""
    case.importing += [] if "--feature-dtype" in case.importing else ["--feature-dtype", "float16"]
    return f"stored in float16, {_some(random, case.x, (65504.0, 65519.0, 65520.0, 1e-8, 6e-8, 1e30))}"


def label_smoothing(case: Case, random: np.random.Generator) -> str:
    """As far as it goes."""
    if case.task != "classes" or "--label-smoothing" in case.training:
        return ""
    case.training += ["--label-smoothing", share := str(random.choice([0.1, 0.999999999, 1e-300]))]
    return f"label smoothing {share}"


ODDITIES: tuple[Callable[[Case, np.random.Generator], str], ...] = (
    *(features, finite_features, constant_features, standardized, weights, weights_that_cancel, labels),
    *(unknown_labels, one_class, empty_class, small_sets, class_weights, stored_in_halves, label_smoothing),
)
