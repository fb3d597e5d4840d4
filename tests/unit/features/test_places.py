"""Rows are found wherever they lie, held against a slow search."""

from __future__ import annotations

import numpy as np
import pytest
from support.messages import line_with

import gsplit._core as _core
from gsplit.data import first_parts
from gsplit.features.places import Places, Prefixes


def slowly(vertices, offsets, cache_rows, first_part):
    """Holder and row of each vertex; -1 and the vertex itself where nobody caches it."""
    found = []
    for vertex in vertices.tolist():
        part = int(np.searchsorted(offsets, vertex, side="right")) - 1
        holder = int(np.searchsorted(first_part, part, side="right")) - 1
        if vertex - offsets[part] < cache_rows[part]:
            before = int(cache_rows[first_part[holder] : part].sum())
            found.append((holder, before + vertex - int(offsets[part])))
        else:
            found.append((-1, vertex))
    return found


@pytest.mark.parametrize(("parts", "holders"), [(1, 1), (2, 2), (4, 3), (16, 3), (7, 7)])
def test_every_vertex_is_found_where_it_is(parts, holders):
    random = np.random.default_rng(parts)
    sizes = random.integers(0, 40, parts)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    cache_rows = np.minimum(random.integers(0, 40, parts), sizes)
    cache_rows[-1] = sizes[-1]
    prefixes = Prefixes(offsets, cache_rows, holders)
    first_part = first_parts(parts, holders)
    for asked in ([*range(holders)], [holders - 1]):
        vertices = random.permutation(offsets[-1])[: max(1, offsets[-1] // 2)]
        found, left = prefixes.find(vertices, asked)
        got = dict.fromkeys(range(len(vertices)))
        for holder, places in [*found.items(), (-1, left)]:
            positions = range(len(vertices)) if places.positions is None else places.positions.tolist()
            assert list(positions) == sorted(positions)
            got |= {at: (holder, row) for at, row in zip(positions, places.rows.tolist(), strict=True)}
        wanted = slowly(vertices, offsets, cache_rows, first_part[:-1])
        assert [got[at] for at in range(len(vertices))] == [
            each if each[0] in asked else (-1, int(vertex)) for each, vertex in zip(wanted, vertices, strict=True)
        ]
        Places(own=found[asked[-1]], host=left, peers={each: found[each] for each in asked[:-1]}).validate(
            len(vertices)
        )


def test_a_place_that_has_all_rows_needs_no_positions():
    prefixes = Prefixes(np.array([0, 5, 9]), np.array([0, 4]), 2)
    found, left = prefixes.find(np.array([8, 6, 5]), [1])
    assert found[1].positions is None
    assert found[1].rows.tolist() == [3, 1, 0]
    assert len(left) == 0
    found, left = prefixes.find(np.array([0, 4]), [1])
    assert left.positions is None
    assert left.rows.tolist() == [0, 4]
    found, left = prefixes.find(np.array([], np.int64), [1])
    assert left.positions is not None


def test_ids_outside_of_a_table_are_refused_before_anything_is_written():
    rows, positions = np.full(2, 7), np.full(2, 7)
    for bad in (-1, 3):
        with pytest.raises(ValueError, match=line_with(f"row {bad}, 0 .. 2")):
            _core.find_rows_by_table(np.array([0, bad]), np.zeros(3, np.int32), rows, positions)
    with pytest.raises(ValueError, match="a row and a position for each id"):
        _core.find_rows_by_table(np.array([0]), np.zeros(3, np.int32), rows, positions)
    with pytest.raises(ValueError, match="the last place"):
        _core.find_rows(np.array([0, 1]), np.array([[0, 1, 0, 1]]), rows, positions, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="the last place"):
        _core.find_rows(np.array([0, 1]), np.zeros((0, 4), np.int64), rows, positions, np.zeros(0, np.int64))
    for ranges in ([[4, 6, 0, 0], [0, 2, 2, 0]], [[0, 3, 0, 0], [2, 4, 3, 0]], [[3, 2, 0, 0]]):
        with pytest.raises(ValueError, match="must be sorted, and must not overlap"):
            _core.find_rows(np.array([0, 1]), np.array(ranges), rows, positions, np.zeros(2, np.int64))
    with pytest.raises(TypeError):  # not copies of them, which nobody would see
        _core.find_rows_by_table(np.array([0, 1]), np.zeros(3, np.int32), rows.astype(np.int32), positions)
    assert rows.tolist() == positions.tolist() == [7, 7]
