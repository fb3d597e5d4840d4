"""What is to be predicted, and how: the flags of ``python -m gsplit.predict``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gsplit.config.fields import Checked, Range
from gsplit.config.flags import Positional
from gsplit.config.parallel import Device
from gsplit.config.sampling import FanOutOf, check_fan_out, fan_outs_by_name
from gsplit.errors import InputError

What = Literal["classes", "values", "probabilities", "logits", "embeddings", "scores", "neighbours"]
OF_PAIRS = ("scores", "neighbours")
"""What only runs of links give."""


def check_what(what: str, task: str, flag: str) -> None:
    """Check whether what is to be predicted is what a model of this task says.

    Args:
        what: ``classes``, ``values``, or what any model gives.
        task: of the graph that the model was trained on.
        flag: names it in messages.

    Raises:
        InputError: for classes and probabilities of a regression, and for values of classes.
    """
    if what == "classes" and task == "regression":
        raise InputError(f"{flag} classes: a regression has none; say {flag} values")
    if what == "probabilities" and task == "regression":
        raise InputError(f"{flag} probabilities: a regression has none; say {flag} values")
    if what == "values" and task != "regression":
        raise InputError(f"{flag} values is for a regression, and here there are classes; say {flag} classes")


@dataclass(frozen=True, kw_only=True)
class PredictConfig(Checked):
    """Predict with the best model of a run, on all the GPUs of this host; results are in global ids."""

    run: Annotated[Path, Positional]
    """The run, made by gsplit train."""
    layout: Annotated[Path, Positional]
    """The layout to predict on; any number of parts, and any graph with features of the same width, such as one that
    has grown (gsplit import --add)."""
    out: Path | None = None
    """FILE to write: .npy (rows), .npz (vertices and values) or .csv (a line for each vertex)."""

    vertices: str = "all"
    """all, train, valid, test, or a file of global ids: .npy of whole numbers, or text with one a line. Row i of the
    result belongs to the i-th vertex asked for."""
    what: What | None = None
    """classes, the values of a regression, probabilities of the classes, logits, or embeddings, the vectors of a
    level of the model. By default classes, or values of a regression. Of a run of links: scores of --pairs,
    neighbours of --vertices, those that go best with each, or embeddings."""
    layer: Annotated[int | None, Range(1)] = None
    """Whose output the embeddings are, from 1 on. By default that of the last hidden layer, of a run of links that of
    the last."""
    type: str | None = None
    """embeddings: the type of the vertices, on a graph of several; any that the level has. By default the one that
    has labels."""
    pairs: Path | None = None
    """scores: a file of pairs, a source and a destination a row, as text or Parquet, or .npy [M, 2]."""
    top_k: Annotated[int | None, Range(1)] = None
    """neighbours: so many of each vertex, by default 10. Of those that score the same the lower id comes first."""
    candidates: str = "all"
    """neighbours: the vertices among which they are, as --vertices says it."""
    known: Literal["drop", "keep"] = "drop"
    """neighbours: drop those that training knew as links of the vertex, by message edges and training pairs, or keep
    them. A vertex is never its own neighbour."""

    fan_out: tuple[int, ...] = ()
    """Neighbours drawn per hop, one number for each layer of the model, as in training. By default all neighbours
    count, exactly."""
    fan_out_of: FanOutOf | None = None
    """On a graph of several types, beside --fan-out: other numbers for some relations, as in training; 0 draws none,
    -1 takes all. From Python also a mapping, {("author", "writes", "paper"): (5, 5)}."""
    batch_size: Annotated[int, Range(1)] = 4096
    """Vertices of one mini-batch, with --fan-out, over ALL trainers together."""
    seed: Annotated[int, Range(0)] = 0
    """Seed of the sampling, with --fan-out."""

    gpus: Annotated[int | None, Range(1)] = None
    """Trainers, one a GPU (or a process on the CPU). By default one for each part of the layout."""
    device: Device = "auto"
    """auto takes GPUs where there are any."""
    threads: Annotated[int, Range(0)] = 0
    """CPU threads a trainer may use; 0 shares the cores out."""
    check_model: bool = True
    """Try a model that is not GSplit's own on a few vertices first, alone and in company."""
    allow_nan: bool = False
    """Write vertices whose vectors are NaN or infinite as missing: class -1, labels 255, NaN, an empty field of a
    .csv. By default they are refused, and nothing is written."""
    overwrite: bool = False
    """Replace the file in --out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fan_out:
            check_fan_out(self.fan_out)
        elif self.fan_out_of:
            raise InputError(
                f"--fan-out-of {self.fan_out_of} needs --fan-out, the numbers of the other relations, such as 10,10; "
                "without it all neighbours count"
            )
        if self.layer is not None and self.what != "embeddings":
            raise InputError(f"--layer is for --what embeddings, not for {self.what or 'classes'}")
        if self.type is not None and self.what != "embeddings":
            raise InputError(
                f"--type {self.type} is for --what embeddings; all else is of the vertices that have labels"
            )
        if self.what != "neighbours" and (self.top_k, self.candidates, self.known) != (None, "all", "drop"):
            raise InputError("--top-k, --candidates and --known are for --what neighbours")
        if (self.what == "scores") != (self.pairs is not None):
            raise InputError("--what scores and --pairs FILE go together; give both or neither")
        if self.what == "scores" and self.vertices != "all":
            raise InputError("--vertices is not for --what scores, which are of --pairs")

    @property
    def draws(self) -> bool:
        """True where neighbours are drawn at some hop."""
        return any(each >= 0 for numbers in (self.fan_out, *self.fan_outs_of.values()) for each in numbers)

    @property
    def fan_outs_of(self) -> dict[str, tuple[int, ...]]:
        """The fan-outs of relations that have their own, by the names that they were given."""
        return fan_outs_by_name(self.fan_out_of)

    def level(self, num_layers: int, *, links: bool = False) -> int:
        """The level of the model whose vectors are computed; ``num_layers`` for the logits.

        Args:
            num_layers: of the model.
            links: whether its vectors are what pairs are scored by.

        Raises:
            InputError: where the model has no such level, or another number of layers than there are fan-outs.
        """
        if self.fan_out and len(self.fan_out) != num_layers:
            raise InputError(
                f"--fan-out has {len(self.fan_out)} numbers, but the model has {num_layers} layers; give one for each"
            )
        if self.what != "embeddings":
            return num_layers
        if self.layer is None and links:
            return num_layers
        if self.layer is None and num_layers == 1:
            raise InputError("the model has one layer, so no hidden one; --layer 1 gives its logits")
        level = num_layers - 1 if self.layer is None else self.layer
        if level > num_layers:
            raise InputError(f"--layer is {level}, but the model has {num_layers} layers")
        return level
