"""The command of an experiment: flags, what is measured by them, its tables, and ``--json``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from experiments.shared.results import Found, markdown, write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.files import check_writable


@dataclass(frozen=True, kw_only=True)
class Flags(Checked):
    """What every experiment takes that has no folder of its own for its results."""

    json: Path | None = None
    """File to write the results to."""


F = TypeVar("F", bound=Checked)


@dataclass(frozen=True)
class Experiment(Generic[F]):
    """A command ``python -m experiments.NAME``: call it with the words after that.

    Example::

        command = Experiment("micro.offline", OfflineConfig, measure)

        if __name__ == "__main__":
            cli.main(command)
    """

    name: str
    flags: type[F]
    measure: Callable[[F], Found]
    """Gives what ``--json`` writes; its lists of rows are printed as tables."""
    quick: F | None = None
    """The defaults where ``--quick`` is given."""
    shown: Callable[[Any], Found] = lambda found: found
    """What of it is printed."""
    wrong: Callable[[Any], bool] = lambda found: False
    """Whether the exit code is 1, by what was found."""
    needs: Sequence[str] = ()
    """Modules that take seconds to import (:func:`gsplit.cli.parse`)."""

    @property
    def prog(self) -> str:
        """What is typed before the flags."""
        return f"python -m experiments.{self.name}"

    def parse(self, arguments: Sequence[str]) -> F:
        """The flags that the words say."""
        defaults = vars(self.quick) if self.quick and "--quick" in arguments else None
        return cli.parse(self.flags, arguments, prog=self.prog, defaults=defaults, needs=self.needs)

    def __call__(self, arguments: list[str]) -> None:
        config = self.parse(arguments)
        file = config.json if isinstance(config, Flags) else None
        if file:
            check_writable(file)
        found = self.measure(config)
        print(f"\n{markdown(self.shown(found))}")
        if file:
            write_json(file, found)
        if self.wrong(found):
            sys.exit(1)
