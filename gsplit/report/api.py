"""``gsplit.report``: the page about runs from Python, and in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gsplit.errors import InputError, one_line_errors
from gsplit.files import as_path, check_form, check_writable, replace_file
from gsplit.report.page import MARK, page
from gsplit.report.recorded import Recorded, read_run

PAGES = (".html", ".htm")
"""Endings of the names of pages."""


class Page(str):
    """HTML of a page about runs. A notebook shows it, in a frame of its own, where it is the last value of a cell."""

    def __repr__(self) -> str:
        return f"<a page about runs, {len(self) / 1024:.0f} KiB of HTML>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self)}" width="100%" height="700" style="border: 0"></iframe>'


def report(*runs: Path | str, out: Path | str | None = None) -> Page:
    """Draw runs, beside each other where there are several, as ``gsplit report RUN ...`` does.

    Args:
        runs: folders that training wrote.
        out: the file to write the page to; by default none. One from before is replaced.

    Raises:
        InputError: for what is no run or is damaged, for an ``out`` that is something else than such a page, and
            where Jinja or Matplotlib is not installed.

    Examples:
        >>> page = gsplit.report("run", out="report.html")
        >>> open("report.html").read().count("<title>")
        1
    """
    one_line_errors()
    if not runs:
        raise InputError("no run given: name the folder that gsplit.train wrote")
    read = recorded(
        [as_path(run, "gsplit.report", "what gsplit.train returned, or the folder of a run") for run in runs]
    )
    return Page(page(read) if out is None else write_page(read, Path(out)))


def recorded(folders: Sequence[Path]) -> list[Recorded]:
    """Runs as their folders tell them, each with a name that tells it apart."""
    return named([read_run(folder) for folder in folders])


def write_page(runs: Sequence[Recorded], out: Path) -> str:
    """Write the page of some runs to a file, and return it.

    Raises:
        InputError: for a file that cannot be written or is something else than a page of ours.
    """
    check_form(out, PAGES, "a page")
    check_writable(out, "--out")
    _check_is_page(out)
    written = page(runs)
    replace_file(out, written.encode())
    return written


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
