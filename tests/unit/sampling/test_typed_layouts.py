"""Mini-batches of layouts of several types: law 1 over partitions, with micro-batches."""

from __future__ import annotations

import numpy as np
import pytest
from support.typed_graphs import random_typed_graph

from gsplit.data import open_layout, write_store
from gsplit.partition import PartitionConfig, partition
from gsplit.sampling import MicroBatches, Neighbours, SamplerSpec

RULE = Neighbours(fan_out=(3, 2), fan_out_of=((1, (0, -1)), (2, (1, 4))))


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """The same graph in one part and in three."""
    folder = tmp_path_factory.mktemp("typed")
    write_store(folder / "store", random_typed_graph(3, 5, seed=3), name="g", source="test")
    for parts in (1, 3):
        out = folder / f"layout{parts}"
        partition(PartitionConfig(store=folder / "store", out=out, parts=parts, method="random"))
    return {parts: open_layout(folder / f"layout{parts}", typed=True) for parts in (1, 3)}


def drawn(layout, splits):
    """(batch, micro, layer, relation) -> sorted (destination, source) in global ids, of all splits; and targets."""
    spec = SamplerSpec(
        layout=layout.path, rule=RULE, batch_size=9, seed=4, edge_ids=True, micro_batches=2, splits=splits
    )
    batches, edges, targets = MicroBatches(layout, spec), {}, {}
    names = layout.permutations
    for batch in range(RULE.num_batches(layout, batch_size=9, micro_batches=2)):
        for micro, sampler in enumerate(batches.sample_all(1, batch)):
            segments = [sampler.segment(rank) for rank in range(splits)]
            of_targets = [names[layout.graph.target][segment.targets] for segment in segments]
            targets[batch, micro] = sorted(np.concatenate(of_targets).tolist())
            for layer in (1, 2):
                for relation, (source, to) in enumerate(segments[0].relations):
                    found = edges.setdefault((batch, micro, layer, relation), [])
                    indices = layout.graph.adjacencies[relation].indices
                    for segment in segments:
                        segment.validate()
                        ends = np.diff(segment.indptr(layer, relation))
                        rows = np.repeat(segment.vertices_of(to)[: len(ends)], ends)
                        sources = indices[segment.edge_ids(layer, relation)]
                        found += zip(names[to][rows].tolist(), names[source][sources].tolist(), strict=True)
    return {key: sorted(pairs) for key, pairs in edges.items()}, targets


def test_law_1_draws_do_not_depend_on_the_layout_nor_on_the_splits(layouts):
    whole = drawn(layouts[1], 1)
    assert sum(map(len, whole[0].values())) > 300
    assert not any(pairs for (_, _, layer, relation), pairs in whole[0].items() if (layer, relation) == (2, 1))
    assert drawn(layouts[3], 3) == whole
    assert drawn(layouts[3], 2) == whole


def test_fan_outs_of_a_relation_take_the_place_of_those_of_all():
    assert RULE.fan_outs(4) == [[3, 0, 1, 3], [2, -1, 4, 2]]
