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
scores, predictions, and the loss of the first epoch where training changes nothing. Counted as wrong are
*tracebacks*, *hangs* (90 s), *bad messages* (not one error in a line), files that are *no JSON*, *partial outputs*,
*arrays*, *logits*, *losses*, *scores* and *predictions* that are not the right ones, *scores of nothing finite*, and
*weights that are not finite* in what is kept.

Cases depend on ``--seed`` and their number alone: ``--only`` repeats one, and keeps its folder. The exit code is 1
where anything is wrong. The keys of ``--json`` are in docs/formats.md.
"""

from __future__ import annotations

import os

# Forking needs a process of one thread, so that libraries must not start any when they are imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import json as json_
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from experiments.odd_numbers import forked
from experiments.odd_numbers.checks import Outcome
from experiments.odd_numbers.draw import draw
from experiments.odd_numbers.judge import ENDS, PROBLEMS, judge
from experiments.shared.flags import Count, Positive, Seed
from experiments.shared.processes import fork, working_folder
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.files import check_writable

PROG = "python -m experiments.odd_numbers"


@dataclass(frozen=True, kw_only=True)
class OddNumbersConfig(Checked):
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
    json: Path | None = None
    """File to write the results to."""


QUICK = OddNumbersConfig(cases=20, quick=True)


def command(arguments: list[str]) -> None:
    config = cli.parse(OddNumbersConfig, arguments, prog=PROG, default=QUICK if "--quick" in arguments else None)
    if config.json:
        check_writable(config.json)
    result = counted(config)
    print(table(result))
    if config.json:
        write_json(config.json, result)
    sys.exit(any(result["wrong"].values()))


def counted(config: OddNumbersConfig) -> dict[str, Any]:
    """Judge all cases, and count."""
    ends, wrong = Counter(dict.fromkeys(ENDS, 0)), Counter(dict.fromkeys(PROBLEMS, 0))
    checked, found = Counter[str](), []
    numbers = range(config.cases) if config.only is None else [config.only]
    forked.import_everything()
    with working_folder("gsplit-odd-numbers-", keep=config.only is not None) as folder:
        for number, outcome in _outcomes(iter(numbers), config, folder):
            ends[outcome.end] += 1
            checked.update(outcome.checked)
            case = str(draw(number, config.seed))
            for problem, what in outcome.problems.items():
                wrong[problem] += 1
                found.append({"number": number, "case": case, "problem": problem, "what": what})
                print(f"{problem}: {case}\n    {what}", flush=True)
            if config.only is not None:
                print(f"{outcome.end}: {case}\n    {outcome.why}")
    return {
        "settings": {"cases": config.cases, "seed": config.seed, "only": config.only},
        "cases": sum(ends.values()),
        "ends": dict(ends),
        "wrong": dict(wrong),
        "recomputed": dict(checked),
        "found": found,
    }


def _outcomes(numbers: Iterator[int], config: OddNumbersConfig, folder: Path) -> Iterator[tuple[int, Outcome]]:
    """Each case in a process of its own, some at a time, as they end."""
    running: dict[Any, tuple[int, int]] = {}
    jobs = config.jobs or len(os.sched_getaffinity(0))
    more = True
    while more or running:
        while more and len(running) < jobs:
            number = next(numbers, None)
            more = number is not None
            if number is not None:
                pid = fork(lambda number=number: _case(number, config.seed, folder))  # type: ignore[misc]
                running[os.pidfd_open(pid)] = (pid, number)
        ready: list[Any] = connection.wait(list(running)) if running else []
        for handle in ready:
            pid, number = running.pop(handle)
            os.close(handle)
            os.waitpid(pid, 0)
            answer = folder / f"{number}.answer"
            if answer.exists():
                outcome = Outcome(**json_.loads(answer.read_text()))
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
    (folder / f"{number}.answer").write_text(json_.dumps(vars(outcome)))
    return 0


def table(result: dict[str, Any]) -> str:
    """The counts, one a line."""
    lines = [f"{result['cases']} cases, seed {result['settings']['seed']}"]
    lines += [f"  {end:<26}{count:>6}" for end, count in result["ends"].items()]
    lines += ["wrong:", *(f"  {problem:<26}{count:>6}" for problem, count in result["wrong"].items())]
    recomputed = ", ".join(f"{count:,} {what}" for what, count in sorted(result["recomputed"].items()))
    return "\n".join([*lines, f"recomputed: {recomputed or 'nothing'}"])


if __name__ == "__main__":
    cli.main(command)
