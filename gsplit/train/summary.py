"""The end of a run: its model is tested and its summary written, which ``gsplit.train`` returns and prints."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gsplit.data.memory.temporary import InFolder, Temporary, temporary_of
from gsplit.engine.evaluation import Evaluator, Stopped
from gsplit.engine.evaluation.links import LinkEvaluator
from gsplit.engine.metrics import key_of
from gsplit.engine.tasks.vertices import VertexTask
from gsplit.errors import InputError
from gsplit.files import replacing
from gsplit.parallel.between_hosts import BESIDE, EVALUATION, OF_MINI_BATCH, SENT, name_of
from gsplit.runs.folder import PREDICTIONS
from gsplit.runs.kept import Weights
from gsplit.runs.log import AHEAD_STAGES, MAIN_STAGES, totals, write_summary
from gsplit.runs.starts import writing
from gsplit.train.epochs import layout_of_work, say_stopped, stop, validate
from gsplit.train.finite import first_parameter
from gsplit.train.saving import write_counts
from gsplit.train.trainer import Trainer
from gsplit.units import binary

logger = logging.getLogger(__name__)


def finish(trainer: Trainer) -> dict[str, Any] | None:
    """Test the weights that are kept, and write the summary; trainer 0 returns it. All trainers make the call.

    None on all of them where the run was asked to stop meanwhile; when it goes on it is tested.
    """
    trainer.profiler.end()
    last = trainer.kept.copied(trainer.model) if trainer.progress.batches_since_checkpoint else None
    try:
        return _finished(trainer)
    except Stopped:
        if last is not None:  # the weights that are tested stand in their place
            trainer.kept.load(trainer.model, last)
            stop(trainer)
        elif trainer.member.rank == 0:
            say_stopped(trainer)
        return None


def _finished(trainer: Trainer) -> dict[str, Any] | None:
    config, epoch = trainer.run.config, trainer.progress.epoch
    _, why = config.validations
    if config.validates and trainer.kept.validated < epoch:  # the run was to end later, then
        validate(trainer, epoch)
    finite_weights = first_parameter(trainer) is None
    kept = trainer.kept.choose(trainer.model, epoch, finite=finite_weights)
    names = trainer.evaluator.names
    if not finite_weights:
        if trainer.member.rank == 0:
            logger.warning("the weights of epoch %d are not finite; those of epoch %d are kept", epoch, kept["epoch"])
    elif trainer.num_evaluated("valid"):
        trainer.kept.say_why_last(kept, why)
    start_s = time.perf_counter()
    tests = config.evaluate != "none" and trainer.num_evaluated("test") > 0
    test = trainer.scores("test") if tests else dict.fromkeys(names)
    test_s = time.perf_counter() - start_s
    if config.save_predictions != "no":
        _save_predictions(trainer)
    if trainer.member.hosts > 1:
        write_counts(trainer)  # of what was sent since the last epoch
    if trainer.member.rank != 0:
        return None
    records, now = trainer.log.epochs, layout_of_work(trainer)
    seconds = [record["seconds"] for record in records]
    summary = {
        **{f"test_{key_of(name)}": test[name] for name in names},
        **_valid_scores(trainer, kept),
        "metrics": [key_of(name) for name in names],
        "best_epoch": None if kept["score"] is None else kept["epoch"],
        "model_epoch": kept["epoch"],
        "model_batch": kept.get("batch"),
        "epochs": epoch,
        "ended_early": epoch < config.epochs,
        "loss": records[-1]["loss"] if records else None,
        "seconds_per_epoch": sum(seconds) / len(seconds) if seconds else None,
        "test_seconds": round(test_s, 4),
        **now,
        "cache_rows": trainer.cache_rows,
        "changed": any(record.get(key, value) != value for record in records for key, value in now.items()),
        "samplers": trainer.run.samplers,
        "stages": totals(records, "stages"),
        "traffic": totals(records, "traffic"),
        **_by_type(records),
        **_between_hosts(trainer),
        **_scaled(trainer),
        **_ranking(trainer),
        "run": str(trainer.run.folder),
    }
    write_summary(trainer.run.folder, summary)
    for callback in trainer.callbacks:
        callback.on_train_end(summary)
    return summary


def _ranking(trainer: Trainer) -> dict[str, Any]:
    """What pairs were compared with, where they were ranked: scores differ by it."""
    if not isinstance(trainer.evaluator, LinkEvaluator) or not trainer.num_evaluated("test"):
        return {}
    return {"ranking": trainer.evaluator.ranking("test")}


def _by_type(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The traffic of each type of vertices, where there are several; not of epochs that were recorded without."""
    of_epochs = [record["traffic_by_type"] for record in records if "traffic_by_type" in record]
    if not of_epochs or len(of_epochs) < len(records):
        return {}
    return {"traffic_by_type": {name: totals(of_epochs, name) for name in of_epochs[0]}}


def _between_hosts(trainer: Trainer) -> dict[str, Any]:
    """Bytes that hosts have sent each other, in training and after it, where there are several."""
    if trainer.member.hosts == 1:
        return {}
    of_all = totals([*trainer.log.epochs, {"traffic": trainer.progress.traffic}], "traffic")
    sent = {purpose: int(of_all.get(name_of(purpose), 0)) for purpose in (*OF_MINI_BATCH, *BESIDE)}
    return {"hosts": trainer.member.hosts, "between_hosts_bytes": sent}


def _scaled(trainer: Trainer) -> dict[str, Any]:
    """The scale of the loss, and how many steps were left out for it, where it is scaled."""
    if trainer.steps.scale is None:
        return {}
    skipped = sum(record.get("skipped_steps", 0) for record in trainer.log.epochs)
    return {"loss_scale": trainer.steps.scale.factor, "skipped_steps": skipped}


def _valid_scores(trainer: Trainer, kept: Weights) -> dict[str, float | None]:
    """The scores of the model that is kept, on trainer 0; checkpoints of earlier releases have the first alone."""
    first, *others = trainer.evaluator.names
    scores = kept.get("scores")
    if scores is None:
        records = (record for record in trainer.log.epochs if record["epoch"] == kept["epoch"])
        of_epoch = next(records, {})
        scores = {name: of_epoch.get(f"valid_{key_of(name)}") for name in others}
    valid = {first: kept["score"], **{name: scores.get(name) for name in others}}
    return {f"valid_{key_of(name)}": value for name, value in valid.items()}


def _save_predictions(trainer: Trainer) -> None:
    assert isinstance(trainer.evaluator, Evaluator)
    assert isinstance(trainer.task, VertexTask)
    with SENT.during(EVALUATION):
        logits = trainer.evaluator.all_logits(trainer.model)
    if logits is None:
        return
    wants_logits = trainer.run.config.save_predictions == "logits"
    values = logits if wants_logits else trainer.task.objective.predict(torch.from_numpy(logits)).numpy()
    if bad := int((~np.isfinite(logits).all(axis=1)).sum()):
        logger.warning("%s of %d vertices have logits that are not finite", f"{PREDICTIONS}: {bad}", len(logits))
    run = trainer.run.folder
    with writing(run), replacing(run / PREDICTIONS) as temporary, temporary.open("wb") as file:
        np.save(file, values, allow_pickle=False)  # given a name, it would add a suffix to it


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
            *_of_hosts(summary),
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


def _of_hosts(summary: dict[str, Any]) -> list[str]:
    """A line on what hosts have sent each other, where there are several."""
    if "between_hosts_bytes" not in summary:
        return []
    sent = ", ".join(f"{binary(value)} for {purpose}" for purpose, value in summary["between_hosts_bytes"].items())
    return [f"hosts  {summary['hosts']}, which have sent each other {sent}"]


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
    return f"{count} sampler{'s' * (count != 1)}" if count else "no samplers: trainers sampled for themselves"
