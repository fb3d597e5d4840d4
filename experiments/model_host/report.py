"""What experiments.model_host prints: inputs, counts, predictions and the check, as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.model_host.counts import Counted
from experiments.model_host.layers import Layer
from experiments.model_host.model import Prediction, exchanged_bytes, operations_of, reduced_bytes
from experiments.model_host.rates import Host
from experiments.shared.results import dataset_text
from experiments.shared.systems import OURS

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


def show(result: Mapping[str, Any]) -> None:
    """Print all of ``--json``."""
    settings, counted = result["settings"], result["counted"]
    print(f"{result['host']}\n{dataset_text(result['dataset'])}")
    print(
        f"{settings['model']}, hidden {settings['hidden']}, fan-out {','.join(map(str, settings['fan_out']))}, "
        f"{settings['batch_size']:,} targets a mini-batch, {settings['feature_width']} features; "
        f"{counted['iterations']} of {counted['iterations_per_epoch']} mini-batches counted"
    )
    print("\nRates, each with its source; `reached` is the share of the value that the model reckons with:\n")
    _table(
        ("rate", "value", "reached", "source"),
        [
            [row["rate"], f"{_number(row['value'])} {row['unit']}", f"{row['reached']:g}", row["source"]]
            for row in result["rates"]
        ],
    )
    print("\nCounted, an epoch, all trainers:\n")
    ways = ("host_bytes", "segment_bytes", "peer_bytes", "exchange_bytes")
    _table(
        (
            *("strategy", "cache", "M edges", "host MB", "segments MB", "peers MB", "exchange MB", "messages"),
            *("GFLOP", "device GB"),
        ),
        [
            [
                *_named(row),
                *(_number(row[key] / 1e6) for key in ("edges", *ways)),
                f"{row['messages']:,.0f}",
                *(_number(row[key] / 1e9) for key in ("flops", "memory_bytes")),
            ]
            for row in result["counts"]
        ],
    )
    _show_predictions(result)
    if result["check"]:
        _show_check(result)


def _show_predictions(result: Mapping[str, Any]) -> None:
    print(f"\n{LABEL} Seconds of an epoch; times faster than data parallelism without a cache (DGL).")
    print("In sequence: loading and training one after the other, sampling aside, as in the paper's figures 6 and 7.")
    print(
        "Overlapped: as this engine works. Loading, %, is of the time in sequence. The paper's is of its table 1, for"
    )
    print("ogbn-products: PaGraph on its first host, Quiver on its second.\n")
    stages = ("sample_s", "load_s", "compute_s", "exchange_s", "reduce_s")
    _table(
        (
            *("strategy", "cache", "sample", "load", "compute", "exchange", "reduce", "in sequence", "faster"),
            *("overlapped", "faster", "loading, %", "the paper, %"),
        ),
        [
            [
                *_named(row),
                *(_number(row[stage]) for stage in (*stages, "in_sequence_s")),
                f"{row['in_sequence_speedup']:.2f}",
                _number(row["epoch_s"]),
                f"{row['speedup']:.2f}",
                f"{row['load_share_percent']:.0f}",
                "-" if row["paper_load_share_percent"] is None else str(row["paper_load_share_percent"]),
            ]
            for row in result["predictions"]
        ],
    )
    for reason in result["left_out"]:
        print(f"\nLeft out: {reason}")


def _show_check(result: Mapping[str, Any]) -> None:
    print("\nThe same model beside runs on this machine, the only measured figures here. Stages of a run share cores")
    print("with others, and `reduce` has the wait for the slower trainer in it; predicted stages have neither.\n")
    _table(
        ("strategy", "stage", "predicted s", "measured s", "prediction / measurement"),
        [
            [
                row["strategy"],
                row["stage"],
                _number(row["predicted_s"]),
                _number(row["measured_s"]),
                "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
            ]
            for row in result["check"]
        ],
    )
    ours, theirs = (_epoch_of(result["check"], name) for name in (OURS, "DGL"))
    print(
        f"\nData parallelism over {OURS}: {theirs['predicted_s'] / ours['predicted_s']:.2f} predicted, "
        f"{theirs['measured_s'] / ours['measured_s']:.2f} measured."
    )


def _epoch_of(check: Sequence[Mapping[str, Any]], strategy: str) -> Mapping[str, Any]:
    return next(row for row in check if (row["strategy"], row["stage"]) == (strategy, "epoch"))


def _named(row: Mapping[str, Any]) -> list[str]:
    return [row["strategy"], f"{row['cache_percent']} %" if row["cache_percent"] else "none"]


def _number(value: float) -> str:
    """A number with three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for cells in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(cells)} |")
