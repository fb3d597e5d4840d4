"""One trainer: its parts, put together; what happens at the ends of epochs and of the run."""

from __future__ import annotations

import logging
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gsplit.config.train import RESULTS_DEPEND_ON, TrainConfig
from gsplit.data import open_layout
from gsplit.data.store import describe
from gsplit.engine.evaluation import Evaluator
from gsplit.engine.feed import Feed, FromSlots, SampledHere, Source
from gsplit.engine.loading import Loading, Shared
from gsplit.engine.objective import task_of
from gsplit.engine.strategy import Strategy
from gsplit.errors import InputError
from gsplit.features import EdgeLoader, FeatureLoader
from gsplit.files import replacing
from gsplit.models import custom
from gsplit.models import registry as models
from gsplit.parallel import DATA, SPLIT, Member, with_board
from gsplit.parallel.collectives import broadcast
from gsplit.runs import checkpoint
from gsplit.runs.kept import Kept
from gsplit.runs.metrics import RunLog, StageClock, finite, say, totals, write_summary
from gsplit.sampling import MicroBatches
from gsplit.sampling.plan import fold_key
from gsplit.supply.order import Follower, Leader, Order, OwnOrder
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.tickets import tickets
from gsplit.train.account import close_account
from gsplit.train.profiling import Profiler
from gsplit.train.progress import Progress

INITIAL_WEIGHTS = 0x494E4954

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a trainer process is told: everything is decided and checked before it starts."""

    config: TrainConfig
    layout: Path
    run: Path
    strategy: Strategy
    device_type: str
    threads: int
    samplers: int
    port: int
    signature: dict[str, Any]
    pickled_model: bytes | None
    """A model that was handed over, or None to build the one the signature names. Bytes, because a module sent
    to another process would arrive in shared memory, and every trainer would train the same weights."""
    shared: Shared
    resume: bool
    unused: tuple[str, ...] = ()
    """Fields of ``config`` that the model takes nothing of."""

    @property
    def world(self) -> int:
        """Trainers."""
        return self.strategy.grid.world


class Trainer:
    """The parts that the loop uses.

    Args:
        member: this trainer's rank.
        job: what all trainers are told.
        end: this trainer's end of the supply of mini-batches; without one it samples all of them for itself.
    """

    def __init__(self, member: Member, job: Job, end: TrainerEnd | None = None) -> None:
        config = job.config
        member = with_board(member.on(job.strategy.grid), job.shared.board)
        self.member, self.job, self.config = member, job, config
        self.layout = open_layout(job.layout, trusted=True)
        graph = self.layout.graph
        dtype = getattr(torch, config.dtype)
        self.task = task_of(graph.multi_label)
        self.model = self._build_model().to(member.device, dtype)
        for tensor in self.model.state_dict().values():
            broadcast(tensor, member.group)
        self.edges = EdgeLoader(graph, device=member.device, dtype=dtype, **models.needs(self.model))
        self.num_batches = -(-len(graph.train_idx) // config.batch_size)
        """Of an epoch."""
        self.loading = Loading(config, job.strategy, self.layout, member, job.shared, job.threads, self.model)
        self.evaluator = Evaluator(
            self.layout,
            member,
            self.loading.loader(dtype),
            self.edges,
            self.task,
            job.shared.levels,
            num_layers=config.layers,
            dtype=dtype,
            threads=job.threads,
        )
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=config.lr, weight_decay=config.weight_decay)
        self.clock = StageClock(member.device)
        self.profiler = Profiler(job.run, member, on=config.profile)
        self.progress = Progress()
        self.log = RunLog(job.run)
        about = {
            "signature": job.signature,
            "graph": {"store_checksum": self.layout.store_checksum, **describe(graph)},
        }
        self.kept = Kept(job.run, about, writes=member.rank == 0)
        if job.resume:
            self._load_checkpoint()
        self.feed = self._feed(self.loading.loader(dtype), end)

    def _feed(self, loader: FeatureLoader, end: TrainerEnd | None) -> Feed:
        config, member = self.config, self.member
        left = tickets(self.num_batches, config.epochs, self.progress.position())
        order: Order = OwnOrder(left)
        if end is not None:
            order = (
                Leader(left, end.heard, end.followers, by=config.order, sampled=bool(end.slots))
                if member.rank == 0
                else Follower(end.heard)
            )
        source: Source
        if end is not None and end.slots:
            source = FromSlots(end, member.rank, member.device)
        else:
            micro_batches = MicroBatches(
                self.layout,
                micro_batches=self.job.strategy.grid.size(DATA),
                splits=self.job.strategy.grid.size(SPLIT),
                fixed_shares=self.job.strategy.fixed_shares,
                fan_out=config.fan_out,
                batch_size=config.batch_size,
                seed=config.seed,
                edge_ids=self.edges.weights,
            )
            source = SampledHere(micro_batches, member, end)
        return Feed(
            order, source, member, self.layout, loader, self.edges, prefetch=config.prefetch, threads=self.job.threads
        )

    def _build_model(self) -> nn.Module:
        torch.manual_seed(fold_key(self.config.seed, INITIAL_WEIGHTS) >> 1)
        if self.job.pickled_model is not None:
            model = pickle.loads(self.job.pickled_model)
        else:
            model = models.build(self.job.signature, self.config)
        return custom.prepare(model).train()

    def end_epoch(self) -> None:
        """Validate, keep the best model, log, checkpoint; then the next epoch begins."""
        progress, config = self.progress, self.config
        epoch = progress.epoch + 1
        due = config.validate_every and (epoch % config.validate_every == 0 or epoch == config.epochs)
        score = self._validate(epoch) if due else None
        self.account()
        record = {
            "kind": "epoch",
            "epoch": epoch,
            **self._settings(),
            "settings": {
                name: None if name in self.job.unused else getattr(config, name) for name in RESULTS_DEPEND_ON
            },
            "loss": finite(progress.mean_loss()),
            f"valid_{self.task.name}": score,
            "seconds": round(progress.seconds, 4),
            "stages": {name: round(s / self.member.world, 4) for name, s in progress.stages.items()},
            "traffic": progress.traffic,
        }
        if self.member.rank == 0:
            self.log.append([record])
            say(_line(record))
            if record["loss"] is None:
                logger.warning("the loss is not finite any more; try a lower --lr")
        progress.next_epoch()
        if config.checkpoint_every and progress.epoch % config.checkpoint_every == 0:
            self.save_checkpoint()

    def _validate(self, epoch: int) -> float | None:
        """The score of the weights as they are, which are kept where it is the best; None without vertices."""
        valid_idx = self.layout.graph.valid_idx
        if not len(valid_idx):
            return None
        score = self.evaluator.score(self.model, valid_idx)
        self.kept.judge(self.model, epoch, score)
        return score

    def finish(self) -> dict[str, Any] | None:
        """Test the weights that are kept, and write the summary."""
        self.profiler.end()
        epoch = self.progress.epoch
        if self.config.validate_every and self.kept.validated < epoch:  # the run was to end later, then
            self._validate(epoch)
        kept = self.kept.choose(self.model, epoch)
        if len(self.layout.graph.valid_idx):
            self.kept.say_why_last(kept, self.config.validate_every)
        graph, name = self.layout.graph, self.task.name
        start_s = time.perf_counter()
        test = self.evaluator.score(self.model, graph.test_idx) if len(graph.test_idx) else None
        test_s = time.perf_counter() - start_s
        if self.config.save_predictions != "no":
            self._save_predictions()
        if self.member.rank != 0:
            return None
        records = self.log.epochs
        seconds = [record["seconds"] for record in records]
        summary = {
            f"test_{name}": test,
            f"valid_{name}": kept["score"],
            "best_epoch": None if kept["score"] is None else kept["epoch"],
            "model_epoch": kept["epoch"],
            "epochs": self.progress.epoch,
            "loss": records[-1]["loss"] if records else None,
            "seconds_per_epoch": sum(seconds) / len(seconds) if seconds else None,
            "test_seconds": round(test_s, 4),
            **self._settings(),
            "cache_rows": self.loading.cache_rows,
            "changed": any(
                record.get(key, now) != now for record in records for key, now in self._settings().items()
            ),
            "samplers": self.job.samplers,
            "stages": totals(records, "stages"),
            "traffic": totals(records, "traffic"),
            "run": str(self.job.run),
        }
        write_summary(self.job.run, summary)
        return summary

    def _settings(self) -> dict[str, Any]:
        """What decides how much is loaded and computed; a run that was resumed may have changed it."""
        strategy = self.job.strategy
        return {
            "trainers": self.member.world,
            "strategy": "split" if strategy.grid.size(DATA) == 1 else self.config.strategy,
            "split_group": strategy.grid.size(SPLIT),
            "cache": strategy.cache,
            "rows_cached": sum(self.loading.cache_rows),
        }

    def close(self) -> None:
        """The last thing a trainer does."""
        self.loading.close()

    def stop(self) -> None:
        """The run was asked to end here."""
        self.profiler.end()
        self.save_checkpoint()
        if self.member.rank == 0:
            at = f"mini-batch {self.progress.batch} of epoch {self.progress.epoch + 1}"
            say(f"stopped after {at}; go on with --resume {self.job.run}")

    def save_checkpoint(self) -> None:
        """Trainer 0 writes: all hold the same weights and the same optimizer state."""
        self.progress.batches_since_checkpoint = 0
        self.account()
        if self.member.rank != 0:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "progress": self.progress.state(),
            **self.kept.state(),
            "log": self.log.state(),
        }
        about = {
            "epoch": self.progress.epoch,
            "batch": self.progress.batch,
            "ahead": self.progress.position().ahead,
            "trainers": self.member.world,
            "threads": self.job.threads,
            "store_checksum": self.layout.store_checksum,
            "layout_checksum": self.layout.checksum,
            "signature": self.job.signature,
        }
        try:
            checkpoint.save_state(self.job.run, checkpoint.CHECKPOINT, state, about)
        except InputError as error:
            raise InputError(f"{error}; {checkpoint.whole(self.job.run)}") from None

    def _load_checkpoint(self) -> None:
        state = checkpoint.load_state(self.job.run, checkpoint.CHECKPOINT)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress.from_state(state["progress"], self.member.device)
        self.kept.restore(state, state["log"]["epochs"], f"valid_{self.task.name}")
        for group in self.optimizer.param_groups:  # the checkpoint's were restored; flags may say otherwise
            group["lr"], group["weight_decay"] = self.config.lr, self.config.weight_decay
        self.log = RunLog(self.job.run, state["log"])
        if self.member.rank == 0:
            self.log.mend(state["log"])

    def _save_predictions(self) -> None:
        logits = self.evaluator.all_logits(self.model)
        if logits is None:
            return
        classes = self.config.save_predictions == "classes"
        values = self.task.predict(torch.from_numpy(logits)).numpy() if classes else logits
        with replacing(self.job.run / "predictions.npy") as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # given a name, it would add a suffix to it

    def account(self) -> None:
        """Sum up and write down what was computed since the last time."""
        records = close_account(self.progress, self.member, self.config.layers)
        if self.member.rank == 0:
            self.log.append(records)


def _line(record: dict[str, Any]) -> str:
    seconds = record["seconds"]
    loss = "nan" if record["loss"] is None else f"{record['loss']:.4f}"
    score = record.get("valid_accuracy", record.get("valid_f1"))
    valid = "" if score is None else f" | valid {score:.4f}"
    rate = record["traffic"]["sampled_edges"] / max(seconds, 1e-9) / 1e6
    return f"Epoch {record['epoch']:02d} | loss {loss}{valid} | {seconds:.2f} s | {rate:.2f} M edges/s"
