"""Small wrong changes, one at a time, each of which some test must notice: ``make mutants``.

tools/mutants.toml lists them: a text that stands exactly once in a file of the package, what replaces it, what is
wrong then, and the tests that should notice. A private copy of the tree is made; the named tests must pass in it.
Then each change is made in the copy and its tests are run, up to the first that fails. A change that no test notices
has survived: the next test to write is the one that kills it.

    python -m tools.mutants [--only NAME ...] [--list] [--markdown FILE]

The libraries for this make up their changes from the syntax (mutmut and cosmic-ray for Python, mull and
universalmutator for C++): thousands of them, mostly harmless or noticed by everything, and each would have to face
the whole suite. None does Python and C++ in one project. What is wanted here is a short list of mistakes that one
could really make, with the tests that are there to prevent them.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.mutant_copy import Copy
from tools.mutations import TIME_LIMIT, Mutation, Verdict, load, table

LIMIT_S = 240.0
"""Seconds after which the tests of a mutation count as hanging, which is noticed as well."""
TESTS_FAILED = 1
"""Exit code of pytest where all was collected and run, and something failed."""


def check_baseline(copy: Copy, mutations: Sequence[Mutation]) -> None:
    """Check that the tests pass where nothing is wrong, or no verdict would mean anything.

    Raises:
        ValueError: where one fails, or none of those that a name stands for is run.
    """
    tests = list(dict.fromkeys(test for mutation in mutations for test in mutation.tests))
    code, out = copy.test(tests, "-rA", limit_s=None)
    passed = re.findall(r"^PASSED (.+)$", out, re.MULTILINE)
    if code:
        raise ValueError(f"the tests fail without any mutation:\n{out}")
    for test in tests:
        if not any(f"{name}[".startswith((f"{test}[", f"{test}::", test + "/")) or name == test for name in passed):
            raise ValueError(f"{test} ran no test; is it skipped?")


def judge(copy: Copy, mutation: Mutation, limit_s: float) -> Verdict:
    """Run the tests of one mutation.

    Raises:
        ValueError: where they cannot be run.
    """
    start_s = time.monotonic()
    with copy.mutated(mutation):
        code, out = copy.test(mutation.tests, "-x", "-rfE", limit_s=limit_s)
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", out, re.MULTILINE)
    if code is None:
        caught_by: str | None = TIME_LIMIT
    elif code < 0:
        caught_by = signal.Signals(-code).name
    elif code == TESTS_FAILED and failed:
        caught_by = failed[1]
    elif code == 0:
        caught_by = None
    else:
        raise ValueError(f"mutation {mutation.name}: pytest ended with {code}:\n{out}")
    return Verdict(mutation=mutation, caught_by=caught_by, seconds=time.monotonic() - start_s)


def run(mutations: Sequence[Mutation], limit_s: float) -> list[Verdict]:
    """Verdicts of all, in order; one line for each is printed."""
    with tempfile.TemporaryDirectory(prefix="gsplit-mutants-") as folder:
        copy = Copy(Path(folder).resolve() / "tree")
        check_baseline(copy, mutations)
        print(f"{len(mutations)} mutations; their tests pass without any", flush=True)
        verdicts = []
        for mutation in mutations:
            verdicts.append(judge(copy, mutation, limit_s))
            how = "SURVIVED" if verdicts[-1].caught_by is None else "caught"
            by = verdicts[-1].caught_by or ""
            print(f"{how:8} {mutation.name:36} {verdicts[-1].seconds:5.0f} s  {by}", flush=True)
        return verdicts


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", metavar="NAME", nargs="+", help="these mutations alone")
    parser.add_argument("--list", action="store_true", help="say what there is, run nothing")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table, or bring it up to date")
    parser.add_argument("--limit-s", metavar="S", type=float, default=LIMIT_S, help="for the tests of a mutation")
    given = parser.parse_args()
    try:
        mutations = load()
        unknown = set(given.only or ()) - {mutation.name for mutation in mutations}
        if unknown:
            raise ValueError(f"no mutation is called {', '.join(sorted(unknown))}")
        chosen = [mutation for mutation in mutations if not given.only or mutation.name in given.only]
        if given.list:
            for mutation in chosen:
                print(f"{mutation.name:36} {mutation.file:32} {mutation.wrong}")
            return 0
        verdicts = run(chosen, given.limit_s)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if given.markdown:
        before = given.markdown.read_text() if given.markdown.exists() else ""
        given.markdown.write_text(table(mutations, verdicts, before))
    survived = [verdict.mutation.name for verdict in verdicts if verdict.caught_by is None]
    print(f"{len(verdicts) - len(survived)} of {len(verdicts)} are caught", *survived, sep="\nsurvived: ")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
