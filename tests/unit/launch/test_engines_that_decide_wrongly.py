"""What an engine of a user's decides is looked at before anything begins."""

from __future__ import annotations

import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with

from gsplit import TrainConfig
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made", "resolve"),
        ("NeedsArguments", "depth"),
        ("GivesNothing", "None, config.resolved"),
        ("DecidesNothing", "config.resolved"),
        ("UnevenGroups", "3, 2 trainers"),
        ("LargerGrid", "2 trainers, data 1 x split 3"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, name, message):
    layout = lay_out(random_graph(30, 3), tmp_path, parts=2).path
    with pytest.raises(InputError, match=line_with(f"--strategy support.engines:{name}", message)):
        resolve(TrainConfig(layout=layout, device="cpu", fan_out=(2,), strategy=f"support.engines:{name}"))


def test_settings_are_those_that_were_asked_for(tmp_path):
    layout = lay_out(random_graph(30, 3), tmp_path, parts=2).path
    run = resolve(TrainConfig(layout=layout, device="cpu", fan_out=(2,)))
    assert (run.config.split_group, run.settings["split_group"]) == (2, None)
    assert (run.settings["dropout"], run.settings["attention_dropout"]) == (0.5, None)
