"""What is counted of each type of vertices, beside what a slow sampler draws; the sums are the totals."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from support.runs import config_for, records, stopped_and_gone_on, train_in_trainer
from support.typed_graphs import lay_out_types, random_typed_graph
from support.typed_reference import TypedGraph, sample_typed

from gsplit.sampling import EpochPlan

FLAGS = {"model": "rgcn", "precision": "64", "train_features": 4, "batch_size": 12, "evaluate": "none"}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """typed(parts): layouts of one graph of four types, the last without features."""
    folder = tmp_path_factory.mktemp("typed")
    return lambda parts: lay_out_types(random_typed_graph(4, 6, seed=38), folder, parts=parts)


def counted(layout, config):
    """(epoch, batch, trainer) -> type -> counts of a run of rgcn in float64, of two layers.

    Before both layers rows travel ``hidden`` wide, but projected by all relations out of them, as wide as the classes
    for each, where that is less.
    """
    graph = layout.graph
    names, features = graph.schema.type_names, graph.features_by_type
    lists = [[row.tolist() for row in np.split(each.indices, each.indptr[1:-1])] for each in graph.adjacencies]
    ends = [graph.schema.ends(relation) for relation in range(len(lists))]
    slow = TypedGraph([each.num_vertices for each in graph.schema.types], ends, lists)
    widths = {
        (layer, t): min(
            config.hidden, graph.num_classes * ends.count((t, graph.target)) if layer == 2 else config.hidden
        )
        for layer in (1, 2)
        for t in range(len(names))
    }
    order = layout.permutations[graph.target]
    plan = EpochPlan(graph.train_idx, order, config.batch_size, config.seed)
    fan_outs = [[each] * len(lists) for each in config.fan_out]

    def bytes_of(rows, type_):
        return 8 * sum(widths[layer, type_] * len(vertices) for (layer, _), vertices in rows.items())

    found = {}
    for epoch in range(config.epochs):
        for batch in range(plan.num_batches):
            key = {"seed": config.seed, "epoch": epoch, "batch": batch, "global_ids": layout.permutations}
            (targets,) = plan.micro_batches(epoch, batch)
            splits = sample_typed(slow, layout.offsets_by_type, targets, fan_outs, target_type=graph.target, **key)
            for rank, split in enumerate(splits):
                found[epoch + 1, batch, rank] = {}
                for t, name in enumerate(names):
                    got = {(layer, q): split.received[layer, t, q] for layer in (1, 2) for q in range(len(splits))}
                    sent = {
                        (layer, q): other.received[layer, t, rank]
                        for layer in (1, 2)
                        for q, other in enumerate(splits)
                    }
                    levels = [split.sizes[t, level] for level in range(3)]
                    rows = 0 if features[t] is None else levels[0]
                    width = 0 if features[t] is None else features[t].shape[1]
                    found[epoch + 1, batch, rank][name] = {
                        "computed_vertices": sum(levels[1:]),
                        "cache_hits": 0,
                        "peer_rows": 0,
                        "host_rows": rows,
                        "host_to_device_bytes": 4 * width * rows,
                        "device_to_device_bytes": 0,
                        "exchange_forward_bytes": bytes_of(sent, t),
                        "exchange_backward_bytes": bytes_of(got, t),
                        **{f"level_{level}_vertices": size for level, size in enumerate(levels)},
                    }
    return found


def added_up(of_records):
    """Type -> counts, the sums over some."""
    total: dict[str, Counter] = {}
    for each in of_records:
        for name, counts in each.items():
            total.setdefault(name, Counter()).update(counts)
    return total


@pytest.mark.parametrize("world", [2, 3])
def test_counts_of_each_type_are_those_of_a_slow_sampler_and_add_up(pool, typed, tmp_path, world):
    config = config_for(typed(world).path, tmp_path / "run", **FLAGS)
    pool.run(world, train_in_trainer, config)
    wanted = counted(typed(world), config)
    found = records(config.out, "mini-batch")
    assert {(each["epoch"], each["batch"], each["trainer"]): each["traffic_by_type"] for each in found} == wanted
    epochs, summary = records(config.out), json.loads((config.out / "summary.json").read_text())
    for epoch in epochs:
        of_epoch = [counts for key, counts in wanted.items() if key[0] == epoch["epoch"]]
        assert epoch["traffic_by_type"] == added_up(of_epoch)
    assert summary["traffic_by_type"] == added_up(wanted.values())
    for each in (*found, *epochs, summary):
        for name, total in sum(map(Counter, each["traffic_by_type"].values()), Counter()).items():
            assert total == each["traffic"][name]
    assert summary["traffic"]["exchange_backward_bytes"] > 0
    assert set(summary["traffic"]) - set(summary["traffic_by_type"]["t0"]) == {
        *("sampled_edges", "computed_edges", "segment_bytes", "all_reduce_bytes"),
        *("exchange_forward_messages", "exchange_backward_messages"),
    }


def test_counts_of_an_epoch_go_on_from_a_checkpoint(pool, typed, tmp_path):
    flags = {**FLAGS, "epochs": 1}
    whole, stopped = (config_for(typed(2).path, tmp_path / name, **flags) for name in ("whole", "stopped"))
    pool.run(2, train_in_trainer, whole)
    pool.run(2, stopped_and_gone_on, stopped, 1)
    one, two = (records(each.out)[0] for each in (whole, stopped))
    assert (two["traffic"], two["traffic_by_type"]) == (one["traffic"], one["traffic_by_type"])


def test_one_type_has_no_counts_of_its_own(pool, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run", epochs=1, batch_size=300)
    pool.run(2, train_in_trainer, config)
    assert not any("traffic_by_type" in each for each in (*records(config.out), *records(config.out, "mini-batch")))
    assert "traffic_by_type" not in json.loads((config.out / "summary.json").read_text())
