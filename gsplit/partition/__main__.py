"""``python -m gsplit.partition STORE --parts 4 --out LAYOUT``, or with a recipe instead of STORE."""

from __future__ import annotations

import sys
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
    # Parsing the recipe as flags checks types and names with the same rules and the same words.
    words = [] if "store" not in recipe else [str(recipe.pop("store"))]
    given = set(recipe)
    for key, value in recipe.items():
        flag = key.replace("_", "-")
        words += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    missing = [] if "out" in given else ["--out", "-"]
    config = cli.parse(PartitionConfig, words + missing if words else ["-", *missing], prog=f"{PROG} ({path})")
    values = {name: getattr(config, name) for name in PartitionConfig.__dataclass_fields__}
    return PartitionConfig(**{**values, "out": values["out"] if "out" in given else tyro.MISSING})


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
