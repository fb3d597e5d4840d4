"""The report to look at: as text, and as a picture of how even the splits are and what caches hold."""

from __future__ import annotations

import io
from typing import Any


def lines(report: dict[str, Any]) -> list[str]:
    """The report in lines to print."""
    layout, training, graph, sampled = (report[key] for key in ("layout", "training", "graph", "sampled"))
    fan_outs = {"fan-out": training["fan_out"], **training.get("fan_out_of", {})}
    drawn = ", ".join(f"{name} {','.join(map(str, numbers))}" for name, numbers in fan_outs.items())
    by = f"{drawn}, batch size {training['batch_size']:,}"
    if "sampling" in training:
        sizes = training["subgraph"] or f"{','.join(map(str, training['layer_sizes']))} of {training['batch_size']:,}"
        by = f"{training['sampling']}, {sizes}"
    percents, rates = report["cache"]["percent"], report["cache"]["hit_rate"]
    width = max(map(len, rates))
    return [
        f"{layout['name']}: {layout['vertices']:,} vertices, {layout['edges']:,} edges in {layout['parts']} parts by "
        f"{layout['method']}, weights {layout['weights']}, hottest by {layout['hotness']}",
        f"{by}: {sampled['iterations']} iterations counted, "
        f"{sampled['edges']:,} edges, {sampled['inputs_per_iteration']:,.0f} inputs an iteration, "
        f"{100 * sampled['reached']:.1f} % of the vertices reached",
        "",
        f"{'':<22}{'graph':>9}{'sampled':>10}",
        f"{'edge cut':<22}{graph['edge_cut']:>9,}",
        f"{'local edges':<22}{graph['local_edges']:>9.4f}{sampled['local_edges']:>10.4f}",
        f"{'edge skew':<22}{'':>9}{sampled['edge_skew']:>10.4f}",
        f"{'balance of vertices':<22}{graph['balance_vertices']:>9.3f}{sampled['balance_inputs']:>10.3f}",
        f"{'balance of edges':<22}{graph['balance_edges']:>9.3f}{sampled['balance_edges']:>10.3f}",
        f"{'balance of targets':<22}{graph['balance_train_targets']:>9.3f}{sampled['balance_targets']:>10.3f}",
        *_by_name(graph, sampled),
        "",
        "cache hit rate (%) by the share of all rows that all trainers cache together (%)",
        f"{'order':<{width}}" + "".join(f"{percent:>7}" for percent in percents),
        *(f"{name:<{width}}" + "".join(f"{100 * rate:>7.1f}" for rate in values) for name, values in rates.items()),
    ]


def _by_name(graph: dict[str, Any], sampled: dict[str, Any]) -> list[str]:
    """Return lines about types and relations; none of a graph of one type."""
    if "types" not in sampled:
        return []
    names = [*graph["types"], *graph["relations"]]
    width = max(map(len, names)) + 2
    return [
        "",
        f"{'balance of a type':<{width}}{'graph':>9}{'inputs':>10}{'inputs an iteration':>22}{'reached':>10}",
        *(
            f"{name:<{width}}{of['balance_vertices']:>9.3f}{own['balance_inputs']:>10.3f}"
            f"{own['inputs_per_iteration']:>22,.0f}{100 * own['reached']:>8.1f} %"
            for (name, of), own in zip(graph["types"].items(), sampled["types"].values(), strict=True)
        ),
        "",
        f"{'local edges of a relation':<{width}}{'graph':>9}{'sampled':>10}{'edges':>22}",
        *(
            f"{name:<{width}}{of['local_edges']:>9.4f}{own['local_edges']:>10.4f}{own['edges']:>22,}"
            for (name, of), own in zip(graph["relations"].items(), sampled["relations"].values(), strict=True)
        ),
    ]


def draw(report: dict[str, Any]) -> bytes:
    """The report as a picture, a PNG. Raises ImportError where matplotlib is not installed."""
    from matplotlib.figure import Figure

    layout, sampled = report["layout"], report["sampled"]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    bars, curves = figure.subplots(1, 2)
    parts = range(layout["parts"])
    shares = {
        "vertices": report["graph"]["vertices_per_part"],
        "training targets": report["graph"]["train_targets_per_part"],
        "edges": report["graph"]["edges_per_part"],
        "sampled edges": sampled["edges_per_part"],
    }
    width = 0.8 / len(shares)
    for place, (name, amounts) in enumerate(shares.items()):
        mean = sum(amounts) / len(amounts) or 1
        bars.bar([part + place * width for part in parts], [amount / mean for amount in amounts], width, label=name)
    bars.axhline(1, color="black", linewidth=0.8)
    bars.set_xticks([part + 1.5 * width for part in parts], [str(part) for part in parts])
    bars.set(
        xlabel="part",
        ylabel="share, the mean is 1",
        title=f"edge skew {sampled['edge_skew']:.3f}, local edges {sampled['local_edges']:.3f}",
    )
    bars.legend(fontsize="small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    for name, rates in report["cache"]["hit_rate"].items():
        percents, rates = [0, *report["cache"]["percent"]], [0, *(100 * rate for rate in rates)]
        # This layout's line lies on another one mostly.
        own = {"linestyle": "--", "linewidth": 3} if name == "this layout" else {}
        curves.plot(percents, rates, marker=".", label=name, **own)
    curves.set(
        xlabel="rows cached by all trainers together (%)",
        ylabel="cache hit rate (%)",
        xlim=(0, 100),
        ylim=(0, 101),
        title="by order of heat within the parts",
    )
    curves.grid(alpha=0.3)
    curves.legend(fontsize="small", loc="lower right")
    figure.suptitle(f"{layout['name']}: {layout['parts']} parts by {layout['method']}, weights {layout['weights']}")
    png = io.BytesIO()
    figure.savefig(png, dpi=120, format="png")
    return png.getvalue()
