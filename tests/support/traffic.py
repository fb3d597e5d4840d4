"""What trainers load, compute and exchange, counted slowly: by the reference sampler, and sets of cached vertices."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import ceil

from gsplit.parallel import SPLIT
from gsplit.sampling import EpochPlan, split_offsets
from support.reference import splits_of


def cut(items, pieces):
    """Pieces whose sizes differ by one at most, the larger first."""
    sizes = [len(items) // pieces + (i < len(items) % pieces) for i in range(pieces)]
    return [items[sum(sizes[:i]) : sum(sizes[: i + 1])] for i in range(pieces)]


def dealt_from(shares, order):
    """(number of a share, vertex): from the shares in turn, each in the order of all."""
    orders = [[v for v in order if v in share] for share in shares]
    return [(i % len(shares), orders[i % len(shares)][i // len(shares)]) for i in range(len(order))]


def prefix_sets(layout, holders, share):
    """The vertices that each holder caches, when an average one has a share of all rows."""
    sets = [set() for _ in range(holders)]
    for part, (begin, end) in enumerate(pairwise(layout.offsets.tolist())):
        rows = min(end - begin, ceil(Fraction(share) * holders * (end - begin)))
        sets[part * holders // layout.parts] |= set(range(begin, begin + rows))
    return sets


def hottest_set(graph, targets, hops, rows):
    """The vertices of the targets' neighbourhood that most edges of it lead to."""
    in_neighbours = [graph.indices[a:b].tolist() for a, b in pairwise(graph.indptr)]
    reached = set(targets)
    for hop in range(hops):
        drawing = sorted(reached)
        reached |= {u for v in drawing for u in in_neighbours[v]}
        if hop == hops - 1:
            heat = Counter(u for v in drawing for u in in_neighbours[v])
    return set(sorted(reached, key=lambda v: (-heat[v], v))[:rows])


def cached_sets(layout, grid, config):
    """By rank, the vertices that a trainer caches, and those that it may read from others."""
    world, share = grid.world, Fraction((config.cache_size or "0%").removesuffix("%")) / 100
    if config.cache == "replicated":
        plan = EpochPlan(layout.graph.train_idx, layout.permutation, 1, 0, micro_batches=world, fixed_shares=True)
        rows = ceil(share * layout.graph.num_vertices)
        own = [hottest_set(layout.graph, targets.tolist(), config.layers, rows) for targets in plan.shares]
        return own, [set()] * world
    if config.cache == "partitioned" and grid.size(SPLIT) == 1:
        own = prefix_sets(layout, world, share)
        return own, [set().union(*own) - mine for mine in own]
    own = prefix_sets(layout, grid.size(SPLIT), share)
    return [own[grid.coordinate(rank, SPLIT)] for rank in range(world)], [set()] * world


def count(layout, strategy, config, row_bytes):
    """(epoch, batch, trainer) -> traffic of a run of SAGE."""
    graph, grid = layout.graph, strategy.grid
    offsets = split_offsets(layout, strategy.splits)
    cached, at_peers = cached_sets(layout, grid, config)
    plan = EpochPlan(
        graph.train_idx,
        layout.permutation,
        config.batch_size,
        config.seed,
        micro_batches=strategy.micro_batches,
        fixed_shares=strategy.fixed_shares,
    )
    # SAGE exchanges rows as wide as inputs or outputs of a layer, whichever is less.
    widths = {1: min(graph.num_features, config.hidden), 2: min(config.hidden, graph.num_classes)}
    assert graph.num_features <= config.hidden  # so that the first layer exchanges features, which want no gradient
    counted = {}
    for epoch in range(config.epochs):
        for batch in range(plan.num_batches):
            for micro, targets in enumerate(plan.micro_batches(epoch, batch)):
                key = {"seed": config.seed, "epoch": epoch, "batch": batch, "micro": micro}
                splits = splits_of(layout, targets, config.fan_out, offsets=offsets, **key)
                for k, split in enumerate(splits):
                    rank = grid.rank(data=micro, split=k)
                    needed = set(split.vertices)
                    assert len(needed) == len(split.vertices)
                    hits, peers = needed & cached[rank], needed & at_peers[rank]
                    host = needed - hits - peers
                    edges = sum(len(row) for rows in split.edges.values() for row in rows)
                    sent = {at: [len(other.received[at][k]) for other in splits] for at in split.received}
                    got = [len(rows) for rows in split.received[2]]
                    counted[epoch + 1, batch, rank] = {
                        "sampled_edges": edges,
                        "computed_edges": edges,
                        "computed_vertices": sum(split.level_sizes[1:]),
                        "cache_hits": len(hits),
                        "peer_rows": len(peers),
                        "host_rows": len(host),
                        "host_to_device_bytes": len(host) * row_bytes,
                        "device_to_device_bytes": len(peers) * row_bytes,
                        "exchange_forward_bytes": sum(4 * widths[at] * sum(rows) for at, rows in sent.items()),
                        "exchange_backward_bytes": 4 * widths[2] * sum(got),
                        "exchange_forward_messages": sum(n > 0 for rows in sent.values() for n in rows),
                        "exchange_backward_messages": sum(n > 0 for n in got),
                        **{f"level_{level}_vertices": size for level, size in enumerate(split.level_sizes)},
                    }
    return counted
