"""Mistakes that only hosts make: one line on each of them, exit code 2, and nothing is written."""

from __future__ import annotations

import pytest
from support.graphs import lay_out, random_graph
from support.hosts import FLAGS, TRAIN
from support.messages import says
from support.worlds import RUN_S

pytestmark = pytest.mark.slow
IMPATIENT = """
import runpy, sys
from datetime import timedelta
from gsplit.parallel import meeting

meeting.TIMEOUT = timedelta(seconds=5)
sys.argv = ["gsplit.train", *sys.argv[1:]]
runpy.run_module("gsplit.train", run_name="__main__")
"""
OTHER_RELEASE = """
import runpy, sys
import gsplit, torch

{module}.__version__ = "9.9.9"
sys.argv = ["gsplit.train", *sys.argv[1:]]
runpy.run_module("gsplit.train", run_name="__main__")
"""


def refused(world, run):
    """The last line on each host, of a run that was refused."""
    assert set(world.codes(RUN_S)) == {2}, world.told()
    assert not run.exists()
    assert "Traceback" not in world.told()
    return world.last_words()


def test_a_hostname_that_is_loopback_to_itself(make_hosts, start, layout, tmp_path):
    """As Debian writes /etc/hosts: host1 listens where host2 does not reach it."""
    names = {1: "127.0.1.1\thost1\n10.77.0.2\thost2\n"}
    hosts, run = make_hosts(2, names=names), tmp_path / "run"
    world = start(hosts, 1, [*TRAIN, layout, "--out", run, *FLAGS], {"MASTER_ADDR": "host1"})
    for line in refused(world, run):
        says(line, "host1, MASTER_ADDR host1, loopback, /etc/hosts")


def test_another_layout_on_one_host(make_hosts, start, layout, tmp_path):
    other = lay_out(random_graph(300, 10, seed=4), tmp_path / "others", parts=4).path
    hosts, run = make_hosts(2), tmp_path / "run"
    commands = [[*TRAIN, each, "--out", run, *FLAGS] for each in (layout, other)]
    for line in refused(start(hosts, 2, commands), run):
        says(line, f"host2, {other.name}, another layout, trainer 0")


@pytest.mark.parametrize(("module", "name"), [("gsplit", "GSplit"), ("torch", "PyTorch")])
def test_another_release_on_one_host(make_hosts, start, layout, tmp_path, module, name):
    script = tmp_path / "other.py"
    script.write_text(OTHER_RELEASE.format(module=module))
    hosts, run = make_hosts(2), tmp_path / "run"
    rest = [layout, "--out", run, *FLAGS]
    for line in refused(start(hosts, 1, [[*TRAIN, *rest], [TRAIN[0], script, *rest]]), run):
        says(line, f"host2, {name}, 9.9.9")


def test_four_trainers_beside_two(make_hosts, start, layout, tmp_path):
    hosts, run = make_hosts(2), tmp_path / "run"
    for line in refused(start(hosts, [4, 2], [*TRAIN, layout, "--out", run, *FLAGS]), run):
        says(line, "as many, every host must have")


def test_other_gpus_than_trainers(make_hosts, start, layout, tmp_path):
    hosts, run = make_hosts(2), tmp_path / "run"
    for line in refused(start(hosts, 1, [*TRAIN, layout, "--out", run, *FLAGS, "--gpus", "4"]), run):
        says(line, "--gpus, 4, 2 trainers")


def test_ranks_that_do_not_follow_one_another(make_hosts, start, layout, tmp_path):
    hosts, run = make_hosts(2), tmp_path / "run"
    places = [{"RANK": rank, "LOCAL_RANK": local} for rank, local in ((0, 0), (2, 1), (1, 0), (3, 1))]
    for line in refused(start(hosts, 2, [*TRAIN, layout, "--out", run, *FLAGS], places), run):
        says(line, "RANK, follow one another, torchrun")


def test_an_address_that_nobody_has(make_hosts, start, layout, tmp_path):
    hosts, run = make_hosts(2), tmp_path / "run"
    world = start(hosts, 1, [*TRAIN, layout, "--out", run, *FLAGS], {"MASTER_ADDR": "10.78.0.9"})
    for line in refused(world, run):
        says(line, "no way to MASTER_ADDR 10.78.0.9")


def test_an_address_where_nobody_answers(make_hosts, start, layout, tmp_path):
    script = tmp_path / "impatient.py"
    script.write_text(IMPATIENT)
    hosts, run = make_hosts(2), tmp_path / "run"
    command = [TRAIN[0], script, layout, "--out", run, *FLAGS]
    first, second = refused(start(hosts, 1, command, {"MASTER_ADDR": "10.77.0.9"}), run)
    says(first, "trainer 0, MASTER_ADDR, 10.77.0.9:*")
    says(second, "nobody answers, MASTER_ADDR, 10.77.0.9:*, firewall")


def test_predictions_at_a_place(make_hosts, start, layout, tmp_path):
    hosts, out = make_hosts(2), tmp_path / "predictions.npy"
    command = [TRAIN[0], "-m", "gsplit.predict", tmp_path / "run", layout, "--out", out]
    for line in refused(start(hosts, 1, command), out):
        says(line, "gsplit.predict, one process, torchrun has started 2")
