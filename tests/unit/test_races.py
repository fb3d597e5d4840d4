"""Schedules that find a mutation are counted; tests on accelerators run apart from the others, which have none."""

from __future__ import annotations

import pytest

from tools import races
from tools.mutant_copy import Copy


class FakeCopy:
    """Ends as it is told under each schedule."""

    def __init__(self, **codes):
        self._codes = codes

    def test(self, tests, *options, limit_s):
        return self._codes[options[-1]], ""


@pytest.mark.parametrize(
    ("codes", "counts"),
    [
        ({"lazy": 1, "eager": 0, "random": 1}, [2, 0, 2]),
        ({"lazy": None, "eager": -11, "random": 0}, [2, 2, 0]),  # a time limit, and a signal
        ({"lazy": races.NONE_RUN}, []),
    ],
)
def test_schedules_that_find_something_are_counted(capsys, codes, counts):
    assert races.row(FakeCopy(**codes), "name", ["a"], 2) == counts
    line = f"| name | {' | '.join(f'{count} of 2' for count in counts)} |\n" if counts else ""
    assert capsys.readouterr().out == line


@pytest.mark.parametrize("code", [0, 1])
def test_only_tests_on_accelerators_see_the_simulated_one(monkeypatch, code):
    seen = []

    def pytest_ended(copy, arguments, limit_s, *, simulated):
        seen.append((arguments, simulated))
        return code, "x"

    monkeypatch.setattr(Copy, "_pytest", pytest_ended)
    tests = ["tests/accelerator/test_waits.py", "tests/unit/test_cli.py"]
    assert Copy.__new__(Copy).test(tests, "-x", limit_s=1.0) == (code, "x" if code else "xx")
    assert seen == [(["-x", tests[1]], False), (["-x", tests[0]], True)][: 1 if code else 2]
