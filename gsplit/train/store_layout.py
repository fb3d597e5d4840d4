"""A graph store in place of a layout, for ``--strategy full``: its vertices are dealt out in the run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from gsplit.config.partition import PartitionConfig
from gsplit.config.train import TrainConfig
from gsplit.data import store
from gsplit.device.choice import choose_device, trainers_of
from gsplit.errors import InputError
from gsplit.files import real_path
from gsplit.partition import partition
from gsplit.runs.folder import holds_results

LAYOUT = "layout"
"""Folder of the layout in the folder of the run."""


def is_store_of_run(config: TrainConfig) -> bool:
    """Return whether a run on the whole graph is to begin from a graph store.

    Raises:
        InputError: where it is, and the number of trainers is not given, or the plan needs parts with a good cut.
    """
    if config.strategy != "full" or config.layout is None or not (config.layout / store.FILE).is_file():
        return False
    if config.check_model or config.dry_run:
        return False  # nothing is made; what needs a layout says so
    if config.gpus is None:
        raise InputError(f"{config.layout} is a graph store, which has no parts: say how many trainers with --gpus")
    if config.algorithm == "1d-sparse":
        raise InputError(
            f"--algorithm 1d-sparse sends rows between parts that a cut was found for, and {config.layout} is a "
            f"graph store; make a layout with gsplit partition {config.layout} --parts {config.gpus}"
        )
    choose_device(config.device, trainers_of(config.gpus, config.gpus))
    return True


@contextmanager
def laid_out(config: TrainConfig) -> Iterator[TrainConfig]:
    """The configuration with a layout, made in the run's folder; nothing is left of it where nothing was saved.

    Args:
        config: of a run that begins from a store, and whose folder this process holds.

    Raises:
        InputError: for a store that is damaged, or a disk that is full.
    """
    assert config.out is not None
    assert config.layout is not None
    assert config.gpus is not None
    layout = real_path(config.out) / LAYOUT
    try:
        partition(PartitionConfig(store=config.layout, out=layout, parts=config.gpus, method="deal"))
        yield replace(config, layout=layout)
    except BaseException:
        if not holds_results(config.out):
            shutil.rmtree(layout, ignore_errors=True)
        raise
