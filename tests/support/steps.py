"""One step of training, as the loop does it, for tests that compare worlds."""

from __future__ import annotations

import numpy as np
import torch

from gsplit.data import Layout
from gsplit.features import FeatureLoader
from gsplit.nn import SAGE, ExchangeCounters, Lane, blocks_of
from gsplit.parallel import Worker, reduce_gradients
from gsplit.sampling import MiniBatchSampler
from gsplit.train.loop import labels_of, mini_batch_loss
from gsplit.train.task import task_of

CPU = torch.device("cpu")


def model_for(layout: Layout, fan_outs, dtype, hidden=8) -> SAGE:
    torch.manual_seed(0)
    graph = layout.graph
    return SAGE(graph.num_features, hidden, graph.num_classes, num_layers=len(fan_outs)).to(dtype)


def one_step(worker: Worker, layout: Layout, global_targets, fan_outs, dtype, hidden=8):
    """Loss, gradients by name and counters of one mini-batch, after the reduction."""
    graph = layout.graph
    sampler = MiniBatchSampler(
        graph.indptr, graph.indices, layout.offsets, fan_outs=fan_outs, seed=1, global_ids=layout.permutation
    )
    targets = np.argsort(layout.permutation)[global_targets]
    sampler.sample(targets, epoch=0, batch=0)
    segment = sampler.segment(worker.rank)
    counters = ExchangeCounters()
    lane = Lane(worker.group, counters, CPU)
    model = model_for(layout, fan_outs, dtype, hidden)
    loader = FeatureLoader(graph.features, device=CPU, dtype=dtype, normalize=False, threads=1)
    logits = model(blocks_of(segment, CPU, lane), loader.load(segment.vertices))
    task = task_of(graph.multi_label)
    labels = labels_of(layout, segment, CPU)
    loss = lane.tie(mini_batch_loss(task, logits, labels, segment.num_targets))
    loss.backward()
    total = loss
    if worker.world > 1:
        total, _ = reduce_gradients(list(model.parameters()), loss, worker)
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    return total.item(), gradients, counters, loader.counters, segment
