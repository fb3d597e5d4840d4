"""The parts that only several GPUs show: copies, NCCL's ways, caches of peers, and what a death leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from experiments.faults.command import shared_left
from tools.gpu_check.one import CACHED, DATA, KEPT, LOOKED_AT, same, tests, timed, torchrun
from tools.gpu_check.place import Failed, Part, Place
from tools.gpu_check.training import make

ENDED = "was ended by SIGKILL"
NO_P2P = {"NCCL_P2P_DISABLE": "1"}
"""NCCL's setting with which GPUs talk through memory of the host, as where they cannot open each other's."""
MEMORY = Path("/dev/shm")


def killed(place: Place) -> str:
    """Kill a trainer in the middle: the run must end by itself, with the cause as the last word, and leave nothing.

    Raises:
        Failed: where it does not.
    """
    before, folder = set(os.listdir(MEMORY)), place.work / "run-killed"
    words = ("--batch-size", 64, "--fan-out", "10,10,10", "--epochs", 100_000, "--strategy", "data")
    cache = ("--cache", "partitioned", "--cache-size", "10%", "--out", folder)
    layout = place.work / make(place, "tiny", place.gpus)
    command = [sys.executable, "-m", "gsplit.train", layout, "--device", place.device, *words, *cache]
    log = place.out / "train-killed.txt"
    with log.open("w") as out:
        run = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            end_s = time.monotonic() + place.left_s
            while not _has_trained(folder):
                if run.poll() is not None or time.monotonic() > end_s:
                    raise Failed("the run did not begin, see train-killed.txt")
                time.sleep(0.2)
            os.kill(_trainers(run.pid)[-1], signal.SIGKILL)
            code = run.wait(timeout=place.left_s)
        except subprocess.TimeoutExpired:
            raise Failed("the run went on after a trainer was killed") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    if code == 0 or ENDED not in log.read_text():
        raise Failed(f"exit code {code}, and its log does not say that a trainer {ENDED}")
    left = [path for path in shared_left(before) if os.stat(path).st_uid == os.getuid()]
    if left:
        raise Failed(f"files were left in {MEMORY}: {', '.join(left[:5])}")
    return f"exit code {code}, the cause is named, nothing was left in {MEMORY}"


def _has_trained(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return (folder / "metrics.jsonl").stat().st_size > 0
    return False


def _trainers(pid: int) -> Sequence[int]:
    spawned = psutil.Process(pid).children()
    return [child.pid for child in spawned if "multiprocessing.spawn" in " ".join(child.cmdline())]


def several(gpus: int) -> tuple[Part, ...]:
    """Parts for so many GPUs, each with a trainer of its own."""
    peers = ("--cache", "partitioned", "--cache-size", "100%")
    replicated = ("--cache", "replicated", "--cache-size", "10%")
    return (
        *LOOKED_AT,
        same("as on the CPU: split", parts=gpus),
        same("as on the CPU: split, through the host", parts=gpus, variables=NO_P2P),
        same("as on the CPU: torchrun", parts=gpus, starter=torchrun(gpus)),
        same("as on the CPU: data, caches of peers", *DATA, parts=gpus, there=peers),
        Part(name="a trainer is killed", limit_s=45, run=killed),
        KEPT,
        Part(name="tests", limit_s=120, run=tests),
        timed("split", parts=gpus),
        timed("split, through the host", parts=gpus, variables=NO_P2P),
        timed("split, cached", *CACHED, parts=gpus),
        timed("split, no cache", "--cache", "none", parts=gpus),
        timed("data", *DATA, parts=gpus),
        timed("data, caches of peers", *DATA, *peers, parts=gpus),
        timed("data, replicated", *DATA, *replicated, parts=gpus),
    )
