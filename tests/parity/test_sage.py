"""Our SAGEConv against PyG's, DGL's and plain dense algebra, on the same unsplit sampled block."""

from __future__ import annotations

import sys

import pytest
import torch
from support.blocks import close, complete_block, coo, dgl_block, gradients, largest_allocation, sampled_block

from gsplit.nn import SAGEConv, mean_of_neighbours

WIDTHS = [(5, 3), (3, 5), (4, 4)]  # project before the mean, and after


@pytest.fixture
def block():
    return sampled_block()


def dense_mean(block):
    """[destinations, sources] float64; row v averages over the in-edges of v."""
    source, destination = coo(block)
    matrix = torch.zeros(block.num_destinations, block.num_sources, dtype=torch.float64)
    matrix.index_put_((destination, source), torch.ones(1, dtype=torch.float64), accumulate=True)
    return matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mean_and_its_gradient_equal_dense_algebra(block, dtype):
    x = torch.randn(block.num_sources, 7, dtype=dtype, requires_grad=True)
    y = torch.randn(block.num_destinations, 7, dtype=dtype)
    out = mean_of_neighbours(block, x)
    (gradient,) = torch.autograd.grad(out, x, y)
    matrix = dense_mean(block)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(out.double(), matrix @ x.double(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(gradient.double(), matrix.T @ y.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("w_in", "w_out"), WIDTHS)
def test_equals_pyg(block, w_in, w_out):
    from torch_geometric.nn import SAGEConv as PyGSAGEConv

    ours, theirs = SAGEConv(w_in, w_out), PyGSAGEConv(w_in, w_out)
    theirs.lin_l.weight.data.copy_(ours.lin_neigh.weight)
    theirs.lin_l.bias.data.copy_(ours.lin_self.bias)
    theirs.lin_r.weight.data.copy_(ours.lin_self.weight)
    x = torch.randn(block.num_sources, w_in, requires_grad=True)
    out = ours(block, x)
    out_pyg = theirs((x, x[: block.num_destinations]), coo(block))
    close(out, out_pyg)
    mine, pyg = gradients(ours, out, x), gradients(theirs, out_pyg, x)
    for name, other in [("x", "x"), ("lin_neigh.weight", "lin_l.weight"), ("lin_self.weight", "lin_r.weight")]:
        close(mine[name], pyg[other])
    close(mine["lin_self.bias"], pyg["lin_l.bias"])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="DGL 1.1.3 has no wheel for Python 3.12 and later")
@pytest.mark.parametrize(("w_in", "w_out"), WIDTHS)
def test_equals_dgl(block, w_in, w_out):
    from dgl.nn.pytorch import SAGEConv as DGLSAGEConv

    ours, theirs = SAGEConv(w_in, w_out), DGLSAGEConv(w_in, w_out, "mean")
    theirs.fc_neigh.weight.data.copy_(ours.lin_neigh.weight)
    theirs.fc_self.weight.data.copy_(ours.lin_self.weight)
    theirs.fc_self.bias.data.copy_(ours.lin_self.bias)
    x = torch.randn(block.num_sources, w_in, requires_grad=True)
    out, out_dgl = ours(block, x), theirs(dgl_block(block), x)
    close(out, out_dgl)
    mine, other = gradients(ours, out, x), gradients(theirs, out_dgl, x)
    close(mine["x"], other["x"])
    close(mine["lin_neigh.weight"], other["fc_neigh.weight"])
    close(mine["lin_self.weight"], other["fc_self.weight"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_tensor_of_edges_by_features(dtype):
    """No single allocation of forward or backward comes near edges x features."""
    n, wide = 200, 64
    block = complete_block(n)
    x = torch.randn(n, wide, dtype=dtype, requires_grad=True)
    largest = largest_allocation(lambda: mean_of_neighbours(block, x).sum().backward())
    assert largest >= n * wide * dtype.itemsize  # the gradient of x was seen
    assert largest < n * n * wide * dtype.itemsize / 8


def test_block_refuses_rows_that_do_not_fit(block):
    with pytest.raises(ValueError, match="own source rows"):
        block.exchange(torch.zeros(block.num_own_sources + 1, 3))
