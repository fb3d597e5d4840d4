"""What the processes of trainers are started with."""

from __future__ import annotations

import os

import pytest
from support.runs import config_for

import gsplit

NAME = "OMP_WAIT_POLICY"


class Started(Exception):
    """In place of trainers."""


def test_idle_threads_sleep_unless_the_user_says_otherwise(layouts, tmp_path, monkeypatch):
    seen = []

    def start(*_, **__):
        seen.append(os.environ.get(NAME))
        raise Started

    monkeypatch.setattr("gsplit.launch.start.start", start)
    monkeypatch.delenv(NAME, raising=False)
    config = config_for(layouts(2).path, tmp_path / "run", gpus=2, samplers=0)
    with pytest.raises(Started):
        gsplit.train(config=config)
    assert NAME not in os.environ
    monkeypatch.setenv(NAME, "ACTIVE")
    with pytest.raises(Started):
        gsplit.train(config=config)
    assert seen == ["PASSIVE", "ACTIVE"]
