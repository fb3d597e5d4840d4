"""Bytes that runs exchanged, beside what samples say that there is to exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.ablation.config import PYG, AblationConfig
from experiments.ablation.variants import BASE, asked_of, changed_of
from experiments.compare.graphs import Graph
from experiments.compare.pairs import Round
from experiments.shared.placements import Placements
from experiments.shared.traffic import FLOAT32_BYTES, exchange_bytes, exchange_of
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout

TYPE_BYTES = {"model": FLOAT32_BYTES, "bfloat16": 2}
"""By ``--exchange-dtype``, of models in float32; in mixed precision rows are bfloat16."""

COUNTED = ("input_rows_bytes", "over_inputs", "counted_bytes", "first_layer_over_inputs")
"""Keys of what samples tell, null where mini-batches are not drawn by neighbours."""


def rows_by_layer(layout: Layout, asked: TrainConfig) -> dict[int, int]:
    """Rows that the exchange before each layer, from 1 on, sends in the first epoch of a split-parallel run."""
    placements = Placements(layout, asked.batch_size, asked.fan_out, asked.seed)
    sample = placements.ways()["splits"]
    rows = dict.fromkeys(range(1, asked.layers + 1), 0)
    for batch in range(placements.plan.num_batches):
        segments = sample(batch)
        for layer in rows:
            rows[layer] += exchange_of(layer, segments).rows
    return rows


def counted_bytes(rows: Mapping[int, int], asked: TrainConfig, features: int, classes: int) -> dict[int, int]:
    """Bytes of the exchange before each layer of our GraphSAGE, both ways, where every remote row is sent."""
    widths = [features, *[asked.hidden] * (asked.layers - 1), classes]
    size = TYPE_BYTES["bfloat16" if asked.precision == "bf16-mixed" else asked.exchange_dtype]
    return {
        layer: sum(exchange_bytes(layer, count, widths, project_first=True)) // FLOAT32_BYTES * size
        for layer, count in rows.items()
    }


def exchange_rows(config: AblationConfig, graph: Graph, rounds: Mapping[str, list[Round]]) -> list[dict[str, Any]]:
    """A row for the base and each change of a study in which trainers exchange rows; what samples count, if drawn."""
    layout = open_layout(graph.layout, trusted=True)
    features, classes = graph.facts["features"], graph.facts["classes"]
    counted: dict[tuple[Any, ...], dict[int, int]] = {}
    found = []
    for study, of_study in rounds.items():
        base = _exchanged(of_study, BASE)
        for change in dict.fromkeys(name for each in of_study for name in each):
            if change == PYG:
                continue
            asked = asked_of(config, changed_of(config.base_of(study), change))
            measured = _exchanged(of_study, change)
            row = {
                "study": study,
                "change": change,
                "exchanged_bytes": measured,
                "over_base": measured / base if base and measured is not None else None,
            }
            if asked.strategy == "full" or asked.sampling != "neighbours":
                found.append(row | dict.fromkeys(COUNTED))
                continue
            if asked.gpus != layout.parts or asked.strategy != "split" or asked.split_group not in (None, asked.gpus):
                continue
            key = (asked.fan_out, asked.batch_size, asked.seed)
            rows = counted[key] = counted.get(key) or rows_by_layer(layout, asked)
            inputs = rows[1] * features * FLOAT32_BYTES
            countable = asked.model == "sage" and asked.exchange == "rows"
            by_layer = counted_bytes(rows, asked, features, classes) if countable else {}
            agree = measured == sum(by_layer.values())
            counts = (
                inputs,
                measured / inputs if inputs and measured is not None else None,
                sum(by_layer.values()) if by_layer else None,
                by_layer[1] / inputs if inputs and by_layer and agree else None,
            )
            found.append(row | dict(zip(COUNTED, counts, strict=True)))
    return found


def _exchanged(rounds: list[Round], name: str) -> int | None:
    """Bytes of the first epoch of the first run, both ways, over all trainers; None where it never ran."""
    ran = next((each[name].ran for each in rounds if name in each), None)
    return None if ran is None else ran.outcome.epochs[0].exchanged_bytes
