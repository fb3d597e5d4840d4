"""The graph is in memory once, however many processes map it."""

from __future__ import annotations

import psutil
from support.graphs import lay_out, random_graph
from support.samplers import attend, pool_of

ARRAYS = ("indptr.npy", "indices.npy", "permutation.npy")


def test_the_mapped_graph_is_counted_once(tmp_path):
    layout = lay_out(random_graph(200_000, 20, features=1, seed=2), tmp_path, parts=2, method="random")
    arrived = []
    with pool_of(layout, arrived.append, samplers=3, slots=6, batch_size=20_000, fan_out=(20, 20)) as pool:
        attend(pool, lambda: len(arrived) == 6)
        pss, mapped = 0, []
        for sampler in pool._samplers.values():
            graph = [
                entry for entry in psutil.Process(sampler.process.pid).memory_maps()
                if entry.path in {str(layout.path.resolve() / name) for name in ARRAYS}
            ]  # fmt: skip
            mapped.append(len(graph))
            pss += sum(entry.pss for entry in graph)
            assert sum(entry.private_dirty + entry.swap for entry in graph) == 0
    size = sum((layout.path / name).stat().st_size for name in ARRAYS)
    assert size > 10e6
    assert mapped == [3, 3, 3]
    assert 0 < pss <= 1.05 * size
