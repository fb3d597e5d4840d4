"""``python -m gsplit.report RUN [RUN ...] --out report.html``; ``python -m gsplit.report LAYOUT`` is of a layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.data import layout
from gsplit.errors import InputError
from gsplit.files import check_writable, replace_file
from gsplit.partition.__main__ import report as report_on_layout
from gsplit.report.page import MARK, page
from gsplit.report.recorded import Recorded, read_run
from gsplit.terminal import say

PROG = "python -m gsplit.report"


@dataclass(frozen=True, kw_only=True)
class PageConfig(Checked):
    """Write one HTML page about training runs, beside each other where there are several; it needs no network.

    Of a LAYOUT in place of runs it says how good that is for a training: report LAYOUT --help.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Folders that gsplit train wrote; those of runs at work have the epochs so far."""
    out: Path = Path("report.html")
    """The page; one from before is replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.runs:
            raise InputError("no run given: name the folder that gsplit train wrote (--out)")


def command(arguments: list[str], prog: str = PROG) -> None:
    """Write a page of runs, or report on a layout; ``prog`` is what complaints call the command."""
    if any((Path(word) / layout.FILE).is_file() for word in arguments if not word.startswith("-")):
        report_on_layout(arguments, prog)
        return
    config = cli.parse(PageConfig, arguments, prog=prog)
    runs = named([read_run(run) for run in config.runs])
    check_writable(config.out, "--out")
    _check_is_page(config.out)
    written = page(runs).encode()
    replace_file(config.out, written)
    many = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    say(f"{config.out}: {many}, {sum(len(run.epochs) for run in runs):,} epochs, {len(written) / 1024:.0f} KiB")


def named(runs: Sequence[Recorded]) -> list[Recorded]:
    """Runs whose names tell them apart: that of the folder, or the path as it was given.

    Raises:
        InputError: for a run that is given twice.
    """
    places = [run.path.resolve() for run in runs]
    for place, run in zip(places, runs, strict=True):
        if places.count(place) > 1:
            raise InputError(f"{run.path} is given twice")
    names = [run.name for run in runs]
    return [replace(run, name=str(run.path)) if names.count(run.name) > 1 else run for run in runs]


def _check_is_page(out: Path) -> None:
    if not out.exists():
        return
    with out.open("rb") as file:
        ours = MARK.encode() in file.read(1024)
    if not ours:
        raise InputError(f"--out {out} exists already and is no page of this command; choose another --out")


if __name__ == "__main__":
    cli.main(command)
