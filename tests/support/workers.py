"""Files of tests side by side, by processes that are forked once all is imported and collected.

pytest-xdist's processes import and collect, each, all that one of them runs a third of, and every test takes five
messages through Python: 60 s of the processor for ten thousand tests. A file's tests stay together and in order.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

from gsplit.host import die_with_parent

NUMBER_BYTES = 4
"""Of a file's number among those that are still to be run."""
SECONDS_TO_END = 120
"""Seconds that processes have to end, once all tests have."""


def run(session: pytest.Session, count: int, begin: Callable[[], None]) -> None:
    """Run what a session has collected, and report it here as if it had run here.

    In a worker this returns, too, once nothing is left: it ends as every pytest does.

    Args:
        count: processes.
        begin: what each of them does first.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    queue, fill = os.pipe()  # of numbers, of which whoever is free reads one
    os.write(fill, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(len(files))))
    os.close(fill)
    sys.stdout.flush()
    sys.stderr.flush()
    workers = {}
    for _ in range(min(count, len(files))):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            for line in (ours, *workers):
                line.close()
            die_with_parent(parent)
            _work(session, _claimed(list(files.values()), queue), theirs, begin)
            return
        theirs.close()
        workers[ours] = pid
    _report(session, workers)


def _claimed(files: list[list[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    while number := os.read(queue, NUMBER_BYTES):
        yield from files[int.from_bytes(number, "big")]


def _work(session: pytest.Session, items: Iterator[pytest.Item], line: Connection, begin: Callable[[], None]) -> None:
    """In a worker: run them, and say so instead of printing it."""
    config: Any = session.config
    config.workerinput = {"workerid": f"worker-{os.getpid()}"}  # how plugins know that others report
    plugins = config.pluginmanager
    plugins.unregister(plugins.getplugin("terminalreporter"))
    plugins.register(_Line(config, line))
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # a file that all would share
    capture.start_global_capturing()
    capture.suspend_global_capture()
    begin()
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


class _Line:
    """What a worker says of its tests: which begins, and once it is over, all about it."""

    def __init__(self, config: pytest.Config, line: Connection) -> None:
        self._config, self._line, self._reports = config, line, []

    def pytest_runtest_logstart(self, nodeid, location):
        self._line.send(("begins", nodeid, location))

    def pytest_runtest_logreport(self, report):
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid, location):
        self._line.send(("ends", self._reports))
        self._reports = []

    def pytest_warning_recorded(self, warning_message, when, nodeid, location):
        if when != "runtest":
            return  # of the time before, which has told it
        told = str(warning_message.message), warning_message.category
        place = warning_message.filename, warning_message.lineno
        self._line.send(("warns", (*told, *place), when, nodeid, location))


def _report(session: pytest.Session, workers: dict[Connection, int]) -> None:
    """Report what the workers say; what none of them has run to its end, and one that fails at its own, is a failure.

    Raises:
        Failed: for a worker that ends otherwise than its tests did.
    """
    config, hook = session.config, session.config.hook
    left = {item.nodeid: item.location for item in session.items}
    running: dict[Connection, Any] = {}
    failed: dict[Connection, bool] = {}
    ends = []
    while workers:
        ready: list[Any] = wait(list(workers), None if left or running else SECONDS_TO_END)
        if not ready:
            ends.append("a process of tests did not end")
            for pid in workers.values():
                os.kill(pid, signal.SIGKILL)
            break
        for line in ready:
            try:
                kind, *said = line.recv()
            except EOFError:
                code = os.waitstatus_to_exitcode(os.waitpid(workers.pop(line), 0)[1])
                if line in running:
                    nodeid, location = running.pop(line)
                    del left[nodeid]
                    _fail(hook, nodeid, location, f"the process of this test ended with code {code}")
                elif code != failed.get(line, False):
                    ends.append(f"a process of tests ended with code {code} after its last test")
                continue
            if kind == "begins":
                running[line] = said
                hook.pytest_runtest_logstart(nodeid=said[0], location=said[1])
            elif kind == "warns":
                warning = warnings.WarningMessage(*said[0])
                names = {"when": said[1], "nodeid": said[2], "location": said[3]}
                hook.pytest_warning_recorded.call_historic(kwargs={"warning_message": warning, **names})
            else:
                nodeid, location = running.pop(line)
                del left[nodeid]
                for data in said[0]:
                    report = hook.pytest_report_from_serializable(config=config, data=data)
                    hook.pytest_runtest_logreport(report=report)
                    failed[line] = failed.get(line, False) or report.failed
                hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
    for nodeid, location in left.items():
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        _fail(hook, nodeid, location, "no process has run this test")
    if ends:
        session.shouldfail = "; ".join(ends)
        raise session.Failed(session.shouldfail)


def _fail(hook: Any, nodeid: str, location: Any, why: str) -> None:
    report = pytest.TestReport(
        nodeid=nodeid, location=location, keywords={}, outcome="failed", longrepr=why, when="call"
    )
    hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
