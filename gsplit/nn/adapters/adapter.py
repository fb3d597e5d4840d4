"""The base of the adapters for PyG and DGL: which block a convolution gets, and how ``forward`` is called."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from gsplit.errors import InputError
from gsplit.kernels import StoredRows
from gsplit.nn.adapters.equivalents import EquivalentForward, OnBlock, equivalent_of
from gsplit.nn.adapters.lazy_rows import lazy, materialised
from gsplit.nn.adapters.spare import Spare
from gsplit.nn.block import Block

FEATURE_NAMES = ("x", "h", "feat", "feats", "features", "feature", "inputs", "in_feat", "in_feats", "node_feat")

DEPTH = "give --fan-out, --layer-sizes or --num-layers one number or layer for each"
"""The advice for a model that has not as many layers as mini-batches."""


class _Reached(Exception):
    """Carries the vectors of the level that was asked for out of the user's forward."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows


class Adapter(nn.Module, ABC):
    """``forward(blocks, x)`` around a user's module. Weights are saved and loaded under the module's own names.

    Args:
        module: the user's module.
        convolutions: its convolutions, which get the hook.
    """

    def __init__(self, module: nn.Module, convolutions: Sequence[nn.Module]) -> None:
        super().__init__()
        self.module = module
        self._blocks: dict[int, Block] = {}
        """The blocks of the current mini-batch; empty outside forward, when the hooks do nothing."""
        self._calls = 0
        self._last_layer = 0
        self._stop_at = 0
        self._from_below: tuple[int, Tensor] | None = None
        """A layer, and the rows that its convolutions get whatever the model gives them; see :meth:`forward_one`."""
        self._spare = Spare(convolutions)
        self._first = (convolutions[0],)  # in a tuple, or it would be a module of this one twice
        self._parameters_of_forward = self._forward_parameters()
        equivalents = [equivalent_of(convolution) for convolution in convolutions]
        sparse = "adj_t" in self._parameters_of_forward.values()
        self.uses_degrees = any(one is not None and one.alone for one in equivalents)
        """Whether blocks must carry the degrees of the whole graph."""
        self.takes_scales = all(equivalents) and not sparse
        """Whether sums over its edges can be estimates: blocks compute all its convolutions. Others may take weights
        of edges, but divide by the number of those that were kept, or take no sum at all."""
        for convolution, equivalent in zip(convolutions, equivalents, strict=True):
            convolution.register_forward_pre_hook(self._before_convolution, with_kwargs=True)
            if equivalent is not None:
                convolution.forward = EquivalentForward(convolution, equivalent)

    @property
    def reads_stored_rows(self) -> bool:
        """True where the features of a mini-batch may be given as :class:`~gsplit.kernels.StoredRows`.

        They may where the first convolution reads them where they lie; whatever else uses them gets a copy.
        """
        reads = bool(getattr(self._first[0].forward, "reads_stored", False))
        return reads and "adj_t" not in self._parameters_of_forward.values()

    def forward(self, blocks: dict[int, Block], x: Tensor | StoredRows) -> Tensor:
        """Logits of the targets [n_L, C] for features of the inputs [n_0, D].

        Raises:
            InputError: for a model that calls convolutions of more or fewer layers than there are blocks, or that
                cannot compute on blocks.
        """
        rows = lazy(x) if isinstance(x, StoredRows) else x
        out = self._run(blocks, rows, len(blocks), stop_at=0)
        if self._last_layer != len(blocks):
            raise InputError(
                f"the model {type(self.module).__name__} called {self._calls} convolutions of {self._last_layer} "
                f"layers, but mini-batches have {len(blocks)}; {DEPTH}"
            )
        return out

    def forward_until(self, layer: int, blocks: dict[int, Block], x: Tensor) -> Tensor:
        """The vectors of level ``layer``, as the next convolution gets them.

        Args:
            layer: from 1 on, below the last; the vectors of the last level are the logits of :meth:`forward`.
            blocks: those of the layers 1 .. ``layer``.
            x: [n_0, D] features of the inputs.

        Raises:
            InputError: where the model has no convolution after ``layer``.
        """
        blocks = {**blocks, layer + 1: blocks[layer].without_rows()}
        try:
            self._run(blocks, x, layer + 1, stop_at=layer + 1)
        except _Reached as reached:
            return reached.rows
        raise InputError(f"the model {type(self.module).__name__} has no convolution after layer {layer}")

    def forward_one(self, layer: int, layers: int, block: Block, x: Tensor, in_features: int) -> Tensor:
        """The vectors of one level from those of the level below, both as the next convolution gets them.

        The model's forward runs without a row until it comes to the layer, gets the rows there, and is left before
        the next layer. So whatever stands between convolutions is computed once, of the layer's destinations, if no
        other rows reach behind the layer: in models where some do (jumping knowledge, the features in every layer)
        they do not fit, or the result is another one than :meth:`forward` gives.

        Args:
            layer: from 1 on.
            layers: of the model, L.
            block: of the layer; not split.
            x: [num_own_sources, width] rows of the level below.
            in_features: width of the features, D.

        Returns:
            [num_destinations, width of the level]; of the last level the logits.
        """
        blocks = dict.fromkeys(range(1, layers + 1), block.without_rows()) | {layer: block}
        self._from_below = None if layer == 1 else (layer, x)  # the model itself makes rows of the features
        try:
            features = x if layer == 1 else x.new_empty(0, in_features)
            return self._run(blocks, features, layers, stop_at=0 if layer == layers else layer + 1)
        except _Reached as reached:
            return reached.rows
        finally:
            self._from_below = None

    def _rows_of(self, layer: int, x: Any) -> Any:
        """Replace ``x``, rows or a pair of sources' and destinations', by what a convolution is called with."""
        if self._from_below is None or layer != self._from_below[0]:
            return x
        rows = self._from_below[1]
        if not isinstance(x, (tuple, list)):
            return rows
        return (rows, None if x[1] is None else rows[: self._blocks[layer].num_destinations])

    def _run(self, blocks: dict[int, Block], x: Tensor, layers: int, *, stop_at: int) -> Tensor:
        self._blocks, self._calls, self._last_layer, self._stop_at = blocks, 0, 0, stop_at
        try:
            return self.module(**self._arguments(x, layers))
        except (RuntimeError, TypeError, AttributeError) as error:
            explained = self._explained(error)
            if explained is None:
                raise
            raise explained from error
        finally:
            self._blocks = {}
            self._forget()

    def _explained(self, error: Exception) -> InputError | None:
        """One line for each of the two mistakes that whole-graph models make on blocks; None for any other error."""
        name, message = type(self.module).__name__, str(error).lower()
        if isinstance(error, RuntimeError) and "size" in message and "match" in message:
            return InputError(
                f"forward of {name} joins rows of different levels ({error}); a convolution gives its destinations "
                "alone, so take x[: out.shape[0]] of what it got, or JumpingKnowledge of PyG"
            )
        if "tuple" in message:
            return InputError(
                f"a convolution of {name} does not take x as a pair ({error}); on a block it gets "
                "(x_source, x_destination), as in docs/bring_your_own_model.md"
            )
        return None

    def _layer_of(self, graph: Any, given: Sequence[Any], *, one_a_layer: bool) -> int:
        """The layer of a convolution that got ``graph``, one of those that forward was ``given``.

        One graph a layer says it itself. Where forward was given a single one for all, the l-th call is layer l.
        """
        self._calls += 1
        found = next((i for i, one in enumerate(given, start=1) if one is graph), None)
        if found is None:
            raise InputError(
                f"a convolution of {type(self.module).__name__} got a graph that forward was not given; forward must "
                "hand on what it gets, unchanged"
            )
        layer = found if one_a_layer else self._calls
        if layer > len(self._blocks) and layer != self._stop_at:
            raise InputError(
                f"the model {type(self.module).__name__} calls more convolutions than mini-batches have layers "
                f"({len(self._blocks)}); {DEPTH}, or, with several convolutions in a layer, let forward take a list "
                "of adjs or blocks"
            )
        self._last_layer = max(self._last_layer, layer)
        return layer

    def _block_for(self, layer: int, rows: Tensor) -> Block:
        """The block of a layer whose convolution got these rows of the own sources."""
        if layer == self._stop_at:
            raise _Reached(rows)
        block = self._blocks[layer]
        if rows.shape[0] != block.num_own_sources:
            raise InputError(
                f"a convolution of layer {layer} of {type(self.module).__name__} got {rows.shape[0]} rows, not the "
                f"{block.num_own_sources} of level {layer - 1}; it must get the output of the layer before"
            )
        return block

    def _on_block(
        self, convolution: nn.Module, block: Block, x: Any, others: Sequence[Any], weight_stand_in: Any
    ) -> OnBlock | None:
        """Return the arguments of a convolution that blocks can compute; None where the library's own code does.

        Raises:
            InputError: where only a block computes the convolution, and it got what a block cannot take.

        Args:
            convolution: that is called.
            block: of its layer.
            x: rows of the own sources, or a pair of them and the destinations'.
            others: its other arguments, without the graph.
            weight_stand_in: that is among them where the model hands the edge weights on.
        """
        forward = convolution.forward
        if not isinstance(forward, EquivalentForward):
            return None
        weighted = weight_stand_in is not None and any(value is weight_stand_in for value in others)
        known = all(value is None or value is weight_stand_in for value in others)
        pair = isinstance(x, (tuple, list))
        lacks_own = pair and (forward.alone or x[1] is None)  # destinations without rows of their own
        if forward.applies and known and not lacks_own and (forward.takes_weights or not weighted):
            own = materialised(x[1]) if pair else None
            rows = x[0] if pair else x
            return OnBlock(block, rows if own is None and forward.reads_stored else materialised(rows), own, weighted)
        if forward.alone:
            name = type(convolution).__name__
            raise InputError(
                f"a {name} of {type(self.module).__name__} is computed by its block, from x as one tensor, the graph "
                "and the edge weights as forward gets them, and nothing else; it got something else, or was changed"
            )
        return None

    def _forward_parameters(self) -> dict[str, str]:
        """Return what to give each parameter of the module's forward, by name ("features" for all names of features).

        Raises:
            InputError: for a parameter that is needed and that we do not know.
        """
        known = {}
        for name, parameter in inspect.signature(self.module.forward).parameters.items():
            if name in FEATURE_NAMES:
                known[name] = "features"
            elif name == "edge_attr" and parameter.default is not parameter.empty:
                continue  # PyG's models take it for all convolutions, but most of those want none
            elif name in self.graph_names:
                known[name] = name
            elif name == "batch_size" and parameter.default is parameter.empty:
                known[name] = name  # the number of targets, as with PyG's NeighborLoader
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            elif parameter.default is parameter.empty:
                raise InputError(
                    f"forward of {type(self.module).__name__} needs {name!r}, which we do not know; it may take "
                    f"features as {', '.join(FEATURE_NAMES[:5])} ..., and the graph as {', '.join(self.graph_names)}"
                )
        return known

    graph_names: tuple[str, ...] = ()
    """The names of the graph, and of what belongs to it, among the arguments of the library's models."""

    @abstractmethod
    def _arguments(self, x: Tensor, layers: int) -> dict[str, Any]:
        """The named arguments to call the module's forward with."""

    @abstractmethod
    def _forget(self) -> None:
        """Let go of what was made for one mini-batch."""

    @abstractmethod
    def _before_convolution(
        self, convolution: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The forward pre-hook."""

    @property
    def uses_edge_weight(self) -> bool:
        """True where blocks must carry the edge weights of the graph, if it has any."""
        return bool(getattr(self.module, "uses_edge_weight", True))

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Weights under the user's own names, so that they can be loaded with and without GSplit."""
        return self.module.state_dict(*arguments, **named)

    def load_state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Load weights that are under the user's own names."""
        return self.module.load_state_dict(*arguments, **named)
