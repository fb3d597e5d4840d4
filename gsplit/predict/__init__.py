"""Predictions: classes, logits or embeddings of any vertices, by the trainers in parallel, in global ids.

``python -m gsplit.predict`` wants a package of this name and ``gsplit.predict(run, layout)`` a function, so the
package can be called: that is :func:`gsplit.predict.api.predict`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from gsplit.predict.api import predict

        return predict(*arguments, **named)


sys.modules[__name__].__class__ = _CallablePackage
