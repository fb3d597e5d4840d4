"""What every mini-batch took on every trainer, told to trainer 0, which writes it down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from gsplit.parallel import Member
from gsplit.runs.log import STAGES, finite, traffic_names
from gsplit.train.progress import Computed, Progress

if TYPE_CHECKING:
    from gsplit.train.trainer import Trainer


def write_counts(trainer: Trainer) -> None:
    """Sum up and write down what was computed since the last time; all trainers make the call."""
    records = gather_counts(trainer.progress, trainer.member, trainer.run.config.layers)
    if trainer.member.rank == 0:
        trainer.log.append(records)


def gather_counts(progress: Progress, member: Member, layers: int) -> list[dict[str, Any]]:
    """Add what is fresh to the sums of the epoch; all trainers make the call, after the same mini-batches.

    Returns:
        On every trainer the records of all, one for each mini-batch and trainer (docs/formats.md, "Run").
    """
    names = traffic_names(layers)
    fresh, progress.fresh = progress.fresh, []
    if member.device.type == "cuda":
        torch.cuda.synchronize()  # the events of the stages are over
    own = torch.zeros(len(fresh), len(names) + len(STAGES), dtype=torch.float64)  # exact for counts below 2**53
    for row, computed in zip(own, fresh, strict=True):
        seconds = computed.seconds()
        values = [*(computed.counts[name] for name in names), *(seconds[name] for name in STAGES)]
        row[:] = torch.tensor(values, dtype=torch.float64)
    tables = [torch.empty_like(own) for _ in range(member.world)]
    dist.all_gather(tables, own, group=member.group)
    totals = torch.stack(tables).sum(dim=(0, 1)).tolist()
    for name, count in zip(names, totals, strict=False):
        progress.traffic[name] = progress.traffic.get(name, 0) + int(count)
    for name, seconds_ in zip(STAGES, totals[len(names) :], strict=True):
        progress.stages[name] += seconds_
    losses = torch.stack([computed.loss for computed in fresh]).tolist() if fresh else []
    return [
        _record(progress.epoch, computed, loss, rank, names, table[i].tolist())
        for i, (computed, loss) in enumerate(zip(fresh, losses, strict=True))
        for rank, table in enumerate(tables)
    ]


def _record(
    epoch: int, computed: Computed, loss: float, rank: int, names: tuple[str, ...], values: list[float]
) -> dict[str, Any]:
    counts, seconds = values[: len(names)], values[len(names) :]
    return {
        "kind": "mini-batch",
        "epoch": epoch + 1,
        "batch": computed.batch,
        "trainer": rank,
        "targets": computed.num_targets,
        "loss": finite(loss),
        "stages": {name: round(s, 6) for name, s in zip(STAGES, seconds, strict=True)},
        "traffic": {name: int(count) for name, count in zip(names, counts, strict=True)},
    }
