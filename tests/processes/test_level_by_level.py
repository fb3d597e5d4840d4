"""Models of PyG and DGL are evaluated level by level: the same logits, and no edge is computed twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.models import DGL, HIDDEN, OURS, OWN, PYG, WEIGHTED, PyGNet, make_model, names, pyg
from torch import nn

from gsplit.device.precision import Precision
from gsplit.engine.evaluation import ExactLevels
from gsplit.engine.inputs import SplitLoader
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.models.prepared import prepare
from gsplit.nn.adapters import Adapter

LAYERS = 3
TRAINERS = 3


@pytest.fixture(scope="module")
def both_layouts(tmp_path_factory):
    """Without and with edge weights."""
    graphs = (random_graph(200, 6, seed=5), random_graph(200, 6, seed=5, weighted=True))
    return [lay_out(graph, tmp_path_factory.mktemp("layout"), parts=TRAINERS) for graph in graphs]


def levels_of(member, layout, model, layers=LAYERS):
    """What evaluates a model, the model that it is given, and the edges that its blocks will have had."""
    model, needs = prepare(model)
    model.double()
    graph, dtype = layout.graph, torch.float64
    features = FeatureLoader(HostRows(graph.features), device=member.device, dtype=dtype, normalize=False, threads=1)
    edge_loader = EdgeLoader(graph, device=member.device, dtype=dtype, **needs)
    loader = SplitLoader(layout, member.device, features, edge_loader)
    edges = []
    blocks_of = loader.whole_blocks
    loader.whole_blocks = lambda segment: counted(blocks_of(segment), edges)
    levels = ExactLevels(
        layout,
        member,
        loader,
        pool_module.SHARED.levels,
        num_layers=layers,
        precision=Precision(dtype=dtype),
        threads=1,
        max_edges=300,
    )
    return levels, model, edges


def both_ways(member, layout, model, own_by_rank, level, layers):
    """Vectors level by level and with whole neighbourhoods, each with the edges that were in blocks; and the rows."""
    for buffer in pool_module.SHARED.levels:
        member.barrier()
        if member.rank == 0:
            buffer.clear()
        member.barrier()
    levels, model, edges = levels_of(member, layout, model, layers)
    by_level = collected(levels.vectors(model, own_by_rank[member.rank], level))
    of_layers = edges[isinstance(model, Adapter) :]  # without the few vertices that are tried
    rows = [buffer.num_bytes // 8 for buffer in pool_module.SHARED.levels]
    single, levels._layers = levels._layers[1], (model, None)
    whole = collected(levels.vectors(model, own_by_rank[member.rank], level))
    return by_level, whole, sum(of_layers), None if single is None else rows


def collected(chunks):
    """Vectors by layout id."""
    return {int(vertex): row for ids, some in chunks for vertex, row in zip(ids, some.numpy(), strict=True)}


def counted(blocks, edges):
    edges.append(sum(block.num_edges for block in blocks.values()))
    return blocks


def owned(layout, ids):
    """Those of some layout ids that each trainer has."""
    return [ids[(ids >= begin) & (ids < end)] for begin, end in itertools.pairwise(layout.offsets)]


def run_both(pool, layout, model, ids, level=None, layers=LAYERS):
    """Asserts that both ways agree; returns edges by level of all trainers, and numbers in the two buffers."""
    own = owned(layout, ids)
    results = pool.run(TRAINERS, both_ways, layout, model, own, level or layers, layers)
    for mine, (by_level, whole, *_) in zip(own, results, strict=True):
        assert set(by_level) == set(whole) == set(mine.tolist())
        for vertex, row in by_level.items():
            np.testing.assert_allclose(row, whole[vertex], rtol=0, atol=1e-10)
    return sum(edges for *_, edges, _ in results), results[0][-1]


JUMPING = ("pyg-GCN-cat", "pyg-GCN-max", "pyg-GCN-lstm")
"""Models with jumping knowledge, in which rows of all levels meet behind the last layer."""
HIDDEN_OF = {"sage-wide": 16, "gcn-narrow": 3}


def needed_by(graph, ids, hops):
    """Vertices within so many hops against the edges, ids included."""
    found = set(ids.tolist())
    for _ in range(hops):
        found |= {int(u) for v in found for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
    return len(found)


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", names(OURS, PYG, DGL, WEIGHTED))
def test_logits_are_those_of_whole_neighbourhoods(pool, both_layouts, name):
    layout = both_layouts[name in WEIGHTED]
    graph = layout.graph
    model = make_model(name, graph.num_features, graph.num_classes, LAYERS)
    edges, numbers = run_both(pool, layout, model, np.arange(graph.num_vertices))
    if name in JUMPING:
        assert numbers is None
        return
    assert edges == LAYERS * graph.num_edges
    few = np.array([0, 3])  # of one trainer alone
    edges, numbers = run_both(pool, layout, model, few)
    assert edges < LAYERS * graph.num_edges
    # Rows that are needed have room, and no others: level 2 lies in the first buffer, 1 and no logits in the second.
    width = HIDDEN_OF.get(name, HIDDEN)
    assert numbers == [needed_by(graph, few, hops) * width for hops in (1, 2)]
    if name not in OURS:
        run_both(pool, layout, model, few, level=2)


class Knowing(PyGNet):
    """Jumping knowledge, and what else reaches behind a layer."""

    def __init__(self, features, classes, how):
        super().__init__([pyg("SAGEConv")(w_in, HIDDEN) for w_in in (features, HIDDEN, HIDDEN)])
        self.last = nn.Linear({"cat": 3 * HIDDEN, "features": HIDDEN + features}.get(how, HIDDEN), classes)
        self.how = how

    def forward(self, x, edge_index):
        features, levels = x, []
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index))
            levels.append(x)
        own = [level[: len(x)] for level in (features, *levels)]
        if self.how == "cat":
            return self.last(torch.cat(own[1:], dim=1))
        if self.how == "features":
            return self.last(torch.cat([x, own[0]], dim=1))
        return self.last(x + own[1])


@pytest.mark.parametrize("how", ["cat", "features", "sum"])
def test_models_whose_rows_reach_behind_a_layer_are_computed_as_a_whole(pool, both_layouts, how):
    layout = both_layouts[0]
    torch.manual_seed(1)
    model = Knowing(layout.graph.num_features, layout.graph.num_classes, how)
    _, numbers = run_both(pool, layout, model, np.arange(200))
    assert numbers is None


class Centred(PyGNet):
    """Layers that fit together and are not what the forward is: it looks at the features of all once more."""

    def __init__(self, features, classes):
        super().__init__([pyg("SAGEConv")(w_in, w_out) for w_in, w_out in ((features, 8), (8, 8), (8, classes))])

    def forward(self, x, edge_index):
        return super().forward(x, edge_index) + (1.0 if len(x) else 0.0)


def test_logits_that_differ_are_noticed(pool, both_layouts):
    layout = both_layouts[0]
    torch.manual_seed(1)
    _, numbers = run_both(pool, layout, Centred(layout.graph.num_features, layout.graph.num_classes), np.arange(200))
    assert numbers is None


class Prepared(PyGNet):
    """Something is made of the features before the first layer."""

    def __init__(self, features, classes, how):
        widths = [HIDDEN if how == "projected" else features, HIDDEN, classes]
        super().__init__([pyg("SAGEConv")(w_in, w_out) for w_in, w_out in itertools.pairwise(widths)])
        self.first = nn.Linear(features, HIDDEN) if how == "projected" else None

    def forward(self, x, edge_index):
        return super().forward(x.clamp(-0.3, 0.3) if self.first is None else self.first(x), edge_index)


@pytest.mark.parametrize("how", ["clamped", "projected"])
def test_what_is_made_of_the_features_first_is_theirs(pool, both_layouts, how):
    layout = both_layouts[0]
    torch.manual_seed(1)
    model = Prepared(layout.graph.num_features, layout.graph.num_classes, how)
    edges, numbers = run_both(pool, layout, model, np.arange(200), layers=2)
    assert edges == 2 * layout.graph.num_edges
    assert numbers is not None


class Noisy(PyGNet):
    def forward(self, x, edge_index):
        return F.dropout(super().forward(x, edge_index), 0.003)  # in evaluation, too


def evaluated_together(member, layout, model):
    """Whether this trainer computed layer by layer, tried by draws of its own."""
    torch.manual_seed(member.rank)
    levels, model, _ = levels_of(member, layout, model)
    assert len(collected(levels.vectors(model, levels.own(np.arange(200)))))
    return levels._layers[1] is not None


def test_trainers_take_one_way_together(pool, both_layouts):
    layout = both_layouts[0]
    convs = [pyg("SAGEConv")(*pair) for pair in ((layout.graph.num_features, 8), (8, 8), (8, 3))]
    for _ in range(4):
        assert len(set(pool.run(TRAINERS, evaluated_together, layout, Noisy(convs)))) == 1


@pytest.mark.parametrize("name", OWN)
def test_models_of_blocks_alone_are_computed_as_a_whole(pool, both_layouts, name):
    layout = both_layouts[0]
    model = make_model(name, layout.graph.num_features, layout.graph.num_classes, LAYERS)
    _, numbers = run_both(pool, layout, model, np.arange(50))
    assert numbers is None
