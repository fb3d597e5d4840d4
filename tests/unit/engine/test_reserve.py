"""What training is estimated to take of a GPU: the formula by hand, and from above for real mini-batches."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.caches import CPU
from support.graphs import random_graph
from torch import nn

from gsplit import nn as models
from gsplit.config.train import TrainConfig
from gsplit.engine.inputs import blocks_of
from gsplit.engine.rows.loading import Loading
from gsplit.engine.rows.reserve import Share, reserve_of, share_of, widths_of, working_bytes
from gsplit.features import EdgeLoader, Memory
from gsplit.models.prepared import prepare
from gsplit.nn import Chain, ExchangeCounters
from gsplit.sampling import MiniBatchSampler


def test_the_share_by_hand():
    # 100 targets draw 300 edges among 1000 vertices: each of the other 900 is hit unless 300 draws miss it.
    hit = 900 * (1 - math.exp(-0.3))
    one = share_of(1000, 5000, 100, [3], trainers=1)
    assert one.rows == pytest.approx((100 + hit, 100))
    assert one.edges == (0, 300)
    assert one.sources == pytest.approx((0, 100 + hit))
    # A quarter of it, a quarter more than even; its sources are its own rows and at most one for each edge.
    four = share_of(1000, 5000, 100, [3], trainers=4)
    assert four.rows == pytest.approx(((100 + hit) * 0.3125, 31.25))
    assert four.edges == (0, 93.75)
    assert four.sources == pytest.approx((0, (100 + hit) * 0.3125 + 93.75))
    # All neighbours are at most all edges, and no level has more than all vertices.
    whole = share_of(1000, 5000, 2000, [-1, 50], trainers=1)
    assert whole.rows == (1000, 1000, 1000)
    assert whole.edges == (0, 5000, 5000)


def test_the_bytes_by_hand():
    share = Share(rows=(1000, 100), sources=(0, 1500), edges=(0, 2000))
    loaded = 1000 * (64 * 4 + 8) + 4 * (2000 + 100 + 1500)
    kept = 2 * 1500 * 64 + 100 * (64 + 6 * 16) + 8 * 2000
    wanted = 5 * 7000 + 4 * loaded + 2 * kept * 4 + 24 * 2000
    assert working_bytes(share, [64, 16], 4, 7000, prefetch=1) == wanted
    assert working_bytes(share, [64, 16], 4, 7000, prefetch=3) == wanted + 2 * loaded


@pytest.mark.parametrize("fan_out", [(10, 5), (20, 10, 5), (-1, 3)])
@pytest.mark.parametrize("parts", [1, 4])
def test_the_share_is_an_estimate_from_above(parts, fan_out):
    n = 20_000
    graph = random_graph(n, 10, seed=2)
    offsets = np.linspace(0, n, parts + 1).astype(int)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, offsets, fan_outs=fan_out, seed=0)
    targets = np.random.default_rng(0).permutation(n)[:500]
    sampler.sample(targets, epoch=0, batch=0)
    share = share_of(n, graph.num_edges, len(targets), fan_out, parts)
    for rank in range(parts):
        segment = sampler.segment(rank)
        for level, size in enumerate(segment.level_sizes):
            assert size <= share.rows[level] * 1.001
        for layer, (edges, sources) in enumerate(zip(share.edges[1:], share.sources[1:], strict=True), start=1):
            received = sum(segment.layers[layer].receive_counts)
            assert segment.level_sizes[layer - 1] + received <= sources * 1.001
            assert len(segment.indices(layer)) <= edges


@pytest.mark.parametrize("name", ["SAGE", "GCN", "GAT"])
def test_what_layers_keep_for_backward_is_estimated_from_above(name):
    n, features, fan_outs = 5000, 100, (10, 5)
    graph = random_graph(n, 10, seed=2)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, n], fan_outs=fan_outs, seed=0)
    sampler.sample(np.arange(100), epoch=0, batch=0)
    segment = sampler.segment(0)
    model = getattr(models, name)(features, 64, 16, num_layers=2, dropout=0.5, norm="layer", residual=True)
    edges = EdgeLoader(graph, device=CPU, dtype=torch.float32, **prepare(model).needs)
    blocks = blocks_of(segment, CPU, Chain(None, ExchangeCounters(), CPU), **edges.load(segment))
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(blocks, torch.ones(segment.level_sizes[0], features))
    assert logits.shape == (100, 16)
    own = Share(
        rows=segment.level_sizes,
        sources=(0, *segment.level_sizes[:-1]),
        edges=(0, *(len(segment.indices(layer)) for layer in (1, 2))),
    )
    widths = widths_of(model, features, 2)
    ahead = working_bytes(own, widths, 4, 0, prefetch=1) - working_bytes(own, widths, 4, 0, prefetch=0)
    estimated = working_bytes(own, widths, 4, 0, prefetch=0) - 3 * ahead
    assert 2 * sum(kept.values()) < estimated < 20 * sum(kept.values())  # twice: with their gradients


def test_a_run_s_reserve_follows_its_flags_and_is_what_auto_is_told(monkeypatch, layouts):
    layout, model = layouts(2), models.SAGE(8, 16, 3, num_layers=2)

    def reserved(*, groups=1, trainers=2, model=model, **flags):
        config = TrainConfig(**{"fan_out": (5, 5), "batch_size": 20, **flags})
        return reserve_of(config, layout, model, groups=groups, trainers=trainers)

    plain = reserved()
    assert plain > reserved(batch_size=10)
    assert plain > reserved(fan_out=(5, 2))
    assert plain < reserved(prefetch=3)
    assert plain < reserved(trainers=1)
    assert plain < reserved(metrics="ap") < plain + 300 * (3 * 4 + 8)
    assert reserved(groups=2, trainers=1) < reserved(trainers=1)  # half of the targets
    assert plain < reserved(model=models.SAGE(8, 16, 3, num_layers=2).double())
    told = []
    monkeypatch.setattr(Memory, "of", lambda *where, **beside: told.append((where, beside)))
    for peers, visitors in ((True, 1), (False, 0)):
        strategy = SimpleNamespace(micro_batches=1, splits=2, peers=peers)
        run = SimpleNamespace(
            _config=TrainConfig(fan_out=(5, 5), batch_size=20),
            _strategy=strategy,
            _layout=layout,
            _member=SimpleNamespace(device="cuda:0", world=2),
            _sharers=lambda: 1,
        )
        Loading._memory(run, model)
        assert told.pop() == (("cuda:0", 1), {"working_bytes": plain, "visitors": visitors})


def test_widths():
    assert widths_of(models.SAGE(12, 7, 3, num_layers=2), 12, 2) == [12, 7, 3]
    unknown = nn.Sequential(nn.Linear(12, 50), nn.BatchNorm1d(50), nn.Linear(50, 3)).to(torch.float64)
    assert widths_of(unknown, 12, 2) == [12, 50, 50]
    assert widths_of(nn.Identity(), 12, 1) == [12, 12]
