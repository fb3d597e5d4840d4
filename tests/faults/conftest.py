"""A layout to train on, and training commands that never outlive their test."""

from __future__ import annotations

import pytest
from support.commands import FLAGS, Command
from support.graphs import lay_out, random_graph

from gsplit.train import __main__ as training


@pytest.fixture(scope="session")
def layout(tmp_path_factory):
    """Of 2 parts: a leader and another trainer."""
    return lay_out(random_graph(800, 8, seed=6), tmp_path_factory.mktemp("faults"), parts=2)


@pytest.fixture
def train(tmp_path):
    """Starts a training command; whatever still runs when the test is over, passed or failed, is killed."""
    started = []

    def start(*arguments, **options) -> Command:
        started.append(Command(tmp_path / f"tmp-{len(started)}", list(arguments), **options))
        return started[-1]

    yield start
    for command in started:
        command.kill()


@pytest.fixture(scope="session")
def train_here(in_pool):
    """Trains with the pool's trainers: runs that nobody hurts, and those that were hurt until they end."""

    def train(*arguments) -> None:
        with in_pool():
            training.command([*map(str, arguments), "--samplers", "0"])

    return train


@pytest.fixture(scope="session")
def undisturbed(layout, train_here, tmp_path_factory):
    """The folder of a run that nobody hurt."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    train_here(layout.path, "--out", run, *FLAGS)
    return run
