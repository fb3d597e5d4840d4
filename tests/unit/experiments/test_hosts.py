"""Epochs over several hosts: what each host starts, what is made of what runs gave, and a small run of all."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.documents import undocumented
from support.libraries import needs_dgl
from support.worlds import need_hosts

from experiments.baselines.pyg_forms import DRAWN, GIVEN, LOADER, forms
from experiments.baselines.workload import STAGES, Epoch, Order, Outcome
from experiments.hosts import systems
from experiments.hosts.__main__ import InRound, command, ratio_rows, run_rows, system_rows
from experiments.hosts.config import SYSTEMS, HostsConfig
from experiments.hosts.systems import Graph, Ran, missing, processes_of, setting_of

CONFIG = HostsConfig(trainers=2, batch_size=64, fan_out=(4, 3), dgl_samplers=1)


class TwoHosts(list):
    """As far as commands need them."""

    hosts = property(list)


@pytest.fixture
def started(tmp_path):
    """started(system): the processes of two hosts with two trainers each."""
    hosts = TwoHosts(SimpleNamespace(address=f"10.77.0.{number}") for number in (1, 2))
    graph = Graph(store=Path("store"), layout=Path("layout"), parts=Path("parts/graph.json"))
    return lambda name: processes_of(name, CONFIG, graph, tmp_path, hosts)


def places(processes):
    keys = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    return [(each.host, *(each.environment[key] for key in keys)) for each in processes]


PLACES = [
    (0, "0", "0", "2", "4", "0", "10.77.0.1"),
    (0, "1", "1", "2", "4", "0", "10.77.0.1"),
    (1, "2", "0", "2", "4", "1", "10.77.0.1"),
    (1, "3", "1", "2", "4", "1", "10.77.0.1"),
]


@pytest.mark.parametrize(("name", "over"), [("gsplit", False), ("gsplit-over", True)])
def test_our_trainers_are_started_as_by_torchrun(started, name, over):
    processes = started(name)
    assert places(processes) == PLACES
    words = processes[0].command
    assert words[1:4] == ["-m", "gsplit.train", "layout"]
    assert words[words.index("--fan-out") + 1] == "4,3"
    assert (words[-2:] == ["--split-group", "4"]) == over
    assert "GLOO_SOCKET_IFNAME" not in processes[0].environment


def test_pyg_has_a_process_a_trainer(started, tmp_path):
    processes = started("pyg")
    assert places(processes) == PLACES
    assert {each.environment["GLOO_SOCKET_IFNAME"] for each in processes} == {"eth0"}
    order = Order.read(tmp_path)
    assert (order.system, order.setting.form, order.workload.share) == ("pyg", DRAWN, 16)


def test_pygs_loader_runs_where_it_samples(monkeypatch):
    assert (missing("pyg-loader") is None) == (forms() != (GIVEN,))
    monkeypatch.setattr(systems, "forms", lambda: (LOADER,))
    assert missing("pyg-loader") is missing("pyg") is missing("gsplit") is None
    assert setting_of("pyg-loader", CONFIG).form == LOADER
    monkeypatch.setattr(systems, "forms", lambda: (GIVEN,))
    assert "torch-sparse" in missing("pyg-loader")


def test_distdgl_has_a_server_a_host_beside_its_trainers(started, tmp_path):
    servers, trainers = started("distdgl")[:2], started("distdgl")[2:]
    assert places(trainers) == PLACES
    roles = [(each.host, each.environment["DGL_ROLE"], each.awaited) for each in (*servers, *trainers)]
    assert roles == [(0, "server", False), (1, "server", False)] + [(at, "client", True) for at in (0, 0, 1, 1)]
    assert [each.environment["DGL_SERVER_ID"] for each in servers] == ["0", "1"]
    assert trainers[0].environment["DGL_NUM_CLIENT"] == "8"  # a trainer and its sampler, four times
    assert (tmp_path / "addresses").read_text() == "10.77.0.1 30050\n10.77.0.2 30050\n"


def ran(seconds, sampling=0.0):
    epochs = [
        Epoch(
            seconds=each,
            stages=dict.fromkeys(STAGES, 0.0) | {"sampling": sampling},
            edges=10,
            input_rows=5,
            loaded_bytes=20,
            reduced_bytes=8,
            loss=each,
        )
        for each in seconds
    ]
    return Ran(outcome=Outcome(epochs=epochs), sent_bytes=400, wire_s=2.0)


def test_rows_are_medians_without_the_first_epoch_and_ratios_are_by_round():
    of_rounds = [([9, 1, 3], [9, 4, 4]), ([9, 1, 1], [9, 3, 3]), ([9, 4, 4], [9, 4, 4])]
    rounds = [
        {
            name: InRound(ran=each, calibration_s=1.0)
            for name, each in (("gsplit", ran(own)), ("pyg", ran(other, 1.0)))
        }
        for own, other in of_rounds
    ]
    ours, pyg = system_rows(rounds)
    assert (ours["system"], ours["epoch_s"], pyg["epoch_s"], pyg["sampling_s"]) == ("gsplit", 2, 4, 1)
    assert (ours["edges"], ours["sent_bytes"], ours["wire_s"], ours["loss"]) == (10, 400 / 3, 2 / 3, 3)
    (ratio,) = ratio_rows(rounds)
    assert (ratio["system"], ratio["ratio"], ratio["ratio_min"], ratio["ratio_max"]) == ("pyg", 2, 1, 3)
    assert (ratio["ratio_without_sampling"], ratio["quiet_ratio"], ratio["rounds"]) == (1.5, 2, 3)
    assert [(row["round"], row["system"]) for row in run_rows(rounds)[:2]] == [(0, "gsplit"), (0, "pyg")]
    assert undocumented("Systems on several hosts", {*pyg, *ratio, *run_rows(rounds)[0]}) == []


@needs_dgl
@pytest.mark.slow
def test_all_systems_train_on_two_hosts(tmp_path):
    need_hosts()
    command(["--quick", "--work", str(tmp_path / "work"), "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    assert undocumented("Systems on several hosts", result) == []
    rows = {row["system"]: row for row in result["systems"]}
    assert list(rows) == [name for name in SYSTEMS if missing(name) is None]
    assert [row["system"] for row in result["ratios"]] == [name for name in rows if name != "gsplit"]
    # Ours and PyG have the same mini-batches; DistDGL deals targets by its parts.
    assert rows["pyg"]["edges"] == rows["gsplit"]["edges"]
    assert rows["pyg"]["input_rows"] == rows["gsplit"]["input_rows"]
    assert rows["distdgl"]["edges"] == pytest.approx(rows["gsplit"]["edges"], rel=0.1)
    assert rows["gsplit-over"]["edges"] < rows["gsplit"]["edges"]
    assert rows["gsplit-over"]["sent_bytes"] > rows["gsplit"]["sent_bytes"]
    counted = ("between_hosts_reduce_bytes", "between_hosts_exchange_bytes")
    assert [rows["gsplit"][name] > 0 for name in counted] == [True, False]
    assert [rows["gsplit-over"][name] > 0 for name in counted] == [True, True]
    losses = [row["loss"] for row in rows.values()]
    assert max(losses) < 1.1 * min(losses)
