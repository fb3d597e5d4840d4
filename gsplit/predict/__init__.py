"""Predictions: classes, logits or embeddings of any vertices, by the trainers in parallel, in global ids.

``gsplit.predict(run, layout, ...)`` predicts with the best model of a run: ``help(gsplit.predict.api.predict)``.
``python -m gsplit.predict`` wants a package of this name and ``gsplit.predict(run, layout)`` a function, so the
package can be called: that is :func:`gsplit.predict.api.predict`.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _CallablePackage(ModuleType):
    def __call__(self, run: str | os.PathLike[str], layout: str | os.PathLike[str], **options: Any) -> NDArray[Any]:
        """Predict with the best model of a run; :func:`gsplit.predict.api.predict` says all about it."""
        from gsplit.predict.api import predict

        return predict(run, layout, **options)


sys.modules[__name__].__class__ = _CallablePackage
