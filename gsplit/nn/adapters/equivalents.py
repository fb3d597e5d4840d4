"""Convolutions of PyG and DGL that a block can compute itself: the same result without a tensor of edges x features.

PyG materialises the source row of every edge, and both libraries get their rows after the exchange, as wide as they
come. A block sums rows where they lie, and projects them first where that makes what is sent narrower. Only the
classes themselves are known, with the options that are named here; a subclass may compute anything, and is called as
it is.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from gsplit.errors import InputError
from gsplit.kernels import computed_in
from gsplit.nn.adapters.lazy_rows import stored_or_tensor
from gsplit.nn.block import Block
from gsplit.nn.gcn import Divisor, factors_on_block
from gsplit.nn.neighbourhood import narrows
from gsplit.nn.rowwise.dense import HOOKS, is_plain
from gsplit.nn.rowwise.products import multiplies_stored


class OnBlock(NamedTuple):
    """The arguments of a known convolution, in place of its own."""

    block: Block
    x: Tensor
    """[num_own_sources, D] rows of the own sources; lazy ones where the equivalent says that it reads stored rows."""
    own: Tensor | None
    """[num_destinations, D'] rows of the destinations, where the model gave a pair; None: the first rows of x."""
    weighted: bool
    """Whether the model handed the edge weights on to this convolution."""

    @property
    def own_rows(self) -> Tensor:
        """[num_destinations, D'] rows of the destinations."""
        return self.x[: self.block.num_destinations] if self.own is None else self.own


def _pyg_sage(conv: Any, on: OnBlock) -> Tensor:
    """``SAGEConv`` with mean or sum: ``lin_l(mean) + lin_r(own)``."""
    x = conv.lin(on.x).relu() if conv.project else on.x
    neighbours = _linear(conv.lin_l.weight, None)
    own = _linear(conv.lin_r.weight, conv.lin_l.bias) if conv.root_weight else None
    if conv.aggr == "mean" and own is not None and on.own is None and not conv.project:
        out = on.block.self_and_mean(stored_or_tensor(x), own, neighbours)
    else:
        out = (on.block.mean if conv.aggr == "mean" else on.block.sum)(x, project=neighbours)
        if own is not None:
            out = out + own(on.own_rows)
        elif conv.lin_l.bias is not None:
            out = out + conv.lin_l.bias
    return F.normalize(out, p=2.0, dim=-1) if conv.normalize else out


def _pyg_graph(conv: Any, on: OnBlock) -> Tensor:
    """``GraphConv`` with a sum: ``lin_rel(sum) + lin_root(own)``."""
    neighbours = on.block.sum(on.x, weighted=on.weighted, project=_linear(conv.lin_rel.weight, None))
    return neighbours + _linear(conv.lin_root.weight, conv.lin_rel.bias)(on.own_rows)


def _pyg_gin(conv: Any, on: OnBlock) -> Tensor:
    """``GINConv``: ``nn(sum + (1 + eps) own)``."""
    return conv.nn(on.block.sum(on.x) + (1 + conv.eps) * on.own_rows)


def _dgl_sage(conv: Any, on: OnBlock) -> Tensor:
    """DGL's ``SAGEConv`` with a mean: ``fc_self(own) + fc_neigh(mean)``, then activation and norm."""
    x = conv.feat_drop(on.x) if conv.feat_drop.p else on.x
    if on.own is None:
        out = on.block.self_and_mean(stored_or_tensor(x), conv.fc_self, conv.fc_neigh)
    else:
        out = conv.fc_self(conv.feat_drop(on.own)) + on.block.mean(x, project=conv.fc_neigh)
    if conv.activation is not None:
        out = conv.activation(out)
    return out if conv.norm is None else conv.norm(out)


def _pyg_loop(conv: Any) -> float:
    """Weight of the loop that ``GCNConv`` adds to a vertex of a weighted graph that has none."""
    return 2.0 if conv.improved else 1.0


def _pyg_divisor(conv: Any) -> Divisor | None:
    """Return what ``GCNConv`` divides by: the root of degrees, which are NaN below 0 and 0 at 0 in PyG."""
    return Divisor(loop=_pyg_loop(conv) * conv.add_self_loops, where_none=True) if conv.normalize else None


def _pyg_gcn(conv: Any, on: OnBlock) -> Tensor:
    """``GCNConv``: our GCN's sums, by the degrees of the whole graph; a loop is added where the graph has none."""
    block, project = on.block, _linear(conv.lin.weight, None)
    if not conv.normalize:
        out = block.sum(on.x, weighted=on.weighted, project=project)
        return out if conv.bias is None else out + conv.bias
    scaled = block.edge_scale is not None and block.drawn_weights is None  # those weights are scales
    if block.edge_weight is not None and not on.weighted and not scaled:
        raise InputError(
            "a GCNConv was not handed the edge weights that the graph has; hand edge_weight on to it, or say "
            "uses_edge_weight = False in the model's class"
        )
    loops = None
    if conv.add_self_loops:
        # PyG's loops have weight 1, whatever improved says, where the graph has no weights.
        weight = _pyg_loop(conv) if on.weighted and not scaled else 1.0
        loops = weight * (~block.has_loop()).to(computed_in(on.x.dtype))

    def summed(rows: Tensor) -> Tensor:
        factors = factors_on_block(block, computed_in(rows.dtype), loops)
        return block.normalised_sum(rows, factors, weighted=on.weighted)

    return block.projected(on.x, project, summed, conv.bias)


@dataclass(frozen=True)
class Equivalent:
    """A way to compute a class of convolutions on blocks, and the conditions for it."""

    applies: Callable[[Any], bool]
    """Whether it computes this convolution, by its options."""
    compute: Callable[[Any, OnBlock], Tensor]
    takes_weights: bool = False
    """True where it is known what the convolution does with edge weights."""
    alone: bool = False
    """Whether nothing else computes the convolution on blocks: the library's code takes no pair of rows."""
    divisor: Callable[[Any], Divisor | None] = lambda conv: None
    """What a convolution divides by, where that is made of edge weights."""
    reads_stored: Callable[[Any], bool] = lambda conv: False
    """Whether a convolution that it computes needs no copy of the features: a block projects them, row by row."""


def _plain(linear: Any, *, bias: bool = True) -> bool:
    """Return whether a linear map is its weight and, where it may have one, its bias, and nothing else."""
    pyg = sys.modules.get("torch_geometric.nn.dense.linear")
    classes = () if pyg is None else (pyg.Linear,)
    return is_plain(linear, *classes) and (bias or linear.bias is None)


AGGREGATIONS = {"mean": "MeanAggregation", "add": "SumAggregation", "sum": "SumAggregation"}
"""The class of PyG's aggregation by its name."""


def _pyg_sums(conv: Any, *ways: str) -> bool:
    """Return whether a convolution of PyG sums up what it gets, in one of these ways, and nobody looks on."""
    hooked = any(hooks for name, hooks in vars(conv).items() if name.endswith("_hooks") and name not in HOOKS)
    known = conv.aggr in ways and type(conv.aggr_module).__name__ == AGGREGATIONS[conv.aggr]
    return (
        known and not hooked and conv.flow == "source_to_target" and not conv.explain and conv.decomposed_layers == 1
    )


def _narrow(linear: Any) -> bool:
    """Return whether a block projects rows by a map before it sums them, and the core does so where they lie."""
    return narrows(_linear(linear.weight, None)) and multiplies_stored(*linear.weight.shape)


def why_no_gcn(conv: Any) -> str | None:
    """Return which option of one of PyG's ``GCNConv`` a block cannot honour; None where it can compute it."""
    options: dict[str, Any] = {"flow": "source_to_target", "decomposed_layers": 1, "node_dim": -2}
    for name, only in options.items():
        if getattr(conv, name) != only:
            return f"with {name}={getattr(conv, name)!r} no block computes it; leave it {only!r}"
    if conv.aggr not in ("add", "sum"):
        return f"with aggr={conv.aggr!r} no block computes it; leave it 'add'"
    if not _plain(conv.lin, bias=False):
        return "its lin is no plain linear map without bias, which a block computes it by"
    return None if _pyg_sums(conv, "add", "sum") else "somebody looks at its messages (a hook, or explain)"


KNOWN = {
    ("torch_geometric", "SAGEConv"): Equivalent(
        lambda conv: (
            _pyg_sums(conv, "mean", "add", "sum")
            and _plain(conv.lin_l)
            and (not conv.root_weight or _plain(conv.lin_r, bias=False))
        ),
        _pyg_sage,
        reads_stored=lambda conv: (
            conv.aggr == "mean" and conv.root_weight and not conv.project and _narrow(conv.lin_l)
        ),
    ),
    ("torch_geometric", "GraphConv"): Equivalent(
        lambda conv: _pyg_sums(conv, "add", "sum") and _plain(conv.lin_rel) and _plain(conv.lin_root, bias=False),
        _pyg_graph,
        True,
    ),
    ("torch_geometric", "GCNConv"): Equivalent(
        lambda conv: not why_no_gcn(conv), _pyg_gcn, True, alone=True, divisor=_pyg_divisor
    ),
    ("torch_geometric", "GINConv"): Equivalent(lambda conv: _pyg_sums(conv, "add", "sum"), _pyg_gin),
    ("dgl", "SAGEConv"): Equivalent(
        lambda conv: conv._aggre_type == "mean" and _plain(conv.fc_self) and _plain(conv.fc_neigh, bias=False),
        _dgl_sage,
        reads_stored=lambda conv: not conv.feat_drop.p and _narrow(conv.fc_neigh),
    ),
}
"""Equivalents by library and class, of PyG 2.8 and DGL 1.1."""
LIBRARIES = ("torch_geometric.nn.conv.", "dgl.nn.pytorch.conv.")


def equivalent_of(convolution: nn.Module) -> Equivalent | None:
    """Return what computes the convolution on blocks; None where the library itself does."""
    cls = type(convolution)
    known = KNOWN.get((cls.__module__.partition(".")[0], cls.__name__))
    own = vars(convolution).get("forward")  # ours where the model was wrapped before
    if known is None or not cls.__module__.startswith(LIBRARIES) or not isinstance(own, EquivalentForward | None):
        return None
    return known if known.applies(convolution) else None


class EquivalentForward:
    """A convolution's ``forward`` that computes an :class:`OnBlock` on its block, and all else as the class does."""

    def __init__(self, convolution: nn.Module, equivalent: Equivalent) -> None:
        self._convolution, self._key = convolution, _key_of(equivalent)

    @property
    def applies(self) -> bool:
        """True where a block can compute the convolution as it stands now."""
        return KNOWN[self._key].applies(self._convolution)

    @property
    def takes_weights(self) -> bool:
        """True where it is known what the convolution does with edge weights."""
        return KNOWN[self._key].takes_weights

    @property
    def alone(self) -> bool:
        """True where nothing else computes the convolution on blocks."""
        return KNOWN[self._key].alone

    @property
    def divisor(self) -> Divisor | None:
        """The divisor of the convolution, where it is made of edge weights."""
        return KNOWN[self._key].divisor(self._convolution)

    @property
    def reads_stored(self) -> bool:
        """True where the convolution, as it stands now, needs no copy of the features."""
        return self.applies and KNOWN[self._key].reads_stored(self._convolution)

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(type(self._convolution).forward)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return what the convolution gives: on its block, or with the arguments of its class."""
        if arguments and isinstance(arguments[0], OnBlock):
            return KNOWN[self._key].compute(self._convolution, arguments[0])
        return type(self._convolution).forward(self._convolution, *arguments, **named)


def _key_of(equivalent: Equivalent) -> tuple[str, str]:
    return next(key for key, known in KNOWN.items() if known is equivalent)


def _linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    """A linear map of parameters that belong to another module."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = weight
    if bias is not None:
        linear.bias = bias
    return linear
