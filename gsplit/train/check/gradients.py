"""``--check-model``: does a model compute with two trainers what it computes with one?

Some mini-batches (:mod:`gsplit.train.check.cases`), in float64 and with dropout off: the gradients of two trainers
that split them, beside those of one that has them whole (law 2). A model whose layers look further than their
in-edges, their sources and their own row gives other gradients, whatever its layers are called. One that makes an
exchange on one trainer only is found out as in training (:mod:`gsplit.parallel.checker`).
"""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gsplit.config.resolved import Resolved
from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.dropout_off import DropoutOff
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objectives.own_loss import OwnLoss
from gsplit.engine.objectives.pairs import OwnPairLoss
from gsplit.engine.run import Run
from gsplit.engine.sampled.rules import rule_of_run
from gsplit.engine.tasks.links import open_for
from gsplit.errors import InputError
from gsplit.host import SharedBuffer
from gsplit.models import prepared, registry
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.nn.decoders import Dot
from gsplit.parallel import Member, reduce_gradients, rendezvous, sum_over_trainers, trainer_grid, with_checker
from gsplit.parallel.join import joined
from gsplit.processes import start
from gsplit.sampling.links import Links
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket
from gsplit.train.check.cases import Case, Draws, chosen_cases
from gsplit.train.check.trials import Trial, trials_of

TRAINERS = 2
DOUBLE = Precision.named("64")
NEIGHBOURS = 10
"""Neighbours per hop where a run has another rule."""
TOLERANCE = 1e-8
"""Bound on the difference, relative to the gradient; where models can be split, 1e-14 is seen."""
NEGLIGIBLE = 1e-3
"""A gradient smaller than this share of the largest one is measured by the largest: it may be rounding alone."""
TINY = 1e-300
"""Less than any gradient: where all of them are 0, a difference of 0 is no difference."""


@dataclass(frozen=True, kw_only=True)
class CheckSpec:
    """The task of the two processes."""

    layout: Path
    fan_out: tuple[int, ...]
    batch_size: int
    seed: int
    partial_sums: bool
    normalize_features: bool
    port: int
    pickled_model: bytes
    name: str
    own_loss: OwnLoss | OwnPairLoss | None = None
    links: Resolved | None = None
    """The configuration of a run on links, whose model has a decoder."""
    checker: SharedBuffer


def check_model(run: Run) -> str:
    """Compare two trainers with one, on the CPU; with a decoder or a loss of the user's once more, with that.

    Returns:
        A line that says how well they agree.

    Raises:
        InputError: where they do not, or do different things: the model, the decoder or the loss cannot be split.
            Also where no row can cross from one trainer to the other, so that nothing would be shown.
    """
    model = registry.build(run.signature) if run.pickled_model is None else pickle.loads(run.pickled_model)
    name = type(model).__name__
    model = registry.with_decoder(model, run.signature)
    checker = SharedBuffer("gsplit-checker")
    try:
        with rendezvous(TRAINERS) as port:
            spec = CheckSpec(
                layout=run.layout,
                fan_out=_checked_fan_out(run.config),
                batch_size=run.config.batch_size,
                seed=run.config.seed,
                partial_sums=run.partial_sums,
                normalize_features=run.config.normalize_features,
                port=port,
                pickled_model=prepared.pickled(model),
                name=name,
                own_loss=run.own_loss,
                links=run.config if run.config.task == "links" else None,
                checker=checker,
            )
            line: str = start(_run, TRAINERS, spec).join()[0]
            if run.config.sampling != "neighbours":
                line += (
                    f"; its mini-batches were {NEIGHBOURS} neighbours a hop, not of --sampling {run.config.sampling}"
                )
            return line
    finally:
        checker.close()


def _checked_fan_out(config: TrainConfig) -> tuple[int, ...]:
    """The neighbours that are drawn: of the run; some where its rule draws no neighbours."""
    return config.fan_out if config.sampling == "neighbours" else (NEIGHBOURS,) * config.layers


def _run(rank: int, spec: CheckSpec) -> str | None:
    """The life of one of the two processes."""
    with joined(rank, TRAINERS, spec.port, "cpu", threads=1) as member:
        return compare(member, spec)


def compare(member: Member, spec: CheckSpec) -> str | None:
    """Each mini-batch split, by both trainers together, and then whole, by trainer 0 alone; both make the call.

    Returns:
        On trainer 0 a line that says how well they agree.
    """
    layout = open_layout(spec.layout, trusted=True) if spec.links is None else open_for(spec.links)
    rule = None if spec.links is None else rule_of_run(spec.links)
    draws = Draws(
        layout=layout,
        fan_out=spec.fan_out,
        batch_size=spec.batch_size,
        seed=spec.seed,
        partial_sums=spec.partial_sums,
        links=rule if isinstance(rule, Links) else None,
    )
    member = with_checker(member.on(trainer_grid(TRAINERS)), spec.checker)
    alone = Member(rank=0, world=1, device=member.device)
    cases = chosen_cases(draws, spec.name)
    worst, exchanged_bytes = 0.0, 0.0
    trials = trials_of(spec.name, spec.own_loss, spec.links, layout, member.device)
    with DropoutOff():
        for trial, case in itertools.product(trials, cases):
            together, sent_bytes = _gradients(spec, draws, case, member, trial)
            exchanged_bytes += sum_over_trainers([sent_bytes], member)[0]
            if member.rank == 0:
                whole = _gradients(spec, draws, case, alone, trial)[0]
                worst = max(worst, _difference(spec, case, together, whole, trial))
    if member.rank != 0:
        return None
    rows = sum(case.rows for case in cases)
    crossed = f"{rows:,} rows that crossed" if exchanged_bytes else "no exchange: it looks at no other vertex"
    return (
        f"{spec.name} can be split: the gradients of two trainers and of one differ by {worst:.0e} at most, on "
        f"{len(cases)} mini-batches with {crossed}, in float64 and without dropout"
        + "".join(trial.passed for trial in trials)
    )


def _difference(
    spec: CheckSpec, case: Case, together: dict[str, Tensor], alone: dict[str, Tensor], trial: Trial
) -> float:
    """The largest of all parameters, relative to their gradients.

    Raises:
        InputError: where it is more than rounding, in the words of the trial.
    """
    largest = max(_size(gradient) for gradient in alone.values())
    if largest == 0 and case.ordinary:
        raise InputError(
            f"the model {spec.name} has no gradient at all: its output does not depend on its parameters"
        )
    errors = {
        key: _size(together[key] - alone[key]) / max(alone[key].norm().item(), NEGLIGIBLE * largest, TINY)
        for key in alone
    }
    worst, error = max(errors.items(), key=lambda pair: pair[1])
    if not error <= TOLERANCE:
        line = f"the gradient of {worst} differs by {100 * error:.2g} % between two trainers and one"
        raise InputError(trial.complaint(line, case.name))
    return error


def _size(gradient: Tensor) -> float:
    """The norm; infinite where any value is not a number, so that max() sees it."""
    norm = gradient.norm().item()
    return math.inf if math.isnan(norm) else norm


def _gradients(
    spec: CheckSpec, draws: Draws, case: Case, member: Member, trial: Trial
) -> tuple[dict[str, Tensor], int]:
    """Gradient of every parameter on one mini-batch, and the bytes that layers sent for it."""
    layout = draws.layout
    user_model: nn.Module = pickle.loads(spec.pickled_model)
    if trial.by_dot:
        setattr(user_model, registry.DECODER, Dot())
    model, needs = prepared.prepare(user_model.double())
    model.train()
    loader = SplitLoader.from_host(
        layout, needs, device=member.device, dtype=torch.float64, normalize=spec.normalize_features
    )
    cut = [case.cut] if member.world > 1 else []
    segment = draws.sample(case.targets, case.batch, cut, edge_ids=loader.edges.weights).segment(member.rank)
    counters = ExchangeCounters()
    comm = BatchComm(member.group, counters, member.device, checker=member.checker)
    handle = Handle(ticket=Ticket(number=0, epoch=0, batch=case.batch))
    mini_batch = loader.mini_batch(segment, comm, handle=handle, x=loader.features.load(segment.vertices))
    try:
        loss = trial.task.forward(model, mini_batch, precision=DOUBLE).loss
    except InputError:
        raise
    except Exception as error:
        if case.ordinary:
            raise
        # It could compute the ordinary one before, so this is its mistake.
        line = " ".join(str(error).split())
        raise InputError(
            f"{trial.suspect} fails on {case.name}: {type(error).__name__}: {line}; it must compute with no "
            f"{trial.empty}, too"
        ) from error
    sent_bytes = counters.forward_bytes
    if mini_batch.pairs is not None:
        sent_bytes -= mini_batch.counts["score_rows"] * layout.graph.num_classes * torch.float64.itemsize
    loss.backward()
    trained = {name: p for name, p in user_model.named_parameters() if p.requires_grad}
    if member.world > 1:
        reduce_gradients(list(trained.values()), loss, member)
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in trained.items()}, sent_bytes
