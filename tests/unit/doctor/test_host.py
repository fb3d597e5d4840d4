"""What doctor says of the host, also of odd ones: without control groups, without /dev/shm, with small limits."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.devices import fit
from support.messages import line_with, says

from gsplit import limits
from gsplit.config.train import TrainConfig
from gsplit.device import accelerator
from gsplit.doctor import diagnosis, host_state, installed
from gsplit.doctor.__main__ import command
from gsplit.doctor.diagnosis import examine, most_open
from gsplit.doctor.diagnosis_text import as_json, lines
from gsplit.engine.rows.shared import Shared
from gsplit.errors import InputError
from gsplit.supply.pipes import Supply


@pytest.fixture
def limited(monkeypatch):
    """limited(NOFILE=(soft, hard), ...): other limits of this process, on a host that PyTorch's build fits."""
    fit(monkeypatch)

    def give(**limits_):
        known = {getattr(resource, f"RLIMIT_{name}"): pair for name, pair in limits_.items()}
        real = resource.getrlimit
        monkeypatch.setattr(resource, "getrlimit", lambda which: known.get(which) or real(which))

    return give


@pytest.fixture
def devices(monkeypatch):
    """devices(sizes, reaches=...): PyTorch has accelerators of these sizes, a quarter of each taken."""

    def there(*sizes, reaches=lambda i, j: True, free=lambda size: 3 * size // 4):
        def properties(i):
            return SimpleNamespace(name=f"Card {i}", total_memory=sizes[i])

        module = SimpleNamespace(
            Stream=None,
            Event=None,
            is_available=lambda: True,
            device_count=lambda: len(sizes),
            get_device_properties=properties,
            mem_get_info=lambda device: (free(sizes[device.index]), sizes[device.index]),
            can_device_access_peer=reaches,
        )
        monkeypatch.setattr(torch, "get_device_module", lambda _: module)
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
        return module

    return there


def text_of(found):
    return "\n".join(lines(found))


def test_it_says_what_there_is(limited):
    limited(NOFILE=(5000, 6000), MEMLOCK=(1 << 20, 1 << 20))
    found = examine(TrainConfig())
    assert found.problems == []
    assert (found.host.open_files, found.host.open_files_most, found.host.memlock_bytes) == (5000, 6000, 1 << 20)
    assert found.host.memory_available_bytes <= found.host.memory_total_bytes
    versions = {each.name: each.version for each in found.versions}
    assert torch.__version__.startswith(versions["torch"])  # some wheels of PyPI leave out which build
    text = text_of(found)
    assert "  none: training computes on the CPU" in text
    assert "open files  5,000" in text
    assert "torch.utils.collect_env" in text
    assert text.endswith("nothing found that would keep training from working")
    assert json.loads(as_json(found))["host"]["open_files"] == 5000


def test_an_odd_host_is_described_too(limited, monkeypatch, tmp_path):
    limited(NOFILE=(resource.RLIM_INFINITY,) * 2, MEMLOCK=(resource.RLIM_INFINITY,) * 2)
    monkeypatch.setattr(limits, "ROOT", tmp_path)  # neither /proc nor control groups
    monkeypatch.setattr(host_state, "SHARED_MEMORY", tmp_path / "missing")
    monkeypatch.setattr(host_state.os, "cpu_count", lambda: None)
    monkeypatch.setattr(installed.metadata, "version", missing)
    found = examine(TrainConfig())
    host = found.host
    assert (host.open_files, host.memlock_bytes, host.shared_memory_bytes, host.cores.number) == (None,) * 4
    assert found.problems == [f"{name} is not installed; pip install {name}" for name in installed.NEEDED]
    text = text_of(found)
    assert "/dev/shm    none, none free" in text
    assert "pyarrow          not installed" in text


def missing(name):
    raise installed.metadata.PackageNotFoundError(name)


def test_accelerators_are_listed_with_what_they_reach(devices):
    devices(8 << 30, 4 << 30, reaches=lambda i, j: i < j)
    found = examine(TrainConfig())
    assert [(each.index, each.name, each.total_bytes, each.free_bytes) for each in found.accelerators] == [
        (0, "Card 0", 8 << 30, 6 << 30),
        (1, "Card 1", 4 << 30, 3 << 30),
    ]
    assert {(pair.index, pair.peer): pair.reaches for pair in found.peers} == {(0, 1): True, (1, 0): False}
    assert found.trainers == 2
    text = text_of(found)
    assert "  xpu:1  Card 1  4.0 GiB, 3.0 GiB free  reads the memory of: 0 no" in text
    says("\n".join(found.remarks), "through the host's")
    says(text, "note:, doctor, context")


def test_what_a_device_does_not_say_is_said_to_be_unknown(devices):
    def busy(_):
        raise RuntimeError("all devices are busy")

    module = devices(8 << 30, 8 << 30, free=busy)
    del module.can_device_access_peer
    found = examine(TrainConfig())
    assert {each.free_bytes for each in found.accelerators} == {None}
    assert {pair.reaches for pair in found.peers} == {None}
    assert "how much is free is not known  reads the memory of: 1 not known" in text_of(found)
    assert not any("through the host's" in remark for remark in found.remarks)


def test_small_limits_are_remarked_where_accelerators_want_more(devices, limited, monkeypatch, tmp_path):
    limited(MEMLOCK=(64 << 10,) * 2)
    monkeypatch.setattr(host_state, "SHARED_MEMORY", tmp_path / "missing")
    devices(8 << 30)
    alone = examine(TrainConfig()).remarks
    says("\n".join(alone), "64.0 KiB")
    assert not any(remark.startswith("/dev/shm") for remark in alone)
    devices(8 << 30, 8 << 30)
    says("\n".join(examine(TrainConfig()).remarks), "/dev/shm")


def test_cores_that_are_shared_are_remarked():
    host = host_state.host_state()
    few = replace(host, cores=replace(host.cores, allowed=8, quota=1.5, instruction_sets=("basic",)))
    first, second = diagnosis._remarks(few, [], [])
    says(first, "cgroups, 1.5 cores, 8 cores")
    says(second, "AVX2, AVX-512")
    enough = replace(host, cores=replace(host.cores, allowed=8, quota=8.0, instruction_sets=("avx2", "basic")))
    assert list(diagnosis._remarks(enough, [], [])) == []


@pytest.mark.parametrize("soft", [70, 8])
def test_too_few_open_files_are_a_problem(limited, monkeypatch, soft):
    limited(NOFILE=(soft, 4096))
    if soft == 8:  # as it is where not even the trainers' common memory can be opened
        monkeypatch.setattr(Shared, "create", no_more_files)
    with pytest.raises(InputError, match=line_with(f"{soft} files, 2 trainers, ulimit -n")):
        command(["--gpus", "2"])


def no_more_files(_):
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize("trainers", [1, 3])
def test_as_many_files_are_counted_as_a_launcher_opens(trainers):
    import psutil

    process = psutil.Process()
    before = process.num_fds()
    shared, supply = Shared.create(trainers), Supply(trainers)
    opened = process.num_fds() - before
    supply.close_ends()
    supply.end()
    shared.close()
    rest = most_open(trainers, 0, 0) - opened
    assert 64 <= rest <= 64 + 4 * trainers  # what else a process has, and the children's own pipes
    assert most_open(trainers, 2, 5) - most_open(trainers, 0, 0) == 5 + 2 * 4


def test_a_device_that_is_not_there_is_a_problem(capsys):
    kind = "xpu"
    if accelerator.find("auto")[0] == kind:
        pytest.skip("it is there")
    with pytest.raises(InputError, match=line_with("--device xpu, --device cpu")):
        command(["--device", kind])
    out = capsys.readouterr().out
    assert out.startswith("accelerators\n")
    says(out, "--device xpu")


def test_json_is_one_object(capsys):
    command(["--json", "--device", "cpu"])
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert found["host"]["cores"]["instruction_sets"][-1] == "basic"


def test_it_does_not_go_on_with_a_run():
    with pytest.raises(InputError, match=line_with("--resume run, LAYOUT")):
        command(["--resume", "run"])
