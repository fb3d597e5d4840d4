"""``python -m tools.gpu_check.kept LAYOUT OUT KIND BATCH_SIZE``: what the allocator keeps after 50 mini-batches.

Mini-batches have other sizes each time, so that some of what was given back fits none of the next ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from typing_extensions import override

import gsplit
from experiments.shared.results import write_json
from gsplit.callbacks import Callback
from gsplit.data import open_layout
from gsplit.device import accelerator

BATCHES = 50


class Kept(Callback):
    """Writes down what trainer 0 has of its device when it has trained."""

    def __init__(self, file: Path, mini_batches: int) -> None:
        self._file, self._mini_batches = file, mini_batches

    @override
    def on_train_end(self, summary: dict[str, Any]) -> None:
        """Ask the allocator."""
        device = torch.get_device_module(accelerator.there())
        found = {
            "reserved_bytes": int(device.memory_reserved()),
            "allocated_bytes": int(device.memory_allocated()),
            "peak_bytes": int(device.max_memory_allocated()),
        }
        write_json(self._file, {"mini_batches": self._mini_batches, **found})


def main(layout: str, out: str, kind: str, batch_size: str) -> None:
    """Train for as many epochs as take 50 mini-batches."""
    targets = len(open_layout(layout).graph.train_idx)
    an_epoch = -(-targets // int(batch_size))
    epochs = -(-BATCHES // an_epoch)
    config = gsplit.TrainConfig(
        out=Path(out) / "run",
        device=kind,
        fan_out=(10, 10, 10),
        batch_size=int(batch_size),
        hidden=64,
        epochs=epochs,
        evaluate="none",
        overwrite=True,
    )
    gsplit.train(layout, config, callbacks=[Kept(Path(out) / "kept.json", epochs * an_epoch)])


if __name__ == "__main__":
    main(*sys.argv[1:])
