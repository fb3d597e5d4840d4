"""A second engine, for the test of the seam: all that the loop needs, and nothing of the first one's sampling."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from gsplit.engine.feed import Feed
from gsplit.engine.inputs import segment_counts
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.sampled.engine import Sampled
from gsplit.nn import BatchComm, Block, ExchangeCounters
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.parallel import Grid
from gsplit.sampling import sampler_of
from gsplit.supply.order import order_of
from gsplit.supply.pipes import Supply
from gsplit.supply.tickets import tickets
from support.rules import FirstNeighbours


class Everything:
    """One mini-batch an epoch: each trainer computes a share of all targets, with all neighbours, by itself."""

    def resolve(self, config, layout):
        return config.resolved(split_group=1, cache="none", samplers=0)

    def grid(self, run):
        return Grid.of(rows=run.trainers)

    def num_batches(self, run, layout):
        return 1

    @contextmanager
    def supply(self, run, layout, position):
        supply = Supply(run.trainers)
        try:
            yield supply
        finally:
            supply.end()

    def feed(self, components, position, end):
        config, member = components.run.config, components.member
        order = order_of(tickets(1, config.epochs, position), end, member.rank, by="sequence")
        return Feed(order, Whole(components), member.device, prefetch=config.prefetch, threads=config.threads)


class Whole:
    """The same blocks for every mini-batch, made once; only the ticket changes."""

    def __init__(self, components):
        self.member, graph = components.member, components.layout.graph
        self.num_targets = len(graph.train_idx)
        sampler = sampler_of(components.layout, fan_outs=[-1] * components.run.config.layers, seed=0)
        own = np.array_split(graph.train_idx, self.member.world)[self.member.rank]
        sampler.sample(own, epoch=0, batch=0)
        self.segment = sampler.segment(0)
        self.loader = components.split_loader()
        self.blocks = self.loader.whole_blocks(self.segment)

    def make(self, handle):
        return MiniBatch(
            handle=handle,
            num_targets=self.num_targets,
            comm=BatchComm(None, ExchangeCounters(), self.member.device, everyone=self.member.group),
            blocks=self.blocks,
            x=self.loader.features.load(self.segment.vertices),
            labels=self.loader.labels(self.segment),
            loaded=self.loader.features.take_counters(),
            counts=segment_counts(self.segment),
            seconds={"sample": 0.0, "load": 0.0},
        )

    def release(self, handle):
        """The blocks stay."""


class ByFirstNeighbours(Sampled):
    """Split parallelism with another sampling rule."""

    def rule(self, run):
        return FirstNeighbours(keep=2, hops=run.config.layers)


@dataclass(frozen=True, kw_only=True)
class Mirror(Neighbourhood):
    """A block of another kind, which asks the first one."""

    inner: Block
    num_own_sources: int
    num_destinations: int
    comm: BatchComm | None

    def sum(self, x, *, weighted=False, project=None):
        return self.inner.sum(x, weighted=weighted, project=project)

    def mean(self, x, *, project=None):
        return self.inner.mean(x, project=project)

    def attend(self, z, att_source, att_destination, **options):
        return self.inner.attend(z, att_source, att_destination, **options)

    def sampled_weight(self):
        return self.inner.sampled_weight()

    def graph_degrees(self):
        return self.inner.graph_degrees()


def mirrored(block):
    own = {name: getattr(block, name) for name in ("num_own_sources", "num_destinations", "comm")}
    return Mirror(inner=block, **own)


class OnMirrors(Sampled):
    """Split parallelism on blocks of another kind."""

    def feed(self, components, position, end):
        for mini_batch in super().feed(components, position, end):
            yield replace(mini_batch, blocks={layer: mirrored(block) for layer, block in mini_batch.blocks.items()})


class NeedsArguments(Sampled):
    """An engine that nobody can make."""

    def __init__(self, depth):
        self.depth = depth


class DecidesNothing(Sampled):
    """An engine that leaves open what it should decide."""

    def resolve(self, config, layout):
        return config


class GivesNothing(Sampled):
    """An engine that forgets its answer."""

    def resolve(self, config, layout):
        return None


class UnevenGroups(Sampled):
    """An engine with split groups that do not divide the trainers."""

    def resolve(self, config, layout):
        return replace(super().resolve(config, layout), split_group=config.gpus + 1)


class LargerGrid(Sampled):
    """An engine with a grid for more trainers than there are."""

    def grid(self, run):
        return Grid.of(data=1, split=run.trainers + 1)


made = Sampled()
