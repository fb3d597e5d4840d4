"""Rows in common memory, whole and in panels of columns: the same values, and the same sums bit for bit."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from support.threads import in_threads
from support.whole import buffers

from gsplit.full import common_rows as common_rows_module
from gsplit.full.common_rows import FEWEST_COLUMNS, CommonRows, cache_bytes, columns_of_panel
from gsplit.full.operators import CommonOperator
from gsplit.full.shards import Shard
from gsplit.kernels import Edges
from gsplit.nn.neighbourhood import Factors

SIZES = [13, 0, 30, 21]
"""Rows of each of four trainers, one of which has none."""
WIDTH = 2 * FEWEST_COLUMNS + 5


def rows_of(rank):
    return torch.from_numpy(np.random.default_rng(rank).standard_normal((SIZES[rank], WIDTH)).astype(np.float32))


def common_rows(member, shared, cache):
    common = CommonRows(member, shared.rows)
    common._cache = cache
    return common


def shared_twice(member, shared, sizes, cache):
    """Panels of the rows and the rows whole, by factors and without, each twice, so that buffers are used again."""
    common = common_rows(member, shared, cache)
    own, by = rows_of(member.rank), torch.arange(1.0, sizes[member.rank] + 1)
    found = []
    for factor in (None, by, None, by):
        panels = [panel.clone() for panel in common.share_panels(own, sizes, factor)]
        found.append((panels, common.share(own, sizes, factor).clone()))
    return found


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_panels_are_the_columns_of_the_rows(world):
    sizes = SIZES[:world]
    for of_rank in in_threads(world, shared_twice, buffers(), sizes, sum(sizes) * FEWEST_COLUMNS * 4):
        for panels, rows in of_rank:
            widths = [panel.shape[1] for panel in panels]
            assert widths == ([WIDTH] if world == 1 else [FEWEST_COLUMNS, FEWEST_COLUMNS, 5])
            assert torch.equal(torch.cat(panels, 1), rows)


def size_of_cache(member, sizes):
    """What rows are cut by, where the cores of trainers have caches of other sizes."""
    with mock.patch.object(common_rows_module, "cache_bytes", return_value=sizes[member.rank]):
        return CommonRows(member, ())._cache


def test_trainers_on_different_cores_cut_rows_alike(pool):
    assert pool.run(3, size_of_cache, [1 << 21, 1 << 20, 1 << 22]) == [1 << 20] * 3


def summed(member, shared, cache):
    """Sums forward and backward of a random bipartite graph between all trainers' rows."""
    random = np.random.default_rng(5)
    total, own = sum(SIZES), SIZES[member.rank]
    degrees = random.integers(0, 9, total)
    ends = np.concatenate([[0], degrees.cumsum()])
    sources = random.integers(0, total, ends[-1])
    begin, end = sum(SIZES[: member.rank]), sum(SIZES[: member.rank + 1])
    indptr = torch.from_numpy((ends[begin : end + 1] - ends[begin]).astype(np.int32))
    indices = torch.from_numpy(sources[ends[begin] : ends[end]].astype(np.int32))
    weight = torch.from_numpy(random.random(total * 9).astype(np.float32))[: len(indices)]
    shard = Shard(Edges(indptr=indptr, indices=indices), weight)
    operator = CommonOperator(shard, shard, common_rows(member, shared, cache), SIZES, SIZES)
    factor = torch.linspace(0.5, 2, own)
    x, by = rows_of(member.rank), Factors(sources=factor, sums=factor * 3, own=factor[: max(0, own - 2)])
    return [
        way(x, factors, weighted=weighted)
        for way in (operator.forward, operator.backward)
        for factors in (Factors(), by)
        for weighted in (False, True)
    ]


def test_sums_of_panels_are_those_of_whole_rows_bit_for_bit():
    in_panels = in_threads(4, summed, buffers(), sum(SIZES) * FEWEST_COLUMNS * 4)
    whole = in_threads(4, summed, buffers(), 0)
    for one, other in zip(in_panels, whole, strict=True):
        assert len(one) == 8
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert any(a.abs().sum() > 0 for a in whole[0])


def test_panels_are_as_wide_as_the_cache_lets_them():
    assert columns_of_panel(1000, 128, 4, 1000 * 128 * 4) == 128  # all of it fits
    assert columns_of_panel(1000, 128, 4, 1000 * 128 * 4 - 1) == 96
    assert columns_of_panel(1000, 128, 4, 1000 * 64 * 4) == 64
    assert columns_of_panel(1000, 128, 8, 1000 * 64 * 4) == 32
    assert columns_of_panel(1000, 128, 4, 1000 * 32 * 4 - 1) == 128  # panels would be too narrow
    assert columns_of_panel(1000, 128, 4, 0) == 128  # a cache of unknown size
    assert columns_of_panel(0, 128, 4, 0) == 128
    assert columns_of_panel(1000, 0, 4, 1) == 0
    assert cache_bytes() >= 0
