"""GSplit: split-parallel training of graph neural networks on all the GPUs of one host.

    import gsplit
    graph = gsplit.from_pyg(data)  # or from_dgl, from_arrays, import_graph("edges.csv", "graph")
    layout = gsplit.partition(graph, parts=4)
    run = gsplit.train(layout, gsplit.TrainConfig(epochs=5))
    classes = gsplit.predict(run, layout)
    model = gsplit.load(run)
    gsplit.report("run")

Where a folder has a name it is taken instead: ``gsplit.train("layout", gsplit.TrainConfig(out="run"))``.

The names are resolved when first used: importing a subpackage such as gsplit.sampling does not import torch.
"""

from __future__ import annotations

from gsplit import starting

starting.watch(__name__)  # before all else, so that no import of a command is left out

# ruff: noqa: E402
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("gsplit._core") is None:
    raise ModuleNotFoundError(
        f"the folder {__path__[0]} is GSplit's source without compiled code, and hides a package that was installed; "
        "call Python in another folder, or build it here: pip install -e .",
        name="gsplit._core",
    )

if TYPE_CHECKING:
    from gsplit.config.train import TrainConfig
    from gsplit.data.api import import_graph
    from gsplit.data.memory.graphs import from_arrays, from_dgl, from_pyg
    from gsplit.errors import InputError
    from gsplit.models.saved import load
    from gsplit.partition.interface.api import partition
    from gsplit.predict.api import predict
    from gsplit.report.api import report
    from gsplit.train.api import train

__all__ = [
    "InputError",
    "TrainConfig",
    "from_arrays",
    "from_dgl",
    "from_pyg",
    "import_graph",
    "load",
    "partition",
    "predict",
    "report",
    "train",
]
__version__ = "0.1.0"

_HOMES = {
    "InputError": "gsplit.errors",
    "TrainConfig": "gsplit.config.train",
    "from_arrays": "gsplit.data.memory.graphs",
    "from_dgl": "gsplit.data.memory.graphs",
    "from_pyg": "gsplit.data.memory.graphs",
    "import_graph": "gsplit.data.api",
    "load": "gsplit.models.saved",
}
_CALLED = ("partition", "predict", "report", "train")
"""Packages that can be called."""


def __getattr__(name: str) -> Any:
    if name in _CALLED:
        return importlib.import_module(f"gsplit.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gsplit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
