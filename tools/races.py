"""Which schedules of the simulated accelerator find which mutation: ``python -m tools.races``.

Tests that look for races run under each schedule (the fixture in tests/accelerator/conftest.py), and have its name in
theirs. Those of each mutation are run, in a private copy, under one schedule at a time. A schedule that may find a
mutation by luck is tried several times. The first line is of the tests of all of them, without any mutation.

    python -m tools.races [--only NAME ...] [--times N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.mutant_copy import ON_ACCELERATORS, Copy
from tools.mutants import LIMIT_S
from tools.mutations import Mutation, load

SCHEDULES = ("lazy", "eager", "random")
"""Words in the names of tests under one of them."""
NONE_RUN = 5
"""Exit code of pytest where no test has such a name."""


def failures(copy: Copy, tests: Sequence[str], schedule: str, times: int) -> int | None:
    """How often the tests fail under a schedule; None where none of them is for one."""
    codes = [copy.test(tests, "-x", "-k", schedule, limit_s=LIMIT_S)[0] for _ in range(times)]
    return None if NONE_RUN in codes else sum(code != 0 for code in codes)


def row(copy: Copy, name: str, tests: Sequence[str], times: int) -> list[int]:
    """Print the line of a mutation, or of none; empty where its tests are for no schedule."""
    counts = []
    for schedule in SCHEDULES:
        count = failures(copy, tests, schedule, times)
        if count is None:
            return []
        counts.append(count)
    print(f"| {name} | {' | '.join(f'{count} of {times}' for count in counts)} |", flush=True)
    return counts


def run(mutations: Sequence[Mutation], times: int) -> bool:
    """Print the table; whether no schedule fails without a mutation, and each mutation is found under one."""
    with tempfile.TemporaryDirectory(prefix="gsplit-races-") as folder:
        copy = Copy(Path(folder).resolve() / "tree")
        print(f"| mutation | {' | '.join(SCHEDULES)} |\n|---|---|---|---|", flush=True)
        tests = list(dict.fromkeys(test for mutation in mutations for test in mutation.tests))
        good = not any(row(copy, "none", tests, times))
        for mutation in mutations:
            with copy.mutated(mutation):
                counts = row(copy, mutation.name, mutation.tests, times)
            good = good and (not counts or any(counts))
        return good


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.races", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", metavar="NAME", nargs="+", help="these mutations alone")
    parser.add_argument("--times", metavar="N", type=int, default=3, help="that tests run under each schedule")
    given = parser.parse_args()
    chosen = [
        mutation
        for mutation in load()
        if mutation.tests[0].startswith(ON_ACCELERATORS) and (not given.only or mutation.name in given.only)
    ]
    return 0 if run(chosen, given.times) else 1


if __name__ == "__main__":
    sys.exit(main())
