"""A plugin of pytest: what failed is told at once, for the part's time may be over before all tests are."""

from __future__ import annotations

import pytest


class Told:
    """Writes why a test failed, with what it and its trainers wrote, as soon as that is known."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write it where the verdicts are written, past what captures the tests' own output."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            for name, text in [("why", report.longreprtext), *report.sections]:
                terminal.write_line(f"\n--- {name}\n{text}")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin in the process that has the terminal."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Told(config))
