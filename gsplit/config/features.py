"""The feature rows of a training run: their type, where they are kept, and how they reach a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.parallel import SAMPLED
from gsplit.config.rules import COST, RESULTS, AsksForNothing, Only
from gsplit.units import CacheSize

CacheName = Literal["auto", "none", "partitioned", "replicated"]
LoaderName = Literal["auto", "gather", "zero-copy"]
FeatureDtype = Literal["stored", "float32", "float16", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig(Checked):
    """Feature rows: which of them trainers keep, and how they load the others."""

    train_features: Annotated[int | None, Range(1), Only(features_trained=True)] = None
    """Width of features that are trained: of the types of vertices that have none; or, with --strategy full, instead
    of those that the graph has, if any. They are drawn from --seed, trained like the weights and saved with them, and
    are of this graph's vertices alone."""
    normalize_features: Annotated[bool, Only(features_read=True), RESULTS] = False
    """Divide each feature row by the sum of its absolute values."""
    feature_dtype: Annotated[FeatureDtype, Only(train_features=None), RESULTS] = "stored"
    """Type in which host and caches keep feature rows; other than stored takes a copy of them, shared by all
    trainers. The model computes in --precision. With bf16-mixed, stored is bfloat16 where rows are copied for each
    mini-batch, if the host has memory for it."""
    cache: Annotated[CacheName, Only(strategy=SAMPLED), Only(splits=True), AsksForNothing("none"), COST] = "auto"
    """Feature rows that trainers keep: none; partitioned (each row on one trainer; with data, read from its peers as
    in Quiver); replicated (data only: each trainer what is hottest for its own share of the training vertices, as in
    PaGraph). auto is partitioned with split on GPUs or where --cache-size is given, else none."""
    cache_size: Annotated[
        str | None, Accepted(CacheSize.parse), Only(strategy=SAMPLED), Only(cache=("partitioned", "replicated")), COST
    ] = None
    """Size of each trainer's cache: bytes such as 4GiB (4GB is 4,000,000,000), a share of all feature rows such as
    10%, or auto, what its GPU has free less a reserve; on the CPU half of what is free, shared out. By default
    auto."""
    loader: Annotated[LoaderName, Only(strategy=SAMPLED), COST] = "auto"
    """How rows come from the host to a GPU: gather (into pinned buffers, by the CPU) or zero-copy (the GPU reads host
    memory). auto is zero-copy where that can be had, but gather with --strategy full, which reads a row once."""
