"""Links: which pairs of vertices belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsplit.config.links import LINK_LOSSES, LINK_METRIC, TaskName
from gsplit.config.resolved import Placed, Resolved
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.data.links.edge_sets import Links as EdgeSets
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.candidates import ranking_candidates
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.objective import check_logits
from gsplit.engine.objectives.pairs import OwnPairLoss, PairLoss, counts_of, pair_loss
from gsplit.engine.tasks.task import Forward
from gsplit.errors import InputError
from gsplit.models.custom import parse_arguments
from gsplit.models.registry import decoder_in
from gsplit.nn.pair_block import PairScores
from gsplit.sampling.links import TrainingPairs
from gsplit.sampling.links.training_pairs import AT_ONCE

FEW_PAIRS = 10
"""Mini-batches of an epoch below which the edges that one excludes change the graph."""


@dataclass(frozen=True, kw_only=True)
class LinkTask:
    """A :class:`gsplit.engine.tasks.Task` on the scores of pairs, by the decoder of the model."""

    loss: PairLoss
    """Loss of the run."""
    width: int
    """Columns of the vectors that pairs are scored by."""

    def forward(self, model: nn.Module, mini_batch: MiniBatch, *, precision: Precision) -> Forward:
        """Compute the vectors of the own targets, and the loss of the pairs that this trainer scores."""
        pairs = mini_batch.pairs
        assert pairs is not None
        vectors = precision.called(mini_batch.labels.device, mini_batch.logits, model)
        check_logits(vectors, len(mini_batch.labels), self.width)
        counted = {
            "groups": pairs.groups_of_all,
            "negatives": pairs.negatives_of_all,
            "scored": pairs.groups_of_all + pairs.negatives_of_all,
        }[self.loss.divisor]
        decoder = decoder_in(model)
        assert decoder is not None
        scores = pairs.scores(vectors, decoder)
        loss = self.loss.loss(*scores, pairs.log_q(), pairs.weights) / max(1, counted)
        return Forward(vectors, mini_batch.comm.tie(loss), self._weight(scores, pairs.weights), counted)

    def _weight(self, scores: PairScores, weights: Tensor | None) -> Tensor | None:
        """[] what the own pairs weigh together, in what the loss divides by; None: 1 each."""
        if weights is None:
            return None
        if scores.negative.ndim == 1:
            return weights.sum()
        masked = torch.zeros_like(scores.negative, dtype=torch.bool) if scores.masked is None else scores.masked
        return (weights * counts_of(self.loss.divisor, masked)).sum()


def task_named(asked: TrainConfig, layout: Layout) -> TaskName:
    """What a run learns: what was asked for, or else what the graph is for."""
    return asked.task or ("links" if layout.graph.is_for_links else "vertices")


def embedding_width(config: TrainConfig) -> int:
    """Columns of the vectors that pairs are scored by."""
    return config.embedding or config.hidden


def for_links(layout: Layout, width: int) -> Layout:
    """A layout whose models give vectors of a width, without labels and sets of vertices."""
    none, graph = np.empty(0, np.int64), layout.graph
    no_pairs = np.empty((0, 2), np.int64)
    view = replace(
        graph,
        num_classes=width,
        classes=None,
        regression=False,
        labels=np.broadcast_to(np.int64(-1), (graph.num_vertices,)),
        train_idx=none,
        valid_idx=none,
        test_idx=none,
        links=graph.links or EdgeSets(valid=no_pairs, test=no_pairs),
    )
    return replace(layout, graph=view)


def open_for(config: Resolved) -> Layout:
    """The layout of a run as its task sees it, whose checks were made before."""
    layout = open_layout(config.layout, trusted=True, typed=True)
    if config.task != "links":
        return layout
    view = for_links(layout, embedding_width(config))
    if config.pairs == "train" or view.graph.links is None:
        return view
    links = replace(view.graph.links, train_weights=None)  # those trained on are others
    return replace(view, graph=replace(view.graph, links=links))


def link_task(config: Resolved, own: OwnPairLoss | None, device: torch.device) -> LinkTask:
    """The task that a configuration asks for, with the loss of the user's, if any."""
    loss = pair_loss(own or config.loss or "bce", temperature=config.temperature, margin=config.margin, device=device)
    return LinkTask(loss=loss, width=embedding_width(config))


def decoder_described(config: Placed) -> dict[str, Any]:
    """What a decoder is built again from: its name, the width of the vectors and its other arguments."""
    arguments = parse_arguments(config.score_args, "--score-args")
    return {"name": config.score, "width": embedding_width(config), "arguments": arguments}


def check_links(config: TrainConfig, layout: Layout) -> None:
    """Refuse what does not go with links.

    Raises:
        InputError: by the flag that is wrong.
    """
    links, path = layout.graph.links, layout.path
    if config.strategy == "full" or ":" in config.strategy:
        raise InputError(
            f"--strategy {config.strategy} has no mini-batches of pairs; --task links takes split or data"
        )
    if config.sampling != "neighbours":
        raise InputError(
            f"--sampling {config.sampling} cannot leave out the edges that are asked for; use neighbours with "
            "--task links"
        )
    if links is None and config.pairs == "train":
        raise InputError(
            f"{path} has no training pairs; import the graph with --edge-split 0.85,0.05,0.1, or train on all its "
            "edges by --pairs edges"
        )
    if config.loss is not None and config.loss not in LINK_LOSSES and ":" not in config.loss:
        raise InputError(f"--loss {config.loss} is for labels; --task links takes {', '.join(LINK_LOSSES)}")
    for name in config.metric_names:
        if not LINK_METRIC.fullmatch(name):
            raise InputError(f"--metrics {name} is for labels; --task links takes mrr, hits@10, auroc, ap")
    if config.save_predictions != "no":
        raise InputError("--save-predictions writes labels, and --task links learns none; drop it")
    if config.cache == "replicated":
        raise InputError("--cache replicated gives each trainer vertices of its own, and links have none; drop it")
    asked = config.candidates
    _check_hard(config, layout)
    _check_ends(config, layout)
    _check_score_at(config)
    for kind, number in (("hard", asked.hard), ("near", asked.near)):
        if number and config.log_q:
            raise InputError(f"--log-q goes by the chance of a candidate, and {kind} negatives have none; drop one")
    for kind, number in (("uniform", asked.uniform), ("joint", asked.joint)):
        if number >= layout.graph.num_vertices:
            raise InputError(
                f"--negatives {kind}:{number}: {path} has {layout.graph.num_vertices:,} vertices; take fewer"
            )
    drawn = asked.uniform or asked.joint or asked.hard
    for flag, given in (
        (f"--degree-share {config.degree_share}", config.degree_share),
        ("--negatives-from destinations", config.negatives_from == "destinations"),
    ):
        if given and not drawn:
            raise InputError(
                f"{flag} is for vertices that are drawn, and --negatives {config.negatives} draws none; drop it"
            )
    for name in ("valid", "test"):
        if links is not None and len(pairs := links.valid if name == "valid" else links.test):
            ranking_candidates(
                config.evaluate_negatives,
                links,
                name,
                num_vertices=layout.graph.num_vertices,
                width=embedding_width(config),
                pairs=len(pairs),
            )
    if not TrainingPairs(layout, edges=config.pairs == "edges").number:
        raise InputError(f"{path} has no pair to train on")


def _check_hard(config: TrainConfig, layout: Layout) -> None:
    """Refuse hard negatives that the graph does not have, or has of other pairs than those trained on."""
    asked, links = config.candidates.hard, layout.graph.links
    if not asked:
        return
    if links is None or links.hard_negatives is None:
        raise InputError(f"--negatives hard:{asked} takes the graph's hard negatives, and {layout.path} has none")
    if config.pairs == "edges" and links.train is not None:
        raise InputError(
            f"--negatives hard:{asked} takes those of the training pairs of {layout.path}, and --pairs edges trains "
            "on others; drop one"
        )
    if asked > (number := links.hard_negatives.shape[1]):
        raise InputError(f"--negatives hard:{asked}: {layout.path} has {number} of each pair; take at most so many")


def _check_ends(config: TrainConfig, layout: Layout) -> None:
    """Refuse candidates that cannot be halved, and walks that go nowhere."""
    asked = config.candidates
    halved = {"uniform": asked.uniform, "joint": asked.joint, "near": asked.near}
    if config.corrupt == "both":
        if 1 in halved.values():
            raise InputError(
                f"--corrupt both lets half of the candidates of a kind take the place of either end, and --negatives "
                f"{config.negatives} has one; take 2 or more"
            )
        if not (asked.in_batch or any(halved.values())):
            raise InputError(
                f"--corrupt both: hard negatives take the place of destinations alone, and --negatives "
                f"{config.negatives} has no others; add some"
            )
    if asked.near and not has_walks(layout):
        raise InputError(
            f"--negatives near:{asked.near} walks two steps against edges, and no two edges of {layout.path} follow "
            "each other; take others"
        )


def _check_score_at(config: TrainConfig) -> None:
    """Refuse scores apart from those of their pair where a loss compares them, or all sources would travel."""
    if config.score_at == "source":
        return
    if config.loss not in (None, "bce"):
        raise InputError(
            f"--score-at destination scores a pair and its candidates on several GPUs, and --loss {config.loss} "
            "compares them; use --score-at source, or --loss bce"
        )
    if config.candidates.joint or config.candidates.in_batch:
        raise InputError(
            f"--score-at destination would send each source to all GPUs for the candidates that pairs share, of "
            f"--negatives {config.negatives}; use --score-at source"
        )


def check_weighed(config: TrainConfig, own: OwnPairLoss | None, layout: Layout) -> None:
    """Refuse a loss of the user's that is a sum already, where pairs have weights."""
    links = layout.graph.links
    has_weights = links is not None and links.train_weights is not None and config.pairs == "train"
    if has_weights and own is not None and own.returns == "a sum":
        raise InputError(
            f"the training pairs of {layout.path} have weights, and the loss {own.name} gives a sum; let it return a "
            "value for each pair"
        )


def has_walks(layout: Layout) -> bool:
    """Return whether there is an edge whose source has an in-edge, too."""
    indptr, indices = layout.graph.indptr, layout.graph.indices
    pieces = (indices[begin : begin + AT_ONCE] for begin in range(0, len(indices), AT_ONCE))
    return any((indptr[sources + 1] > indptr[sources]).any() for sources in pieces)


def excludes_much(config: TrainConfig, layout: Layout) -> str | None:
    """What to warn of where a mini-batch excludes so many edges that the graph is another; None: it does not."""
    number, batch_size = TrainingPairs(layout, edges=config.pairs == "edges").number, config.batch_size
    if config.exclude == "none" or batch_size * FEW_PAIRS <= number:
        return None
    return (
        f"--batch-size {batch_size} of {number:,} pairs: each mini-batch leaves out the edges that it asks for, "
        f"{100 * min(1.0, batch_size / number):.0f} % of all; take at most a tenth of the pairs"
    )
