"""The configuration of a training run: the flags of ``python -m gsplit.train``, and ``config.json``."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gsplit.config.features import FeaturesConfig
from gsplit.config.links import LinksConfig
from gsplit.config.model import ModelConfig
from gsplit.config.optimisation import ObjectiveConfig, OptimisationConfig
from gsplit.config.parallel import ParallelConfig
from gsplit.config.rules import NOT_RESUMED, check_needed, marked
from gsplit.config.run import RunConfig
from gsplit.config.sampling import LAYERWISE, SamplingConfig, takes_all
from gsplit.errors import InputError
from gsplit.files import read_json, replace_file
from gsplit.runs.folder import CONFIG, RESOLVED, RUNS
from gsplit.runs.starts import writing

logger = logging.getLogger(__name__)

NULL_IN_FILE = tuple(field.name for field in fields(ModelConfig))
"""Fields that are null in ``config.json`` where the model takes nothing of them."""
EVALUATION_FAN_OUT = 10
"""Neighbours that --evaluate sampled draws per hop where training draws none."""


def _turned(fanout: str) -> str:
    """Return what to say instead of DGL's ``--fanout``."""
    numbers = [number for number in fanout.split(",") if number]
    if not all(number.removeprefix("-").isdecimal() for number in numbers) or not numbers:
        numbers = ["5", "10", "15"]
    here, there = ",".join(reversed(numbers)), ",".join(numbers)
    return (
        "DGL's lists the layer of the inputs first, --fan-out that of the targets; say "
        f"--fan-out {here} for DGL's {there}"
    )


ELSEWHERE: dict[str, str | Callable[[str], str]] = {
    "--fanout": _turned,
    "--num-workers": "mini-batches are sampled for all trainers together; say --samplers, their number in all",
    "--num-nodes": "all trainers are on one host; say --gpus, their number",
    "--nproc-per-node": "it starts its trainers itself; say --gpus, their number",
}
"""Flags of DGL, PyG and torchrun that say something else here."""


# The fields of the last base come first, in --help too.
@dataclass(frozen=True, kw_only=True)
class TrainConfig(
    FeaturesConfig,
    ParallelConfig,
    LinksConfig,
    ObjectiveConfig,
    OptimisationConfig,
    SamplingConfig,
    ModelConfig,
    RunConfig,
):
    """Train a graph neural network, split-parallel, on all the GPUs of this host.

    Examples:
        >>> config = gsplit.TrainConfig(fan_out=(10, 5), hidden=64, lr=0.01, out="run")
        >>> config.layers, config.batch_size
        (2, 512)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy == "full":
            object.__setattr__(self, "fan_out", self._all_neighbours())
        check_needed(self)
        drawn = self.validate_fan_out
        if drawn is not None and len(drawn) != self.layers:
            raise InputError(
                f"--validate-fan-out has {len(drawn)} numbers, but the model has {self.layers} layers; give one for "
                "each"
            )
        if self.num_layers is not None and self.num_layers != self.layers:
            flag = "--layer-sizes" if self.sampling in LAYERWISE and self.strategy != "full" else "--fan-out"
            raise InputError(
                f"{flag} has {self.layers} numbers, but --num-layers is {self.num_layers}; "
                "give one number for each layer"
            )

    def _all_neighbours(self) -> tuple[int, ...]:
        """All neighbours at every hop, of as many as there are layers: nothing is sampled from the whole graph."""
        given = self.fan_out != SamplingConfig.fan_out and not takes_all(self.fan_out)
        if given and self.resume is None:
            raise InputError(
                f"--fan-out {','.join(map(str, self.fan_out))} contradicts --strategy full, which takes all "
                "neighbours; say --num-layers instead"
            )
        named = self.fan_out != SamplingConfig.fan_out and self.resume is None
        layers = self.layers if self.num_layers is None or named else self.num_layers
        if given:  # now, or of what was sampled before
            numbers = ",".join(map(str, self.fan_out))
            logger.warning(
                "--fan-out %s draws nothing with --strategy full, which takes all neighbours in %s layers",
                numbers,
                layers,
            )
        return (-1,) * layers

    @property
    def layers(self) -> int:
        """Number of layers of the model: by the rule one for each fan-out or layer size, or as it was configured."""
        if self.strategy == "full" or self.sampling == "neighbours":
            return len(self.fan_out)
        if self.sampling in LAYERWISE:
            return len(self.layer_sizes or ())
        return self.num_layers or len(self.layer_sizes or self.fan_out)  # those that the run had before

    @property
    def validates(self) -> bool:
        """True where a run validates in its course; an epoch of the whole graph is one mini-batch."""
        within = self.validate_every_batches and self.strategy != "full"
        return self.evaluate != "none" and bool(self.validate_every or within)

    @property
    def evaluation_fan_out(self) -> tuple[int, ...] | None:
        """Neighbours drawn per hop in evaluation, the first for the targets; None where all are taken."""
        if self.evaluate != "sampled":
            return None
        if self.validate_fan_out is not None:
            return tuple(self.validate_fan_out)
        if self.sampling == "neighbours" and self.strategy != "full":
            return self.fan_out
        return (EVALUATION_FAN_OUT,) * self.layers

    def to_json(self, unused: Collection[str] = ()) -> str:
        """The content of ``config.json``; null stands for ``unused`` fields, which had no effect."""
        values = self.values(unused)
        return json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in values.items()}, indent=2) + "\n"

    def values(self, unused: Collection[str] = ()) -> dict[str, Any]:
        """The fields by name, None for those in ``unused``."""
        return {f.name: None if f.name in unused else getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, path: Path) -> TrainConfig:
        """The configuration in a ``config.json``.

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
            return cls(
                **{name: value for name, value in values.items() if value is not None or name not in NULL_IN_FILE}
            )
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}") from None
        except FileNotFoundError:
            raise InputError(f"{path.parent} is no run: it has no {path.name}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged: {error}") from None

    @classmethod
    def resuming(cls, run: str | os.PathLike[str], **changes: Any) -> TrainConfig:
        """The configuration of a run, to go on with it: ``train(config=TrainConfig.resuming("run", epochs=60))``.

        On another layout the number of trainers follows it, unless ``gpus`` says otherwise.

        Raises:
            InputError: where ``run`` is no run.

        Examples:
            >>> config = gsplit.TrainConfig.resuming("run", epochs=60)
            >>> config.epochs, str(config.resume)
            (60, 'run')
        """
        run = Path(run)
        RUNS.recover(run)
        before = cls.from_json(run / CONFIG)
        forgotten = {name: getattr(cls, name) for name in marked(cls, NOT_RESUMED)}
        return replace(before, **{**forgotten, "resume": run, **changes})


def save_configurations(run: Path, asked: TrainConfig, resolved: TrainConfig, unused: Collection[str]) -> None:
    """Write what was asked for, the defaults of --resume, and what was decided.

    Args:
        run: the folder.
        asked, resolved: the two configurations.
        unused: fields that have no effect in either.

    Raises:
        InputError: where they cannot be written, such as on a full disk.
    """
    saved = {CONFIG: asked.to_json(unused), RESOLVED: resolved.to_json(unused)}
    with writing(run):
        for name, text in saved.items():
            replace_file(run / name, text.encode())
