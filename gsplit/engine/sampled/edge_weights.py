"""Edge weights that a model cannot be computed with: the launcher asks once, before anything is started.

| what computes | what it asks of the weights | for |
|---|---|---|
| GCN, ours or PyG's, all in-edges taken | sums above 0, with the loop | their root: NaN below 0 in PyG |
| the same, some in-edges drawn | none below 0 | weights of all over weights of those drawn |
| rules that draw by weights | none below 0, one above 0 | chances |
| ratio estimates of sums | none below 0 | weights of all over weights of those kept |

A vertex without in-edges, or with such of weight 0 alone, has degree 0 without a loop, and gives nothing: so GCN is
defined, as PyG has it. What a rule of sampling asks stands beside the rule (:mod:`gsplit.engine.sampled.rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gsplit.config.model import MODELS
from gsplit.config.parallel import SAMPLED
from gsplit.config.resolved import Resolved
from gsplit.config.sampling import takes_all
from gsplit.data import Layout
from gsplit.data.inspect.negative_weights import weight_signs
from gsplit.engine.sampled.rules import NotBelowZero, draws_by_weights, why_not_below_zero
from gsplit.errors import InputError
from gsplit.models.prepared import Needs
from gsplit.nn.gcn import Divisor


class Weighed(NamedTuple):
    """A model, as far as the weights of edges go."""

    name: str
    """Name of the model, or of its class."""
    uses_weights: bool
    divisors: tuple[Divisor, ...]
    """What it divides by."""

    @classmethod
    def of(cls, signature: Mapping[str, Any], needs: Needs, divisors: tuple[Divisor, ...]) -> Weighed:
        """A model by its signature, and by what was found of it when it was prepared."""
        return cls(signature.get("class", signature["model"]), needs["weights"], divisors)

    @property
    def without(self) -> str:
        """The way to do without weights, in words."""
        if self.name in MODELS:
            return "use --model sage, which takes no weights"
        return "say uses_edge_weight = False in the model's class, so that it takes none"


def check_weights_of_training(layout: Layout, config: Resolved, model: Weighed, estimates: tuple[str, ...]) -> None:
    """Refuse the weights of a layout that a run cannot be computed with, in training or evaluation.

    Args:
        layout: to train on.
        config: of the run, decided.
        model: of the run.
        estimates: that the model can be trained with, where each edge counts by its source.

    Raises:
        InputError: with the number of edges or vertices, and what to do.
    """
    asks: list[NotBelowZero] = []
    sampled = config.strategy in SAMPLED
    if sampled and (why := why_not_below_zero(config, estimates, divides=bool(model.divisors))) is not None:
        asks.append(why)
    fan_out = config.evaluation_fan_out
    if fan_out is not None and not takes_all(fan_out) and model.divisors:
        asks.append(
            NotBelowZero("--evaluate sampled lets the weights drawn stand for those of all", "use --evaluate exact")
        )
    chances = f"--sampling {config.sampling}" if sampled and draws_by_weights(config) else None
    _check(layout, model, asks, chances)


def check_weights_of_prediction(layout: Layout, model: Weighed, fan_out: tuple[int, ...]) -> None:
    """Refuse the weights of a layout that predictions cannot be computed with.

    Args:
        layout: to predict on.
        model: of the run.
        fan_out: neighbours drawn per hop; empty where all are taken.

    Raises:
        InputError: with the number of edges or vertices, and what to do.
    """
    draws = bool(model.divisors) and not takes_all(fan_out)
    why = NotBelowZero("--fan-out lets the weights drawn stand for those of all", "drop --fan-out")
    _check(layout, model, [why] if draws else [], None)


def _check(layout: Layout, model: Weighed, asks: Iterable[NotBelowZero], chances: str | None) -> None:
    # Of several types sums are divided by numbers of edges, and weights may be anything.
    if not model.uses_weights or layout.graph.schema.is_typed or layout.graph.edge_weight is None:
        return
    found = weight_signs(layout.graph)
    if chances is not None and found.all_zero:
        raise InputError(f"{chances} draws by the weights of edges, and all are 0")
    for divisor in model.divisors if found.negative else ():
        count = len(found.not_positive(divisor.loop, where_none=divisor.where_none))
        if count:
            loop = "" if not divisor.loop else f" and {divisor.loop:g} for its loop"
            raise InputError(
                f"{model.name} divides by the weights of all in-edges of a vertex{loop}, and for "
                f"{_vertices(count)} of {layout.path} negative weights make that 0 or less (but for rounding); "
                f"import the graph with weights of 0 or more, or {model.without}"
            )
    for why, instead in asks if found.negative else ():
        raise InputError(
            f"{why}, and some are negative: {found.negative:,}, into {_vertices(len(found.vertices))} of "
            f"{layout.path}; {instead}, or {model.without}"
        )


def _vertices(count: int) -> str:
    return f"{count:,} {'vertex' if count == 1 else 'vertices'}"
