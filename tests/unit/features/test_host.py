"""Rows on the host: as a file has them, or converted into memory that trainers share."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.caches import CPU, STORAGE, host_rows, together
from support.messages import line_with, says

from gsplit.errors import InputError
from gsplit.features import FeatureLoader, HostRows
from gsplit.features.loader import _zero_copy
from gsplit.host import SharedBuffer


def shared(features, dtype, bounds, **options):
    """The copy as each trainer has it; trainer r converts bounds[r] to bounds[r + 1]."""
    buffer = SharedBuffer("test")
    try:
        return together(
            len(bounds) - 1,
            lambda rank, barrier: HostRows.shared(
                features,
                dtype,
                buffer,
                begin=bounds[rank],
                end=bounds[rank + 1],
                create=rank == 0,
                barrier=barrier,
                **options,
            ),
        )
    finally:
        buffer.close()


@pytest.mark.parametrize("stored", [np.float32, np.float16])
@pytest.mark.parametrize("dtype", STORAGE)
def test_a_shared_copy_is_converted_by_all_trainers_together(monkeypatch, dtype, stored):
    monkeypatch.setattr("gsplit.features.host_rows.PIECE_BYTES", 100)
    features = np.random.default_rng(0).standard_normal((50, 7)).astype(stored)
    features.flags.writeable = False  # as a mapped file is
    for rows in shared(features, dtype, [0, 20, 20, 50]):
        assert (rows.dtype, rows.num_rows, rows.width, rows.row_bytes) == (dtype, 50, 7, 7 * dtype.itemsize)
        assert torch.equal(rows.tensor(), torch.from_numpy(features.copy()).to(dtype))
        loader = FeatureLoader(rows, device=CPU, dtype=torch.float32, normalize=False, threads=2)
        assert torch.equal(loader.load(np.array([49, 3])), rows.tensor()[[49, 3]].float())
        assert loader.counters.host_to_device_bytes == 2 * 7 * dtype.itemsize


def test_values_that_do_not_fit_are_refused():
    features = np.ones((50, 3), np.float32)
    features[31, 2] = 1e6
    with pytest.raises(InputError, match=line_with("vertex 31, float16, --feature-dtype")):
        shared(features, torch.float16, [0, 50])
    with pytest.raises(InputError, match=line_with("vertex 'id 31'")):
        shared(features, torch.float16, [0, 50], shown=lambda row: f"'id {row}'")
    assert shared(features, torch.bfloat16, [0, 50])[0].tensor()[31, 2].item() == pytest.approx(1e6, rel=1e-2)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing_to_share(shape):
    (rows,) = shared(np.zeros(shape, np.float32), torch.bfloat16, [0, shape[0]])
    assert tuple(rows.tensor().shape) == shape
    loader = FeatureLoader(rows, device=CPU, dtype=torch.float32, normalize=False, threads=1)
    assert tuple(loader.load(np.arange(shape[0])).shape) == shape


def test_files_are_not_pinned(tmp_path):
    np.save(tmp_path / "features.npy", np.zeros((5, 3), np.float32))
    rows = HostRows(np.load(tmp_path / "features.npy", mmap_mode="r"))
    assert rows.dtype == torch.float32
    assert not rows.pin()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, None),
        (RuntimeError("no C compiler"), "RuntimeError: no C compiler"),
        (ImportError("no triton"), "Triton, no triton"),
    ],
)
def test_a_kernel_that_cannot_be_made_is_no_end(monkeypatch, caplog, error, reason):
    """Where there is Triton, but not all that it needs; made before the first mini-batch, so known in time."""
    rows, _ = host_rows(9, 3, torch.float16)
    made = []

    def prepare(host_rows, device, dtype):
        made.append((tuple(host_rows.shape), host_rows.dtype, device.type, dtype))
        if error is not None:
            raise error

    kernel = SimpleNamespace(prepare=prepare, read_rows=object())
    monkeypatch.setitem(sys.modules, "gsplit.kernels.zero_copy", kernel)
    monkeypatch.setattr(rows, "pin", lambda: True)
    found = _zero_copy(rows, torch.device("xpu"), torch.float32)
    assert made == [((9, 3), torch.float16, "xpu", torch.float32)]
    assert found is (kernel.read_rows if error is None else None)
    if reason is None:
        assert not caplog.records
    else:
        says(caplog.text, reason)


def test_zero_copy_without_a_gpu_warns_once_and_copies(caplog):
    rows, values = host_rows(9, 3, torch.bfloat16)
    loader = FeatureLoader(rows, device=CPU, dtype=torch.float32, normalize=False, threads=1, zero_copy=True)
    for _ in range(2):
        assert torch.equal(loader.load(np.array([8, 0])), values[[8, 0]].float())
    (line,) = caplog.messages
    says(line, "copied by the CPU, GPU")
