"""The configuration of a training run: the flags of ``python -m gsplit.train``, and ``config.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from gsplit.cli import IntList, check_fan_out
from gsplit.errors import InputError
from gsplit.files import read_json
from gsplit.runs.folder import CONFIG, put_run_right
from gsplit.units import CacheSize, parse_bytes

MODELS = ("sage", "gat", "gcn")
DROPOUTS = ("dropout", "input_dropout", "attention_dropout")
PATHS = ("layout", "out", "resume")
OPTIONAL = ("gpus", "num_layers", "samplers", "slots", "split_group")
"""Numbers that are decided later where they are None."""
OF_MODEL = (
    "model",
    "model_args",
    "hidden",
    "dropout",
    "input_dropout",
    "attention_dropout",
    "norm",
    "residual",
    "input_projection",
    "heads",
    "out_heads",
    "negative_slope",
    "normalization",
    "self_loops",
)
"""What says what a model is; null in ``config.json`` where the model takes nothing of it."""
RESULTS_DEPEND_ON = (
    "seed",
    "batch_size",
    "fan_out",
    "lr",
    "weight_decay",
    "dropout",
    "input_dropout",
    "attention_dropout",
    "normalize_features",
    "order",
    "strategy",
    "split_group",
    "feature_dtype",
)
"""What may change when a run goes on, and changes what it learns; each epoch says with which it was trained."""
Device = Literal["auto", "cuda", "cpu"]
Norm = Literal["none", "layer", "batch"]
Normalization = Literal["both", "mean"]
Dtype = Literal["float32", "float64"]
Predictions = Literal["no", "classes", "logits"]
Order = Literal["sequence", "ready"]
StrategyName = Literal["split", "data"]
CacheName = Literal["auto", "none", "partitioned", "replicated"]
LoaderName = Literal["auto", "gather", "zero-copy"]
FeatureDtype = Literal["stored", "float32", "float16", "bfloat16"]
CHOICES = {
    "device": get_args(Device),
    "norm": get_args(Norm),
    "normalization": get_args(Normalization),
    "dtype": get_args(Dtype),
    "save_predictions": get_args(Predictions),
    "order": get_args(Order),
    "strategy": get_args(StrategyName),
    "cache": get_args(CacheName),
    "loader": get_args(LoaderName),
    "feature_dtype": get_args(FeatureDtype),
}
"""Checked for those who build a configuration in Python; the command line checks them itself."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a graph neural network, split-parallel, on all the GPUs of this host."""

    layout: Annotated[Path | None, tyro.conf.Positional] = None
    """The layout to train on, made by python -m gsplit.partition."""
    out: Path | None = None
    """RUN, the folder to write: config, metrics, summary, checkpoints and the model."""
    gpus: int | None = None
    """Trainers, one a GPU (or a process on the CPU). By default one for each part of the layout."""
    device: Device = "auto"
    """auto takes GPUs where there are any."""

    model: str = "sage"
    """sage (GraphSAGE with mean aggregation), gat, gcn, or package.module:Class, a module of yours written for PyG,
    DGL or GSplit (docs/bring_your_own_model.md)."""
    model_args: str = ""
    """Arguments for the constructor of such a class, as NAME=VALUE,NAME=VALUE."""
    check_model: bool = False
    """Do not train: compare the gradients of two trainers with those of one, on a few mini-batches, and say whether
    the model can be split."""
    num_layers: int | None = None
    """Layers of the model. By default one for each number in --fan-out."""
    hidden: int = 16
    """Width of the hidden layers."""
    dropout: float = 0.5
    """Share of hidden values dropped in training."""
    input_dropout: float = 0.0
    """Share of feature values dropped in training."""
    norm: Norm = "none"
    """Between the layers: layer (each vertex by itself) or batch (over the vertices of all trainers)."""
    residual: bool = False
    """Add to the output of each layer its own input (a skip connection)."""
    input_projection: bool = False
    """Project the features to the hidden width before the first layer."""
    heads: int = 4
    """gat: attention heads of the hidden layers, concatenated; they share the --hidden width out."""
    out_heads: int = 1
    """gat: attention heads of the last layer, averaged."""
    attention_dropout: float = 0.0
    """gat: share of edges dropped in training, per head."""
    negative_slope: float = 0.2
    """gat: of the LeakyReLU."""
    normalization: Normalization = "both"
    """gcn: both (symmetric, by the degrees of the whole graph) or mean."""
    self_loops: bool = True
    """gat, gcn: let each vertex be its own neighbour; --no-self-loops where the graph has loops already."""
    dtype: Dtype = "float32"
    """In which the model computes."""
    normalize_features: bool = False
    """Divide each feature row by the sum of its absolute values."""

    fan_out: IntList = (20, 20, 20)
    """Neighbours drawn per hop, with commas or spaces; the first is for the targets (as in PyG; DGL lists them
    the other way round). -1 takes all."""
    batch_size: int = 4096
    """Targets of one mini-batch over ALL trainers together (DGL and PyG count per GPU)."""
    epochs: int = 10
    """Passes over the training vertices."""
    lr: float = 0.003
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty of Adam."""
    seed: int = 0
    """Of the initial weights, the sampling and the dropout."""
    threads: int = 0
    """CPU threads a trainer may use; 0 shares the cores out."""

    strategy: StrategyName = "split"
    """split: all trainers compute one mini-batch together, and nothing twice; data: each computes a micro-batch of
    its own, overlaps and all, as DGL and PyG do."""
    split_group: int | None = None
    """Trainers that split a mini-batch between them, a divisor of --gpus; with several such groups each has a
    micro-batch of its own. By default all trainers are one group."""
    cache: CacheName = "auto"
    """Feature rows that trainers keep: none; partitioned (each row on one trainer; with data, read from its peers as
    in Quiver); replicated (data only: each trainer what is hottest for its own share of the training vertices, as in
    PaGraph). auto is partitioned with split on GPUs or where --cache-size is given, else none."""
    cache_size: str | None = None
    """Of each trainer: bytes such as 4GiB (4GB is 4,000,000,000), a share of all feature rows such as 10%, or auto,
    what its GPU has free less a reserve; on the CPU half of what is free, shared out. By default auto."""
    loader: LoaderName = "auto"
    """How rows come from the host to a GPU: gather (into pinned buffers, by the CPU) or zero-copy (the GPU reads host
    memory). auto is zero-copy where that can be had."""
    feature_dtype: FeatureDtype = "stored"
    """In which host and caches keep feature rows; other than stored takes a copy of them, shared by all trainers. The
    model computes in --dtype."""

    samplers: int | None = None
    """Processes that sample and split mini-batches ahead of training. By default the cores that the trainers leave
    over, at least 1 and at most 2 for each trainer; 0 lets every trainer sample for itself, for debugging."""
    slots: int | None = None
    """Mini-batches that may be sampled, or being sampled, at a time, in shared memory. By default --samplers,
    --prefetch and 2 more."""
    order: Order = "sequence"
    """sequence trains mini-batches in the order of the epoch, so that results do not depend on --samplers; ready
    trains first what is finished first."""
    prefetch: int = 1
    """Mini-batches that each trainer loads ahead of the one it computes."""
    sampler_memory: str = "4GiB"
    """What each sampler's maps of vertices may take. Where maps of all vertices of the graph would take more (8 bytes
    a vertex), it has hash maps of the vertices of a mini-batch, which are slower."""
    sampler_threads: int = 1
    """CPU threads a sampler may use; more samplers are better where there are enough mini-batches and memory."""
    max_sampler_restarts: int = 3
    """Samplers that may be replaced when something kills them, before the run is given up."""

    validate_every: int = 1
    """Validate after every so many epochs, exactly, over all neighbours; 0 never."""
    checkpoint_every: int = 1
    """Write a checkpoint after every so many epochs; 0 never."""
    checkpoint_every_batches: int = 0
    """Also write one after every so many mini-batches; 0 never."""
    resume: Path | None = None
    """Go on with the run in this folder, from its last checkpoint; its configuration is the default."""
    profile: bool = False
    """Write trace.json, in which chrome://tracing and Perfetto show what all processes did in the first 20
    mini-batches after the first one. Slows those down; --resume does not take it over."""
    save_predictions: Predictions = "no"
    """Write predictions.npy of all vertices, in global ids, at the end."""
    overwrite: bool = False
    """Replace the run in --out."""

    def __post_init__(self) -> None:
        for name in PATHS:
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        object.__setattr__(self, "fan_out", tuple(self.fan_out))
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{_flag(name)} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")
        at_least = {
            "gpus": 1,
            "num_layers": 1,
            "hidden": 1,
            "heads": 1,
            "out_heads": 1,
            "batch_size": 1,
            "epochs": 0,
            "threads": 0,
            "seed": 0,
            "split_group": 1,
            "samplers": 0,
            "slots": 1,
            "prefetch": 0,
            "sampler_threads": 1,
            "max_sampler_restarts": 0,
            "validate_every": 0,
            "checkpoint_every": 0,
            "checkpoint_every_batches": 0,
            "weight_decay": 0.0,
        }
        for name, least in at_least.items():
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            if isinstance(least, float) and not isinstance(value, (int, float)):
                raise InputError(f"{_flag(name)} must be a number, not {value!r}")
            if isinstance(least, int) and (not isinstance(value, int) or isinstance(value, bool)):
                raise InputError(f"{_flag(name)} must be a whole number, not {value!r}")
            if not value >= least:
                raise InputError(f"{_flag(name)} must be at least {least}, not {value}")
        for name, most in {"slots": 1024, "prefetch": 256, "sampler_threads": 256}.items():
            value = getattr(self, name)
            if value is not None and value > most:
                raise InputError(f"{_flag(name)} must be at most {most}, not {value}")
        for name in ("lr", "negative_slope", *DROPOUTS):
            if not isinstance(getattr(self, name), (int, float)):
                raise InputError(f"{_flag(name)} must be a number, not {getattr(self, name)!r}")
        if not 0 < self.lr < math.inf:
            raise InputError(f"--lr must be above 0 and finite, not {self.lr}")
        if self.weight_decay == math.inf:
            raise InputError("--weight-decay must be finite, not inf")
        for name in DROPOUTS:
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{_flag(name)} must be in [0, 1), not {getattr(self, name)}")
        object.__setattr__(self, "sampler_memory", str(self.sampler_memory))
        try:
            parse_bytes(self.sampler_memory)
        except ValueError as error:
            raise InputError(f"--sampler-memory: {error}") from None
        if self.cache_size is not None:
            object.__setattr__(self, "cache_size", str(self.cache_size))
            try:
                CacheSize.parse(str(self.cache_size))
            except ValueError as error:
                raise InputError(f"--cache-size: {error}") from None
        if self.model not in MODELS and ":" not in self.model:
            raise InputError(
                f"{self.model!r} is no --model: it is one of {', '.join(MODELS)}, or package.module:Class"
            )
        if self.model == "gat" and self.hidden % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --hidden {self.hidden}, which the heads share")
        check_fan_out(self.fan_out)
        if self.num_layers is not None and self.num_layers != len(self.fan_out):
            raise InputError(
                f"--fan-out has {len(self.fan_out)} numbers, but --num-layers is {self.num_layers}; "
                "give one number for each layer"
            )

    @property
    def layers(self) -> int:
        return len(self.fan_out)

    def to_json(self, unused: Collection[str] = ()) -> str:
        """The content of ``config.json``; null stands for ``unused`` fields, which had no effect."""
        values = {f.name: None if f.name in unused else getattr(self, f.name) for f in fields(self)}
        return json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in values.items()}, indent=2) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> TrainConfig:
        """Read a ``config.json``.

        Raises:
            InputError: where it is missing or damaged.
        """
        try:
            values = read_json(path)
            if not isinstance(values, dict):
                raise InputError("it is no JSON object")
            unknown = set(values) - {f.name for f in fields(cls)}
            if unknown:
                raise InputError(f"unknown keys: {', '.join(sorted(unknown))}")
            return cls(**{name: value for name, value in values.items() if value is not None or name not in OF_MODEL})
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}") from None
        except FileNotFoundError:
            raise InputError(f"{path.parent} is no run: it has no {path.name}") from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise InputError(f"{path} is damaged: {error}") from None

    @classmethod
    def resuming(cls, run: Path | str, **changes: Any) -> TrainConfig:
        """The configuration of a run, to go on with it: ``train(config=TrainConfig.resuming("run", epochs=60))``.

        On another layout the number of trainers follows it, unless ``gpus`` says otherwise.

        Raises:
            InputError: where ``run`` is no run.
        """
        put_run_right(Path(run))
        before = cls.from_json(Path(run) / CONFIG)
        fresh = {"out": None, "overwrite": False, "profile": False, "resume": Path(run)}
        return replace(before, **{**fresh, **changes})


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
