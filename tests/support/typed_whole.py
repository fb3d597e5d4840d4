"""Models of several types on full neighbourhoods, beside other libraries' layers on the whole graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from gsplit.nn import TypedLayeredModel
from gsplit.nn.relational import RelationalConv
from gsplit.sampling import reach_of
from support.typed_models import typed_loader
from support.typed_reference import TypedGraph, typed_sampler

WIDTHS, HIDDEN, CLASSES = [5, 4, 7], 6, 3
SIZES, ENDS = [30, 20, 8], [(1, 0), (0, 1), (2, 0), (0, 0), (1, 2)]
REACH = reach_of(ENDS, [[-1] * len(ENDS)] * 2, 0)

Convolve = Callable[[int, Mapping[int, Tensor]], Mapping[int, Tensor]]
"""(layer, rows of all vertices by type) -> rows of the layer by type; of relational layers without the self terms."""


def whole_graph() -> tuple[TypedGraph, list]:
    """The graph, and weights of all edges of all relations but the last."""
    random = np.random.default_rng(3)
    lists = [[random.integers(0, SIZES[s], random.integers(0, 5)).tolist() for _ in range(SIZES[d])] for s, d in ENDS]
    weights = [[random.random(len(row)).astype(np.float32) for row in rows] for rows in lists]
    return TypedGraph(SIZES, ENDS, lists), [*weights[:-1], None]


def check_against_whole(model: TypedLayeredModel, convolve: Convolve, widths: list[int] = WIDTHS) -> None:
    """Logits of the target type and gradients of all weights equal those of the whole graph, in float64."""
    graph, weights = whole_graph()
    torch.manual_seed(0)
    xs = [torch.randn(size, width).double() for size, width in zip(SIZES, widths, strict=True)]
    mine, other = _ours(graph, weights, model, xs), _theirs(model, xs, convolve)
    torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)
    direction = torch.randn_like(mine)
    gradients = [torch.autograd.grad((out * direction).sum(), [*model.parameters()]) for out in (mine, other)]
    for name, a, b in zip(dict(model.named_parameters()), *gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10, msg=name)


def _ours(graph: TypedGraph, weights: list, model: TypedLayeredModel, xs: list[Tensor]) -> Tensor:
    fan_outs = [[-1] * len(ENDS)] * model.num_layers
    takes = model.uses_edge_weight
    sampler = typed_sampler(graph, [[0, size] for size in SIZES], fan_outs, seed=0, edge_ids=takes)
    sampler.sample(np.arange(SIZES[0]), epoch=0, batch=0)
    segment = sampler.segment(0)
    rows = [x[torch.from_numpy(segment.vertices_of(t).copy())] for t, x in enumerate(xs)]
    return model(typed_loader(graph, weights, takes_weights=takes).blocks(segment), rows)


def _theirs(model: TypedLayeredModel, xs: list[Tensor], convolve: Convolve) -> Tensor:
    h = dict(enumerate(xs))
    if model.projection is not None:
        h = {t: model.activation(model.projection[str(t)](x)) for t, x in h.items()}
    for layer in range(1, model.num_layers + 1):
        conv, out = model.convs[layer - 1], dict(convolve(layer, h))
        if isinstance(conv, RelationalConv):
            own = {t: conv.lin_self[str(t)](h[t]) for t in model.reach.types[layer]}
            out = {t: rows + out[t] if t in out else rows for t, rows in own.items()}
        h = out if layer == model.num_layers else {t: model.activation(rows) for t, rows in out.items()}
    return h[0]


def edge_index(relation: int) -> Tensor:
    rows = whole_graph()[0].neighbours[relation]
    destinations = [v for v, row in enumerate(rows) for _ in row]
    return torch.tensor([[u for row in rows for u in row], destinations], dtype=torch.int64)


def edge_weight(relation: int) -> Tensor:
    """float64 [edges], 1 each where the relation has no weights."""
    of_relation = whole_graph()[1][relation]
    if of_relation is None:
        return torch.ones(edge_index(relation).shape[1]).double()
    return torch.from_numpy(np.concatenate(of_relation)).double()


def name_of(relation: int) -> tuple[str, str, str]:
    return f"t{ENDS[relation][0]}", f"r{relation}", f"t{ENDS[relation][1]}"


def by_hetero_conv(convs: Mapping[int, torch.nn.Module], h: Mapping[int, Tensor], *, weighted=False):
    """Sums by type of PyG's HeteroConv."""
    from torch_geometric.nn import HeteroConv

    edges = {name_of(r): edge_index(r) for r in convs}
    weights = {"edge_weight_dict": {name_of(r): edge_weight(r) for r in convs}} if weighted else {}
    whole = HeteroConv({name_of(r): conv for r, conv in convs.items()}, aggr="sum")
    out = whole({f"t{t}": rows for t, rows in h.items()}, edges, **weights)
    return {int(name[1:]): rows for name, rows in out.items()}


def by_hetero_graph_conv(
    convs: Mapping[int, torch.nn.Module], h: Mapping[int, Tensor], arguments: Mapping[int, dict] = {}
):
    """Sums by type of DGL's HeteroGraphConv."""
    import dgl
    from dgl.nn import HeteroGraphConv

    numbers = {f"t{t}": SIZES[t] for r in convs for t in ENDS[r]}
    whole = dgl.heterograph({name_of(r): tuple(edge_index(r)) for r in convs}, num_nodes_dict=numbers)
    rows = {f"t{t}": h[t] for t in h if f"t{t}" in numbers}
    named = {f"r{r}": given for r, given in arguments.items()}
    out = HeteroGraphConv({f"r{r}": conv for r, conv in convs.items()}, aggregate="sum")(
        whole, rows, mod_kwargs=named
    )
    return {int(name[1:]): of_type for name, of_type in out.items()}
