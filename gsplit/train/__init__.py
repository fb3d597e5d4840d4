"""Training: the loop, what happens at the ends of epochs and of the run, checkpoints, the command.

``gsplit.train(layout, config, model=None, loss=None, loop=None, callbacks=())`` trains and returns the summary; see
``help(gsplit.train.api.train)``.
``python -m gsplit.train`` wants a package of this name and ``gsplit.train(layout, config)`` a function, so the
package can be called: that is :func:`gsplit.train.api.train`.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from gsplit.callbacks import Callback
    from gsplit.config.train import TrainConfig
    from gsplit.engine.objectives.own_loss import LossFunction
    from gsplit.train.own_loop import Loop
    from gsplit.train.summary import Trained


class _CallablePackage(ModuleType):
    def __call__(
        self,
        layout: str | os.PathLike[str] | None = None,
        config: TrainConfig | None = None,
        *,
        model: nn.Module | None = None,
        loss: LossFunction | None = None,
        loop: Callable[[Loop], object] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Trained:
        """Train on a layout and return the summary; :func:`gsplit.train.api.train` says all about it."""
        from gsplit.train.api import train

        return train(layout, config, model=model, loss=loss, loop=loop, callbacks=callbacks)


sys.modules[__name__].__class__ = _CallablePackage
