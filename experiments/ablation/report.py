"""The tables of an ablation; docs/formats.md, "Ablation", has their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.ablation.config import PYG, PYG_MODEL
from experiments.ablation.variants import BASE
from experiments.compare.pairs import COMPARED, Round, epoch_row, noise_rows, ratio_row

ALSO_OVER = {PYG: (PYG_MODEL,)}
"""What a change is compared with, beside the base."""


def add_study(tables: dict[str, list[dict[str, Any]]], study: str, rounds: Sequence[Round]) -> None:
    """Rows of one study: an epoch of each, ratios to the base, the machine."""
    names = list(dict.fromkeys(name for each in rounds for name in each))
    tables["changes"] += [{"study": study, "change": name, **epoch_row(rounds, name)} for name in names]
    for what in COMPARED:
        for name in names:
            for over in (BASE, *ALSO_OVER.get(name, ())):
                row = None if name == over else ratio_row(rounds, name, over, what)
                if row:
                    tables["ratios"].append({"study": study, "change": row.pop("system"), **row})
    tables["noise"] += [{"study": study, **row} for row in noise_rows(rounds)]
