"""GSplit: split-parallel training of graph neural networks on all the GPUs of one host.

    import gsplit
    summary = gsplit.train("layout", gsplit.TrainConfig(out="run", epochs=5))
    model = gsplit.load("run")
    classes = gsplit.predict("run", "layout", out="classes.npy")

The names are resolved when first used: importing a subpackage such as gsplit.sampling does not import torch.
"""

from __future__ import annotations

from gsplit import starting

starting.watch(__name__)  # before all else, so that no import of a command is left out

# ruff: noqa: E402
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsplit.config.train import TrainConfig
    from gsplit.errors import InputError
    from gsplit.models.saved import load
    from gsplit.predict.api import predict
    from gsplit.train.api import train

__all__ = ["InputError", "TrainConfig", "load", "predict", "train"]
__version__ = "0.1.0"

_HOMES = {"InputError": "gsplit.errors", "TrainConfig": "gsplit.config.train", "load": "gsplit.models.saved"}


def __getattr__(name: str) -> Any:
    if name in ("predict", "train"):
        return importlib.import_module(f"gsplit.{name}")  # a package that can be called
    if name not in _HOMES:
        raise AttributeError(f"module 'gsplit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
