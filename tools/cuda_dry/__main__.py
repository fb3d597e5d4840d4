"""``tools/cuda_dry.sh``: imports, fake steps and operators, each of which is told; exit code 1 where one fails."""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

import gsplit
from gsplit.device import runtime
from tools.cuda_dry.operators import HEADERS, without_kernel
from tools.cuda_dry.steps import CASES, step

KIND = "cuda"
OPTIONAL = ("dgl", "wandb", "mlflow", "tensorboard", "triton", "pyarrow", "kaminpar", "matplotlib", "sklearn")
"""Packages that a module may want and need not find."""


def import_everything() -> str:
    """Import each module of the package; those that want a package that is not here are told.

    Raises:
        ImportError: for any other that cannot be imported.
    """
    names = [module.name for module in pkgutil.walk_packages(gsplit.__path__, "gsplit.")]
    left_out = []
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
            left_out.append(f"{name} ({error.name})")
    return f"{len(names) - len(left_out)} modules" + (f"; left out: {', '.join(left_out)}" if left_out else "")


def made(folder: Path) -> dict[int, Path]:
    """Layouts of a small graph, by the number of their parts."""
    graph = gsplit.import_graph("synthetic:tiny", folder / "graph")
    for parts in (1, 2):
        gsplit.partition(graph, parts=parts, out=folder / f"layout-{parts}")
    return {parts: folder / f"layout-{parts}" for parts in (1, 2)}


def looked_up(used: set[str]) -> str:
    """Look for a kernel of each operator that was used.

    Raises:
        AssertionError: where an operator has none.
    """
    if not list(HEADERS.glob("*_cuda_dispatch.h")):
        return "not looked up: this build of PyTorch has no headers of CUDA kernels"
    missing = without_kernel(used)
    assert not missing, f"no CUDA kernel: {', '.join(missing)}"
    return f"each of {len(used)} has a kernel"


def runtime_of_peers() -> str:
    """Look for the functions that caches of peers call in the runtime that PyTorch has loaded.

    Raises:
        AssertionError: where it lacks one.
    """
    assert runtime.of(KIND), f"PyTorch's runtime lacks one of {', '.join(runtime.FUNCTIONS)}"
    return f"each of {len(runtime.FUNCTIONS)} functions is there"


def main() -> int:
    """Do all; the exit code."""
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    used: set[str] = set()
    failed = 0

    def tell(name: str, run: Callable[[], str]) -> None:
        nonlocal failed
        try:
            print(f"{name}: {run()}", flush=True)
        except Exception as error:  # the others are told, too
            failed += 1
            traceback.print_exc()
            print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)

    tell("imports", import_everything)
    tell("memory of peers", runtime_of_peers)
    with tempfile.TemporaryDirectory(prefix="gsplit-cuda-dry-") as folder:
        layouts = made(Path(folder))
        for case in CASES:
            out = Path(folder) / "run"
            tell(case.name, lambda case=case, out=out: step(case, KIND, layouts[case.world], out, used))  # type: ignore[misc]
    tell("operators", lambda: looked_up(used))
    print(f"{failed} of {len(CASES) + 3} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    os._exit(main())  # at once: autograd's thread for the device that is not there could not be waited for
