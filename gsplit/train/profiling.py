"""``--profile``: one trace of all processes, for chrome://tracing or https://ui.perfetto.dev.

PyTorch's profiler records each trainer, its feed's thread and its GPU's streams; the loop and the feed name the
stages there. A sampler runs no PyTorch: when it began and how long it took comes with its mini-batches. Trainer 0
puts all of them on one time line, that of the host's clock; those of other hosts are by theirs.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from gsplit.device import accelerator
from gsplit.files import replace_file
from gsplit.parallel import Member
from gsplit.parallel.collectives import all_gather_object
from gsplit.supply.ring import Handle
from gsplit.terminal import say

TRACE = "trace.json"
MINI_BATCHES = 20
"""Mini-batches that are recorded, with whatever comes between them."""
SKIPPED = 1
"""Mini-batches before: the first one makes memory and kernels ready."""
CLOCK = "gsplit clock"
MARKS = 9
"""Times that the host's clock is read: an interrupt between reading and writing it down makes one of them late."""
KEPT_PHASES = "XfsMiC"

logger = logging.getLogger(__name__)


class Profiler:
    """Records the first mini-batches; all trainers make the same calls.

    Args:
        run: the folder that gets ``trace.json``.
        member: of this trainer.
        on: otherwise nothing is done.
    """

    def __init__(self, run: Path, member: Member, *, on: bool) -> None:
        self._run, self._member = run, member
        self._left = SKIPPED + MINI_BATCHES if on else 0
        self._profile: profile | None = None
        self._clock_ns = 0
        self._handles: list[Handle] = []

    def step(self, handle: Handle) -> None:
        """A mini-batch was computed."""
        if not self._left:
            return
        self._left -= 1
        if self._profile is not None:
            self._handles.append(handle)
            if not self._left:
                self.end()
        elif self._left == MINI_BATCHES:
            self._begin()

    def end(self) -> None:
        """Write what was recorded; later steps are not."""
        recording, asked = self._profile, self._profile is not None or self._left > 0
        self._profile, self._left = None, 0
        if recording is not None:
            recording.stop()
        if recording is not None and self._handles:
            of_all = all_gather_object(self._events(recording), self._member.group)
            if self._member.rank == 0:
                self._write([event for events in of_all for event in events])
        elif asked and self._member.rank == 0:
            logger.warning("--profile records from mini-batch %d on, and there was none", SKIPPED + 1)

    def _begin(self) -> None:
        of_device = accelerator.activity(self._member.device)
        activities = [ProfilerActivity.CPU, *([] if of_device is None else [of_device])]
        self._profile = profile(activities=activities, experimental_config=_all_threads())
        self._profile.start()
        self._clock_ns = time.time_ns()
        for _ in range(MARKS):
            with record_function(f"{CLOCK} {time.time_ns()}"):
                pass

    def _events(self, recording: profile) -> list[dict[str, Any]]:
        """What was recorded of this trainer, and, where it is the first of its host, of the samplers there."""
        member = self._member
        with ExitStack() as held:
            # Another host need not have the folder of the run.
            far = member.here.start > 0
            folder = Path(held.enter_context(tempfile.TemporaryDirectory())) if far else self._run
            own = folder / f".trace-{member.rank}.json"
            recording.export_chrome_trace(str(own))
            events = trainer_events(json.loads(own.read_text())["traceEvents"], member.rank)
            own.unlink()
        if member.local == 0:
            host = "" if member.hosts == 1 else f"host {member.rank // len(member.here)}, "
            sampled = (each for each in self._handles if each.slot is not None)
            events += [
                sampler_event(each, host) for each in sampled if each.begun_ns + each.seconds * 1e9 > self._clock_ns
            ]
        return events

    def _write(self, events: list[dict[str, Any]]) -> None:
        begin = min(event["ts"] for event in events if "ts" in event)
        for event in events:
            if "ts" in event:
                event["ts"] = round(event["ts"] - begin, 3)
        replace_file(
            self._run / TRACE, json.dumps({"traceEvents": numbered(events), "displayTimeUnit": "ms"}).encode()
        )
        say(f"trace  {self._run / TRACE} for chrome://tracing or https://ui.perfetto.dev")


def _all_threads() -> Any:
    """Make the profiler record the feed's thread, too; None, with a warning, where PyTorch is too old for it."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        logger.warning("this PyTorch records the main thread alone: the trace lacks what is done ahead")
        return None


def sampler_event(handle: Handle, host: str = "") -> dict[str, Any]:
    """One mini-batch in a sampler, with times in microseconds of its host's clock; ``host``: what names that."""
    what = {"epoch": handle.ticket.epoch + 1, "batch": handle.ticket.batch}
    return {
        "ph": "X",
        "name": "sample",
        "pid": f"{host}sampler {handle.pid}",
        "tid": 0,
        "ts": handle.begun_ns / 1e3,
        "dur": handle.seconds * 1e6,
        "args": what,
    }


def trainer_events(recorded: list[dict[str, Any]], rank: int) -> list[dict[str, Any]]:
    """Return what PyTorch's profiler recorded in one trainer, with times of the host's clock and processes named."""
    marks = [event for event in recorded if event.get("name", "").startswith(CLOCK)]
    # Each was written down after the clock was read; the one that was least late is right.
    shift = max(int(mark["name"].removeprefix(CLOCK)) / 1e3 - mark["ts"] for mark in marks)
    host = marks[0]["pid"]
    events = []
    for event in recorded:
        pid = event.get("pid")
        if event.get("name", "").startswith(CLOCK) or event["ph"] not in KEPT_PHASES or not isinstance(pid, int):
            continue  # the profiler's own rows have words for process ids
        if event["ph"] == "M" and event["name"].startswith("process_"):
            continue
        if pid < 0:
            continue  # what the profiler itself took
        process = f"trainer {rank}" if pid == host else f"trainer {rank}, GPU {pid}"
        events.append({**event, "pid": process, **({"ts": event["ts"] + shift} if "ts" in event else {})})
    return events


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events with numbers for processes, as the format wants, and with their names beside them."""
    number = {name: i for i, name in enumerate(sorted({event["pid"] for event in events}), start=1)}
    named = [
        {"ph": "M", "name": what, "pid": pid, "tid": 0, "args": {key: value}}
        for name, pid in number.items()
        for what, key, value in (("process_name", "name", name), ("process_sort_index", "sort_index", pid))
    ]
    return [*named, *({**event, "pid": number[event["pid"]]} for event in events)]
