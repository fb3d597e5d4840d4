"""How a model is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gsplit.config.fields import Checked, Range


@dataclass(frozen=True, kw_only=True)
class OptimisationConfig(Checked):
    """The optimiser, which is Adam, and for how long it is at work."""

    epochs: Annotated[int, Range(0)] = 10
    """Passes over the training vertices."""
    lr: Annotated[float, Range(above=0, below=math.inf)] = 0.003
    """Learning rate of Adam."""
    weight_decay: Annotated[float, Range(least=0.0, below=math.inf)] = 0.0
    """L2 penalty of Adam."""
