"""Ctrl-C while a command is importing what it needs: one line, exit code 130, nothing written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.commands import python

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 90.0
IMPORTED = "import time:"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("psutil", "gsplit.data import synthetic:tiny --out {out}"),
        ("numpy", "gsplit.partition {out}-store --parts 2 --out {out}"),
        ("torch._subclasses.fake_tensor", "gsplit.train {out}-layout --out {out}"),  # it logs statistics at exit
        ("torch", "gsplit.predict {out}-run {out}-layout --out {out}"),
        ("numpy", "experiments.paper.redundancy --quick --json {out}"),
        ("psutil", "gsplit --help"),
        ("torch", "SCRIPT train {out}-layout --out {out}"),
    ],
)
def test_ctrl_c_while_a_command_starts(tmp_path, gsplit_script, module, command):
    words = command.format(out=tmp_path / "out").split()
    start = [str(gsplit_script), *words[1:]] if words[0] == "SCRIPT" else ["-m", *words]
    words = [sys.executable, "-X", "importtime", *start]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        killer = threading.Timer(LIMIT_S, process.kill)
        killer.start()
        printed = []
        for line in process.stderr:
            if not line.startswith(IMPORTED):
                printed.append(line)
            elif line.split("|")[-1].strip() == module:
                process.send_signal(signal.SIGINT)
        assert (process.wait(), printed, process.stdout.read()) == (130, ["interrupted\n"], "")
        killer.cancel()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("command", "code"), [("gsplit.train --help", 0), ("gsplit.train store --fan-out x", 2), ("gsplit.predict", 2)]
)
def test_help_and_complaints_come_before_what_takes_seconds(tmp_path, command, code):
    done = python("-X", "importtime", "-m", *command.split(), cwd=tmp_path, code=code)
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if line.startswith(IMPORTED)}
    assert ("gsplit.cli" in imported, "torch" in imported) == (True, False)


SCRIPT = """
import logging, signal, sys
import gsplit
from gsplit import cli
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "importing the package changes no signals"

def command(arguments):
    logging.getLogger("gsplit.data").info("ours")
    logging.getLogger("library").info("what a user cannot know")
    logging.getLogger("library").warning("what a user should know")

cli.main(command)
"""


def test_of_libraries_only_warnings_are_told():
    assert python("-c", SCRIPT).stderr == "info: ours\nwarning: what a user should know\n"
