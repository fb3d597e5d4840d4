"""Features that were not copied yet, as a model of PyG or DGL gets them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.torch_version import TorchVersion

from gsplit.kernels import StoredRows
from gsplit.nn.adapters.lazy_rows import LazyRows, lazy, materialised, stored_or_tensor

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = np.array([2, 0, 2])


@pytest.fixture
def x():
    return lazy(StoredRows(table=TABLE, ids=IDS))


def test_what_they_are_is_known_without_a_copy(x):
    assert isinstance(x, LazyRows)
    assert (x.shape, x.size(0), len(x), x.dim(), x.ndim) == ((3, 3), 3, 3, 2, 2)
    assert (x.dtype, x.device, x.is_cpu, x.is_meta) == (torch.float32, torch.device("cpu"), True, False)
    assert not x.requires_grad
    assert isinstance(stored_or_tensor(x), StoredRows)
    assert not x.stored.use.copied


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x * 2,
        lambda x: 2 * x,
        lambda x: torch.relu(x),
        lambda x: x[:2],
        lambda x: torch.cat([x, x]),
        lambda x: torch.nn.functional.linear(x, torch.ones(5, 3)),
        lambda x: x.clone(),
        lambda x: x.to(torch.float64),
        lambda x: x.detach(),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: x.tolist(),
        lambda x: copy.deepcopy(x),
        lambda x: x.new_ones(2),
        lambda x: torch.tensor(x),
        lambda x: torch.Tensor(x),
        lambda x: torch.from_dlpack(x),
        lambda x: torch.arange(100)[torch.tensor(x).long()],
    ],
)
def test_every_use_gets_the_values(x, use):
    rows = torch.from_numpy(TABLE[IDS])
    found, wanted = use(x), use(rows)
    assert type(found) is type(wanted)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert x.stored.use.copied
    copy = x.copied()
    use(x)
    assert x.copied() is copy  # once


def test_what_was_changed_is_not_read_from_the_table_again(x):
    x.mul_(2)
    assert torch.equal(x + 0, torch.from_numpy(2 * TABLE[IDS]))
    assert torch.equal(stored_or_tensor(x), torch.from_numpy(2 * TABLE[IDS]))
    assert TABLE[2, 0] == 6


def test_rows_that_are_to_have_a_gradient_have_one(x):
    x.requires_grad = True
    (x * 2).sum().backward()
    assert torch.equal(x.grad, torch.full((3, 3), 2.0))


def test_pairs_are_given_back_with_memory(x):
    other = torch.ones(2)
    sources, destinations = materialised((x, other))
    assert type(sources) is torch.Tensor
    assert destinations is other
    assert materialised(None) is None


def test_code_that_reads_memory_itself_finds_none(x):
    """Or it would read other numbers than those of the features."""
    if TorchVersion(torch.__version__) < "2.7":  # it copied by itself
        assert torch.equal(torch._C._from_dlpack(torch._C._to_dlpack(x)), torch.tensor(TABLE[IDS]))
    else:
        with pytest.raises(RuntimeError, match="Cannot access data pointer"):
            torch._C._to_dlpack(x)
    with pytest.raises(RuntimeError, match="LazyRows"):
        torch.nn.Parameter(x)
    assert isinstance(x, LazyRows)
