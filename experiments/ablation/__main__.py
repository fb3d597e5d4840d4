"""``python -m experiments.ablation``: see :mod:`experiments.ablation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.ablation.config import PYG, PYG_MODEL, QUICK, AblationConfig
from experiments.ablation.exchange import exchange_rows
from experiments.ablation.variants import BASE, asked_of, changed_of, contender_of
from experiments.compare import measuring
from experiments.compare.graphs import prepare
from experiments.compare.measuring import Bench
from experiments.compare.pairs import COMPARED, Round, epoch_row, noise_rows, ratio_row
from experiments.compare.report import new_result
from experiments.compare.systems import missing
from experiments.shared.experiment import Experiment
from gsplit import cli
from gsplit.errors import InputError

ALSO_OVER = {PYG: (PYG_MODEL,)}
"""What a change is compared with, beside the base."""


def measure(config: AblationConfig) -> dict[str, Any]:
    """The rounds of each study, and what was exchanged; what there is so far is saved after each."""
    studies = config.all_changes()
    for study, changes in studies.items():
        for change in {BASE, *changes} - {PYG}:
            asked_of(config, changed_of(config.base_of(study), change))
    if "models" in studies and (reason := missing("pyg")):
        raise InputError(f"the study models wants PyG: {reason}")
    bench = Bench(name="ablation", config=config, graph=prepare(config))
    result = new_result(bench, changes=[], ratios=[], exchange=[], noise=[])
    rounds: dict[str, list[Round]] = {}
    for study, changes in studies.items():
        base = config.base_of(study)
        contenders = {change: contender_of(config, bench.graph, change, base) for change in (BASE, *changes)}
        rounds[study] = measuring.run_rounds(bench, contenders, config.pairs, study)
        add_study(result["tables"], study, rounds[study])
        bench.save(result)
    result["tables"]["exchange"] = exchange_rows(config, bench.graph, rounds)
    bench.save(result)
    check_same_edges(result["tables"]["changes"])
    return result


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


def check_same_edges(rows: Sequence[Mapping[str, Any]]) -> None:
    """PyG computed the same mini-batches as its model on this engine.

    Raises:
        AssertionError: where the edges of the last epoch are other ones.
    """
    edges = {row["change"]: row["edges"] for row in rows if row["study"] == "models"}
    if {PYG, PYG_MODEL} <= edges.keys():
        assert edges[PYG] == edges[PYG_MODEL], f"PyG computed other mini-batches: {edges}"


command = Experiment(
    "ablation",
    AblationConfig,
    measure,
    quick=QUICK,
    shown=measuring.shown,
    wrong=lambda result: bool(result["tables"]["not_run"]),
)

if __name__ == "__main__":
    cli.main(command)
