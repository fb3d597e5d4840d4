"""What two trainers are compared with one on, one thing after another, so that a difference has one cause.

First the model, with a loss and a decoder of GSplit's; then a decoder of the user's, then a loss of the user's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from gsplit.config.resolved import Resolved
from gsplit.data import Layout
from gsplit.engine.objective import objective_of
from gsplit.engine.objectives import own_loss, pairs
from gsplit.engine.tasks import Task, VertexTask
from gsplit.engine.tasks.links import link_task


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A task, and what is wrong where it alone gives other gradients."""

    task: Task
    suspect: str
    """What is tried, with its name."""
    fault: str
    otherwise: str = ""
    """What is known where others have passed."""
    advice: str
    empty: str = "edges and no targets"
    """What the suspect must be able to do without."""
    passed: str = ""
    """What is known once it has passed."""
    by_dot: bool = False
    """Whether dot products take the place of the decoder."""

    def complaint(self, difference: str, case: str) -> str:
        """Return what is wrong where there is a difference."""
        return f"{self.suspect} {self.fault}{difference}, on {case}{self.otherwise}; {self.advice}"


def trials_of(
    model: str,
    own: own_loss.OwnLoss | pairs.OwnPairLoss | None,
    links: Resolved | None,
    layout: Layout,
    device: torch.device,
) -> list[Trial]:
    """List what is to be compared, the model first.

    Args:
        model: its name.
        own: a loss of the user's, if any.
        links: the configuration of a run on links; None: labels are learned.
        layout: as the task sees it.
        device: of the trainer.
    """
    own_decoder = links is not None and ":" in links.score
    trials = [
        Trial(
            task=_task(None, links, layout, device),
            suspect=f"the model {model}",
            fault="cannot be split: ",
            advice="an output must depend on its in-edges, its sources and its own row alone, and not on chance but "
            "for dropout",
            by_dot=own_decoder,
        )
    ]
    if links is not None and own_decoder:
        trials.append(
            Trial(
                task=trials[0].task,
                suspect=f"the decoder {links.score}",
                fault="cannot be split: with it ",
                otherwise=", and with dot products they agree",
                advice="a score must depend on its two rows alone, and not on chance but for dropout",
                empty="pairs",
                passed=f"; the decoder {links.score} scores each pair by itself",
            )
        )
    if own is not None:
        of, advice = ("targets", own_loss.ADVICE) if links is None else ("groups", pairs.ADVICE)
        trials.append(
            Trial(
                task=_task(own, links, layout, device),
                suspect=f"the loss {own.name}",
                fault=f"is no sum over {of}: with it ",
                otherwise=", and without it they agree",
                advice=advice,
                passed=f"; the loss {own.name} is a sum over {of}",
            )
        )
    return trials


def _task(
    own: own_loss.OwnLoss | pairs.OwnPairLoss | None, links: Resolved | None, layout: Layout, device: torch.device
) -> Task:
    """The task of the run, by its own loss or else by one of GSplit's."""
    if links is not None:
        assert not isinstance(own, own_loss.OwnLoss)
        built_in = links.loss is not None and ":" not in links.loss
        return link_task(links if built_in else replace(links, loss=None), own, device)
    assert not isinstance(own, pairs.OwnPairLoss)
    graph = layout.graph
    objective = objective_of(graph.task, graph.num_classes)
    if own is not None:
        objective = own_loss.WithOwnLoss(objective, own, graph, device, torch.float64)
    return VertexTask(objective=objective, num_classes=graph.num_classes)
