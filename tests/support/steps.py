"""One step of training, as the loop does it, for tests that compare worlds."""

from __future__ import annotations

import numpy as np
import torch

from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import mini_batch_loss, objective_of
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.models import prepared
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.parallel import DATA, SPLIT, Member, reduce_gradients, trainer_grid, with_checker
from gsplit.sampling import Neighbours, split_offsets
from support import pool as pool_module
from support.models import make_model

CPU = torch.device("cpu")
ALONE = Member(rank=0, world=1, device=CPU)


def targets_of(layout, count=61):
    """Global ids of some training vertices, the lowest."""
    return np.sort(layout.permutation[layout.graph.train_idx])[:count]


def targets_of_first(split, count=None):
    """Global ids of some training vertices of the first part alone: the other trainers have none."""
    first = split.graph.train_idx[split.graph.train_idx < split.offsets[1]]
    return np.sort(split.permutation[first])[:count]


class Step:
    """One mini-batch on one trainer: its segment, its blocks and a model of ``support.models``.

    ``grid``: of the trainers whose micro-batches the targets are cut into; by default one, split over all. A member
    that is alone may take any place on it where micro-batches are not split. ``sums``: trainers send sums of rows
    where these are fewer. ``rule``: samples in the place of ``fan_outs``, which number the layers alone then;
    ``global_others`` start beside the targets. ``precision``: of a mixed one, in the place of ``dtype``.
    """

    def __init__(
        self,
        member: Member,
        layout: Layout,
        global_targets,
        fan_outs,
        dtype,
        name="sage",
        grid=None,
        *,
        sums=False,
        rule=None,
        global_others=None,
        estimate="ratio",
        precision=None,
    ):
        self._precision = precision or Precision(dtype=dtype)
        dtype = self._precision.dtype
        grid = grid or trainer_grid(member.world)
        micro = grid.coordinate(member.rank, DATA)
        targets = np.argsort(layout.permutation)[global_targets]
        graph = layout.graph
        if member.world > 1:
            member = with_checker(member.on(grid), pool_module.SHARED.checker)
        self.member, self.layout = member, layout
        self.user_model = make_model(name, graph.num_features, graph.num_classes, len(fan_outs)).to(dtype)
        self.model, needs = prepared.prepare(self.user_model)
        edges = EdgeLoader(graph, device=CPU, dtype=dtype, estimate=estimate, **needs)
        rule = rule or Neighbours(fan_out=tuple(fan_outs))
        sampler = rule.sampler(
            layout, split_offsets(layout, grid.size(SPLIT)), seed=1, edge_ids=edges.weights, partial_sums=sums
        )
        own, others = np.array_split(targets, grid.size(DATA))[micro], None
        if global_others is not None:
            others = np.array_split(np.argsort(layout.permutation)[global_others], grid.size(DATA))[micro]
        sampler.sample(own, epoch=0, batch=0, micro=micro, num_targets=len(targets), others=others)
        self.segment = sampler.segment(grid.coordinate(member.rank, SPLIT))
        self.counters = ExchangeCounters()
        group = member.along(SPLIT) if member.world > 1 else None
        self.comm = BatchComm(group, self.counters, CPU, everyone=member.group, checker=member.checker)
        self.loader = FeatureLoader(
            HostRows(graph.features), device=CPU, dtype=self._precision.rows, normalize=False, threads=1
        )
        inputs = SplitLoader(layout, CPU, self.loader, edges)
        self.blocks, self.x = inputs.inputs(self.segment, self.comm)
        self.labels, self.target_weights = inputs.labels(self.segment), inputs.target_weights(self.segment)

    def gradients(self):
        """Loss and gradients by name, summed over the trainers."""
        logits = self._precision.called(CPU, self.model, self.blocks, self.x)
        objective = objective_of(self.layout.graph.task, self.layout.graph.num_classes)
        about = (self.labels, self.segment.num_targets, self.target_weights)
        loss = self.comm.tie(mini_batch_loss(objective, logits, *about))
        loss.backward()
        if self.member.world > 1:
            loss, _ = reduce_gradients(list(self.model.parameters()), loss, self.member)
        return loss.item(), {name: p.grad.clone() for name, p in self.user_model.named_parameters()}
