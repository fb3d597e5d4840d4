"""The list of mutations fits the code, and docs/development/mutations.md the list; `make mutants` runs them."""

from __future__ import annotations

import re

import pytest
from support.messages import line_with

from tools import mutations

pytestmark = pytest.mark.sources

PAGE = mutations.ROOT / "docs" / "development" / "mutations.md"
ENTRY = """
[[mutation]]
name = "{name}"
file = "gsplit/cli.py"
old = "{old}"
new = "x"
wrong = "Nothing works."
tests = ["{test}"]
"""
GOOD = {"name": "one", "old": "def main(", "test": "tests/unit/test_mutants.py"}


def test_all_mutations_apply_and_their_tests_are_there():
    listed = mutations.load()
    assert len(listed) >= 40
    assert sum(mutation.compiled for mutation in listed) >= 10


def test_the_page_names_all_of_them_and_what_catches_each():
    page = PAGE.read_text()
    remedy = f"python -m tools.mutants --only NAME --markdown {PAGE.relative_to(mutations.ROOT)} writes it"
    assert mutations.table(mutations.load(), [], page) == page, remedy
    rows = [line.split(" | ") for line in page.splitlines() if re.match(r"\| [a-z]", line)][1:]
    assert [row[0].removeprefix("| ") for row in rows] == [mutation.name for mutation in mutations.load()]
    for row in rows:
        if found := re.fullmatch(r"`(\w+)` in (\S+) \|", row[-1]):
            assert mutations.exists(f"tests/{found[2]}::{found[1]}"), row[-1]
        else:
            assert row[-1].startswith((mutations.TIME_LIMIT, "SIG")), row


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"old": "no such text"}, "0 times, gsplit/cli.py"),
        ({"old": "raise"}, "# times, gsplit/cli.py"),
        ({"test": "tests/unit/test_nothing.py"}, "tests/unit/test_nothing.py"),
        ({"test": "tests/unit/test_mutants.py::test_x"}, "tests/unit/test_mutants.py::test_x"),
    ],
)
def test_a_stale_entry_is_an_error(tmp_path, changes, message):
    path = tmp_path / "mutants.toml"
    path.write_text(ENTRY.format(**GOOD))
    assert len(mutations.load(path)) == 1
    path.write_text(ENTRY.format(**{**GOOD, **changes}))
    with pytest.raises(ValueError, match=line_with("mutation one", message)):
        mutations.load(path)


def test_names_are_different(tmp_path):
    path = tmp_path / "mutants.toml"
    path.write_text(2 * ENTRY.format(**GOOD))
    with pytest.raises(ValueError, match="a name of its own"):
        mutations.load(path)
