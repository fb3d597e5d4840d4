"""The one checker of configurations: what a field may hold follows from its annotation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from support.messages import line_with

from gsplit import cli
from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.train import ELSEWHERE, TrainConfig
from gsplit.errors import InputError
from gsplit.units import parse_bytes


@dataclass(frozen=True, kw_only=True)
class Config(Checked):
    """A field of each kind."""

    count: Annotated[int, Range(1, 9)] = 1
    perhaps: Annotated[int | None, Range(0)] = None
    rate: Annotated[float, Range(above=0, below=math.inf)] = 0.5
    share: Annotated[float, Range(least=0, below=1)] = 0.0
    sizes: Annotated[tuple[int, ...], Range(1)] = (1,)
    memory: Annotated[str, Accepted(parse_bytes)] = "1KiB"
    on: bool = False
    way: Literal["this", "that"] = "this"
    place: Path | None = None


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("count", 9, 9),
        ("count", np.int32(3), 3),
        ("perhaps", None, None),
        ("rate", 2, 2),
        ("rate", np.float32(0.25), 0.25),
        ("sizes", [2, 3], (2, 3)),
        ("memory", 4096, "4096"),
        ("place", "a/b", Path("a/b")),
    ],
)
def test_what_a_field_may_hold_gets_its_kind(field, value, kept):
    got = getattr(Config(**{field: value}), field)
    assert got == kept
    assert type(got) is type(kept)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("count", 0, "--count, 1, 0"),
        ("count", 10, "--count, 9, 10"),
        ("count", True, "--count, True"),
        ("count", 2.0, "--count, 2.0"),
        ("count", None, "--count, None"),
        ("perhaps", -1, "--perhaps, 0, -1"),
        ("rate", 0.0, "--rate, 0, 0.0"),
        ("rate", math.nan, "--rate, 0, nan"),
        ("rate", math.inf, "--rate, 0, inf"),
        ("rate", "1", "--rate, 1"),
        ("share", 1.0, "--share, 0, 1, 1.0"),
        ("share", math.nan, "--share, 0, 1, nan"),
        ("sizes", (1, 0), "--sizes, 1, 0"),
        ("sizes", 3, "--sizes, 3"),
        ("memory", "much", "--memory"),
        ("on", 1, "--on, 1"),
        ("way", "other", "--way, this, that, other"),
        ("place", 5, "--place, 5"),
    ],
)
def test_anything_else_is_refused_by_its_flag(field, value, message):
    with pytest.raises(InputError, match=line_with(message)):
        Config(**{field: value})


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--num-epochs", "3"], "epochs", 3),
        (["--hidden-channels", "64"], "hidden", 64),
        (["--num_hidden", "32"], "hidden", 32),
        (["--num-heads", "2"], "heads", 2),
        (["--wd", "5e-4"], "weight_decay", 5e-4),
        (["--eval-every", "5"], "validate_every", 5),
        (["--num-neighbors", "15,10"], "fan_out", (15, 10)),  # PyG's begins with the targets, too
    ],
)
def test_flags_that_say_the_same_elsewhere(words, field, value):
    config = cli.parse(TrainConfig, ["layout", *words], prog="gsplit train", answers=ELSEWHERE)
    assert getattr(config, field) == value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--epoch", "--epochs"), ("--hiden", "--hidden"), ("--fan-outs", "--fan-out"), ("--wdd", "--wd")],
)
def test_what_was_meant_is_the_nearest_of_a_flag_s_names(typed, meant):
    with pytest.raises(InputError, match=line_with(typed, meant)):
        cli.parse(TrainConfig, ["layout", typed, "1"], prog="gsplit train")


@pytest.mark.parametrize("flag", ELSEWHERE)
def test_flags_that_say_something_else_elsewhere_are_answered(flag):
    with pytest.raises(InputError, match=line_with(flag, "gsplit train, say --*")):
        cli.parse(TrainConfig, ["layout", flag, "1"], prog="gsplit train", answers=ELSEWHERE)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--fanout", "5,10,15", "--lr", "1"], "--fan-out 15,10,5, 5,10,15"),
        (["--fanout=10,-1"], "--fan-out -1,10, 10,-1"),
        (["--fanout", "10", "25"], "--fan-out 25,10, 10,25"),
        (["--fanout"], "--fan-out 15,10,5, 5,10,15"),
    ],
)
def test_dgl_s_fan_outs_are_answered_with_the_line_to_use(words, line):
    with pytest.raises(InputError, match=line_with(line)):
        cli.parse(TrainConfig, ["layout", *words], prog="gsplit train", answers=ELSEWHERE)
