"""A random model and graph for each number: what was drawn, in words that can be printed, and what it makes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import nn

from experiments.differential.convolutions import drawn_options, kinds
from experiments.differential.nets import ACTIVATIONS, BY_HAND, FORMS, Net

FEATURES, HIDDEN, CLASSES = 6, 5, 4
NORMS = {
    **{"none": 8, "BatchNorm1d": 4, "LayerNorm": 2, "PyG BatchNorm": 2, "PyG LayerNorm by row": 1},
    **{"PyG LayerNorm of the graph": 0.3, "GraphNorm": 0.3, "PairNorm": 0.3, "InstanceNorm": 0.3},
}
"""Norms, each with how often it is drawn."""
OVER_ROWS = ("BatchNorm1d", "PyG BatchNorm")
ODD_SHARE = 0.04
"""Share of the models with a line by hand that cannot be split."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A model, the graph it is trained on, and its targets."""

    number: int
    seed: int
    convolution: str
    options: dict[str, Any]
    form: str
    """What forward takes."""
    layers: int
    norm: str
    residual: bool
    jumping: str | None
    activation: str
    by_hand: str | None
    dtype: str
    weighted: bool
    """Whether the graph has weights of edges; as the form wants it, but for some that take no notice."""
    loops: bool
    isolated: bool
    targets: str
    """``all`` vertices, ``half`` of them, or a ``few``, so that trainers have none, and no edges."""

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        parts = [f"{self.convolution}({options})", f"forward({self.form})", f"{self.layers} layers"]
        parts += [f"norm {self.norm}"] if self.norm != "none" else []
        parts += ["residual"] * self.residual + ([f"jumping {self.jumping}"] if self.jumping else [])
        parts += [self.activation, *([self.by_hand] if self.by_hand else []), self.dtype]
        parts += ["weights"] * self.weighted + ["loops"] * self.loops + ["isolated"] * self.isolated
        return f"{self.number}: {', '.join(parts)}, {self.targets} targets"


def draw(number: int, seed: int) -> Drawn:
    """What belongs to a number; it depends on nothing else than that and the seed."""
    random = Random(f"{seed} {number}")
    convolution = random.choices(list(kinds()), [kind.weight for kind in kinds().values()])[0]
    kind = kinds()[convolution]
    form = random.choice(kind.forms)
    norm = random.choices(list(NORMS), list(NORMS.values()))[0]
    options = drawn_options(kind, random)
    # On a sparse tensor PyG's GCNConv adds loops beside those that are there, and knows improved without weights: not
    # what it gives on an edge index of the same graph, which blocks compute.
    if sparse_gcn := (convolution, form) == ("PyG GCNConv", "x, adj_t"):
        options["improved"] = False
    attributes = any(word in form for word in ("weight", "attr", "weights", "attributes"))
    # Over all vertices of a level, or of the mini-batch: what the whole graph gives needs all of them.
    whole = kind.whole or norm in OVER_ROWS or inner_batch_norm(convolution, options)
    return Drawn(
        number=number,
        seed=seed,
        convolution=convolution,
        options=options,
        form=form,
        layers=random.choice((1, 2, 2, 3)),
        norm=norm,
        residual=random.random() < 0.3 and form != "x, adjs",
        jumping=random.choice((None, None, None, "cat", "max", "lstm")) if "DGL" not in convolution else None,
        activation=random.choice(list(ACTIVATIONS)),
        by_hand=random.choice(list(BY_HAND)) if random.random() < ODD_SHARE else None,
        dtype=random.choice(("float64", "float32")),
        weighted=attributes or (random.random() < 0.15 and convolution != "PyG GCNConv" and form != "x, adj_t"),
        loops=random.random() < 0.5 and not sparse_gcn,
        isolated=random.random() < 0.5,
        targets="all" if whole else random.choice(("all", "half", "half", "few")),
    )


def inner_batch_norm(convolution: str, options: dict[str, Any]) -> bool:
    """Whether a convolution normalises over rows or messages inside."""
    named = "batch norm" in str(options.get("aggr")) or options.get("inner_norm") == "batch"
    inside = bool(options.get("batch_norm")) or (convolution == "PyG GENConv" and options.get("norm") == "batch")
    return named or inside


def make_model(drawn: Drawn) -> Net:
    """The model, in float32, always with the same weights."""
    jumping = drawn.jumping is not None
    widths = [FEATURES, *[HIDDEN] * (drawn.layers - 1 + jumping), CLASSES]
    kind = kinds()[drawn.convolution]
    torch.manual_seed(drawn.seed * 100_003 + drawn.number)
    ins_and_outs = list(itertools.pairwise(widths))[: drawn.layers]
    model = FORMS[drawn.form](
        [kind.make(w_in, w_out, dict(drawn.options)) for w_in, w_out in ins_and_outs],
        [make_norm(drawn.norm, w_out) for _, w_out in ins_and_outs[:-1]],
        [nn.Linear(w_in, w_out) for w_in, w_out in ins_and_outs] if drawn.residual else [],
        activation=drawn.activation,
        jumping=drawn.jumping,
        widths=widths,
        by_hand=drawn.by_hand,
    )
    with torch.no_grad():
        for parameter in model.parameters():  # some begin at zero, and would hide what they multiply
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def make_norm(name: str, width: int) -> nn.Module:
    """A norm of rows so wide."""
    import torch_geometric.nn as g

    return {
        "none": lambda _: nn.Identity(),
        "BatchNorm1d": nn.BatchNorm1d,
        "LayerNorm": nn.LayerNorm,
        "PyG BatchNorm": g.BatchNorm,
        "PyG LayerNorm by row": lambda width: g.LayerNorm(width, mode="node"),
        "PyG LayerNorm of the graph": g.LayerNorm,
        "GraphNorm": g.GraphNorm,
        "PairNorm": lambda _: g.PairNorm(),
        "InstanceNorm": g.InstanceNorm,
    }[name](width)
