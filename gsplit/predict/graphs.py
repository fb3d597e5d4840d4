"""Whether a run can predict on a layout: the graph that it was trained on beside the one that is there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from gsplit.config.predict import PredictConfig
from gsplit.data import Layout
from gsplit.data.append import grown_from
from gsplit.data.graph import Task
from gsplit.data.labels.class_names import names_described
from gsplit.data.layout import FILE as LAYOUT
from gsplit.errors import InputError
from gsplit.models.typed import is_of_types
from gsplit.sampling import Neighbours, Reach, reach_of, within
from gsplit.sampling.named import fan_out_of_relations
from gsplit.sampling.rule import FanOutOf

logger = logging.getLogger(__name__)

TOLD = 4
"""Names that a message has at most."""


def check_trained(run: Path, trained_on: Any, layout: Layout, trained: Tensor, types: tuple[int, ...]) -> None:
    """Refuse a layout of another graph than the one whose features a run has trained.

    Args:
        run: that has trained them.
        trained_on: what the run says of its graph.
        layout: to predict on.
        trained: [N, D] the features.
        types: numbers of the types that they are of.

    Raises:
        InputError: in one line.
    """
    same = isinstance(trained_on, dict) and trained_on.get("store_checksum") == layout.store_checksum
    if not same or len(trained) != sum(layout.graph.schema.types[each].num_vertices for each in types):
        raise InputError(
            f"{layout.path} was made from another store than the one whose vertices the run in {run} has trained the "
            "features of (--train-features)"
        )


def with_features(layout: Layout, trained: Tensor) -> Layout:
    """A layout of one type with features [N, D] by global id that were trained."""
    return replace(layout, graph=replace(layout.graph, features=trained.numpy()[layout.permutation]))


def check_schema(run: Path, signature: dict[str, Any], layout: Layout) -> None:
    """Refuse a layout with other types or relations, or another target type, than a run was trained with.

    Args:
        run: that predicts.
        signature: of its model.
        layout: to predict on.

    Raises:
        InputError: with what differs.
    """
    schema, target = layout.graph.schema, layout.graph.schema.types[layout.graph.target].name
    if not is_of_types(signature):
        if schema.is_typed:
            raise InputError(
                f"{layout.path} has several types of vertices, or relations ({_names(schema.type_names)}), and the "
                f"run in {run} was trained on a graph of one"
            )
        return
    if not schema.is_typed:
        raise InputError(
            f"{layout.path} has one type of vertices, and the run in {run} was trained on several "
            f"({_names(signature['types'])})"
        )
    relations = ["__".join(each) for each in signature["relations"]]
    for what, there, learned in (
        ("types", schema.type_names, list(signature["types"])),
        ("relations", list(map(str, schema.relations)), relations),
    ):
        if there != learned:
            raise InputError(
                f"{layout.path} has other {what} than the run in {run} was trained with: {_different(there, learned)}"
            )
    if target != signature["target"]:
        raise InputError(
            f"in {layout.path} vertices of type {target} have labels, and the run in {run} has learned those of type "
            f"{signature['target']}"
        )


def check_widths(
    run: Path, signature: Mapping[str, Any], reach: Reach, layout: Layout, trained: tuple[int, ...]
) -> None:
    """Refuse a layout whose types have features of other widths than a run was trained with.

    Args:
        run, signature, layout: see :func:`check_schema`.
        reach: of the model; types that no mini-batch comes to may have any features.
        trained: numbers of the types whose features the run has trained.

    Raises:
        InputError: with the type and both widths.
    """
    for number in reach.types[0]:
        rows = layout.graph.features_by_type[number]
        width, learned = 0 if rows is None else rows.shape[1], signature["in_features"][number]
        if number not in trained and width != learned:
            raise InputError(
                f"{layout.path} has {width} features a vertex of type {layout.graph.schema.types[number].name}, but "
                f"the run in {run} was trained with {learned}"
            )


def type_of_vectors(name: str | None, level: int, reach: Reach | None, layout: Layout) -> int:
    """The number of the type whose vectors are asked for.

    Args:
        name: that ``--type`` gives; None: the type that has labels.
        level: of the vectors.
        reach: of the model; None where there is one type.
        layout: to predict on.

    Raises:
        InputError: for a type that is not there, or that the level has not.
    """
    schema = layout.graph.schema
    if name is None:
        return layout.graph.target
    if reach is None:
        raise InputError(f"--type {name}: {layout.path} has one type of vertices; drop it")
    try:
        number = schema.type_number(name)
    except InputError as error:
        raise InputError(f"--type: {error}") from None
    if number not in reach.types[level]:
        there = ", ".join(schema.types[each].name for each in reach.types[level])
        raise InputError(
            f"--type {name}: level {level} of the model has no such vertices, but those of type {there}; choose one "
            "of these, or another --layer"
        )
    return number


def own_fan_outs(config: PredictConfig, reach: Reach | None, level: int, type_: int, layout: Layout) -> FanOutOf:
    """The relations that have fan-outs of their own, by number.

    Args:
        config: as asked for.
        reach: of the model; None where there is one type.
        level: of the vectors.
        type_: number of the type that they are of.
        layout: to predict on.

    Raises:
        InputError: for what ``--fan-out-of`` says of relations that are not there, or that the model does not draw.
    """
    schema = layout.graph.schema
    own = fan_out_of_relations(config.fan_outs_of, config.fan_out, schema, layout.graph.target)
    if reach is None or not own:
        return own
    fan_outs = Neighbours(fan_out=config.fan_out).fan_outs(len(schema.relations))
    drawn = set().union(*reach_of(reach.ends, within(reach, fan_outs[-level:], level), type_).relations)
    for number, _ in own:
        if number not in drawn:
            raise InputError(
                f"--fan-out-of {schema.relations[number]} has no effect: vectors of level {level} of type "
                f"{schema.types[type_].name} are made without it, by the model of {config.run}; drop it"
            )
    return own


def _different(there: list[str], learned: list[str]) -> str:
    """What is there, beside what was learned."""
    missing, more = (
        [each for each in one if each not in other] for one, other in ((learned, there), (there, learned))
    )
    words = [f"{_names(missing)} {'are' if missing[1:] else 'is'} not there"] if missing else []
    words += [f"{_names(more)} {'are' if more[1:] else 'is'} more"] if more else []
    return " and ".join(words) or "they stand in another order"


def _names(names: list[str]) -> str:
    return ", ".join(names[:TOLD]) + (", ..." if len(names) > TOLD else "")


def _grown(trained_on: dict[str, Any], layout: Layout) -> bool:
    """Return whether the store of a layout was grown from the one that a run was trained on.

    Raises:
        InputError: for a layout that says so and has fewer vertices, or labels of another kind.
    """
    where = str(layout.path / LAYOUT)
    if trained_on["store_checksum"] not in grown_from(layout.description["store"], where):
        return False
    graph, vertices = layout.graph, trained_on.get("num_vertices")
    same = bool(trained_on.get("regression")) == graph.regression and trained_on["multi_label"] == graph.multi_label
    if (isinstance(vertices, int) and vertices > graph.num_vertices) or (graph.num_classes and not same):
        raise InputError(f"{where} is damaged: no store with these counts was grown from the one of the run")
    return True


def class_names(run: Path, trained_on: Any, layout: Layout) -> tuple[str, ...] | None:
    """Names of the classes that a run has learned, those of the layout where the run does not say."""
    if not isinstance(trained_on, dict) or not isinstance(count := trained_on.get("num_classes"), int):
        return layout.classes
    return names_described(trained_on, count, str(run / "model.json"))


def check_graph(run: Path, trained_on: dict[str, Any] | None, layout: Layout) -> Task:
    """Return what the run has learned of a vertex; as the layout says where the run does not."""
    graph = layout.graph
    typed = graph.schema.is_typed
    if not typed and graph.num_features == 0:
        raise InputError(f"{layout.path} has no features, so there is nothing to predict from")
    if trained_on is None:
        logger.warning("%s does not say which graph it was trained on, so that is not compared", run)
        return graph.task
    kinds = {"multi_label": bool, "store_checksum": str} | ({} if typed else {"num_features": int})
    if not isinstance(trained_on, dict) or any(not isinstance(trained_on.get(k), kind) for k, kind in kinds.items()):
        raise InputError(f"{run / 'model.json'} is damaged where it says which graph the run was trained on")
    if not typed and trained_on["num_features"] != graph.num_features:
        raise InputError(
            f"{layout.path} has {graph.num_features} features a vertex, but the run in {run} was trained with "
            f"{trained_on['num_features']}"
        )
    if trained_on["store_checksum"] != layout.store_checksum:
        if not _grown(trained_on, layout):
            logger.warning("%s was made from another store than the one the run in %s trained on", layout.path, run)
        elif (learned := trained_on.get("num_classes")) != graph.num_classes:
            logger.warning(
                "%s has %s classes since its store has grown, and the run in %s has learned %s: others are never "
                "predicted",
                layout.path,
                graph.num_classes,
                run,
                learned,
            )
    return "regression" if trained_on.get("regression") else "labels" if trained_on["multi_label"] else "classes"
