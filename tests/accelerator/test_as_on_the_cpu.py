"""The same code on accelerators, with spawned trainers. Where there are fewer than trainers, these share them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.predictions import InPool as PredictsInPool
from support.runs import InPool
from support.steps import ALONE, CPU
from support.typed_graphs import lay_out_types, random_typed_graph

from gsplit.config.train import TrainConfig
from gsplit.data.memory.graphs import from_arrays
from gsplit.device import accelerator
from gsplit.engine.inputs import blocks_of
from gsplit.engine.sampled.sources import Pins
from gsplit.errors import InputError
from gsplit.features import FeatureLoader, HostRows
from gsplit.host import SharedBuffer
from gsplit.nn import mean_of_neighbours
from gsplit.predict.api import predict
from gsplit.predict.compute import predict_share
from gsplit.sampling import MiniBatchSampler
from gsplit.train.api import train

pytestmark = pytest.mark.accelerator
SLOW = pytest.mark.slow
"""Of processes that import PyTorch; tests in the pool of trainers show the same (test_bit_equal.py)."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mean_and_its_gradient_equal_the_cpu_s(device, dtype):
    graph = random_graph(500, 12, seed=1)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, 500], fan_outs=[8], seed=0)
    sampler.sample(np.arange(200), epoch=0, batch=0)
    results = []
    for where in (CPU, device):
        block = blocks_of(sampler.segment(0), where, None)[1]
        torch.manual_seed(0)
        x = torch.randn(block.num_sources, 33, dtype=dtype).to(where).requires_grad_()
        out = mean_of_neighbours(block, x)
        out.square().sum().backward()
        results.append((out.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(results[0], results[1])


def test_loaded_rows_are_bit_equal(device):
    features = np.random.default_rng(0).standard_normal((1000, 65)).astype(np.float16)
    ids = np.random.default_rng(1).integers(0, 1000, 5000)
    host = HostRows(features)
    rows = [
        FeatureLoader(host, device=where, dtype=torch.float32, normalize=False, threads=2).load(ids).cpu()
        for where in (CPU, device)
    ]
    assert torch.equal(*rows)


def test_slots_are_pinned_also_when_they_have_grown(device):
    slot = SharedBuffer("test")
    slot.grow(10_000)
    memory = slot.view((10_000,), np.uint8)
    pin = Pins()
    pin(memory, None)
    assert torch.from_numpy(memory).is_pinned()
    slot.grow(1 << 20)
    larger = slot.view((1 << 20,), np.uint8)
    pin(larger, memory)
    larger[:] = 7
    assert (torch.from_numpy(larger).to(device, non_blocking=True) == 7).all()
    assert torch.from_numpy(larger).is_pinned()
    assert not torch.from_numpy(memory).is_pinned()
    slot.close()


@pytest.mark.parametrize("world", [pytest.param(1, marks=SLOW), 2])
def test_samplers_and_prefetching_change_nothing(kind, accelerator_pool, tmp_path, monkeypatch, world):
    """From what the pool's trainers learn alone. On one GPU sums of float64 differ in their order only."""
    monkeypatch.setenv("GSPLIT_SHARE_GPU", "1")
    layout = lay_out(random_graph(300, 10, seed=3), tmp_path, parts=world)
    losses = []
    for samplers, prefetch in ((0, 0), (2, 2)):
        config = TrainConfig(
            out=tmp_path / str(samplers),
            fan_out=(4, 4),
            batch_size=20,
            hidden=8,
            epochs=2,
            dropout=0.0,
            dtype="float64",
            device=kind,
            samplers=samplers,
            prefetch=prefetch,
        )
        with monkeypatch.context() as patch:
            if not samplers:
                patch.setattr("gsplit.launch.start.start", InPool(accelerator_pool))
            losses.append(train(layout.path, config)["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


MODELS = [
    {"model": "sage"},
    {"model": "gat", "heads": 2, "norm": "batch", "residual": True},
    {"model": "gcn", "norm": "layer"},
    {"model": "torch_geometric.nn:GraphSAGE", "model_args": "norm=batch_norm"},
]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["model"])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_training_equals_the_cpu_s(kind, tmp_path, monkeypatch, world, model):
    monkeypatch.setenv("GSPLIT_SHARE_GPU", "1")
    layout = lay_out(random_graph(300, 10, seed=3, weighted=True), tmp_path, parts=world)
    logits = []
    for device in ("cpu", kind):
        config = TrainConfig(
            out=tmp_path / device,
            device=device,
            fan_out=(5, 4, 3),
            batch_size=40,
            hidden=8,
            epochs=3,
            lr=0.01,
            dropout=0.0,
            dtype="float64",
            save_predictions="logits",
            **model,
        )
        train(layout.path, config)
        logits.append(np.load(tmp_path / device / "predictions.npy"))
    np.testing.assert_allclose(logits[0], logits[1], rtol=0, atol=1e-8)


def test_more_trainers_than_gpus_are_refused(kind, tmp_path, monkeypatch):
    monkeypatch.delenv("GSPLIT_SHARE_GPU", raising=False)
    world = accelerator.count(kind) + 1
    layout = lay_out(random_graph(100, 5), tmp_path, parts=world)
    with pytest.raises(InputError, match=line_with(f"{world} trainers", f"{world} GPUs")):
        train(layout.path, TrainConfig(out=tmp_path / "run", device=kind))
    assert not (tmp_path / "run").exists()


ASKED = {"what": "embeddings"}, {"what": "logits", "fan_out": (3, 2), "batch_size": 70}


@pytest.mark.parametrize(
    ("world", "asked"), [(1, ASKED[:1]), pytest.param(1, ASKED[1:], marks=SLOW), pytest.param(3, ASKED, marks=SLOW)]
)
def test_predictions_equal_the_cpu_s(kind, accelerator_pool, tmp_path, monkeypatch, world, asked):
    monkeypatch.setenv("GSPLIT_SHARE_GPU", "1")
    layout = lay_out(random_graph(300, 10, seed=3), tmp_path, parts=world)
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("gsplit.launch.start.start", InPool(accelerator_pool))
        config = TrainConfig(out=run, device=kind, fan_out=(5, 4), hidden=8, epochs=1, samplers=0, dtype="float64")
        train(layout.path, config)
    for options in asked:
        values = [predict(run, layout.path, device=device, **options) for device in ("cpu", kind)]
        np.testing.assert_allclose(*values, rtol=0, atol=1e-10)


def predict_here(_, world, spec):
    """In place of the processes of trainers: one on the CPU, which is this one."""
    assert world == 1
    predict_share(ALONE, spec)
    return SimpleNamespace(join=lambda: None)


@pytest.mark.parametrize("world", [2, pytest.param(1, marks=SLOW)])
def test_predictions_of_several_types_equal_the_cpu_s(kind, accelerator_pool, tmp_path, monkeypatch, world):
    """One type of them has rows that were trained."""
    monkeypatch.setenv("GSPLIT_SHARE_GPU", "1")
    layout = lay_out_types(random_typed_graph(4, 6, seed=38), tmp_path, parts=world)
    of_run = {"model": "rgcn", "train_features": 4, "fan_out": (5, 4), "hidden": 8, "epochs": 1}
    with monkeypatch.context() as patch:
        patch.setattr("gsplit.launch.start.start", InPool(accelerator_pool))
        train(layout.path, TrainConfig(out=tmp_path / "run", device=kind, samplers=0, dtype="float64", **of_run))
    in_pool = PredictsInPool(accelerator_pool)
    for options in ({"what": "logits"}, {"what": "embeddings", "type": "t1", "fan_out": (3, 2), "batch_size": 7}):
        monkeypatch.setattr("gsplit.predict.api.start", in_pool)
        found = predict(tmp_path / "run", layout.path, device=kind, **options)
        monkeypatch.setattr("gsplit.predict.api.start", predict_here)
        alone = predict(tmp_path / "run", layout.path, device="cpu", gpus=1, **options)
        np.testing.assert_allclose(found, alone, rtol=0, atol=1e-10)


def test_tensors_of_a_gpu_make_the_same_store(device):
    """They are copied; the graph stays where it is."""
    edges, x, y = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 4), torch.tensor([0, 1, 0])
    with from_arrays(edges, x, y, train=y == 0) as one:
        moved = (each.to(device) for each in (edges, x, y))
        with from_arrays(*moved, train=(y == 0).to(device)) as other:
            assert one.checksum == other.checksum
