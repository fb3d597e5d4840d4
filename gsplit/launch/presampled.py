"""Whether a layout was presampled for another training than the one that is asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gsplit.config.fields import flag_of
from gsplit.config.rules import without_effect
from gsplit.config.sampling import SamplingConfig
from gsplit.data import Layout
from gsplit.data.layout import FILE
from gsplit.errors import InputError
from gsplit.models.typed import own_fan_outs

LESS_EVEN = "its parts may be less even, and other rows hotter"

logger = logging.getLogger(__name__)


def warn_of_other_sampling(config: SamplingConfig, layout: Layout) -> None:
    """Say where the layout was weighted for another training, which its parts may be less even for.

    Raises:
        InputError: for fan-outs of relations that the layout has not.
    """
    presampled = layout.description.get("presample")
    if not presampled:
        return
    known, now = presampled.get("sampling", "neighbours"), config.sampling
    if known == now == "saint" and config.importance != "squares":
        logger.warning(
            "%s was presampled for --importance squares, not %s: %s", layout.path, config.importance, LESS_EVEN
        )
    if known == now == "uniform" and config.fresh:
        logger.warning("%s was presampled for one set in all layers, not --fresh: %s", layout.path, LESS_EVEN)
    if known == now == "neighbours" and layout.graph.schema.is_typed:
        _warn_of_other_relations(config, presampled, layout)
    for name in ("fan_out", "layer_sizes", "subgraph"):
        other = known != now or _words(presampled.get(name)) != _words(getattr(config, name))
        if other and without_effect(type(config), name, vars(config)) is None:
            was = next(flag for flag in ("subgraph", "layer_sizes", "fan_out") if presampled.get(flag) is not None)
            logger.warning(
                "%s was presampled for %s %s, not %s: %s",
                layout.path,
                flag_of(was),
                _words(presampled[was]),
                _words(getattr(config, name)) if was == name else f"--sampling {now}",
                LESS_EVEN,
            )


def _warn_of_other_relations(config: SamplingConfig, presampled: Mapping[str, Any], layout: Layout) -> None:
    """Say which relation had other fan-outs of its own, however it was called."""
    then: dict[str, Any] = {"fan_out": tuple(presampled["fan_out"]), "fan_out_of": presampled.get("fan_out_of")}
    graph, now = layout.graph, config.fan_out
    try:
        before = dict(own_fan_outs(SamplingConfig(**then), graph))
    except InputError as error:
        raise InputError(f"{layout.path / FILE} is damaged where it says what was presampled: {error}") from None
    found = dict(own_fan_outs(config, graph))
    if tuple(presampled["fan_out"]) == now:  # what is said of one relation as of all says nothing
        before, found = ({r: each for r, each in of.items() if each != now} for of in (before, found))
    others = sorted(r for r in {*before, *found} if before.get(r) != found.get(r))
    if others:
        logger.warning(
            "%s was presampled for --fan-out-of %s, not %s: %s",
            layout.path,
            *(
                ",".join(f"{graph.schema.relations[r]}={_words(of.get(r, of_all))}" for r in others)
                for of, of_all in ((before, presampled["fan_out"]), (found, now))
            ),
            LESS_EVEN,
        )


def _words(value: object) -> str:
    """A flag's value in the words of a command."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
