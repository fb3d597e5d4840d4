"""The precision of a run: one decision, whichever of its names asks for it."""

from __future__ import annotations

import pytest

from gsplit.config.train import TrainConfig
from gsplit.errors import InputError


@pytest.mark.parametrize(
    ("given", "precision"),
    [
        ({}, None),
        ({"precision": "bf16-mixed"}, "bf16-mixed"),
        ({"precision": "16-mixed"}, "16-mixed"),
        ({"precision": "32-true"}, "32"),
        ({"precision": "64-true"}, "64"),
        ({"dtype": "float64"}, "64"),
        ({"dtype": "float32", "precision": "32-true"}, "32"),
    ],
)
def test_each_name_is_one_of_four(given, precision):
    config = TrainConfig(**given)
    assert (config.precision, config.dtype) == (precision, None)


@pytest.mark.parametrize(
    ("dtype", "precision"), [("float64", "32"), ("float32", "64-true"), ("float32", "bf16-mixed")]
)
def test_two_different_answers_are_refused(dtype, precision):
    with pytest.raises(InputError, match=rf"--dtype {dtype} is --precision \d+, and --precision is .*; drop --dtype"):
        TrainConfig(dtype=dtype, precision=precision)


def test_a_configuration_of_an_earlier_release_has_its_dtype(tmp_path):
    path = tmp_path / "config.json"
    for dtype, precision in (("float32", "32"), ("float64", "64")):
        path.write_text(f'{{"dtype": "{dtype}"}}')
        assert TrainConfig.from_json(path).precision == precision
    path.write_text(TrainConfig(precision="16-mixed").to_json())
    assert TrainConfig.from_json(path).precision == "16-mixed"
