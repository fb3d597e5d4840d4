"""Edge weights that are not above 0, against a slow reference."""

from __future__ import annotations

import numpy as np
import pytest
from support.graphs import random_graph, with_signs

from gsplit.data.inspect import negative_weights
from gsplit.data.inspect.negative_weights import weight_signs


def rows_of(graph):
    """Sources and weights of each vertex's in-edges."""
    bounds = list(zip(graph.indptr[:-1], graph.indptr[1:], strict=True))
    return [(graph.indices[a:b], graph.edge_weight[a:b].astype(np.float64)) for a, b in bounds]


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_vertices_with_negative_weights_are_found(monkeypatch, at_once):
    monkeypatch.setattr(negative_weights, "PIECE_EDGES", at_once)
    graph = with_signs(random_graph(120, 6, seed=3))
    graph.indices[::5] = np.repeat(np.arange(120), np.diff(graph.indptr))[::5]  # loops
    rows, found = rows_of(graph), weight_signs(graph)
    below = [v for v, (_, weights) in enumerate(rows) if (weights < 0).any()]
    assert found.negative == (graph.edge_weight < 0).sum() > 20
    assert found.vertices.tolist() == below
    assert found.loops.tolist() == [v in rows[v][0] for v in below]
    assert set(found.loops.tolist()) == {True, False}
    np.testing.assert_allclose(found.sums, [rows[v][1].sum() for v in below], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.sizes, [abs(rows[v][1]).sum() for v in below], rtol=1e-12)
    assert found.weightless.tolist() == [v for v, (_, w) in enumerate(rows) if len(w) and not w.any()]
    assert not found.all_zero
    for loop, where_none in ((0.0, False), (0.5, False), (0.5, True)):
        wanted = []
        for v in below:
            own = 0.0 if where_none and v in rows[v][0] else loop
            if rows[v][1].sum() + own < 1e-4:  # none of these graphs is nearer to the bound
                wanted.append(v)
        assert found.not_positive(loop, where_none=where_none).tolist() == wanted
        assert wanted


def test_weights_of_0_or_more_are_told_from_others():
    graph = random_graph(40, 4, seed=1, weighted=True)
    assert (weight_signs(graph).negative, len(weight_signs(graph).vertices)) == (0, 0)
    graph.edge_weight[:] = [-0.0 if at % 2 else 0.0 for at in range(graph.num_edges)]
    found = weight_signs(graph)
    assert found.all_zero
    assert found.negative == 0
    assert found.weightless.tolist() == np.flatnonzero(np.diff(graph.indptr)).tolist()
    graph.edge_weight[-1] = -1e-42  # a denormal number
    found = weight_signs(graph)
    assert (found.negative, found.all_zero, len(found.not_positive())) == (1, False, 1)
    assert len(found.not_positive(1.0)) == 0
