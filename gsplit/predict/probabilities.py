"""Probabilities of the classes, from logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

ROWS_AT_ONCE = 1 << 16


def make_probabilities(path: Path, *, several: bool) -> None:
    """Replace logits [M, C] in a ``.npy`` by probabilities, some rows at a time.

    Args:
        several: a vertex has any number of classes, so each has a probability of its own (sigmoid); otherwise those
            of a vertex have the sum 1 (softmax).
    """
    values = np.load(path, mmap_mode="r+")
    for begin in range(0, len(values), ROWS_AT_ONCE):
        logits = torch.from_numpy(np.array(values[begin : begin + ROWS_AT_ONCE]))
        values[begin : begin + len(logits)] = (logits.sigmoid() if several else logits.softmax(dim=1)).numpy()
    values.flush()
