"""What becomes of a source while it is copied: the flags of ``gsplit import`` for graphs of any kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from gsplit.config.fields import Accepted, Checked, Range
from gsplit.data.edge_history import Rule
from gsplit.data.links.held_out import Leaks
from gsplit.errors import InputError

FeatureDtype = Literal["float32", "float16", "float64"]


def check_shares(shares: Sequence[float | str]) -> None:
    """Raise InputError for other than three shares, at most 1 together; none are no mistake, nor are two bounds."""
    if not (len(shares) in (0, 2) or 0 < _sum_of_three(shares) < 1.0001):
        raise InputError(f"--split takes the shares of train, valid and test, at most 1 in all, not {_given(shares)}")


def check_edge_shares(shares: Sequence[float | str]) -> None:
    """Raise InputError for other than three shares, 1 together and not all of the first, likewise."""
    if not (len(shares) in (0, 2) or (abs(_sum_of_three(shares) - 1) < 1e-6 and float(shares[0]) < 1)):
        raise InputError(
            f"--edge-split takes the shares of train, valid and test, such as 0.85,0.05,0.1, which add up to 1, not "
            f"{_given(shares)}"
        )


def _sum_of_three(shares: Sequence[float | str]) -> float:
    """The sum of three numbers from 0 on, else NaN."""
    numbers = [share for share in shares if not isinstance(share, str) and share >= 0]
    return sum(numbers) if len(shares) == len(numbers) == 3 else math.nan


def _given(shares: Sequence[float | str]) -> str:
    return ",".join(share if isinstance(share, str) else f"{share:g}" for share in shares)


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Checked):
    """Changes to a source while it is copied."""

    # The docstrings are the help of the command.

    undirected: bool = False
    """Add the reverse of every edge, with its weight, where it is not there; of repeated edges that are kept as many
    reverses as there are edges."""
    reverse: bool = False
    """Where there are several types: add a relation rev_NAME for each relation between two types, and the reverse of
    every edge, as --undirected does, to each inside one type."""
    self_loops: Literal["keep", "drop", "add"] = "keep"
    """Keep or drop self-loops, or add one, of weight 1, to each vertex that has none."""
    duplicates: Rule | None = None
    """What becomes of equal edges: one edge with the weight of the first or last of them, the sum, mean or greatest
    (max) of their weights, or how many they are (count; sum, too, where there are no weights); or keep all of them,
    or refuse them. By default first; keep for GSplit's own .npz and synthetic graphs. drop is an older word for
    first."""
    split: Annotated[tuple[float | str, ...], Accepted(check_shares)] = ()
    """Shares of the labelled vertices to draw for train, valid and test, as 0.6,0.2,0.2, where the source has no
    such sets; or, with --split-by, two bounds, as 2024-01-01,2024-07-01."""
    stratify: bool = False
    """Draw the sets of --split class by class, so that each class has these shares in each of them, rounded. Of a
    class with few vertices a small set may get none."""
    seed: Annotated[int, Range(0)] = 0
    """Seed of --split and --edge-split, and of a synthetic graph."""
    edge_split: Annotated[tuple[float | str, ...], Accepted(check_edge_shares)] = ()
    """Shares of the pairs of vertices to draw for train, valid and test, as 0.85,0.05,0.1, to predict links. All
    edges between two vertices fall together; those of valid and test are no edges of the graph any more. Or, with
    --edge-time, two bounds, as 2024-01-01,2024-07-01."""
    leaks: Leaks = "refuse"
    """What becomes of message edges that are validation or test pairs, or their reverses, and of pairs in two sets:
    refuse them, drop them, or keep them."""
    message_edges: Literal["train", "all"] | None = None
    """Edges along which vertices aggregate: all of the source but those of validation and test pairs (the default),
    or those of the training pairs alone, in both directions."""
    supervision: Annotated[float | None, Range(above=0, below=1)] = None
    """Share of the training pairs to take out of the message edges, with their reverses; only these are trained on
    then."""
    num_vertices: Annotated[int | None, Range(1)] = None
    """Number of vertices; by default what the source, features or labels tell, or the largest id."""
    task: Literal["classification", "regression"] = "classification"
    """Kind of labels: of a classification one class a vertex, or a column of 0 and 1 a class; of a regression
    numbers to be predicted, one or several columns, NaN or nothing where there is none."""
    feature_dtype: FeatureDtype | None = None
    """Store features in this type; by default float16 stays and all else becomes float32. Models take float64 as it
    is with --precision 64, else rounded to float32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stratify and not self.split:
            raise InputError("--stratify is for --split; add the shares, such as --split 0.6,0.2,0.2, or drop it")
        if self.stratify and self.task == "regression":
            raise InputError("--stratify draws class by class, and --task regression has no classes; drop it")
