"""One trainer: its parts, put together. What happens at the ends of epochs is in :mod:`gsplit.train.epochs`."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn

from gsplit.callbacks import Callback
from gsplit.config.links import DEFAULT_LINK_METRIC
from gsplit.config.optimisation import ERRORS
from gsplit.data.store import describe
from gsplit.device import accelerator
from gsplit.engine.components import Components
from gsplit.engine.dry.room_for_step import check_room
from gsplit.engine.engines import engine_of
from gsplit.engine.evaluation import Evaluator, validated
from gsplit.engine.evaluation.links import LinkEvaluator
from gsplit.engine.feed import Feed
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.rows.loading import Loading
from gsplit.engine.rows.shared import Shared
from gsplit.engine.rows.trained import TrainedFeatures
from gsplit.engine.run import Run
from gsplit.engine.tasks.links import open_for
from gsplit.engine.tasks.named import task_of
from gsplit.engine.tasks.vertices import VertexTask
from gsplit.engine.typed.trained import TypedTrainedRows
from gsplit.features import EdgeLoader
from gsplit.models.initial import load_initial
from gsplit.models.registry import DECODER, decoder_in
from gsplit.models.typed import trained_types
from gsplit.nn import GAT, GCN, SAGE
from gsplit.optim import Steps, optimizer_of
from gsplit.parallel import EarlySums, Member, with_checker, with_mail
from gsplit.parallel.between_hosts import EVALUATION, SENT
from gsplit.parallel.collectives import broadcast
from gsplit.parallel.host_memory import by_first
from gsplit.runs.kept import KeptWeights
from gsplit.runs.log import RunLog
from gsplit.sampling.plan import fold_key
from gsplit.supply.pipes import TrainerEnd
from gsplit.train.profiling import Profiler
from gsplit.train.progress import Progress, StageClock

INITIAL_WEIGHTS = 0x494E4954


class Trainer(Components):
    """One trainer of a run; all trainers make one, together.

    Args:
        member: this trainer's place among all.
        run: what was decided for all trainers.
        shared: memory that all trainers map.
    """

    feed: Iterator[MiniBatch]
    """The mini-batches that are left, after :meth:`begin`."""

    def __init__(self, member: Member, run: Run, shared: Shared) -> None:
        self.run, self.shared = run, shared
        self._engine = engine = engine_of(run.config)
        self.member = member = with_mail(with_checker(member.on(engine.grid(run)), shared.checker), shared.sums)
        layout = open_for(run.config)
        check_room(run, layout, member)
        self.trained = None
        typed = layout.graph.schema.is_typed
        if typed and (types := trained_types(run.config, layout.graph)):
            self.trained = TypedTrainedRows(run, layout, types, member, shared.features, shared.levels[0])
        elif run.config.train_features is not None and not typed:
            trained_features = TrainedFeatures(run, layout, member, shared.features, shared.levels[0])
            self.trained, layout = trained_features, trained_features.layout
        self.layout = layout
        self.model = _same_model(run, member, layout.graph.num_classes)
        self.loading = None
        if not typed:
            self.edges = EdgeLoader(
                layout.graph, device=member.device, dtype=run.dtype, estimate=run.config.estimate, **run.needs
            )
            self.loading = Loading(run, layout, member, shared)
        self.task = task_of(run, layout.graph, member.device)
        self.measures_training = run.config.metrics is not None and isinstance(self.task, VertexTask)
        """Whether outputs of training are measured at the end of an epoch."""
        self.evaluator = self._evaluator()
        self._vertices = {
            "valid": validated(layout, run.config.validate_vertices, run.config.seed),
            "test": layout.graph.test_idx,
        }
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = optimizer_of(run.config, self.parameters)
        self.loop_name: str | None = None
        """Name of the loop of the user's that trains; None for the engine's own."""
        self.callbacks: Sequence[Callback] = ()
        """Callbacks that are notified of the run; trainer 0 has them."""
        self.clock = StageClock(member.device)
        self.profiler = Profiler(run.folder, member, on=run.config.profile)
        self.progress = Progress()
        self.log = RunLog(run.folder)
        graph = {"store_checksum": layout.store_checksum, **describe(layout.graph)}
        about = {"signature": run.signature, "graph": graph}
        lower_is_better = self.evaluator.names[0] in ERRORS
        self.kept = KeptWeights(
            run.folder,
            about,
            writes=member.rank == 0,
            trained=self.trained,
            lower_is_better=lower_is_better,
            read=partial(by_first, member),
        )
        self.num_batches = self._engine.num_batches(run, layout)
        """Number of mini-batches of an epoch."""
        trained = self.trained
        self.steps = Steps(
            run.config,
            [self.optimizer, *([] if trained is None else [trained.optimizer])],
            self.parameters,
            None if trained is None else trained.own,
            member,
            self.num_batches,
            lower_is_better=lower_is_better,
            scales_loss=run.precision.scales_loss,
            early=_early_sums(self.model, member),
        )

    @property
    def cache_rows(self) -> list[int]:
        """Number of cached rows of every trainer."""
        return [0] * self.member.world if self.loading is None else self.loading.cache_rows

    def num_evaluated(self, part: str) -> int:
        """Number of vertices, or pairs, of ``valid`` or ``test``."""
        if isinstance(self.evaluator, LinkEvaluator):
            links = self.layout.graph.links
            return 0 if links is None else len(links.valid if part == "valid" else links.test)
        return len(self._vertices[part])

    def scores(self, part: str) -> dict[str, float | None]:
        """The metrics of the model as it is on ``valid`` or ``test``, by name; all trainers make the call.

        Raises:
            Stopped: where the run was asked to stop meanwhile.
        """
        with SENT.during(EVALUATION):
            if isinstance(self.evaluator, LinkEvaluator):
                decoder = decoder_in(self.model)
                assert decoder is not None
                return self.evaluator.scores(self.model, decoder, part)
            return self.evaluator.scores(self.model, self._vertices[part])

    def _evaluator(self) -> Evaluator | LinkEvaluator:
        run, config = self.run, self.run.config
        common: dict[str, Any] = {
            "num_layers": config.layers,
            "precision": run.precision,
            "threads": config.threads,
            "fan_outs": config.evaluation_fan_out,
            "fan_out_of": run.fan_out_of if config.validate_fan_out is None else (),
            "seed": config.seed,
            "stops": self.shared.asked_to_stop,
            "publish": None if self.trained is None else self.trained.publish,
        }
        where = self.layout, self.member
        if isinstance(self.task, VertexTask):
            loader = self.typed_loader() if self.layout.graph.schema.is_typed else self.split_loader()
            metrics = config.metric_names
            return Evaluator(*where, loader, self.task.objective, self.shared.levels, metrics=metrics, **common)
        return LinkEvaluator(
            *where,
            self.split_loader(),
            self.shared.levels,
            width=self.task.width,
            metrics=config.metric_names or (DEFAULT_LINK_METRIC,),
            candidates=config.evaluate_negatives,
            pairs=config.validate_vertices,
            **common,
        )

    def begin(self, end: TrainerEnd | None = None) -> None:
        """Have mini-batches loaded from where the progress stands.

        Args:
            end: this trainer's end of the supply of mini-batches; without one it samples all of them for itself.
        """
        SENT.begin(self.member.world, self.member.hosts)
        self.feed = self._engine.feed(self, self.progress.position(), end)

    def begin_callbacks(self, pickled: bytes | None) -> None:
        """Notify callbacks that training begins, if this is trainer 0."""
        if pickled is not None and self.member.rank == 0:
            self.callbacks = pickle.loads(pickled)
        config = json.loads(self.run.config.to_json(self.run.unused))
        for callback in self.callbacks:
            callback.on_train_begin(self.run.folder, config)

    def close(self) -> None:
        """The last thing a trainer does."""
        if isinstance(self.feed, Feed):
            self.feed.drain()
        self.feed = iter(())  # or this trainer and its feed would hold each other
        if self.loading is not None:
            self.loading.close()


def _same_model(run: Run, member: Member, num_classes: int) -> nn.Module:
    """The model on this trainer's device; all trainers begin with the weights of trainer 0."""
    accelerator.seed(member.device, fold_key(run.config.seed, INITIAL_WEIGHTS) >> 1)
    model = run.new_model().train().to(member.device, run.dtype)
    if run.config.init_from is not None and not run.resumes:
        load_initial(model, run.config.init_from, num_classes, run.signature)
    for tensor in model.state_dict().values():
        broadcast(tensor, member.group)
    return model


def _early_sums(model: nn.Module, member: Member) -> EarlySums | None:
    """What sums gradients while backward goes on; None on the CPU, and for models of users, which may do anything.

    On the CPU they are summed in memory that all trainers map, by the cores that would compute meanwhile.
    """
    if member.world == 1 or member.mail is not None or type(model) not in (SAGE, GCN, GAT):
        return None
    layers: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        of_layer = None if name.startswith(DECODER) else re.search(r"\.(\d+)\.", name)  # convs.0.lin.weight
        if parameter.requires_grad and of_layer:
            layers.setdefault(of_layer[1], []).append(parameter)
    return EarlySums(list(layers.values()), member)
