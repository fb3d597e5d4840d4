"""Shares of edges: all together they are the block, cut as evenly as can be, both ways round."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.graphs import random_graph

from gsplit.errors import InputError
from gsplit.full import edge_shares, shards
from gsplit.full.edge_shares import EdgeBlock, read_edge_share
from gsplit.full.moves import shares
from gsplit.full.operators import transposed
from gsplit.full.reading import edge_pieces, places_in_ranges
from gsplit.full.shards import read_shard

GRAPH = random_graph(70, 12, seed=5, weighted=True)
ROWS, SOURCES = [(10, 40), (55, 60)], [(5, 25), (0, 3), (60, 70)]
"""Vertices of rows and of sources, in their order; some rows have no edge, one has many."""


def block_of(rows, weights=GRAPH.edge_weight, graph=GRAPH):
    of_rows, of_sources = (sum(end - begin for begin, end in ranges) for ranges in (rows, SOURCES))
    return EdgeBlock(
        graph=graph,
        ranges=[(0, 70)],
        rows=places_in_ranges(rows),
        num_rows=of_rows,
        sources=places_in_ranges(SOURCES),
        num_sources=of_sources,
        weights=weights,
    )


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("members", "at_once"), [(1, 1000), (2, 3), (3, 1000), (8, 50), (200, 1000)])
def test_shares_are_the_block(monkeypatch, members, turned, at_once):
    """In pieces of a few edges, too, and with more members than there are edges."""
    monkeypatch.setattr(shards, "edge_pieces", lambda indptr, a, b: edge_pieces(indptr, a, b, at_once))
    block = block_of(ROWS)
    whole = read_shard(block.graph, block.ranges, block.rows, block.num_rows, block.sources, block.weights)
    if turned:
        whole = transposed(whole, block.num_sources)
    found = [read_edge_share(block, member, members, turned=turned) for member in range(members)]
    edges = len(whole.edges.indices)
    assert edges > 50
    assert [len(share.indices) for share in found] == [len(share.weight) for share in found] == shares(edges, members)
    assert [len(share.ends) for share in found] == shares(whole.edges.num_rows, members)
    assert {(share.num_edges, share.num_rows) for share in found} == {(edges, whole.edges.num_rows)}
    assert torch.equal(torch.cat([share.ends for share in found]), whole.edges.indptr[1:])
    assert torch.equal(torch.cat([share.indices for share in found]), whole.edges.indices)
    assert torch.equal(torch.cat([share.weight for share in found]), whole.weight)
    # What comes of a member are the edges of its rows, and of a row that is cut those that it has.
    assert all(share.runs == found[0].runs for share in found)
    pairs, rows = [], whole.edges.rows()
    for share, run in zip(found, share_runs := found[0].runs, strict=True):
        of_run = run.edges(whole.edges.indptr, share.indices)
        pairs += zip((of_run.rows() + run.first_row).tolist(), of_run.indices.tolist(), strict=True)
    assert pairs == list(zip(rows.tolist(), whole.edges.indices.tolist(), strict=True))
    assert all(before.end == run.begin for before, run in itertools.pairwise(share_runs))


@pytest.mark.parametrize("turned", [False, True])
def test_of_nothing_every_share_is_empty(turned):
    for rows in ([(10, 10)], ROWS):
        graph = replace(GRAPH, indptr=np.zeros(71, np.int64), indices=GRAPH.indices[:0])
        share = read_edge_share(block_of(rows, None, graph), 1, 2, turned=turned)
        assert (share.num_edges, len(share.indices), share.weight) == (0, 0, None)


def test_a_share_reads_no_other_edges_than_those_of_its_rows(monkeypatch):
    read = []
    monkeypatch.setattr(edge_shares, "read_shard", lambda *args: read.append(read_shard(*args)) or read[-1])
    share = read_edge_share(block_of(ROWS), 1, 4, turned=False)
    most = int(np.diff(GRAPH.indptr).max())
    assert len(share.indices) <= len(read[0].edges.indices) <= len(share.indices) + 2 * most


def test_more_edges_than_can_be_counted_are_refused(monkeypatch):
    monkeypatch.setattr(shards, "MOST_EDGES", 40)
    with pytest.raises(InputError, match="more than the 40 edges"):
        read_edge_share(block_of(ROWS), 0, 8, turned=True)
