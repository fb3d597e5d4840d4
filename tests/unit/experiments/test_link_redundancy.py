"""What micro-batches of pairs do twice, against a slow count that shares no code with what it checks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.documents import undocumented
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.reference import draw_positions, key_of, split_by

from experiments.links import redundancy
from experiments.links.redundancy import counts_of, links_of, row_of
from gsplit.errors import InputError
from gsplit.sampling import EpochPlan, sampler_of

FAN_OUT, SEED, BATCHES = (4, 3), 5, 2
TINY = ("--dataset", "synthetic:tiny", "--batch-sizes", "40", "--fan-out", "4,3", "--iterations", "2")


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(301, 10, seed=3), tmp_path_factory.mktemp("redundancy"), parts=1)


def slow_counts(layout, batch, micro, targets, without=()):
    """[targets, rows, vertices, edges] of one micro-batch that does not draw the edges (source, destination)."""
    graph, without = layout.graph, set(without)

    def choose(hop, destinations):
        hop_key = key_of([SEED, 0, batch, micro, hop])
        kept = {}
        for v in destinations:
            sources = graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()
            left = [place for place, u in enumerate(sources) if (u, v) not in without]
            drawn = draw_positions(len(left), FAN_OUT[hop - 1], hop_key, int(layout.permutation[v]))
            kept[v] = [left[place] for place in drawn]
        return kept, {}

    (split,) = split_by(graph, [0, graph.num_vertices], [int(v) for v in targets], len(FAN_OUT), choose)
    edges = sum(len(row) for rows in split.edges.values() for row in rows)
    return np.array([len(targets), split.level_sizes[0], sum(split.level_sizes[1:]), edges])


@pytest.mark.parametrize("micros", [1, 3])
@pytest.mark.parametrize("kind", ["uniform:2", "joint:5+uniform:1", "in-batch"])
def test_counts_of_pairs_are_those_of_slow_ones(layout, kind, micros):
    plan = links_of(kind, FAN_OUT).plan(layout, batch_size=30, seed=SEED, micro_batches=micros)
    expected, seen = np.zeros(4), np.zeros(4)
    for batch in range(BATCHES):
        for micro, pairs in enumerate(plan.pairs(0, batch)):
            ends = pairs.targets[pairs.sources].tolist(), pairs.targets[pairs.destinations].tolist()
            without = [*zip(*ends, strict=True), *zip(*ends[::-1], strict=True)]
            expected += slow_counts(layout, batch, micro, pairs.targets, without)
            seen += slow_counts(layout, batch, micro, pairs.targets)
    counted = counts_of(sampler_of(layout, fan_outs=FAN_OUT, seed=SEED), plan, range(BATCHES))
    assert (counted * BATCHES).tolist() == expected.tolist() != seen.tolist()


def test_counts_of_vertices_are_those_of_slow_ones(layout):
    plan = EpochPlan(np.arange(301), layout.permutation, 40, SEED, micro_batches=3)
    expected = sum(
        slow_counts(layout, batch, micro, targets)
        for batch in range(BATCHES)
        for micro, targets in enumerate(plan.micro_batches(0, batch))
    )
    counted = counts_of(sampler_of(layout, fan_outs=FAN_OUT, seed=SEED), plan, range(BATCHES))
    assert (counted * BATCHES).tolist() == expected.tolist()


def test_ratios_are_over_one_mini_batch():
    row = row_of(lambda number: np.array([10, 20, 40, 80]) + number * np.array([0, 10, 20, 30]), (2, 4))
    assert row == {
        **{"targets": 10, "rows": 30, "vertices": 60, "edges": 110},
        **{"rows_ratios": [1.33, 2.0], "vertices_ratios": [1.33, 2.0], "edges_ratios": [1.27, 1.82]},
    }


def test_the_command_writes_what_is_documented(tmp_path, capsys):
    redundancy.command([*TINY, "--work", str(tmp_path), "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    rows = result["redundancy"]
    assert [row["what"] for row in rows] == [
        *("vertices", "vertices, twice", "in-batch", "uniform:1", "uniform:10", "joint:64", "joint:1024")
    ]
    assert undocumented("Redundancy of links", {*result, *rows[0]}) == []
    assert all(len(row["rows_ratios"]) == 3 and min(row["rows_ratios"]) > 1 for row in rows)
    assert "| batch_size | what | targets |" in capsys.readouterr().out


def test_a_wrong_kind_is_refused():
    with pytest.raises(InputError, match=line_with("uniform, 1")):
        redundancy.command.parse(["--negatives", "joint:64+uniform"])
