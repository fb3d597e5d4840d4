"""Logits on sampled neighbourhoods: what evaluation on the whole graph would take too long for, or too much memory.

The vertices are cut into mini-batches by global id, whatever the layout, and each is one trainer's: so neither the
number of trainers nor of samplers, nor the partition, changes a logit (law 1). Draws are the same each time, so that
scores of one epoch and the next differ by the model alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.parallel import Member
from gsplit.sampling import Neighbours, TypedSampler, sampler_of, typed_sampler_of, within
from gsplit.sampling.plan import fold_key, hashed
from gsplit.sampling.rule import FanOutOf

EVALUATION = 0x4556414C
"""A tag that keeps the keys of evaluation apart from those of training."""
TARGETS = 1024
"""Vertices of a mini-batch."""


class SampledTargets:
    """Computes logits of some vertices, each from sampled neighbours in every layer.

    Args:
        member: this trainer.
        loader: of what belongs to segments.
        fan_outs: of the layers L .. 1.
        fan_out_of: relations that have others, by number.
        precision: in which models are called.
        seed: of the run.
        goes_on: called before each mini-batch: whether to compute it, and those after it.
    """

    def __init__(
        self,
        member: Member,
        loader: SplitLoader | TypedSplitLoader,
        fan_outs: Sequence[int],
        *,
        precision: Precision,
        seed: int,
        goes_on: Callable[[object], bool],
        fan_out_of: FanOutOf = (),
    ) -> None:
        self._member, self._loader, self._fan_outs, self._seed = member, loader, fan_outs, seed
        self._precision, self._goes_on = precision, goes_on
        rule = Neighbours(fan_out=tuple(fan_outs), fan_out_of=fan_out_of)
        self._by_relation = rule.fan_outs(len(loader.layout.graph.adjacencies))

    @torch.no_grad()
    def logits(self, model: Any, ids: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """This trainer's share of some layout ids with their logits [n, C], mini-batch by mini-batch."""
        self._member.barrier()  # features may be trained, and are read as others have left them
        layout, seed = self._loader.layout, fold_key(self._seed, EVALUATION) >> 1
        options: dict[str, Any] = {"seed": seed, "edge_ids": self._loader.weights}
        sampler: TypedSampler
        if layout.graph.schema.is_typed:
            sampler = typed_sampler_of(layout, fan_outs=within(model.reach, self._by_relation), **options)
        else:
            sampler = sampler_of(layout, fan_outs=list(self._fan_outs), **options)
        ids = ids[np.argsort(layout.permutations[layout.graph.target][ids])]
        was_training = model.training
        model.eval()
        own = range(self._member.rank, -(-len(ids) // TARGETS), self._member.world)
        for number in takewhile(self._goes_on, own):
            targets = ids[number * TARGETS : (number + 1) * TARGETS]
            sampler.sample(targets, epoch=0, batch=number)
            segment = sampler.segment(0)
            inputs = self._loader.inputs(segment, None)
            yield segment.targets, self._precision.called(self._member.device, model, *inputs)
        model.train(was_training)


def validated(layout: Layout, number: int | None, seed: int) -> NDArray[np.int64]:
    """The validation vertices that scores are of: so many, whatever the layout; by default all.

    Args:
        layout: whose they are.
        number: how many, at most; None: all.
        seed: of the run, by which they are chosen.

    Returns:
        int64 layout ids, ascending.
    """
    valid_idx = layout.graph.valid_idx
    if number is None or number >= len(valid_idx):
        return valid_idx
    global_ids = layout.permutations[layout.graph.target][valid_idx]
    order = hashed(fold_key(seed, EVALUATION), global_ids.astype(np.uint64))
    return np.sort(valid_idx[np.argsort(order)[:number]])
