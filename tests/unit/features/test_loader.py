"""Feature rows arrive as they were stored, and are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import line_with
from support.steps import CPU

from gsplit._core import gather_rows
from gsplit.features import FeatureLoader, HostRows, LoadCounters, gather


@settings(max_examples=40)
@given(
    dtype=st.sampled_from([np.float32, np.float16, np.float64]),
    width=st.sampled_from([1, 3, 64, 1000]),
    count=st.integers(0, 3000),
    threads=st.integers(1, 5),
)
def test_gather_is_indexing(dtype, width, count, threads):
    random = np.random.default_rng(count)
    rows = random.standard_normal((50, width)).astype(dtype)
    ids = random.integers(0, 50, count)
    assert (gather(rows, ids, threads=threads).numpy() == rows[ids]).all()


def test_gather_refuses_rows_that_are_not_there():
    rows = np.zeros((5, 2), np.float32)
    for bad in (5, -1):
        with pytest.raises(ValueError, match=line_with(f"row {bad}, 0 .. 4")):
            gather(rows, np.array([0, bad]), threads=2)


@settings(max_examples=40)
@given(width=st.sampled_from([1, 3, 64, 1000]), count=st.integers(0, 3000), threads=st.integers(1, 5))
def test_rows_are_put_where_they_belong_and_others_stay(width, count, threads):
    random = np.random.default_rng(count)
    rows = random.integers(0, 255, (50, width)).astype(np.uint8)
    ids, positions = random.integers(0, 50, count), random.permutation(count + 7)[:count]
    out = np.full((count + 7, width), 255, np.uint8)
    wanted = out.copy()
    wanted[positions] = rows[ids]
    gather_rows(rows, ids, out, threads, positions)
    assert (out == wanted).all()


def test_positions_are_checked_before_anything_is_written():
    rows, out = np.ones((5, 2), np.uint8), np.zeros((3, 2), np.uint8)
    for bad in (3, -1):
        with pytest.raises(ValueError, match=line_with(f"position {bad}, 0 .. 2")):
            gather_rows(rows, np.array([0, 1]), out, 1, np.array([0, bad]))
    with pytest.raises(ValueError, match=line_with("row 5, 0 .. 4")):
        gather_rows(rows, np.array([5]), out, 1, np.array([0]))
    for positions in (np.array([0]), None):
        with pytest.raises(ValueError, match="one position, or else one row of out, for each id"):
            gather_rows(rows, np.array([0, 1]), out, 1, positions)
    with pytest.raises(ValueError, match="as wide as the rows"):
        gather_rows(rows, np.array([0, 1, 2]), np.zeros((3, 1), np.uint8), 1)
    assert not out.any()


def loader(features, *, normalize=False, dtype=torch.float32):
    return FeatureLoader(HostRows(features), device=CPU, dtype=dtype, normalize=normalize, threads=1)


def test_rows_and_bytes_are_counted_as_stored():
    subject = loader(np.ones((10, 3), np.float16), dtype=torch.float64)
    assert subject.load(np.array([1, 2])).dtype == torch.float64
    subject.load(np.array([], np.int64))
    subject.load(np.array([7]))
    assert subject.take_counters() == LoadCounters(rows=3, host_rows=3, host_to_device_bytes=3 * 3 * 2)
    assert subject.counters == LoadCounters()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [3e38, -3.4e38, 1e30, 1.0, 1e-30, 1e-37, 1e-40, 1.4e-45])
def test_rows_near_the_ends_of_their_type_are_normalized_alike(value, dtype):
    """The sum of a huge row is infinite in float32, so that all of it would be 0; a tiny one has no inverse."""
    features = np.array([[value, value, value, 0], [1, 2, 3, 5], [0, 0, 0, -0.0]], np.float32)
    x = loader(features, normalize=True, dtype=dtype).load(np.array([0, 1, 2]))
    third = np.sign(value) / 3
    assert x[0].tolist() == pytest.approx([third, third, third, 0], rel=1e-6)
    assert torch.equal(x[1], loader(features[1:2], normalize=True, dtype=dtype).load(np.array([0]))[0])
    assert x[2].tolist() == [0, 0, 0, 0]


def test_normalized_rows_sum_to_one_and_zeros_stay():
    features = np.array([[1, 3, 0], [0, 0, 0], [2, -2, 0]], np.float32)
    x = loader(features, normalize=True).load(np.array([0, 1, 2]))
    assert x.tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0.5, -0.5, 0]]
