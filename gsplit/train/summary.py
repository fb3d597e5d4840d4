"""The summary of a run: what ``gsplit.train`` returns, and its words: how good, where the time and the bytes went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsplit.data.memory.temporary import InFolder, Temporary, temporary_of
from gsplit.errors import InputError
from gsplit.runs.log import AHEAD_STAGES, MAIN_STAGES
from gsplit.units import binary


class Trained(dict[str, Any], InFolder):
    """The summary of a run, which stands for the run's folder where one is taken, as by ``gsplit.predict``.

    Where the run, or the layout that it trained on, lies in a temporary folder, that stays as long as this does.
    """

    def __init__(self, summary: dict[str, Any], run: Path | None, layout: Path | None) -> None:
        super().__init__(summary)
        self.path = Path() if run is None else run
        """Folder of the run; without a meaning where nothing was trained."""
        self._trained = run is not None
        self.temporary: Temporary | None = None if run is None else temporary_of(run)
        self.layout = layout
        """Folder of the layout that it trained on."""
        self._of_layout = None if layout is None else temporary_of(layout)

    def __fspath__(self) -> str:
        """The folder of the run.

        Raises:
            InputError: where nothing was trained, or this was closed and the folder is gone.
        """
        if not self._trained:
            raise InputError(f"nothing was trained: {next(iter(self), 'no summary')} is all there is")
        return super().__fspath__()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def summary_text(summary: dict[str, Any]) -> str:
    """The lines that a user reads when a run has ended."""
    names = summary.get("metrics", ("accuracy", "f1"))  # summaries of earlier releases lack them
    scores = [
        f"{key.replace('_', ' ')} {summary[key]:.4f}"
        for key in (f"{part}_{name}" for part in ("test", "valid") for name in names)
        if summary.get(key) is not None
    ]
    batch = f", mini-batch {summary['model_batch']}" if summary.get("model_batch") else ""
    best = "" if summary["best_epoch"] is None else f" (best epoch {summary['best_epoch']}{batch})"
    lines = [f"{', '.join(scores) or 'nothing evaluated'}{best}"]
    if summary["seconds_per_epoch"] is not None:
        stages, traffic = summary["stages"], summary["traffic"]
        own = {name: stages[name] for name in MAIN_STAGES}
        all_s = sum(own.values()) or 1.0
        shares = ", ".join(f"{name} {100 * s / all_s:.0f} %" for name, s in own.items())
        ahead = ", ".join(f"{name} {stages[name] / max(1, summary['epochs']):.2f} s" for name in AHEAD_STAGES)
        exchanged = traffic["exchange_forward_bytes"] + traffic["exchange_backward_bytes"]
        messages = traffic["exchange_forward_messages"] + traffic["exchange_backward_messages"]
        on = f"on {summary['trainers']} trainers{' at last' if summary['changed'] else ''}"
        whole = summary["strategy"] == "full" and not summary["changed"]
        edges = traffic["computed_edges" if whole else "sampled_edges"]
        # Where some epochs were of the whole graph, edges were computed that nobody had sampled.
        of_sums = 0 if whole or summary["changed"] else traffic["computed_edges"] - traffic["sampled_edges"]
        redundant = summary["trainers"] > summary["split_group"] or summary["changed"]
        lines += [
            f"time   {summary['seconds_per_epoch']:.2f} s an epoch {on}: {shares}",
            f"before {ahead} an epoch ({_samplers(summary)})",
            *_cache(summary),
            f"bytes  {binary(traffic['host_to_device_bytes'])} of features loaded "
            f"({traffic['host_rows']:,} rows{'' if redundant else ', each by one trainer'}), {_from_peers(traffic)}"
            f"{binary(exchanged)} exchanged in {messages:,} messages, "
            f"{binary(traffic['all_reduce_bytes'])} of gradients reduced",
            f"edges  {edges:,} {'' if whole else 'sampled and '}computed, "
            + (_micro(summary) if redundant else "none twice")
            + (f"; {of_sums:,} more from sums" if of_sums else ""),
        ]
    lines.append(f"run    {summary['run']}")
    return "\n".join(lines)


def _cache(summary: dict[str, Any]) -> list[str]:
    """A line on what caches spared, where there are any."""
    if summary["cache"] == "none":
        return []
    rows, traffic = summary["cache_rows"], summary["traffic"]
    hits, needed = traffic["cache_hits"], traffic["level_0_vertices"]
    return [
        f"cache  {hits:,} of the {needed:,} rows needed ({100 * hits / max(1, needed):.0f} %); {summary['cache']}, "
        f"{sum(rows):,} rows on {len(rows)} trainers{' at last' if summary['changed'] else ''}"
    ]


def _from_peers(traffic: dict[str, Any]) -> str:
    num_bytes = traffic["device_to_device_bytes"]
    return f"{binary(num_bytes)} read from other trainers' caches, " if num_bytes else ""


def _micro(summary: dict[str, Any]) -> str:
    if summary["changed"]:
        return "in different ways since the run was resumed (metrics.jsonl has each epoch)"
    return f"in micro-batches of {summary['split_group']} trainer{'s' * (summary['split_group'] != 1)} each"


def _samplers(summary: dict[str, Any]) -> str:
    if summary["strategy"] == "full" and not summary["changed"]:
        return "the whole graph, made once"
    count = summary["samplers"]
    return f"{count} sampler{'s' * (count != 1)}" if count else "no samplers: every trainer sampled all"
