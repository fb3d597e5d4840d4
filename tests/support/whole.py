"""A step on the whole graph: by the engine of ``--strategy full`` on any plan, and densely in one process."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from gsplit.data import Layout
from gsplit.engine.objective import mini_batch_loss, objective_of
from gsplit.engine.rows.shared import Shared
from gsplit.engine.whole.plan_table import moved_widths
from gsplit.engine.whole.rotated_batch import RotatedBatches
from gsplit.engine.whole.whole_batch import WholeBatches, sums_in_slices
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.full import GridPlan
from gsplit.full.plans import OF_ALL_SOURCES, grids_of
from gsplit.host import SharedBuffer
from gsplit.models import prepared
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.parallel import Member, reduce_gradients, with_checker
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket
from gsplit.train.progress import mini_batch_counts
from support.gradients import assert_same_step
from support.graphs import lay_out, random_graph, with_signs
from support.models import make_model

CPU = torch.device("cpu")
SEEDED = threading.Lock()
"""Held while a model is made: trainers that are threads have one generator between them."""


LAYERS = 3
"""Of the models of tests."""
MOST = 9
"""Trainers of a plan, at most."""
MAIL = Shared.create(MOST).mail
"""Made once: a buffer is a file that is open."""


def buffers() -> SimpleNamespace:
    """The memory that trainers share."""
    rows = SharedBuffer("rows-0"), SharedBuffer("rows-1")
    return SimpleNamespace(rows=rows, checker=SharedBuffer("checker"), mail=MAIL)


def plans_of(trainers, name="sage"):
    """All plans that a model can take."""
    grids = [] if name.startswith(("pyg", "dgl", "own")) else list(grids_of(trainers))
    if name.startswith("gat"):  # the heads are dealt out along the features
        grids = [sizes for sizes in grids if sizes[2] <= 2]
    named = [GridPlan(algorithm=algorithm, sizes=(trainers, 1, 1)) for algorithm in OF_ALL_SOURCES]
    return [*named, *(GridPlan(algorithm="3d", sizes=sizes) for sizes in grids)]


class WholeStep:
    """One trainer of a plan, with a model of ``support.models``."""

    def __init__(
        self,
        member: Member,
        layout: Layout,
        shared,
        plan: GridPlan,
        layers: int,
        name="sage",
        dtype=torch.float64,
        trained=None,
        partial_sums=False,
        **flags,
    ) -> None:
        member = member.on(plan.grid)
        if member.world > 1:
            member = with_checker(member, shared.checker)
        graph = layout.graph
        self.member, self.objective = member, objective_of(graph.task)
        with SEEDED:
            self.user_model = make_model(name, graph.num_features, graph.num_classes, layers).to(dtype)
        self.model, needs = prepared.prepare(self.user_model)
        config = SimpleNamespace(**{"layers": layers, "seed": 0, "recompute": False, **flags})
        parts = SimpleNamespace(
            run=SimpleNamespace(
                config=config, dtype=dtype, exchange_dtype=None, moves_dtype=None, partial_sums=partial_sums
            ),
            member=member,
            layout=layout,
            model=self.model,
            edges=EdgeLoader(graph, device=CPU, dtype=dtype, **needs),
            feature_loader=lambda _: FeatureLoader(
                HostRows(graph.features), device=CPU, dtype=dtype, normalize=False, threads=1
            ),
            shared=shared,
            trained=trained,
        )
        self.batches = (RotatedBatches if plan.algorithm == "rotate" else WholeBatches)(parts, plan)

    def gradients(self):
        """Loss, gradients by name, summed over the trainers, and the mini-batch."""
        batch = self.batches.make(Handle(ticket=Ticket(number=0, epoch=0, batch=0)))
        self.user_model.zero_grad(set_to_none=True)
        logits = batch.logits(self.model)
        loss = batch.comm.tie(mini_batch_loss(self.objective, logits, batch.labels, batch.num_targets))
        loss.backward()
        if self.member.world > 1:
            loss, _ = reduce_gradients(list(self.model.parameters()), loss, self.member)
        named = self.user_model.named_parameters()
        return loss.item(), {key: p.grad.clone() for key, p in named if p.grad is not None}, batch


class DenseBlock(Neighbourhood):
    """All vertices to all vertices by dense matrices; A_NN[v, u] counts the edges from u to v, W_NN sums weights."""

    comm = None

    def __init__(self, graph, weighted: bool) -> None:
        n = self.num_own_sources = self.num_destinations = graph.num_vertices
        rows = torch.from_numpy(np.repeat(np.arange(n), np.diff(graph.indptr)))
        at = (rows, torch.from_numpy(np.array(graph.indices)).long())
        ones = torch.ones(graph.num_edges, dtype=torch.float64)
        self.A_NN = torch.zeros(n, n, dtype=torch.float64).index_put_(at, ones, accumulate=True)
        has = weighted and graph.edge_weight is not None
        weights = torch.from_numpy(np.array(graph.edge_weight)).double() if has else ones
        self.W_NN = torch.zeros(n, n, dtype=torch.float64).index_put_(at, weights, accumulate=True)

    def sum(self, x, *, weighted=False, project=None):
        out = (self.W_NN if weighted else self.A_NN) @ x
        return out if project is None else project(out)

    def mean(self, x, *, project=None):
        out = self.A_NN @ x / self.A_NN.sum(1, keepdim=True).clamp(min=1)
        return out if project is None else project(out)

    def attend(self, z, att_source, att_destination, *, negative_slope, dropout, loops):
        heads: list[Tensor] = []
        edges_NN = self.A_NN + (torch.eye(len(z), dtype=torch.float64) if loops else 0)
        for head in range(z.shape[1]):
            score = (z[:, head] @ att_destination[head])[:, None] + (z[:, head] @ att_source[head])[None, :]
            power = edges_NN * torch.nn.functional.leaky_relu(score, negative_slope).exp()
            total = power.sum(1, keepdim=True)
            heads.append(power / torch.where(total > 0, total, torch.ones_like(total)) @ z[:, head])
        return torch.stack(heads, dim=1)

    def sampled_weight(self):
        return self.W_NN.sum(1)

    def graph_degrees(self):
        return self.W_NN.sum(1)


def moved(member, layout, shared, plans, name, recompute):
    """Loss, gradients, what was sent and the widths of what moved, in the first two epochs of each plan."""
    results = []
    for plan in plans:
        step = WholeStep(member, layout, shared, plan, LAYERS, name, recompute=recompute)
        for epoch in range(2):
            loss, gradients, batch = step.gradients()
            widths = moved_widths(
                step.model, epoch, recomputes=recompute, in_slices=sums_in_slices(recompute, step.model)
            )
            results.append((plan, (loss, gradients), mini_batch_counts(batch, 0), widths))
    return results


def dense_gradients(graph, layers: int, name="sage"):
    """Loss and gradients by name of one process that has everything, in float64."""
    user_model = make_model(name, graph.num_features, graph.num_classes, layers).double()
    model, needs = prepared.prepare(user_model)
    block = DenseBlock(graph, needs["weights"])
    logits = model(dict.fromkeys(range(1, layers + 1), block), torch.from_numpy(np.array(graph.features)).double())
    train = torch.from_numpy(np.array(graph.train_idx))
    labels = torch.from_numpy(np.array(graph.labels))[train]
    loss = mini_batch_loss(objective_of(graph.task), logits[train], labels, len(train))
    loss.backward()
    return loss.item(), {key: p.grad.clone() for key, p in user_model.named_parameters() if p.grad is not None}


def assert_same(graph, results, name, layers):
    """Whether loss and gradients of all trainers, by rank and then as they come, are those of one dense process."""
    loss, gradients = dense_gradients(graph, layers, name)
    for step in zip(*map(itertools.chain.from_iterable, results), strict=True):
        assert_same_step(step, loss, gradients)


def uneven(folder, weighted, parts=4):
    """A layout of parts: few vertices, none, none that trains, and the others; weights of either sign."""
    graph = random_graph(60, 5, seed=8)
    graph = with_signs(graph) if weighted else graph
    graph.indices[::7] = np.repeat(np.arange(60), np.diff(graph.indptr))[::7]  # loops
    layout = lay_out(graph, folder / f"uneven-{weighted}", parts=parts, method="range")
    offsets = np.array([0, 7, 7, *np.linspace(25, 60, parts - 2).astype(int)])
    train = layout.graph.train_idx
    kept = train[(train < 7) | (train >= 25)]
    return replace(layout, offsets=offsets, graph=replace(layout.graph, train_idx=kept))


def needed_rows(graph, levels, layer):
    """[P, P] numbers of distinct sources that each trainer needs of each other, the slow way."""
    parts = len(levels.bounds) - 1
    table = np.zeros((parts, parts), np.int64)
    for rank in range(parts):
        own = range(levels.bounds[rank], levels.bounds[rank + 1])
        computed = [v for v in own if 0 <= levels.row_N[v] < levels.sizes[rank, layer]]
        sources = {int(u) for v in computed for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
        for u in sources:
            owner = next(p for p in range(parts) if levels.bounds[p] <= u < levels.bounds[p + 1])
            table[rank, owner] += owner != rank
    return table
