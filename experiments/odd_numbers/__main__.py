"""Counts of what becomes of odd numbers: finite right values, null, or one line; and of what is wrong.

    python -m experiments.odd_numbers --cases 300
    python -m experiments.odd_numbers --cases 300 --seed 1 --json odd_numbers.json
    python -m experiments.odd_numbers --quick
    python -m experiments.odd_numbers --seed 1 --only 49

NaN, infinity, -0.0, denormals, numbers near the ends of float32, classes that no vertex has, a single class, constant
features, weights that sum to zero or are negative: in features, edge weights, labels, class weights and flags of
losses, of graphs with classes, several labels, and numbers to predict. Each case is imported, partitioned, trained in
one of the ways in which that can be laid out (strategies, caches, plans of the whole graph, rules of sampling), and
predicted from, by the commands themselves.

A case is *refused* by import, partition or at the start of training, *stopped* in the course of training, *scored*
with finite scores, or its scores are *null*. Recomputed with NumPy and scikit-learn are the arrays of the store, the
logits of plain models by dense algebra, and from the run's exact logits (``gsplit predict --what logits``) its
scores, predictions, and the loss of the first epoch where training changes nothing. docs/formats.md has what is
counted as wrong, beside the other keys of ``--json``.

Cases depend on ``--seed`` and their number alone: ``--only`` repeats one, and keeps its folder. The exit code is 1
where anything is wrong. The keys of ``--json`` are in docs/formats.md.
"""

from __future__ import annotations

import os

# Forking needs a process of one thread, so that libraries must not start any when they are imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.odd_numbers import forked
from experiments.odd_numbers.checks import Outcome
from experiments.odd_numbers.draw import draw
from experiments.odd_numbers.judge import ENDS, PROBLEMS, judge
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, Positive, Seed
from experiments.shared.processes import run_forked, working_folder
from experiments.shared.rounds import cores
from experiments.shared.tally import Tally
from gsplit import cli


@dataclass(frozen=True, kw_only=True)
class OddNumbersConfig(Flags):
    """Import, train and predict with odd numbers; count what becomes of them, and what is wrong."""

    cases: Positive = 300
    """Cases to draw, some one a second on each core."""
    quick: bool = False
    """Take half a minute: 20 cases."""
    seed: Seed = 0
    """Seed of all that is random."""
    only: Count | None = None
    """Repeat the case of this number. Its folder is kept."""
    jobs: Count = 0
    """Cases at a time; 0: one a core."""


CASE_LIMIT_S = 3600.0
"""Limit of a case; each of its commands has a shorter one."""
QUICK = OddNumbersConfig(cases=20, quick=True)


def counted(config: OddNumbersConfig) -> dict[str, Any]:
    """Judge all cases, and count."""
    tally, checked = Tally(PROBLEMS, ENDS), Counter[str]()
    numbers = range(config.cases) if config.only is None else [config.only]
    forked.import_everything()
    with working_folder("gsplit-odd-numbers-", keep=config.only is not None) as folder:
        for number, outcome in _outcomes(iter(numbers), config, folder):
            case = draw(number, config.seed)
            tally.add(number, case, outcome.end, outcome.problems)
            checked.update(outcome.checked)
            if config.only is not None:
                print(f"{outcome.end}: {case}\n    {outcome.why}")
    counted = tally.record()
    return {
        "settings": {"cases": config.cases, "seed": config.seed, "only": config.only},
        "cases": counted["cases"],
        "ends": counted["ends"],
        "wrong": counted["counted"],
        "recomputed": dict(checked),
        "found": counted["found"],
    }


def _outcomes(numbers: Iterator[int], config: OddNumbersConfig, folder: Path) -> Iterator[tuple[int, Outcome]]:
    """Each case in a process of its own, some at a time, as they end."""
    works = ((number, partial(_case, number, config.seed, folder)) for number in numbers)
    for number, _, _ in run_forked(works, config.jobs or cores(), CASE_LIMIT_S):
        answer = folder / f"{number}.answer"
        if answer.exists():
            outcome = Outcome(**json.loads(answer.read_text()))
        else:
            outcome = Outcome(problems={"tracebacks": "the case itself failed"})
        if config.only is None:
            for path in (folder / str(number), answer, *folder.glob(f"{number}-*")):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        yield number, outcome


def _case(number: int, seed: int, folder: Path) -> int:
    place = folder / str(number)
    place.mkdir()
    outcome = judge(draw(number, seed), place)
    (folder / f"{number}.answer").write_text(json.dumps(vars(outcome)))
    return 0


command = Experiment(
    "odd_numbers", OddNumbersConfig, counted, quick=QUICK, wrong=lambda found: any(found["wrong"].values())
)

if __name__ == "__main__":
    cli.main(command)
