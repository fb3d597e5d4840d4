"""What trainers send to other hosts in a mini-batch, by formula, held against what a run has recorded."""

from __future__ import annotations

import json
import re

from gsplit.parallel.between_hosts import OF_MINI_BATCH, name_of
from support.runs import records


def share(numbers, member, members):
    """How many of some numbers a member has of an even deal."""
    return numbers * (member + 1) // members - numbers * member // members


def in_ring(numbers, member, members):
    """Bytes that a member sends on where float64 numbers are summed: those that are not its own, twice."""
    return 8 * 2 * (numbers - share(numbers, member, members))


def reduced_by_layer(weights):
    """How many numbers are summed at a time where trainers sum while backward goes on; the last is the loss."""
    layers = {}
    for name, weight in weights.items():
        layer = re.search(r"\.(\d+)\.", name)[1]
        layers[layer] = layers.get(layer, 0) + weight.numel()
    return [*layers.values(), 1]


def assert_sent_between(run, weights, hosts, here, config):
    """What each trainer has counted of each mini-batch, by formula; the sums of the epoch and of the run."""
    beside = 2 if config.sampling == "saint" else 1  # the loss, and what its targets weigh together
    gradients = beside + sum(weight.numel() for weight in weights.values())
    normed = "batch" in f"{config.norm} {config.model_args}"
    norms = [] if not normed else [config.hidden + 1, config.hidden] * 2 * (config.layers - 1)
    for record in records(run, "mini-batch"):
        traffic, trainer = record["traffic"], record["trainer"]
        at_once = reduced_by_layer(weights) if here == 1 else [share(gradients, trainer % here, here)]
        of_reduce = sum(in_ring(numbers, trainer // here, hosts) for numbers in at_once)
        assert traffic["between_hosts_reduce_bytes"] == of_reduce
        of_norms = sum(in_ring(numbers, trainer, hosts * here) for numbers in norms)
        assert traffic["between_hosts_norm_bytes"] == (0 if trainer % here else of_norms)
        exchanged, all_rows = traffic["between_hosts_exchange_bytes"], traffic["exchange_forward_bytes"]
        if config.split_group != hosts * here:
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
