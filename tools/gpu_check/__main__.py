"""``tools/gpu_check.sh``: run the parts, one after the other, and print what came of them as a page for docs/results.

Each part has a limit, and all together have one. A part that fails or takes too long is named, and the next one runs;
parts that the time did not reach are named, too. Logs and the page, ``table.md``, lie in OUT.
"""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from experiments.shared.results import markdown_table
from gsplit import cli
from gsplit.config.fields import Checked, Range
from gsplit.config.flags import Positional
from gsplit.device import accelerator
from gsplit.device.choice import why_not
from gsplit.device.unusable import why_none
from gsplit.errors import InputError
from tools.gpu_check.machine import machine
from tools.gpu_check.one import ONE
from tools.gpu_check.place import Outcome, Part, Place, outcome_of
from tools.gpu_check.several import several

PROG = "tools/gpu_check.sh"


@dataclass(frozen=True, kw_only=True)
class GpuCheckConfig(Checked):
    """What only GPUs show, part by part, in ten minutes."""

    out: Annotated[Path, Positional] = Path("gpu-check")
    """Folder for logs and the table."""
    gpus: Annotated[int, Range(1)] = 1
    """Number of GPUs; with more than one, what only several show."""
    device: str = field(default_factory=lambda: os.environ.get("DEVICE", "auto"))
    """Type of device, by default DEVICE of the environment, else that of the GPUs; cpu rehearses without one."""
    minutes: Annotated[float, Range(0)] = 10.0
    """Number of minutes for all parts together."""
    only: str = ""
    """Words of the names of parts, with commas between them; the others are left out."""


def parts_of(config: GpuCheckConfig) -> tuple[Part, ...]:
    """The parts that are asked for, in order.

    Raises:
        InputError: where there are none.
    """
    parts = ONE if config.gpus == 1 else several(config.gpus)
    words = [word.strip() for word in config.only.split(",")]
    parts = tuple(part for part in parts if any(word in part.name for word in words))
    if not parts:
        raise InputError(f"--only {config.only}: no part has that in its name")
    return parts


def device_of(config: GpuCheckConfig) -> str:
    """The type of device to check.

    Raises:
        InputError: where there are too few of them.
    """
    kind, count = accelerator.find(config.device)
    if kind == accelerator.HOST:
        if config.device != accelerator.HOST:
            why = why_none(kind)
            told = "" if why is None else f": {why}"
            raise InputError(f"PyTorch finds no GPU{told}; DEVICE=cpu rehearses the commands without one")
    elif count < config.gpus:
        raise InputError(f"--gpus {config.gpus}, but PyTorch finds {count}")
    elif (why := why_not(kind, config.gpus)) is not None:
        raise InputError(why)
    return kind


def checked(parts: Sequence[Part], place: Place, seconds: float) -> list[Outcome]:
    """What came of the parts, one after the other; a line for each is printed."""
    end_s, outcomes = time.monotonic() + seconds, []
    for part in parts:
        left_s = end_s - time.monotonic()
        if left_s <= 1:
            break
        outcomes.append(outcome_of(part, place, left_s))
        last = outcomes[-1]
        how = "" if last.good else "FAILED: "
        print(f"{last.name}: {how}{last.result} ({last.seconds:.0f} s of {last.limit_s:.0f})", flush=True)
        if last.told:
            print(textwrap.indent(last.told, "    "), flush=True)
        if part.is_needed and not last.good:
            break
    return outcomes


def page(place: Place, parts: Sequence[Part], outcomes: Sequence[Outcome]) -> str:
    """The tables of the machine, the parts, rates beside their floors, and memory, in Markdown."""
    rows = [
        (each.name, each.result.replace("|", "/") if each.good else f"**failed**: {each.result.replace('|', '/')}",
         f"{each.seconds:.0f} of {each.limit_s:.0f}")
        for each in outcomes
    ]  # fmt: skip
    rows += [(part.name, "**not reached**", f"- of {part.limit_s:.0f}") for part in parts[len(outcomes) :]]
    tables = [markdown_table(("", ""), machine(place.device)), markdown_table(("part", "result", "seconds"), rows)]
    known = {name: rate for name, rate, _, _ in place.rates}
    rates = [
        (name, f"{rate:.2f}", floor, f"{share:.2f}" if (share := _share(rate, its or known.get(floor))) else "")
        for name, rate, floor, its in place.rates
    ]
    if rates:
        tables.append(markdown_table(("moved", "GB/s", "floor", "share of it"), rates))
    if place.memory:
        tables.append(markdown_table(("memory of a GPU", ""), place.memory))
    return "\n\n".join(tables) + "\n"


def _share(rate: float, floor: float | None) -> float | None:
    return rate / floor if floor else None


def command(arguments: list[str]) -> None:
    """Run the command; exit code 1 where a part failed or was not reached."""
    config = cli.parse(GpuCheckConfig, arguments, prog=PROG)
    parts, device, out = parts_of(config), device_of(config), config.out.absolute()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {config.out}: {error.strerror}") from None
    with tempfile.TemporaryDirectory(prefix="gsplit-gpu-check-") as work:
        place = Place(device=device, gpus=config.gpus, out=out, work=Path(work))
        outcomes = checked(parts, place, 60 * config.minutes)
    text = page(place, parts, outcomes)
    (out / "table.md").write_text(text)
    print(f"\n{text}")
    failed = [each.name for each in outcomes if not each.good]
    missed = [part.name for part in parts[len(outcomes) :]]
    for word, names in (("failed", failed), ("not reached", missed)):
        if names:
            print(f"{word}: {', '.join(names)}")
    if failed or missed:
        sys.exit(1)


if __name__ == "__main__":
    cli.main(command)
