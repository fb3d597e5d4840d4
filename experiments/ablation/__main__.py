"""``python -m experiments.ablation``: see :mod:`experiments.ablation`."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.ablation.config import PYG, PYG_MODEL, QUICK, AblationConfig
from experiments.ablation.exchange import exchange_rows
from experiments.ablation.report import add_study, markdown, new_result
from experiments.ablation.variants import BASE, asked_of, contender_of
from experiments.compare import measuring
from experiments.compare.graphs import prepare
from experiments.compare.measuring import Bench
from experiments.compare.pairs import Round
from experiments.compare.systems import missing
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.errors import InputError
from gsplit.files import replace_file

PROG = "python -m experiments.ablation"

logger = logging.getLogger(__name__)


def command(arguments: list[str]) -> None:
    config = cli.parse(AblationConfig, arguments, prog=PROG, default=QUICK if "--quick" in arguments else None)
    studies = config.all_changes()
    for change in {change for changes in studies.values() for change in changes} - {PYG}:
        asked_of(config, change)
    if "models" in studies and (reason := missing("pyg")):
        raise InputError(f"the study models wants PyG: {reason}")
    try:
        config.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {config.out}: {error.strerror}") from None
    comparison = config.comparison()
    bench = Bench(config=comparison, graph=prepare(comparison))
    result = new_result(config, bench)
    rounds: dict[str, list[Round]] = {}
    for study, changes in studies.items():
        contenders = {change: contender_of(config, bench.graph, change) for change in (BASE, *changes)}
        rounds[study] = measuring.in_turn(bench, contenders, config.pairs, study)
        add_study(result["tables"], study, rounds[study])
        save(config, result)
    result["tables"]["exchange"] = exchange_rows(config, bench.graph, rounds)
    save(config, result)
    print(markdown(result))
    draw(config, result)
    check_same_edges(result["tables"]["changes"])
    if bench.failures:
        sys.exit(1)


def check_same_edges(rows: Sequence[Mapping[str, Any]]) -> None:
    """PyG computed the same mini-batches as its model on this engine.

    Raises:
        AssertionError: where the edges of the last epoch are other ones.
    """
    edges = {row["change"]: row["edges"] for row in rows if row["study"] == "models"}
    if {PYG, PYG_MODEL} <= edges.keys():
        assert edges[PYG] == edges[PYG_MODEL], f"PyG computed other mini-batches: {edges}"


def save(config: AblationConfig, result: Mapping[str, Any]) -> None:
    """Write what there is so far, so that an ablation that is interrupted has not been for nothing."""
    write_json(config.out / "ablation.json", dict(result))
    replace_file(config.out / "ablation.md", markdown(result).encode())


def draw(config: AblationConfig, result: Mapping[str, Any]) -> None:
    """Write the pictures, where there is a library to draw them."""
    if importlib.util.find_spec("matplotlib") is None:
        logger.warning("no pictures: matplotlib is not installed; pip install '.[plots]'")
        return
    from experiments.ablation.pictures import draw as draw_pictures

    for path in draw_pictures(result, config.out):
        print(f"written: {path}")


if __name__ == "__main__":
    cli.main(command)
