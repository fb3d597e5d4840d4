"""Rows that travel for pairs, against sets of vertices."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.documents import undocumented
from support.graphs import lay_out
from support.links import linked_graph

from experiments.links import exchange
from experiments.links.exchange import ExchangeConfig, counts_of
from experiments.links.redundancy import links_of

CONFIG = ExchangeConfig(trainers=3, fan_out=(4, 3), batch_size=30, iterations=2, seed=5)


@pytest.mark.parametrize("kind", ["uniform:1", "uniform:2+joint:4/7", "in-batch"])
def test_rows_are_those_of_sets(tmp_path, kind):
    layout = lay_out(linked_graph(150, 8, seed=1), tmp_path, parts=3)
    plan = links_of(kind, CONFIG.fan_out).plan(layout, batch_size=30, seed=CONFIG.seed)
    owner = np.repeat(np.arange(3), np.diff(layout.offsets))
    at_source, at_destination, messages, groups = 0, 0, 0, np.zeros(3, int)
    for batch in range(2):
        (pairs,) = plan.pairs(0, batch)
        here, there = set(), set()
        for group, source in enumerate(pairs.targets[pairs.sources]):
            others = [pairs.targets[pairs.destinations[group]]]
            candidates = pairs.targets[np.concatenate([pairs.own[group], pairs.shared[group // pairs.chunk]])]
            here |= {(v, owner[source]) for v in [*others, *candidates] if owner[v] != owner[source]}
            counted = [*others, *candidates[~pairs.masked[group]]]
            there |= {(source, owner[v]) for v in counted if owner[v] != owner[source]}
            groups[owner[source]] += 1
        at_source, at_destination = at_source + len(here), at_destination + len(there)
        messages += len({(owner[v], to) for v, to in here})
    found = counts_of(layout, kind, CONFIG)
    assert (found["pair_rows"], found["at_destination_rows"]) == (at_source / 2, at_destination / 2)
    assert found["pair_messages"] == messages / 2
    assert found["groups_max_over_mean"] == pytest.approx(groups.max() / groups.mean())
    assert found["pairs_over_layers"] == pytest.approx(found["pair_rows"] / found["layer_rows"])


def test_one_trainer_sends_nothing(tmp_path):
    layout = lay_out(linked_graph(150, 8, seed=1), tmp_path, parts=3)
    found = counts_of(layout, "uniform:1", replace(CONFIG, trainers=1))
    assert found["layer_rows"] == found["pair_rows"] == found["at_destination_rows"] == 0


def test_the_command_writes_what_is_documented(tmp_path, capsys):
    words = ["--dataset", "synthetic:tiny", "--batch-size", "40", "--fan-out", "4,3", "--iterations", "2"]
    exchange.command([*words, "--work", str(tmp_path), "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    assert [row["negatives"] for row in result["exchange"]] == [
        *("uniform:1", "uniform:10", "joint:64", "joint:1024", "in-batch")
    ]
    assert undocumented("Exchange of links", {*result, *result["exchange"][0]}) == []
    assert "| negatives | layer_rows | pair_rows |" in capsys.readouterr().out
