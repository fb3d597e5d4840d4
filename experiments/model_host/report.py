"""The rows of experiments.model_host: rates, counts, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.model_host.counts import Counted
from experiments.model_host.layers import Layer
from experiments.model_host.model import Prediction, exchanged_bytes, operations_of, reduced_bytes
from experiments.model_host.rates import Host

LABEL = "Predicted from counts and rates, not measured."
LOAD_SHARES = {
    ("PaGraph", 0): 79,
    ("PaGraph", 10): 78,
    ("PaGraph", 25): 68,
    ("Quiver", 0): 95,
    ("Quiver", 10): 71,
    ("Quiver", 25): 38,
}
"""The paper, table 1, ogbn-products: percent of an epoch that loading takes, PaGraph on its first host, Quiver on its
second."""


def rate_rows(host: Host) -> list[dict[str, Any]]:
    """``rates`` of ``--json``."""
    return [
        {"rate": name, "value": figure.value, "unit": figure.unit, "reached": figure.reached, "source": figure.source}
        for name, figure in host.figures().items()
    ]


def count_row(counted: Counted, layers: Sequence[Layer], row_bytes: int, epochs: float) -> dict[str, Any]:
    """One row of ``counts``: an epoch of a strategy, whatever the host."""
    loads, operations = counted.loads, operations_of(counted, layers)
    return {
        "strategy": counted.strategy.name,
        "cache_percent": counted.strategy.cache_percent,
        "edges": counted.edges / epochs,
        "needed_rows": loads.needed_rows / epochs,
        "host_bytes": loads.host_rows * row_bytes / epochs,
        "segment_bytes": counted.segment_bytes / epochs,
        "peer_bytes": loads.peer_rows * row_bytes / epochs,
        "exchange_bytes": exchanged_bytes(counted, layers) / epochs,
        "messages": counted.messages / epochs,
        "reduced_bytes": reduced_bytes(layers) * sum(map(len, counted.mini_batches)) / epochs,
        "memory_bytes": sum(op.num_bytes for op in operations) / epochs,
        "flops": sum(op.flops for op in operations) / epochs,
    }


def prediction_row(counted: Counted, prediction: Prediction, base: Prediction) -> dict[str, Any]:
    """One row of ``predictions``; ``base`` is data parallelism without a cache."""
    name, percent = counted.strategy.name, counted.strategy.cache_percent
    return {
        "strategy": name,
        "cache_percent": percent,
        "sample_s": prediction.sample_s,
        "load_s": prediction.load_s,
        "compute_s": prediction.compute_s,
        "exchange_s": prediction.exchange_s,
        "reduce_s": prediction.reduce_s,
        "in_sequence_s": prediction.in_sequence_s,
        "in_sequence_speedup": base.in_sequence_s / prediction.in_sequence_s,
        "epoch_s": prediction.epoch_s,
        "speedup": base.epoch_s / prediction.epoch_s,
        "load_share_percent": 100 * prediction.load_share,
        "paper_load_share_percent": LOAD_SHARES.get((name, percent)),
    }
