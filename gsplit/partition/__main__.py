"""``python -m gsplit.partition STORE --parts 4 --out LAYOUT``, or with a recipe instead of STORE."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import tyro

from gsplit import cli
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROG = "python -m gsplit.partition"


def read_recipe(path: Path) -> PartitionConfig:
    """The configuration in a TOML file; what it leaves out must come as a flag.

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
    # Parsing the recipe as flags checks types and values with the same rules and the same words. What a recipe
    # may leave out gets a placeholder, which is then marked as missing.
    words = [str(recipe.get("store", "-"))]
    for key, value in {"out": "-", **recipe}.items():
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif key != "store":
            words += [f"--{flag}", str(value)]
    config = cli.parse(PartitionConfig, words, prog=f"{PROG} ({path})")
    return replace(config, **{key: tyro.MISSING for key in ("store", "out") if key not in recipe})


def command(arguments: list[str]) -> None:
    if arguments and arguments[0].endswith(".toml"):
        recipe = read_recipe(Path(arguments[0]))
        config = cli.parse(PartitionConfig, arguments[1:], prog=PROG, default=recipe)
    else:
        config = cli.parse(PartitionConfig, arguments, prog=PROG)
    measured = partition(config)
    print(f"{config.out}: {config.parts} parts by {config.method}, weights {config.weights}")
    print(f"  edge cut {measured['edge_cut']:,} directed edges, local edges {measured['local_edges']:.4f}")
    print(
        f"  balance (largest part / mean): vertices {measured['balance_vertices']:.3f}, "
        f"edges {measured['balance_edges']:.3f}, training targets {measured['balance_train_targets']:.3f}"
    )


if __name__ == "__main__":
    cli.main(command)
