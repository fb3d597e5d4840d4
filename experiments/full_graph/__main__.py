"""``python -m experiments.full_graph``: see :mod:`experiments.full_graph`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.full_graph import balance, volumes
from experiments.shared.flags import Seed
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.errors import InputError
from gsplit.files import check_writable
from tools import real_graphs

PROG = "python -m experiments.full_graph"


@dataclass(frozen=True, kw_only=True)
class FullGraphConfig(Checked):
    """Whole-graph training beside CAGNET, Plexus, PyG and DGL. One of --words, --balance says what."""

    words: bool = False
    """Words of an epoch: the papers' formulas beside ours, and rows that parts need of each other."""
    balance: bool = False
    """Edges of blocks, the most over the mean, by permutation."""
    quick: bool = False
    """Take seconds: few and small graphs; figures say nothing."""
    json: Path | None = None
    """File to write the results to."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""
    seed: Seed = 0
    """Seed of the partitions."""

    @property
    def chosen(self) -> str:
        """What is measured."""
        chosen = [name for name in ("words", "balance") if getattr(self, name)]
        if len(chosen) != 1:
            raise InputError(f"give one of --words and --balance, not {len(chosen)}")
        return chosen[0]


def command(arguments: list[str]) -> None:
    config = cli.parse(FullGraphConfig, arguments, prog=PROG)
    chosen = config.chosen
    logging.getLogger("gsplit.partition").setLevel(logging.WARNING)  # there are hundreds of deals to tell of
    if config.json:
        check_writable(config.json)
    result: dict[str, Any]
    if chosen == "words":
        result = volumes.measure(config.data, quick=config.quick, seed=config.seed)
        volumes.show(result)
    else:
        result = balance.measure(config.data, quick=config.quick)
        balance.show(result)
    if config.json:
        write_json(config.json, result)


if __name__ == "__main__":
    cli.main(command)
