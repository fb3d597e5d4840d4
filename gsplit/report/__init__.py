"""A page of training runs: what they learned, and what their epochs took, as HTML that needs no network.

``gsplit.report(run, out="report.html")`` draws it from Python: ``help(gsplit.report.api.report)``.
``python -m gsplit.report`` wants a package of this name, so the package can be called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsplit.report.api import Page


class _CallablePackage(ModuleType):
    def __call__(self, *runs: Path | str, out: Path | str | None = None) -> Page:
        """Draw runs and return the page; :func:`gsplit.report.api.report` says all about it."""
        from gsplit.report.api import report

        return report(*runs, out=out)


sys.modules[__name__].__class__ = _CallablePackage
