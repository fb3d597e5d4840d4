"""Features that an importer hands over, as the array that is written of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled
from gsplit.data.columns.filled import Filled
from gsplit.data.importers.source import Rows


def dense(features: Any, training: tuple[int, ...] = ()) -> NDArray[Any]:
    """The features [N, D]; ``training``: ids of the training vertices, for means and deviations."""
    if isinstance(features, Rows):
        return np.concatenate(list(features.chunks()))
    if not isinstance(features, Assembled):
        return features
    out = np.full(features.shape, 111.0, np.float32)
    times = np.zeros(features.shape, np.int64)
    for vertices, columns, values in Filled(features, np.array(training, np.int64), "float32").pieces():
        out[vertices, columns] = values
        times[vertices, columns] += 1
    assert (times == 1).all()  # each is written once
    return out
