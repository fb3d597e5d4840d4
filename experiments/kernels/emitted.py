"""What ``torch.compile`` emits for a GPU, without one.

The graphs of both ways, traced on the CPU, are laid out anew for a device of the kind that Triton's code is for,
and lowered to that code, of which nothing is run; bytes are those that the compiler's scheduler counts. That goes by
inner functions of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from experiments.kernels.launches import Count, Launch

GPU = torch.device("cuda:0")
"""What code is emitted for."""
PROPERTIES = {
    **{"major": 9, "minor": 0, "multi_processor_count": 132, "warp_size": 32, "max_threads_per_block": 1024},
    **{"max_threads_per_multi_processor": 2048, "regs_per_multiprocessor": 65536},
    **{"shared_memory_per_block": 49152, "shared_memory_per_block_optin": 232448},
}
"""Of an H100, which the emitted code depends on."""


@contextmanager
def a_device_that_is_not_there() -> Iterator[None]:
    """Let PyTorch's compiler think that it emits code for :data:`GPU`."""
    import torch._inductor.scheduler
    import torch.utils._triton
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime.hints import DeviceProperties
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    properties = SimpleNamespace(**PROPERTIES)
    target = GPUTarget(GPU.type, 90, 32)
    here = SimpleNamespace(get_current_device=lambda: 0, get_current_target=lambda: target)
    stand_ins: list[tuple[Any, str, Any]] = [
        *((where, "has_triton", lambda *_: True) for where in (torch.utils._triton, torch._inductor.scheduler)),
        (torch.utils._triton, "triton_hash_with_backend", lambda: "none"),
        *((where, "get_device_properties", lambda _=None: properties) for where in (CudaInterface, torch.cuda)),
        (CudaInterface, "get_compute_capability", lambda _=None: 90),
        (torch.cuda, "get_device_capability", lambda _=None: (9, 0)),
        *((where, "current_device", lambda: 0) for where in (CudaInterface, torch.cuda)),
        (driver, "_active", here),
    ]
    DeviceProperties.create.cache_clear()
    with ExitStack() as stack:
        for place, what, stand_in in stand_ins:
            stack.enter_context(mock.patch.object(place, what, stand_in))
        yield
    DeviceProperties.create.cache_clear()


def emitted(module: torch.fx.GraphModule, whole: int) -> list[Launch]:
    """What PyTorch's compiler launches for one graph, traced on the CPU, on :data:`GPU`."""
    from torch._inductor.compile_fx import record_original_output_strides, view_to_reshape
    from torch._inductor.debug import DebugContext
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    def there(value: Any) -> Any:
        return GPU if isinstance(value, torch.device) else value

    for node in module.graph.nodes:
        node.args, node.kwargs = tree_map(there, node.args), tree_map(there, node.kwargs)
        for value in tree_leaves(node.meta.get("val")):
            if hasattr(value, "fake_device"):
                value.fake_device = GPU
    module.recompile()
    given = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    record_original_output_strides(module)
    view_to_reshape(module)
    with V.set_fake_mode(given[0].fake_mode), V.set_debug_handler(DebugContext()):
        post_grad_passes(module, False)
        graph = GraphLowering(module, example_inputs=given, is_inference=False)
        with V.set_graph_handler(graph):
            graph.run(*given)
            graph.codegen()
            found = [node.get_read_write_buffers_sizes() for node in graph.scheduler.nodes]
    return [Launch(num_bytes, num_bytes >= whole) for num_bytes in found if num_bytes]


def compiled(step: Callable[..., Tensor], given: Sequence[Tensor], whole: int) -> Count:
    """Return what ``torch.compile`` emits for a function of tensors, and for its backward.

    Args:
        step: gives a tensor.
        given: tensors on the CPU, whose gradients are wanted where they require some.
        whole: number of values of all rows.
    """
    from torch._inductor import compile_fx

    found: list[list[Launch]] = []
    kept: list[int] = []

    def lower(module: torch.fx.GraphModule, _: Any, **__: Any) -> Callable[[list[Any]], list[Any]]:
        (ends,) = (node for node in module.graph.nodes if node.op == "output")
        values = [None if each is None else each.meta["val"] for each in ends.args[0]]
        kept.append(sum(each.nbytes for each in values[1:] if each is not None))
        with a_device_that_is_not_there():
            found.append(emitted(module, whole))

        def call(_: list[Any]) -> list[Any]:
            return [None if each is None else torch.zeros(each.shape, dtype=each.dtype) for each in values]

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    compile_it: Any = compile_fx.compile_fx
    result = compile_it(torch.fx.symbolic_trace(step), given, inner_compile=lower)(*given)
    out = result[0] if isinstance(result, (tuple, list)) else result
    out.backward(torch.zeros_like(out))
    forward, backward = found
    return Count(forward, backward, kept[0])
