"""``gsplit doctor`` where it is started once for each trainer: how hosts reach each other."""

from __future__ import annotations

import re

import pytest
from support.graphs import lay_out, random_graph
from support.hosts import TRAIN
from support.messages import says
from support.worlds import RUN_S

pytestmark = pytest.mark.slow
DOCTOR = (TRAIN[0], "-m", "gsplit.doctor")


def test_it_measures_the_wire_and_names_what_is_loopback(make_hosts, start, layout):
    names = {2: "10.77.0.1\thost1\n127.0.1.1\thost2\n"}
    hosts = make_hosts(2, delay_us=5000, mbit_per_s=200, names=names)
    world = start(hosts, 2, [*DOCTOR, layout])
    assert world.codes(RUN_S) == [0] * 4, world.told()
    said = world.said(0)
    says(said, "host2, trainers 2 to 3, eth0, 10.77.0.2, host1 and back")
    says(said, "note, host2, 127.0.1.1, MASTER_ADDR, /etc/hosts")
    says(said, "all have the layout with checksum")
    trip_ms, rate = re.search(r"([\d.]+) ms to host1 and back, ([\d.]+) MiB a second", said).groups()
    assert 10 <= float(trip_ms) < 40
    assert 5 < float(rate) < 24  # 200 Mbit are 23.8 MiB


def test_another_layout_is_found(make_hosts, start, layout, tmp_path):
    other = lay_out(random_graph(300, 10, seed=4), tmp_path / "others", parts=4).path
    world = start(make_hosts(2), 1, [[*DOCTOR, each] for each in (layout, other)])
    assert world.codes(RUN_S) == [2, 2], world.told()
    for line in world.last_words():
        says(line, f"host2, {other.name}, another layout")
