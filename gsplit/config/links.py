"""Links: which pairs are trained on, what they are compared with, and how pairs are scored."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.flags import Aliases
from gsplit.config.rules import COST, RESULTS, FixedInEpoch, Only
from gsplit.config.run import EVALUATED
from gsplit.errors import InputError

TaskName = Literal["vertices", "links"]
Corrupt = Literal["destination", "source", "both"]
KINDS = ("uniform", "joint", "in-batch", "hard", "near")
"""Kinds of negatives."""
DECODERS = ("dot", "cosine", "distmult", "mlp")
"""Decoders by name."""
LINK_LOSSES = ("bce", "softmax", "bpr", "margin")
"""Losses of pairs by name."""
DEFAULT_LINK_METRIC = "mrr"
"""What models are chosen by where no metric is asked for."""
LINK_METRIC = re.compile(r"mrr|auroc|ap|(ogb-)?hits@[1-9]\d*")
"""Metrics of pairs."""
MOST_CANDIDATES = 1 << 20
"""A bound of K: rows and numbers of candidates share a word."""


class NegativesAsked(NamedTuple):
    """What ``--negatives`` lists: how many of each kind."""

    uniform: int = 0
    joint: int = 0
    in_batch: bool = False
    hard: int = 0
    near: int = 0
    chunk: int | None = None
    """Pairs that share the joint ones; None: all of a mini-batch."""


def parse_negatives(text: str) -> NegativesAsked:
    """The kinds of negatives that ``joint:256,hard:4`` lists.

    Raises:
        InputError: for another kind or number, and for a kind that comes twice.

    Examples:
        >>> parse_negatives("uniform:2,in-batch")
        NegativesAsked(uniform=2, joint=0, in_batch=True, hard=0, near=0, chunk=None)
        >>> parse_negatives("joint:64/256").chunk
        256
    """
    asked: dict[str, int] = {}
    chunk = None
    for word in text.split(","):
        kind, colon, number = word.partition(":")
        if kind == "joint":
            number, of, pairs = number.partition("/")
            if of and not (pairs.isdecimal() and 2 <= int(pairs) <= MOST_CANDIDATES):
                raise InputError(
                    f"--negatives {text}: joint:K/C takes chunks of C pairs, from 2 to {MOST_CANDIDATES}, such as "
                    f"joint:{number or 64}/256"
                )
            chunk = int(pairs) if of else None
        if kind not in KINDS or kind in asked:
            again = "twice" if kind in asked else f"no kind; there are {', '.join(KINDS)}"
            raise InputError(f"--negatives {text}: {kind!r} is {again}")
        if kind == "in-batch":
            if colon:
                raise InputError(f"--negatives {text}: in-batch has no number, it takes the pairs of the mini-batch")
            asked[kind] = 1
        elif not number.isdecimal() or not 1 <= int(number) <= MOST_CANDIDATES:
            raise InputError(
                f"--negatives {text}: {kind} takes a number from 1 to {MOST_CANDIDATES}, such as {kind}:1"
            )
        else:
            asked[kind] = int(number)
    numbers = {kind: asked.get(kind, 0) for kind in KINDS if kind != "in-batch"}
    return NegativesAsked(in_batch="in-batch" in asked, chunk=chunk, **numbers)


def _check_decoder(text: str) -> None:
    if text not in DECODERS and ":" not in text:
        raise InputError(f"--score {text}: there are {', '.join(DECODERS)}, and package.module:Class")


def drawn_candidates(text: str) -> int | None:
    """K of ``uniform:K`` of ``--evaluate-negatives``; None for the other names of candidates.

    Raises:
        InputError: for what is none of them.
    """
    if text in ("given", "all", "auto"):
        return None
    kind, _, number = text.partition(":")
    if kind != "uniform" or not number.isdecimal() or not 1 <= int(number) <= MOST_CANDIDATES:
        raise InputError(
            f"--evaluate-negatives takes given, all, auto or uniform:K, K from 1 to {MOST_CANDIDATES}, not {text}"
        )
    return int(number)


@dataclass(frozen=True, kw_only=True)
class LinksConfig(Checked):
    """Links: which pairs of vertices belong together."""

    task: Annotated[TaskName | None, RESULTS, FixedInEpoch()] = None
    """What is learned: labels of vertices, or links, which pairs of vertices belong together. By default vertices
    where the graph has a training set of them, and links else."""
    pairs: Annotated[Literal["train", "edges"], Only(task="links"), RESULTS, FixedInEpoch()] = "train"
    """Links to train on: the training pairs of the graph, or all its edges."""
    epoch_pairs: Annotated[int | None, Range(1), Only(task="links"), RESULTS, FixedInEpoch()] = None
    """Pairs of an epoch, drawn anew for each; by default all."""
    negatives: Annotated[
        str, Accepted(parse_negatives), Only(task="links"), RESULTS, Aliases(("--train-negative-sampler",))
    ] = "uniform:1"
    """What each pair is compared with, kinds with commas. uniform:K: K destinations of its own out of all vertices;
    joint:K: K for all pairs of a mini-batch, or joint:K/C for each C of them; in-batch: the destinations of all its
    other pairs, whichever GPU has them (with --strategy data or --split-group both are of a micro-batch); hard:K: K
    of the graph's hard negatives; near:K: ends of K walks of two steps from its source, each against an edge."""
    negatives_from: Annotated[Literal["vertices", "destinations"], Only(task="links"), RESULTS] = "vertices"
    """What uniform and joint ones are drawn from: all vertices, or those alone that are at that end of some training
    pair, as where users and items are vertices of one graph."""
    degree_share: Annotated[float, Range(0, 1), Only(task="links"), RESULTS] = 0.0
    """The share of the vertices drawn that are that end of random pairs, so that they go by their degree."""
    corrupt: Annotated[Corrupt, Only(task="links"), RESULTS] = "destination"
    """The end of a pair that candidates take the place of. both: half of each kind take that of the destination (one
    more than half of an odd number), the others that of the source; in-batch adds the sources of all other pairs,
    and hard ones are destinations alone."""
    filter_negatives: Annotated[bool, Only(task="links"), RESULTS] = True
    """Draw no candidate that the graph or the training pairs know as a link of the same vertex. Validation and test
    pairs are never looked at."""
    exclude: Annotated[Literal["targets", "none"], Only(task="links"), RESULTS] = "targets"
    """targets: no mini-batch sees the edges that it asks for, nor their reverses; with --strategy data or
    --split-group no micro-batch its own."""
    exclude_below: Annotated[int | None, Range(1), Only(task="links"), Only(exclude="targets"), RESULTS] = None
    """Exclude an edge only where one of its ends has fewer in-edges than this."""
    embedding: Annotated[int | None, Range(1), Only(task="links"), RESULTS] = None
    """Width of the vectors that pairs are scored by; by default --hidden."""
    score: Annotated[str, Accepted(_check_decoder), Only(task="links"), RESULTS, Aliases(("--lp-decoder-type",))] = (
        "dot"
    )
    """How a pair is scored from the vectors of its ends: dot, their product; cosine; distmult, a product with a
    weight for each column; mlp; or package.module:Class, a module of yours with forward(source, destination)."""
    score_args: Annotated[str, Only(task="links"), Only(score="mlp"), RESULTS] = ""
    """What mlp (hidden=64,layers=3) or a decoder of yours is constructed with, beside the width of the vectors."""
    score_at: Annotated[
        Literal["source", "destination"], Only(task="links"), Only(rows_exchanged=True), COST, RESULTS
    ] = "source"
    """The end whose GPU scores a pair. source: vectors of destinations and candidates travel there; destination: each
    candidate is scored where it lies and vectors of sources travel, which are fewer where each pair has many
    candidates of its own. That is for bce alone, which looks at one score at a time."""
    temperature: Annotated[
        float, Range(above=0, below=math.inf), Only(task="links"), Only(loss="softmax"), RESULTS
    ] = 1.0
    """softmax: scores are divided by it."""
    log_q: Annotated[bool, Only(task="links"), Only(loss="softmax"), Only(corrupt="destination"), RESULTS] = False
    """softmax: divide what a candidate adds by how often it is expected among those of its pair, so that the sum
    estimates that over all vertices, and vertices with many links are not pushed away more often (Yi et al., RecSys
    2019)."""
    margin: Annotated[float, Range(0, below=math.inf), Only(task="links"), Only(loss="margin"), RESULTS] = 1.0
    """margin: by how much a pair's score is to exceed that of a candidate."""
    evaluate_negatives: Annotated[str, Accepted(drawn_candidates), Only(task="links"), EVALUATED] = "auto"
    """Candidates that validation and test pairs are ranked among: given, those of the graph; all vertices;
    uniform:K, K drawn for each pair, the same each time; auto: given ones, all while that takes at most 10^13
    multiplications, else uniform:1000. Known links are left out."""

    @property
    def candidates(self) -> NegativesAsked:
        """The negatives that were asked for."""
        return parse_negatives(self.negatives)
