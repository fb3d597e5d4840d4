"""The rule of a run: which sampling the flags ask for, and what does not go with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gsplit.config.resolved import Resolved
from gsplit.config.sampling import DRAWN_SETS, LAYERWISE, RULES, SUBGRAPHS, takes_all
from gsplit.data import Layout
from gsplit.engine.strategy import Strategy
from gsplit.errors import InputError
from gsplit.sampling import Neighbours, Rule
from gsplit.sampling.links import Exclude, Links, Negatives
from gsplit.sampling.named import rule_named
from gsplit.sampling.rule import FanOutOf
from gsplit.sampling.subgraphs import set_size


def rule_of_run(config: Resolved, *, estimates: tuple[str, ...] = (), fan_out_of: FanOutOf = ()) -> Rule:
    """The rule that the flags ask for, which :func:`check_rule` has seen.

    Args:
        config: of the run.
        estimates: that its model can be trained with.
        fan_out_of: relations with fan-outs of their own, by number.
    """
    rule = rule_named(
        config.sampling,
        fan_out=config.fan_out,
        fan_out_of=fan_out_of,
        layers=config.layers,
        layer_sizes=config.layer_sizes,
        importance=config.importance,
        draw=config.draw,
        subgraph=config.subgraph,
        clusters=config.clusters,
        fresh=config.fresh,
        scaled=bool(estimates),
    )
    return _of_links(config, rule) if config.task == "links" and isinstance(rule, Neighbours) else rule


def _of_links(config: Resolved, rule: Neighbours) -> Links:
    """The rule of links, whose ends keep in-edges by another rule."""
    asked = config.candidates
    return Links(
        neighbours=rule,
        negatives=Negatives(
            **asked._asdict(),
            of_pairs=config.negatives_from == "destinations",
            degree_share=config.degree_share,
            known=not config.filter_negatives,
            log_q=config.log_q,
        ),
        edges=config.pairs == "edges",
        epoch_pairs=config.epoch_pairs,
        corrupt=config.corrupt,
        exclude=Exclude(targets=config.exclude == "targets", below=config.exclude_below),
        apart=config.score_at == "destination",
    )


def needs_scales(config: Resolved) -> bool:
    """Return whether each edge has to count by its source; where it is not, a model may do without."""
    scales = RULES[config.sampling].scales
    return scales == "always" or scales == config.estimate == "unbiased"


def check_rule(config: Resolved, layout: Layout) -> None:
    """Refuse what does not go with the rule.

    Args:
        config: with trainers, groups and caches decided.
        layout: to sample from.

    Raises:
        InputError: by the flag that is wrong.
    """
    rule = config.sampling
    if rule in SUBGRAPHS and config.cache == "replicated":
        raise InputError(
            f"--cache replicated gives each trainer training vertices of its own, and --sampling {rule} takes them "
            "as they come; use another --cache"
        )
    groups = Strategy.of(config).micro_batches
    if config.task == "links" and config.candidates.in_batch and config.batch_size < 2 * groups:
        each = f" for each of {groups} groups" if groups > 1 else ""
        raise InputError(
            f"--negatives in-batch takes the other pairs of a mini-batch{each}, and --batch-size {config.batch_size} "
            "has none"
        )
    most, chunk = -(-config.batch_size // groups), config.candidates.chunk
    if config.task == "links" and chunk is not None and chunk > most:
        of = "micro-batch" if groups > 1 else "mini-batch"
        raise InputError(
            f"--negatives {config.negatives}: chunks of {chunk} pairs, and a {of} has {most}; make them smaller"
        )
    if rule == "clusters" and config.clusters is not None:
        _check_clusters(config.clusters, layout, groups)
    if rule in DRAWN_SETS and config.subgraph is not None:
        _check_drawn_set(config, config.subgraph, layout, groups)


def _check_clusters(clusters: int, layout: Layout, groups: int) -> None:
    """Refuse more clusters than the layout has parts."""
    if clusters * groups > layout.parts:
        each = f" for each of {groups} groups" if groups > 1 else ""
        raise InputError(
            f"--clusters is {clusters}{each}, but {layout.path} has {layout.parts} parts; make a layout with more "
            "--parts"
        )


def _check_drawn_set(config: Resolved, subgraph: str, layout: Layout, groups: int) -> None:
    """Refuse a set that the graph is too small for, or that has no training vertex on average."""
    graph, n = layout.graph, layout.graph.num_vertices
    if not subgraph.endswith("%") and int(subgraph) > n:
        raise InputError(f"--subgraph is {subgraph}, but {layout.path} has {n} vertices")
    size = set_size(subgraph, n)
    if config.sampling == "uniform" and -(-n // size) < groups:
        raise InputError(
            f"--subgraph {subgraph} makes {-(-n // size)} subgraphs of all vertices, and {groups} groups of "
            f"trainers take one each; it takes {n // groups} or fewer"
        )
    least = -(-n // len(graph.train_idx))
    if config.sampling == "uniform" and size < least:
        raise InputError(
            f"--subgraph {subgraph} has less than one training vertex on average; it takes {least} or more"
        )


def check_model_of_rule(config: Resolved, estimates: tuple[str, ...], signature: Mapping[str, Any]) -> None:
    """Refuse a model that a rule's sums would be wrong of.

    Args:
        config: of the run, decided.
        estimates: that the model can be trained with, where each edge counts by its source.
        signature: of the model.

    Raises:
        InputError: by its name.
    """
    if config.strategy == "full" or not needs_scales(config):
        return
    name = signature.get("class", signature["model"])
    unbiased = " --estimate unbiased" if RULES[config.sampling].scales == "unbiased" else ""
    if not estimates:
        raise InputError(
            f"--sampling {config.sampling}{unbiased} lets each edge count by its source, and the model {name} is not "
            "made of sums and means that blocks compute; use --sampling neighbours, or uniform without --estimate"
        )
    if config.estimate not in estimates:
        raise InputError(
            f"--estimate {config.estimate} is for sums, and the attention of the model {name} is a mean by its "
            "nature; drop it"
        )


class NotBelowZero(NamedTuple):
    """A computation that takes edge weights of 0 or more alone."""

    why: str
    """A sentence that ends where it has named the weights."""
    instead: str
    """What to do in its place."""


def draws_by_weights(config: Resolved) -> bool:
    """Return whether the chances of a rule go by the weights of edges, where the model uses them."""
    return config.sampling in LAYERWISE


def why_not_below_zero(config: Resolved, estimates: tuple[str, ...], *, divides: bool) -> NotBelowZero | None:
    """Why a rule takes no negative edge weights of a model that uses weights; None: it takes them.

    Args:
        config: of the run, decided.
        estimates: that its model can be trained with, where each edge counts by its source.
        divides: whether its model divides by weights, and so lets those that are drawn stand for all.
    """
    rule = config.sampling
    if draws_by_weights(config):
        return NotBelowZero(f"--sampling {rule} draws by the weights of edges", "use another rule")
    if rule in DRAWN_SETS and estimates:
        if config.estimate == "unbiased":
            return None
        return NotBelowZero(
            f"--sampling {rule} --estimate ratio divides by the weights of edges", "use --estimate unbiased"
        )
    if not divides or (rule == "neighbours" and takes_all(config.fan_out)):
        return None
    every = ",".join(["-1"] * config.layers)
    if rule == "neighbours":
        drawn, instead = "--fan-out", f"take all by --fan-out {every}"
    else:
        drawn, instead = f"--sampling {rule}", f"use --sampling neighbours --fan-out {every}"
    return NotBelowZero(f"{drawn} lets the weights of the edges drawn stand for those of all", instead)
