"""R-GCN on full neighbourhoods against PyG's HeteroConv and DGL's HeteroGraphConv on the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.libraries import needs_dgl
from support.steps import CPU
from support.typed_reference import TypedGraph, typed_sampler

from gsplit.engine.typed_blocks import typed_blocks_of
from gsplit.nn import RGCN
from gsplit.sampling import reach_of

WIDTHS, HIDDEN, CLASSES = [5, 4, 7], 6, 3
SIZES, ENDS = [30, 20, 8], [(1, 0), (0, 1), (2, 0), (0, 0), (1, 2)]


@pytest.fixture(scope="module")
def graph():
    random = np.random.default_rng(3)
    lists = [[random.integers(0, SIZES[s], random.integers(0, 5)).tolist() for _ in range(SIZES[d])] for s, d in ENDS]
    return TypedGraph(SIZES, ENDS, lists)


def ours(graph, model, xs):
    fan_outs = [[-1] * len(ENDS)] * model.num_layers
    sampler = typed_sampler(graph, [[0, size] for size in SIZES], fan_outs, seed=0)
    sampler.sample(np.arange(SIZES[0]), epoch=0, batch=0)
    segment = sampler.segment(0)
    rows = [x[torch.from_numpy(segment.vertices_of(t).copy())] for t, x in enumerate(xs)]
    return model(typed_blocks_of(segment, CPU, None), rows)


def theirs(model, xs, convolve):
    """The whole graph, layer by layer; ``convolve(layer, h)`` gives sums over relations by type."""
    h = {t: torch.relu(model.projection[str(t)](x)) for t, x in enumerate(xs)}
    for layer in range(1, model.num_layers + 1):
        conv, sums = model.convs[layer - 1], convolve(layer, h)
        out = {t: conv.lin_self[str(t)](h[t]) for t in model.reach.types[layer]}
        out = {t: rows + sums[t] if t in sums else rows for t, rows in out.items()}
        h = out if layer == model.num_layers else {t: torch.relu(rows) for t, rows in out.items()}
    return h[0]


def check(graph, convolve_of):
    torch.manual_seed(0)
    reach = reach_of(ENDS, [[-1] * len(ENDS)] * 2, 0)
    model = RGCN(WIDTHS, HIDDEN, CLASSES, reach)
    xs = [torch.randn(size, width) for size, width in zip(SIZES, WIDTHS, strict=True)]
    mine, other = ours(graph, model, xs), theirs(model, xs, convolve_of(graph, model))
    torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-6)
    direction = torch.randn_like(mine)
    gradients = [torch.autograd.grad((out * direction).sum(), [*model.parameters()]) for out in (mine, other)]
    for name, a, b in zip(dict(model.named_parameters()), *gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, msg=name)


def edge_index(graph, relation):
    rows = graph.neighbours[relation]
    destinations = [v for v, row in enumerate(rows) for _ in row]
    return torch.tensor([[u for row in rows for u in row], destinations], dtype=torch.int64)


def test_equals_pyg_s_hetero_conv(graph):
    from torch_geometric.nn import HeteroConv, SAGEConv

    def convolve_of(graph, model):
        def convolve(layer, h):
            convs, edges = {}, {}
            for r in model.reach.relations[layer]:
                key = f"t{ENDS[r][0]}", f"r{r}", f"t{ENDS[r][1]}"
                weight = model.convs[layer - 1].lin_relation[str(r)].weight
                convs[key] = SAGEConv(weight.shape[1], weight.shape[0], root_weight=False, bias=False)
                convs[key].lin_l.weight = weight
                edges[key] = edge_index(graph, r)
            out = HeteroConv(convs, aggr="sum")({f"t{t}": rows for t, rows in h.items()}, edges)
            return {int(name[1:]): rows for name, rows in out.items()}

        return convolve

    check(graph, convolve_of)


@needs_dgl
def test_equals_dgl_s_hetero_graph_conv(graph):
    import dgl
    from dgl.nn import GraphConv, HeteroGraphConv

    def convolve_of(graph, model):
        def convolve(layer, h):
            relations = model.reach.relations[layer]
            data = {(f"t{ENDS[r][0]}", f"r{r}", f"t{ENDS[r][1]}"): tuple(edge_index(graph, r)) for r in relations}
            whole = dgl.heterograph(data, num_nodes_dict={f"t{t}": SIZES[t] for r in relations for t in ENDS[r]})
            convs, weights = {}, {}
            for r in relations:
                weight = model.convs[layer - 1].lin_relation[str(r)].weight
                loose = {"norm": "right", "weight": False, "bias": False, "allow_zero_in_degree": True}
                convs[f"r{r}"] = GraphConv(weight.shape[1], weight.shape[0], **loose)
                weights[f"r{r}"] = {"weight": weight.T}
            rows = {f"t{t}": h[t] for t in h if f"t{t}" in whole.ntypes}
            sums = HeteroGraphConv(convs, aggregate="sum")(whole, rows, mod_kwargs=weights)
            return {int(name[1:]): of_type for name, of_type in sums.items()}

        return convolve

    check(graph, convolve_of)
