"""A run goes on from what its folder holds when this process has it, not from what another has replaced since."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with, says

from gsplit import TrainConfig
from gsplit.atomic_folder import InUse
from gsplit.config.train import save_configurations
from gsplit.data import open_layout
from gsplit.errors import InputError
from gsplit.launch.effects import warn
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed, resume_config


@pytest.fixture
def saved(tmp_path):
    """The configuration of a run that has saved no more than that."""
    layout = lay_out(random_graph(30, 3), tmp_path, parts=2).path
    config = TrainConfig(layout=layout, out=tmp_path / "run", device="cpu", fan_out=(2,), gpus=2)
    config.out.mkdir()
    save_configurations(config.out, config, config, ())
    return config


def test_what_was_asked_before_is_looked_at_once(saved):
    config, before = resume_config(TrainConfig.resuming(saved.out, lr=0.1))
    assert (config.lr, config.gpus) == (0.1, 2)
    assert before.config == saved
    with pytest.raises(InputError, match=line_with("checkpoint.json")):
        Resumed.checked(resolve(config), before)


def test_what_another_process_has_replaced_since_is_not_gone_on_with(saved):
    config, before = resume_config(TrainConfig.resuming(saved.out))
    save_configurations(saved.out, saved, saved, ())
    with pytest.raises(InUse, match=line_with("run")):
        Resumed.checked(resolve(config), before)


GRID = {"strategy": "full", "fan_out": (-1,), "algorithm": "auto", "grid": (2, 1, 1)}


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        (GRID, {"algorithm": "columns"}, {"grid": None}),
        (GRID, {"gpus": 1}, {"grid": None}),
        (GRID, {"algorithm": "3d"}, {"grid": (2, 1, 1)}),
        (GRID, {"grid": (1, 1, 2)}, {"grid": (1, 1, 2)}),
        ({**GRID, "algorithm": "1.5d", "grid": None, "replication": 2}, {"algorithm": "2d"}, {"replication": None}),
        ({**GRID, "algorithm": "1.5d", "grid": None, "replication": 2}, {"gpus": 1}, {"replication": None}),
        ({**GRID, "algorithm": "1.5d", "grid": None, "replication": 2}, {"lr": 0.1}, {"replication": 2}),
    ],
)
def test_a_plan_of_before_gives_way(saved, caplog, before, now, wanted):
    config = replace(saved, **before)
    save_configurations(saved.out, config, config, ())
    config, _ = resume_config(TrainConfig.resuming(saved.out, **now))
    assert {name: getattr(config, name) for name in wanted} == wanted
    said = [record.message for record in caplog.records]
    for line, (name, _) in zip(said, ((name, value) for name, value in wanted.items() if value is None), strict=True):
        says(line, f"--{name}")
    resolve(config)


def test_a_grid_that_is_given_now_has_to_fit(saved):
    config = replace(saved, **GRID)
    save_configurations(saved.out, config, config, ())
    config, _ = resume_config(TrainConfig.resuming(saved.out, grid=(2, 2, 1)))
    with pytest.raises(InputError, match=line_with("--grid, 2,2,1, 4 trainers, 2")):
        resolve(config)


def test_flags_of_another_plan_are_told(saved, caplog):
    """A run that goes on is not refused them: they may be those of before."""
    config = replace(saved, **GRID)
    save_configurations(saved.out, config, config, ())
    useless = {"permutation": "single", "row_blocks": 3, "exchange_dtype": "bfloat16"}
    config, _ = resume_config(TrainConfig.resuming(saved.out, **useless, algorithm="shared"))
    warn(resolve(config))
    flags = ("--permutation single", "--row-blocks, 3", "--exchange-dtype, bfloat16")
    for line, flag in zip(caplog.messages, flags, strict=True):
        says(line, flag, "--algorithm shared")
    caplog.clear()
    warn(resolve(replace(config, algorithm="1d", permutation="double", row_blocks=1)))
    assert not caplog.records


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (GRID, {"fan_out": (3,)}, "3"),
        (GRID, {"fan_out": (3, 2)}, "3,2"),
        ({}, {"strategy": "full"}, "2"),
        (GRID, {"fan_out": (-1,)}, None),
        (GRID, {}, None),
    ],
)
def test_a_fan_out_that_says_nothing_is_told(saved, caplog, before, now, said):
    config = replace(saved, **before)
    save_configurations(saved.out, config, config, ())
    config, _ = resume_config(TrainConfig.resuming(saved.out, **now))
    layers = len(now.get("fan_out", (2,)))
    assert config.fan_out == (-1,) * layers
    assert len(caplog.messages) == (said is not None)
    if said is not None:
        says(caplog.text, f"--fan-out, {said}, --strategy full, {layers} layers")


def test_another_number_of_layers_is_another_model(saved):
    """On the whole graph, where a fan-out says nothing."""
    config = replace(saved, **GRID)
    save_configurations(saved.out, config, config, ())
    assert TrainConfig.resuming(saved.out, num_layers=3).layers == 3


def test_a_new_run_has_nothing_before(saved):
    assert resume_config(saved) == (saved, None)


@pytest.mark.parametrize(("gpus", "wanted"), [(2, None), (1, 1)])
def test_the_number_of_trainers_follows_another_layout(saved, tmp_path, gpus, wanted):
    other = tmp_path / "other"
    other.mkdir()
    layout = lay_out(random_graph(30, 3), other, parts=3).path
    assert resume_config(TrainConfig.resuming(saved.out, layout=layout, gpus=gpus))[0].gpus == wanted


HOSTS = {"trainers": 4, "threads": 1, "hosts": 2, "batch": 3, "layout_checksum": ""}
"""What a checkpoint says that was written in the middle of an epoch, on two hosts of two trainers."""


def on_hosts(saved, hosts, gpus, **flags):
    """The run of :data:`HOSTS` as it is to go on."""
    before = replace(saved, gpus=4, threads=1, precision="32", **flags)
    run = resolve(replace(before, gpus=gpus), hosts=hosts)
    return Resumed(run=run, before=before, checkpoint=HOSTS), open_layout(run.layout)


@pytest.mark.parametrize(
    ("hosts", "gpus", "wanted"),
    [
        (2, 4, None),
        (2, 2, "2 trainers instead of 4, last digits"),
        (4, 4, "4 hosts instead of 2, other micro-batches"),
        (1, 2, "2 trainers instead of 4, other micro-batches"),
        (3, 6, "6 trainers instead of 4, other micro-batches"),
    ],
)
def test_other_numbers_of_hosts_are_told(saved, caplog, hosts, gpus, wanted):
    resumed, _ = on_hosts(saved, hosts, gpus)
    caplog.clear()
    resumed.warn_of_changes()
    assert caplog.text.count("resuming with") == (wanted is not None)
    if wanted is not None:
        says(caplog.text, wanted)


SETS = {"sampling": "uniform", "subgraph": 10, "num_layers": 2, "fan_out": TrainConfig.fan_out}


@pytest.mark.parametrize(("hosts", "gpus", "goes"), [(2, 2, True), (1, 2, False), (3, 3, False)])
def test_sets_of_groups_stay_within_an_epoch(saved, hosts, gpus, goes):
    resumed, layout = on_hosts(saved, hosts, gpus, **SETS)
    if goes:
        resumed._check_same_epoch(layout)
        return
    with pytest.raises(InputError, match=line_with("middle of an epoch, the number of split groups, must stay 2")):
        resumed._check_same_epoch(layout)


@pytest.mark.parametrize(("grid", "goes"), [((2, 1, 1), True), ((1, 2, 2), False)])
def test_sets_of_grids_stay_within_an_epoch(saved, grid, goes):
    before = replace(saved, gpus=4, grid=(1, 1, 2), **SETS)
    run = resolve(replace(before, grid=grid))
    resumed = Resumed(run=run, before=before, checkpoint={**HOSTS, "hosts": 1})
    if goes:
        resumed._check_same_epoch(open_layout(run.layout))
        return
    with pytest.raises(InputError, match=line_with("middle of an epoch, the number of split groups, must stay 2")):
        resumed._check_same_epoch(open_layout(run.layout))
