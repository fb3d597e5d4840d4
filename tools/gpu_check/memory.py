"""Memory of a GPU that a process takes beside its tensors: a context, a library's workspace, communicators.

``python -m tools.gpu_check.memory``, with nobody else on the GPU; the first device of the type that PyTorch finds.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from gsplit.device import accelerator


def steps() -> list[tuple[str, int, int]]:
    """What was done, the bytes that the GPU lacks since, and those of them that PyTorch's allocator holds."""
    device = torch.device(accelerator.there(), 0)
    memory, found = torch.get_device_module(device), []

    def look(name: str) -> None:
        accelerator.synchronize(device)
        free, total = accelerator.free_and_total(device)
        found.append((name, total - free, int(memory.memory_reserved(device))))

    torch.zeros(1, device=device)
    look("context")
    x = torch.ones(512, 512, device=device)
    x = x @ x
    look("product")
    backend = dist.get_default_backend_for_device(device)
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, device_id=device)
    dist.all_reduce(x)
    look("all-reduce")
    dist.all_to_all_single(torch.empty_like(x), x)
    look("all-to-all")
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    said = [f"{name} {taken >> 20} ({reserved >> 20} of the allocator's)" for name, taken, reserved in steps()]
    print(f"MiB taken after: {', '.join(said)}")
