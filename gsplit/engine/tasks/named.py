"""The task of a run."""

from __future__ import annotations

import torch

from gsplit.data import GraphArrays
from gsplit.engine.objective import objective_for, whole_weight
from gsplit.engine.objectives.own_loss import OwnLoss
from gsplit.engine.objectives.pairs import OwnPairLoss
from gsplit.engine.run import Run
from gsplit.engine.tasks.links import LinkTask, link_task
from gsplit.engine.tasks.vertices import VertexTask


def task_of(run: Run, graph: GraphArrays, device: torch.device) -> VertexTask | LinkTask:
    """The task of a run, with its numbers on a device.

    Args:
        run: as decided.
        graph: as the task sees it.
        device: of the model.
    """
    own = run.own_loss
    if run.config.task == "links":
        assert not isinstance(own, OwnLoss)
        return link_task(run.config, own, device)
    assert not isinstance(own, OwnPairLoss)
    objective = objective_for(run.config, graph, device, run.dtype, own)
    weight = whole_weight(objective, graph, device, run.dtype)
    return VertexTask(objective=objective, num_classes=graph.num_classes, whole_weight=weight)
