"""Graphs with pairs, and a step of training on links, for tests that compare worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from gsplit.data import Layout
from gsplit.data.links.edge_sets import Links as EdgeSets
from gsplit.device.precision import Precision
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objectives.pairs import pair_loss
from gsplit.engine.tasks.links import LinkTask
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.models import prepared
from gsplit.models.decoding import decoder_of
from gsplit.models.registry import DECODER
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.parallel import DATA, SPLIT, Member, reduce_gradients, trainer_grid, with_checker
from gsplit.sampling import Neighbours, SamplerSpec
from gsplit.sampling.links import Links, Negatives
from gsplit.sampling.micro_batches import MicroBatches
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.models import make_model

CPU = torch.device("cpu")
ALONE = Member(rank=0, world=1, device=CPU)
WIDTH = 6


def linked_graph(n=120, mean_degree=8, *, seed=0, given=False, hard=0, weights=None, **changes):
    """A random graph with loops, and a few pairs to validate and test with; ``given``: training pairs of its own,
    with ``weights`` drawn of some."""
    graph = random_graph(n, mean_degree, seed=seed, **changes)
    random = np.random.default_rng(seed + 7)
    indices = np.array(graph.indices)
    loops = random.random(len(indices)) < 0.05
    indices[loops] = np.repeat(np.arange(n), np.diff(graph.indptr))[loops]
    free = random.permutation(n * n)[: 3 * n]
    pairs = np.stack([free // n, free % n], axis=1).astype(np.int64)
    pairs = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    share = random.permutation(len(pairs))
    train = pairs[np.sort(share[: 2 * n])] if given else None
    number = len(indices) if train is None else len(train)
    negatives = random.integers(-1, n, (number, hard)) if hard else None
    links = EdgeSets(
        train=train,
        valid=pairs[np.sort(share[2 * n : 2 * n + n // 2])],
        test=pairs[np.sort(share[2 * n + n // 2 :])],
        hard_negatives=negatives,
        train_weights=None if weights is None else random.choice(np.array(weights, np.float32), number),
    )
    return replace(graph, indices=indices, links=links)


def linked_layouts(folder, **options):
    """layouts(parts, method) of one such graph."""
    graph = linked_graph(**options)
    return lambda parts, method="metis": lay_out(graph, folder, parts=parts, method=method)


def micro_batches(layout: Layout, rule: Links, *, batch_size=40, micro=1, splits=None, edge_ids=False, **options):
    """Samples and splits the mini-batches of a layout."""
    spec = SamplerSpec(
        layout=layout.path,
        rule=rule,
        batch_size=batch_size,
        seed=1,
        edge_ids=edge_ids,
        micro_batches=micro,
        splits=splits or layout.parts // micro,
        **options,
    )
    return MicroBatches(layout, spec)


def rule_of(fan_out=(4, 3), **options) -> Links:
    return Links(
        neighbours=Neighbours(fan_out=fan_out), negatives=options.pop("negatives", Negatives(uniform=1)), **options
    )


class LinkStep:
    """One mini-batch of links on one trainer.

    ``grid``: of the trainers; by default all split one micro-batch. ``micro``: which micro-batch of how many, where
    one process has it alone.
    """

    def __init__(
        self,
        member,
        layout,
        rule,
        *,
        decoder="dot",
        loss="bce",
        model="sage",
        grid=None,
        batch=0,
        micro=None,
        **options,
    ):
        grid = grid or trainer_grid(member.world)
        split = grid.coordinate(member.rank, SPLIT)
        micro, of = micro or (grid.coordinate(member.rank, DATA), grid.size(DATA))
        if member.world > 1:
            member = with_checker(member.on(grid), pool_module.SHARED.checker)
        self.member, dtype, graph = member, torch.float64, layout.graph
        batches = micro_batches(layout, rule, micro=of, splits=grid.size(SPLIT), **options)
        self.segment = batches.sample(0, batch, micro).segment(split)
        torch.manual_seed(5)
        self.user_model = make_model(model, graph.num_features, WIDTH, len(rule.neighbours.fan_out)).to(dtype)
        decoder = decoder_of(decoder, WIDTH, {}).to(dtype)
        for parameter in decoder.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        self.user_model.add_module(DECODER, decoder)
        self.model, needs = prepared.prepare(self.user_model)
        loader = FeatureLoader(HostRows(graph.features), device=CPU, dtype=dtype, normalize=False, threads=1)
        edges = EdgeLoader(graph, device=CPU, dtype=dtype, **needs)
        self.counters = ExchangeCounters()
        group = member.along(SPLIT) if member.world > 1 else None
        comm = BatchComm(group, self.counters, CPU, everyone=member.group, checker=member.checker)
        self.batch = SplitLoader(layout, CPU, loader, edges).mini_batch(
            self.segment,
            comm,
            handle=Handle(ticket=Ticket(number=0, epoch=0, batch=batch)),
            x=loader.load(self.segment.vertices),
        )
        self.task = LinkTask(loss=pair_loss(loss, temperature=0.5, margin=0.3), width=WIDTH)

    def gradients(self):
        """Loss and gradients by name, the decoder's too, summed over the trainers."""
        _, loss, _, counted = self.task.forward(self.model, self.batch, precision=Precision(dtype=torch.float64))
        loss.backward()
        if self.member.world > 1:
            loss, _ = reduce_gradients(list(self.model.parameters()), loss, self.member)
        gradients = {
            name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
            for name, p in self.model.named_parameters()
        }
        return loss.item(), gradients, counted
