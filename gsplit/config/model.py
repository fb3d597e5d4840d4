"""The model of a training run, as a user may ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from gsplit.config.fields import MOST_FACTOR, Checked, Range
from gsplit.config.rules import RESULTS, AsksForNothing, Only
from gsplit.errors import InputError

MODELS = ("sage", "gat", "gcn")
Norm = Literal["none", "layer", "rms", "batch"]
Normalization = Literal["both", "mean"]
Dtype = Literal["float32", "float64"]
Share = Annotated[float, Range(least=0, below=1)]
WIDE = 128
"""Width of hidden layers from which on half of their values are dropped, if nobody says otherwise: narrower ones
learn less with that than without (docs/development/log.md, "Defaults that learn something")."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Checked):
    """The model: its class, its sizes and what stands between its layers."""

    model: str = "sage"
    """sage (GraphSAGE with mean aggregation), gat, gcn, or package.module:Class, a module of yours written for PyG,
    DGL or GSplit (docs/bring_your_own_model.md)."""
    model_args: str = ""
    """Arguments for the constructor of such a class, as NAME=VALUE,NAME=VALUE."""
    num_layers: Annotated[int | None, Range(1)] = None
    """Layers of the model. By default one for each number in --fan-out."""
    hidden: Annotated[int, Range(1), arg(aliases=("--hidden-channels", "--num-hidden"))] = 256
    """Width of the hidden layers."""
    dropout: Annotated[Share | None, AsksForNothing(0), RESULTS] = None
    """Share of hidden values dropped in training. By default 0.5 where --hidden is at least 128, below that 0."""
    input_dropout: Annotated[Share, RESULTS] = 0.0
    """Share of feature values dropped in training."""
    norm: Norm = "none"
    """Normalisation between layers: layer or rms (each vertex by itself) or batch (over all trainers' vertices)."""
    residual: bool = False
    """Add to the output of each layer its own input (a skip connection)."""
    residual_after: Annotated[bool, Only(residual=True)] = False
    """Add it behind activation and dropout (as ScaleGNN), not before normalisation and activation."""
    input_projection: bool = False
    """Project the features to the hidden width before the first layer."""
    output_projection: bool = False
    """Let the last layer be a hidden one, too, and project it to the classes."""
    heads: Annotated[int, Range(1), Only(model="gat"), arg(aliases=("--num-heads",))] = 4
    """gat: attention heads of the hidden layers, concatenated; they share the --hidden width out."""
    out_heads: Annotated[int, Range(1), Only(model="gat")] = 1
    """gat: attention heads of the last layer, averaged."""
    attention_dropout: Annotated[Share, Only(model="gat"), RESULTS] = 0.0
    """gat: share of edges dropped in training, per head."""
    negative_slope: Annotated[float, Range(-MOST_FACTOR, MOST_FACTOR), Only(model="gat")] = 0.2
    """gat: of the LeakyReLU."""
    normalization: Annotated[Normalization, Only(model="gcn")] = "both"
    """gcn: both (symmetric, by the degrees of the whole graph) or mean."""
    self_loops: Annotated[bool, Only(model=("gat", "gcn"))] = True
    """gat, gcn: let each vertex be its own neighbour; --no-self-loops where the graph has loops already."""
    dtype: Dtype = "float32"
    """Type in which the model computes."""

    @property
    def share_dropped(self) -> float:
        """The share of hidden values that is dropped: as given, or what their width asks for."""
        return self.dropout if self.dropout is not None else 0.5 if self.hidden >= WIDE else 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model not in MODELS and ":" not in self.model:
            raise InputError(
                f"{self.model!r} is no --model: it is one of {', '.join(MODELS)}, or package.module:Class"
            )
        if self.model == "gat" and self.hidden % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --hidden {self.hidden}, which the heads share")
