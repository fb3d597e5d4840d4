"""Candidates are drawn by row alone, none of them is known, and what is known is what edges and pairs say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.graphs import lay_out, random_graph
from support.messages import line_with

import gsplit
from gsplit.config.links import drawn_candidates
from gsplit.data.links.edge_sets import Links
from gsplit.engine.evaluation import candidates
from gsplit.engine.evaluation.candidates import (
    drawn_rows,
    known_beside_edges,
    known_entries,
    known_of,
    ranked_rows,
    ranking_candidates,
    rounds,
)
from gsplit.engine.evaluation.ranking import Known
from gsplit.errors import InputError

N = 60
NONE = np.empty((0, 2), np.int64)
GIVEN = Links(
    valid=np.array([[0, 1]]),
    test=np.array([[1, 2]]),
    valid_candidates=np.array([[3]]),
    test_negatives=np.array([[4, 5]]),
)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    graph, place = random_graph(N, 6, seed=1), tmp_path_factory.mktemp("layouts")
    return [lay_out(graph, place, parts=parts, method=method) for parts, method in ((1, "metis"), (3, "random"))]


def known_pairs(layout, pairs):
    """(source, destination) as layout ids, by a loop."""
    graph, found = layout.graph, set()
    for v in range(N):
        found |= {(int(u), v) for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
    place = {int(vertex): at for at, vertex in enumerate(layout.permutation)}
    return found | {(place[u], place[v]) for of_set in pairs for u, v in of_set.tolist()}


@pytest.mark.parametrize("at_once", [7, 1 << 20])
def test_what_is_known_is_what_edges_and_pairs_say(layouts, monkeypatch, at_once):
    monkeypatch.setattr(candidates, "PIECE_EDGES", at_once)
    monkeypatch.setattr(candidates, "KNOWN_AT_ONCE", at_once)
    random = np.random.default_rng(2)
    pairs = [random.integers(0, N, (30, 2)), random.integers(0, N, (20, 2)), NONE]
    for layout in layouts:
        wanted, sources = known_pairs(layout, pairs), np.sort(random.integers(0, N, 25))
        entries, seen = known_entries(layout, pairs), []
        assert entries.sum() == layout.graph.num_edges + 50
        for part in rounds(sources, entries):
            distinct = np.unique(sources[part])
            assert len(distinct) == 1 or entries[distinct].sum() <= at_once
            known = known_of(layout, sources[part], pairs)
            lists = known.lists(sources[part])
            for i, u in enumerate(sources[part].tolist()):
                rows = lists.rows[lists.indptr[i] : lists.indptr[i + 1]].tolist()
                assert rows == sorted(v for w, v in wanted if w == u)
            seen += range(part.start, part.stop)
        assert seen == list(range(len(sources)))


def test_candidates_are_the_same_under_every_layout_and_in_every_piece(layouts):
    drawn = []
    for layout in layouts:
        sources = layout.positions[np.arange(N)]
        left_out = known_of(layout, sources, []).lists(sources, sources)
        rows = drawn_rows(layout, 3, np.arange(N), 8, left_out)
        known = known_pairs(layout, [])
        for u, of_source in zip(sources.tolist(), rows.tolist(), strict=True):
            assert all(c >= 0 and c != u and (u, c) not in known for c in of_source)
        drawn.append(layout.permutation[rows])
        piece = known_of(layout, sources[20:30], []).lists(sources[20:30], sources[20:30])
        assert drawn_rows(layout, 3, np.arange(20, 30), 8, piece).tolist() == rows[20:30].tolist()
        assert drawn_rows(layout, 4, np.arange(20, 30), 8, piece).tolist() != rows[20:30].tolist()
    assert drawn[0].tolist() == drawn[1].tolist()


def test_candidates_are_drawn_uniformly_of_those_that_are_none(layouts):
    pairs, left_out = np.arange(4000), np.arange(0, N, 2)
    lists = Known.of(np.repeat(pairs, len(left_out)), np.tile(left_out, len(pairs)), 4000).lists(pairs)
    drawn = drawn_rows(layouts[0], 1, pairs, 5, lists, attempts=40)
    counts = np.bincount(drawn.reshape(-1), minlength=N)
    assert (counts[left_out] == 0).all()
    assert stats.chisquare(np.delete(counts, left_out)).pvalue > 1e-3
    once = drawn_rows(layouts[0], 1, pairs, 5, lists, attempts=1)
    assert abs((once < 0).mean() - 0.5) < 0.02  # what was left out at the last attempt is none


def test_validation_pairs_are_known_both_ways_where_edges_go_both_ways(layouts, tmp_path):
    one_way = layouts[1]
    pairs = np.stack([one_way.graph.indices, np.repeat(np.arange(N), np.diff(one_way.graph.indptr))])
    both = gsplit.from_arrays(np.concatenate([pairs, pairs[::-1]], axis=1), num_vertices=N)
    laid_out = lay_out(both.graph, tmp_path, parts=2)
    for layout, ways in ((one_way, 1), (laid_out, 2)):
        graph = replace(layout.graph, links=replace(GIVEN, train=np.array([[7, 8]])))
        known = known_beside_edges(replace(layout, graph=graph), "test")
        assert [each.tolist() for each in known] == [[[7, 8]], [[0, 1]], [[1, 0]]][: 1 + ways]
        assert len(known_beside_edges(replace(layout, graph=graph), "valid")) == 1


def test_which_candidates_a_run_takes():
    def choose(asked, links=GIVEN, name="valid", **changes):
        return ranking_candidates(asked, links, name, **{"num_vertices": 100, "width": 10, "pairs": 50, **changes})

    assert [choose("auto", name=name) for name in ("valid", "test")] == ["given", "given"]
    nothing = replace(GIVEN, valid_candidates=None)
    assert choose("auto", nothing) == "all"
    assert choose("auto", nothing, num_vertices=10**6, pairs=10**6) == "all"
    assert choose("auto", nothing, num_vertices=10**6, pairs=10**6 + 1) == "uniform:1000"
    assert [choose(asked) for asked in ("all", "given", "uniform:99")] == ["all", "given", "uniform:99"]
    with pytest.raises(InputError, match=line_with("--evaluate-negatives given, valid, --valid-candidates")):
        choose("given", nothing)
    with pytest.raises(InputError, match=line_with("uniform:100, 100")):
        choose("uniform:100")


def test_names_of_candidates():
    assert [drawn_candidates(name) for name in ("all", "given", "auto", "uniform:7")] == [None, None, None, 7]
    for name in ("", "uniform", "uniform:0", "uniform:-1", "uniform:x", f"uniform:{2**20 + 1}", "joint:5"):
        with pytest.raises(ValueError, match="uniform:K"):
            drawn_candidates(name)


def test_so_many_pairs_are_ranked():
    assert ranked_rows(5, None, 1).tolist() == ranked_rows(5, 9, 1).tolist() == [0, 1, 2, 3, 4]
    some = ranked_rows(1000, 10, 1)
    assert len(set(some.tolist())) == 10
    assert (np.diff(some) > 0).all()
    assert some.tolist() != ranked_rows(1000, 10, 2).tolist()
