"""GPUs that Triton compiles for without one, and what it compiled."""

from __future__ import annotations

import math
import re
from collections import Counter
from types import SimpleNamespace

from triton.backends.compiler import GPUTarget
from triton.runtime import driver

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
LANE_BYTES = 16
PTX = re.compile(r"(@\S+ )?ld\.global\.(?:v(\d)\.)?b(\d+) ")
AMDGCN = re.compile(r"(?:global|buffer)_load_(dwordx4|dwordx2|dword|ushort|short_d16)\w*")
AMDGCN_BYTES = {"dwordx4": 16, "dwordx2": 8, "dword": 4, "ushort": 2, "short_d16": 2}


class Code:
    """What was compiled for a launch: its constants, its assembly, and Triton's own code before that."""

    def __init__(self, target, constants, kernel, grid):
        self.grid, self.constants, self.lanes = (
            grid,
            constants,
            TARGETS[target].warp_size * constants.get("num_warps", 4),
        )
        self.nvidia = TARGETS[target].backend == "cuda"
        self.text = kernel.asm["ptx" if self.nvidia else "amdgcn"]
        self.before = kernel.asm["ttir"]
        assert kernel.asm["cubin" if self.nvidia else "hsaco"]  # assembled, too

    @property
    def loads(self):
        """How many loads there are of so many bytes in a lane, of those that some lanes leave out."""
        if self.nvidia:
            found = [(int(n or 1) * int(bits) // 8, guard) for guard, n, bits in PTX.findall(self.text)]
            return Counter(size for size, guard in found if guard)
        return Counter(AMDGCN_BYTES[name] for name in AMDGCN.findall(self.text))

    def lane_bytes(self, row_bytes, item_bytes, values):
        """Bytes that a lane reads at once of rows that begin at multiples of so many, and of a tile of values."""
        return min(math.gcd(LANE_BYTES, row_bytes), item_bytes * max(1, values // self.lanes))


def codes(monkeypatch, target, kernels, launch, *arguments, **named):
    """The code of each of some kernels that a function launches, in the order of launches, for one target.

    It is compiled through that function, with arrays of this machine; only the launches are left out.
    """
    place = SimpleNamespace(
        get_current_device=lambda: target, get_current_stream=lambda _: 0, get_current_target=lambda: TARGETS[target]
    )
    monkeypatch.setattr(driver, "_active", place)
    found = []
    for kernel in kernels:

        def only_compile(*values, grid, warmup, _kernel=kernel, **constants):
            made = type(_kernel).run(_kernel, *values, grid=grid, warmup=True, **constants)
            found.append(Code(target, constants, made, grid))

        monkeypatch.setattr(kernel, "run", only_compile)
    launch(*arguments, **named)
    return found
