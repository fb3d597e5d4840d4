"""Hosts that are namespaces of this machine, and trainers on them."""

from __future__ import annotations

import pytest
from support.graphs import lay_out, random_graph
from support.worlds import World, need_hosts

from experiments.hosts.namespaces import Hosts


@pytest.fixture(scope="session")
def layout(tmp_path_factory):
    return lay_out(random_graph(300, 10, seed=3), tmp_path_factory.mktemp("layouts"), parts=4).path


@pytest.fixture
def make_hosts(tmp_path, layout):
    """make_hosts(number, ...): hosts that see the test's folder and the layout; ended when the test is over."""
    need_hosts()
    made = []

    def make(number, **options) -> Hosts:
        made.append(Hosts(number, tmp_path, kept=[layout.parent], **options))
        return made[-1]

    yield make
    for hosts in made:
        hosts.close()


@pytest.fixture
def start(tmp_path):
    """start(hosts, here, command): trainers, which are ended when the test is over."""
    worlds = []

    def started(hosts, here, command, environ=None) -> World:
        worlds.append(World(hosts, here, tmp_path, command, environ or {}))
        return worlds[-1]

    yield started
    for world in worlds:
        world.end()
