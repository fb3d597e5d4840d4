"""Tensors of GPUs that have shapes, types and devices, but no values; the host's are as they are.

PyTorch's fake tensors (:class:`FakeTensorMode`) stand for those of the device. What belongs to the host alone is
computed, because the host's part of loading is done by the core, which needs memory. An operator that mixes devices
where a GPU could not, and whatever asks a fake for its value, is an error. Tried with PyTorch 2.13.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock, patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gsplit.kernels import Edges
from gsplit.kernels.library import Library
from gsplit.nn.adapters.stand_in import stand_in
from gsplit.parallel.member import Member

GIB = 1 << 30
PINNED = ("aten::_pin_memory", "aten::pin_memory")


class OneDevice(TorchDispatchMode):
    """Runs what belongs to the host as it is, leaves the rest to the mode below, and notes the operators of that.

    Args:
        used: names of operators, such as ``embedding_bag``; those with a result on the device are added.
    """

    def __init__(self, used: set[str]) -> None:
        super().__init__()
        self._used = used

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by PyTorch for each operator."""
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        devices = [leaf.type for leaf in leaves if isinstance(leaf, torch.device)]
        if func is torch.ops.aten.empty_like.default and "cpu" in devices:  # room on the host to copy from
            with unset_fake_temporarily():
                return torch.empty(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        if any(isinstance(leaf, FakeTensor) for leaf in leaves) or any(device != "cpu" for device in devices):
            out = func(*args, **kwargs)
            if any(isinstance(leaf, Tensor) and leaf.device.type != "cpu" for leaf in tree_leaves(out)):
                self._used.add(func.name())
            return out
        with unset_fake_temporarily():
            if func.name() in PINNED:
                return args[0]
            if func.name() == "aten::is_pinned":
                return False
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            return func(*args, **kwargs)


def read_rows(host_rows: Tensor, ids: Tensor, positions: Tensor | None, out: Tensor) -> None:
    """What the kernel that reads rows of the host, or of a peer, is given, checked, in its place."""
    assert host_rows.device.type == "cpu" or host_rows.device == out.device
    assert host_rows.shape[1] == out.shape[1]
    for numbers in (ids, *([] if positions is None else [positions])):
        assert numbers.device == out.device
        assert numbers.dtype == torch.int64
        assert numbers.shape == (len(ids),)
    assert len(out) >= len(ids)


def gathered(value: Any, group: Any) -> list[Any]:
    """What all of two trainers gave; the other sends this one what this one sends it."""
    if group is None:
        return [value]
    return [value, value[::-1] if isinstance(value, list) else value]


def tensor_at(address: int, num_bytes: int, device: torch.device) -> Tensor:
    """Memory that processes share, which one_device.c has given out."""
    assert address
    return torch.empty(num_bytes, dtype=torch.uint8, device=device)


def on_the_host(like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A stand-in for the graph; a tensor without values cannot be one of another class as well."""
    return stand_in(torch.empty(0, dtype=like.dtype), dtype)


def dot(self: Library, edges: Edges, own: Tensor, received: Tensor | None, left: Tensor, heads: int) -> Tensor:
    """The shape of products that sparse tensors make, of which there are no fakes."""
    return own.new_empty((len(edges.indices), heads))


@contextlib.contextmanager
def pretending(kind: str, world: int, used: set[str]) -> Iterator[Member]:
    """Trainer 0 of one or two, on a device of which there are only fakes.

    Args:
        kind: type of the device.
        world: number of trainers.
        used: operators of the device that were used are added.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    there: dict[str, Callable[..., Any]] = {
        "find": lambda _: (kind, world),
        "count": lambda _: world,
        "work_on": lambda _: None,
        "new_stream": lambda _: None,
        "event": lambda _: Mock(),
        "synchronize": lambda _: None,
        "free_and_total": lambda _: (70 * GIB, 80 * GIB),
        "smallest_bytes": lambda _: 80 * GIB,
        "register": lambda *_: 0,
        "unregister": lambda _: None,
    }
    with contextlib.ExitStack() as stack:
        for name, function in there.items():
            stack.enter_context(patch(f"gsplit.device.accelerator.{name}", function))
        for module in ("gsplit.engine.rows.loading", "gsplit.engine.dry.room_for_step"):
            stack.enter_context(patch(f"{module}.all_gather_object", gathered))
        stack.enter_context(patch("gsplit.features.cache._check", lambda *_: None))
        runtime = ctypes.CDLL(None), "dry"
        stack.enter_context(patch("gsplit.device.runtime.of", lambda _: runtime))
        stack.enter_context(patch("gsplit.device.peer_memory.tensor_at", tensor_at))
        stack.enter_context(patch("torch.cuda.get_device_capability", lambda *_: (9, 0)))  # asked by collectives
        stack.enter_context(patch("torch.cuda.is_available", lambda: False))  # or fakes would be copied to it
        stack.enter_context(patch("gsplit.nn.adapters.pyg.stand_in", on_the_host))
        stack.enter_context(patch("gsplit.kernels.library.Library.dot", dot))
        for name, function in {"prepare": lambda *_: None, "read_rows": read_rows}.items():
            stack.enter_context(patch(f"gsplit.kernels.zero_copy.{name}", function))
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
        stack.callback(dist.destroy_process_group)
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(OneDevice(used))
        yield Member.of_default_group(torch.device(kind, 0))
