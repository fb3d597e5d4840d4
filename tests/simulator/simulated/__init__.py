"""The simulated accelerator as PyTorch's device ``sim``.

With the folder above in PYTHONPATH, ``import torch`` calls :func:`register`, by the entry point in the folder beside
this one; so processes that tests start have the device, too.
"""

from __future__ import annotations


def register() -> None:
    """Give PyTorch the device, its module ``torch.sim``, and its collectives."""
    import torch

    from simulated import collectives, device, extension, faults

    extension.load()
    torch.utils.rename_privateuse1_backend("sim")
    torch._register_device_module("sim", device)
    torch.utils.generate_methods_for_privateuse1_backend()
    collectives.register()
    faults.register()
