"""The list of mutations (tools/mutants.toml), and the page of what catches each (docs/development/mutations.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Template

from tools.toml import tomllib

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_name("mutants.toml")
TIME_LIMIT = "time limit"
"""What catches a mutation whose tests hang."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One wrong change."""

    name: str
    file: str
    """The file to change, relative to the root."""
    old: str
    """Text that stands exactly once in the file, however its words are set in lines."""
    new: str
    wrong: str
    """What is wrong then, in a sentence."""
    tests: tuple[str, ...]
    """Tests that notice, the narrowest there are: files or tests, as pytest takes them."""

    @property
    def compiled(self) -> bool:
        """Whether the extension must be built."""
        return self.file.endswith((".cpp", ".hpp"))

    def applied(self, text: str) -> str:
        """The file's text with the change.

        Raises:
            ValueError: where the old text does not stand in it exactly once.
        """
        if text.count(self.old) == 1 and self.old != self.new:
            return text.replace(self.old, self.new)
        words = re.compile(r"\s+".join(re.escape(word) for word in self.old.split()))  # set in other lines
        if (count := len(words.findall(text))) != 1 or self.old == self.new:
            raise ValueError(f"mutation {self.name}: its old text stands {count} times in {self.file}, not once")
        return words.sub(lambda _: self.new.strip(), text)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of one mutation."""

    mutation: Mutation
    caught_by: str | None
    """What caught it: a test, ``time limit`` or the signal that ended pytest; None: it survived."""
    seconds: float


def load(path: Path = LIST, root: Path = ROOT) -> list[Mutation]:
    """The mutations of a list, all of which apply to the tree.

    Raises:
        ValueError: for one that does not, and for names or tests that are missing.
    """
    entries = tomllib.loads(path.read_text())["mutation"]
    mutations = [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    names = [mutation.name for mutation in mutations]
    for mutation in mutations:
        if names.count(mutation.name) > 1 or not mutation.tests:
            raise ValueError(f"mutation {mutation.name}: it needs a name of its own, and tests")
        for test in mutation.tests:
            if not exists(test, root):
                raise ValueError(f"mutation {mutation.name}: there is no {test}")
        mutation.applied((root / mutation.file).read_text())
    return mutations


def exists(test: str, root: Path = ROOT) -> bool:
    """Whether there is such a file of tests, and in it such a test."""
    file, _, function = test.partition("::")
    path = root / file
    return path.is_file() and (not function or f"def {function.split('[')[0]}(" in path.read_text())


PAGE = """\
# Mutations

Wrong changes that `make mutants` makes in a private copy, one at a time, and the test that notices each.
The list is `tools/mutants.toml`; `python -m tools.mutants --markdown docs/development/mutations.md` writes this page.
A mutation may also be caught by the {{ time_limit }}, where its tests hang, or by the signal that ends them.

{{ rows|length }} mutations, {{ compiled }} of them in C++.

| mutation | where | what is wrong then | caught by |
|---|---|---|---|
{% for mutation, caught in rows -%}
| {{ mutation.name }} | {{ mutation.file.removeprefix("gsplit/") }} | {{ mutation.wrong }} | {{ caught }} |
{% endfor %}"""
"""The page docs/development/mutations.md, a template of Jinja."""


def shown(caught_by: str | None) -> str:
    """What caught a mutation, as the last column of docs/development/mutations.md has it."""
    if caught_by is None:
        return "**nothing**"
    file, _, test = caught_by.split("[")[0].partition("::")
    return f"`{test}` in {file.removeprefix('tests/')}" if test else file


def table(mutations: Sequence[Mutation], verdicts: Sequence[Verdict], before: str) -> str:
    """The text of docs/development/mutations.md; what was not tried now stands there as in the page before."""
    before_rows = (line.strip("| ").split(" | ") for line in before.splitlines() if line.count(" | ") == 3)
    last = {row[0]: row[-1] for row in before_rows}
    last |= {verdict.mutation.name: shown(verdict.caught_by) for verdict in verdicts}
    rows_now = [(mutation, last.get(mutation.name, "**nothing**")) for mutation in mutations]
    compiled = sum(mutation.compiled for mutation in mutations)
    return Template(PAGE).render(rows=rows_now, compiled=compiled, time_limit=TIME_LIMIT)
