"""What presampling counts, beside the slow reference sampler; and that it does not count the training itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.reference import sample_and_split

from gsplit import _core
from gsplit.errors import InputError
from gsplit.partition.presample import PRESAMPLE, Training, presample
from gsplit.sampling.plan import EpochPlan, fold_key

TRAINING = Training(fan_out=(3, -1), batch_size=40)


def count_by_hand(graph, seed, epochs, global_ids=None):
    """(mini-batches, loaded, computed, drawn) in dictionaries."""
    seed = fold_key(seed, PRESAMPLE)
    ids = np.arange(graph.num_vertices) if global_ids is None else global_ids
    plan = EpochPlan(graph.train_idx, ids, TRAINING.batch_size, seed)
    loaded, computed, drawn, number = Counter(), Counter(), Counter(), 0
    for epoch in range(epochs):
        for batch, targets in plan.batches(epoch):
            (split,) = sample_and_split(graph, [0, graph.num_vertices], targets.tolist(), TRAINING.fan_out, seed=seed,
                                        epoch=epoch, batch=batch, global_ids=global_ids)  # fmt: skip
            number += 1
            loaded.update(split.vertices)
            for layer, rows in split.edges.items():
                for vertex, row in zip(split.vertices, rows, strict=False):
                    computed[vertex] += len(row)
                drawn.update(split.edge_ids[layer])
    return number, loaded, computed, drawn


def dense(counts, n):
    return [counts[i] for i in range(n)]


@pytest.mark.parametrize(("seed", "epochs", "index_dtype"), [(0, 1, np.int32), (3, 2, np.int64)])
def test_counts_equal_the_reference(seed, epochs, index_dtype):
    graph = random_graph(200, 6, seed=seed, index_dtype=index_dtype)
    counts = presample(graph, TRAINING, epochs=epochs, seed=seed, count_edges=True, threads=2)
    number, loaded, computed, drawn = count_by_hand(graph, seed, epochs)
    assert counts.mini_batches == number == 3 * epochs
    assert counts.loaded.tolist() == dense(loaded, 200)
    assert counts.computed.tolist() == dense(computed, 200)
    assert counts.drawn.tolist() == dense(drawn, graph.num_edges)


def test_a_layout_counts_what_its_store_counts(tmp_path):
    graph = random_graph(200, 6)
    layout = lay_out(graph, tmp_path, parts=3)
    ids = layout.permutation
    own = presample(layout.graph, TRAINING, epochs=2, seed=0, global_ids=ids)
    store = presample(graph, TRAINING, epochs=2, seed=0)
    assert own.loaded.tolist() == store.loaded[ids].tolist()
    assert own.computed.tolist() == store.computed[ids].tolist()
    assert own.drawn is None


def test_the_draws_are_not_those_of_the_training():
    assert fold_key(0, PRESAMPLE) != 0
    assert fold_key(7, PRESAMPLE) not in (7, fold_key(0, PRESAMPLE))


def test_nothing_to_sample_for():
    graph = random_graph(20, 3)
    graph.train_idx.resize(0, refcheck=False)
    with pytest.raises(InputError, match="no training vertices to sample for; give it some"):
        presample(graph, TRAINING, epochs=1, seed=0)


def test_count_ids():
    counts = np.array([0, 1, 2**32 - 1], np.uint32)
    _core.count_ids(np.array([1, 0, 1, 2]), counts)
    assert counts.tolist() == [1, 3, 2**32 - 1]  # a full one stays full
    with pytest.raises(ValueError, match=r"id 3 is outside 0 \.\. 2"):
        _core.count_ids(np.array([0, 3]), counts)
    assert counts.tolist() == [1, 3, 2**32 - 1]
