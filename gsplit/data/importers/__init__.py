"""Sources a graph store can be made from; one module a format.

An importer is a function from a source to :class:`gsplit.data.graph.GraphArrays`.
"""

from __future__ import annotations

from pathlib import Path

from gsplit.data import synthetic
from gsplit.data.graph import GraphArrays
from gsplit.data.importers.npz import load_npz
from gsplit.errors import InputError

SYNTHETIC = "synthetic:"


def load_source(source: str, *, seed: int = 0, feature_dtype: str | None = None) -> tuple[str, GraphArrays]:
    """Name and arrays of a source: ``synthetic:PRESET`` or the path of an ``.npz``.

    Raises:
        InputError: for a source that does not exist, is damaged or of no known kind.
    """
    if source.startswith(SYNTHETIC):
        preset = source.removeprefix(SYNTHETIC)
        name, graph = f"synthetic-{preset}", synthetic.generate_preset(preset, seed=seed)
    else:
        path = Path(source)
        if not path.exists():
            raise InputError(f"{source}: no such file (a source is a path.npz or {SYNTHETIC}PRESET)")
        if path.suffix != ".npz":
            raise InputError(f"{source}: unknown kind of source; expected a path.npz or {SYNTHETIC}PRESET")
        name, graph = path.stem, load_npz(path)
    return name, graph.with_feature_dtype(feature_dtype) if feature_dtype else graph
