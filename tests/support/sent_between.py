"""What trainers send to other hosts in a mini-batch, by formula, held against what a run has recorded."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np

from gsplit.data import open_layout
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.sampled.rules import rule_of_run
from gsplit.full import GridPlan
from gsplit.full.rotation import Turns, volumes_of_turns
from gsplit.full.volumes import BETWEEN, volumes, widths_of_sums
from gsplit.launch.resolve import resolve
from gsplit.parallel.between_hosts import OF_MINI_BATCH, name_of
from gsplit.sampling.subgraphs import SetPlan
from support.runs import records


def share(numbers, member, members):
    """How many of some numbers a member has of an even deal."""
    return numbers * (member + 1) // members - numbers * member // members


def in_ring(numbers, member, members):
    """Bytes that a member sends on where float64 numbers are summed: those that are not its own, twice."""
    return 8 * 2 * (numbers - share(numbers, member, members))


def reduced_by_layer(weights, beside):
    """How many numbers are summed at a time where trainers sum while backward goes on; last, what is beside them."""
    layers = {}
    for name, weight in weights.items():
        layer = re.search(r"\.(\d+)\.", name)[1]
        layers[layer] = layers.get(layer, 0) + weight.numel()
    return [*layers.values(), beside]


def sent_by_moves(run, config, hosts, here):
    """Bytes of rows to other hosts by the moves on the grid of each group, by epoch, mini-batch and trainer."""
    layout, inside = open_layout(config.layout), math.prod(config.grid)
    groups, hosts_of_group, ends = hosts * here // inside, max(1, inside // here), bounds_of(layout, inside)
    resolved = resolve(replace(config, gpus=hosts * here), hosts=hosts)
    plan = rule_of_run(resolved.config, estimates=resolved.estimates).plan(
        layout, batch_size=config.batch_size, seed=config.seed, micro_batches=groups
    )
    pairs = list(itertools.pairwise([layout.graph.num_features, config.hidden, layout.graph.num_classes]))
    assert isinstance(plan, SetPlan)
    widths = widths_of_sums(pairs, first_kept=False, first_returns=False, epoch=0)
    found = {}
    for epoch, batch in {(record["epoch"], record["batch"]) for record in records(run, "mini-batch")}:
        sets = zip(plan.sets(epoch - 1, batch), plan.micro_batches(epoch - 1, batch), strict=True)
        for group, (every, targets) in enumerate(sets):
            number, of_targets = (np.histogram(some, ends)[0] for some in (every, targets))
            sizes, rotates = np.stack([number, number, of_targets], axis=1), config.algorithm == "rotate"
            grid = GridPlan(algorithm="rotate" if rotates else "3d", sizes=config.grid)
            own, wide = number.tolist(), [pair[0] for pair in pairs] + [pairs[-1][1]]
            turns = Turns(grid.grid, (own, own), of_targets.tolist(), wide, config.row_blocks)
            for place in range(inside):
                if rotates:
                    sent = volumes_of_turns(turns, place, 8, hosts=hosts_of_group)
                else:
                    sent = volumes(grid, sizes, widths, 8, place, hosts=hosts_of_group)
                found[epoch, batch, group * inside + place] = sent.get(BETWEEN, 0)
    return found


def assert_sent_between(run, weights, hosts, here, config):
    """What each trainer has counted of each mini-batch, by formula; the sums of the epoch and of the run."""
    beside = 2 if config.sampling == "saint" else 1  # the loss, and what its targets weigh together
    gradients = beside + sum(weight.numel() for weight in weights.values())
    normed = "batch" in f"{config.norm} {config.model_args}"
    norms = [] if not normed else [config.hidden + 1, config.hidden] * 2 * (config.layers - 1)
    sent_on_grids = {} if config.grid is None else sent_by_moves(run, config, hosts, here)
    for record in records(run, "mini-batch"):
        traffic, trainer = record["traffic"], record["trainer"]
        at_once = reduced_by_layer(weights, beside) if here == 1 else [share(gradients, trainer % here, here)]
        of_reduce = sum(in_ring(numbers, trainer // here, hosts) for numbers in at_once)
        assert traffic["between_hosts_reduce_bytes"] == of_reduce
        of_norms = sum(in_ring(numbers, trainer, hosts * here) for numbers in norms)
        assert traffic["between_hosts_norm_bytes"] == (0 if trainer % here else of_norms)
        exchanged, all_rows = traffic["between_hosts_exchange_bytes"], traffic["exchange_forward_bytes"]
        if config.grid is not None:
            assert exchanged == sent_on_grids[record["epoch"], record["batch"], trainer]
        elif config.split_group != hosts * here:
            assert exchanged == 0
        elif here == 1:
            assert exchanged == all_rows + traffic["exchange_backward_bytes"] > 0
        else:
            assert 0 < exchanged < all_rows + traffic["exchange_backward_bytes"]
    epochs = records(run, "epoch")
    for purpose in OF_MINI_BATCH:
        of_batches = sum(record["traffic"][name_of(purpose)] for record in records(run, "mini-batch"))
        assert sum(record["traffic"][name_of(purpose)] for record in epochs) == of_batches
        assert json.loads((run / "summary.json").read_text())["between_hosts_bytes"][purpose] == of_batches
    assert all((record["traffic"]["between_hosts_evaluation_bytes"] > 0) for record in epochs)
    assert epochs[-1]["traffic"]["between_hosts_count_bytes"] > 0
