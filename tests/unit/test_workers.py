"""Tests of several files side by side (support/workers.py): what one process would say of them, and one that dies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import pytest
from support import workers

@pytest.fixture(scope="session", autouse=True)
def ended(request):
    yield
    print("the session ends")
    assert request.config.getoption("verbose") < 2

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    workers.run(session, 2, begin=lambda: None)
    return True
"""
FILES = {
    "a": "def test_passes(): pass\ndef test_fails(): assert 1 == 2, 'not equal'\n",
    "b": "import warnings\ndef test_warns(): warnings.warn('of it')\ndef test_speaks(): print('aloud'); 1 / 0\n",
    "c": "import pytest\n@pytest.mark.skip(reason='a reason')\ndef test_skipped(): pass\n",
    "d": "import os\ndef test_before(): pass\ndef test_dies(): os._exit(7)\ndef test_after(): pass\n",
    "e": "import atexit, os\ndef test_leaves_something(): atexit.register(os._exit, 1)\n",
}


@pytest.fixture
def said(tmp_path):
    """said(names, *words): what pytest says of these files, without what differs between runs."""

    def run(names, *words):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        for name in names:
            (tmp_path / f"test_{name}.py").write_text(FILES[name])
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_what_fails_warns_and_is_skipped_is_told_as_by_one_process(said):
    code, text = said("abc")
    assert code == 1
    assert re.search(r"^2 failed, 2 passed, 1 skipped, 1 warning in", text, re.MULTILINE)
    assert "AssertionError: not equal" in text
    assert "test_b.py:2: UserWarning: of it" in text
    assert "aloud" in text
    assert "a reason" in text
    assert said("abc", "-k", "passes or warns")[0] == 0


def test_a_process_that_dies_is_a_failure_of_its_test(said):
    code, text = said("d")
    assert code == 1
    assert "the process of this test ended with code 7" in text
    assert "no process has run this test" in text
    assert re.search(r"^2 failed, 1 passed in", text, re.MULTILINE)
    code, text = said("d", "-vvv", "-k", "before")
    assert code == 1
    assert re.search("1 passed, .*1 error in", text)  # of the end of its session


@pytest.mark.slow
def test_a_process_that_fails_after_its_last_test_fails_all(said):
    code, text = said("ae", "-k", "passes or leaves")
    assert code == 1
    assert "a process of tests ended with code 1 after its last test" in text
