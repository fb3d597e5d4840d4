"""Callbacks that trainers of tests are given."""

from __future__ import annotations

import torch

from gsplit.callbacks import Callback


class BreaksDevice(Callback):
    """After an epoch the simulated device of trainer 0 fails, some tasks later."""

    def on_epoch_end(self, record):
        torch.ops.sim.fail_after(torch.accelerator.current_device_index(), 40)
