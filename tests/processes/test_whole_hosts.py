"""The whole graph over hosts: every plan gives the gradient of one process, and sends what the formula says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from support import pool as pool_module
from support.messages import line_with
from support.runs import config_for, records
from support.runs_of_hosts import trained_on
from support.whole import LAYERS, WholeStep, assert_same, needed_rows, plans_of, uneven

from gsplit.config.train import TrainConfig
from gsplit.engine.whole import plan_table as plan_table_module
from gsplit.engine.whole.fitting import chosen_of
from gsplit.engine.whole.plan_table import moved_widths, plan_of_run, plan_table, priced_plans
from gsplit.errors import InputError
from gsplit.full import common_rows, levels_of
from gsplit.full.plans import SENDS_ROWS
from gsplit.full.volumes import BETWEEN, sent_bytes, volumes
from gsplit.launch.resolve import resolve
from gsplit.nn import GAT
from gsplit.train.progress import mini_batch_counts

PYG = "torch_geometric.nn:GraphSAGE"
NOT_SAMPLED: dict[str, Any] = {"num_layers": 2, "fan_out": TrainConfig.fan_out, "batch_size": TrainConfig.batch_size}


def steps(member, layout, plans, name, hosts):
    """Loss and gradients of two epochs for each plan, in which rows lie in panels; what each sent, and its widths."""
    member = replace(member, hosts=hosts)
    shared, results, sent = pool_module.shared_of(member), [], []
    for plan in plans:
        with mock.patch.object(common_rows, "cache_bytes", return_value=60 * 8 * common_rows.FEWEST_COLUMNS):
            step = WholeStep(member, layout, shared, plan, LAYERS, name)
        exchanges, results_of_plan = type(step.model) is GAT or plan.algorithm != "shared", []
        for epoch in range(2):
            loss, gradients, batch = step.gradients()
            results_of_plan.append((loss, gradients))
            sent.append((plan, mini_batch_counts(batch, 0), moved_widths(step.model, epoch), exchanges))
        results.append(results_of_plan)
    return results, sent


@pytest.mark.parametrize(
    ("name", "hosts"), [("sage-wide", 2), ("gcn-batch-norm", 2), ("gat", 2), ("weighted-gcn", 4)]
)
def test_every_plan_gives_the_gradient_of_one_process_and_sends_what_the_formula_says(pool, tmp_path, name, hosts):
    """On four trainers, one without a vertex and one without training vertices."""
    give_the_gradient(pool, uneven(tmp_path, weighted=name.startswith("weighted")), name, hosts, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sage-wide", "gcn-batch-norm", "gat", "weighted-gcn"])
def test_on_three_hosts_of_two_trainers_too(pool_of_six, tmp_path, name):
    layout = uneven(tmp_path, weighted=name.startswith("weighted"), parts=6)
    give_the_gradient(pool_of_six, layout, name, 3, 6)


def give_the_gradient(pool, layout, name, hosts, world):
    plans = plans_of(world, name)
    found = pool.run(world, steps, layout, plans, name, hosts)
    assert_same(layout.graph, [results for results, _ in found], name, LAYERS)
    levels = levels_of(layout.graph, layout.offsets, LAYERS, whole="batch" in name)
    needed = {layer: needed_rows(layout.graph, levels, layer) for layer in range(1, LAYERS + 1)}
    of_all = np.zeros((len(found[0][1]), 2), np.int64)
    for rank, (_, sent) in enumerate(found):
        for at, (plan, counts, widths, exchanges) in enumerate(sent):
            wanted = volumes(plan, levels.sizes, widths, 8, rank, needed if exchanges else None, hosts=hosts)
            between = wanted.pop(BETWEEN)
            assert {key: counts[key] for key in wanted} == wanted, (plan, rank)
            of_all[at] += between, wanted["exchange_forward_bytes"] + wanted["exchange_backward_bytes"]
    for (plan, *_), (between, everything) in zip(found[0][1], of_all, strict=True):
        far = plan.algorithm == "shared" or hosts == world
        assert between == everything if far else between <= everything, plan


@pytest.mark.cases(1)
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_a_dry_run_shows_what_goes_between_hosts(layouts, tmp_path, model):
    """Of the host that sends most: with one trainer on each all that is sent, and within a host nothing."""
    config = config_for(layouts(4).path, tmp_path / "run", gpus=4, strategy="full", model=model, **NOT_SAMPLED)
    priced = {hosts: priced_plans(resolve(config, hosts=hosts)) for hosts in (1, 2, 4)}
    assert {price.between_bytes for price in priced[1]} == {0}
    for price in priced[4]:
        direct = price.plan.algorithm in SENDS_ROWS  # else some pass on what others give
        assert price.between_bytes == pytest.approx(sent_bytes(price.sent), rel=0 if direct else 0.1)
    between = {str(price.plan): price.between_bytes for price in priced[2]}
    each = {str(price.plan): sent_bytes(price.sent) for price in priced[2]}
    assert all(0 < between[plan] < 2 * each[plan] for plan in between if not plan.startswith("shared"))
    assert each["shared 4x1x1"] <= between["shared 4x1x1"] < between["1d 4x1x1"]
    assert [price.seconds for price in priced[2]] == sorted(price.seconds for price in priced[2])
    hinted = priced_plans(resolve(replace(config, dry_run=True, hosts_hint=2)))
    assert [(price.plan, price.sent, price.between_bytes) for price in hinted] == [
        (price.plan, price.sent, price.between_bytes) for price in priced[2]
    ]
    assert "between hosts" in plan_table(resolve(config, hosts=2))
    assert "between" not in plan_table(resolve(config))


@pytest.mark.parametrize(
    ("changes", "hosts", "message"),
    [
        ({"hosts_hint": 3}, 1, "--hosts-hint 3, 4"),
        ({"hosts_hint": 4}, 2, "--hosts-hint 4, 2"),
        ({"hosts_hint": 2, "dry_run": False}, 1, "--hosts-hint, --dry-run"),
    ],
)
def test_a_hint_that_cannot_be_is_one_line(layouts, tmp_path, changes, hosts, message):
    flags = {"gpus": 4, "strategy": "full", "dry_run": True, **NOT_SAMPLED, **changes}
    with pytest.raises(InputError, match=line_with(message)):
        resolve(config_for(layouts(4).path, tmp_path / "run", **flags), hosts=hosts)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "gat", "heads": 2},
        {"grid": (2, 1, 2)},
        {"grid": (1, 2, 2)},
        {"grid": (1, 4, 1)},
        {"grid": (1, 1, 4), "graph": "move"},
        {"grid": (1, 4, 1), "algorithm": "rotate", "model": "gcn"},
    ],
    ids=str,
)
def test_what_is_priced_is_what_goes_between_hosts(pool, layouts, tmp_path, changes):
    """In the second epoch: the first one makes the blocks, and moves the features whose sums are kept."""
    flags = {
        "strategy": "full",
        "precision": "64",
        "evaluate": "sampled",
        "validate_every": 0,
        **NOT_SAMPLED,
        **changes,
    }
    config = config_for(layouts(4).path, tmp_path, gpus=4, **flags)
    pool.run(4, trained_on, config, 2)
    run, sent = resolve(config, hosts=2), [0, 0]
    for record in records(tmp_path, "mini-batch"):
        if record["epoch"] == 2:
            sent[record["trainer"] // 2] += record["traffic"]["between_hosts_exchange_bytes"]
    assert chosen_of(priced_plans(run), plan_of_run(run)).between_bytes == max(sent) > 0


@pytest.mark.parametrize(
    ("model", "hosts", "taken"), [("sage", 2, "shared"), ("sage", 4, "columns"), ("gat", 4, "1d-sparse")]
)
def test_auto_takes_what_sends_in_the_least_time(pool, layouts, tmp_path, model, hosts, taken):
    """Over hosts; on one, and where a plan is named, nothing is weighed."""
    flags = {"strategy": "full", "model": model, "precision": "64", "evaluate": "sampled", "validate_every": 0}
    config = config_for(layouts(4).path, tmp_path, gpus=4, **flags, **NOT_SAMPLED)
    run, sent = resolve(config, hosts=hosts), np.zeros(4, np.int64)
    plan, priced = plan_of_run(run), [price for price in priced_plans(run) if price.plan.algorithm != "rotate"]
    assert plan.algorithm == taken
    assert chosen_of(priced, plan).seconds == min(price.seconds for price in priced)
    assert plan_of_run(resolve(config)).algorithm == "shared"
    assert plan_of_run(resolve(replace(config, algorithm="1d"), hosts=hosts)).algorithm == "1d"
    pool.run(4, trained_on, config, hosts)
    for record in records(tmp_path, "mini-batch"):
        if record["epoch"] == 2:
            sent[record["trainer"] * hosts // 4] += record["traffic"]["between_hosts_exchange_bytes"]
    assert max(sent) == chosen_of(priced, plan).between_bytes


def test_auto_weighs_bytes_between_hosts_against_those_within(layouts, tmp_path):
    """Where sending within a host takes long, and between hosts nothing, another plan is taken."""
    config = config_for(layouts(8).path, tmp_path, gpus=8, strategy="full", **NOT_SAMPLED)
    assert plan_of_run(resolve(config, hosts=4)).sizes == (1, 2, 4)
    with mock.patch.dict(plan_table_module.WITHIN_BYTES_PER_S, cpu=1.0):
        assert plan_of_run(resolve(config, hosts=4)).algorithm == "shared"
    with mock.patch("gsplit.engine.whole.fitting.host_memory", return_value=mock.Mock(available_bytes=0)):
        assert plan_of_run(resolve(config, hosts=4)).sizes == (1, 2, 4)  # nothing fits: that is said later


def test_auto_leaves_a_model_of_the_user_s_its_rows(layouts, tmp_path):
    config = config_for(layouts(4).path, tmp_path, gpus=4, strategy="full", model=PYG, **NOT_SAMPLED)
    assert plan_of_run(resolve(config, hosts=4)).algorithm == "shared"
