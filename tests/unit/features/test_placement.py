"""Which rows are cached where: against counts made by hand."""

from fractions import Fraction

import numpy as np
import pytest

from gsplit.features.placement import hottest, prefixes
from gsplit.units import CacheSize


def test_sizes_are_bytes_a_share_or_auto():
    assert CacheSize.parse("4GiB") == CacheSize(num_bytes=4 << 30)
    assert CacheSize.parse("12.5%") == CacheSize(share=Fraction(1, 8))
    assert CacheSize.parse(" Auto ") == CacheSize()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("0", "--cache none"), ("0%", "above 0 %"), ("101%", "at most 100 %"), ("much", "no size"), ("-5%", "no size")],
)
def test_bad_sizes_are_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        CacheSize.parse(text)


def test_prefixes_of_unequal_parts():
    offsets = np.array([0, 10, 14, 14, 30])
    assert prefixes(offsets, 4, rows=6).tolist() == [6, 4, 0, 6]
    assert prefixes(offsets, 4, rows=1000).tolist() == [10, 4, 0, 16]
    # 10 % of 30 rows on each of 4 trainers is 40 % of every part, rounded up.
    assert prefixes(offsets, 4, share=Fraction(1, 10)).tolist() == [4, 2, 0, 7]
    assert prefixes(offsets, 4, share=Fraction(1, 4)).tolist() == [10, 4, 0, 16]
    # Two trainers hold two parts each: 7 rows are shared out 10 : 4, and 0 : 16.
    assert prefixes(offsets, 2, rows=7).tolist() == [5, 2, 0, 7]
    assert prefixes(offsets, 1, share=Fraction(1, 2)).tolist() == [5, 2, 0, 8]


def test_the_hottest_of_a_neighbourhood():
    # In-neighbours: 0 <- 1, 2; 1 <- 2, 2 (a double edge); 2 <- 3; 3 <- nobody; 4 <- 1; 5 alone.
    indptr, indices = np.array([0, 2, 4, 5, 5, 6, 6]), np.array([1, 2, 2, 2, 3, 1], np.int32)
    # One hop from 0: reached 1 and 2, once each, and 0 itself, by no edge.
    assert hottest(indptr, indices, np.array([0]), 1, 10).tolist() == [1, 2, 0]
    # Two hops: the edges into 0, 1 and 2 count, also those into 0 once more (a vertex is drawn again at each hop).
    assert hottest(indptr, indices, np.array([0]), 2, 10).tolist() == [2, 1, 3, 0]
    assert hottest(indptr, indices, np.array([0]), 2, 2).tolist() == [2, 1]
    assert hottest(indptr, indices, np.array([5]), 3, 10).tolist() == [5]
    assert hottest(indptr, indices, np.array([], np.int64), 3, 10).tolist() == []


def test_the_hottest_do_not_depend_on_the_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    degrees = rng.integers(0, 9, 200)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices = rng.integers(0, 200, indptr[-1])
    whole = hottest(indptr, indices, np.arange(5), 2, 60)
    monkeypatch.setattr("gsplit.features.placement.PIECE_EDGES", 7)
    assert (hottest(indptr, indices, np.arange(5), 2, 60) == whole).all()
