"""R-GCN projects before it sums, or sums before it projects, by what is quicker: the result is the same."""

from __future__ import annotations

import pytest
import torch
from support.typed_models import Case, typed_loader
from support.typed_reference import typed_sampler

from gsplit.nn import rgcn


@pytest.mark.parametrize("projected", [False, True])
def test_both_orders_give_the_same_vectors_and_gradients(monkeypatch, projected):
    case = Case(5, 1, input_projection=projected, edge_weights=True)
    sampler = typed_sampler(case.graph, case.offsets, case.fan_outs, target_type=case.target, seed=5, edge_ids=True)
    sampler.sample(case.targets, **case.key)
    segment = sampler.segment(0)
    blocks = typed_loader(case.graph, case.weights, takes_weights=True).blocks(segment)
    xs = [torch.from_numpy(rows[segment.vertices_of(t)]) for t, rows in enumerate(case.features)]
    found = []
    for a_sum in (0, 1e9):
        monkeypatch.setattr(rgcn, "A_SUM", a_sum)
        products = []
        monkeypatch.setattr(rgcn.functional, "linear", _counted(products))
        case.model.zero_grad()
        logits = case.model(blocks, xs)
        logits.square().sum().backward()
        monkeypatch.undo()
        found.append((products, logits.detach(), {n: p.grad.clone() for n, p in case.model.named_parameters()}))
    (before, first, gradients), (after, second, others) = found
    assert before != after  # rows of products: of destinations, of sources
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, others[name], rtol=1e-10, atol=1e-12)


def _counted(products):
    linear = torch.nn.functional.linear

    def counted(rows, *others):
        products.append(len(rows))
        return linear(rows, *others)

    return counted
