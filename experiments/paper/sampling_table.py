"""The paper's table 4 from the rounds of experiments.paper.sampling: rows, ratios, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from experiments.baselines.dgl_sampling import DEFAULT
from experiments.baselines.sampling_ways import VERTEX_ORDERS, Produces, VertexOrder, Way

BAR_BATCH_SIZE = 4096
BAR_VERTICES = 2_000_000
BARS = {
    "DGL's default, micro-batches, store order / our splits": (">=", 4.0),
    "DGL's fastest, micro-batches, store order / our splits": (">=", 3.5),
    "our splits / our mini-batch": ("<=", 1.1),
}
"""What we ask of ratios at this batch size, on graphs of the size of ogbn-products: others differ in redundancy."""

PAPER = {
    1024: {"dgl_s": 101.7, "gsplit_s": 141.5},
    4096: {"dgl_s": 98.2, "gsplit_s": 91.4},
    16384: {"dgl_s": 62.7, "gsplit_s": 45.0},
}
"""The paper, table 4, ogbn-products: one thread of its PCIe host, seconds an epoch. Other hardware, another graph."""


def rows_of(ways: Sequence[Way], targets_per_epoch: float) -> list[dict[str, Any]]:
    """A row of figures for each way; ``targets_per_epoch`` is the training set over the batch size."""
    return [
        {
            "system": c.system,
            "form": c.form,
            "order": c.vertex_order,
            "produces": c.produces,
            "edges": round(mean(c.edges)),
            "inputs": round(mean(c.inputs)),
            "seconds": median(c.wall_s),
            "seconds_min": min(c.wall_s),
            "seconds_max": max(c.wall_s),
            "cpu_seconds": median(c.cpu_s),
            "edges_per_second": median(e / s for e, s in zip(c.edges, c.wall_s, strict=True)),
            "seconds_per_epoch": median(c.wall_s) * targets_per_epoch,
        }
        for c in ways
    ]


def ratios_of(ways: Sequence[Way], batch_size: int, num_vertices: int) -> list[dict[str, Any]]:
    """Ratios of seconds, round by round; those against DGL only where DGL took part."""
    bars = BARS if batch_size == BAR_BATCH_SIZE and num_vertices >= BAR_VERTICES else {}
    splits = _find(ways, "GSplit", "layout", "splits")
    whole = _find(ways, "GSplit", "layout", "mini-batch")
    asked: list[tuple[str, Way | None, Way | None]] = []
    for order in VERTEX_ORDERS:
        default = _find(ways, "DGL", order, "micro-batches", DEFAULT.name)
        fastest = _fastest(ways, order, "micro-batches")
        one = _fastest(ways, order, "mini-batch")
        asked += [
            (f"DGL's default, micro-batches, {order} order / our splits", default, splits),
            (f"DGL's fastest, micro-batches, {order} order / our splits", fastest, splits),
            (f"DGL's fastest, mini-batch, {order} order / our splits", one, splits),
        ]
    segments = _find(ways, "GSplit", "layout", "segments")
    micro = _find(ways, "GSplit", "layout", "micro-batches")
    store = _find(ways, "GSplit", "store", "mini-batch")
    asked += [
        ("our splits / our mini-batch", splits, whole),
        ("our segments / our splits", segments, splits),
        ("our micro-batches / our splits", micro, splits),
        ("our mini-batch, store order / layout order", store, whole),
    ]
    return [_ratio(name, over, under, bars.get(name)) for name, over, under in asked if over and under]


def _ratio(name: str, over: Way, under: Way, bar: tuple[str, float] | None) -> dict[str, Any]:
    values = [a / b for a, b in zip(over.wall_s, under.wall_s, strict=True)]
    ratio = {
        "name": name,
        "form": over.form,
        "ratio": median(values),
        "ratio_min": min(values),
        "ratio_max": max(values),
        "ratio_of_least": min(over.wall_s) / min(under.wall_s),
        "bar": None,
        "met": None,
    }
    if bar:
        sign, asked = bar
        met = median(values) >= asked if sign == ">=" else median(values) <= asked
        ratio |= {"bar": f"{sign} {asked:g}", "met": met}
    return ratio


def _find(ways: Sequence[Way], system: str, order: VertexOrder, produces: Produces, form: str = "") -> Way | None:
    wanted = (system, order, produces, form)
    return next((c for c in ways if (c.system, c.vertex_order, c.produces, c.form) == wanted), None)


def _fastest(ways: Sequence[Way], order: VertexOrder, produces: Produces) -> Way | None:
    """The fastest of DGL's forms; those that take part are correct."""
    forms = [c for c in ways if (c.system, c.vertex_order, c.produces) == ("DGL", order, produces)]
    return min(forms, key=lambda c: median(c.wall_s), default=None)


def show_batch_size(measured: dict[str, Any]) -> None:
    """Print the tables of one batch size."""
    print(f"\n## Batch size {measured['batch_size']:,}\n")
    print("| system | form | order | produces | edges | inputs | seconds | min to max | M edges/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in measured["rows"]:
        print(
            f"| {row['system']} | {row['form'] or '-'} | {row['order']} | {row['produces']} | {row['edges']:,} "
            f"| {row['inputs']:,} | {row['seconds']:.3f} | {row['seconds_min']:.3f} to {row['seconds_max']:.3f} "
            f"| {row['edges_per_second'] / 1e6:.1f} |"
        )
    print(
        "\n| seconds of ... / of ... | form | ratio | min to max | least / least | bar |\n|---|---|---|---|---|---|"
    )
    for ratio in measured["ratios"]:
        bar = "" if ratio["bar"] is None else f"{ratio['bar']}, {'met' if ratio['met'] else 'NOT met'}"
        print(
            f"| {ratio['name']} | {ratio['form'] or '-'} | {ratio['ratio']:.2f} "
            f"| {ratio['ratio_min']:.2f} to {ratio['ratio_max']:.2f} | {ratio['ratio_of_least']:.2f} | {bar} |"
        )


def show_epochs(batch_sizes: Sequence[dict[str, Any]]) -> None:
    """Print table 4 in the paper's form, ours beside the paper's."""
    print("\n## An epoch, seconds: the paper's table 4 (ogbn-products, other hardware: compare ratios only)\n")
    print("| batch size | paper: DGL | paper: GSplit | DGL / GSplit | here: DGL's default | here: GSplit | ratio |")
    print("|---|---|---|---|---|---|---|")
    for measured in batch_sizes:
        paper = PAPER.get(measured["batch_size"], {})
        ours = _epoch_s(measured, "GSplit", "layout", "splits", "")
        theirs = _epoch_s(measured, "DGL", "store", "micro-batches", DEFAULT.name)
        cells = [
            f"{measured['batch_size']:,}",
            *_seconds_and_ratio(paper.get("dgl_s"), paper.get("gsplit_s")),
            *_seconds_and_ratio(theirs, ours),
        ]
        print(f"| {' | '.join(cells)} |")


def _seconds_and_ratio(dgl_s: float | None, gsplit_s: float | None) -> list[str]:
    seconds = ["-" if s is None else f"{s:.1f}" for s in (dgl_s, gsplit_s)]
    return [*seconds, f"{dgl_s / gsplit_s:.2f}" if dgl_s and gsplit_s else "-"]


def _epoch_s(measured: dict[str, Any], *wanted: str) -> Any:
    keys = ("system", "order", "produces", "form")
    return next(
        (row["seconds_per_epoch"] for row in measured["rows"] if tuple(row[key] for key in keys) == wanted), None
    )
