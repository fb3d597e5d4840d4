"""The offline stage: assign every vertex to a part and relabel the graph, so that run time needs no table.

``gsplit.partition(graph, parts=4)`` makes a layout; see ``help(gsplit.partition.interface.api.partition)``.
``python -m gsplit.partition`` wants a package of this name and ``gsplit.partition(graph)`` a function, so the package
can be called: that is :func:`gsplit.partition.interface.api.partition`.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gsplit.config.partition import PartitionConfig
from gsplit.partition.make import dry_run, partition

if TYPE_CHECKING:
    from gsplit.data import Layout

__all__ = ["PartitionConfig", "dry_run", "partition"]


class _CallablePackage(ModuleType):
    def __call__(
        self,
        graph: Any,
        out: str | os.PathLike[str] | None = None,
        *,
        parts: int | None = None,
        overwrite: bool = False,
        **options: Any,
    ) -> Layout:
        """Make a layout of a graph; :func:`gsplit.partition.interface.api.partition` says all about it."""
        from gsplit.partition.interface.api import partition

        return partition(graph, out, parts=parts, overwrite=overwrite, **options)


sys.modules[__name__].__class__ = _CallablePackage
