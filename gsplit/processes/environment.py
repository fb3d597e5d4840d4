"""Variables of the environment that only the processes started meanwhile see."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment of trainers, where it does not say otherwise: PyTorch's idle threads sleep. They would spin for some
milliseconds after each operation, on cores that the core's own threads, samplers and other trainers compute on."""


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment; the block's end gives them back the values of before."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
