"""Which vertices of a calibrated graph are trained on: few, and in few communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.data.synthetic.calibration import Calibrated
from gsplit.data.synthetic.line import QUARTERS, Line


def vertex_sets_of(preset: Calibrated, line: Line, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Places on the line of the training, validation and test vertices: three arrays."""
    n = preset.num_vertices
    train, valid, labelled = (
        int(n * share)
        for share in (preset.train_share, preset.train_share + preset.valid_share, preset.labelled_share)
    )
    if labelled < n:
        order = random.permutation(_focused(preset, line, labelled, random))
        return [order[:train], order[train:valid], order[valid:]]
    targets = _focused(preset, line, train, random)
    others = np.ones(n, np.bool_)
    others[targets] = False
    order = random.permutation(np.flatnonzero(others))
    return [targets, order[: valid - train], order[valid - train :]]


def _focused(preset: Calibrated, line: Line, wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Places drawn without replacement, by quarter, with the odds of their communities.

    Quarters with more targets have as many more communities in focus, rather than denser ones, so that their part of
    a mini-batch is as much larger.
    """
    number, community_of = line.blocks(line.community)
    quantile = (np.arange(number) + 0.5) / number
    odds = [
        (1 + random.permutation(quantile) / (preset.focus * QUARTERS * share)) ** -preset.focus_power
        for share in preset.quarter_targets
    ]
    # The smallest of exponential variables with these rates: a draw without replacement.
    keys = random.standard_exponential(line.n) / np.concatenate(odds)[community_of]
    ends = np.round(np.cumsum(preset.quarter_targets) * wanted).astype(np.int64)
    chosen = []
    for quarter, count in enumerate(np.diff(ends, prepend=0)):
        begin = quarter * line.quarter
        in_quarter = keys[begin : begin + line.quarter]
        chosen.append(begin + np.argsort(in_quarter, kind="stable")[: min(count, len(in_quarter))])
    return np.concatenate(chosen)
