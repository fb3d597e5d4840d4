"""``python -m tools.gpu_check.links``: rates of memory and of the ways between host and devices, beside their floors.

A link's floor is what PCI Express has in this slot, which NVIDIA's driver knows; where nothing says that, one lane of
the first generation. A copy is held to a share of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import combinations

import torch

from gsplit.device import accelerator
from gsplit.device.seen import reaches
from tools.gpu_check.machine import said
from tools.gpu_check.measured import TIMES, Measured, devices_of, print_measured

LEAST_SHARE = 1 / 4
"""Share of its floor that a healthy link has at least, also on a busy machine; some three quarters on an idle one."""
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.97, 5: 3.94, 6: 7.56}
"""GB a second of a lane, by generation of PCI Express."""
NEVER = "GNS"
"""How nvidia-smi says that GPUs of this kind never reach each other: no fault of the machine."""


def gb_per_second(copy: Callable[[], object], num_bytes: int, devices: list[torch.device]) -> float:
    """The best of some times, by the clock of the host, which waits before and after."""
    seconds = []
    for _ in range(TIMES):
        for device in devices:
            accelerator.synchronize(device)
        start_s = time.perf_counter()
        copy()
        for device in devices:
            accelerator.synchronize(device)
        seconds.append(time.perf_counter() - start_s)
    return num_bytes / min(seconds) / 1e9


def floor_of(device: torch.device) -> tuple[str, float]:
    """What a device's link to the host has: its name, GB a second."""
    properties = torch.get_device_module(device).get_device_properties(device) if accelerator.is_one(device) else None
    uuid = str(getattr(properties, "uuid", "")) or "none"
    asked = said("nvidia-smi", "--query-gpu=uuid,pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader")
    for words in (line.split(", ") for line in asked.splitlines() if uuid in line):
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal() and int(words[1]) in LANE:
            return f"PCIe {words[1]} x{words[2]}", LANE[int(words[1])] * int(words[2])
    return "PCIe 1 x1", LANE[1]


def not_reached(kind: str, gpus: int) -> list[str]:
    """Pairs of devices that do not reach each other's memory, and could."""
    topology = said("nvidia-smi", "topo", "-p2p", "r").splitlines()
    if any(NEVER in row.split() for row in topology if row.split()[:1] == ["GPU0"]):
        return []
    return [f"{kind}:{i} and {kind}:{j}" for i, j in combinations(range(gpus), 2) if not _reach(kind, i, j)]


def _reach(kind: str, one: int, other: int) -> bool:
    return reaches(kind, one, other) is not False and reaches(kind, other, one) is not False


def measure(kind: str, gpus: int, mib: int) -> Measured:
    """All rates; what is wrong is the first link that is slow, or the devices that do not reach each other."""
    found, slowest = Measured(), float("inf")
    source = torch.full((mib << 18,), 7.0, pin_memory=kind != accelerator.HOST)
    devices = devices_of(kind, gpus)
    for device in devices:
        there = torch.zeros(mib << 18, device=device)
        back = torch.empty_like(source, pin_memory=source.is_pinned())
        for way, to, what in ((f"host to {device}", there, source), (f"{device} to host", back, there)):
            rate = gb_per_second(partial(to.copy_, what, non_blocking=True), source.nbytes, [device])
            name, floor = floor_of(device)
            found.rates.append((way, rate, name, floor))
            slowest = min(slowest, rate)
            if rate < LEAST_SHARE * floor and not found.wrong:
                found.wrong = (
                    f"{way}: {rate:.2f} GB/s, of {floor:.2f} that {name} has; look at the GPU's slot and at "
                    "pcie.link.width.current of nvidia-smi --query-gpu while it copies"
                )
        assert torch.equal(back, source), f"what came back from {device} is wrong"
        again = torch.zeros_like(there)
        rate = gb_per_second(partial(again.copy_, there), source.nbytes, [device])
        found.rates.append((f"within {device}", rate, "", None))
    for one, other in zip(devices, devices[1:] + devices[:1], strict=True) if gpus > 1 else ():
        here, there = (torch.full((mib << 18,), value, device=at) for value, at in ((5.0, one), (0.0, other)))
        rate = gb_per_second(partial(there.copy_, here), source.nbytes, [one, other])
        assert (there == 5).all(), f"a copy from {one} to {other} is wrong"
        found.rates.append((f"{one} to {other}", rate, "", None))
    found.line = f"the slowest link {slowest:.2f} GB/s"
    if gpus > 1 and kind != accelerator.HOST:
        apart = not_reached(kind, gpus)
        found.line += f"; {len(apart)} of {gpus * (gpus - 1) // 2} pairs do not reach each other's memory"
        if apart and not found.wrong:
            found.wrong = (
                f"{apart[0]} do not reach each other's memory, so that what they exchange goes through the host's; "
                "look at nvidia-smi topo -p2p r, at ACS and the IOMMU in the BIOS, and at the container's flags"
            )
    return found


if __name__ == "__main__":
    print_measured(measure)
