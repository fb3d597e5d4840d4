"""What a trainer is made of before it is fed: the components that engines and the loop share."""

from __future__ import annotations

from torch import nn

from gsplit.data import Layout
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.rows.loading import Loading
from gsplit.engine.rows.shared import Shared
from gsplit.engine.rows.trained import TrainedFeatures
from gsplit.engine.run import Run
from gsplit.features import EdgeLoader
from gsplit.parallel import Member


class Components:
    """The components of one trainer that an engine may use; :class:`gsplit.train.trainer.Trainer` makes them."""

    run: Run
    """What was decided for all trainers."""
    member: Member
    """This trainer's place among all, in the engine's grid."""
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

    def split_loader(self) -> SplitLoader:
        """Return a loader of splits; each user has its own, for it counts what it loads."""
        features = self.loading.loader(self.run.precision.rows)
        return SplitLoader(self.layout, self.member.device, features, self.edges)
