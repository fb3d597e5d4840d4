"""The model of a training run, as a user may ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gsplit.config.fields import MOST_FACTOR, Checked, Range
from gsplit.config.flags import Aliases
from gsplit.config.rules import RESULTS, AsksForNothing, Only
from gsplit.errors import InputError

MODELS = ("sage", "gat", "gcn", "rgcn", "rgat")
TYPED = ("rgcn", "rgat", "sage")
"""Models of several types of vertices; with sage all types and relations share their weights."""
ATTENDING = ("gat", "rgat")
Norm = Literal["none", "layer", "rms", "batch"]
Normalization = Literal["both", "mean"]
PrecisionName = Literal["32", "bf16-mixed", "16-mixed", "64", "auto", "32-true", "64-true"]
Dtype = Literal["float32", "float64"]
SAME = {"32-true": "32", "64-true": "64", "float32": "32", "float64": "64"}
"""Other names of precisions: Lightning's, and those of --dtype."""
Share = Annotated[float, Range(least=0, below=1)]
WIDE = 128
"""Width of hidden layers from which on half of their values are dropped, if nobody says otherwise: narrower ones
learn less with that than without (docs/development/log.md, "Defaults that learn something")."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Checked):
    """The model: its class, its sizes and what stands between its layers."""

    model: str = "sage"
    """sage (GraphSAGE with mean aggregation), gat, gcn; on a graph of several types rgcn, rgat, or sage, which knows
    no types; or package.module:Class, a module of yours written for PyG, DGL or GSplit
    (docs/bring_your_own_model.md)."""
    model_args: str = ""
    """Arguments for the constructor of such a class, as NAME=VALUE,NAME=VALUE."""
    num_layers: Annotated[int | None, Range(1)] = None
    """Layers of the model. By default one for each number in --fan-out."""
    hidden: Annotated[int, Range(1), Aliases(("--hidden-channels", "--num-hidden"))] = 256
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
    input_projection: bool | None = None
    """Project the features to the hidden width before the first layer. By default where there are several types."""
    output_projection: bool = False
    """Let the last layer be a hidden one, too, and project it to the classes."""
    heads: Annotated[int, Range(1), Only(model=ATTENDING), Aliases(("--num-heads",))] = 4
    """gat, rgat: attention heads of the hidden layers, concatenated; they share the --hidden width out."""
    out_heads: Annotated[int, Range(1), Only(model=ATTENDING)] = 1
    """gat, rgat: attention heads of the last layer, averaged."""
    attention_dropout: Annotated[Share, Only(model=ATTENDING), RESULTS] = 0.0
    """gat, rgat: share of edges dropped in training, per head."""
    negative_slope: Annotated[float, Range(-MOST_FACTOR, MOST_FACTOR), Only(model=ATTENDING)] = 0.2
    """gat, rgat: of the LeakyReLU."""
    normalization: Annotated[Normalization, Only(model="gcn")] = "both"
    """gcn: both (symmetric, by the degrees of the whole graph) or mean."""
    self_loops: Annotated[bool, Only(model=("gat", "gcn"))] = True
    """gat, gcn: let each vertex be its own neighbour; --no-self-loops where the graph has loops already."""
    bases: Annotated[int | None, Range(1), Only(model="rgcn")] = None
    """rgcn: matrices that those of all relations are sums of. By default each relation has one of its own."""
    edge_weights: Annotated[bool, Only(model="rgcn")] = False
    """rgcn: multiply the rows of neighbours by the weights of edges, of relations that have some. gcn and models of
    yours take weights wherever there are any, and the others none."""
    precision: Annotated[PrecisionName | None, RESULTS] = None
    """32, the default, or 64: the bits of the floating numbers that the model computes in. bf16-mixed: parameters,
    their gradients and sums, losses and the optimizer stay float32; products, hidden rows and feature rows are
    bfloat16, by PyTorch's autocast. 16-mixed: float16 in its place, and a loss scale that all trainers agree on.
    auto: bf16-mixed where its products are faster on this device, which is measured, else 32. Lightning's 32-true
    and 64-true are 32 and 64."""
    dtype: Dtype | None = None
    """The earlier name of --precision: float32 is 32, float64 is 64."""

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
        if self.model in ATTENDING and self.hidden % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --hidden {self.hidden}, which the heads share")
        object.__setattr__(self, "precision", self._one_precision())
        object.__setattr__(self, "dtype", None)

    def _one_precision(self) -> str | None:
        """The precision that was asked for, by its first name, whichever flag says it; None where none does."""
        precision, by_dtype = (SAME.get(name or "", name) for name in (self.precision, self.dtype))
        if precision is not None and by_dtype is not None and precision != by_dtype:
            raise InputError(
                f"--dtype {self.dtype} is --precision {by_dtype}, and --precision is {precision}; drop --dtype"
            )
        return precision or by_dtype
