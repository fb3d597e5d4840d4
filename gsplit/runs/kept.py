"""The weights that a run keeps: the best by validation, or the last where nothing was validated since.

What is kept is part of the history that a checkpoint remembers. Where a run goes on from an earlier point, a model
that was saved later belongs to a past that no longer is: ``model.json`` follows, and never names other weights than
``summary.json`` does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.runs.log import remove_summary
from gsplit.terminal import say

State = dict[str, Any]
"""The state of a checkpoint."""
Weights = dict[str, Any]
"""``epoch``, and ``batch``, None after a whole epoch; ``score`` (None where not validated) and ``scores`` of all
metrics; ``model``, the state_dict; where features are trained, ``trained``: their rows on trainer 0, else None."""


class TrainedRows(Protocol):
    """Features that are trained, on one trainer."""

    def gathered(self) -> Tensor | None:
        """A copy of the rows of all trainers, by global id, on trainer 0."""

    def load(self, rows: Tensor | None) -> None:
        """Replace all rows by what :meth:`gathered` gave."""


class KeptWeights:
    """All trainers have one and agree; trainer 0 writes.

    Args:
        run: the folder.
        about: what a saved model says of itself, beside epoch and score.
        writes: whether this trainer does.
        trained: features that are trained with the model, and kept with it; None for none.
        lower_is_better: whether the better of two scores is the lower one.
        read: calls a function that reads the folder, where this trainer may not have it, and returns its result.
    """

    def __init__(
        self,
        run: Path,
        about: dict[str, Any],
        *,
        writes: bool,
        trained: TrainedRows | None = None,
        lower_is_better: bool = False,
        read: Callable[[Callable[[], State]], State] = lambda function: function(),
    ) -> None:
        self._run, self._about, self._writes, self._trained, self._read = run, about, writes, trained, read
        self._is_better = operator.lt if lower_is_better else operator.gt
        self.best: Weights | None = None
        """Best weights by validation."""
        self.validated = 0
        """The epoch that was validated last; 0: none."""
        self.waited = 0
        """Number of validations, one after the other, since the best one."""

    def judge(
        self, model: nn.Module, epoch: int, scores: Mapping[str, float | None], *, batch: int | None = None
    ) -> None:
        """Weights were validated; they are kept where no earlier ones scored as well.

        Args:
            model: that has the weights.
            epoch: that has ended, from 1; or the current one,
            batch: so many mini-batches into it.
            scores: by name, the one that decides first; None is no score.
        """
        score = next(iter(scores.values()))
        if batch is None:
            self.validated = epoch
        self.waited += 1
        if score is not None and (self.best is None or self._is_better(score, self.best["score"])):
            self.waited = 0
            about = {"score": score, "scores": dict(scores), "epoch": epoch, "batch": batch}
            self.best = {**about, **self.copied(model)}
            self._save(self.best)

    def choose(self, model: nn.Module, epoch: int, *, finite: bool = True) -> Weights:
        """Choose the weights of a run that ends with ``model``, after ``epoch`` epochs; save and load them.

        Args:
            model: that has the weights.
            epoch: number of epochs done.
            finite: whether all its weights are; others are never kept.

        Raises:
            InputError: where they are not, and none before were kept or are in a checkpoint.
        """
        chosen = self.best
        if not finite:
            chosen = self.keep_finite()
            if chosen is None:
                raise InputError(
                    f"after epoch {epoch} the weights are not finite, and there are no earlier ones to keep: nothing "
                    "was validated and no checkpoint written before; try a lower --lr"
                )
        elif chosen is None or self.validated < epoch:
            chosen = {"score": None, "epoch": epoch, "batch": None, **self.copied(model)}
        self.load(model, chosen)
        if self._writes and not self._is_saved(chosen):
            self._save(chosen)
        return chosen

    def keep_finite(self) -> Weights | None:
        """Save what is kept where the weights are not finite any more: the best, or else those of the checkpoint.

        None where there is neither.
        """
        kept = self.best
        if kept is None:
            try:
                state = self._read(lambda: checkpoint.load_state(self._run, checkpoint.CHECKPOINT))
            except InputError:
                return None
            if _has_nan(state["model"]):
                return None
            epoch, done = state["progress"]["epoch"], len(state["progress"]["done"])
            at = {"epoch": epoch + 1, "batch": done} if done else {"epoch": epoch, "batch": None}
            rows = {} if self._trained is None else {"trained": state["trained"]["rows"]}
            kept = {"score": None, **at, "model": state["model"], **rows}
        if self._writes and not self._is_saved(kept):
            self._save(kept)
        return kept

    def copied(self, model: nn.Module) -> Weights:
        """The weights of a model as they are, and the trained features, where there are any; for :meth:`load`."""
        return {"model": _copy(model), **self._rows()}

    def load(self, model: nn.Module, weights: Weights) -> None:
        """Put weights that were copied into a model; all trainers make the call."""
        model.load_state_dict(weights["model"])
        if self._trained is not None:
            self._trained.load(weights["trained"])

    def say_why_last(self, chosen: Weights, flag: str) -> None:
        """Say where the last weights are kept, although there are vertices to validate with; ``flag`` is why."""
        if self._writes and chosen["score"] is None and chosen["epoch"]:
            since = f"validated after epoch {self.validated}" if self.validated else "validated"
            why = f"nothing was {since} ({flag})"
            if self.validated == chosen["epoch"]:
                why = "no score was finite"
            say(f"keeping the weights of epoch {chosen['epoch']}, the last: {why}")

    def state(self) -> dict[str, Any]:
        """Return its state, for a checkpoint."""
        return {"best": self.best, "validated": self.validated, "waited": self.waited}

    def restore(self, state: dict[str, Any], epochs: Sequence[dict[str, Any]], score: str) -> None:
        """Go on from a checkpoint.

        Args:
            state: holds what :meth:`state` gave; checkpoints of earlier releases lack ``validated`` and ``waited``.
            epochs: the records of epochs until then.
            score: under which name those hold it.
        """
        self.best = state["best"]
        if self.best is not None and _has_nan(self.best["model"]):
            self.best = None
        known = [record["epoch"] for record in epochs if record.get(score) is not None]
        self.validated = state.get("validated", max(known, default=0))
        best = 0 if self.best is None else self.best["epoch"]
        self.waited = state.get("waited", sum(epoch > best for epoch in known))
        if self._writes:
            self._follow(state["progress"]["epoch"])
        elif self.best is not None and "trained" in self.best:
            self.best["trained"] = None  # all read the checkpoint, but one holds the rows

    def _follow(self, epoch: int) -> None:
        """Make the saved model that of a run that goes on after ``epoch`` epochs."""
        checkpoint.name_model(self._run)  # a run that was killed may not have come to it
        try:
            saved = checkpoint.describe_state(self._run, checkpoint.MODEL)
        except InputError:
            saved = {"score": None, "epoch": math.inf}
        if saved.get("score") is None and saved["epoch"] <= epoch:
            return  # the last weights of a run that ended here, or before
        if self.best is None:
            remove_summary(self._run)
            checkpoint.remove_state(self._run, checkpoint.MODEL)
        elif not self._is_saved(self.best):
            self._save(self.best)

    def _is_saved(self, weights: Weights) -> bool:
        return checkpoint.is_saved(self._run, checkpoint.MODEL, _saved(weights), _told(weights))

    def _save(self, weights: Weights) -> None:
        """Trainer 0 writes; a summary that names another model goes first."""
        if self._writes:
            remove_summary(self._run)
            checkpoint.save_state(self._run, checkpoint.MODEL, _saved(weights), _told(weights) | self._about)

    def _rows(self) -> dict[str, Tensor | None]:
        """The trained features as they are, where there are any; all trainers make the call."""
        return {} if self._trained is None else {"trained": self._trained.gathered()}


def _has_nan(weights: Mapping[str, Tensor]) -> bool:
    """Return whether saved weights have a NaN, as earlier releases left them; a mask may be infinite on purpose."""
    return any(bool(weight.isnan().any()) for weight in weights.values())


def _told(weights: Weights) -> dict[str, Any]:
    """Return the epoch, mini-batch and score of saved weights."""
    return {"epoch": weights["epoch"], "batch": weights.get("batch"), "score": weights["score"]}


def _saved(weights: Weights) -> dict[str, Any]:
    rows = {checkpoint.TRAINED: weights["trained"]} if "trained" in weights else {}
    return {**weights["model"], **rows}


def _copy(model: nn.Module) -> dict[str, Any]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
