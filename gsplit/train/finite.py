"""Whether a run still computes with finite numbers; where it does not, what was the first, and what is kept of it.

A loss or a gradient that is NaN or infinite makes all weights so within a step or two. What such weights give looks
like an answer: the largest of several NaN is the first class. So they are scored with nothing (``Evaluator``),
written into no checkpoint, kept as no model, and end the run as ``--stop-on-nan`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from gsplit.engine.minibatch import MiniBatch
from gsplit.errors import InputError
from gsplit.nn.adapters.dgl import is_dgl_convolution
from gsplit.nn.adapters.pyg import is_pyg_convolution
from gsplit.parallel import max_over_trainers, sum_over_trainers
from gsplit.parallel.host_memory import by_first
from gsplit.runs import checkpoint
from gsplit.train.trainer import Trainer

TRAINED_FEATURES = "the trained features"
STATISTICS = ("running_mean", "running_var")
"""Buffers of batch normalisation, which may overflow where no weight does."""


def is_finite(*tensors: Tensor) -> bool:
    """Return whether no value is NaN or infinite: one pass, no memory for an answer each, one wait for a device."""
    ends = [end.isfinite() for tensor in tensors if tensor.numel() for end in tensor.detach().aminmax()]
    return not ends or bool(torch.stack(ends).all())


def _first_not_finite(named: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor that is not finite; a device is waited for once where all are."""
    return None if is_finite(*named.values()) else next(name for name, each in named.items() if not is_finite(each))


def first_parameter(trainer: Trainer) -> str | None:
    """Name of the first weight that is not finite, or else of the first such statistic of a norm; None where all are.

    All trainers make the call, and get the same. Other buffers may hold infinities on purpose, as masks do.
    """
    trained = {name: weight for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    name = _first_not_finite(trained)
    buffers = [each for each in trainer.model.named_buffers() if each[0].rpartition(".")[2] in STATISTICS]
    if name is None and buffers:
        at = next((i for i, (_, each) in enumerate(buffers) if not is_finite(each)), -1)
        at = max_over_trainers(at, trainer.member)
        name = buffers[at][0] if at >= 0 else None
    if name is None and trainer.trained is not None:
        bad = max_over_trainers(int(not is_finite(trainer.trained.own)), trainer.member)
        name = TRAINED_FEATURES if bad else None
    return name


def may_be_saved(trainer: Trainer) -> bool:
    """Return whether a run could go on from here: weights, gradients added up and the loss so far are finite."""
    added = is_finite(*trainer.steps.state()["sums"])
    if trainer.trained is not None:  # whose rows, and sums of their gradients, each trainer has alone
        added = not max_over_trainers(int(not added), trainer.member)
    return added and first_parameter(trainer) is None and bool(torch.as_tensor(trainer.progress.loss_sum).isfinite())


def check_mini_batch(trainer: Trainer, mini_batch: MiniBatch, loss: Tensor) -> None:
    """End the run before the step of a mini-batch that is not finite, with ``--stop-on-nan batch``.

    All trainers make the call, after gradients and the loss [] were summed over them.

    Raises:
        InputError: where the loss is not finite, or a gradient; with the first layer that gave such values.
    """
    if trainer.run.config.stop_on_nan != "batch":
        return
    named = trainer.model.named_parameters()
    gradient = _first_not_finite({name: weight.grad for name, weight in named if weight.grad is not None})
    if trainer.trained is not None and gradient is None:
        rows = trainer.trained.own.grad
        bad = max_over_trainers(int(rows is not None and not is_finite(rows)), trainer.member)
        gradient = TRAINED_FEATURES if bad else None
    if is_finite(loss) and gradient is None:
        return
    layer = _first_layer(trainer, mini_batch)
    if layer is not None:
        what = f"the layer {layer} gave values that are not finite"
    elif not is_finite(loss):
        what = "the loss is not finite, though all layers' values are"
    else:
        what = f"the gradient of {gradient} is not finite, though the loss is"
    _end(trainer, f"in {_place(trainer, mini_batch.batch)} {what}")


def check_epoch(trainer: Trainer) -> None:
    """End the run after an epoch that was not finite, but with ``--stop-on-nan never``.

    All trainers make the call, when the counts of the epoch are written and before the next one begins.

    Raises:
        InputError: where the loss of a mini-batch was not finite, or a weight is not.
    """
    if trainer.run.config.stop_on_nan == "never":
        return
    batch, weight = trainer.progress.first_not_finite, first_parameter(trainer)
    if batch is None and weight is None:
        return
    if batch is None:
        what = f"{_place(trainer, trainer.num_batches - 1)} made weights that are not finite, {weight} first"
    elif weight is None:
        what = f"{_place(trainer, batch)} had a loss that is not finite, though the weights are"
    else:
        what = f"{_place(trainer, batch)} had a loss that is not finite; the first such weight is {weight}"
    _end(trainer, what)


def _place(trainer: Trainer, batch: int) -> str:
    return f"mini-batch {batch + 1} of {trainer.num_batches} of epoch {trainer.progress.epoch + 1}"


def _end(trainer: Trainer, what: str) -> NoReturn:
    kept = trainer.kept.keep_finite()
    if kept is None:
        words = "no model was kept"
    elif kept["score"] is None:
        words = f"the model of epoch {kept['epoch']}, the last that is finite, is kept"
    else:
        words = f"the model of epoch {kept['epoch']}, the best, is kept"
    whole = by_first(trainer.member, lambda: checkpoint.whole(trainer.run.folder, "go on from it with --resume"))
    trainer.member.barrier()  # the first process that fails ends the others, which may be writing
    raise InputError(f"{what}; try a lower --lr or --clip-grad-norm 1. {words[0].upper()}{words[1:]}; {whole}")


def _first_layer(trainer: Trainer, mini_batch: MiniBatch) -> str | None:
    """Name of the first module whose output is not finite on some trainer; None where all outputs are.

    The forward pass is made once more, which nothing comes after. What is inside a convolution of PyG's or DGL's is
    left alone: with hooks there the block would not compute the convolution any more.
    """
    bad: dict[str, bool] = {}
    inside: tuple[str, ...] = ()
    hooks = []

    def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            bad[name] |= not all(is_finite(tensor) for tensor in _tensors(output))

        return hook

    for name, module in trainer.model.named_modules():
        if name and not name.startswith(inside):
            bad[name] = False
            hooks.append(module.register_forward_hook(look(name)))
            if is_pyg_convolution(module) or is_dgl_convolution(module):
                inside = (*inside, f"{name}.")
    try:
        with torch.no_grad():
            trainer.run.precision.called(trainer.member.device, mini_batch.logits, trainer.model)
    finally:
        for each in hooks:
            each.remove()
    counts = sum_over_trainers([float(each) for each in bad.values()], trainer.member) if bad else []
    found = [name for name, count in zip(bad, counts, strict=True) if count]
    # The first one that holds no other of them: a module comes before those that it consists of.
    return next((name for name in found if not any(other.startswith(f"{name}.") for other in found)), None)


def _tensors(output: Any) -> Iterator[Tensor]:
    """The tensors of numbers in what a module gives."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, dict):
        yield from _tensors(list(output.values()))
    elif isinstance(output, (list, tuple)):
        for each in output:
            yield from _tensors(each)
