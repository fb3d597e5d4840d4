"""Before a run a model is tried on a few vertices, alone and together with others; what differs is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.models import DGL, OWN, PYG, WEIGHTED, PyGNet, make_model, names, pyg, stacked
from torch import nn
from torch_geometric.nn import MessagePassing, aggr
from torch_geometric.nn.aggr import Aggregation

from gsplit.device.precision import Precision
from gsplit.engine.evaluation.company import check_company, small_layout, targets_of
from gsplit.errors import InputError
from gsplit.nn import SAGE

F32 = Precision(dtype=torch.float32)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    graphs = (random_graph(300, 10, seed=3), random_graph(300, 10, seed=3, weighted=True))
    return [lay_out(graph, tmp_path_factory.mktemp("layout"), parts=2) for graph in graphs]


class Centred(PyGNet):
    def forward(self, x, edge_index):
        x = self.convs[0](x, edge_index)
        return self.convs[1](x - x.mean(0), edge_index)


class Scaled(PyGNet):
    def forward(self, x, edge_index):
        return super().forward(x / x.abs().max(), edge_index)


class Virtual(PyGNet):
    """With a vertex that all others are joined to, whose weight begins at zero."""

    def __init__(self, convs):
        super().__init__(convs)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x, edge_index):
        x = self.convs[0](x, edge_index).relu()
        return self.convs[1](x + self.gate * x.sum(0, keepdim=True), edge_index)


class Numbered(PyGNet):
    """Knows how many vertices are computed with it."""

    def forward(self, x, edge_index):
        return super().forward(x, edge_index) / len(x) ** 0.5


class Noisy(PyGNet):
    def forward(self, x, edge_index):
        return super().forward(x + torch.randn_like(x), edge_index)


class OnBlocks(SAGE):
    def forward_layer(self, layer, block, x):
        x = super().forward_layer(layer, block, x)
        return x.softmax(dim=0)


class Padded(Aggregation):
    """As users write one for an LSTM: lists as long as the longest, the last step taken."""

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2, **_):
        table, _ = self.to_dense_batch(x, index, ptr, dim_size, dim)
        return table.cumsum(dim=1).tanh().sum(dim=1)


class PaddedConv(MessagePassing):
    def __init__(self, w_in, w_out):
        super().__init__(aggr=Padded())
        self.lin = nn.Linear(w_in, w_out)

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x, size=(len(x[0]), len(x[1]))))


class OwnAggregation(Aggregation):
    """One that may be used: half of the largest, half of the mean."""

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        parts = [self.reduce(x, index, ptr, dim_size, dim, reduce=how) for how in ("max", "mean")]
        return (parts[0] + parts[1]) / 2


class Dropping(PyGNet):
    """Drops something in evaluation, too: chance that is no fault."""

    def forward(self, x, edge_index):
        return super().forward(F.dropout(x), edge_index)


class Ours(SAGE):
    """A subclass of ours, which is not ours."""


class Failing(PyGNet):
    def forward(self, x, edge_index):
        raise KeyError("that is for the real graph alone")


def of(net):
    return lambda: stacked(net, pyg("SAGEConv"))(5, 3, 2)


COMPANY = line_with("cannot be split, 2 vertices, #, 6 others")
CHANCE = line_with("cannot be split, the same vertices")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        *((of(net), COMPANY) for net in (Centred, Scaled, Virtual, Numbered)),
        (of(Noisy), CHANCE),
        (lambda: OnBlocks(5, 8, 3, num_layers=2), COMPANY),
        (lambda: PyGNet([PaddedConv(5, 8), PaddedConv(8, 3)]), COMPANY),
    ],
    ids=["x - x.mean(0)", "x / x.abs().max()", "a virtual vertex", "len(x)", "chance", "on blocks", "padding"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_that_looks_at_others_is_refused(layouts, make, complaint, dtype):
    torch.manual_seed(1)
    with pytest.raises(InputError, match=complaint):
        check_company(make(), layouts[0], layers=2, precision=Precision(dtype=dtype))


@pytest.mark.parametrize("name", names(PYG, DGL, WEIGHTED, OWN))
def test_models_that_can_be_split_pass_and_stay_as_they_are(layouts, name, caplog):
    model = make_model(name, 5, 3, 2)
    before, chance = {key: value.clone() for key, value in model.state_dict().items()}, torch.get_rng_state()
    check_company(model, layouts[name in WEIGHTED], layers=2, precision=F32)
    assert not caplog.records
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)


@pytest.mark.parametrize(
    "make",
    [
        of(Dropping),
        lambda: stacked(PyGNet, pyg("SAGEConv", aggr=OwnAggregation()))(5, 3, 2),
        lambda: stacked(PyGNet, pyg("SAGEConv", aggr=aggr.QuantileAggregation(0.3)))(5, 3, 2),
        lambda: Ours(5, 8, 3, num_layers=2),
    ],
    ids=["dropout as a function", "an aggregation of the user's", "quantiles", "a subclass of ours"],
)
def test_what_a_user_may_write_passes(layouts, make, caplog):
    check_company(make(), layouts[0], layers=2, precision=F32)
    assert not caplog.records


def test_a_model_that_fails_on_a_small_graph_is_left_to_the_run(layouts, caplog):
    check_company(of(Failing)(), layouts[0], layers=2, precision=F32)
    (record,) = caplog.records
    says(record.getMessage(), "Failing, KeyError")


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_places_of_the_small_graph_have_no_vertex_in_common(layouts, layers):
    layout = small_layout(layouts[1], layers)
    graph, reached = layout.graph, []
    for start in targets_of(layout, layers):
        found = {start, start + 1}
        for _ in range(layers):
            found |= {int(u) for v in found for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
        reached.append(found)
    assert len(set().union(*reached)) == sum(map(len, reached))
    real = layouts[1].graph
    assert {row.tobytes() for row in graph.features} <= {row.tobytes() for row in real.features}
    assert set(graph.edge_weight.tolist()) <= set(real.edge_weight.tolist())
