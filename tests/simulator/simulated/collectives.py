"""The collectives of the simulated accelerator: tasks on its streams, done by gloo (csrc/collectives.cpp)."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from simulated import extension, faults

NAME = "simulated"


def register() -> None:
    """Make them what PyTorch takes for tensors of the device."""
    dist.Backend.register_backend(NAME, _make, devices=["sim"])


def _make(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroup:
    faults.join()
    # Over a part of the store of its own: the tensors of the host go through another gloo.
    gloo = dist.ProcessGroupGloo(dist.PrefixStore(NAME, store), rank, size, timeout)
    return extension.load().collectives_by(gloo, timeout)
