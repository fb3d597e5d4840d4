"""What a trainer is made of before it is fed: the components that engines and the loop share."""

from __future__ import annotations

import torch
from torch import nn

from gsplit.data import Layout
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.rows.loading import Loading
from gsplit.engine.rows.shared import Shared
from gsplit.engine.rows.trained import TrainedRows
from gsplit.engine.run import Run
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.engine.typed.trained import TypedTrainedRows
from gsplit.features import EdgeLoader, FeatureLoader
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
    """Loader of edge weights and degrees, of a graph of one type."""
    loading: Loading | None
    """Feature rows of the host and this trainer's cache; makes loaders. None where there are several types."""
    shared: Shared
    """Memory that all trainers map."""
    trained: TrainedRows | None
    """Features that are trained; None where they are the graph's."""

    def split_loader(self) -> SplitLoader:
        """Return a loader of splits; each user has its own, for it counts what it loads."""
        return SplitLoader(self.layout, self.member.device, self.feature_loader(self.run.precision.rows), self.edges)

    def feature_loader(self, dtype: torch.dtype) -> FeatureLoader:
        """Return a loader of feature rows in a type, of a graph of one type of vertices."""
        assert self.loading is not None
        return self.loading.loader(dtype)

    def typed_loader(self) -> TypedSplitLoader:
        """Return a loader of splits of a graph of several types."""
        run, config = self.run, self.run.config
        assert self.trained is None or isinstance(self.trained, TypedTrainedRows)
        return TypedSplitLoader(
            self.layout,
            device=self.member.device,
            dtype=run.dtype,
            row_dtype=run.precision.rows,
            weights=run.needs["weights"],
            trained=self.trained,
            normalize=config.normalize_features,
            threads=config.threads,
        )
