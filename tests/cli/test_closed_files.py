"""Standard files that are closed, full or without a reader: commands end as they would."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TRAIN = "train layout --out again --epochs 1 --hidden 4 --fan-out 3,3 --device cpu --threads 1 --gpus 1 --samplers 1"
LIMIT_S = 90.0


def shell(line, place, gsplit_script):
    """Exit codes of the commands of a pipe, what they wrote to files called out and err, and what they made."""
    command = f"{sys.executable} {gsplit_script}"
    done = subprocess.run(
        ["bash", "-c", line.format(gsplit=command) + '; echo "${PIPESTATUS[@]}"'],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    *printed, codes = done.stdout.splitlines()
    return [int(code) for code in codes.split()], printed, done.stderr


def test_a_training_with_closed_files_trains(place, gsplit_script):
    """The trainer prints epochs and warns, a sampler starts; nothing goes into a file that has number 1 or 2 now."""
    assert shell(f"{{gsplit}} {TRAIN} <&- >&- 2>&-", place, gsplit_script) == ([0], [], "")
    assert (place / "again" / "summary.json").exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("words", ["info layout", "import synthetic:tiny --out new"])
def test_a_command_with_closed_files_ends_as_it_would(place, gsplit_script, words, closed):
    codes, printed, stderr = shell(f"{{gsplit}} {words} {closed}", place, gsplit_script)
    assert (codes, bool(printed), stderr) == ([0], closed == "2>&-", "")


@pytest.mark.parametrize("words", ["info layout", "--help", "train --help"])
def test_a_reader_that_went_away_is_no_failure(place, gsplit_script, words):
    codes, printed, stderr = shell(f"{{gsplit}} {words} | true", place, gsplit_script)
    assert (codes, printed, stderr) == ([0, 0], [], "")


@pytest.mark.parametrize("words", ["info layout", "train --help"])
def test_output_that_is_lost_is_a_failure(place, gsplit_script, words):
    codes, _, stderr = shell(f"{{gsplit}} {words} >/dev/full", place, gsplit_script)
    assert codes == [2]
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1


OPENS = """
import os
for number in (0, 1, 2):
    os.close(number)
import sys
sys.stdin = sys.stdout = sys.stderr = None
import gsplit
file = os.open("mine", os.O_RDWR | os.O_CREAT)
assert file > 2, file
print("into nothing")
print("into nothing", file=sys.stderr, flush=True)
os.system("echo from a child; echo from a child >&2")
assert os.fstat(file).st_size == 0
assert all(os.get_inheritable(number) for number in (0, 1, 2))
"""


def test_importing_the_package_opens_what_is_closed(tmp_path):
    """For programs that use the package, such as daemons."""
    assert subprocess.run([sys.executable, "-c", OPENS], cwd=tmp_path, check=False, timeout=LIMIT_S).returncode == 0
    assert os.listdir(tmp_path) == ["mine"]
