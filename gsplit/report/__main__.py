"""``python -m gsplit.report RUN [RUN ...] --out report.html``; ``python -m gsplit.report LAYOUT`` is of a layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.config.flags import Positional, Takes
from gsplit.data import layout
from gsplit.partition.__main__ import report as report_on_layout
from gsplit.report.api import recorded, write_page
from gsplit.terminal import say

PROG = "python -m gsplit.report"


@dataclass(frozen=True, kw_only=True)
class PageConfig(Checked):
    """Write one HTML page about training runs, beside each other where there are several; it needs no network.

    Of a LAYOUT in place of runs it says how good that is for a training: report LAYOUT --help.
    """

    runs: Annotated[tuple[Path, ...], Positional, Takes("RUN [RUN ...]")]
    """Folders that gsplit train wrote; those of runs that are still going have the epochs so far."""
    out: Path = Path("report.html")
    """The page; one from before is replaced."""


def command(arguments: list[str], prog: str = PROG) -> None:
    """Write a page of runs, or report on a layout; ``prog`` is what complaints call the command."""
    if any((Path(word) / layout.FILE).is_file() for word in arguments if not word.startswith("-")):
        report_on_layout(arguments, prog)
        return
    config = cli.parse(PageConfig, arguments, prog=prog)
    runs = recorded(config.runs)
    written = write_page(runs, config.out)
    many = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    say(f"{config.out}: {many}, {sum(len(run.epochs) for run in runs):,} epochs, {len(written) / 1024:.0f} KiB")


if __name__ == "__main__":
    cli.main(command)
