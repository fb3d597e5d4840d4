"""Predicted epochs: by hand on a tiny case, no slower with faster devices, and hosts that are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.documents import undocumented
from support.messages import line_with

from experiments.model_host import __main__ as model_host
from experiments.model_host import measured, rates
from experiments.model_host.__main__ import ModelHostConfig, predicted
from experiments.model_host.counts import Counted, LayerCount, Strategy, TrainerCount
from experiments.model_host.layers import Layer, layers_of
from experiments.model_host.model import (
    bytes_between,
    exchange_seconds,
    load_seconds,
    near_and_far,
    predict,
    reduce_seconds,
)
from experiments.model_host.pipeline import end_times, steady_seconds
from experiments.shared.traffic import Loads, NoCache
from gsplit.errors import InputError

NEITHER = {"gpus", "gpus_per_bus", "samplers", "cores"}


def figure(value, unit):
    return {"value": value, "unit": unit, "source": "made up"}


TABLES = {
    "name": "two devices",
    "gpus": figure(2, "GPUs"),
    "device_memory": figure(1, "GB/s"),
    "device_flops": figure(1000, "GFLOP/s"),
    "operation_latency": figure(1, "us"),
    "host_bus": figure(100, "MB/s"),
    "gpus_per_bus": figure(1, "GPUs"),
    "copy_latency": figure(2, "us"),
    "host_memory": figure(1, "TB/s"),
    "peer_pair": figure(10, "MB/s"),
    "peer_device": figure(10, "MB/s"),
    "message_latency": figure(3, "us"),
    "peer_read": figure(20, "MB/s"),
    "samplers": figure(1, "samplers"),
    "sampling": figure(1, "M edges/s"),
}
HOST = rates.host_of(TABLES)


def host_with(**changes):
    """The tiny host with figures changed: a number, or a whole table."""
    return rates.host_of({**TABLES, **{key: {**TABLES.get(key, {}), **table} for key, table in changes.items()}})


def trainer(sent, received, *, edges=4, loads=None, segment_bytes=1000):
    """A trainer of two with one layer of 3 destinations and 5 own sources."""
    layer = LayerCount(destinations=3, own_sources=5, edges=edges, sent_rows=sent, received_rows=received)
    return TrainerCount(layers=(layer,), segment_bytes=segment_bytes, loads=loads or Loads(host_rows=5))


TWO = (trainer((0, 2), (0, 1)), trainer((1, 0), (2, 0), edges=10))
SAGE = layers_of("sage", [8, 2], 1)


def counted(mini_batches, *, name="GSplit", group=2):
    strategy = Strategy(name=name, cache_percent=0, group=group, placement="splits", cache=NoCache())
    return Counted(strategy=strategy, mini_batches=tuple(mini_batches))


def test_a_tiny_epoch_by_hand():
    """One layer of SAGE, 8 -> 2 columns: rows are projected first, 2 columns are sent and gradients come back."""
    made = predict(counted([TWO]), SAGE, HOST, row_bytes=32, epochs=1)
    # Forward: product of 5 rows, packing, sum over edges, product of 3 rows, join. Bytes over 1 GB/s, 1 us each.
    forward = [5 * 10 * 4 + 2 * 1 * 2 * 4, (10 + 3) * 2 * 4 + 10 * 4, 3 * 10 * 4, 3 * 3 * 2 * 4]
    # Backward: join, weight of the own rows, sum the other way over 5 + 2 sources, received gradients, weight.
    backward = [3 * 3 * 2 * 4, 3 * 10 * 4, (10 + 7) * 2 * 4 + 10 * 4, 3 * 1 * 2 * 4, 5 * 10 * 4]
    assert made.compute_s == pytest.approx((sum(forward) + sum(backward)) * 1e-9 + 10e-6)
    # Trainer 0 sends most: 2 rows of 2 float32 over 10 MB/s; the same back.
    assert made.exchange_s == pytest.approx(2 * (3e-6 + 2 * 8 / 10e6))
    # 2 x 8 x 2 weights, 2 biases, the loss; half of it in each of 2 steps.
    assert made.reduce_s == pytest.approx(2 * (3e-6 + 4 * (32 + 2 + 1) / 2 / 10e6))
    assert made.load_s == pytest.approx(2 * 2e-6 + (1000 + 5 * 32) / 100e6)
    assert made.sample_s == pytest.approx(14e-6)
    assert made.in_sequence_s == pytest.approx(made.load_s + made.compute_s + made.exchange_s + made.reduce_s)
    assert made.load_share == pytest.approx(made.load_s / made.in_sequence_s)
    # Loading is behind computing, or computing behind loading; sampling behind both.
    training_s = made.compute_s + made.exchange_s + made.reduce_s
    assert made.epoch_s == pytest.approx(max(14e-6, made.load_s, training_s))
    halved = predict(counted([TWO]), SAGE, HOST, row_bytes=32, epochs=0.5)
    assert halved.epoch_s == pytest.approx(2 * made.epoch_s)


def test_loading_by_hand():
    """A cached row is read and written on the device; peers are read at one rate; two devices share a bus."""
    loads = Loads(hit_rows=7, peer_rows=3, host_rows=0)
    here = load_seconds([trainer((0, 0), (0, 0), loads=loads)], HOST, 32)
    assert here == [pytest.approx(2e-6 + 1000 / 100e6 + 1e-6 + 3 * 32 / 20e6 + 1e-6 + 2 * 7 * 32 / 1e9)]
    shared = load_seconds(TWO, host_with(gpus_per_bus={"value": 2}), 32)
    assert shared == [pytest.approx(4e-6 + 1160 / 50e6)] * 2
    bounded = load_seconds(TWO, host_with(host_memory={"value": 10, "unit": "MB/s"}), 32)
    assert bounded == [pytest.approx(4e-6 + 2 * 1160 / 10e6)] * 2


def test_a_group_waits_for_its_slowest_and_others_do_not():
    """Without splitting a trainer has its own sum; with it the slower of each way counts."""
    alone = [predict(counted([(one,)], group=1), SAGE, HOST, row_bytes=32, epochs=1) for one in TWO]
    apart = predict(counted([TWO], group=1), SAGE, HOST, row_bytes=32, epochs=1)
    assert apart.exchange_s == 0
    assert apart.compute_s == pytest.approx(max(one.compute_s for one in alone))
    assert [one.reduce_s for one in alone] == [0, 0]


def test_exchange_is_bound_by_a_pair_or_by_a_device():
    three = [
        LayerCount(destinations=1, own_sources=9, edges=1, sent_rows=sent, received_rows=received)
        for sent, received in (((0, 5, 4), (0, 0, 2)), ((0, 0, 0), (5, 0, 0)), ((2, 0, 0), (4, 0, 0)))
    ]
    fast_device = host_with(peer_device={"value": 100})
    assert exchange_seconds(three, 2, fast_device) == pytest.approx(3e-6 + 5 * 8 / 10e6)
    assert exchange_seconds(three, 2, HOST) == pytest.approx(3e-6 + 9 * 8 / 10e6)
    nothing = replace(three[1], received_rows=(0, 0, 0))
    assert exchange_seconds([nothing], 2, HOST) == pytest.approx(3e-6)  # all enter the exchange


@pytest.mark.parametrize("model", ["sage", "gat", "gcn"])
def test_what_is_sent_and_learned(model):
    layers = layers_of(model, [8, 16, 4], 4)
    widths = {"sage": [8, 4], "gcn": [8, 4], "gat": [16, 4]}[model]
    assert [layer.message_width for layer in layers] == widths
    assert [layer.returns for layer in layers] == [model == "gat", True]
    assert [layer.heads for layer in layers] == ([4, 1] if model == "gat" else [1, 1])
    from gsplit.nn import GAT, GCN, SAGE

    made = {"sage": SAGE, "gat": GAT, "gcn": GCN}[model](8, 16, 4, num_layers=2)
    assert sum(layer.parameters for layer in layers) == sum(p.numel() for p in made.parameters())


def test_features_want_no_gradient():
    """A first layer that sums features as they are has no sum in backward, and no gradient of rows."""
    count = TWO[0].layers[0]
    first, later = (Layer(model="sage", number=number, width_in=2, width_out=8) for number in (1, 2))
    assert len(first.backward(count)) == 3  # join and two weights
    assert len(later.backward(count)) == 1 + 2 + 2 + 1 + 1  # also two gradients of rows, the sum, what was received


def test_pipeline():
    """While one mini-batch is computed the next is loaded, not the one after it."""
    assert end_times([1, 1, 1], [[2], [2], [2]], [10, 10, 10], samplers=3) == [13, 23, 33]
    # The slower trainer's load counts, and each load begins after the one before it.
    assert end_times([0, 0], [[1, 5], [1, 5]], [1, 1], samplers=1) == [6, 11]
    # Mini-batch 2 is not loaded before mini-batch 0 is computed.
    assert end_times([0, 0, 0], [[1], [1], [50]], [10, 10, 10], samplers=1) == [11, 21, 71]
    # One sampler takes its time; two share it.
    for samplers, seconds in ((1, 40), (2, 20)):
        assert steady_seconds([10] * 4, [[1]] * 4, [1] * 4, samplers=samplers) == pytest.approx(seconds)
    # Also where an epoch has fewer mini-batches than there are samplers.
    assert steady_seconds([12, 12], [[1]] * 2, [1] * 2, samplers=8, averaged=8) == pytest.approx(3)
    assert steady_seconds([1], [[2]], [3], samplers=1) == 3
    assert steady_seconds([1], [[3]], [2], samplers=1) == 3
    # No more mini-batches are under way than slots (4 here): the sampler waits for the slow trainers.
    assert end_times([0] * 4 + [5], [[0]] * 5, [100] * 5, samplers=1)[-1] == 500


BINDING = {
    "host_memory": {"host_memory": {"value": 1e-5}},
    "device_flops": {"device_flops": {"value": 1e-3}},
    "peer_pair": {"peer_device": {"value": 1000}},
    "peer_device": {"peer_pair": {"value": 1000}},
}
"""Rates that bind only where others are good enough, or they themselves are bad."""


@pytest.mark.parametrize("key", sorted({*TABLES} - {"name"} - NEITHER))
def test_a_faster_device_is_not_slower(key, layouts):
    config = ModelHostConfig(
        batch_size=50, fan_out=(4, 3, 2), hidden=8, cache=(0, 10), iterations=2, model="gat", heads=2
    )
    host = host_with(gpus={"value": 4}, **BINDING.get(key, {}))
    figure = getattr(host, key)
    better = replace(figure, value=figure.value * (0.5 if figure.unit == "us" else 2))
    before, after = (
        predicted(layouts(4), config, each)["predictions"] for each in (host, replace(host, **{key: better}))
    )
    assert len(before) == 9  # DGL; PaGraph, Quiver, GSplit and groups of 2 with both sizes
    pairs = [
        (row[time], faster_row[time])
        for row, faster_row in zip(before, after, strict=True)
        for time in ("epoch_s", "in_sequence_s", "sample_s", "load_s", "compute_s", "exchange_s", "reduce_s")
    ]
    assert all(faster <= slower * (1 + 1e-9) for slower, faster in pairs)  # sums are rounded
    assert any(faster < slower * (1 - 1e-9) for slower, faster in pairs)


def test_shared_cores_take_all_the_seconds_of_all():
    """Two trainers, a feed each and a sampler on one core take turns."""
    one_core = host_with(cores=figure(1, "cores"))
    made = predict(counted([TWO]), SAGE, one_core, row_bytes=32, epochs=1)
    loads = sum(load_seconds(TWO, one_core, 32))
    training_s = made.compute_s + made.exchange_s + reduce_seconds(SAGE, one_core, trainers=2)
    assert made.epoch_s == pytest.approx(14e-6 + loads + 2 * training_s)
    many = predict(counted([TWO]), SAGE, host_with(cores=figure(100, "cores")), row_bytes=32, epochs=1)
    assert many.epoch_s == pytest.approx(predict(counted([TWO]), SAGE, HOST, row_bytes=32, epochs=1).epoch_s)


CARD = {"nic": figure(16, "Mbit/s"), "nic_latency": figure(5, "us")}


def test_an_exchange_over_hosts_is_bound_by_the_card_or_inside():
    """Two hosts of two: trainer 0 sends 1 row to its own host and 2 + 3 to the other; nobody else sends."""
    none = (0, 0, 0, 0)
    ways = [((0, 1, 2, 3), none), (none, (1, 0, 0, 0)), (none, (2, 0, 0, 0)), (none, (3, 0, 0, 0))]
    four = [
        LayerCount(destinations=1, own_sources=9, edges=1, sent_rows=sent, received_rows=received)
        for sent, received in ways
    ]
    assert near_and_far([count.sent_rows for count in four], 2) == ([(0, 1), (0, 0), (0, 0), (0, 0)], [5, 0])
    host = host_with(**CARD)
    assert exchange_seconds(four, 2, host, 2) == pytest.approx(5e-6 + 5 * 8 / 2e6)
    fast = host_with(**CARD | {"nic": figure(16, "Gbit/s")}, peer_pair=figure(1, "MB/s"))
    assert exchange_seconds(four, 2, fast, 2) == pytest.approx(3e-6 + 1 * 8 / 1e6)
    # Gradients: summed within hosts first, then half of them sent by each host, twice.
    gradients = 4 * (32 + 2 + 1)
    inside_s = 2 * (3e-6 + gradients / 2 / 10e6)
    assert reduce_seconds(SAGE, host, trainers=2, hosts=2) == pytest.approx(
        inside_s + 2 * (5e-6 + gradients / 2 / 2e6)
    )
    four_counts = counted([tuple(TrainerCount(layers=(count,), segment_bytes=0) for count in four)], group=4)
    assert bytes_between(four_counts, SAGE, 2) == (2 * (gradients + 4), 5 * 2 * 4 * 2)
    assert bytes_between(counted(four_counts.mini_batches, group=2), SAGE, 2) == (2 * (gradients + 4), 0)


def test_over_hosts_the_slower_host_counts():
    host = host_with(**CARD)
    alone = [predict(counted([(one,)], group=1), SAGE, host, row_bytes=32, epochs=1) for one in TWO]
    both = predict(counted([TWO], group=1), SAGE, host, row_bytes=32, epochs=1, hosts=2)
    assert both.sample_s == pytest.approx(10e-6)  # each samples its own
    assert both.compute_s == pytest.approx(max(one.compute_s for one in alone))
    assert both.reduce_s == pytest.approx(reduce_seconds(SAGE, host, trainers=1, hosts=2))
    assert both.load_s == pytest.approx(max(one.load_s for one in alone))


def test_hosts_in_three_ways(layouts, tmp_path, capsys):
    path = tmp_path / "out.json"
    flags = ["--hosts", "2", "--gpus", "2", "--fan-out", "4,3", "--batch-size", "50", "--cache", "0,10"]
    model_host.command(["--dataset", str(layouts(4).path), "--host", "p3.8xlarge", *flags, "--json", str(path)])
    result = json.loads(path.read_text())
    assert undocumented("Hosts", {*result, *result["hosts"][0]}) == []
    rows = {(row["hosts"], row["batch"], row["cache_percent"]): row for row in result["hosts"]}
    assert list(rows) == [(1, "-", 0), (1, "-", 10)] + [
        (2, way, cache) for way in ("grown", "held", "over") for cache in (0, 10)
    ]
    one, grown, held, over = (rows[key] for key in list(rows)[::2])
    assert [row["steps"] for row in (grown, held, over)] == [-(-one["steps"] // 2), one["steps"], one["steps"]]
    assert one["speedup"] == 1
    # One mini-batch over all computes what one host does; shares of it, each cut from the same targets, compute more.
    assert (over["edges"], over["needed_rows"]) == (one["edges"], one["needed_rows"])
    assert held["edges"] > one["edges"]
    assert one["between_hosts_reduce_bytes"] == one["between_hosts_exchange_bytes"] == 0
    assert grown["between_hosts_exchange_bytes"] == held["between_hosts_exchange_bytes"] == 0
    assert over["between_hosts_exchange_bytes"] > 0
    assert held["between_hosts_reduce_bytes"] == over["between_hosts_reduce_bytes"] > 0
    assert rows[2, "over", 10]["host_rows"] < over["host_rows"] == over["needed_rows"]
    faster = model_host.measure(ModelHostConfig(**config_of(layouts, nic_gbit=100)))["hosts"]
    slower = model_host.measure(ModelHostConfig(**config_of(layouts, nic_gbit=1)))["hosts"]
    assert [a["epoch_s"] < b["epoch_s"] for a, b in zip(faster, slower, strict=True)] == [False, True, True, True]


def config_of(layouts, **changes):
    about = {"dataset": str(layouts(4).path), "gpus": 2, "hosts": (2,), "fan_out": (4, 3), "batch_size": 50}
    return {**about, "cache": (0,), **changes}


def test_hosts_without_a_card_are_refused(layouts, monkeypatch):
    monkeypatch.setattr(model_host, "open_host", lambda _: HOST)
    with pytest.raises(InputError, match=line_with("two devices, nic, --nic-gbit")):
        model_host.measure(ModelHostConfig(**config_of(layouts)))
    with pytest.raises(InputError, match=line_with("nic, nic_latency")):
        host_with(nic=figure(1, "Gbit/s"))


@pytest.mark.parametrize("name", rates.NAMES)
def test_hosts_of_the_project(name):
    host = rates.open_host(name)
    assert host.gpus.rate in (4, 8)
    assert (host.peer_read is None) == (name == "4x3090ti-pcie3")
    assert 0.1e12 < host.device_memory.rate < host.device_flops.rate
    figures = host.figures().values()
    assert all(len(figure.source) > 5 for figure in figures)
    # A share that is not documented says so.
    shares = [figure.source for figure in figures if figure.reached != 1]
    assert all("assumed" in source or source.startswith("as peer_") for source in shares)


def test_names_in_the_help():
    assert set(rates.NAMES) == {"4x3090ti-pcie3", "p3.8xlarge", "dgx-a100", "hgx-h100"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu_memory": figure(1, "GB/s")}, "gpu_memory, device_memory"),
        ({"sampling": None}, "sampling"),
        ({"name": 3}, "name, 3"),
        ({"host_bus": figure(12, "GB")}, "host_bus, MB/s, GB/s, TB/s, GB"),
        ({"device_flops": figure(12, "GB/s")}, "device_flops, GFLOP/s, TFLOP/s, GB/s"),
        ({"host_bus": 12}, "host_bus, 12"),
        ({"host_bus": {"value": 1, "unit": "GB/s"}}, "host_bus, source"),
        ({"host_bus": {**figure(1, "GB/s"), "peak": 2}}, "host_bus, peak"),
        ({"host_bus": {**figure(1, "GB/s"), "source": " "}}, "host_bus"),
        ({"host_bus": figure(0, "GB/s")}, "value, host_bus, 0"),
        ({"host_bus": figure("12", "GB/s")}, "value, host_bus, 0, 12"),
        ({"host_bus": figure(True, "GB/s")}, "value, host_bus, 0, True"),
        ({"host_bus": figure(float("nan"), "GB/s")}, "value, host_bus, 0"),
        ({"host_bus": {**figure(1, "GB/s"), "reached": 1.2}}, "reached, host_bus"),
        ({"host_bus": {**figure(1, ["GB/s"])}}, "host_bus, MB/s, GB/s, TB/s"),
        ({"gpus": figure(1.5, "GPUs")}, "gpus"),
        ({"gpus_per_bus": figure(4, "GPUs")}, "gpus_per_bus, 4, gpus, 2"),
    ],
)
def test_hosts_that_are_refused(changes, message):
    tables = {key: table for key, table in {**TABLES, **changes}.items() if table is not None}
    with pytest.raises(InputError, match=line_with(message)):
        rates.host_of(tables)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "4x3090ti-pcie3, dgx-a100"), ("name = ", "host.toml"), ("x = 1", "host.toml, x")]
)
def test_files_that_are_refused(content, message, tmp_path):
    path = tmp_path / "host.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=line_with(message)):
        rates.open_host(str(path))


def test_a_layout_of_other_parts(layouts):
    with pytest.raises(InputError, match=line_with("3 parts, 4 trainers")):
        model_host.command(["--dataset", str(layouts(3).path)])


def test_the_keys_are_those_documented(layouts, tmp_path, capsys):
    path = tmp_path / "out.json"
    flags = ["--fan-out", "4,3", "--batch-size", "50", "--iterations", "2", "--json", str(path)]
    model_host.command(["--dataset", str(layouts(4).path), "--host", "4x3090ti-pcie3", *flags])
    result = json.loads(path.read_text())
    keys = {*result, *result["settings"], *result["counted"]}
    for rows in (result["rates"], result["counts"], result["predictions"]):
        keys |= set(rows[0])
        assert all(set(row) == set(rows[0]) for row in rows)
    keys |= {"stage", "predicted_s", "measured_s", "ratio"}
    assert undocumented("Hosts", keys) == []
    printed = capsys.readouterr().out
    assert printed.count("Predicted from counts and rates, not measured.") == 1
    assert "left_out Quiver: devices of" in printed
    assert {row["strategy"] for row in result["predictions"]} == {"DGL", "PaGraph", "GSplit", "GSplit, groups of 2"}
    assert result["check"] == []


def test_this_machine(layouts, monkeypatch, capsys):
    """The rates of processes are made up here, and so is the run; tests/processes has the real ones."""
    found = {"gather": 2e9, "load": 1e9, "flops": 1e10, "pair": 1e9, "operation_s": 1e-6, "message_s": 1e-5}
    monkeypatch.setattr(measured, "machine_rates", lambda *_: found)
    runs = []
    stages = {"epoch": 2.0, "sample": 1.0, "load": 0.0, "compute and exchange": 1.0, "reduce": 1.0}
    monkeypatch.setattr(model_host, "measured_epoch", lambda config: runs.append(config) or stages)
    flags = ["--host", "this", "--fan-out", "4,3", "--batch-size", "50", "--cache", "0,10"]
    model_host.command(["--dataset", str(layouts(2).path), *flags])
    assert [(run.strategy, run.fan_out, run.batch_size) for run in runs] == [
        ("data", (4, 3), 50),
        ("split", (4, 3), 50),
    ]
    printed = capsys.readouterr().out
    assert "| sampling |" in printed
    assert "measured here" in printed
    assert printed.count("| compute and exchange |") == 2
