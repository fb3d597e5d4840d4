"""From Python a list stands wherever the command line takes commas, and NumPy's numbers for Python's."""

from __future__ import annotations

import dataclasses
import re
import sys
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import pytest
import torch
from support.messages import line_with

import gsplit
from gsplit.config import fields
from gsplit.config.fields import Checked, checked, flag_of
from gsplit.config.partition import PartitionConfig, ReportConfig
from gsplit.config.predict import PredictConfig
from gsplit.config.train import TrainConfig
from gsplit.data.build_options import BuildOptions
from gsplit.data.importers.attached.link_files import LinkFiles
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.doctor.__main__ import DoctorConfig
from gsplit.errors import InputError, one_line
from gsplit.report.__main__ import PageConfig

COMMANDS = (TrainConfig, DoctorConfig, PredictConfig, PartitionConfig, ReportConfig, PageConfig)
ALL = (*COMMANDS, BuildOptions, Keys, IdOptions, TextRules, VertexFiles, LinkFiles)
SAMPLES = (1, 0, 5, 0.5, 1.5, 2, "1KiB", "50%", "1,2.5,1", "accuracy,ap", "mse", "metis", "age:number,name:category")
"""Each field takes one of these, given alone or as a list."""


def fields_of_all() -> dict[str, Any]:
    """The annotation of every field of every configuration, by name, and by class where two differ."""
    found: dict[str, Any] = {}
    for cls in ALL:
        for name, annotation in fields._annotations(cls).items():
            known = found.setdefault(name, annotation)
            if known != annotation:
                found[f"{cls.__name__}.{name}"] = annotation
    return found


FIELDS = fields_of_all()


def kind_of(annotation: Any) -> Any:
    """What a field holds where it holds anything."""
    inner, _ = fields._unwrapped(annotation)
    arms = [arm for arm in fields._arms(inner) if arm is not type(None)]
    return fields._unwrapped(arms[0])[0] if len(arms) == 1 else inner


def of_kind(wanted: Any) -> list[str]:
    def fits(kind: Any) -> bool:
        return kind is wanted or get_origin(kind) is wanted

    return [name for name, annotation in FIELDS.items() if fits(kind_of(annotation))]


def outcome(name: str, value: Any) -> Any:
    """What a field makes of a value, or what it says of it."""
    try:
        return checked(flag_of(name), value, FIELDS[name])
    except InputError as error:
        return str(error)


def taken(name: str, of: type | tuple[type, ...]) -> list[Any]:
    """Those of the samples that a field takes."""
    return [value for value in SAMPLES if isinstance(value, of) and not isinstance(outcome(name, value), str)]


def test_every_configuration_is_looked_at():
    bases = {"Checked", *(cls.__name__ for each in ALL for cls in each.__mro__ if issubclass(cls, Checked))}
    classes = [
        (name, base.strip())
        for path in Path(gsplit.__file__).parent.rglob("*.py")
        for name, of in re.findall(r"^class (\w+)\(([\w\s,.]+)\):", path.read_text(), re.MULTILINE)
        for base in of.split(",")
    ]
    assert {name for name, base in classes if base in bases} <= bases | {"Training", "Placed", "Resolved"}


@pytest.mark.parametrize("name", of_kind(str))
def test_a_text_is_also_a_list_of_what_stands_between_its_commas(name):
    for text in (value for value in SAMPLES if isinstance(value, str)):
        for given in (text.split(","), tuple(text.split(",")), np.array(text.split(","))):
            assert outcome(name, given) == outcome(name, text)
    for numbers in ([1, 2.5, 1], np.array([1, 2.5, 1], np.float32), torch.tensor([1, 2.5, 1])):
        assert outcome(name, numbers) in (outcome(name, "1,2.5,1"), outcome(name, "1.0,2.5,1.0"))
    assert "must be a list, not" in outcome(name, {"b", "a"})  # in no order


@pytest.mark.parametrize("name", of_kind(tuple))
def test_a_list_is_any_sequence_and_its_items_are_python_s(name):
    item = get_args(kind_of(FIELDS[name]))[0]
    lists: dict[Any, list[Any]] = {int: [2, 3, 4], str: ["a:number", "b:skip"], Path: ["a", "b/c"]}
    kept = lists.get(item, [0.5, 0.25, 0.25])
    given = [kept, tuple(kept), iter(kept), np.array(kept)]
    given += [torch.tensor(kept)] if not isinstance(kept[0], str) else []
    for value in given:
        got = outcome(name, value)
        assert got == tuple(map(item, kept) if item is Path else kept), value
        assert {type(each) for each in got} == {type(Path()) if item is Path else type(kept[0])}
    assert "must be a list" in outcome(name, set(kept))
    if item is int:
        for wrong in ([2, 2.5], [True], ["3"], np.array([1.0])):
            assert "must be a whole number" in outcome(name, wrong)


@pytest.mark.parametrize("name", of_kind(int))
def test_a_whole_number_may_be_numpy_s_or_pytorch_s(name):
    for number in taken(name, int) or pytest.fail("no sample is taken"):
        for given in (np.int64(number), np.uint8(number), np.array(number), torch.tensor(number)):
            got = outcome(name, given)
            assert (got, type(got)) == (number, int)
    assert "whole number" in outcome(name, np.float64(1))


@pytest.mark.parametrize("name", of_kind(float))
def test_a_number_may_be_numpy_s_or_pytorch_s(name):
    for number in taken(name, float) or pytest.fail("no sample is taken"):
        for given in (
            np.float32(number),
            np.float64(number),
            np.array(number),
            torch.tensor(number),
            Fraction(number),
        ):
            got = outcome(name, given)
            assert (got, type(got)) == (number, float)
    for odd in ("nan", "inf", "-inf"):
        assert isinstance(outcome(name, float(odd)), str), odd
        assert isinstance(outcome(name, np.float32(odd)), str), odd


@pytest.mark.parametrize("name", of_kind(bool))
def test_a_switch_may_be_numpy_s(name):
    assert outcome(name, np.bool_(True)) is True
    assert "true or false" in outcome(name, np.int64(1))


@pytest.mark.parametrize(
    ("cls", "given", "text"),
    [
        (TrainConfig, {"metrics": ("accuracy", "macro-f1")}, "accuracy,macro-f1"),
        (TrainConfig, {"class_weights": np.array([1, 0.1])}, "1.0,0.1"),
        (TrainConfig, {"pos_weight": 2.5}, "2.5"),
        (TrainConfig, {"model_args": {"heads": 2, "jk": "last"}}, "heads=2,jk='last'"),
        (TrainConfig, {"bulk": np.int64(4)}, "4"),
        (TrainConfig, {"fan_out_of": {"r": [0, -1], ("a", "of", "b"): np.array([5, 5])}}, "a__of__b=5,5,r=0,-1"),
        (TrainConfig, {"fan_out_of": "r = 0, -1,a__of__b=5,5"}, "a__of__b=5,5,r=0,-1"),
        (PartitionConfig, {"store": "s", "out": "o", "fan_out_of": {"a=b,c": (3,)}}, "a=b,c=3"),
        (TrainConfig, {"fan_out_of": {}}, ""),
        (PartitionConfig, {"store": "s", "out": "o", "subgraph": 100}, "100"),
        (Keys, {"mask_key": ("a", None, "b")}, "a,,b"),
        (IdOptions, {"source_column": ["bank", "account"]}, "bank,account"),
        (BuildOptions, {"split": (date(2024, 1, 1), np.datetime64("2024-07-01"))}, ("2024-01-01", "2024-07-01")),
        (VertexFiles, {"features": "a.npy"}, (Path("a.npy"),)),
        (VertexFiles, {"features": None}, ()),
    ],
)
def test_they_are_kept_in_one_type(cls, given, text):
    assert getattr(cls(**given), list(given)[-1]) == text


def test_a_list_gives_the_same_configuration_file():
    as_words = TrainConfig(metrics="accuracy,ap", fan_out=(3, 3), lr=0.5, class_weights="1.0,2.0")
    as_lists = TrainConfig(
        metrics=["accuracy", "ap"], fan_out=np.array([3, 3]), lr=np.float32(0.5), class_weights=[1.0, 2]
    )
    assert as_lists.to_json().replace("1.0,2", "1.0,2.0") == as_words.to_json()


def test_counts_of_a_graph_in_memory_are_numbers_of_any_kind():
    def made(number):
        return gsplit.from_arrays(np.array([[0, 1], [1, 2]]), y=[0, 1, 0], num_vertices=number, num_classes=number)

    for three in (3, np.int32(3), np.array(3), torch.tensor(3)):
        with made(three) as store:
            assert store.graph.num_classes == 3
    for wrong in (2.5, np.float64(3), True, "3"):
        with pytest.raises(InputError, match=line_with("gsplit.from_arrays, num_vertices")):
            made(wrong)


def test_the_line_names_the_call_in_the_script_not_code_that_was_generated_for_a_dataclass():
    calls = (
        lambda: TrainConfig(metrics=("accuracy", "macro-f2")),
        lambda: dataclasses.replace(TrainConfig(), lr=-1),
        lambda: gsplit.from_arrays(np.zeros((2, 1), int), split=(2, 0, 0)),
    )
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert one_line(caught.value).endswith(f"(test_lists.py, line {call.__code__.co_firstlineno})")


def test_the_line_names_a_program_given_on_the_command_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    with pytest.raises(InputError) as caught:
        exec("import gsplit\n\ngsplit.TrainConfig(lr=-1)", {"__name__": "__main__"})
    assert sys.excepthook is not sys.__excepthook__  # a configuration alone makes errors one line
    assert one_line(caught.value).endswith("(<string>, line 3)")
