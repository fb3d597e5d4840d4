"""Training: the loop, what happens at the ends of epochs and of the run, checkpoints, the command.

``python -m gsplit.train`` wants a package of this name and ``gsplit.train(layout, config)`` a function, so the
package can be called: that is :func:`gsplit.train.api.train`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        from gsplit.train.api import train

        return train(*arguments, **named)


sys.modules[__name__].__class__ = _CallablePackage
