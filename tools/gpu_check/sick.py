"""What ``tools/gpu_check.sh`` says of machines that are sick in ten ways, on the simulated accelerator.

    python -m tools.gpu_check.sick
    python -m tools.gpu_check.sick --only hang,slow

Each row is a check of two devices with one fault (``GSPLIT_SIM_FAULT``, tests/simulator/README.md), after one without
any. Counted as *wrong* are rows where another part fails than the one that should, or none; a part that takes longer
than its limit; and what is no single line. The exit code is 1 where anything was.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.shared.processes import working_folder
from experiments.shared.results import markdown_table
from gsplit import cli
from gsplit.config.fields import Checked

PROG = "python -m tools.gpu_check.sick"
ROOT = Path(__file__).parents[2]
PARTS = "devices,joining,links,registering,kernels,as on the CPU: split,killed"
"""Words of the parts that are tried; the others train for longer, and look at nothing else."""
ALIKE = ("as on the CPU: split", "as on the CPU: split, through the host")
FAILED = re.compile(r"^(.+?): FAILED: (.+) \((\d+) s of (\d+)\)$", re.MULTILINE)
ENDS_S = 15.0
"""Seconds that a part whose time is over may take to end its processes."""
LIMIT_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Sick:
    """A fault, and how the check is to tell of it."""

    name: str
    fault: str
    """Value of ``GSPLIT_SIM_FAULT``; empty for a healthy machine."""
    parts: tuple[str, ...] = ()
    """Those that fail; none where the check ends before them."""
    says: str = ""
    """A pattern in the line of each."""
    device: str = "sim"


SICK = (
    Sick(name="nothing", fault=""),
    Sick(name="a hang", fault="hang:0-1", parts=("joining",), says=r"\(sim:0\) and .* exchanged nothing within 30 s"),
    Sick(name="a hang, later", fault="hang:0-1@9", parts=ALIKE, says="SIGABRT.*--timeout"),
    Sick(name="wrong bytes", fault="wrong:0-1", parts=("joining",), says="exchange other bytes than were sent"),
    Sick(name="wrong bytes, later", fault="wrong:0-1@9", parts=ALIKE, says="difference of logits .* above"),
    Sick(
        name="no room: allocator", fault="full:allocator", parts=("devices",), says="out of memory.*; use a smaller"
    ),
    Sick(name="no room: library", fault="full:library", parts=("devices",), says="CUBLAS_STATUS_ALLOC_FAILED.*; use"),
    Sick(name="no room: pinned", fault="full:pinned", parts=("devices",), says="error: out of memory; use"),
    Sick(name="no room: joining", fault="full:joining", parts=("joining",), says="Failed to .* calloc async.*; use"),
    Sick(name="an old driver", fault="driver", says=r"driver 470\S+, older than the 580", device="auto"),
    Sick(name="no Python.h", fault="header", parts=("kernels",), says=r"CalledProcessError.*gcc.*Python\.h"),
    Sick(name="no peer access", fault="peers", parts=("links and memory",), says="do not reach each other's memory"),
    Sick(name="refused registering", fault="registering", parts=("registering",), says="could not be registered"),
    Sick(name="a device that is taken", fault="taken:1", parts=("devices",), says="busy or unavailable; another"),
    Sick(name="a slow link", fault="slow:10", parts=("links and memory",), says=r"0\.01 GB/s, of .* look at the GPU"),
    Sick(name="a dead trainer", fault="dead:1@9", parts=ALIKE, says="trainer 1 .*SIGKILL"),
)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the check said of a machine."""

    sick: Sick
    code: int
    failed: dict[str, tuple[str, int, int]]
    """By part: its line, its seconds, its limit."""
    error: str
    """What it ended with where it came to no part."""
    seconds: float

    def wrong(self) -> Iterator[str]:
        """What is wrong with it, a line each."""
        wanted = 0 if not self.sick.fault else 1 if self.sick.parts else 2
        if self.code != wanted:
            yield f"exit code {self.code}, not {wanted}: {self.error}"
        if set(self.failed) != set(self.sick.parts):
            yield f"{', '.join(self.failed) or 'nothing'} fails, not {', '.join(self.sick.parts) or 'nothing'}"
        for part, (line, seconds, limit) in self.failed.items():
            if seconds > limit + ENDS_S:
                yield f"{part} took {seconds} s of {limit}"
            if part in self.sick.parts and not re.search(self.sick.says, line):
                yield f"{part} says: {line}"
        if wanted == 2 and not re.fullmatch(f"error: .*{self.sick.says}.*", self.error):
            yield f"no such line: {self.error}"

    def row(self) -> tuple[str, ...]:
        """For the table."""
        lines = " / ".join(dict.fromkeys(line for line, _, _ in self.failed.values())) or self.error or "all held"
        took = ", ".join(f"{seconds} of {limit}" for _, seconds, limit in self.failed.values())
        parts = "; ".join(self.failed) or ("" if self.code == 0 else "before the first")
        return self.sick.name, f"`{self.sick.fault}`", parts, took, lines.replace("|", "/"), f"{self.seconds:.0f}"


def check(sick: Sick, out: Path) -> Told:
    """Run the check of two devices on a machine."""
    paths = [str(ROOT / "tests" / "simulator"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "DEVICE": sick.device,
        "GSPLIT_SIM_FAULT": sick.fault,
    }
    command = [str(ROOT / "tools" / "gpu_check.sh"), "--gpus", "2", "--minutes", "30", "--only", PARTS, str(out)]
    begin_s = time.monotonic()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT, check=False
    )
    failed = {part: (line, int(took), int(limit)) for part, line, took, limit in FAILED.findall(done.stdout)}
    return Told(
        sick=sick, code=done.returncode, failed=failed, error=done.stderr.strip(), seconds=time.monotonic() - begin_s
    )


@dataclass(frozen=True, kw_only=True)
class MachinesConfig(Checked):
    """Run the check for GPUs on machines that are sick on purpose, and print what it says of each."""

    only: str = ""
    """Words of the names of faults, with commas between them."""


def command(arguments: list[str]) -> None:
    """Run the command; exit code 1 where the check is wrong."""
    config = cli.parse(MachinesConfig, arguments, prog=PROG)
    words = [word.strip() for word in config.only.split(",")]
    rows, wrong = [], 0
    with working_folder("gsplit-machines-", keep=False) as folder:
        for sick in SICK:
            if any(word in sick.name for word in words):
                told = check(sick, folder / sick.name.replace(" ", "-"))
                rows.append(told.row())
                for line in told.wrong():
                    wrong += 1
                    print(f"wrong: {sick.name}: {line}", flush=True)
    columns = ("what is wrong", "GSPLIT_SIM_FAULT", "part that fails", "its seconds", "its line", "seconds in all")
    print(markdown_table(columns, rows))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    cli.main(command)
