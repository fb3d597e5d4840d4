"""The C++ half: where it is built, and how it is loaded. ``python -m tests.simulator.simulated.extension`` builds it.

What is built is kept by what it was made of: sources, PyTorch, Python. So it is built once, and never stale.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

NAME = "simulated_extension"
SOURCES = Path(__file__).parents[1] / "csrc"
BUILT = Path(__file__).parents[3] / "build" / "simulator"
UNITS = ("blocks.cpp", "core.cpp", "faults.cpp", "memory.cpp", "runtime.cpp", "sim.cpp", "tasks.cpp")
"""What the compiler is given; the last one includes the files that are left."""
FLAGS = ["-O1", "-std=c++20", "-Wall", "-Wno-unknown-pragmas"]


def path() -> Path:
    """Where the library is, or would be."""
    made_of = hashlib.sha256(f"{version('torch')} {sys.version} {FLAGS}".encode())
    for source in sorted(SOURCES.rglob("*.[ch]pp")):
        made_of.update(source.name.encode() + source.read_bytes())
    return BUILT / made_of.hexdigest()[:16] / f"{NAME}.so"


def build() -> Path:
    """Build the library where it is not there; one process at a time does.

    Raises:
        RuntimeError: with the compiler's words.
    """
    library = path()
    library.parent.mkdir(parents=True, exist_ok=True)
    with (library.parent / "building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.is_file():
            _compile(library.parent)
    return library


def load() -> ModuleType:
    """The library, loaded.

    Raises:
        FileNotFoundError: where it is not built.
    """
    if NAME in sys.modules:
        return sys.modules[NAME]
    library = path()
    if not library.is_file():
        raise FileNotFoundError(f"{library}: build it by python -m tests.simulator.simulated.extension")
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(library))
    spec = importlib.util.spec_from_file_location(NAME, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[NAME] = module
    return module


def _compile(folder: Path) -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the device cannot be there yet
    os.environ["MAX_JOBS"] = "1"
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # of ninja
    from torch.utils import cpp_extension

    cpp_extension.load(
        NAME,
        [str(SOURCES / unit) for unit in UNITS],
        extra_cflags=FLAGS,
        build_directory=str(folder),
        is_python_module=False,
    )


if __name__ == "__main__":
    begun_s = time.monotonic()
    print(f"{build()} is there after {time.monotonic() - begun_s:.0f} s")
