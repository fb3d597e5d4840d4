"""The reference of flags has every field of the configurations, with its rules; the site has every page."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated

import pytest
import yaml

import gsplit.config
from gsplit.config.fields import Checked, Range, flag_of
from gsplit.config.flags import flags_of
from gsplit.config.resolved import Resolved
from gsplit.config.rules import COST, NOT_RESUMED, RESULTS, FixedInEpoch, Needed, Only, rules_of
from gsplit.config.train import TrainConfig
from tools import flags_page, site

ROOT = Path(__file__).parents[2]
PAGE = flags_page.render()
SECTIONS = dict(re.findall(r"^## (gsplit [^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
ELSEWHERE = {"TrainConfig", "Training", "Resolved", "Placed"}
"""Configurations that are parts of others, or what is decided from them."""


def entry(command: str, name: str) -> str:
    """What the page says of a flag of a command."""
    found = [
        text
        for head, text in re.findall(r"^#### `([^`]+)`\n(.*?)(?=^#|\Z)", SECTIONS[command], re.DOTALL | re.MULTILINE)
        if head in (flag_of(name), name.upper())
    ]
    assert len(found) == 1, f"{command} {name}: {len(found)}"
    return found[0]


CONFIGURATIONS = [
    (command, configuration)
    for command, configurations in flags_page.COMMANDS.items()
    for configuration in configurations
]


@pytest.mark.parametrize(("command", "configuration"), CONFIGURATIONS)
def test_every_field_is_there_with_its_rules(command, configuration):
    inherited = {field.name for field in fields(TrainConfig)} if command == "gsplit doctor" else set()
    docs = {flag.field: flag.about for flag in flags_of(configuration)}
    for field in fields(configuration):
        if field.name in inherited:
            continue
        text = entry(command, field.name)
        assert docs[field.name] in text
        assert "must be given" in text or "default" in text
        for rule in rules_of(configuration)[field.name]:
            if isinstance(rule, Range):
                assert flags_page.range_in_words(rule) in text.splitlines()[1]
            elif isinstance(rule, (Only, Needed)) or rule in (RESULTS, COST, NOT_RESUMED):
                assert f"- {flags_page.in_words(rule)}\n" in text
    for name in flags_page.FUNCTIONS.keys() & {command}:
        for argument in inspect.signature(flags_page.FUNCTIONS[name]).parameters.values():
            assert is_dataclass(argument.default) or entry(command, argument.name)


def test_every_configuration_is_there():
    found: set[type] = set()
    for module in pkgutil.iter_modules(gsplit.config.__path__):
        for value in vars(importlib.import_module(f"gsplit.config.{module.name}")).values():
            if inspect.isclass(value) and issubclass(value, Checked) and value is not Checked:
                found.add(value)
    shown = {configuration for _, configuration in CONFIGURATIONS}
    assert {each.__name__ for each in found - shown} == ELSEWHERE
    assert {field.name for field in fields(TrainConfig)} == {
        field.name for group in flags_page.GROUPS for field in fields(group)
    }
    assert issubclass(Resolved, TrainConfig)


def test_rules_are_sentences():
    said = {
        Only(optimizer="sgd"): "has an effect only with `--optimizer sgd`",
        Only(strategy=("split", "data", "full")): "has an effect only with `--strategy split`, `data` or `full`",
        Only(keep=None): "has an effect only without `--keep`",
        Only(task="labels"): "has an effect only where the task of the graph is labels",
        FixedInEpoch(): "cannot change in the middle of an epoch",
        Needed("a number"): "must be given where it has an effect: a number",
    }
    assert {rule: flags_page.in_words(rule) for rule in said} == said
    assert (
        flags_page.kind_of(Annotated[float | None, Range(above=0, below=float("inf"))]) == "number, above 0, finite"
    )
    assert flags_page.kind_of(Annotated[int, Range(1, 1024)]) == "whole number, from 1 to 1,024"


@pytest.mark.sources
def test_every_page_is_in_the_navigation():
    """And so is README, which is the first page."""
    found = yaml.safe_load(re.sub(r"!!\S+", "", (ROOT / "mkdocs.yml").read_text()))["nav"]
    listed = []
    while found:
        item = found.pop()
        values = item.values() if isinstance(item, dict) else [item]
        for value in values:
            (found.extend if isinstance(value, list) else listed.append)(value)
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(listed) == there | {"index.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert len(listed) == len(set(listed))


@pytest.mark.sources
def test_links_out_of_docs_lead_to_the_site():
    guide = ROOT / "docs" / "guides" / "x.md"
    moved = {
        "[a](../../README.md#install)": "[a](../index.md#install)",
        "[a](../../examples)": "[a](../examples/index.md)",
        "[a](../formats.md#layout)": "[a](../formats.md#layout)",
        "[a](nowhere.md)": "[a](nowhere.md)",
        "[a](https://x.org/a.md)": "[a](https://x.org/a.md)",
    }
    assert {text: site.moved_text(text, guide) for text in moved} == moved
    assert site.moved_text("[a](docs/formats.md)", ROOT / "README.md") == "[a](formats.md)"
    assert site.on_page_content("as :class:<code>~gsplit.nn.Block</code>") == "as <code>gsplit.nn.Block</code>"
    assert "own_csv.py" in site.listing(ROOT / "examples")
    assert site.FLAGS in {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert site.MARKER in (ROOT / "docs" / site.FLAGS).read_text()
