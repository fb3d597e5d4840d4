"""Versions of Python, PyTorch and the libraries that GSplit can use, with what each is for."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import gsplit
from gsplit.device import accelerator

LIBRARIES = {
    "torch": "models, and all that is trained",
    "numpy": "arrays",
    "pymetis": "gsplit partition --method metis",
    "kaminpar": "gsplit partition --method kaminpar",
    "torch_geometric": "models and graphs of PyG",
    "dgl": "models and graphs of DGL",
    "triton": "kernels for GPUs: --loader zero-copy, sums over edges",
    "pyarrow": "tables in text and Parquet, ids of any kind",
    "duckdb": "queries of DuckDB and PostgreSQL as a source",
    "scipy": "sparse matrices as a source",
    "scikit-learn": "--metrics",
    "matplotlib": "pictures of reports",
    "jinja2": "pages of reports",
    "pyyaml": "datasets of GraphBolt",
    "tensorboard": "a callback",
    "wandb": "a callback",
    "mlflow-skinny": "a callback, as mlflow is",
}
"""Names in the package index, each with what it is for."""
NEEDED = ("torch", "numpy", "pymetis")
"""Libraries that pip installs with GSplit; all others are optional."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """One program or library."""

    name: str
    """Its name in the package index."""
    version: str | None
    """The version; None where it is not installed."""
    purpose: str
    """The flags or files that want it."""
    optional: bool
    """True where GSplit works without it."""


def installed() -> Iterator[Installed]:
    """Yield what is installed and what is not, without importing it."""
    yield Installed(name="gsplit", version=gsplit.__version__, purpose="", optional=False)
    system = f"{platform.python_implementation()} on {platform.system()} {platform.release()}, {platform.machine()}"
    yield Installed(name="python", version=platform.python_version(), purpose=system, optional=False)
    for name, purpose in LIBRARIES.items():
        if name == "torch":
            purpose = f"{purpose}; built for {accelerator.built_for()}"
        yield Installed(name=name, version=_version(name), purpose=purpose, optional=name not in NEEDED)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
