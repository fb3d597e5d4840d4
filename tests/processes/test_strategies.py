"""Data parallelism and split groups: law 2 for all of them, and what they count against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.reference import sample_and_split
from support.runs import all_equal, config_for, records, train_in_worker
from support.steps import CPU, Step

import gsplit
from gsplit.data import open_layout
from gsplit.parallel import Worker
from gsplit.sampling import EpochPlan, SplitGroups
from gsplit.train import checkpoint

FAN_OUTS = [4, 3]
GROUPS = [(2, 1), (3, 1), (4, 1), (4, 2)]
"""(trainers, trainers of a group)"""


def step_in_pool(worker, path, targets, dtype, name, groups, fan_outs=FAN_OUTS):
    return Step(worker, open_layout(path), targets, fan_outs, dtype, name, groups).gradients()


def sum_over_micro_batches(layout, targets, dtype, name, number):
    """Loss and gradients of one process that computes one micro-batch after the other, unsplit."""
    groups = SplitGroups(trainers=number, size=1)
    loss, gradients = 0.0, {}
    for group in range(number):
        alone = Worker(rank=group, world=1, device=CPU)
        own_loss, own = Step(alone, layout, targets, FAN_OUTS, dtype, name, groups).gradients()
        loss += own_loss
        gradients = {key: gradients.get(key, 0) + gradient for key, gradient in own.items()}
    return loss, gradients


@pytest.mark.parametrize("name", ["sage", "gat", "gcn", "dgl-GraphConv-both", "pyg-GATConv"])
@pytest.mark.parametrize(("trainers", "size"), GROUPS)
def test_law_2_gradients_are_those_of_the_union_of_the_micro_batches(pool, layouts, trainers, size, name):
    whole, layout = layouts(1), layouts(4 if size == 2 else 1)
    groups = SplitGroups(trainers=trainers, size=size)
    for count in (61, 2):  # unequal micro-batches; for some no target at all
        targets = np.sort(whole.permutation[whole.graph.train_idx])[:count]
        for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
            loss, wanted = sum_over_micro_batches(whole, targets, dtype, name, groups.number)
            results = pool.run(trainers, step_in_pool, layout.path, targets, dtype, name, groups)
            for own_loss, gradients in results:
                assert own_loss == pytest.approx(loss, rel=tolerance)
                for key, gradient in gradients.items():
                    least = 1e-3 * max(g.norm().item() for g in wanted.values())
                    error = (gradient - wanted[key]).norm().item() / max(wanted[key].norm().item(), least)
                    assert error <= tolerance, key
                assert all_equal(gradients, results[0][1])  # bit-equal everywhere


def two_islands():
    """Two graphs without an edge between them."""
    graph = random_graph(120, 6, seed=8)
    n, e = 120, len(graph.indices)
    ids = [np.concatenate([getattr(graph, f"{s}_idx"), getattr(graph, f"{s}_idx") + n]) for s in
           ("train", "valid", "test")]  # fmt: skip
    return replace(
        graph,
        indptr=np.concatenate([graph.indptr, graph.indptr[1:] + e]),
        indices=np.concatenate([graph.indices, graph.indices + n]).astype(np.int32),
        features=np.concatenate([graph.features, graph.features + 1]),
        labels=np.concatenate([graph.labels, graph.labels]),
        train_idx=ids[0], valid_idx=ids[1], test_idx=ids[2],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["gcn-batch-norm", "pyg-own-batch-norm"])
@pytest.mark.parametrize(("trainers", "size"), [(2, 1), (4, 2)])
def test_batch_normalisation_goes_over_all_micro_batches(pool, tmp_path, trainers, size, name):
    """Where micro-batches share no vertex, data parallelism computes what one process does."""
    layout = lay_out(two_islands(), tmp_path, parts=size)
    whole = lay_out(two_islands(), tmp_path, parts=1)
    ids = np.sort(whole.permutation[whole.graph.train_idx])
    targets = np.concatenate([ids[ids < 120][:20], ids[ids >= 120][:20]])  # a micro-batch on each island
    fan_outs = [-1] * 2
    wanted_loss, wanted = Step(
        Worker(rank=0, world=1, device=CPU), whole, targets, fan_outs, torch.float64, name
    ).gradients()
    groups = SplitGroups(trainers=trainers, size=size)
    for loss, gradients in pool.run(
        trainers, step_in_pool, layout.path, targets, torch.float64, name, groups, fan_outs
    ):
        assert loss == pytest.approx(wanted_loss, rel=1e-10)
        for key, gradient in gradients.items():
            torch.testing.assert_close(gradient, wanted[key], rtol=1e-8, atol=1e-10)


def brute_force(layout, groups, config):
    """(epoch, batch, trainer) -> traffic, counted from the slow sampler; without caches."""
    graph = layout.graph
    offsets = groups.offsets(layout).tolist()
    plan = EpochPlan(
        graph.train_idx, layout.permutation, config.batch_size, config.seed,
        micro_batches=groups.number, fixed_shares=groups.fixed_shares,
    )  # fmt: skip
    # SAGE exchanges rows as wide as inputs or outputs of a layer, whichever is less.
    widths = {1: min(graph.num_features, config.hidden), 2: min(config.hidden, graph.num_classes)}
    counted = {}
    for epoch in range(config.epochs):
        for batch in range(plan.num_batches):
            for group, targets in enumerate(plan.micro_batches(epoch, batch)):
                splits = sample_and_split(
                    graph, offsets, targets.tolist(), config.fan_out, seed=config.seed, epoch=epoch, batch=batch,
                    micro=group, global_ids=layout.permutation,
                )  # fmt: skip
                for k, split in enumerate(splits):
                    edges = sum(len(row) for rows in split.edges.values() for row in rows)
                    sent = {layer: [len(other.received[layer][k]) for other in splits] for layer in split.received}
                    got = {layer: [len(rows) for rows in split.received[layer]] for layer in split.received}
                    counted[epoch + 1, batch, groups.ranks_of(group)[k]] = {
                        "sampled_edges": edges,
                        "computed_edges": edges,
                        "computed_vertices": sum(split.level_sizes[1:]),
                        "cache_hits": 0,
                        "peer_rows": 0,
                        "host_rows": len(split.vertices),
                        "host_to_device_bytes": len(split.vertices) * graph.num_features * 4,
                        "device_to_device_bytes": 0,
                        "exchange_forward_bytes": sum(4 * widths[at] * sum(rows) for at, rows in sent.items()),
                        "exchange_backward_bytes": 4 * widths[2] * sum(got[2]),  # features want no gradient
                        "exchange_forward_messages": sum(n > 0 for rows in sent.values() for n in rows),
                        "exchange_backward_messages": sum(n > 0 for n in got[2]),
                        **{f"level_{level}_vertices": size for level, size in enumerate(split.level_sizes)},
                    }
    return counted


@pytest.mark.parametrize(
    ("trainers", "changes"),
    [
        (2, {}),
        (4, {}),
        (2, {"strategy": "data"}),
        (3, {"strategy": "data"}),
        (4, {"strategy": "data"}),
        (4, {"split_group": 2}),
    ],
)
def test_counters_are_those_of_brute_force(pool, layouts, tmp_path, trainers, changes):
    layout = layouts(1 if trainers == 3 else trainers)
    config = config_for(layout.path, tmp_path / "run", gpus=trainers, batch_size=47, fan_out=(4, 3), **changes)
    results = pool.run(trainers, train_in_worker, config)
    assert all(all_equal(result["after"], results[0]["after"]) for result in results)
    size = changes.get("split_group", 1 if changes else trainers)
    wanted = brute_force(layout, SplitGroups(trainers=trainers, size=size), config)
    lines = records(config.out, "mini-batch")
    assert sorted((r["epoch"], r["batch"], r["trainer"]) for r in lines) == sorted(wanted)
    gradients = sum(p.numel() for p in results[0]["after"].values()) + 1  # and the loss
    for record in lines:
        traffic = record["traffic"]
        assert traffic.pop("segment_bytes") > 0
        assert traffic.pop("all_reduce_bytes") == 4 * gradients
        assert traffic == wanted[record["epoch"], record["batch"], record["trainer"]]
        assert set(record["stages"]) == {"sample", "load", "wait", "forward", "backward", "reduce", "step"}
        assert min(record["stages"].values()) >= 0
    summary = results[0]["summary"]["traffic"]
    for name in wanted[1, 0, 0]:
        assert summary[name] == sum(counts[name] for counts in wanted.values())
    for epoch in records(config.out):
        own = [r for r in lines if r["epoch"] == epoch["epoch"]]
        assert epoch["loss"] == pytest.approx(
            sum(r["loss"] * r["targets"] for r in own) / sum(r["targets"] for r in own)
        )


@pytest.mark.parametrize("changes", [{"strategy": "data"}, {"split_group": 2}], ids=["data", "groups"])
def test_a_run_does_not_depend_on_its_samplers(layouts, tmp_path, changes):
    runs = []
    for samplers in (0, 1, 2):
        config = config_for(
            layouts(2).path, tmp_path / f"{samplers}", gpus=4, epochs=1, samplers=samplers, dropout=0.3, **changes
        )
        summary = gsplit.train(config=config)
        digest = checkpoint.describe_state(config.out, checkpoint.MODEL)["sha256"]
        runs.append((summary["traffic"], summary["loss"], summary["test_accuracy"], digest))
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize(("trainers", "changes"), [(3, {"strategy": "data"}), (4, {"split_group": 2})])
def test_evaluation_does_not_depend_on_the_strategy(pool, layouts, tmp_path, trainers, changes):
    layout = layouts(2)
    alone = config_for(layouts(1).path, tmp_path / "one", epochs=0, dtype="float64")
    many = config_for(layout.path, tmp_path / "many", epochs=0, dtype="float64", gpus=trainers, **changes)
    wanted = pool.run(1, train_in_worker, alone)[0]
    got = pool.run(trainers, train_in_worker, many)[0]
    np.testing.assert_allclose(got["logits"], wanted["logits"], rtol=0, atol=1e-10)
    assert got["summary"]["test_accuracy"] == wanted["summary"]["test_accuracy"]
