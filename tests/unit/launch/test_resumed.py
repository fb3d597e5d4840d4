"""A run goes on from what its folder holds when this process has it, not from what another has replaced since."""

from __future__ import annotations

import pytest
from support.graphs import lay_out, random_graph

from gsplit import TrainConfig
from gsplit.aside import InUse
from gsplit.config.train import save_configurations
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed, taken_up


@pytest.fixture
def saved(tmp_path):
    """The configuration of a run that has saved no more than that."""
    layout = lay_out(random_graph(30, 3), tmp_path, parts=2).path
    config = TrainConfig(layout=layout, out=tmp_path / "run", device="cpu", fan_out=(2,), gpus=2)
    config.out.mkdir()
    save_configurations(config.out, config, config, ())
    return config


def test_what_was_asked_before_is_looked_at_once(saved):
    config, before = taken_up(TrainConfig.resuming(saved.out, lr=0.1))
    assert (config.lr, config.gpus) == (0.1, 2)
    assert before.config == saved
    with pytest.raises(InputError, match=r"has no checkpoint\.json"):
        Resumed.checked(resolve(config), before)


def test_what_another_process_has_replaced_since_is_not_gone_on_with(saved):
    config, before = taken_up(TrainConfig.resuming(saved.out))
    save_configurations(saved.out, saved, saved, ())
    with pytest.raises(InUse, match=r"another process has gone on with .* since this one looked"):
        Resumed.checked(resolve(config), before)


def test_a_new_run_has_nothing_before(saved):
    assert taken_up(saved) == (saved, None)


@pytest.mark.parametrize(("gpus", "wanted"), [(2, None), (1, 1)])
def test_the_number_of_trainers_follows_another_layout(saved, tmp_path, gpus, wanted):
    other = tmp_path / "other"
    other.mkdir()
    layout = lay_out(random_graph(30, 3), other, parts=3).path
    assert taken_up(TrainConfig.resuming(saved.out, layout=layout, gpus=gpus))[0].gpus == wanted
