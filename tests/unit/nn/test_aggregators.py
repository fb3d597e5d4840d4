"""Every aggregation of PyG is on a list: of those that are functions of each destination's neighbours, or refused."""

from __future__ import annotations

import functools

import pytest
import torch
from support.libraries import needs_dgl
from support.messages import line_with
from support.models import PyGNet, dgl, stacked
from torch import nn
from torch_geometric.nn import SAGEConv, aggr
from torch_geometric.nn.aggr.fused import FusedAggregation

from experiments.differential.aggregations import OTHERS, OWN
from experiments.differential.nets import HandMade
from gsplit.errors import InputError
from gsplit.nn.adapters import wrap
from gsplit.nn.adapters.aggregators import OWN_NEIGHBOURS, REFUSED, QuantileForward


def test_every_aggregation_of_pyg_is_on_one_list():
    named = set(aggr.__all__) - {"Aggregation"} | {FusedAggregation.__name__}
    assert named == OWN_NEIGHBOURS | REFUSED.keys()
    assert not OWN_NEIGHBOURS & REFUSED.keys()


def classes_of(table):
    made = [HandMade(8, 3, one.make(8)) for one in table.values()]
    return {type(layer).__name__ for conv in made for layer in conv.modules() if isinstance(layer, aggr.Aggregation)}


def test_the_campaign_draws_all_of_them():
    assert classes_of(OWN) == OWN_NEIGHBOURS
    assert classes_of(OTHERS) == REFUSED.keys()


@pytest.mark.parametrize("name", OTHERS)
def test_an_aggregation_that_depends_on_others_is_refused_by_name(name):
    model = PyGNet([HandMade(8, 8, OTHERS[name].make(8), OTHERS[name].factor), SAGEConv(8, 3)])
    with pytest.raises(InputError, match=line_with("convs.0.aggr_module, cannot be split")):
        wrap(model)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SAGEConv(8, 3, aggr="lstm", aggr_kwargs={"in_channels": 8, "out_channels": 8}),
        lambda: SAGEConv(8, 3, aggr=["mean", aggr.GRUAggregation(8, 8)]),
        lambda: HandMade(
            8, 3, aggr.DegreeScalerAggregation(["mean", aggr.LSTMAggregation(8, 8)], ["identity"], torch.ones(3))
        ),
    ],
    ids=["by name", "among several", "inside another"],
)
def test_it_is_found_wherever_it_stands(make):
    with pytest.raises(InputError, match=line_with("cannot be split")):
        wrap(PyGNet([make()]))


@needs_dgl
def test_dgl_s_lstm_is_refused():
    with pytest.raises(InputError, match=line_with("SAGEConv, aggregator_type='lstm'")):
        wrap(stacked(DGLOf, dgl("SAGEConv", "lstm"))(5, 3, 2))


class DGLOf(nn.Module):
    def __init__(self, convs):
        super().__init__()
        self.layers = nn.ModuleList(convs)

    def forward(self, blocks, x):
        return x


WAYS = ("linear", "lower", "higher", "nearest", "midpoint")
QUANTILES = {
    "median": aggr.MedianAggregation,
    **{way: functools.partial(aggr.QuantileAggregation, 0.3, way, -2.0) for way in WAYS},
    "several": lambda: aggr.QuantileAggregation([0.1, 0.5, 1.0]),
}


@pytest.mark.parametrize("shape", [(40, 3), (40, 2, 3)], ids=["rows", "heads"])
@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_are_those_of_pyg(name, shape):
    torch.manual_seed(0)
    theirs, x = QUANTILES[name](), torch.randn(shape, requires_grad=True)
    index = torch.randint(1, 9, shape[:1])
    index[:9] = torch.tensor([0, 0, 1, 2, 4, 5, 6, 7, 8])
    index[index == 3] = 2  # this list and the last two are empty; the first may not be, in PyG
    given = {"dim_size": 11, "dim": 0 if len(shape) == 3 else -2}
    wanted, out = theirs(x, index, **given), QuantileForward(theirs)(x, index, **given)
    torch.testing.assert_close(out, wanted)
    weight = torch.randn_like(wanted)
    one, other = (torch.autograd.grad((each * weight).sum(), x)[0] for each in (out, wanted))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_without_edges_are_what_they_are_of_empty_lists(name):
    theirs = QUANTILES[name]()
    x = torch.zeros(0, 3, requires_grad=True)
    out = QuantileForward(theirs)(x, torch.zeros(0, dtype=torch.int64), dim_size=2)
    assert torch.equal(out, torch.full((2, 3 * theirs.q.numel()), theirs.fill_value))
    out.sum().backward()


def test_quantiles_do_not_depend_on_how_many_edges_come_before():
    others, few = 1 << 18, torch.tensor([[1.0], [2.0], [4.0]])
    x, index = (
        torch.cat([torch.zeros(others, 1), few]),
        torch.cat([torch.arange(others) // 4, torch.full((3,), others)]),
    )
    model = PyGNet([HandMade(1, 1, aggr.QuantileAggregation(0.7))])
    wrap(model)
    quantile = model.convs[0].aggr_module
    alone = quantile(few, torch.zeros(3, dtype=torch.int64), dim_size=1)
    assert torch.equal(quantile(x, index, dim_size=others + 1)[-1:], alone)
    assert alone.item() == pytest.approx(2.8)
