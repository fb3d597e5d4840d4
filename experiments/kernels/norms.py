"""Kernels that a GPU is given for a norm with ReLU, dropout and a skip behind it, and what they move: counted.

    python -m experiments.kernels.norms

``operations`` are PyTorch's, one by one, as on accelerators that Triton does not drive, and RMSNorm as where
PyTorch has no kernel for it; ``compile`` is what ``torch.compile`` emits for PyTorch's own functions; ``ours`` are
the kernels of :mod:`gsplit.kernels.norm_rows`, and what goes with them. ``kernels`` are all that a way launches, both
ways, and ``large`` those of them that read or write whole rows. ``forward_moved`` and ``backward_moved`` are the
bytes that they read and write, ``kept`` those that forward keeps for backward, each over the bytes of the rows.

No GPU is needed, and nothing is timed. Of operations and of ours each array that a launch is given counts once: of
ours that is so (``tests/unit/kernels/test_compiled_norms.py``), an operation may read more. Where PyTorch's compiler
is not that of :mod:`experiments.kernels.emitted`, its row says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gsplit.kernels
from experiments.kernels import emitted
from experiments.kernels.launches import Count, Launch, Operations, launch_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, from_one_on
from experiments.shared.results import printed
from gsplit import cli
from gsplit.device import accelerator
from gsplit.kernels.compiled_norms import CompiledNorms
from gsplit.nn import BatchNorm
from gsplit.nn.norm import normalised
from gsplit.nn.rowwise.activation import Finish

DROP = 0.5
NORMS: dict[str, Callable[[int], nn.Module]] = {"rms": nn.RMSNorm, "layer": nn.LayerNorm, "batch": BatchNorm}


@dataclass(frozen=True, kw_only=True)
class NormsConfig(Flags):
    """Counts for rows of some widths."""

    rows: Positive = 100_000
    """Rows that are normalised."""
    widths: Annotated[tuple[int, ...], from_one_on("--widths")] = (128,)
    """Features of a row."""
    compile: bool = True
    """Whether ``torch.compile`` is asked, too."""


def counted(norm: nn.Module, x: Tensor, skip: Tensor, found: list[Launch]) -> Count:
    """Count what a layer's norm, with all that stands behind it, launches, and keeps of rows."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.numel() >= len(x):
            kept[tensor.untyped_storage()._cdata] = tensor.nbytes
        return tensor

    with Operations(found, x.numel()):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            out = normalised(norm, x, Finish(torch.relu, nn.Dropout(DROP)), skip)
        forward = list(found)
        found.clear()
        torch.autograd.grad(out, [x, skip, *norm.parameters()], torch.empty_like(out))
    return Count(forward, found, sum(kept.values()))


def without_numbers(name: str, rows: int, width: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A norm, rows and a skip that have sizes alone."""
    with torch.device("meta"):
        x, skip = (torch.empty(rows, width, requires_grad=True) for _ in range(2))
        return NORMS[name](width), x, skip


def operations(name: str, rows: int, width: int) -> Count:
    """PyTorch's operations one by one, where dropout is one, as on GPUs."""
    norm, x, skip = without_numbers(name, rows, width)
    found: list[Launch] = []

    def dropped(x: Tensor, p: float, training: bool, inplace: bool = False) -> Tensor:
        return torch.native_dropout(x, p, training)[0]

    with mock.patch.object(F, "dropout", dropped):
        return counted(norm, x, skip, found)


def ours(name: str, rows: int, width: int) -> Count:
    """Our kernels, of which none is run, and PyTorch's operations beside them."""
    from triton.runtime.jit import JITFunction

    from gsplit.kernels import norm_rows

    norm, x, skip = without_numbers(name, rows, width)
    found: list[Launch] = []

    def launched(*given: Any, **_: Any) -> None:
        tensors = {id(each): each for each in given if isinstance(each, Tensor)}
        found.append(launch_of(list(tensors.values()), x.numel()))

    kernels = CompiledNorms(lambda _: True)
    stand_ins: list[tuple[Any, str, Any]] = [
        *((each, "run", launched) for each in vars(norm_rows).values() if isinstance(each, JITFunction)),
        (kernels, "takes", lambda _: True),
        (gsplit.kernels, "_COMPILED_NORMS", kernels),
        (accelerator, "as_current", lambda _: nullcontext()),
    ]
    with ExitStack() as stack:
        for place, what, stand_in in stand_ins:
            stack.enter_context(mock.patch.object(place, what, stand_in))
        return counted(norm, x, skip, found)


def plain(name: str, width: int) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The same by PyTorch's own functions alone, for rows, a skip, weight and bias, which RMSNorm has not."""

    def step(x: Tensor, skip: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if name == "rms":
            out = F.rms_norm(x, (width,), weight)
        elif name == "layer":
            out = F.layer_norm(x, (width,), weight, bias)
        else:
            out = F.batch_norm(x, None, None, weight, bias, training=True)
        return F.dropout(torch.relu(out), DROP, training=True) + skip

    return step


def compiled(name: str, rows: int, width: int) -> Count:
    """What ``torch.compile`` emits."""
    shapes = (rows, width), (rows, width), (width,), (width,)
    given = [torch.zeros(shape, requires_grad=True) for shape in shapes]
    return emitted.compiled(plain(name, width), given, rows * width)


WAYS = {"operations": operations, "compile": compiled, "ours": ours}
"""Ways by name."""


def _row(count: Callable[[str, int, int], Count], name: str, rows: int, width: int) -> dict[str, Any]:
    try:
        return count(name, rows, width).row(rows * width * 4)
    except (AttributeError, ImportError, RuntimeError, TypeError) as error:  # of the compiler
        if count is not compiled:
            raise
        return {"missing": f"{type(error).__name__}: {error}"}


def measure(config: NormsConfig) -> list[dict[str, Any]]:
    """A row for each normalisation, width and way."""
    rows = []
    for name in NORMS:
        for width in config.widths:
            for way, count in WAYS.items():
                if way == "compile" and not config.compile:
                    continue
                found = _row(count, name, config.rows, width)
                rows.append(printed({"norm": name, "width": width, "way": way, **found}))
    return rows


command = Experiment("kernels.norms", NormsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
