"""Mistakes that tests make: how many there are, the places of ``gsplit/data`` that refuse them, and what these say.

    .venv/bin/python -m tools.refusals --collect-only
    .venv/bin/python -m tools.refusals --untested --messages -k "quotes or gaps"

Counts the cases of the tests of data that expect ``InputError``. Without ``--collect-only`` it runs these, or those
that arguments of pytest choose, and tells what was said meanwhile: places that raise one, and messages that differ in
more than numbers and names. A message of several lines, or one that names no file, flag, line or column, is shown.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "gsplit" / "data"
ERRORS = ("InputError", "NotNumbersError")
EXPECTED = re.compile(r"raises\(InputError|\brefused\(|\bsays\(caught")
NAMES_A_PLACE = re.compile(
    r"--\w|\.(csv|parquet|npy|npz|txt|json|arrow|toml|mtx|pt|bin)\b|\b(line|row|column|entry|file)\b|:"
)
"""What a message has that says where."""


class Refusals:
    """A plugin of pytest that notes each ``InputError`` that is made while tests run."""

    def __init__(self) -> None:
        self.cases = 0
        """Cases that expect such an error."""
        self.said: dict[tuple[str, int], set[str]] = defaultdict(set)
        """Messages by file and line of the package."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave tests that expect an error, count their cases, and have errors tell where they are made."""
        tests = (item for item in items if item.path.stem != "test_random_tables")  # which make few mistakes
        items[:] = [item for item in tests if EXPECTED.search(inspect.getsource(item.function))]
        self.cases = len(items)
        from gsplit.errors import InputError

        said, before = self.said, ValueError.__init__

        def noted(error: InputError, *args: object) -> None:
            before(error, *args)
            frame = sys._getframe(1)
            said[frame.f_code.co_filename, frame.f_lineno].add(str(error))

        InputError.__init__ = noted  # type: ignore[method-assign, assignment]


def places() -> dict[tuple[str, int], int]:
    """Each line of ``gsplit/data`` from which an ``InputError`` may come, and the line where its statement begins."""
    found = {}
    for path in sorted(DATA.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                last = node.end_lineno or node.lineno
                found.update({(str(path), line): node.lineno for line in range(node.lineno, last + 1)})
    return found


def shape(message: str) -> str:
    """A message without numbers and names."""
    return re.sub(r"'[^']*'|\d[\d.,e+-]*|\S*/\S*|\b\w+\.(csv|parquet|npy|txt)\b", "#", message)


def main() -> int:
    """Run the tests, and print what was counted; pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--untested", action="store_true", help="list the places that no test comes to")
    parser.add_argument("--messages", action="store_true", help="list one message of each form")
    options, rest = parser.parse_known_args()
    import pytest

    noted = Refusals()
    code = pytest.main(["-q", "--no-header", str(ROOT / "tests/unit/data"), *rest], plugins=[noted])
    print(f"{noted.cases} cases expect input to be refused")
    if not noted.said:
        return int(code)
    there = places()
    every = {(path, begin) for (path, _), begin in there.items()}
    tested = {(at[0], there[at]) for at in noted.said if at in there}
    messages = {message for at, some in noted.said.items() if at in there for message in some}
    forms = {shape(message): message for message in sorted(messages)}
    print(f"{len(tested)} of {len(every)} places that refuse input are come to")
    print(f"{len(messages)} messages, in {len(forms)} forms")
    for message in sorted(messages):
        if "\n" in message or not NAMES_A_PLACE.search(message):
            print(f"odd: {message!r}")
    if options.untested:
        for path, line in sorted(every - tested):
            print(f"untested: {Path(path).relative_to(ROOT)}:{line}")
    if options.messages:
        print(*sorted(forms.values()), sep="\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
