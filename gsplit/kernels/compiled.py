"""Kernels that Triton compiles for the GPU that is there; what it has none for is left to PyTorch's operations.

Legend: R rows of the result, S sources, E edges, D features, H heads.
"""

from __future__ import annotations

import functools
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import override

from gsplit.device import accelerator
from gsplit.device.failures import is_of_a_broken_device, is_out_of_memory
from gsplit.kernels.library import Library
from gsplit.kernels.sums import Edges, Sums

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""Types of the rows that are summed."""
SEVERAL_OR_NONE = re.compile(r"\d+ active drivers")
"""How Triton says that it drives none of the devices here, or that it cannot tell which."""
FIRST = "sums over edges are PyTorch's own: "
"""How the one line begins that says why nothing is compiled here."""

logger = logging.getLogger(__name__)


class GivesUp(ABC):
    """Kernels that may not be to be had: the first of them that cannot be made ends all, and one line says why.

    A device that an earlier launch broke says so at the next one of any kernel: that is raised.
    """

    first: str
    """How the line begins."""
    what: str
    """How the line calls what is computed."""

    def __init__(self) -> None:
        self._works = True
        self._checked = False

    def _tried(self, device: torch.device) -> bool:
        """Return whether kernels work on a device, where what they gave at first was right."""
        if not self._checked:
            self._checked = True
            self._check(device)
        return self._works

    @abstractmethod
    def _check(self, device: torch.device) -> None:
        """Compute something small, and give up where it is wrong; this compiles kernels, and waits for them."""

    def _made(self, launch: Callable[[], None], *, raises: bool = False) -> bool:
        """Launch kernels, unless given up; return whether they could be.

        ``raises``: what they read may be gone, so that nobody could compute it in their place.
        """
        if self._works:
            try:
                launch()
            except Exception as error:  # of Triton's compiler, of the C compiler that it calls, of its cache on disk
                if raises or is_out_of_memory(error) or is_of_a_broken_device(error):
                    raise
                self._give_up(f"the kernel for {self.what} cannot be made here ({type(error).__name__}: {error})")
        return self._works

    def _give_up(self, reason: str) -> None:
        self._works = False
        logger.warning("%s%s", self.first, reason)


class Compiled(GivesUp, Library):
    """Sums by a kernel of Triton's (:mod:`gsplit.kernels.segment_sums`), forward and backward; the rest as it was.

    Where it cannot be compiled, or gives other sums than PyTorch's operations do, a warning says so, and those take
    its place as long as the process lives.
    """

    first = FIRST
    what = "them"

    def takes(self, x: Tensor) -> bool:
        """Return whether the kernel sums rows like ``x``: on a device that Triton drives, in a type that it has."""
        fits = self._works and accelerator.is_one(x.device) and x.dtype in DTYPES
        return fits and self.drives(x.device) and self._tried(x.device)

    def drives(self, device: torch.device) -> bool:
        """Return whether Triton drives devices like this one."""
        return self._driven == device.type

    @override
    def sum(self, sums: Sums) -> None:
        def launch() -> None:
            from gsplit.kernels.segment_sums import sum_rows

            sum_rows(sums)

        if not self._made(launch):
            super().sum(sums)

    @functools.cached_property
    def _driven(self) -> str | None:
        """The type of device that Triton drives here; None where it drives none."""
        try:
            from triton.runtime import driver

            return str(driver.active.get_active_torch_device().type)
        except Exception as error:  # it compiles a module, with whatever compiler and libraries it finds
            level = logging.INFO if SEVERAL_OR_NONE.match(str(error)) else logging.WARNING
            logger.log(level, "%sTriton drives no device here (%s: %s)", FIRST, type(error).__name__, error)
        return None

    @override
    def _check(self, device: torch.device) -> None:
        """Hold a first small sum against that of PyTorch's operations; this compiles a kernel, and waits for it."""
        random = torch.Generator().manual_seed(0)
        indptr = torch.tensor([0, 0, 3, 21], dtype=torch.int32)
        indices = torch.randint(0, 10, (21,), dtype=torch.int32, generator=random)
        edges = Edges(indptr=indptr.to(device), indices=indices.to(device))
        x_SD, weight_EH = (torch.randn(*shape, generator=random).to(device) for shape in ((10, 20), (21, 2)))
        ours_RD, theirs_RD = (torch.empty((edges.num_rows, 20), device=device) for _ in range(2))
        for kernels, out_RD in ((self, ours_RD), (Library(), theirs_RD)):
            degrees_R = edges.indptr.diff()
            kernels.sum(Sums(edges, x_SD[:6], x_SD[6:], out_RD, weight=weight_EH, degrees=degrees_R))
        if self._works and not torch.allclose(ours_RD, theirs_RD, rtol=1e-4, atol=1e-4):
            self._give_up("the kernel for them gives other sums here")
