"""Feature rows arrive as they were stored, and are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.steps import CPU

from gsplit.features import FeatureLoader, HostRows, gather


@settings(max_examples=40, deadline=None)
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
        with pytest.raises(ValueError, match=f"row {bad} is outside 0 .. 4"):
            gather(rows, np.array([0, bad]), threads=2)


def loader(features, *, normalize=False, dtype=torch.float32):
    return FeatureLoader(HostRows(features), device=CPU, dtype=dtype, normalize=normalize, threads=1)


def test_rows_and_bytes_are_counted_as_stored():
    subject = loader(np.ones((10, 3), np.float16), dtype=torch.float64)
    assert subject.load(np.array([1, 2])).dtype == torch.float64
    subject.load(np.array([], np.int64))
    subject.load(np.array([7]))
    assert (subject.counters.rows, subject.counters.host_to_device_bytes) == (3, 3 * 3 * 2)


def test_normalized_rows_sum_to_one_and_zeros_stay():
    features = np.array([[1, 3, 0], [0, 0, 0], [2, -2, 0]], np.float32)
    x = loader(features, normalize=True).load(np.array([0, 1, 2]))
    assert x.tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0.5, -0.5, 0]]
