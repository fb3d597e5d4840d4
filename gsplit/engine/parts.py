"""What a trainer is made of, before it is fed."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from gsplit.data import Layout
from gsplit.engine.rows.loading import Loading
from gsplit.engine.rows.shared import Shared
from gsplit.engine.rows.trained import TrainedFeatures
from gsplit.engine.run import Run
from gsplit.features import EdgeLoader
from gsplit.parallel import Member


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of one trainer that engines and the loop share."""

    run: Run
    """What was decided for all trainers."""
    member: Member
    """This trainer's place among all."""
    layout: Layout
    """The graph, mapped."""
    model: nn.Module
    """Model on the trainer's device, with the same weights on all trainers."""
    edges: EdgeLoader
    """Loader of edge weights and degrees."""
    loading: Loading
    """Feature rows of the host and this trainer's cache; makes loaders."""
    shared: Shared
    """Memory that all trainers map."""
    trained: TrainedFeatures | None
    """Features that are trained; None where they are the graph's."""
