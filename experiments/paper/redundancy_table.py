"""The paper's tables 1 and 2 from the counts of experiments.paper.redundancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.shared.systems import OURS, System, Work
from experiments.shared.traffic import exchange_bytes

TABLE_1 = {
    "PaGraph": {0: (13682, 0), 10: (10829, 0), 25: (7404, 0)},
    "Quiver": {0: (19267, 0), 10: (6334, 9698), 25: (0, 14448)},
}
"""The paper, table 1, ogbn-products: system -> cache % -> (CPU-GPU, GPU-GPU) in MB."""
TABLE_2 = {
    "products": (195_000_000, 155_000_000, 25.5),
    "papers100M": (327_000_000, 131_000_000, 148.9),
    "amazon": (473_000_000, 263_000_000, 79.2),
}
"""The paper, table 2: edges of an epoch as 4 micro-batches of 1024 and as a mini-batch of 4096, redundancy in %."""

PAPER = {
    "traffic": [
        {"system": system, "cache_percent": percent, "paper_host_mb": host_mb, "paper_peer_mb": peer_mb}
        for system, cells in TABLE_1.items()
        for percent, (host_mb, peer_mb) in cells.items()
    ],
    "work": [
        {"graph": graph, "micro_edges": micro, "mini_edges": mini, "edge_redundancy_percent": percent}
        for graph, (micro, mini, percent) in TABLE_2.items()
    ],
}


def traffic_rows(
    systems: Sequence[System], work: Mapping[str, Work], *, level_widths: Sequence[int], row_bytes: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """``traffic`` and ``exchanges`` of ``--json``.

    Args:
        systems: with all their rows counted.
        work: by placement.
        level_widths: [L + 1] columns of the vectors of each level, which are exchanged as float32.
        row_bytes: of a feature row as stored, in which it is loaded and cached.
    """
    exchanged = {name: _exchanges(done, level_widths) for name, done in work.items()}
    rows = []
    for system in systems:
        loads = system.loads
        forward_bytes, backward_bytes = (
            sum(layer[way] for layer in exchanged[system.placement]) for way in ("forward_bytes", "backward_bytes")
        )
        host_bytes, peer_bytes = loads.host_rows * row_bytes, loads.peer_rows * row_bytes
        paper_host_mb, paper_peer_mb = TABLE_1.get(system.name, {}).get(system.cache_percent, (None, None))
        rows.append(
            {
                "system": system.name,
                "cache_percent": system.cache_percent,
                "needed_rows": loads.needed_rows,
                "hit_rows": loads.hit_rows,
                "peer_rows": loads.peer_rows,
                "host_rows": loads.host_rows,
                "hit_rate": loads.hit_rows / max(1, loads.needed_rows),
                "host_bytes": host_bytes,
                "peer_bytes": peer_bytes,
                "exchange_forward_bytes": forward_bytes,
                "exchange_backward_bytes": backward_bytes,
                "total_bytes": host_bytes + peer_bytes + forward_bytes + backward_bytes,
                "paper_host_mb": paper_host_mb,
                "paper_peer_mb": paper_peer_mb,
            }
        )
    return rows, exchanged["splits"]


def _exchanges(work: Work, level_widths: Sequence[int]) -> list[dict[str, int]]:
    made = []
    for layer, sent in sorted(work.exchanges.items()):
        forward_bytes, backward_bytes = exchange_bytes(layer, sent.rows, level_widths)
        projected = exchange_bytes(layer, sent.rows, level_widths, project_first=True)
        made.append(
            {
                "layer": layer,
                "rows": sent.rows,
                "messages": sent.messages,
                "forward_bytes": forward_bytes,
                "backward_bytes": backward_bytes,
                "projected_forward_bytes": projected[0],
                "projected_backward_bytes": projected[1],
            }
        )
    return made


def bar_of(traffic: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether GSplit reads no more from the host than any other, and less than those that read at all."""
    missed = []
    for ours in (row for row in traffic if row["system"] == OURS):
        for row in traffic:
            # DGL has no cache: its one row stands beside all sizes.
            beside = row["system"] == "DGL" or row["cache_percent"] == ours["cache_percent"]
            at_most = max(0, row["host_bytes"] - 1)
            if row["system"] != OURS and beside and ours["host_bytes"] > at_most:
                missed.append({"system": row["system"], "cache_percent": ours["cache_percent"]})
    return {"met": not missed, "missed": missed}


def work_rows(work: Mapping[str, Work]) -> list[dict[str, Any]]:
    """``work`` of ``--json``."""
    once = work["splits"]
    return [
        {
            "laying": name,
            "edges": done.edges,
            "inputs": done.inputs,
            "edge_redundancy_percent": 100 * (done.edges - once.edges) / max(1, once.edges),
            "input_redundancy_percent": 100 * (done.inputs - once.inputs) / max(1, once.inputs),
        }
        for name, done in work.items()
    ]
