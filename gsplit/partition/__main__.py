"""``python -m gsplit.partition STORE --parts 4 --out LAYOUT``, or with a recipe instead of STORE.

Then ``python -m gsplit.partition report LAYOUT``.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from gsplit import cli
from gsplit.config.partition import PartitionConfig, ReportConfig
from gsplit.data import layout, open_layout
from gsplit.data.description import read_description
from gsplit.data.opened import VERSION
from gsplit.errors import InputError
from gsplit.files import check_form, check_writable, real_path, replace_file
from gsplit.partition import dry_run, partition, show
from gsplit.partition.make import NOT_CUT
from gsplit.partition.report import measure, training_of
from gsplit.terminal import say
from gsplit.toml import tomllib

PROG = "python -m gsplit.partition"
UNEVEN = 1.1
"""Largest part over the mean from which parts are called uneven."""

WRITTEN = (".json", ".png")
"""Endings of the files that a report is written to."""

logger = logging.getLogger(__name__)


def read_recipe(path: Path) -> dict[str, Any]:
    """The fields of a :class:`PartitionConfig` in a TOML file; what it leaves out comes as flags.

    Raises:
        InputError: for a file that is missing, no TOML, or has a key that is no flag or a value of a wrong type.
    """
    try:
        recipe: dict[str, Any] = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: no such recipe") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not a readable TOML file: {error}") from None
    recipe = {key.replace("-", "_"): value for key, value in recipe.items()}
    unknown = recipe.keys() - PartitionConfig.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(PartitionConfig.__dataclass_fields__)
        raise InputError(f"{path} has the unknown key {sorted(unknown)[0]!r}; a recipe may have {known}")
    try:
        return PartitionConfig.checked_fields(recipe)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def report(arguments: list[str], prog: str) -> None:
    """Print how good a layout is for a training, and write it as JSON and as a picture."""
    config = cli.parse(ReportConfig, arguments, prog=prog)
    opened = open_layout(config.layout, typed=True)
    layout_path = real_path(config.layout)
    out = config.out or layout_path.with_name(f"{layout_path.name}-report")
    check_form(out, WRITTEN, "JSON and a picture")
    out = out.with_suffix("") if out.suffix.lower() in WRITTEN else out  # both are written, whichever is named
    as_json, as_png = (Path(f"{out}{form}") for form in WRITTEN)
    for file in (as_json, as_png):
        check_writable(file, "--out")
    threads = config.threads or len(os.sched_getaffinity(0))
    measured = measure(opened, training_of(config, opened), epochs=config.epochs, seed=config.seed, threads=threads)
    say("\n".join(show.lines(measured)))
    replace_file(as_json, json.dumps(measured, indent=2).encode() + b"\n")
    written = str(as_json)
    try:
        picture = show.draw(measured)
    except ImportError:
        logger.warning("no picture: matplotlib is not installed; pip install matplotlib")
    else:
        replace_file(as_png, picture)
        written += f" and {as_png}"
    say(f"\nwritten to {written}")


def command(arguments: list[str], prog: str = PROG) -> None:
    """Partition as the arguments say, or report; ``prog`` is what complaints call the command."""
    if arguments and arguments[0] == "report":
        report(arguments[1:], f"{prog} report")
        return
    if arguments and arguments[0].endswith(".toml"):
        recipe = read_recipe(Path(arguments[0]))
        config = cli.parse(PartitionConfig, arguments[1:], prog=prog, defaults=recipe)
    else:
        config = cli.parse(PartitionConfig, arguments, prog=prog)
    if config.dry_run:
        say("\n  ".join(dry_run(config)))
        return
    measured = partition(config)
    # What auto stood for, and how many parts a file has.
    made = read_description(config.out, layout.FILE, layout.FORMAT, VERSION)
    by = f"the file {made['file']}" if made["method"] == "file" else f"{made['method']}, weights {config.weights}"
    if kept := made.get("kept"):
        say(
            f"{config.keep}: {kept['vertices']:,} vertices, local edges {kept['local_edges']:.4f}, balance: vertices "
            f"{kept['balance_vertices']:.3f}, edges {kept['balance_edges']:.3f}, training targets "
            f"{kept['balance_train_targets']:.3f}"
        )
        placed = made["num_vertices"] - kept["vertices"]
        share = kept["new_local_edges"]
        by = f"keeping {config.keep}, and {placed:,} new vertices placed with {share:.4f} of their edges local"
    say(f"{config.out}: {made['parts']} parts by {by}")
    say(f"  edge cut {measured['edge_cut']:,} directed edges, local edges {measured['local_edges']:.4f}")
    say(
        f"  balance (largest part / mean): vertices {measured['balance_vertices']:.3f}, "
        f"edges {measured['balance_edges']:.3f}, training targets {measured['balance_train_targets']:.3f}"
    )
    for name, of_type in measured.get("types", {}).items():
        say(f"    {name}: {of_type['balance_vertices']:.3f}")
    uneven = max(measured["balance_edges"], measured["balance_train_targets"]) > UNEVEN
    if uneven and config.weights != "presample" and made["method"] not in NOT_CUT:
        say("  --weights presample would balance what the parts compute")


if __name__ == "__main__":
    cli.main(command)
