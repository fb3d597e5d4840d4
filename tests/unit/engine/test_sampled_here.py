"""Trainers that sample for themselves, by any rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.rules import FirstNeighbours
from support.samplers import micro_batches_of
from support.steps import CPU

from gsplit.engine.inputs import blocks_of
from gsplit.engine.sampled.sources import SampledHere
from gsplit.parallel import DATA, SPLIT, Grid, Member
from gsplit.sampling import Neighbours
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket

HANDLE = Handle(ticket=Ticket(number=0, epoch=1, batch=2))


def micro_batches(layout, rule, number, splits):
    return micro_batches_of(layout, micro_batches=number, splits=splits, rule=rule, batch_size=40, seed=3)


def source_of(layout, rule, rank=0, number=1, splits=1):
    grid = Grid.of(**{DATA: number, SPLIT: splits})
    member = Member(rank=rank, world=grid.world, device=CPU, grid=grid)
    return SampledHere(micro_batches(layout, rule, number, splits), member, None)


@pytest.mark.parametrize("rule", [Neighbours(fan_out=(3, 4)), FirstNeighbours(keep=2, hops=2)], ids=str)
def test_each_trainer_keeps_its_split_of_its_group_s_micro_batch(layouts, rule):
    layout = layouts(4)
    wanted = [
        sampler.segment(split).data.tobytes()
        for sampler in micro_batches(layout, rule, 2, 2).sample_all(1, 2)
        for split in range(2)
    ]
    sources = [source_of(layout, rule, rank, 2, 2) for rank in range(4)]
    assert [source.segment(HANDLE)[0].data.tobytes() for source in sources] == wanted


def test_blocks_of_another_rule_aggregate_what_it_keeps(layouts):
    layout = layouts(1)
    segment, _ = source_of(layout, FirstNeighbours(keep=2, hops=2)).segment(HANDLE)
    blocks = blocks_of(segment, CPU, None)
    level = torch.from_numpy(layout.graph.features[segment.vertices])
    whole = layout.graph.features
    for layer in (1, 2):
        block = blocks[layer]
        level = torch.zeros(block.num_destinations, level.shape[1]).index_add(
            0, block.destinations(), level[block.indices.long()]
        )
        begins, ends = layout.graph.indptr[:-1], layout.graph.indptr[1:]
        whole = np.stack(
            [whole[layout.graph.indices[b:e][:2]].sum(axis=0) for b, e in zip(begins, ends, strict=True)]
        )
    targets = np.argsort(layout.permutation)[80:120]  # global ids 80 .. 119
    assert segment.targets.tolist() == targets.tolist()
    np.testing.assert_allclose(level.numpy(), whole[targets], rtol=1e-6)
