"""Models written for PyG or DGL, run on blocks as they are.

:func:`wrap` puts a forward pre-hook on each convolution. The hook finds the block of the layer, brings in the
remote rows (``block.exchange``), and calls the convolution on all sources and own destinations, as the library does
on a sampled bipartite graph. Admissible are convolutions whose output for a vertex depends on its in-edges, its
source rows and its own row alone; what is known to need more is refused by name, and ``--check-model`` tests the
rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from torch import nn

from gsplit.errors import InputError
from gsplit.nn.adapters.adapter import Adapter
from gsplit.nn.adapters.dgl import DGLAdapter, is_dgl_convolution
from gsplit.nn.adapters.equivalents import equivalent_of
from gsplit.nn.adapters.pyg import PyGAdapter, is_pyg_convolution
from gsplit.nn.adapters.refuse import refuse_inadmissible

__all__ = ["Adapter", "wrap"]


def wrap(model: nn.Module, *, convolutions: Sequence[type[nn.Module]] = ()) -> nn.Module:
    """A module with ``forward(blocks, x)`` around a model written for PyG or DGL; others are returned as they are.

    Args:
        model: its ``forward`` takes features and a graph under the names that the libraries use: ``x, edge_index``
            (one for all layers), ``x, adjs``, ``x, adj_t`` or ``data``; ``blocks, x`` or ``g, x``.
        convolutions: classes of your own that take ``(block, features, ...)`` as DGL's convolutions do; also those
            that the model names in its attribute ``gsplit_convolutions``.

    Raises:
        InputError: for a layer that cannot be split, by name, and for a ``forward`` with other arguments.
    """
    if isinstance(model, Adapter):
        return model
    convolutions = (*convolutions, *getattr(model, "gsplit_convolutions", ()))
    dgl_like = _outermost(model, lambda m: isinstance(m, tuple(convolutions)) or is_dgl_convolution(m))
    pyg_like = _outermost(model, is_pyg_convolution)
    as_whole = pyg_like and "blocks" not in inspect.signature(model.forward).parameters
    refuse_inadmissible(model, computed=[conv for conv in pyg_like if as_whole and equivalent_of(conv)])
    if dgl_like and pyg_like:
        raise InputError(
            f"the model {type(model).__name__} mixes convolutions of DGL ({type(dgl_like[0]).__name__}) and PyG "
            f"({type(pyg_like[0]).__name__}); use those of one library"
        )
    if as_whole:
        return PyGAdapter(model, pyg_like)
    if dgl_like:
        return DGLAdapter(model, dgl_like)
    return model


def _outermost(module: nn.Module, wanted: Callable[[nn.Module], bool]) -> list[nn.Module]:
    """The convolutions that no other contains: what is inside one is its own affair."""
    if wanted(module):
        return [module]
    found = [conv for child in module.children() for conv in _outermost(child, wanted)]
    return list(dict.fromkeys(found))
