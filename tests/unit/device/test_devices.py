"""Which device a run gets, on machines with other numbers of GPUs than this one."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from support.devices import fit
from support.messages import line_with

from gsplit.config.train import TrainConfig
from gsplit.device.choice import choose_device
from gsplit.engine.feed import begin_thread
from gsplit.errors import InputError
from gsplit.units import parse_bytes


@pytest.fixture
def gpus(monkeypatch):
    def pretend(count, name="NVIDIA H100 PCIe"):
        monkeypatch.delenv("GSPLIT_SHARE_GPU", raising=False)
        fit(monkeypatch)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(name=name))
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))

    return pretend


@pytest.mark.parametrize(
    ("asked", "count", "world", "given"),
    [("auto", 0, 4, "cpu"), ("auto", 4, 4, "cuda"), ("cpu", 4, 4, "cpu"), ("cuda", 8, 4, "cuda")],
)
def test_device(gpus, asked, count, world, given):
    gpus(count)
    assert choose_device(asked, world) == given


@pytest.mark.parametrize("asked", ["auto", "cuda"])
@pytest.mark.parametrize(("count", "said"), [(1, "1, --gpus 1, --device cpu"), (3, "3, --gpus 3, --device cpu")])
def test_more_trainers_than_gpus_are_refused(gpus, asked, count, said):
    # auto too: falling back to the CPU without a word would be a slow surprise.
    gpus(count)
    with pytest.raises(InputError, match=line_with("4 trainers, 4 GPUs", said)):
        choose_device(asked, 4)


def test_one_instance_of_mig_is_named_where_more_are_asked_for(gpus):
    gpus(1, "NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    with pytest.raises(InputError, match=line_with("1, NVIDIA A100-SXM4-40GB MIG 1g.5gb, --gpus 1")):
        choose_device("auto", 2)


def test_no_gpu_at_all(gpus):
    gpus(0)
    with pytest.raises(InputError, match=line_with("--device cuda, --device cpu")):
        choose_device("cuda", 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "float16"}, "--dtype, float32, float64"),
        ({"model": "gta"}, "gta, --model, sage, gat, gcn"),
        ({"model": "gat", "hidden": 10}, "--heads, 4, --hidden, 10"),
        ({"lr": "0.1"}, "--lr, 0.1"),
        ({"hidden": "8"}, "--hidden, 8"),
        ({"samplers": 1.5}, "--samplers, 1.5"),
        ({"slots": math.inf}, "--slots, inf"),
        ({"slots": 10**9}, "--slots, 1024, 1000000000"),
        ({"sampler_threads": 10**5}, "--sampler-threads, 256, 100000"),
        ({"prefetch": None}, "--prefetch, None"),
        ({"max_sampler_restarts": None}, "--max-sampler-restarts, None"),
        ({"weight_decay": None}, "--weight-decay, None"),
        ({"weight_decay": -1}, "--weight-decay, 0, -1"),
        ({"layout": 5}, "--layout, 5"),
        ({"fan_out": 5}, "--fan-out, 5"),
        ({"sampler_memory": -5}, "--sampler-memory, -5"),
        ({"sampler_memory": "9" * 400}, "--sampler-memory"),
        ({"fan_out": "5,x"}, "--fan-out, 5,x"),
        ({"fan_out": ()}, "--fan-out"),
        ({"fan_out": [3], "num_layers": 2}, "--fan-out, 1, --num-layers, 2"),
    ],
)
def test_configurations_built_in_python_are_checked_too(change, said):
    with pytest.raises(InputError, match=line_with(said)):
        TrainConfig(**change)


def test_memory_may_be_a_number():
    assert parse_bytes(TrainConfig(sampler_memory=5).sampler_memory) == 5


def test_paths_may_be_strings(tmp_path):
    config = TrainConfig(layout="a", out=str(tmp_path))
    (tmp_path / "config.json").write_text(config.to_json())
    assert TrainConfig.from_json(tmp_path / "config.json") == config
    assert config.out == tmp_path


def test_the_feed_s_thread_is_on_the_gpu_of_its_trainer(monkeypatch):
    """A thread begins on GPU 0, and the stream of another GPU would be left for that one."""
    taken = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for device in ("cpu", "cuda:2"):
        begin_thread(torch.device(device), torch.get_num_threads())
    assert taken == [torch.device("cuda:2")]
